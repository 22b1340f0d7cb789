cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from offsetlog._native.csrc cimport ol_item, ol_slice
from offsetlog._native.quotas cimport Quotas
from offsetlog._native.store_core cimport StoreCore

# The events after which a call is answered.
cdef enum answer:
    ANSWER_PROCESS
    ANSWER_DISK
    ANSWER_REPLICAS


# The records that a call has written, and its result once they are durable.
cdef struct written:
    int32_t number
    int64_t end_offset      # -1: nothing had to be written
    uint64_t term
    int64_t count           # -1: the result is the position


@cython.final
cdef class ManagerCore:
    cdef readonly StoreCore core
    cdef readonly Quotas quotas
    cdef readonly bint alone
    cdef readonly set short_of_replicas     # the partitions with too few replicas in sync
    cdef public object fenced_by            # called with group, positions and timeout for each fence, or None
    cdef public object appended             # called with the number of a partition after each write, or None
    cdef public object check_epoch          # called with number and leader epoch if there is no log; refuses a wrong one
    cdef object moved                       # called with the number of a partition after W has moved, or None
    cdef object settle
    cdef object check_lease                 # called with the number of a partition whose table alone answers a call
    cdef object flush                       # called with the number of a partition for whose flush a call waits
    cdef list for_watermark                 # a Parking by number
    cdef list for_disk
    cdef list replicas                      # a Replica or None by number
    cdef bytearray attended                 # by number, whether a call waits for W
    cdef int default
    cdef int64_t timeout_ms

    cdef int admit(self, object group, object offsets, object client, object principal) except -1
    cdef int admit_write(self, int32_t number) except -1
    cdef int64_t limit_of(self, object timeout) except -2
    cpdef int report_written(self, int32_t number) except -1
    cdef int report_delete(self, int32_t number, int64_t end_offset, uint64_t term, int64_t count, written *write) except -1
    cdef int wait(self, int32_t number, int64_t end_offset, uint64_t term, int answer, int64_t timeout_ms) except -1
    cdef object waited(self, written *write, object timeout)
    cdef object parked(self, written *write, int answer, int64_t timeout_ms, object refusal=*)
    cdef int wait_settled(self, int32_t number, object refused, int64_t timeout_ms) except -1
    cdef object park_settled(self, int32_t number, object refused, int64_t timeout_ms)
    cdef object commit_conditional(self, object group, object offsets, object expected, bint monotonic, object generation,
                                   written *write)
    cdef Py_ssize_t take_positions(self, ol_slice group, dict offsets, bint any_offset, ol_item *items, list kept) except -1
    cdef int write_any(self, object group, dict offsets, written *write) except -1
    cdef dict own_positions(self, object group, object offsets)
    cdef int write_fence(self, object group, object offsets, written *write) except -1
    cdef int write_delete(self, object group, list keys, written *write) except -1
    cdef int write_delete_group(self, object group, written *write) except -1
    cdef int write_group_records(self, object group, list records, object offsets, written *write) except -1
