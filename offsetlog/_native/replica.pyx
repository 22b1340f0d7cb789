"""One replicated partition, for its host: it leads, follows, moves the high watermark W, and reads for other replicas.

The caller passes the leader epoch that it knows as `epoch`.  If it is older than the newest leader epoch known here,
the call raises FencedLeaderEpochError.  If it is newer, the call raises UnknownLeaderEpochError; but `become_leader`
and `become_follower` accept a newer epoch.  A refused call changes nothing (docs/architecture.md §7).
"""

import os

from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from offsetlog._native.csrc cimport (
    OL_READ_WATERMARK,
    OL_READ_WRITTEN,
    ol_digest,
    ol_error,
    ol_file_range,
    ol_leadership,
    ol_log_end,
    ol_log_end_for_epoch,
    ol_log_epoch_at,
    ol_log_flushed,
    ol_log_leader_epoch,
    ol_log_start,
    ol_log_transaction,
    ol_partition_advance,
    ol_partition_append,
    ol_partition_become_follower,
    ol_partition_become_leader,
    ol_partition_digest,
    ol_partition_file_range,
    ol_partition_leadership,
    ol_partition_log,
    ol_partition_positions,
    ol_partition_read,
    ol_partition_restart_at,
    ol_partition_transaction_at,
    ol_partition_truncate,
    ol_partition_unload,
    ol_positions,
    ol_read_up_to,
)
from offsetlog._native.findings cimport whole_of
from offsetlog._native.log_queries cimport aborted_between, batches_of, record_at_time, size_between
from offsetlog._native.partition cimport Partition
from offsetlog._native.status cimport check

from offsetlog.types import EpochEnd, FileRange, Leadership, LogPositions


cdef class Replica:
    """The replication calls of an open partition, which must have been opened with `replicated`.

    Any thread may call every method.  All methods raise ClosedError once the partition is closed.  The owner of the
    partition closes it.
    """

    def __init__(self, Partition partition not None):
        self.partition = partition

    # -------------------------------------------------------------------------------------------------- leadership

    def become_leader(self, int32_t epoch, *, bint alone=False):
        """Makes this replica the leader.  With `alone`, there is no other replica, and W follows the log end by itself.

        The partition need not be loaded yet.  Until it is, plain commits are appended to the log, and the load applies
        them.

        Raises:
            FencedLeaderEpochError: the epoch is not above the newest one known, or another replica leads in this epoch.
            CorruptionError, StorageError: a record at or above W cannot be read, or the list of epochs cannot be written.
            ReadOnlyError, PartitionFailedError, DiskFullError, CapacityError.
        """
        cdef Partition partition = self.partition
        cdef ol_error error
        partition.enter()
        try:
            with nogil:
                check(ol_partition_become_leader(partition.handle, epoch, alone, &error), &error)
        finally:
            partition.leave()

    def become_follower(self, int32_t epoch):
        """Makes this replica a follower.  A leader that resigns passes its own epoch.

        Waiting commits raise NotCoordinatorError.
        """
        cdef Partition partition = self.partition
        cdef ol_error error
        partition.enter()
        try:
            with nogil:
                check(ol_partition_become_follower(partition.handle, epoch, &error), &error)
        finally:
            partition.leave()

    def unload(self, int32_t epoch):
        """Drops the table of a follower to free memory.  `Partition.load` loads it again."""
        cdef Partition partition = self.partition
        cdef ol_error error
        partition.enter()
        try:
            with nogil:
                check(ol_partition_unload(partition.handle, epoch, &error), &error)
        finally:
            partition.leave()

    @property
    def leadership(self):
        """The Leadership: the newest leader epoch that this replica knows, whether it leads in this epoch, and more."""
        cdef Partition partition = self.partition
        cdef ol_leadership now
        partition.enter()
        try:
            with nogil:
                ol_partition_leadership(partition.handle, &now)
        finally:
            partition.leave()
        return Leadership(now.epoch, bool(now.leads), bool(now.alone), now.term, now.elected_end)

    # --------------------------------------------------------------------------------------------------- following

    def append(self, int32_t epoch, const uint8_t[::1] batches not None):
        """Appends complete batches from the leader of the epoch; returns the log end offset.

        Raises:
            CorruptionError: the bytes are not batches, do not continue the log, or have a later epoch than the leader.
        """
        cdef Partition partition = self.partition
        cdef ol_error error
        cdef size_t size = <size_t>batches.shape[0]
        cdef const uint8_t *data = &batches[0] if size > 0 else NULL
        partition.enter()
        try:
            with nogil:
                check(ol_partition_append(partition.handle, epoch, data, size, &error), &error)
            return ol_log_end(ol_partition_log(partition.handle))
        finally:
            partition.leave()

    def advance(self, int32_t epoch, int64_t offset):
        """Moves the high watermark W forward to min(offset, log end), and applies the records below W; returns W.

        W is never moved back.
        """
        return self.move_watermark(epoch, offset)

    cdef int64_t move_watermark(self, int32_t epoch, int64_t offset) except -1:
        cdef Partition partition = self.partition
        cdef ol_positions positions
        cdef ol_error error
        partition.enter()
        try:
            with nogil:
                check(ol_partition_advance(partition.handle, epoch, offset, &error), &error)
                ol_partition_positions(partition.handle, &positions)
        finally:
            partition.leave()
        return positions.watermark

    def check_cut(self, int32_t epoch):
        """Raises the error that `truncate` with this epoch would raise now.  Changes nothing."""
        self.truncate(epoch, INT64_MAX)

    def truncate(self, int32_t epoch, int64_t offset):
        """Truncates a follower's log to an offset.

        Returns whether the state was dropped, so that it must be loaded again.
        """
        cdef Partition partition = self.partition
        cdef ol_error error
        partition.enter()
        try:
            with nogil:
                check(ol_partition_truncate(partition.handle, epoch, offset, &error), &error)
        finally:
            partition.leave()
        return partition.role == "unloaded"

    def restart_at(self, int32_t epoch, int64_t offset):
        """Drops a follower's log, and begins a new log at a log offset, which is the start of the leader's log.

        The partition must then be loaded again.

        Raises:
            InvalidArgumentError: the offset is below the log end.
        """
        cdef Partition partition = self.partition
        cdef ol_error error
        partition.enter()
        try:
            with nogil:
                check(ol_partition_restart_at(partition.handle, epoch, offset, &error), &error)
        finally:
            partition.leave()

    # ----------------------------------------------------------------------------------------------------- reading

    def positions(self):
        """Returns the LogPositions."""
        cdef Partition partition = self.partition
        cdef ol_positions positions
        partition.enter()
        try:
            ol_partition_positions(partition.handle, &positions)
            start = ol_log_start(ol_partition_log(partition.handle))
        finally:
            partition.leave()
        return LogPositions(start, positions.written, positions.flushed, positions.watermark, positions.applied)

    def digest(self, bint physical=False):
        """Returns the digests of the applied state, as `Partition.digest` does.

        The role of the replica does not matter.

        Raises:
            CoordinatorLoadingError: the state has not been loaded.
        """
        cdef Partition partition = self.partition
        cdef ol_digest digest
        cdef int64_t applied
        cdef ol_error error
        partition.enter()
        try:
            with nogil:
                check(ol_partition_digest(partition.handle, physical, &digest, &applied, &error), &error)
        finally:
            partition.leave()
        return whole_of(digest.positions), whole_of(digest.group_records), whole_of(digest.pending), applied

    def last_epoch(self):
        """Returns the newest leader epoch of the log, -1 if there is none."""
        cdef Partition partition = self.partition
        partition.enter()
        try:
            return ol_log_leader_epoch(ol_partition_log(partition.handle))
        finally:
            partition.leave()

    def epoch_before(self, int64_t offset):
        """Returns the leader epoch of the record before a log offset; -1 if it is unknown or there is no record."""
        cdef Partition partition = self.partition
        partition.enter()
        try:
            return ol_log_epoch_at(ol_partition_log(partition.handle), offset - 1)
        finally:
            partition.leave()

    def end_offset_for_epoch(self, int32_t epoch):
        """Returns the EpochEnd of the greatest epoch of the log that is at most `epoch` (docs/format/leader-epochs.md §12).

        Both fields are -1 if the log has no such epoch.
        """
        cdef Partition partition = self.partition
        cdef int32_t found
        cdef int64_t end
        partition.enter()
        try:
            with nogil:
                ol_log_end_for_epoch(ol_partition_log(partition.handle), epoch, &found, &end)
        finally:
            partition.leave()
        return EpochEnd(found, end)

    def read_into(self, int64_t offset, uint8_t[::1] buffer not None, *, int32_t epoch=-1, bint uncommitted=False):
        """Reads complete batches into a buffer, from the batch that contains `offset` on; returns the number of bytes.

        Args:
            offset: a log offset, from the log start to the log end.
            buffer: a writable buffer of at least 61 bytes.
            epoch: the leader epoch that the reader knows; -1 to accept any.
            uncommitted: whether batches at and above W are read too, which followers need.

        Raises:
            OffsetOutOfRangeError: the log does not have the offset.
            TooLargeError: the first batch does not fit; the message says how many bytes it needs.
            CorruptionError, StorageError.
        """
        cdef Partition partition = self.partition
        cdef size_t capacity = <size_t>buffer.shape[0]
        cdef uint8_t *data = &buffer[0] if capacity > 0 else NULL
        cdef ol_read_up_to up_to = OL_READ_WRITTEN if uncommitted else OL_READ_WATERMARK
        cdef size_t size
        cdef ol_error error
        partition.enter()
        try:
            with nogil:
                check(ol_partition_read(partition.handle, epoch, offset, up_to, data, capacity, &size, &error), &error)
        finally:
            partition.leave()
        return size

    def file_range(self, int64_t offset, size_t size_max, *, int32_t epoch=-1, bint uncommitted=False):
        """Returns the FileRange of the bytes that `read_into` would read, for sendfile.

        The range may end within a batch.

        Raises as `read_into`.
        """
        cdef Partition partition = self.partition
        cdef ol_read_up_to up_to = OL_READ_WRITTEN if uncommitted else OL_READ_WATERMARK
        cdef ol_file_range found
        cdef ol_error error
        partition.enter()
        try:
            with nogil:
                check(ol_partition_file_range(partition.handle, epoch, offset, up_to, size_max, &found, &error), &error)
        finally:
            partition.leave()
        return FileRange(os.fsdecode(<bytes>found.path), found.position, found.size)

    # --------------------------------------------------------------------------------------------------- consuming

    def last_stable_offset(self):
        """Returns the lower of W and the first offset of the oldest open transaction."""
        cdef Partition partition = self.partition
        cdef ol_log_transaction oldest
        cdef ol_positions positions
        cdef bint found
        partition.enter()
        try:
            with nogil:
                found = ol_partition_transaction_at(partition.handle, 0, &oldest)
                ol_partition_positions(partition.handle, &positions)
        finally:
            partition.leave()
        return min(oldest.first_offset, positions.watermark) if found else positions.watermark

    def read(self, int64_t offset, int64_t end, int64_t size_max, *, bint whole_first=False):
        """Reads complete batches; see TopicLog.read."""
        cdef Partition partition = self.partition
        partition.enter()
        try:
            return batches_of(ol_partition_log(partition.handle), offset, end, size_max, whole_first)
        finally:
            partition.leave()

    def size_between(self, int64_t offset, int64_t end, int64_t size_max):
        """Returns how many bytes `read` would find in the segment that has `offset`; raises the errors of `read`."""
        cdef Partition partition = self.partition
        partition.enter()
        try:
            return size_between(ol_partition_log(partition.handle), offset, end, size_max)
        finally:
            partition.leave()

    def aborted(self, int64_t begin, int64_t end):
        """Returns (producer id, first offset) of the aborted transactions that overlap [begin, end)."""
        cdef Partition partition = self.partition
        partition.enter()
        try:
            return aborted_between(ol_partition_log(partition.handle), begin, end)
        finally:
            partition.leave()

    def record_at_time(self, int64_t time, int64_t end):
        """Returns the TimedRecord of a time, None if no record matches; see TopicLog.record_at_time."""
        cdef Partition partition = self.partition
        partition.enter()
        try:
            return record_at_time(ol_partition_log(partition.handle), &partition.decompressor.port, time, end)
        finally:
            partition.leave()
