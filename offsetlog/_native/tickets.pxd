cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from offsetlog._native.csrc cimport ol_flusher
from offsetlog._native.partition cimport Partition

cdef enum durability_kind:
    DURABILITY_PROCESS
    DURABILITY_DISK

cdef int durability_of(object value, durability_kind default) except -1
cdef object new_position(int32_t number, int64_t end_offset)

# The partitions of a store for which a caller will wait, and the threads that flush them together.
@cython.final
cdef class Flushes:
    cdef ol_flusher *threads        # NULL in a store without background threads, and once stopped
    cdef list wanted                # partitions with tickets for which no flush was begun
    cdef list begun                 # partitions that the threads may be flushing
    cdef object waiter

    cdef int want(self, Partition partition) except -1
    cdef int begin_wanted(self, Partition except_for) except -1
    cdef int begin(self, list partitions) except -1
    cdef void stop(self) noexcept
    cdef void forget(self) noexcept


@cython.final
cdef class Ticket:
    cdef Flushes flushes
    cdef Partition owner
    cdef durability_kind durability
    cdef int64_t end_offset
    cdef uint64_t term
