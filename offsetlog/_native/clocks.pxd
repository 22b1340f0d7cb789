cimport cython
from libc.stdint cimport int64_t


# A clock that its owner sets, for hosts that control the time, such as a simulation.
@cython.final
cdef class ManualClock:
    cdef int64_t now


cdef int64_t read_manual_clock(void *clock) noexcept nogil
