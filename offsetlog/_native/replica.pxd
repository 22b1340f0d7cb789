cimport cython
from libc.stdint cimport int32_t, int64_t

from offsetlog._native.partition cimport Partition


# The replication calls of one partition.
@cython.final
cdef class Replica:
    cdef readonly Partition partition

    cdef int64_t move_watermark(self, int32_t epoch, int64_t offset) except -1
