cimport cython
from offsetlog._native.csrc cimport ol_log_view
from offsetlog._native.partition cimport Partition

# Takes ownership of a view after its partition was entered; for NULL, leaves the partition and returns None.
cdef LogView own_view(Partition partition, ol_log_view *view)

# Segments that are kept unchanged; the partition stays entered.
@cython.final
cdef class LogView:
    cdef ol_log_view *view
    cdef Partition owner

    cdef void let_go(self) noexcept
    # Returns the index of the segment that had this path; raises MissingFileError.
    cdef Py_ssize_t find(self, bytes path) except -1
