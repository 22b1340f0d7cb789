cimport cython
from libc.stdint cimport uint64_t

cdef enum:
    BUCKETS = 20    # one more than there are bounds


@cython.final
cdef class Histogram:
    cdef uint64_t counts[BUCKETS]   # of each bucket, that of the longest durations last
    cdef readonly double seconds    # of all together

    cdef void add(self, double seconds, uint64_t times) noexcept
