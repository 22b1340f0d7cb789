"""Returns the changes that take effect in one log partition, as Arrow columns or as PositionChange objects.

A feed reads the log below the high watermark W, whether the replica leads or follows (csrc/history/change_feed.h).
"""

cimport cython
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memset

from offsetlog._native.buffers cimport NAME_GROUP, new_named_tuple, set_item, take_name
from offsetlog._native.csrc cimport (
    OL_COLUMN_BATCH_LEADER_EPOCH,
    OL_COLUMN_COMMIT_TIMESTAMP,
    OL_COLUMN_EFFECTIVE_AT,
    OL_COLUMN_EXPIRE_TIMESTAMP,
    OL_COLUMN_GROUP,
    OL_COLUMN_LEADER_EPOCH,
    OL_COLUMN_LOG_OFFSET,
    OL_COLUMN_METADATA,
    OL_COLUMN_OFFSET,
    OL_COLUMN_PARTITION,
    OL_COLUMN_TIMESTAMP,
    OL_COLUMN_TOPIC,
    OL_COLUMN_TOPIC_ID,
    OL_END,
    OL_OK,
    ol_change_feed,
    ol_change_feed_create,
    ol_change_feed_free,
    ol_change_feed_is_current,
    ol_change_feed_read,
    ol_change_feed_start,
    ol_column,
    ol_error,
    ol_record_block,
    ol_row_array,
    ol_slice,
)
from offsetlog._native.partition cimport Partition
from offsetlog._native.row_blocks cimport RowBlock, RowBlocks
from offsetlog._native.status cimport check, raise_interrupt

from base64 import urlsafe_b64decode
from uuid import UUID

from offsetlog.errors import InternalError
from offsetlog.types import LogGap, OffsetAndMetadata, PositionChange

cdef type POSITION_CHANGE = PositionChange
cdef type OFFSET_AND_METADATA = OffsetAndMetadata


# ----------------------------------------------------------------------------------------------------------------- rows


cdef inline bint is_null(const ol_row_array *array, size_t row) noexcept:
    return array.has_nulls and not (array.valid[row >> 3] >> (row & 7)) & 1


cdef inline int64_t long_at(const ol_record_block *block, ol_column column, size_t row) noexcept:
    return (<const int64_t *>block.arrays[<int>column].data)[row]


cdef inline int32_t int_at(const ol_record_block *block, ol_column column, size_t row) noexcept:
    return (<const int32_t *>block.arrays[<int>column].data)[row]


cdef str text_at(const ol_row_array *array, size_t row):
    cdef int32_t start = array.ends[row]
    return PyUnicode_DecodeUTF8(<const char *>array.data + start, array.ends[row + 1] - start, NULL)


cdef str name_at(const ol_row_array *array, size_t row, str last):
    # Rows of one commit have the same group, and mostly the same topic, so they share one object.
    cdef int32_t start = array.ends[row]
    cdef int32_t size = array.ends[row + 1] - start
    cdef int32_t before
    if last is not None:
        before = array.ends[row - 1]
        if start - before == size and memcmp(array.data + before, array.data + start, <size_t>size) == 0:
            return last
    return text_at(array, row)


cdef object value_at(const ol_record_block *block, size_t row):
    if is_null(&block.arrays[<int>OL_COLUMN_OFFSET], row):
        return None
    topic_id = None
    if not is_null(&block.arrays[<int>OL_COLUMN_TOPIC_ID], row):
        topic_id = UUID(bytes=urlsafe_b64decode(text_at(&block.arrays[<int>OL_COLUMN_TOPIC_ID], row) + "=="))
    value = new_named_tuple(OFFSET_AND_METADATA, 6)
    set_item(value, 0, long_at(block, OL_COLUMN_OFFSET, row))
    set_item(value, 1, text_at(&block.arrays[<int>OL_COLUMN_METADATA], row))
    set_item(value, 2, int_at(block, OL_COLUMN_LEADER_EPOCH, row))
    set_item(value, 3, long_at(block, OL_COLUMN_COMMIT_TIMESTAMP, row))
    set_item(value, 4, long_at(block, OL_COLUMN_EXPIRE_TIMESTAMP, row))
    set_item(value, 5, topic_id)
    return value


cdef list changes_in(RowBlock rows, object log_partition):
    cdef const ol_record_block *block = &rows.rows
    cdef list found = []
    cdef str group = None
    cdef str topic = None
    cdef size_t row
    for row in range(block.count):
        group = name_at(&block.arrays[<int>OL_COLUMN_GROUP], row, group)
        topic = name_at(&block.arrays[<int>OL_COLUMN_TOPIC], row, topic)
        change = new_named_tuple(POSITION_CHANGE, 9)
        set_item(change, 0, log_partition)
        set_item(change, 1, long_at(block, OL_COLUMN_LOG_OFFSET, row))
        set_item(change, 2, long_at(block, OL_COLUMN_EFFECTIVE_AT, row))
        set_item(change, 3, int_at(block, OL_COLUMN_BATCH_LEADER_EPOCH, row))
        set_item(change, 4, long_at(block, OL_COLUMN_TIMESTAMP, row))
        set_item(change, 5, group)
        set_item(change, 6, topic)
        set_item(change, 7, int_at(block, OL_COLUMN_PARTITION, row))
        set_item(change, 8, value_at(block, row))
        found.append(change)
    return found


# ----------------------------------------------------------------------------------------------------------------- the feed


@cython.final
cdef class ChangeFeed:
    """Reads the changes that take effect in one log partition.  Only one thread at a time may use it.

    Args:
        log_partition: the number of the log partition.
        groups: the names of the watched groups; None for all.

    Raises GroupError, CapacityError.
    """

    cdef ol_change_feed feed
    cdef ol_slice *slices
    cdef list names
    cdef readonly Partition partition
    cdef readonly int log_partition

    def __cinit__(self):
        memset(&self.feed, 0, sizeof(self.feed))
        self.slices = NULL

    def __init__(self, int32_t log_partition, groups=None):
        cdef ol_error error
        cdef size_t count = 0
        if self.slices != NULL or self.partition is not None:
            raise InternalError("the feed has been initialized already")
        self.log_partition = log_partition
        if groups is not None:
            self.names = list(groups)
            self.slices = <ol_slice *>malloc((len(self.names) + 1) * sizeof(ol_slice))
            if self.slices == NULL:
                raise MemoryError()
            for name in self.names:
                take_name(name, NAME_GROUP, &self.slices[count])
                count += 1
        check(ol_change_feed_create(&self.feed, log_partition, self.slices, count, &error), &error)

    def __dealloc__(self):
        ol_change_feed_free(&self.feed)
        free(self.slices)

    @property
    def offset(self):
        """The log offset below which every change was read."""
        return self.feed.offset

    @property
    def epoch(self):
        """The leader epoch of the record before `offset`, -1 if there is none."""
        return self.feed.epoch

    def start(self, Partition partition not None, int64_t offset, int32_t epoch, int64_t known_below):
        """Starts or continues the feed at a log offset of an open partition.

        Args:
            partition: the partition.
            offset: the log offset from which to read.
            epoch: the leader epoch of the record before that offset, -1 if there is no such record.
            known_below: a log offset; gaps in the log between `offset` and this log offset were reported before, and
                the feed does not report them again.

        Raises StorageError, CapacityError, OffsetOutOfRangeError, ClosedError.
        """
        cdef ol_error error
        self.partition = partition
        partition.enter()
        try:
            self.feed.partition = partition.handle
            with nogil:
                check(ol_change_feed_start(&self.feed, offset, epoch, known_below, &error), &error)
        finally:
            self.feed.partition = NULL
            partition.leave()

    def extend_gap(self, int64_t below):
        """Extends the last gap up to the log offset `below`.  Missing records below it are not reported again."""
        if below > self.feed.known_below:
            self.feed.known_below = below

    def is_current(self):
        """Whether the log has not been truncated since `start`; raises ClosedError if the partition is closed."""
        self.check_started()
        self.partition.enter()
        try:
            self.feed.partition = self.partition.handle
            return ol_change_feed_is_current(&self.feed)
        finally:
            self.feed.partition = NULL
            self.partition.leave()

    cdef int check_started(self) except -1:
        if self.partition is None:
            raise InternalError("the feed must be started before it is read")
        return 0

    cdef int read_block(self, RowBlock block) except -1:
        cdef ol_error error
        cdef int status
        self.check_started()
        self.partition.enter()
        try:
            self.feed.partition = self.partition.handle
            with nogil:
                status = ol_change_feed_read(&self.feed, &block.rows, &error)
            raise_interrupt()
            return check(status, &error)
        finally:
            self.feed.partition = NULL
            self.partition.leave()

    def read(self, RowBlocks blocks not None, size_t rows, bint arrow):
        """Reads about `rows` rows.  The read ends earlier at a gap in the log, or at the high watermark W.

        Args:
            blocks: the row blocks of the view "changes"; all feeds of one thread share them.
            rows: the number of rows, at least 1.  The values of a transaction are not split, so a transaction with more
                values exceeds this number.
            arrow: whether the rows are returned as pyarrow.RecordBatch objects; if not, they are returned as
                PositionChange objects.

        Returns:
            (batches or changes, the LogGap after them or None, whether W was reached).

        Raises:
            StorageError, CapacityError, OffsetOutOfRangeError, LimitError: the call returned no rows.  The caller must
                start the feed again at the same log offset.
            ClosedError: the partition is closed.
        """
        cdef RowBlock block
        cdef list found = []
        cdef int status = OL_OK
        while True:
            block = blocks.take(rows)
            status = self.read_block(block)
            if block.rows.count > 0:
                if arrow:
                    found.append(blocks.batch_of(block))
                else:
                    found += changes_in(block, self.log_partition)
            if not self.feed.is_installing:
                return found, self.gap_met(), status == OL_END

    cdef object gap_met(self):
        if self.feed.gap.below == 0:
            return None
        reason = "damaged" if self.feed.gap.is_damage else "cleaned"
        return LogGap(self.log_partition, self.feed.gap.start, self.feed.gap.below, reason)
