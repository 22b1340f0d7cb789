cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from offsetlog._native.quotas cimport Quotas
from offsetlog._native.store_core cimport StoreCore

# The moment at which a call is answered.
cdef enum answer:
    ANSWER_PROCESS
    ANSWER_DISK
    ANSWER_REPLICAS


@cython.final
cdef class ManagerCore:
    cdef readonly StoreCore core
    cdef readonly Quotas quotas
    cdef readonly bint alone
    cdef readonly set short_of_replicas     # the partitions with too few replicas in sync
    cdef public object appended             # called with the number of a partition after each write, or None
    cdef object moved                       # called with the number of a partition after W has moved, or None
    cdef object settle
    cdef object park
    cdef list replicas                      # a Replica or None by number
    cdef bytearray attended                 # by number, whether somebody waits for W
    cdef int default
    cdef int64_t timeout_ms

    cdef int wrote(self, int32_t number) except -1
    cdef int admit(self, object group, object offsets, object client) except -1
    cdef int wait(self, int32_t number, int64_t end_offset, uint64_t term, int answer, object timeout) except -1
