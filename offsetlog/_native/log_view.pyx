"""The segments of an open partition at one moment, from which its log is replayed while it is cleaned."""

import os

cimport cython
from libc.stddef cimport size_t

from offsetlog._native.csrc cimport (
    ol_log_segment_at,
    ol_log_segment_info,
    ol_log_view,
    ol_log_view_at,
    ol_log_view_close,
    ol_log_view_is_current,
    ol_log_view_segment,
    ol_partition_log,
)
from offsetlog._native.partition cimport Partition

from offsetlog.errors import ClosedError, MissingFileError


def listed_segments(Partition partition not None):
    """Returns (base offset, bytes) of every segment of an open partition, in ascending order."""
    cdef ol_log_segment_info info
    cdef size_t index = 0
    cdef list found = []
    partition.enter()
    try:
        log = ol_partition_log(partition.handle)
        while ol_log_segment_at(log, index, &info):
            found.append((info.base_offset, info.size))
            index += 1
    finally:
        partition.leave()
    return found


@cython.no_gc_clear     # releasing it needs its owner
cdef class LogView:
    """A view of the segments of a partition that is open for writing.

    Cleaning, rolls and truncations do not change the view.

    `state_diff.cut` returns a view together with the digest and the log offset of a state.  A replay of the view up to
    that log offset gives the same state.  `close` of the partition waits until the view is closed.  The view is a
    context manager, and only one thread at a time may use it.
    """

    def __cinit__(self):
        self.view = NULL

    def __dealloc__(self):
        self.let_go()

    cdef void let_go(self) noexcept:
        cdef ol_log_view *view = self.view
        self.view = NULL
        if view == NULL:
            return
        # A forked child must not touch the segments that its parent keeps.
        if not self.owner.forked:
            with nogil:
                ol_log_view_close(view)
        self.owner.leave()

    def close(self):
        """Releases the segments; a second call does nothing."""
        self.let_go()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    cdef Py_ssize_t find(self, bytes path) except -1:
        cdef ol_log_view_segment segment
        cdef size_t index = 0
        while self.view != NULL and ol_log_view_at(self.view, index, &segment):
            if <bytes>segment.path == path:
                return <Py_ssize_t>index
            index += 1
        raise MissingFileError("this view has no such segment; segments() lists those it has", path=os.fsdecode(path))

    def segments(self):
        """Returns the paths of the segments, in ascending order of their base offsets."""
        cdef ol_log_view_segment segment
        cdef size_t index = 0
        cdef list found = []
        self._check_open()
        while ol_log_view_at(self.view, index, &segment):
            found.append(os.fsdecode(<bytes>segment.path))
            index += 1
        return found

    @property
    def is_current(self):
        """Whether no segment of the view has been replaced or truncated."""
        self._check_open()
        return bool(ol_log_view_is_current(self.view))

    def _check_open(self):
        if self.view == NULL or self.owner.forked:
            raise ClosedError("the view is closed")


cdef LogView own_view(Partition partition, ol_log_view *view):
    cdef LogView owner
    if view == NULL:
        partition.leave()
        return None
    owner = LogView.__new__(LogView)
    owner.view = view
    owner.owner = partition
    return owner
