"""Finds the keys whose values differ between two states, after their digests have shown a difference.

A row is the tuple (kind, producer id, group, topic, partition, key, left, right).  The kind is "position", "pending" or
"group record"; a field that this kind does not have is None.  Left and right are the values in the two states; a value
is None if its state does not have the key.  The value of a position is (offset, log offset, leader epoch, metadata,
commit timestamp, expire timestamp, topic id as bytes or None).  The value of a group record is (bytes, XXH3-128 as int,
log offset, timestamp).
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport int64_t
from libc.string cimport memset

from offsetlog._native.buffers cimport text_of
from offsetlog._native.csrc cimport (
    OL_DIGEST_GROUP_RECORD,
    OL_DIGEST_PENDING,
    OL_TOPIC_ID_SIZE,
    ol_compared,
    ol_difference,
    ol_differences,
    ol_differences_free,
    ol_digest,
    ol_error,
    ol_hash128,
    ol_log_view,
    ol_snapshot_state,
    ol_state_diff,
    ol_state_diff_cut,
    ol_state_diff_live,
    ol_state_diff_read_live,
    ol_state_diff_settle,
)
from offsetlog._native.log_view cimport own_view
from offsetlog._native.partition cimport Partition
from offsetlog._native.replay cimport Replay
from offsetlog._native.snapshot cimport Snapshot
from offsetlog._native.status cimport check


cdef object _whole(ol_hash128 value):
    return (int(value.high) << 64) | int(value.low)


cdef object _position(const ol_compared *side):
    if not side.is_there:
        return None
    topic_id = None
    if side.value.topic_id != NULL:
        topic_id = PyBytes_FromStringAndSize(<const char *>side.value.topic_id, OL_TOPIC_ID_SIZE)
    return (
        side.value.offset,
        side.value.log_offset,
        side.value.leader_epoch,
        text_of(side.value.metadata.data, side.value.metadata.size),
        side.value.commit_timestamp,
        side.value.expire_timestamp,
        topic_id,
    )


cdef object _record(const ol_compared *side):
    if not side.is_there:
        return None
    return side.value_size, _whole(side.value_hash), side.value.log_offset, side.value.commit_timestamp


cdef tuple _row(const ol_difference *found):
    group = text_of(found.group.data, found.group.size)
    if found.kind == OL_DIGEST_GROUP_RECORD:
        key = PyBytes_FromStringAndSize(<const char *>found.key.data, <Py_ssize_t>found.key.size)
        return "group record", None, group, None, None, key, _record(&found.left), _record(&found.right)
    topic = text_of(found.topic.data, found.topic.size)
    if found.kind == OL_DIGEST_PENDING:
        kind, producer_id = "pending", found.producer_id
    else:
        kind, producer_id = "position", None
    return kind, producer_id, group, topic, found.partition, None, _position(&found.left), _position(&found.right)


cdef list _rows(const ol_differences *found, size_t limit):
    cdef size_t index
    return [_row(&found.items[index]) for index in range(min(limit, found.count))]


def compare(Replay left not None, Replay right not None, *, bint physical=True, size_t limit=20):
    """Compares two states.

    Returns the rows of at most `limit` keys whose values differ, and the number of further such keys.  With `physical`,
    two values also differ if only their log offsets do.  Raises CapacityError.
    """
    cdef ol_differences found
    cdef ol_error error
    memset(&found, 0, sizeof(found))
    found.limit = limit
    try:
        with nogil:
            check(ol_state_diff(&left.state, &right.state, physical, &found, &error), &error)
        return _rows(&found, limit), found.left_out
    finally:
        ol_differences_free(&found)


def compare_snapshot(Snapshot left not None, Replay right not None, *, size_t limit=20):
    """Compares the state of a snapshot with a replay, as `compare` does; the log offsets are compared too."""
    cdef ol_differences found
    cdef ol_error error
    left.need()
    memset(&found, 0, sizeof(found))
    found.limit = limit
    try:
        with nogil:
            check(ol_state_diff(ol_snapshot_state(left.handle), &right.state, True, &found, &error), &error)
        return _rows(&found, limit), found.left_out
    finally:
        ol_differences_free(&found)


def cut(Partition partition not None, *, bint physical=True):
    """Captures a live state: returns its digests, the log offset up to which the log was applied, and a LogView.

    The digests are (positions, group records, pending positions).  The LogView, which the caller must close, is None if
    the partition is not open for writing.  Commits wait during the call, but fetches do not.  Raises StateError,
    StorageError, CapacityError.
    """
    cdef ol_digest digest
    cdef ol_log_view *view = NULL
    cdef int64_t applied = 0
    cdef ol_error error
    partition.enter()
    try:
        with nogil:
            check(ol_state_diff_cut(partition.handle, physical, &digest, &applied, &view, &error), &error)
    except BaseException:
        partition.leave()
        raise
    held = own_view(partition, view)
    return (_whole(digest.positions), _whole(digest.group_records), _whole(digest.pending)), applied, held


@cython.final
cdef class LiveComparison:
    """The keys that may differ between a partition in use and a replay of its log (csrc/history/state_diff.h).

    The constructor finds the keys that may differ, while commits continue.  `read` then reads their present values, and
    the log offset up to which the log has been applied.  Finally, `settle` takes a replay up to that log offset, and
    drops the keys that do not differ from it.  One thread at a time may use the object.
    """

    cdef ol_differences found
    cdef Partition partition
    cdef bint physical

    def __cinit__(self):
        memset(&self.found, 0, sizeof(self.found))

    def __init__(self, Partition partition not None, Replay replay not None, int64_t cut, *, bint physical=True,
                 size_t limit=16384):
        """Takes a replay of the records below the log offset `cut`.

        Keeps at most `limit` keys, and counts the others in `left_out`.  Raises StateError, CapacityError.
        """
        cdef ol_error error
        ol_differences_free(&self.found)
        self.partition = partition
        self.physical = physical
        self.found.limit = limit
        partition.enter()
        try:
            with nogil:
                check(ol_state_diff_live(partition.handle, &replay.state, cut, physical, &self.found, &error), &error)
        finally:
            partition.leave()

    def __dealloc__(self):
        ol_differences_free(&self.found)

    def read(self):
        """Reads the keys from the live state again.
        
        Returns the log offset of the state that has these values, and a LogView, as `cut` does.
        """
        cdef ol_error error
        cdef ol_log_view *view = NULL
        cdef int64_t applied = 0
        self.partition.enter()
        try:
            with nogil:
                check(ol_state_diff_read_live(self.partition.handle, &self.found, &applied, &view, &error), &error)
        except BaseException:
            self.partition.leave()
            raise
        return applied, own_view(self.partition, view)

    def settle(self, Replay replay not None):
        """Keeps only the keys whose values differ from those in a replay."""
        cdef ol_error error
        with nogil:
            check(ol_state_diff_settle(&replay.state, self.physical, &self.found, &error), &error)

    @property
    def count(self):
        """The present number of keys."""
        return self.found.count

    @property
    def left_out(self):
        """The number of keys that the constructor found but did not keep because of the limit."""
        return self.found.left_out

    def rows(self, size_t limit=20):
        """Returns the rows of at most `limit` keys."""
        return _rows(&self.found, limit)
