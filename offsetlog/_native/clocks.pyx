"""A clock for partitions whose host controls the time."""

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class ManualClock:
    """A time of day, in milliseconds since 1970, that changes only when a caller sets it.

    The GIL protects the object.
    """

    def __init__(self, int64_t now):
        self.now = now

    @property
    def milliseconds(self):
        """The present time of the clock."""
        return self.now

    @milliseconds.setter
    def milliseconds(self, int64_t now):
        self.now = now


cdef int64_t read_manual_clock(void *clock) noexcept nogil:
    return (<ManualClock>clock).now
