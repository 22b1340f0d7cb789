"""Cleans one log of a topic, and returns the facts that decide when to clean it (docs/format/topics.md §17.7)."""

from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport calloc, free

from offsetlog._native.cleaner cimport CleanControl, Compressor, described_report
from offsetlog._native.csrc cimport (
    ol_clean_options,
    ol_clean_options_init,
    ol_clean_report,
    ol_cleaner_run_topic,
    ol_error,
    ol_log_segment_at,
    ol_log_segment_files,
    ol_log_segment_files_at,
    ol_log_segment_info,
    ol_topic_log_log,
)
from offsetlog._native.status cimport check
from offsetlog._native.topic_log cimport TopicLog


def clean_topic(TopicLog log not None, CleanControl control not None, *, int64_t now_ms, int64_t first_dirty=-1,
                int64_t end_max=INT64_MAX, int64_t delete_retention_ms=86_400_000, size_t map_bytes=64 << 20,
                int64_t bytes_per_second=0):
    """Cleans the closed segments of a topic's log without the GIL.

    Only one call at a time may clean a log.  No other call may delete the oldest segments of the log at the same time.
    Appends, reads and flushes continue.

    Args:
        log: a log that is open and writable.
        control: the object that can stop this run; every run needs its own.
        now_ms: the time of day, in ms since 1970.
        first_dirty: the log offset at which the last run ended; -1 if there was none.
        end_max: records at or above this offset are not cleaned.
        delete_retention_ms: how long a tombstone is kept.  The time begins with the first run that finds no later
            record with its key.
        map_bytes: the memory for the keys of one pass, in bytes.
        bytes_per_second: the limit of the bytes read and written together; 0 for no limit.

    Returns:
        (report, failure): the report is a dictionary that describes the work, even if the run failed; the failure is
        the exception with which the run failed, or None.

    Raises:
        ClosedError: the log is closed.
    """
    cdef ol_clean_options options
    cdef ol_clean_report *report
    cdef ol_error error
    cdef Compressor compressor = Compressor()
    cdef int status
    ol_clean_options_init(&options)
    options.first_dirty = first_dirty
    options.end_max = end_max
    options.now_ms = now_ms
    options.delete_retention_ms = delete_retention_ms
    options.map_bytes = map_bytes
    options.bytes_per_second = bytes_per_second
    options.stop = &control._stop
    options.compressor = &compressor.port
    options.progress = &control._progress
    log.enter()
    # Allocated on the heap, because its quarantine alone is too large for a thread's stack.
    report = <ol_clean_report *>calloc(1, sizeof(ol_clean_report))
    try:
        if report == NULL:
            raise MemoryError()
        failure = None
        with nogil:
            status = ol_cleaner_run_topic(log.handle, &options, report, &error)
        try:
            check(status, &error)
        except Exception as raised:
            failure = raised
        return described_report(report), failure
    finally:
        free(report)
        log.leave()


def segments_of(TopicLog log not None):
    """Returns (base offset, bytes) of the segments of a log, in ascending order.

    The last segment is the active one.
    """
    cdef ol_log_segment_info info
    cdef size_t index = 0
    cdef list found = []
    log.enter()
    try:
        while ol_log_segment_at(ol_topic_log_log(log.handle), index, &info):
            found.append((info.base_offset, info.size))
            index += 1
    finally:
        log.leave()
    return found


def segment_times(TopicLog log not None, int64_t base_offset):
    """Returns the time of a segment's first batch, and the segment's largest time, in ms since 1970; -1 for none.

    Raises:
        OffsetOutOfRangeError: the log has no such segment.
        StorageError: the files could not be read.
    """
    cdef ol_log_segment_files files
    cdef ol_error error
    log.enter()
    try:
        with nogil:
            check(ol_log_segment_files_at(ol_topic_log_log(log.handle), base_offset, &files, &error), &error)
    finally:
        log.leave()
    return files.first_timestamp, files.largest_timestamp
