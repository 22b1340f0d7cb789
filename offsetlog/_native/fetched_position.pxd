from offsetlog._native.csrc cimport ol_position_value

# The OffsetAndMetadata of a value, whose metadata the caller has decoded.
cdef object new_offset_and_metadata(const ol_position_value *value, str metadata)
