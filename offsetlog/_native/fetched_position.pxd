from offsetlog._native.csrc cimport ol_position_value

# Returns the OffsetAndMetadata of a value; the caller has decoded the metadata.
cdef object new_offset_and_metadata(const ol_position_value *value, str metadata)
