"""One open partition of the offsets log: its life cycle, its whole state, and waits for durability.

`store_core` commits and fetches positions.  `commit_columns` and `fetch_columns` do the same with Arrow columns.
"""

import os
import threading
import weakref
from copy import copy

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from offsetlog._native.buffers cimport NAME_GROUP, take_name, take_timeout, text_of
from offsetlog._native.csrc cimport (
    OL_CONTROL_ABORT,
    OL_CONTROL_COMMIT,
    OL_OWN_PRODUCER_ID_MIN,
    OL_ROLE_ACTIVE,
    OL_ROLE_FAILED,
    OL_ROLE_FOLLOWER,
    OL_ROLE_LOADING,
    OL_ROLE_UNLOADED,
    OL_TERM_NOW,
    OL_VALUE_V4_ALWAYS,
    OL_VALUE_V4_AUTO,
    OL_VALUE_V4_NEVER,
    OL_WAIT_FLUSHED,
    OL_WAIT_WATERMARK,
    ol_commit_result,
    ol_copied_transaction,
    ol_digest,
    ol_error,
    ol_group_record,
    ol_group_records_memory_usage,
    ol_group_records_next,
    ol_key,
    ol_key_decode,
    ol_load_progress,
    ol_log_leader_epoch,
    ol_log_recovery,
    ol_log_size_bytes,
    ol_log_start,
    ol_log_topic_id,
    ol_partition,
    ol_partition_abandon,
    ol_partition_check_producer,
    ol_partition_close,
    ol_partition_delete_group,
    ol_partition_end_transaction,
    ol_partition_is_read_only,
    ol_partition_load,
    ol_partition_lock_state,
    ol_partition_log,
    ol_partition_open,
    ol_partition_options,
    ol_partition_options_init,
    ol_partition_positions,
    ol_partition_scratch_bytes,
    ol_partition_problem_at,
    ol_partition_progress,
    ol_partition_role,
    ol_partition_unlock_state,
    ol_partition_wait,
    ol_pending_has_group,
    ol_pending_memory_usage,
    ol_positions,
    ol_problem,
    ol_slice,
    ol_state,
    ol_state_digest,
    ol_table_count,
    ol_table_cursor,
    ol_table_group_hash,
    ol_table_group_positions,
    ol_table_memory,
    ol_table_memory_usage,
    ol_table_next_group,
    ol_transaction_copy,
    ol_transaction_copy_free,
    ol_transaction_copy_row,
    ol_transaction_copy_take,
)
from offsetlog._native.clocks cimport ManualClock, read_manual_clock
from offsetlog._native.commit_items cimport resting
from offsetlog._native.findings cimport append_of, failure_of, groups_of, problem_of, recovery_of, whole_of
from offsetlog._native.status cimport check

from offsetlog.errors import ClosedError, GenerationError, InternalError, PartitionFailedError

cdef dict VALUE_V4 = {"auto": OL_VALUE_V4_AUTO, "always": OL_VALUE_V4_ALWAYS, "never": OL_VALUE_V4_NEVER}
ROLES = {
    OL_ROLE_UNLOADED: "unloaded",
    OL_ROLE_LOADING: "loading",
    OL_ROLE_ACTIVE: "active",
    OL_ROLE_FOLLOWER: "follower",
    OL_ROLE_FAILED: "failed",
}

# Every open partition of this process, so that a forked child can release them all.
cdef object _open_partitions = weakref.WeakSet()


def _forget_after_fork():
    cdef Partition partition
    for partition in list(_open_partitions):
        partition.forked = True
        partition.closing = True
        # Another thread of the parent may have been in a call; the partition then stays unchanged in this child.
        if partition.handle != NULL and partition.in_flight == 0:
            ol_partition_abandon(partition.handle)
        partition.handle = NULL
    _open_partitions.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


@cython.no_gc_clear  # an open partition is closed through its file system
cdef class Partition:
    """An open partition directory and its state in memory.

    Creating the object opens the log; if the log is opened for writing, it is also recovered.  `load` then replays the
    log, and `close` ends the use.  Any thread may call every method.  `close` waits for the calls in progress.  After
    `close`, and in a forked child process, calls that need the open log raise ClosedError.
    """

    def __cinit__(self):
        self.handle = NULL
        self.in_flight = 0
        self.closing = False
        self.forked = False
        self.flushed_at_close = -1

    def __init__(self, directory, int number, FileSystem fs not None, Decompressor decompressor, config, *, bint writable,
                 bint create=False, bint clean=False, int64_t recovery_point=-1, int64_t log_start_offset=-1,
                 bint goes_on_from_snapshot=False, witness=None, bint accept_loss=False, bytes topic_id=None, bint replicated=False, int64_t watermark=-1,
                 uint64_t term=0, bint refuse_while_loading=False, ManualClock clock=None):
        """Opens a partition directory; `config` is a StoreConfig, `witness` a Witness of the log directory.

        If `accept_loss` is true, missing records are accepted as lost, and `recovery` names them.  If `replicated` is
        true, the host sets W, which begins at `watermark` (see Replica).  If `goes_on_from_snapshot` is true, the state
        will be loaded from the snapshot, so the records below the snapshot's log offset are not checked.  `term` is the
        first term.  `clock` replaces the system's clock.  Raises StorageError, CorruptionError, MissingFileError.
        """
        if self.directory is not None:
            raise InternalError("the partition is open already")
        cdef ol_partition_options options
        cdef ol_log_recovery found
        cdef ol_error error
        cdef ol_partition *handle = NULL
        self.directory = os.fsencode(directory)
        self.number = number
        self.fs = fs
        self.decompressor = decompressor
        self.writable = writable
        self.replicated = replicated
        self.topic_id_given = topic_id
        self.lost_keys = {}
        ol_partition_options_init(&options)
        options.log.fs = fs.fs
        options.log.directory = self.directory
        options.log.config.segment_bytes = config.segment_bytes
        options.log.config.segment_ms = config.segment_ms
        options.log.config.index_interval_bytes = config.index_interval_bytes
        options.log.config.segment_index_bytes = config.segment_index_bytes
        options.log.config.producer_expiration_ms = config.producer_id_expiration_ms
        options.log.config.extend_bytes_min = config.extend_bytes_min
        options.log.config.extend_bytes_max = config.extend_bytes_max
        options.log.config.append = append_of(config.append)
        options.log.writable = writable
        options.log.create = create
        options.log.clean = clean
        options.log.recovery_point = recovery_point
        options.log.log_start_offset = log_start_offset
        if witness is not None:
            options.log.witnessed = witness.witnessed
            options.log.changed_checkpoints = witness.changed_checkpoints
            options.log.recovery_point_changed = witness.recovery_point_changed
            options.log.log_start_changed = witness.log_start_changed
            options.log.cleaned_by_others = witness.cleaned_by_others
            known = <bytes>witness.topic_id
            options.log.known_topic_id = <const uint8_t *><const char *>known if known is not None else NULL
        options.log.accept_loss = accept_loss
        options.log.topic_id = <const uint8_t *><const char *>topic_id if topic_id is not None else NULL
        options.log.decompressor = &decompressor.port if decompressor is not None else NULL
        # A batch never spans segments.
        options.batch_bytes_max = min(config.batch_bytes_max, config.segment_bytes)
        options.replicated = replicated
        options.goes_on_from_snapshot = goes_on_from_snapshot
        options.watermark = watermark
        options.term = term
        options.refuse_while_loading = refuse_while_loading
        if clock is not None:
            options.clock_ms = read_manual_clock
            options.clock_context = <void *>clock
        self.clock = clock
        options.value_v4 = VALUE_V4[config.write_offset_value_v4]
        memset(&found, 0, sizeof(found))
        with nogil:
            check(ol_partition_open(&options, &handle, &found, &error), &error)
        self.handle = handle
        self.recovery = recovery_of(&found)
        _open_partitions.add(self)

    def __dealloc__(self):
        # The partition was never closed; its appends are in the files, as after the end of a process.
        if self.handle != NULL:
            ol_partition_abandon(self.handle)
            self.handle = NULL

    # ------------------------------------------------------------------------------------------------ life

    cdef int enter(self) except -1:
        if self.refusal is not None and not self.forked:
            raise copy(self.refusal)
        if self.closing or self.handle == NULL:
            if self.forked:
                raise ClosedError("the store was opened before this process was forked; open the store again here")
            raise ClosedError("the partition is closed")
        self.in_flight += 1
        return 0

    cdef void leave(self) noexcept:
        self.in_flight -= 1
        if self.in_flight == 0 and self.idle is not None:
            self.idle.set()

    def load(self):
        """Replays the log into the state.  If it raises StorageError or CapacityError, the partition has failed."""
        cdef ol_error error
        self.enter()
        try:
            with nogil:
                check(ol_partition_load(self.handle, &error), &error)
        finally:
            self.leave()

    cdef bint _begin_close(self) except -1:
        # Returns whether this caller closes; a second caller has nothing to do.
        if self.closing:
            return False
        self.closing = True
        return self.handle != NULL

    cdef object _until_idle(self):
        # Returns an interrupt (Ctrl-C) of the wait, which the caller raises at the end: calls in progress write, and the
        # partition must not look closed before they end.
        interrupt = None
        if self.in_flight > 0:
            self.idle = threading.Event()
        while self.in_flight > 0:
            try:
                self.idle.wait(1.0)
            except BaseException as failure:
                interrupt = failure
        return interrupt

    def close(self, last=None):
        """Closes cleanly after the calls in progress have ended.  A second call does nothing.

        Args:
            last: called with the partition just before it closes, when no call is in progress and none can begin.

        Raises:
            OffsetLogError: a file could not be written.  The partition is closed nevertheless, but not cleanly.
        """
        cdef ol_partition *handle
        cdef ol_positions positions
        cdef ol_error error
        if not self._begin_close():
            return
        interrupt = self._until_idle()
        if last is not None and interrupt is None:
            try:
                last(self)
            except BaseException as failure:
                interrupt = failure
        handle = self.handle
        self.handle = NULL
        _open_partitions.discard(self)
        ol_partition_positions(handle, &positions)
        with nogil:
            check(ol_partition_close(handle, &error), &error)
        # A clean close has flushed everything.
        self.flushed_at_close = positions.written if self.writable else positions.flushed
        if interrupt is not None:
            raise interrupt

    def retire(self, refusal not None):
        """Makes every later call raise `refusal`, because the log is opened again elsewhere.

        Calls in progress continue.  The owner calls `abandon` afterwards.  Another call of `retire` changes the error
        that later calls raise.
        """
        self.refusal = refusal

    @property
    def retired(self):
        """Whether `retire` was called, so that every call raises the error that was passed to `retire`."""
        return self.refusal is not None

    def abandon(self):
        """Releases the partition without writing a byte."""
        cdef ol_partition *handle
        if not self._begin_close():
            return
        interrupt = self._until_idle()
        handle = self.handle
        self.handle = NULL
        _open_partitions.discard(self)
        with nogil:
            ol_partition_abandon(handle)
        if interrupt is not None:
            raise interrupt

    @property
    def closed_at(self):
        """The log offset below which all records were on disk at the clean close; -1 if there was no clean close."""
        return self.flushed_at_close

    @property
    def closed(self):
        """Whether the partition was closed, or this process is a forked child of the one that opened it."""
        return self.handle == NULL or self.closing

    # ------------------------------------------------------------------------------------------------ facts

    @property
    def path(self):
        """The partition's directory."""
        return os.fsdecode(self.directory)

    @property
    def role(self):
        """The role: "unloaded", "loading", "active", "follower" or "failed".  A retired partition counts as failed."""
        if self.refusal is not None:
            return "failed"
        self.enter()
        try:
            return ROLES[ol_partition_role(self.handle)]
        finally:
            self.leave()

    @property
    def read_only(self):
        """Whether the partition refuses writes, because it was opened read-only or its log is damaged."""
        self.enter()
        try:
            return bool(ol_partition_is_read_only(self.handle))
        finally:
            self.leave()

    @property
    def topic_id(self):
        """The topic id, 16 bytes, from partition.metadata; None if there is none."""
        cdef uint8_t[16] topic_id
        self.enter()
        try:
            if not ol_log_topic_id(ol_partition_log(self.handle), topic_id):
                return None
            return PyBytes_FromStringAndSize(<const char *>topic_id, 16)
        finally:
            self.leave()

    def log_facts(self):
        """Returns the log's start, end, flushed, leader_epoch, size_bytes, watermark and applied, as a dictionary."""
        cdef ol_positions positions
        self.enter()
        try:
            log = ol_partition_log(self.handle)
            ol_partition_positions(self.handle, &positions)
            return {
                "start": ol_log_start(log),
                "end": positions.written,
                "flushed": positions.flushed,
                "watermark": positions.watermark,
                "applied": positions.applied,
                "leader_epoch": ol_log_leader_epoch(log),
                "size_bytes": ol_log_size_bytes(log),
            }
        finally:
            self.leave()

    def progress(self):
        """Returns the progress of the load, as a dictionary of counts."""
        cdef ol_load_progress progress
        self.enter()
        try:
            ol_partition_progress(self.handle, &progress)
            return {
                "bytes": progress.bytes,
                "bytes_total": progress.bytes_total,
                "batches": progress.batches,
                "records": progress.records,
                "problems": progress.problems,
                "aborted_own": progress.aborted_own,
                "snapshot_offset": progress.snapshot_offset,
            }
        finally:
            self.leave()

    def problems(self):
        """Returns the problems of opening and loading, as exceptions that were not raised; at most the first 64."""
        cdef ol_problem problem
        cdef size_t index = 0
        cdef list found = []
        self.enter()
        try:
            while ol_partition_problem_at(self.handle, index, &problem):
                found.append(problem_of(&problem, self.number, self.lost_keys))
                index += 1
            return found
        finally:
            self.leave()

    # ------------------------------------------------------------------------------------------------ waiting

    cdef int wait_for(self, int64_t end_offset, uint64_t term, int what, int64_t timeout_ms) except -1:
        # `term` is the term of the commit; OL_TERM_NOW means any term.
        cdef ol_error error
        if self.handle == NULL and end_offset <= self.flushed_at_close:
            return 0
        self._refuse_wait()
        self.enter()
        try:
            with nogil:
                check(ol_partition_wait(self.handle, end_offset, term, what, timeout_ms, &error), &error)
        finally:
            self.leave()
        return 0

    cdef int _refuse_wait(self) except -1:
        # The records were written, but whether they are durable is unknown until the log is open again.
        if self.refusal is not None:
            raise PartitionFailedError(
                "the log partition failed before the write was known to be durable; once its log is open again, fetch the "
                "position to see whether the write survived"
            )
        return 0

    def wait(self, int64_t end_offset, *, uint64_t term=OL_TERM_NOW, bint replicated=False, timeout=None):
        """Waits up to `timeout` s until all records below an offset are on disk; with `replicated`, until W is there.

        `term` is the term of the commit.  Without a term, the call waits for the records that are below the log offset
        now.  Raises CommitTimeoutError, PartitionFailedError, NotCoordinatorError, InvalidArgumentError.  If a flush
        could not begin, raises StorageError, CapacityError or ReadOnlyError.
        """
        cdef int64_t timeout_ms = take_timeout(timeout)
        self.wait_for(end_offset, term, OL_WAIT_WATERMARK if replicated else OL_WAIT_FLUSHED, timeout_ms)

    def flush(self):
        """Waits until all records written before the call are on disk; returns the log end offset at the call."""
        cdef ol_positions positions
        self._refuse_wait()
        self.enter()
        try:
            ol_partition_positions(self.handle, &positions)
        finally:
            self.leave()
        self.wait_for(positions.written, OL_TERM_NOW, OL_WAIT_FLUSHED, -1)
        return positions.written

    # ------------------------------------------------------------------------------------------------ writing

    def delete_group(self, group, *, bint only_empty=False):
        """Deletes all records of a group; returns (end offset to wait for, term of the write, records written).

        With `only_empty`, the call raises GenerationError if the group has members.
        """
        cdef ol_slice name
        cdef ol_commit_result result
        cdef ol_error error
        take_name(group, NAME_GROUP, &name)
        self.enter()
        try:
            with nogil:
                check(ol_partition_delete_group(self.handle, name, only_empty, &result, &error), &error)
        except GenerationError as failure:
            raise resting(failure, &result)
        finally:
            self.leave()
        return result.end_offset, result.term, result.written

    def check_producer(self, int64_t producer_id, int16_t producer_epoch):
        """Raises an error unless the producer may begin a transaction.

        Raises:
            TransactionError: the producer id is negative or reserved, or the producer has an open transaction.
            FencedError: the log has a newer epoch of the producer.
        """
        cdef ol_error error
        self.enter()
        try:
            with nogil:
                check(ol_partition_check_producer(self.handle, producer_id, producer_epoch, &error), &error)
        finally:
            self.leave()

    def end_transaction(self, int64_t producer_id, int16_t producer_epoch, bint commit, int32_t coordinator_epoch=0):
        """Writes a marker that ends a transaction; returns the end offset to wait for, and the term of the write.

        If the producer epoch is -1, the marker gets the epoch that the log has for this producer.
        """
        cdef ol_commit_result result
        cdef ol_error error
        self.enter()
        try:
            with nogil:
                check(
                    ol_partition_end_transaction(self.handle, producer_id, producer_epoch,
                                                 OL_CONTROL_COMMIT if commit else OL_CONTROL_ABORT, coordinator_epoch,
                                                 &result, &error),
                    &error,
                )
        finally:
            self.leave()
        return result.end_offset, result.term

    # ------------------------------------------------------------------------------------------------ the state as a whole

    def digest(self, bint physical=False):
        """Returns the digests of positions, group records and pending positions, and the applied log offset."""
        cdef const ol_state *state
        cdef ol_digest digest
        cdef ol_positions positions
        cdef ol_error error
        self.enter()
        try:
            with nogil:
                check(ol_partition_lock_state(self.handle, &state, &error), &error)
                ol_state_digest(state, physical, &digest)
                ol_partition_positions(self.handle, &positions)
                ol_partition_unlock_state(self.handle)
        finally:
            self.leave()
        return whole_of(digest.positions), whole_of(digest.group_records), whole_of(digest.pending), positions.applied

    def count(self):
        """Returns the number of committed positions."""
        cdef const ol_state *state
        cdef size_t count
        cdef ol_error error
        self.enter()
        try:
            with nogil:
                check(ol_partition_lock_state(self.handle, &state, &error), &error)
                count = ol_table_count(state.table)
                ol_partition_unlock_state(self.handle)
        finally:
            self.leave()
        return count

    def memory(self):
        """Returns the allocated bytes by component of the state; other components contain `free` and `string_bytes`."""
        cdef const ol_state *state
        cdef ol_table_memory table
        cdef ol_error error
        cdef size_t pending, group_records, scratch
        self.enter()
        try:
            with nogil:
                scratch = ol_partition_scratch_bytes(self.handle)
                check(ol_partition_lock_state(self.handle, &state, &error), &error)
                ol_table_memory_usage(state.table, &table)
                pending = ol_pending_memory_usage(state.pending)
                group_records = ol_group_records_memory_usage(state.group_records)
                ol_partition_unlock_state(self.handle)
        finally:
            self.leave()
        return {
            "cells": table.cells,
            "pairs": table.pairs,
            "pair_hash": table.pair_hash,
            "chunks": table.chunks,
            "strings": table.strings,
            "side": table.side,
            "pending": pending,
            "group_records": group_records,
            "scratch": scratch,
            "string_bytes": table.string_bytes,
            "free": table.free,
        }

    # Under the table's lock, only bytes, ints and strs are created and appended to a list.  Anything else could start a
    # garbage collection, which may run code that waits for the lock.

    def group_records(self):
        """Returns every group record of the state as (key, value, log offset, timestamp), in no particular order."""
        cdef const ol_state *state
        cdef ol_group_record record
        cdef size_t cursor = 0
        cdef ol_error error
        cdef list flat = []
        self.enter()
        try:
            with nogil:
                check(ol_partition_lock_state(self.handle, &state, &error), &error)
            try:
                while ol_group_records_next(state.group_records, &cursor, &record):
                    flat.append(PyBytes_FromStringAndSize(<const char *>record.key.data, <Py_ssize_t>record.key.size))
                    flat.append(PyBytes_FromStringAndSize(<const char *>record.value.data, <Py_ssize_t>record.value.size))
                    flat.append(record.log_offset)
                    flat.append(record.timestamp)
            finally:
                ol_partition_unlock_state(self.handle)
        finally:
            self.leave()
        return list(zip(flat[0::4], flat[1::4], flat[2::4], flat[3::4], strict=True))

    def groups(self):
        """Returns {group: number of committed positions} for every group that has a position or a record of its own."""
        cdef const ol_state *state
        cdef ol_table_cursor cursor
        cdef ol_group_record record
        cdef ol_key key
        cdef ol_slice group
        cdef uint64_t positions
        cdef size_t at = 0
        cdef ol_error error
        cdef bytes name
        cdef list flat = []
        cdef dict groups = {}
        memset(&cursor, 0, sizeof(cursor))
        self.enter()
        try:
            with nogil:
                check(ol_partition_lock_state(self.handle, &state, &error), &error)
            try:
                while ol_table_next_group(state.table, &cursor, &group, &positions):
                    flat.append(PyBytes_FromStringAndSize(<const char *>group.data, <Py_ssize_t>group.size))
                    flat.append(positions)
                while ol_group_records_next(state.group_records, &at, &record):
                    if ol_key_decode(record.key, &key, &error) == 0 and key.group.data != NULL:
                        flat.append(PyBytes_FromStringAndSize(<const char *>key.group.data, <Py_ssize_t>key.group.size))
                        flat.append(0)
            finally:
                ol_partition_unlock_state(self.handle)
        finally:
            self.leave()
        for name, count in zip(flat[0::2], flat[1::2], strict=True):
            groups.setdefault(text_of(<const uint8_t *><const char *>name, <size_t>len(name)), count)
        return groups

    def has_group(self, group):
        """Returns whether a group has a committed or pending position."""
        cdef const ol_state *state
        cdef ol_slice name
        cdef ol_error error
        cdef bint found
        take_name(group, NAME_GROUP, &name)
        self.enter()
        try:
            with nogil:
                check(ol_partition_lock_state(self.handle, &state, &error), &error)
                hash = ol_table_group_hash(state.table, name)
                found = (
                    ol_table_group_positions(state.table, name, hash) > 0
                    or ol_pending_has_group(state.pending, name, hash)
                )
                ol_partition_unlock_state(self.handle)
        finally:
            self.leave()
        return bool(found)

    def transactions(self):
        """Returns (id, epoch, first offset, last timestamp, groups, positions, own) of each open transaction, oldest first.

        `own` is whether offsetlog itself uses the producer id, which it does for large commits.
        """
        cdef ol_transaction_copy copy
        cdef ol_copied_transaction row
        cdef ol_error error
        cdef size_t index
        cdef list found = []
        memset(&copy, 0, sizeof(copy))
        try:
            self.enter()
            try:
                with nogil:
                    check(ol_transaction_copy_take(&copy, self.handle, &error), &error)
            finally:
                self.leave()
            for index in range(copy.count):
                row = ol_transaction_copy_row(&copy, index)
                found.append((
                    row.known.producer_id,
                    row.known.producer_epoch,
                    row.known.first_offset,
                    row.known.last_timestamp,
                    groups_of(&copy, &row),
                    row.positions,
                    row.known.producer_id >= OL_OWN_PRODUCER_ID_MIN,
                ))
        finally:
            ol_transaction_copy_free(&copy)
        return found
