"""Reads the records of .log files as Arrow columns, and walks over the headers of batches.  Spark's executors use it.

The reader needs no table, lock or log object.  It needs only the bytes of the files, in order.
"""

import os

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from offsetlog._native.csrc cimport (
    OL_CORRUPT,
    OL_END,
    OL_LIMIT,
    OL_OK,
    OL_TORN,
    OL_UNSUPPORTED,
    OL_VIEW_BATCHES,
    OL_VIEW_COMMITS,
    OL_VIEW_RECORDS,
    OL_WOULD_BLOCK,
    c_bool,
    ol_batch,
    ol_batch_bounds,
    ol_batch_check_crc,
    ol_batch_check_follows,
    ol_batch_next_offset,
    ol_error,
    ol_error_at,
    ol_transaction_outcomes,
    ol_transaction_outcomes_free,
    ol_transaction_outcomes_record,
    ol_transaction_outcomes_open,
    ol_transaction_outcomes_sort,
    ol_record_scan,
    ol_record_scan_close,
    ol_record_scan_fill,
    ol_record_block_put_table,
    ol_file_scan,
    ol_file_scan_close,
    ol_file_scan_judge,
    ol_file_scan_next,
    ol_file_scan_open,
    ol_file_scan_used,
    ol_slice,
    ol_slice_of,
    ol_table_cursor,
)
from offsetlog._native.decompress cimport Decompressor
from offsetlog._native.files cimport FileSystem
from offsetlog._native.replay cimport Replay
from offsetlog._native.resync cimport resync
from offsetlog._native.row_blocks cimport RowBlock, RowBlocks
from offsetlog._native.status cimport check, raise_interrupt

from collections import namedtuple

from offsetlog._native.records import KINDS as _KINDS
from offsetlog._native.row_blocks import VIEWS, view_schema
from offsetlog.error_status import from_status
from offsetlog.errors import (
    ClosedError,
    InternalError,
    InvalidArgumentError,
)

cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFF

_NUMBERS = {"commits": OL_VIEW_COMMITS, "records": OL_VIEW_RECORDS, "batches": OL_VIEW_BATCHES}

# --------------------------------------------------------------------------------------------------------------- headers


Skim = namedtuple(
    "Skim",
    ["position", "next_offset", "first_offset", "last_position", "batches", "max_timestamp", "marks", "damage"],
)


cdef object _failure(ol_error *error, bytes path, int64_t position):
    ol_error_at(error, path, position)
    return from_status(
        error.status,
        (<bytes>error.reason).decode("utf-8", "replace"),
        path=os.fsdecode(path),
        position=position,
        offset=None if error.offset < 0 else error.offset,
    )


cdef bint is_damage(int status) noexcept nogil:
    return status in (OL_CORRUPT, OL_TORN, OL_UNSUPPORTED, OL_LIMIT)


cdef int open_scan(ol_file_scan *scan, FileSystem fs, bytes path, int64_t position, int64_t limit) except -1:
    cdef const char *text = path
    cdef ol_error error
    with nogil:
        check(ol_file_scan_open(scan, fs.fs, text, position, limit, &error), &error)
    return 0


def skim(path, *, FileSystem file_system=None, int64_t position=0, int64_t limit=-1, int64_t until=NEVER,
         int64_t until_timestamp=NEVER, int64_t every=0, bint check_crc=False, int64_t next_offset=-1, int64_t segment_base=0,
         int64_t segment_limit=NEVER):
    """Walks over the headers of the batches in a .log file, from `position` on.

    Args:
        path: the file.
        file_system: the file system of the path; by default the local one.
        position: the byte position where a batch begins.
        limit: the byte position where the walk ends; -1 for the end of the file.
        until: the walk ends before a batch that begins at or after this log offset.
        until_timestamp: a time in ms since 1970; the walk ends before the first batch whose largest timestamp is later.
        every: the approximate distance between two of the returned `marks`, in bytes; 0 for no marks.
        check_crc: whether the CRC of each batch is checked too.
        next_offset: the lowest log offset at which a batch from `position` on can begin; a batch that begins below it
            is damage.  If it is -1, the lowest log offset is unknown, and every base offset is accepted.
        segment_base: a log offset, 0 if it is unknown; a batch that begins below it is damage.
        segment_limit: a log offset; a batch with an offset at or above it is damage.

    Returns:
        A Skim with these fields:

        * `position`: the byte position after the last batch of the walk.
        * `next_offset`: the log offset after that batch, or the argument if there was no batch.
        * `first_offset`: the base offset of the first batch, -1 if there was no batch.
        * `last_position`: the byte position of the last batch, -1 if there was no batch.
        * `batches`: the number of batches.
        * `max_timestamp`: the largest timestamp of the batches, -1 if there was no batch.
        * `marks`: a list of (position of a batch, lower bound of the log offsets of its records).
        * `damage`: the error that ended the walk, or None.

    Raises:
        StorageError: the file cannot be read.
    """
    cdef FileSystem fs = file_system if file_system is not None else FileSystem()
    cdef bytes name = os.fsencode(path)
    cdef ol_file_scan scan
    cdef ol_batch batch
    cdef ol_error error
    cdef int64_t at = position, first_offset = -1, last_position = -1, newest = -1, next_mark = position
    cdef int64_t batches = 0
    cdef int64_t begins = 0
    cdef bint judges = next_offset >= 0
    cdef ol_batch_bounds bounds = ol_batch_bounds(0, segment_limit, segment_base)
    cdef int status
    cdef list marks = []
    damage = None
    open_scan(&scan, fs, name, position, limit)
    try:
        while True:
            with nogil:
                while True:
                    at = scan.position
                    status = ol_file_scan_next(&scan, &batch, &error)
                    if status == OL_OK and check_crc:
                        status = ol_batch_check_crc(&batch, &error)
                    if status == OL_OK and judges:
                        bounds.next_offset = next_offset
                        status = ol_file_scan_judge(&scan, &batch, &bounds, &error)
                    if status == OL_OK and judges and batch.base_offset < next_offset:
                        # The header alone does not prove that the batch before is wrong; the whole batch must be intact.
                        status = ol_batch_check_crc(&batch, &error)
                        if status == OL_OK:
                            status = ol_batch_check_follows(&batch, next_offset, &error)
                    if status != OL_OK:
                        scan.position = at
                        break
                    # NEVER is not a bound: damage can create such base offsets, and the batches after them are still read.
                    if (until != NEVER and batch.base_offset >= until) or batch.max_timestamp > until_timestamp:
                        status = OL_END
                        break
                    batches += 1
                    # The header of a wrapper of magic 0 or 1 has only the offset of its last message.
                    begins = batch.base_offset if batch.record_count >= 0 else max(next_offset, 0)
                    next_offset = ol_batch_next_offset(&batch)
                    last_position = at
                    if first_offset < 0:
                        first_offset = batch.base_offset
                    if batch.max_timestamp > newest:
                        newest = batch.max_timestamp
                    if every > 0 and at >= next_mark:
                        break
            raise_interrupt()
            if status == OL_OK:
                marks.append((at, begins))
                next_mark = at + every
                continue
            if is_damage(status):
                damage = _failure(&error, name, at)
            else:
                check(status, &error)
            break
    finally:
        ol_file_scan_close(&scan)
    return Skim(at, next_offset, first_offset, last_position, batches, newest, marks, damage)


def batch_at(path, int64_t position, *, FileSystem file_system=None):
    """Checks the CRC of the complete batch at a position, and returns its (base offset, last offset, size).

    Returns None if no complete batch with a correct CRC is there.  Also returns None for a compressed message set of
    magic 0 or 1, because its first offset is unknown.
    """
    cdef FileSystem fs = file_system if file_system is not None else FileSystem()
    cdef ol_file_scan scan
    cdef ol_batch batch
    cdef ol_error error
    cdef int status
    open_scan(&scan, fs, os.fsencode(path), position, -1)
    try:
        with nogil:
            status = ol_file_scan_next(&scan, &batch, &error)
            if status == OL_OK:
                status = ol_batch_check_crc(&batch, &error)
        if status == OL_END or is_damage(status):
            return None
        check(status, &error)
        if batch.record_count < 0:
            return None
        return batch.base_offset, batch.last_offset, batch.size
    finally:
        ol_file_scan_close(&scan)


def next_batch(path, int64_t position, int64_t offset_min, *, int64_t limit=-1, FileSystem file_system=None):
    """Returns the position of the next complete batch after a bad one.

    The bad batch is at `position`, and the next one must begin at or above the log offset `offset_min`.  Returns None
    if there is no such batch below the position `limit`.  A load uses the same rule (csrc/log/file_scan.h).
    """
    cdef FileSystem fs = file_system if file_system is not None else FileSystem()
    cdef ol_file_scan scan
    cdef ol_error error
    cdef int status
    open_scan(&scan, fs, os.fsencode(path), position, limit)
    try:
        with nogil:
            status = check(resync(&scan, position, offset_min, &error), &error)
        return scan.position if status == OL_OK else None
    finally:
        ol_file_scan_close(&scan)


def used_until(path, int64_t position, *, FileSystem file_system=None):
    """Returns the position after the last byte that is not zero.

    If all bytes from `position` on are zero, returns `position`.
    """
    cdef FileSystem fs = file_system if file_system is not None else FileSystem()
    cdef ol_file_scan scan
    cdef ol_error error
    cdef int64_t used = 0
    open_scan(&scan, fs, os.fsencode(path), position, -1)
    try:
        with nogil:
            check(ol_file_scan_used(&scan, position, &used, &error), &error)
        return used
    finally:
        ol_file_scan_close(&scan)


# -------------------------------------------------------------------------------------------------------------- outcomes


@cython.final
cdef class Outcomes:
    """The outcomes of the transactions that have records in a range of log offsets; `outcomes_of` creates it."""

    cdef ol_transaction_outcomes outcomes

    def __cinit__(self):
        memset(&self.outcomes, 0, sizeof(self.outcomes))

    def __dealloc__(self):
        ol_transaction_outcomes_free(&self.outcomes)

    @property
    def markers(self):
        """The number of transactions that are known to have ended."""
        return self.outcomes.count

    @property
    def open(self):
        """The number of transactions in the range that have not ended."""
        return ol_transaction_outcomes_open(&self.outcomes)

    cdef int walk(self, ol_file_scan *scan, Decompressor decompressor, int64_t first, int64_t until, int64_t horizon,
                  ol_error *error) noexcept nogil:
        # Returns OL_END at the end of the file, OL_OK at the horizon or once all transactions in the range have ended; or damage,
        # at which scan.position stays.
        cdef ol_batch batch
        cdef ol_batch_bounds bounds = ol_batch_bounds(0, NEVER, 0)
        cdef int64_t at
        cdef int status
        while True:
            at = scan.position
            status = ol_file_scan_next(scan, &batch, error)
            if status == OL_OK:
                status = ol_file_scan_judge(scan, &batch, &bounds, error)
            if status != OL_OK:
                scan.position = at
                return status
            bounds.next_offset = ol_batch_next_offset(&batch)
            if horizon != NEVER and batch.base_offset >= horizon:
                return OL_OK
            if until != NEVER and batch.base_offset >= until and ol_transaction_outcomes_open(&self.outcomes) == 0:
                return OL_OK
            if batch.last_offset < first:
                continue
            status = ol_transaction_outcomes_record(&self.outcomes, &batch, &decompressor.port, batch.base_offset < until, error)
            if status != OL_OK:
                scan.position = at
                return status


def outcomes_of(segments, *, int64_t first=0, int64_t until=NEVER, int64_t horizon=NEVER, FileSystem file_system=None,
                Decompressor decompressor=None):
    """Determines how the transactions that have records in [first, until) ended.

    Args:
        segments: a list of (path, position, limit), in order; a limit of -1 means the end of the file.  The call reads
            from `first` to `until`, and continues until all transactions found there have ended or the files end.  Like
            a load, the call skips unreadable bytes.
        first: the log offset where the range begins.
        until: the log offset where the range ends.
        horizon: a log offset; the call stops before the first batch at or above it, so transactions that end later
            count as open.
        file_system: the file system of the paths.
        decompressor: the decompressor for compressed markers.

    Raises:
        StorageError: a file cannot be read.
    """
    cdef FileSystem fs = file_system if file_system is not None else FileSystem()
    cdef Decompressor inflate = decompressor if decompressor is not None else Decompressor()
    cdef Outcomes found = Outcomes.__new__(Outcomes)
    cdef ol_file_scan scan
    cdef ol_error error
    cdef int status = OL_END
    for path, position, limit in segments:
        open_scan(&scan, fs, os.fsencode(path), position, limit)
        try:
            while True:
                with nogil:
                    status = found.walk(&scan, inflate, first, until, horizon, &error)
                raise_interrupt()
                if not is_damage(status):
                    break
                with nogil:
                    status = resync(&scan, scan.position, 0, &error)
                if check(status, &error) == OL_END:
                    break
            check(status, &error)
        finally:
            ol_file_scan_close(&scan)
        if status == OL_OK:
            break
    ol_transaction_outcomes_sort(&found.outcomes)
    return found


# --------------------------------------------------------------------------------------------------------------- records


cdef list _KIND_TEXTS = [_KINDS[number].encode("ascii") if number in _KINDS else None for number in range(max(_KINDS) + 1)]
cdef const char *kind_texts[64]
for _index in range(64):
    kind_texts[_index] = NULL
for _index in range(len(_KIND_TEXTS)):
    if _KIND_TEXTS[_index] is not None:
        kind_texts[_index] = <bytes>_KIND_TEXTS[_index]


@cython.no_gc_clear  # an open file is closed through its file system
@cython.final
cdef class SegmentScan:
    """Reads the batches of one .log file as Arrow columns.

    It uses plain reads, so the file may be truncated or removed at the same time.  One thread at a time may use it.
    `close`, or the end of a `with` block, closes the file.
    """

    cdef ol_file_scan scan
    cdef ol_record_scan work
    cdef FileSystem fs
    cdef Decompressor decompressor
    cdef Outcomes known
    cdef bytes path
    cdef bytes segment
    cdef bytes group
    cdef bytes topic
    cdef RowBlocks blocks
    cdef bint is_open
    cdef object failure             # the error for the next read to raise
    cdef bint refused_record
    cdef readonly bint needs_outcomes

    def __cinit__(self):
        memset(&self.work, 0, sizeof(self.work))
        self.is_open = False

    def __init__(self, path, view, columns=None, *, int log_partition=-1, FileSystem file_system=None,
                 Decompressor decompressor=None, int64_t position=0, int64_t limit=-1, int64_t first=0,
                 int64_t until=NEVER, group=None, topic=None, int partition=-1, int bucket=0, int buckets=1,
                 bint by_group=False, int64_t next_offset=0, int64_t count_from=0, Outcomes outcomes=None,
                 int64_t segment_base=0, int64_t segment_limit=0):
        """Opens the file.

        Args:
            path: the .log file.
            view: "commits", "records" or "batches".
            columns: the names of the columns to read, from VIEWS[view]; by default all.
            log_partition: the value of the column `log_partition`.
            file_system: the file system of the path.
            decompressor: the decompressor for compressed batches.
            position: the byte position where a batch begins.
            limit: the byte position where the scan ends; -1 for the present end of the file.
            first: a log offset; records below it are skipped.
            until: a log offset; records at or above it are skipped.
            group: only records of this group are returned; None for all groups.
            topic: only commits of this topic are returned; None for all topics.
            partition: only commits of this partition of the topic are returned; -1 for all.
            bucket: the number of the share of positions to read; see `buckets`.
            buckets: the positions are divided into this number of shares, and only the share `bucket` is read.
            by_group: whether groups, not positions, are divided, so that all records of a group are in one share.
            next_offset: the log offset after the batch before `position`; a batch that begins below it is damage.
            count_from: a log offset; `present` counts the records from there on.
            outcomes: the Outcomes of the transactions; `needs_outcomes` says when they must be set.
            segment_base: a log offset, 0 if it is unknown; a batch that begins below it is damage.
            segment_limit: the base offset of the next segment, 0 if it is unknown; a batch with an offset at or above
                it is damage.

        Raises:
            MissingFileError, StorageError: the file cannot be opened.
            InvalidArgumentError: the view, a column or the bucket does not exist.
        """
        if self.is_open:
            raise InternalError("the scan is open already")
        if view not in _NUMBERS:
            raise InvalidArgumentError(f"unknown view {view!r}; the views are {', '.join(sorted(_NUMBERS))}")
        if not 0 <= bucket < buckets:
            raise InvalidArgumentError(f"bucket must be from 0 to {buckets - 1}, not {bucket}")
        self.blocks = RowBlocks(view, columns)
        self.fs = file_system if file_system is not None else FileSystem()
        self.decompressor = decompressor if decompressor is not None else Decompressor()
        self.path = os.fsencode(path)
        self.segment = self.path.rpartition(b"/")[2]
        self.group = None if group is None else group.encode("utf-8", "surrogatepass")
        self.topic = None if topic is None else topic.encode("utf-8", "surrogatepass")
        self.known = outcomes
        open_scan(&self.scan, self.fs, self.path, position, limit)
        self.is_open = True
        self.work.file_scan = &self.scan
        self.work.decompressor = &self.decompressor.port
        self.work.outcomes = NULL if outcomes is None else &outcomes.outcomes
        self.work.kinds = kind_texts
        self.work.kind_count = 64
        self.work.segment = ol_slice_of(<const char *>self.segment, <size_t>len(self.segment))
        self.work.first, self.work.until, self.work.next_offset = first, until, next_offset
        self.work.count_from = count_from
        self.work.segment_base, self.work.segment_limit = segment_base, segment_limit
        self.work.log_partition = log_partition
        self.work.view = _NUMBERS[view]
        if self.group is not None:
            self.work.group = ol_slice_of(<const char *>self.group, <size_t>len(self.group))
        if self.topic is not None:
            self.work.topic = ol_slice_of(<const char *>self.topic, <size_t>len(self.topic))
        self.work.partition = partition
        self.work.shard.number, self.work.shard.count, self.work.shard.by_group = bucket, buckets, by_group
        self.work.wants_outcomes = "outcome" in self.blocks.columns or "marker_offset" in self.blocks.columns

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __dealloc__(self):
        if self.is_open:
            ol_record_scan_close(&self.work)
            ol_file_scan_close(&self.scan)

    def close(self):
        """Closes the file; a second call does nothing.  Record batches that were read before stay valid."""
        if self.is_open:
            self.is_open = False
            ol_record_scan_close(&self.work)
            ol_file_scan_close(&self.scan)

    @property
    def position(self):
        """The byte position of the next batch."""
        return self.scan.position

    @property
    def limit(self):
        """The byte position where the scan ends."""
        return self.scan.limit

    @property
    def next_offset(self):
        """The log offset after the last batch that was read."""
        return self.work.next_offset

    @property
    def present(self):
        """The number of records scanned so far, including those that the filters drop.

        Records below `first` or `count_from`, and records at or above `until`, are not counted.
        """
        return self.work.present

    @property
    def outcomes(self):
        """The Outcomes that the caller has set for `read`; None if the caller has set none."""
        return self.known

    @outcomes.setter
    def outcomes(self, Outcomes found not None):
        self.known = found
        self.work.outcomes = &found.outcomes
        self.needs_outcomes = False

    def read(self, size_t rows=65536):
        """Returns the next pyarrow.RecordBatch of up to `rows` rows; None if there are no more rows.

        If the call sets `needs_outcomes`, it has stopped early, because the next batch belongs to a transaction and a
        column depends on how that transaction ended.  The result may then have no rows.  Set `outcomes`, and call
        `read` again.

        Raises:
            CorruptionError, TornTailError, UnsupportedVersionError, LimitError: a batch is damaged; the error has its
                path and position.  If the error has a log offset, one record could not be decoded.  The rows before the
                damage are returned first.  `skip` continues after the damage.
            StorageError: the file cannot be read.
            ClosedError: the scan is closed.
        """
        cdef RowBlock block
        cdef c_bool refused = False
        cdef ol_error error
        cdef int status
        if not self.is_open:
            raise ClosedError("the scan is closed")
        self.raise_failure()
        if self.needs_outcomes:
            raise InvalidArgumentError("set `outcomes` before reading on: the next batch belongs to a transaction")
        if rows == 0:
            raise InvalidArgumentError("rows must be at least 1")
        block = self.blocks.take(rows)
        with nogil:
            status = ol_record_scan_fill(&self.work, &block.rows, &refused, &error)
        raise_interrupt()
        if status == OL_WOULD_BLOCK:
            self.needs_outcomes = True
        elif is_damage(status):
            self.failure = _failure(&error, self.path, error.position if refused else self.scan.position)
            self.refused_record = refused
        else:
            check(status, &error)
        if block.rows.count > 0 or self.needs_outcomes:
            return self.blocks.batch_of(block)
        self.raise_failure()
        return None

    cdef int raise_failure(self) except -1:
        if self.failure is None:
            return 0
        raise self.failure

    def is_at_unused(self):
        """Returns whether `read` failed at unused space, in which all bytes up to the limit are zero."""
        cdef ol_error error
        cdef int64_t used = 0
        if not self.is_open:
            raise ClosedError("the scan is closed")
        if self.failure is None or self.refused_record:
            return False
        with nogil:
            check(ol_file_scan_used(&self.scan, self.scan.position, &used, &error), &error)
        return used == self.scan.position

    def skip(self):
        """Continues after the point at which `read` failed: a record that could not be decoded, or a damaged batch.

        Returns False if nothing more can be read, because no complete batch follows below the limit; otherwise True.
        """
        cdef ol_error error
        cdef int status
        if not self.is_open:
            raise ClosedError("the scan is closed")
        if self.failure is None:
            raise InvalidArgumentError("there is nothing to skip: the last read did not fail")
        self.failure = None
        if self.refused_record:
            return True
        with nogil:
            status = check(resync(&self.scan, self.scan.position, self.work.next_offset, &error), &error)
        if status == OL_END:
            self.scan.position = self.scan.limit
        return status == OL_OK


@cython.final
cdef class PositionScan:
    """Reads the committed positions of a replay as Arrow columns of the view "offsets".

    One thread at a time may use it.
    """

    cdef Replay replay
    cdef RowBlocks blocks
    cdef ol_table_cursor cursor
    cdef int32_t log_partition

    def __cinit__(self):
        memset(&self.cursor, 0, sizeof(self.cursor))

    def __init__(self, Replay replay not None, columns=None, *, int32_t log_partition=-1):
        """Prepares to read all positions, which are returned in no particular order.

        Args:
            replay: the replay, which must not change from now on.
            columns: the names of the columns to read, from VIEWS["offsets"]; by default all.
            log_partition: the value of the column `log_partition`.

        Raises:
            InvalidArgumentError: a column does not exist.
        """
        self.replay, self.blocks, self.log_partition = replay, RowBlocks("offsets", columns), log_partition

    def read(self, size_t rows=65536):
        """Returns the next pyarrow.RecordBatch of up to `rows` rows, None if there are no more rows.

        May raise CapacityError.
        """
        cdef RowBlock block
        cdef ol_error error
        if rows == 0:
            raise InvalidArgumentError("rows must be at least 1")
        block = self.blocks.take(rows)
        with nogil:
            check(ol_record_block_put_table(&block.rows, self.log_partition, self.replay.state.table, &self.cursor, &error), &error)
        return self.blocks.batch_of(block) if block.rows.count > 0 else None
