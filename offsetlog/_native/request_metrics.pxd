cimport cython
from libc.stdint cimport int64_t, uint64_t

from offsetlog._native.histogram cimport Histogram


@cython.final
cdef class RequestMetrics:
    cdef readonly list latencies        # Histogram by the key of the API, None: no request yet
    cdef readonly dict errors           # (API, error code) -> how many answers
    cdef readonly int64_t commits       # requests whose positions were committed
    cdef readonly int64_t positions     # the positions in these requests

    cdef int add(self, int api_key, double seconds, uint64_t times) except -1
