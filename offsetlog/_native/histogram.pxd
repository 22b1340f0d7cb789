cimport cython
from libc.stdint cimport uint64_t

cdef enum:
    BUCKETS = 20    # one more than the number of bounds


@cython.final
cdef class Histogram:
    cdef uint64_t counts[BUCKETS]   # by bucket, the longest durations last
    cdef readonly double seconds    # the sum of all durations

    cdef void add(self, double seconds, uint64_t times) noexcept
