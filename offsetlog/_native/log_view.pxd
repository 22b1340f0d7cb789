cimport cython
from offsetlog._native.csrc cimport ol_log_view, ol_log_view_segment
from offsetlog._native.files cimport FileSystem
from offsetlog._native.partition cimport Partition

# Takes a view over, of which the partition was entered; NULL is None, and the partition is left at once.
cdef LogView own_view(Partition partition, ol_log_view *view)

# Segments that are held; the partition stays entered.
@cython.final
cdef class LogView:
    cdef ol_log_view *view
    cdef Partition owner
    cdef FileSystem fs

    cdef void let_go(self) noexcept
    # Fills *segment with the one that had this path; raises MissingFileError.
    cdef int find(self, bytes path, ol_log_view_segment *segment) except -1
