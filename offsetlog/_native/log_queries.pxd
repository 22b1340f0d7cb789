from libc.stdint cimport int64_t

from offsetlog._native.csrc cimport ol_decompressor, ol_log

# Queries of consumers to a log, which the caller keeps open.  The queries release the GIL during disk reads.
cdef bytes batches_of(ol_log *log, int64_t offset, int64_t end, int64_t size_max, bint whole_first)
cdef int64_t size_between(ol_log *log, int64_t offset, int64_t end, int64_t size_max) except -1
cdef tuple aborted_between(ol_log *log, int64_t begin, int64_t end)
cdef object record_at_time(ol_log *log, const ol_decompressor *decompressor, int64_t time, int64_t end)
