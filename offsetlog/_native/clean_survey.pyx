"""Surveys, by group and reason, which records and bytes a clean of one partition would free (docs/maintenance.md)."""

from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from offsetlog._native.buffers cimport text_of
from offsetlog._native.cleaner cimport CleanControl, Compressor, described_report, take_holds
from offsetlog._native.csrc cimport (
    ol_clean_options,
    ol_clean_options_init,
    ol_clean_report,
    ol_clean_share,
    ol_clean_survey,
    ol_clean_survey_free,
    ol_cleaner_survey,
    ol_error,
    ol_slice,
    ol_string_dictionary_get,
)
from offsetlog._native.partition cimport Partition
from offsetlog._native.status cimport check, raise_interrupt

from offsetlog.types import CleanShare


cdef object _share(object group, const ol_clean_share *share):
    return CleanShare(
        group,
        share.records,
        share.live_records,
        share.superseded,
        share.aborted,
        share.expired_tombstones,
        share.expired_markers,
        share.keyless,
        share.tombstones,
        share.markers,
        share.bytes,
        share.live_bytes,
        share.freed_bytes,
    )


cdef list _shares(const ol_clean_survey *survey):
    cdef list found = []
    cdef size_t index
    cdef ol_slice name
    if survey.shares[0].records > 0:
        found.append(_share(None, &survey.shares[0]))
    for index in range(survey.names.count):
        name = ol_string_dictionary_get(&survey.names, index)
        found.append(_share(text_of(name.data, name.size), &survey.shares[index + 1]))
    return found


def survey(Partition partition not None, *, int64_t now_ms, bint closes_active, int64_t end_max=INT64_MAX,
           list holds=None, int64_t delete_retention_ms=86_400_000, size_t map_bytes=64 << 20,
           CleanControl control=None):
    """Decides for every record whether a clean from the start of the log would drop it, and changes nothing.

    Args:
        partition: a loaded partition; its log may be read-only.
        now_ms: the time, in milliseconds since 1970.
        closes_active: whether the clean would close the active segment first.  While a transaction is open, the active
            segment is not closed.
        end_max, holds, delete_retention_ms, map_bytes: as in `cleaner.clean`.  The survey makes one pass.
        control: the object that can stop the survey; if it stopped the survey, the report's `stopped` is true.

    Returns:
        (report, shares): the report of the run as a dictionary, and a CleanShare for each group.  The fields
        `survey_segments` and `survey_batches` of the report count the segments and batches that hold records.  The
        results are valid only if the report's `complete` is true.  It is false if the keys did not fit in `map_bytes`,
        or if the run was stopped.

    Raises:
        ClosedError, StateError, StorageError, CapacityError.
        ChangedFileError: a segment was replaced or truncated while the survey read it.  The caller must load the log
            again.
    """
    cdef ol_clean_options options
    cdef ol_clean_report *report
    cdef ol_clean_survey counted
    cdef ol_error error
    cdef Compressor compressor = Compressor()
    cdef list listed = list(holds or ())
    cdef int status
    memset(&counted, 0, sizeof(counted))
    ol_clean_options_init(&options)
    options.end_max = end_max
    options.now_ms = now_ms
    options.delete_retention_ms = delete_retention_ms
    options.map_bytes = map_bytes
    options.hold_count = <size_t>len(listed)
    options.use_table = True
    options.compressor = &compressor.port
    if control is not None:
        options.stop = &control._stop
        options.progress = &control._progress
    options.holds = take_holds(listed)
    report = <ol_clean_report *>calloc(1, sizeof(ol_clean_report))
    if report == NULL:
        free(<void *>options.holds)
        raise MemoryError()
    try:
        partition.enter()
        try:
            with nogil:
                status = ol_cleaner_survey(partition.handle, &options, closes_active, &counted, report, &error)
        finally:
            partition.leave()
        raise_interrupt()
        check(status, &error)
        found = described_report(report)
        found["survey_segments"] = counted.segments
        found["survey_batches"] = counted.batches
        return found, _shares(&counted)
    finally:
        ol_clean_survey_free(&counted)
        free(report)
        free(<void *>options.holds)
