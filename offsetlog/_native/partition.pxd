cimport cython
from libc.stdint cimport int64_t, uint64_t

from offsetlog._native.clocks cimport ManualClock
from offsetlog._native.csrc cimport ol_partition, ol_partition_is_flushed
from offsetlog._native.decompress cimport Decompressor
from offsetlog._native.files cimport FileSystem

# The owner of one ol_partition.  Every use of `handle` without the GIL is between enter and leave, for which close() waits:
#
#     partition.enter()
#     try:
#         with nogil:
#             ...
#     finally:
#         partition.leave()
@cython.final
cdef class Partition:
    cdef ol_partition *handle
    cdef readonly int number
    cdef readonly bint writable
    cdef readonly bint replicated   # whether its host moves W
    cdef readonly dict recovery
    cdef readonly dict lost_keys
    cdef FileSystem fs
    cdef Decompressor decompressor
    cdef ManualClock clock          # None: the system's
    cdef bytes directory
    cdef bytes topic_id_given
    cdef int64_t flushed_at_close
    cdef bint wanted                # whether it is in Flushes.wanted
    cdef bint begun                 # whether it is in Flushes.begun
    cdef int in_flight
    cdef bint closing
    cdef object refusal             # raised by every later call; None: not retired
    cdef bint forked
    cdef object idle
    cdef object __weakref__

    cdef int enter(self) except -1
    cdef void leave(self) noexcept
    cdef bint _begin_close(self) except -1
    cdef object _until_idle(self)
    cdef int _refuse_wait(self) except -1
    cdef int wait_for(self, int64_t end_offset, uint64_t term, int what, int64_t timeout_ms) except -1

    # While the GIL is held, the partition cannot be closed.
    cdef inline bint is_flushed(self, int64_t end_offset, uint64_t term) noexcept:
        if self.handle == NULL:
            return end_offset <= self.flushed_at_close
        return ol_partition_is_flushed(self.handle, end_offset, term)
