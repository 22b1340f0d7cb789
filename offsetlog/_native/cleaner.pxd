from offsetlog._native.csrc cimport atomic_flag_value, ol_clean_hold, ol_clean_progress, ol_clean_report, ol_compressor


cdef class Compressor:
    cdef ol_compressor port
    cdef dict _outputs


cdef class CleanControl:
    cdef atomic_flag_value _stop
    cdef ol_clean_progress _progress


cdef dict described_report(const ol_clean_report *report)


# Converts (group or prefix, whether it is a prefix, log offset); the caller frees the result, which is valid as long as `holds`.
cdef ol_clean_hold *take_holds(list holds) except? NULL
