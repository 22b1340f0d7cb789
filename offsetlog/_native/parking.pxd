cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from offsetlog._native.completion cimport Completion
from offsetlog._native.partition cimport Partition

# A write that is not answered yet.
@cython.final
cdef class PendingWrite(Completion):
    cdef int32_t number             # the number of the log partition
    cdef Partition owner            # None if nothing was written, or the manager is stopped
    cdef int64_t end_offset         # 0 if nothing was written
    cdef uint64_t term
    cdef int64_t count              # the result of the call; -1: the result is the position
    cdef int64_t timeout_ms
    cdef double deadline            # in seconds, by the executor's clock
    cdef object refusal             # raised once W has settled the record that it rests on; None: it was written


cdef PendingWrite new_write(int32_t number, Partition owner, int64_t end_offset, uint64_t term, int64_t count)


# The writes to one partition that wait for the same event, by end offset.  The GIL guards them, as it does a Completion.
@cython.final
cdef class Parking:
    cdef int what                   # ol_wait_for
    cdef list writes
    cdef object now
    cdef object call_later
    cdef object timer
    cdef double armed               # when the next timer fires at the latest; infinity: no timer
    cdef bint flush_ordered         # and the flush has not begun
    cdef bint closed

    cdef int park(self, PendingWrite write, int64_t timeout_ms) except -1
    cdef bint order_flush(self) noexcept
    cdef int check(self, PendingWrite write) except -1
    cdef int settle_one(self, PendingWrite write) except -1
    cdef int arm(self, double deadline) except -1
    cdef void insert(self, PendingWrite write)
    cdef list taken(self, int64_t reached)
