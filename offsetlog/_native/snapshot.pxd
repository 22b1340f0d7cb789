from offsetlog._native.csrc cimport atomic_flag_value, ol_snapshot, ol_snapshot_section
from offsetlog._native.partition cimport Partition

cdef class StopFlag:
    cdef atomic_flag_value asked

# A snapshot that is being made or was opened from a file; the handle is NULL once it was used up.
cdef class Snapshot:
    cdef ol_snapshot *handle
    cdef ol_snapshot_section *sections
    cdef Partition lender

    cdef int need(self) except -1
    cdef int need_state(self) except -1
