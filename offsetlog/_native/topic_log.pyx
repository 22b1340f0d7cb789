"""The log of one partition of an ordinary topic."""

import os
import threading

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from offsetlog._native.csrc cimport (
    OL_PRODUCE_ACCEPTED,
    OL_PRODUCE_CORRUPT_MESSAGE,
    OL_PRODUCE_INVALID_PRODUCER_EPOCH,
    OL_PRODUCE_INVALID_RECORD,
    OL_PRODUCE_INVALID_TIMESTAMP,
    OL_PRODUCE_INVALID_TXN_STATE,
    OL_PRODUCE_MESSAGE_TOO_LARGE,
    OL_PRODUCE_NOT_ONE_BATCH,
    OL_PRODUCE_OUT_OF_ORDER_SEQUENCE,
    OL_PRODUCE_UNSUPPORTED_COMPRESSION,
    ol_appended,
    ol_error,
    ol_log_config,
    ol_log_config_init,
    ol_log_delete_below,
    ol_log_end,
    ol_log_end_for_epoch,
    ol_log_epoch_at,
    ol_log_expect_flushes,
    ol_log_flush,
    ol_log_flush_unasked,
    ol_log_flushed,
    ol_log_has_failed,
    ol_log_is_writable,
    ol_log_leader_epoch,
    ol_log_options,
    ol_log_recovery,
    ol_log_size_bytes,
    ol_log_start,
    ol_log_topic_id,
    ol_log_wants_flush,
    ol_produce_rules,
    ol_produced_batch,
    ol_produced_batch_refused,
    ol_retention_rules,
    ol_slice_of,
    ol_topic_log,
    ol_topic_log_abandon,
    ol_topic_log_swap_recent,
    ol_recent_batches_free,
    ol_topic_log_change_config,
    ol_topic_log_close,
    ol_topic_log_first_unstable,
    ol_topic_log_highest_producer_id,
    ol_topic_log_log,
    ol_topic_log_open,
    ol_topic_log_produce,
    ol_topic_log_retained_from,
)
from offsetlog._native.decompress cimport Decompressor
from offsetlog._native.files cimport FileSystem
from offsetlog._native.findings cimport append_of, recovery_of
from offsetlog._native.log_queries cimport aborted_between, batches_of, record_at_time, size_between
from offsetlog._native.status cimport check

from offsetlog.errors import ClosedError
from offsetlog.types import Appended, EpochEnd


#: The reasons to refuse a batch (csrc/topic/produced_batch.h), with their names in `Appended.refusal`.
cdef dict _REFUSALS = {
    OL_PRODUCE_NOT_ONE_BATCH: "not_one_batch",
    OL_PRODUCE_CORRUPT_MESSAGE: "corrupt_message",
    OL_PRODUCE_INVALID_RECORD: "invalid_record",
    OL_PRODUCE_MESSAGE_TOO_LARGE: "message_too_large",
    OL_PRODUCE_INVALID_TIMESTAMP: "invalid_timestamp",
    OL_PRODUCE_UNSUPPORTED_COMPRESSION: "unsupported_compression",
    OL_PRODUCE_INVALID_TXN_STATE: "invalid_txn_state",
    OL_PRODUCE_OUT_OF_ORDER_SEQUENCE: "out_of_order_sequence",
    OL_PRODUCE_INVALID_PRODUCER_EPOCH: "invalid_producer_epoch",
}
REFUSALS = frozenset(_REFUSALS.values())
cdef size_t REFUSED_RECORDS_MAX = 1000


cdef object _refused(const ol_appended *appended, const ol_produce_rules *rules, str reason):
    cdef const ol_produced_batch *produced = &appended.produced
    cdef int32_t *indexes
    cdef size_t capacity, count = 0
    cdef size_t index
    cdef list found = []
    if produced.refused_record >= 0:
        # A compressed batch may hold or announce far more records than it has bytes.
        capacity = min(<size_t>produced.batch.record_count, REFUSED_RECORDS_MAX)
        indexes = <int32_t *>malloc(capacity * sizeof(int32_t))
        if indexes == NULL:
            raise MemoryError
        try:
            with nogil:
                count = ol_produced_batch_refused(produced, rules, indexes, capacity)
            found = [indexes[index] for index in range(count)]
        finally:
            free(indexes)
    return Appended(-1, -1, -1, False, _REFUSALS[produced.refusal], tuple(found), reason)


cdef void _set_config(ol_log_config *config, settings) except *:
    config.segment_bytes = settings.segment_bytes
    config.segment_ms = settings.segment_ms
    config.index_interval_bytes = settings.index_interval_bytes
    config.segment_index_bytes = settings.segment_index_bytes
    config.producer_expiration_ms = settings.producer_id_expiration_ms


@cython.final
cdef class RecentBatches:
    """Keeps the last batches of a log's producers while the log is closed.

    After the next open, the log can then recognize a batch that is sent again.
    """

    def __dealloc__(self):
        ol_recent_batches_free(&self.recent)


@cython.final
@cython.no_gc_clear  # an open log is closed through its file system
cdef class TopicLog:
    """An open partition directory of an ordinary topic (docs/format/topics.md §17).

    Any thread may call every method.  `close` waits for the calls in progress.  Every later call raises ClosedError.
    """

    def __cinit__(self):
        self.handle = NULL

    def __init__(self, directory, FileSystem fs not None, Decompressor decompressor not None, settings, *,
                 bytes topic_id not None, int32_t leader_epoch=0, bint clean=False, int64_t recovery_point=-1,
                 int64_t log_start_offset=-1):
        """Opens a partition directory for writing; creates it if it does not exist.

        Args:
            directory: the partition's directory.
            fs: the file system to use.
            decompressor: the decompressor for queries by time, and for the keys of compressed batches.
            settings: TopicLogSettings.
            topic_id: the 16 bytes of the topic's id.
            leader_epoch: the leader epoch in which this process leads; if the log has a later epoch, that one is used.
            clean: whether the log directory was stopped cleanly.
            recovery_point, log_start_offset: the entries of this partition in the checkpoint files; -1 if an entry is
                missing.

        Raises:
            StorageError: the directory cannot be read or written.
            CorruptionError: the directory belongs to another topic.
        """
        cdef ol_log_options options
        cdef ol_log_recovery found
        cdef ol_error error
        self.directory = os.fsencode(directory)
        self.fs = fs
        self.decompressor = decompressor
        memset(&options, 0, sizeof(options))
        memset(&found, 0, sizeof(found))
        ol_log_config_init(&options.config)
        _set_config(&options.config, settings)
        options.config.append = append_of(settings.append)
        options.fs = fs.fs
        options.directory = self.directory
        options.writable = True
        options.create = True
        options.clean = clean
        # Headers in a producer's records must not be mistaken for this log's own notes of its flushed bytes.
        options.replicated = True
        options.recovery_point = recovery_point
        options.log_start_offset = log_start_offset
        options.cleaned_by_others = -1
        options.topic_id = <const uint8_t *><const char *>topic_id
        options.known_topic_id = <const uint8_t *><const char *>topic_id
        options.decompressor = &decompressor.port
        with nogil:
            check(ol_topic_log_open(&options, leader_epoch, &self.handle, &found, &error), &error)
        self.recovery = recovery_of(&found)

    def __dealloc__(self):
        # The log was never closed; its appends are in the files, as after the end of a process.
        if self.handle != NULL:
            ol_topic_log_abandon(self.handle)
            self.handle = NULL

    # -------------------------------------------------------------------------------------------------------- life

    cdef int enter(self) except -1:
        if self.closing or self.handle == NULL:
            raise ClosedError("the log of the topic partition is closed")
        self.in_flight += 1
        return 0

    cdef void leave(self) noexcept:
        self.in_flight -= 1
        if self.in_flight == 0 and self.idle is not None:
            self.idle.set()

    cdef ol_topic_log *_take(self):
        # Returns the handle to the caller that closes it, once no call is in progress; NULL to a second caller.
        cdef ol_topic_log *handle
        if self.closing:
            return NULL
        self.closing = True
        if self.in_flight > 0:
            self.idle = threading.Event()
        while self.in_flight > 0:
            self.idle.wait(1.0)
        handle = self.handle
        self.handle = NULL
        return handle

    def close(self):
        """Closes the log cleanly, with all records on disk.  Returns the log end offset; a second call returns -1.

        Raises:
            StorageError: a file could not be written.  The log is closed nevertheless, but not cleanly.
        """
        cdef ol_topic_log *handle = self._take()
        cdef ol_error error
        cdef int64_t end = -1
        if handle != NULL:
            with nogil:
                check(ol_topic_log_close(handle, &end, &error), &error)
        return end

    def swap_recent_batches(self, RecentBatches recent not None):
        """Exchanges the recent batches of the log for those of the given object.

        Before a close, the caller passes an empty object, which then has the batches.  After the next open, the caller
        passes the same object, which returns them to the log.

        Raises:
            ClosedError: the log is closed.
        """
        self.enter()
        with nogil:
            ol_topic_log_swap_recent(self.handle, &recent.recent)
        self.leave()

    def abandon(self):
        """Releases the log without writing a byte."""
        cdef ol_topic_log *handle = self._take()
        if handle != NULL:
            with nogil:
                ol_topic_log_abandon(handle)

    # ------------------------------------------------------------------------------------------------------- facts

    @property
    def path(self):
        """The partition's directory."""
        return os.fsdecode(self.directory)

    @property
    def topic_id(self):
        """The topic id, 16 bytes, from partition.metadata; None if there is none."""
        cdef uint8_t found[16]
        self.enter()
        try:
            if not ol_log_topic_id(ol_topic_log_log(self.handle), found):
                return None
            return PyBytes_FromStringAndSize(<const char *>found, 16)
        finally:
            self.leave()

    @property
    def start(self):
        """The first offset of the log."""
        self.enter()
        try:
            return ol_log_start(ol_topic_log_log(self.handle))
        finally:
            self.leave()

    @property
    def end(self):
        """The offset after the last record."""
        self.enter()
        try:
            return ol_log_end(ol_topic_log_log(self.handle))
        finally:
            self.leave()

    @property
    def flushed(self):
        """The offset below which all records survive a loss of power."""
        self.enter()
        try:
            return ol_log_flushed(ol_topic_log_log(self.handle))
        finally:
            self.leave()

    @property
    def leader_epoch(self):
        """The leader epoch in which this process leads."""
        self.enter()
        try:
            return ol_log_leader_epoch(ol_topic_log_log(self.handle))
        finally:
            self.leave()

    @property
    def size_bytes(self):
        """The bytes of all segments."""
        self.enter()
        try:
            return ol_log_size_bytes(ol_topic_log_log(self.handle))
        finally:
            self.leave()

    @property
    def is_writable(self):
        """Whether the log accepts appends: its bytes were correct when it was opened, and nothing has failed since."""
        self.enter()
        try:
            log = ol_topic_log_log(self.handle)
            return bool(ol_log_is_writable(log)) and not ol_log_has_failed(log)
        finally:
            self.leave()

    @property
    def wants_flush(self):
        """Whether so many segments were rolled that a flush should be made although nobody has requested one."""
        self.enter()
        try:
            return bool(ol_log_wants_flush(ol_topic_log_log(self.handle)))
        finally:
            self.leave()

    @property
    def highest_producer_id(self):
        """The greatest producer id ever seen in this log, -1 if none."""
        self.enter()
        try:
            return ol_topic_log_highest_producer_id(self.handle)
        finally:
            self.leave()

    # ----------------------------------------------------------------------------------------------------- writing

    def expect_flushes(self):
        """Prepares the log for producers that will wait for flushes to disk."""
        self.enter()
        try:
            ol_log_expect_flushes(ol_topic_log_log(self.handle))
        finally:
            self.leave()

    def produce(self, bytes records not None, *, int64_t batch_bytes_max, int64_t timestamp_min, int64_t timestamp_max,
                int64_t log_append_time=-1, bint takes_zstd=True, bint needs_keys=False):
        """Appends a producer's batch, and returns an Appended.  Its `refusal` is "" if the batch was accepted.

        Args:
            records: the bytes of one batch of magic 2.
            batch_bytes_max: the topic's limit for a batch, in bytes.
            timestamp_min, timestamp_max: the smallest and largest timestamp that a record may have, in ms since 1970.
            log_append_time: the time that replaces the records' timestamps, in ms since 1970; -1 to keep them.
            takes_zstd: whether the producer's protocol version allows zstd.
            needs_keys: whether every record must have a key, because the topic is compacted.

        Raises:
            DiskFullError, StorageError, PartitionFailedError, ReadOnlyError, TooLargeError: nothing was appended.
        """
        cdef ol_produce_rules rules
        cdef ol_appended appended
        cdef ol_error error
        cdef int status
        memset(&rules, 0, sizeof(rules))
        rules.batch_bytes_max = <size_t>max(batch_bytes_max, 0)
        rules.timestamp_min = timestamp_min
        rules.timestamp_max = timestamp_max
        rules.log_append_time = log_append_time
        rules.takes_zstd = takes_zstd
        rules.needs_keys = needs_keys
        rules.decompressor = &self.decompressor.port
        data = ol_slice_of(<const uint8_t *><const char *>records, <size_t>len(records))
        self.enter()
        try:
            with nogil:
                status = ol_topic_log_produce(self.handle, data, &rules, &appended, &error)
                if appended.produced.refusal == OL_PRODUCE_ACCEPTED:
                    check(status, &error)
            if appended.produced.refusal != OL_PRODUCE_ACCEPTED:
                return _refused(&appended, &rules, (<bytes>error.reason).decode("utf-8", "replace"))
        finally:
            self.leave()
        return Appended(appended.base_offset, appended.next_offset, appended.log_append_time, bool(appended.is_duplicate),
                        "", (), "")

    def flush(self, *, bint unasked=False):
        """Flushes all records below the log end, so that they survive a loss of power; returns the flushed offset.

        Raises:
            StorageError: the flush failed.  The log accepts no more appends.
        """
        cdef ol_error error
        cdef int64_t flushed = -1
        self.enter()
        try:
            with nogil:
                log = ol_topic_log_log(self.handle)
                if unasked:
                    check(ol_log_flush_unasked(log, &flushed, &error), &error)
                else:
                    check(ol_log_flush(log, &flushed, &error), &error)
        finally:
            self.leave()
        return flushed

    def change_settings(self, settings):
        """Applies other TopicLogSettings, from the next batch on.

        The setting `append` stays as it was when the log was opened.  The active segment is rolled according to the new
        settings, but it does not grow above the size for which it was created.

        Raises:
            ConfigError: a setting is out of range; nothing was changed.
        """
        cdef ol_log_config config
        cdef ol_error error
        ol_log_config_init(&config)
        _set_config(&config, settings)
        self.enter()
        try:
            with nogil:
                check(ol_topic_log_change_config(self.handle, &config, &error), &error)
        finally:
            self.leave()

    # --------------------------------------------------------------------------------------------------- retention

    def retained_from(self, *, int64_t now_ms, int64_t retention_ms, int64_t retention_bytes, int64_t below):
        """Returns the offset from which the records should be kept; the log start if no record should be deleted.

        If no record should be kept, the call begins a new active segment.  It flushes all records below the returned
        offset.

        Args:
            now_ms: the time of day, in ms since 1970.
            retention_ms: a segment should be deleted once its newest record is older than this, in ms; -1 for no limit.
            retention_bytes: the oldest segments should be deleted while the remaining segments have at least this many
                bytes; -1 for no limit.
            below: records at or above this offset are kept.

        Raises:
            StorageError, PartitionFailedError, ReadOnlyError: the offset could not be determined.
        """
        cdef ol_retention_rules rules
        cdef ol_error error
        cdef int64_t start = -1
        rules.now_ms = now_ms
        rules.retention_ms = retention_ms
        rules.retention_bytes = retention_bytes
        rules.below = below
        self.enter()
        try:
            with nogil:
                check(ol_topic_log_retained_from(self.handle, &rules, &start, &error), &error)
        finally:
            self.leave()
        return start

    def delete_below(self, int64_t offset):
        """Moves the start of the log to `offset`, and stores it.  Only one thread at a time may call this method.

        The files of the segments below the new start are renamed so that their names end in ".deleted".

        Raises:
            StorageError, DiskFullError: some files may not have been renamed; the next call renames them.
            PartitionFailedError, ReadOnlyError, InvalidArgumentError: nothing was changed.
        """
        cdef ol_error error
        self.enter()
        try:
            with nogil:
                check(ol_log_delete_below(ol_topic_log_log(self.handle), offset, &error), &error)
        finally:
            self.leave()

    # ----------------------------------------------------------------------------------------------------- reading

    def first_unstable(self):
        """Returns the first offset of the oldest open transaction; the log end offset if no transaction is open."""
        self.enter()
        try:
            return ol_topic_log_first_unstable(self.handle)
        finally:
            self.leave()

    def read(self, int64_t offset, int64_t end, int64_t size_max, *, bint whole_first=False):
        """Reads complete batches, from the one that contains `offset` up to the last one that is entirely below `end`.

        Args:
            offset: an offset from the log start to the log end.
            end: an offset; a batch with a record at or above it is not read.
            size_max: the largest size of the result, in bytes.  With `whole_first`, the first batch is returned even if
                it is larger.

        Raises:
            OffsetOutOfRangeError: the log does not have the offset.
            CorruptionError, StorageError.
        """
        self.enter()
        try:
            return batches_of(ol_topic_log_log(self.handle), offset, end, size_max, whole_first)
        finally:
            self.leave()

    def size_between(self, int64_t offset, int64_t end, int64_t size_max):
        """Returns how many bytes `read` would find in the segment that has `offset`; raises the errors of `read`."""
        self.enter()
        try:
            return size_between(ol_topic_log_log(self.handle), offset, end, size_max)
        finally:
            self.leave()

    def aborted(self, int64_t begin, int64_t end):
        """Returns (producer id, first offset) of the aborted transactions that overlap [begin, end)."""
        self.enter()
        try:
            return aborted_between(ol_topic_log_log(self.handle), begin, end)
        finally:
            self.leave()

    def record_at_time(self, int64_t time, int64_t end):
        """Returns the TimedRecord of the first record below `end` whose timestamp is at or after `time` (ms), or None.

        If `time` is -3, returns the first record with the largest timestamp.  Raises CorruptionError, StorageError.
        """
        self.enter()
        try:
            return record_at_time(ol_topic_log_log(self.handle), &self.decompressor.port, time, end)
        finally:
            self.leave()

    def epoch_at(self, int64_t offset):
        """Returns the leader epoch of the record at an offset, -1 if unknown."""
        self.enter()
        try:
            return ol_log_epoch_at(ol_topic_log_log(self.handle), offset)
        finally:
            self.leave()

    def end_offset_for_epoch(self, int32_t epoch):
        """Returns the EpochEnd of the greatest epoch that is at most `epoch` (docs/format/leader-epochs.md §12)."""
        cdef int32_t found
        cdef int64_t end
        self.enter()
        try:
            with nogil:
                ol_log_end_for_epoch(ol_topic_log_log(self.handle), epoch, &found, &end)
        finally:
            self.leave()
        return EpochEnd(found, end)
