"""Replays the .log files of a partition with the engine's own code, and reports damage and other findings.

The engine has two ways to compute a state.  A load computes it through the open log.  A replay needs no log object,
checkpoint, lock or mapping, but only the bytes of the files in order.  It therefore also reads logs that another
program owns, and even a single segment.  A verification compares the results of the two ways.
"""

import os

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from offsetlog._native.buffers cimport text_of
from offsetlog._native.csrc cimport (
    OL_CLOSED,
    OL_CORRUPT,
    OL_END,
    OL_IO,
    OL_LIMIT,
    OL_NO_MEMORY,
    OL_OK,
    OL_TOPIC_ID_SIZE,
    OL_TORN,
    OL_UNSUPPORTED,
    ol_account_add,
    ol_batch,
    ol_batch_bounds,
    ol_batch_check_crc,
    ol_batch_check_follows,
    ol_batch_is_after,
    ol_batch_next_offset,
    ol_digest,
    ol_error,
    ol_error_at,
    ol_fail,
    ol_group_record,
    ol_group_records_count,
    ol_group_records_next,
    ol_hash128,
    ol_log_view_scan,
    ol_pending_next_value,
    ol_pending_producer,
    ol_pending_producer_at,
    ol_producer,
    ol_producers,
    ol_producers_apply,
    ol_producers_change,
    ol_producers_decode,
    ol_producers_free,
    ol_record,
    ol_records,
    ol_records_close,
    ol_records_next,
    ol_records_open,
    ol_refusal,
    ol_file_scan,
    ol_file_scan_close,
    ol_file_scan_fits,
    ol_file_scan_judge,
    ol_file_scan_next,
    ol_file_scan_open,
    ol_file_scan_used,
    ol_slice,
    ol_slice_of,
    ol_state,
    ol_run_create,
    ol_run_join,
    ol_state_apply_share,
    ol_state_create,
    ol_state_destroy,
    ol_state_digest,
    ol_state_memory_usage,
    ol_table_count,
    ol_table_cursor,
    ol_table_group_hash,
    ol_table_next_group,
    ol_table_next_of_group,
    ol_table_row,
    ol_aborted_transaction,
    OL_TRANSACTION_INDEX_ENTRY_SIZE,
    ol_transaction_index_parse,
    OL_INDEX_OFFSET,
    OL_INDEX_TIME,
    ol_index_check_bytes,
)
from offsetlog._native.decompress cimport Decompressor
from offsetlog._native.files cimport FileSystem
from offsetlog._native.log_view cimport LogView
from offsetlog._native.resync cimport resync
from offsetlog._native.status cimport check, keep_interrupt, raise_interrupt

from offsetlog.error_status import from_status
from offsetlog.errors import InternalError, InvalidArgumentError

#: The fields of a batch that `Replay.apply` reports, as names and NumPy's type codes; they have no gaps between them.
BATCH_FIELDS = [
    ("position", "=i8"),
    ("base_offset", "=i8"),
    ("last_offset", "=i8"),
    ("max_timestamp", "=i8"),
    ("leader_epoch", "=i4"),
    ("magic", "=i4"),
]


# How many records, or bytes of batches, are applied between two measurements of memory; a measurement costs more than a
# record.
cdef enum:
    RECORDS_A_LOOK = 256
    BYTES_A_LOOK = 1 << 16


cdef object _failure(const ol_error *error):
    return from_status(
        error.status,
        (<bytes>error.reason).decode("utf-8", "replace"),
        path=(<bytes>error.path).decode("utf-8", "surrogateescape") or None,
        position=None if error.position < 0 else error.position,
        offset=None if error.offset < 0 else error.offset,
        errno=error.sys_errno or None,
    )


cdef object _whole(ol_hash128 value):
    return (int(value.high) << 64) | int(value.low)


cdef bytes _bytes_of(ol_slice slice):
    return PyBytes_FromStringAndSize(<const char *>slice.data, <Py_ssize_t>slice.size)


cdef tuple _position_of(const ol_table_row *row):
    # Returns a row of `Replay.positions`.
    cdef object topic_id = None
    if row.value.topic_id != NULL:
        topic_id = PyBytes_FromStringAndSize(<const char *>row.value.topic_id, OL_TOPIC_ID_SIZE)
    return (
        text_of(row.topic.data, row.topic.size),
        row.partition,
        row.value.offset,
        row.value.leader_epoch,
        text_of(row.value.metadata.data, row.value.metadata.size),
        row.value.commit_timestamp,
        row.value.expire_timestamp,
        topic_id,
        row.value.log_offset,
    )


cdef list _producers_of(const ol_producers *producers):
    # (id, epoch, last offset, first offset of the open transaction or -1, coordinator epoch), by id.
    cdef const ol_producer *each
    cdef size_t index
    cdef list found = []
    for index in range(producers.slot_count):
        each = &producers.slots[index]
        if each.producer_id >= 0:
            found.append(
                (each.producer_id, each.epoch, each.last_offset, each.transaction_first_offset, each.coordinator_epoch)
            )
    found.sort()
    return found


def parse_producer_snapshot(bytes content not None):
    """Returns (id, epoch, last offset, open transaction's first offset or -1, coordinator epoch) of each producer, by id.

    Raises CorruptionError or UnsupportedVersionError if it cannot read the bytes (docs/format/directory.md §1.6).
    """
    cdef ol_producers producers
    cdef ol_error error
    memset(&producers, 0, sizeof(producers))
    check(ol_producers_decode(&producers, ol_slice_of(<const char *>content, <size_t>len(content)), &error), &error)
    try:
        return _producers_of(&producers)
    finally:
        ol_producers_free(&producers)


def parse_transaction_index(bytes content not None, int64_t base_offset):
    """Returns (producer id, first offset, last offset, last stable offset) for each aborted transaction of a segment.

    Raises a CorruptionError that has the position of the damage (docs/format/directory.md §1.7).
    """
    cdef size_t count = <size_t>len(content) // OL_TRANSACTION_INDEX_ENTRY_SIZE
    cdef ol_aborted_transaction *entries = NULL
    cdef ol_slice slice = ol_slice_of(<const char *>content, <size_t>len(content))
    cdef ol_error error
    cdef size_t index
    if count > 0:
        entries = <ol_aborted_transaction *>realloc(NULL, count * sizeof(ol_aborted_transaction))
        if entries == NULL:
            raise MemoryError
    try:
        check(ol_transaction_index_parse(slice, base_offset, entries, &error), &error)
        return [
            (entries[index].producer_id, entries[index].first_offset, entries[index].last_offset,
             entries[index].last_stable_offset)
            for index in range(count)
        ]
    finally:
        free(entries)


def check_index(bytes content not None, *, bint time, int64_t base_offset, int64_t log_size, int64_t next_offset):
    """Raises CorruptionError unless the bytes are an offset index of the segment, or, with `time`, a time index."""
    cdef ol_error error
    cdef ol_slice slice = ol_slice_of(<const char *>content, <size_t>len(content))
    check(
        ol_index_check_bytes(OL_INDEX_TIME if time else OL_INDEX_OFFSET, slice, base_offset, log_size, next_offset, &error),
        &error,
    )


@cython.final
cdef class MemoryAccount:
    """Limits the memory that the states of several replays may use together.  Any thread may use the object."""

    def __cinit__(self, int64_t bytes_max):
        self.taken = 0
        self.bytes_max = bytes_max

    @property
    def used(self):
        """The bytes that the states used when they were last measured."""
        return ol_account_add(&self.taken, 0)


# A replay returns its memory to the account when it is destroyed, so it needs the account until then.
@cython.no_gc_clear
cdef class Replay:
    """Computes the state of one partition from its .log files, in order.  One thread at a time may use the object."""

    def __cinit__(self):
        memset(&self.state, 0, sizeof(self.state))
        memset(&self.producers, 0, sizeof(self.producers))
        self.rows = NULL

    def __init__(self, FileSystem file_system=None, Decompressor decompressor=None, LogView view=None,
                 StopFlag stop=None, *, uint32_t bucket=0, uint32_t buckets=1, bint by_group=False, bint run=False,
                 MemoryAccount account=None):
        """Creates an empty state; raises CapacityError if memory runs out.

        With `bucket` and `buckets`, the replay applies only one share of the positions, so that several replays can run
        in parallel: share number `bucket` of `buckets` shares.  With `by_group`, a share consists of groups with all
        their records.  Records that belong to no share are applied in share 0.

        With a view (`log_view`), the paths name segments of the view, even if newer files have replaced them.  The
        caller keeps the view open.  After `stop` is set, calls in progress soon raise ClosedError, and the replay must
        not be used any more.

        With `run`, the replay may begin anywhere in the log.  `join` adds its result to the replay of the records
        before it.  Replays can share an `account`.  If their states exceed the account's limit, `apply` and `join`
        raise CapacityError, and the replay must not be used any more.  Memory is counted after each batch and each
        join.
        """
        cdef ol_error error
        if self.state.table != NULL:
            raise InternalError("the replay has been initialized already")
        self.fs = file_system if file_system is not None else FileSystem()
        self.decompressor = decompressor if decompressor is not None else Decompressor()
        self.view = view
        self.stop_flag = stop
        self.stop_asked = &stop.asked if stop is not None else NULL
        self.next_offset = 0
        self.refused = []
        if bucket >= buckets:
            raise InvalidArgumentError(f"bucket must be from 0 to {buckets - 1}, not {bucket}")
        self.share.shard.number, self.share.shard.count, self.share.shard.by_group = bucket, buckets, by_group
        self.account = account
        if run:
            check(ol_run_create(&self.state, &error), &error)
        else:
            check(ol_state_create(&self.state, &error), &error)

    def __dealloc__(self):
        if self.account is not None:
            ol_account_add(&self.account.taken, -self.accounted)
        ol_state_destroy(&self.state)
        ol_producers_free(&self.producers)
        free(self.rows)

    # ------------------------------------------------------------------------------------------------ the walk

    cdef int open_scan(self, ol_file_scan *scan, path, int64_t position) except -1:
        cdef ol_error error
        self.path = os.fsencode(path)
        if self.view is None:
            return check(ol_file_scan_open(scan, self.fs.fs, self.path, position, -1, &error), &error)
        cdef size_t index = <size_t>self.view.find(self.path)
        return check(ol_log_view_scan(self.view.view, index, position, scan, &error), &error)

    cdef int add_row(self, const ol_batch *batch, int64_t position, ol_error *error) noexcept nogil:
        cdef batch_row *moved
        if self.row_count == self.row_capacity:
            self.row_capacity = 2 * self.row_capacity if self.row_capacity else 1024
            moved = <batch_row *>realloc(self.rows, self.row_capacity * sizeof(batch_row))
            if moved == NULL:
                self.row_capacity = self.row_count
                return ol_fail(error, OL_NO_MEMORY, "no memory for %zu batches", self.row_count)
            self.rows = moved
        self.rows[self.row_count].position = position
        self.rows[self.row_count].base_offset = batch.base_offset
        self.rows[self.row_count].last_offset = batch.last_offset
        self.rows[self.row_count].max_timestamp = batch.max_timestamp
        self.rows[self.row_count].leader_epoch = batch.leader_epoch
        self.rows[self.row_count].magic = batch.magic
        self.row_count += 1
        return OL_OK

    cdef int apply_batch(self, const ol_batch *batch, ol_producers_change *change, ol_error *error) noexcept nogil:
        cdef ol_refusal refusal
        cdef int status = ol_batch_check_crc(batch, error)
        if status == OL_OK:
            status = ol_batch_check_follows(batch, self.next_offset, error)
        if status != OL_OK:
            return status
        refusal.report = _refused
        refusal.context = <void *>self
        status = ol_state_apply_share(&self.state, batch, &self.share, &self.decompressor.port, &refusal, error)
        if status == OL_OK:
            status = ol_producers_apply(&self.producers, batch, change, error)
        return status

    cdef int check_memory(self, ol_error *error) noexcept nogil:
        cdef int64_t change
        self.looked_records, self.bytes_since_look = self.records, 0
        if self.account is None:
            return OL_OK
        change = <int64_t>ol_state_memory_usage(&self.state) - self.accounted
        self.accounted += change
        if ol_account_add(&self.account.taken, change) <= self.account.bytes_max:
            return OL_OK
        return ol_fail(error, OL_NO_MEMORY, "the state takes more than %lld bytes", <long long>self.account.bytes_max)

    cdef int look_at_times(self, const ol_batch *batch, ol_error *error) noexcept nogil:
        self.bytes_since_look += batch.size
        if self.bytes_since_look < BYTES_A_LOOK and self.records - self.looked_records < RECORDS_A_LOOK:
            return OL_OK
        return self.check_memory(error)

    cdef int count_records(self, const ol_batch *batch, ol_error *error) noexcept nogil:
        # The header of a wrapper of magic 0 or 1 has no count of its messages, and no header shows how many are below
        # `until`.
        cdef ol_records records
        cdef ol_record record
        cdef int status
        if batch.record_count >= 0 and batch.last_offset < self.share.until:
            self.records += batch.record_count
            self.records_below += batch.record_count
            return OL_OK
        status = ol_records_open(&records, batch, &self.decompressor.port, error)
        if status != OL_OK:
            return status
        while True:
            status = ol_records_next(&records, &record, error)
            if status != OL_OK:
                break
            self.records += 1
            self.records_below += record.offset < self.share.until
        ol_records_close(&records)
        return OL_OK if status == OL_END else status

    cdef int walk(self, ol_file_scan *scan, int64_t stop, int64_t until, bint keeps_rows, ol_producers_change *change,
                  ol_error *error) noexcept nogil:
        # Continues until the end (OL_END), a batch at or after `stop` (OL_OK with *change empty), an aborted transaction
        # (OL_OK with *change filled) or damage, at which scan->position stays.
        cdef ol_batch batch
        cdef ol_batch_bounds bounds = ol_batch_bounds(0, self.segment_limit, 0)
        cdef int64_t walked = 0
        cdef bint is_at_stop, is_applied
        cdef int status
        while True:
            self.position = scan.position
            change.completed = change.aborted = False
            status = ol_file_scan_next(scan, &batch, error)
            if status == OL_OK:
                # Checked before a wrong base offset can end the walk or make it skip the batch.
                bounds.next_offset = self.next_offset
                if not ol_file_scan_fits(scan, &batch, &bounds):
                    status = ol_file_scan_judge(scan, &batch, &bounds, error)
            if status != OL_OK:
                scan.position = self.position
                return status
            is_at_stop = stop != INT64_MAX and batch.base_offset >= stop
            if is_at_stop or ol_batch_is_after(&batch, self.next_offset, until):
                scan.position = self.position
                return OL_OK if is_at_stop else OL_END
            if self.stop_asked != NULL and self.stop_asked[0]:
                return ol_fail(error, OL_CLOSED, "the replay was stopped")
            # If the base offset of a batch goes back, it may be wrong, and the batch may be above `since`.
            is_applied = batch.last_offset < self.since and batch.base_offset >= walked
            walked = ol_batch_next_offset(&batch)
            if is_applied:
                continue
            status = self.apply_batch(&batch, change, error)
            if status == OL_OK and keeps_rows:
                status = self.add_row(&batch, self.position, error)
            if status == OL_OK:
                status = self.count_records(&batch, error)
            if status != OL_OK:
                scan.position = self.position
                return status
            self.next_offset = batch.last_offset + 1
            if self.batches == 0:
                self.first_offset = batch.base_offset
            self.batches += 1
            status = self.look_at_times(&batch, error)
            if status != OL_OK:
                return status
            if change.aborted:
                return OL_OK

    cdef int go_on(self, ol_file_scan *scan, list stops, int64_t until, bint keeps_rows, bint unreadable, dict found) except -1:
        cdef ol_producers_change change
        cdef ol_error error
        cdef int64_t stop
        cdef int status
        while True:
            stop = stops[0] if stops else INT64_MAX
            with nogil:
                status = self.walk(scan, stop, until, keeps_rows, &change, &error)
            raise_interrupt()
            if status in (OL_CORRUPT, OL_TORN, OL_UNSUPPORTED, OL_LIMIT) or (unreadable and status == OL_IO):
                ol_error_at(&error, self.path, self.position)
                found["damage"] = _failure(&error)
                return 0
            if check(status, &error) == OL_END:
                return 0
            if change.aborted:
                found["aborted"].append((change.transaction.producer_id, change.transaction.first_offset,
                                         change.transaction.last_offset, change.transaction.last_stable_offset))
            else:
                found["producers"][stops.pop(0)] = _producers_of(&self.producers)

    def apply(self, path, *, int64_t position=0, snapshots=(), bint batches=False, int64_t since=0,
              int64_t until=0x7FFFFFFFFFFFFFFF, int64_t segment_limit=0x7FFFFFFFFFFFFFFF, bint unreadable=False):
        """Applies the batches of a .log file from `position` up to the end, or up to bytes that are not a batch.

        Args:
            path: the file; the bytes that it has now are read.
            position: the byte position where a batch begins.
            snapshots: the log offsets at which the producers' state is reported.
            batches: whether every applied batch is reported, as the bytes of an array of BATCH_FIELDS.
            since: a log offset; the call skips batches that end below it.
            until: a log offset, which may be inside a batch; the call does not apply the records at and above it.
            segment_limit: the base offset of the next segment; a batch that reaches it counts as damage.
            unreadable: whether bytes that the disk cannot read count as damage; `damage` is then a StorageError.  If it
                is false, the call raises the StorageError.

        Returns:
            A dict with these keys: `size`: the bytes of the file.  `position`: where the call stopped.  `damage`: the
            exception for the damage that stopped it, which is not raised, or None.  `aborted`: the list that
            `parse_transaction_index` returns.  `producers`: for each log offset of `snapshots`, the state that
            `parse_producer_snapshot` returns.  `refused`: exceptions, not raised, for the records that a broker would
            not load.  `batches`: the applied batches.

        Raises:
            StorageError: the file cannot be read.
            ClosedError: the replay was stopped.
            CapacityError: memory ran out, or the account's limit was reached.
        """
        cdef ol_file_scan scan
        cdef ol_error error
        cdef dict found = {"damage": None, "aborted": [], "producers": {}}
        cdef list stops = sorted(snapshots)
        self.refused = []
        self.row_count = 0
        self.since, self.share.until, self.segment_limit = since, until, segment_limit
        self.open_scan(&scan, path, position)
        try:
            self.go_on(&scan, stops, until, batches, unreadable, found)
            check(self.check_memory(&error), &error)
            found["position"], found["size"] = scan.position, scan.limit
        finally:
            ol_file_scan_close(&scan)
        found["refused"], self.refused = self.refused, []
        raw = PyBytes_FromStringAndSize(<const char *>self.rows, <Py_ssize_t>(self.row_count * sizeof(batch_row)))
        found["batches"] = raw
        return found

    def skip(self, path, int64_t position, *, bint unreadable=False):
        """Returns the position of the next complete batch after damage at `position`; None if the file has none.

        With `unreadable`, the search skips bytes that the disk cannot read; otherwise they raise StorageError.
        """
        cdef ol_file_scan scan
        cdef ol_error error
        cdef int status
        self.open_scan(&scan, path, position)
        scan.passes_unreadable = unreadable
        try:
            with nogil:
                status = check(resync(&scan, position, self.next_offset, &error), &error)
            return scan.position if status == OL_OK else None
        finally:
            ol_file_scan_close(&scan)

    def used(self, path, int64_t position):
        """Returns the position after the last byte that is not zero; `position` if all bytes from there on are zero."""
        cdef ol_file_scan scan
        cdef ol_error error
        cdef int64_t used = 0
        self.open_scan(&scan, path, position)
        try:
            with nogil:
                check(ol_file_scan_used(&scan, position, &used, &error), &error)
            return used
        finally:
            ol_file_scan_close(&scan)

    def join(self, Replay later not None):
        """Adds the result of `later`, which replayed a later part of the same log for the same share, with run=True.

        This replay then has the state after the batches of both replays, but no longer knows the producers' state.
        `later` is not changed.  No other thread may change either replay during the call.  The account no longer counts
        the memory of `later`, so the caller should release it.

        Raises:
            InvalidArgumentError: `later` was not made with run=True, or it begins below the end of this replay.
            CapacityError: memory ran out, or the account's limit was reached; this replay must not be used any more.
        """
        cdef ol_error error
        cdef int status
        if later.state.effects == NULL or later is self:
            raise InvalidArgumentError("only another Replay that was made with run=True can be joined to a replay")
        if later.batches > 0 and later.first_offset < self.next_offset:
            raise InvalidArgumentError(
                f"the run begins at log offset {later.first_offset}, but this replay has applied the log up to "
                f"{self.next_offset}"
            )
        check(self.check_memory(&error), &error)
        check(later.check_memory(&error), &error)
        if later.account is not None:
            ol_account_add(&later.account.taken, -later.accounted)
            later.accounted, later.account = 0, None
        with nogil:
            status = ol_run_join(&self.state, &later.state, &error)
        check(status, &error)
        self.is_joined = True
        if later.batches > 0:
            self.first_offset = self.first_offset if self.batches > 0 else later.first_offset
            self.next_offset = later.next_offset
        self.batches += later.batches
        self.records += later.records
        self.records_below += later.records_below
        check(self.check_memory(&error), &error)

    # ------------------------------------------------------------------------------------------------ the state

    cdef int require_producers(self) except -1:
        if self.is_joined:
            raise InternalError("the replay does not know the producers' state, because `join` added a run to it")
        return 0

    def producers_now(self):
        """Returns the producers' state as `parse_producer_snapshot` does."""
        self.require_producers()
        return _producers_of(&self.producers)

    @property
    def memory(self):
        """The bytes of memory that the state uses."""
        return ol_state_memory_usage(&self.state)

    @property
    def group_record_count(self):
        """The number of records that `group_records` returns."""
        return ol_group_records_count(self.state.group_records)

    @property
    def position_count(self):
        """The number of committed positions."""
        return ol_table_count(self.state.table)

    def groups(self):
        """Returns the names, as bytes, of the groups that have a committed position."""
        cdef ol_table_cursor cursor
        cdef ol_slice group
        cdef uint64_t positions
        cdef list found = []
        memset(&cursor, 0, sizeof(cursor))
        while ol_table_next_group(self.state.table, &cursor, &group, &positions):
            found.append(_bytes_of(group))
        return found

    def pending_groups(self):
        """Returns the names, as bytes, of the groups for which an open transaction has a position."""
        cdef ol_pending_producer producer
        cdef ol_table_row row
        cdef size_t index = 0
        cdef size_t cursor
        cdef set found = set()
        while ol_pending_producer_at(self.state.pending, index, &producer):
            index += 1
            cursor = 0
            while ol_pending_next_value(self.state.pending, producer.producer_id, &cursor, &row):
                found.add(_bytes_of(row.group))
        return found

    def transactions(self):
        """Returns the open transactions, sorted by their first log offset.

        Each transaction is (producer id, epoch, first log offset, time of the first pending commit in ms or -1, number
        of pending positions, sorted names of the groups as bytes).  A position that a tombstone has deleted is not
        pending.
        """
        cdef const ol_producer *each
        cdef ol_table_row row
        cdef size_t index
        cdef size_t cursor
        cdef int64_t begun
        cdef list found = []
        cdef set groups
        self.require_producers()
        for index in range(self.producers.slot_count):
            each = &self.producers.slots[index]
            if each.producer_id < 0 or each.transaction_first_offset < 0:
                continue
            begun, cursor, count, groups = -1, 0, 0, set()
            while ol_pending_next_value(self.state.pending, each.producer_id, &cursor, &row):
                if count == 0:
                    begun = row.value.commit_timestamp
                groups.add(_bytes_of(row.group))
                count += 1
            found.append((each.producer_id, each.epoch, each.transaction_first_offset, begun, count, sorted(groups)))
        found.sort(key=_first_offset)
        return found

    def positions(self, bytes group not None):
        """Returns the committed positions of a group, sorted by topic and partition.

        Each is (topic, partition, offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic id or None,
        log_offset).  Text is decoded as Java decodes it.
        """
        cdef ol_slice name = ol_slice_of(<const char *>group, <size_t>len(group))
        cdef uint64_t hash = ol_table_group_hash(self.state.table, name)
        cdef ol_table_cursor cursor
        cdef ol_table_row row
        cdef list found = []
        memset(&cursor, 0, sizeof(cursor))
        while ol_table_next_of_group(self.state.table, name, hash, &cursor, &row):
            found.append(_position_of(&row))
        found.sort(key=_place)
        return found

    def pending(self, int64_t producer_id):
        """Returns the positions that a COMMIT of a producer's open transaction would set, by group, topic, partition.

        Each is a tuple of the group's name, as bytes, and the fields that `positions` returns.
        """
        cdef ol_table_row row
        cdef size_t cursor = 0
        cdef list found = []
        while ol_pending_next_value(self.state.pending, producer_id, &cursor, &row):
            found.append((_bytes_of(row.group), *_position_of(&row)))
        found.sort(key=_pending_place)
        return found

    def group_records(self):
        """Returns (key, value, log_offset) of every record that is not an offset commit."""
        cdef ol_group_record record
        cdef size_t cursor = 0
        cdef list found = []
        while ol_group_records_next(self.state.group_records, &cursor, &record):
            found.append((_bytes_of(record.key), _bytes_of(record.value), record.log_offset))
        return found

    def digest(self, *, bint physical=False):
        """Returns the three sums of the digest, for positions, for group records and for pending positions, as ints."""
        cdef ol_digest digest
        ol_state_digest(&self.state, physical, &digest)
        return _whole(digest.positions), _whole(digest.group_records), _whole(digest.pending)


def _place(row):
    return row[:2]


def _pending_place(row):
    return row[:3]


def _first_offset(transaction):
    return transaction[2]


cdef void _refused(void *context, const ol_batch *batch, const ol_error *error) noexcept with gil:
    cdef Replay self = <Replay>context
    try:
        failure = _failure(error)
        failure.path, failure.position = os.fsdecode(self.path), self.position
        self.refused.append(failure)
    except BaseException as interrupt:
        keep_interrupt(interrupt)
