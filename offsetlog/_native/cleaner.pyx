"""Cleans one partition; returns the facts that decide when to clean (docs/format/cleaner.md §8, docs/maintenance.md)."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free

from offsetlog._native.buffers cimport NAME_GROUP, take_name
from offsetlog._native.compress import deflate
from offsetlog._native.csrc cimport (
    OL_CLEAN_QUARANTINE_KEPT,
    OL_CLOSED,
    OL_IO,
    OL_LOADING,
    OL_NO_MEMORY,
    OL_OK,
    OL_UNSUPPORTED,
    ol_batch,
    ol_batch_check_crc,
    ol_batch_check_follows,
    ol_clean_hold,
    ol_clean_options,
    ol_clean_options_init,
    ol_clean_report,
    ol_clean_sink,
    ol_cleaner_run,
    ol_codec,
    ol_decompressor,
    ol_error,
    ol_fail,
    ol_group_records_count,
    ol_log,
    ol_log_segment_at,
    ol_log_segment_files,
    ol_log_segment_files_at,
    ol_log_segment_info,
    ol_log_start,
    ol_log_transaction,
    ol_partition_is_read_only,
    ol_partition_lock_applied,
    ol_partition_log,
    ol_partition_positions,
    ol_partition_roll,
    ol_partition_transaction_at,
    ol_partition_unlock_state,
    ol_positions,
    ol_refusal,
    ol_slice,
    ol_state,
    ol_state_apply_batch,
    ol_table_count,
)
from offsetlog._native.partition cimport Partition
from offsetlog._native.replay cimport Replay
from offsetlog._native.status cimport check, keep_interrupt, raise_interrupt

from offsetlog.error_status import from_status
from offsetlog.errors import InternalError, OffsetOutOfRangeError


# ---------------------------------------------------------------------------------------------------- ports


cdef int _report(ol_error *error, int status, object failure) noexcept:
    keep_interrupt(failure)
    cdef bytes text = (str(failure) or type(failure).__name__).encode("utf-8", "replace")
    return ol_fail(error, status, "%s", <const char *>text)


cdef int _compress(void *context, ol_codec codec, int magic, ol_slice source, ol_slice *output,
                   ol_error *error) noexcept with gil:
    cdef Compressor self = <Compressor>context
    cdef bytes deflated
    try:
        plain = PyBytes_FromStringAndSize(<const char *>source.data, <Py_ssize_t>source.size)
        deflated = deflate(<int>codec, plain, magic)
        output.data = <const uint8_t *>PyBytes_AS_STRING(deflated)
        output.size = <size_t>PyBytes_GET_SIZE(deflated)
        self._outputs[<uintptr_t>output.data] = deflated
        return OL_OK
    except MemoryError as failure:
        return _report(error, OL_NO_MEMORY, failure)
    except BaseException as failure:
        return _report(error, OL_UNSUPPORTED, failure)


cdef void _release(void *context, ol_slice output) noexcept with gil:
    (<Compressor>context)._outputs.pop(<uintptr_t>output.data, None)


@cython.final
cdef class Compressor:
    """Lets the cleaner compress batches through `deflate`.  Any thread may use the object; each call takes the GIL."""

    def __cinit__(self):
        self._outputs = {}
        self.port.compress = _compress
        self.port.release = _release
        self.port.context = <void *>self


cdef class _FloorPort:
    # An exception of the callback is kept, and raised unchanged once the run has ended.
    cdef object call
    cdef object failure


cdef int _raise_floor(void *context, int64_t floor, ol_error *error) noexcept with gil:
    cdef _FloorPort self = <_FloorPort>context
    try:
        self.call(floor)
        return OL_OK
    except BaseException as failure:
        self.failure = failure
        return ol_fail(error, OL_IO, "the floor, where readable history begins, could not be recorded")


@cython.final
cdef class CleanControl:
    """Stops one run of the cleaner, and returns its progress.  Any thread may use this object."""

    def stop(self):
        """Asks the run to end soon.  Segments that the run has already replaced stay replaced."""
        self._stop = True

    @property
    def stopped(self):
        """Whether `stop` was called."""
        return bool(self._stop)

    def progress(self):
        """Returns the bytes read and written so far, and the bytes that are known to remain."""
        return {
            "bytes_read": self._progress.bytes_read,
            "bytes_written": self._progress.bytes_written,
            "bytes_total": self._progress.bytes_total,
            "records_read": self._progress.records_read,
            "passes": self._progress.passes,
            "segments_after": self._progress.segments_after,
        }


# ---------------------------------------------------------------------------------------------------- a run


cdef dict described_report(const ol_clean_report *report):
    cdef int64_t index
    cdef const ol_error *known
    cdef list quarantined = []
    for index in range(min(report.quarantined, OL_CLEAN_QUARANTINE_KEPT)):
        known = &report.quarantine[index].error
        failure = from_status(
            known.status,
            (<bytes>known.reason).decode("utf-8", "replace"),
            path=(<bytes>known.path).decode("utf-8", "surrogateescape") or None,
            position=None if known.position < 0 else known.position,
            offset=None if known.offset < 0 else known.offset,
            errno=known.sys_errno or None,
        )
        quarantined.append((report.quarantine[index].segment_base, failure))
    return {
        "end": report.end,
        "floor": report.floor,
        "target": report.target,
        "sink_end": report.sink_end,
        "log_end": report.log_end,
        "complete": bool(report.complete),
        "stopped": bool(report.stopped),
        "truncated": bool(report.truncated),
        "load_began": bool(report.load_began),
        "bytes_read": report.bytes_read,
        "bytes_written": report.bytes_written,
        "bytes_before": report.bytes_before,
        "bytes_after": report.bytes_after,
        "segments_before": report.segments_before,
        "segments_after": report.segments_after,
        "batches": report.batches,
        "records_read": report.records.read,
        "records_kept": report.records.kept,
        "superseded": report.records.superseded,
        "tombstones_dropped": report.records.tombstones_dropped,
        "aborted_dropped": report.records.aborted_dropped,
        "keyless_dropped": report.records.keyless_dropped,
        "markers_dropped": report.markers_dropped,
        "batches_rebuilt": report.batches_rebuilt,
        "batches_not_compressed": report.batches_not_compressed,
        "keys": report.keys,
        "passes": report.passes,
        "quarantined": report.quarantined,
        "quarantine": quarantined,
    }


cdef ol_clean_hold *take_holds(list holds) except? NULL:
    # The names belong to `holds`.
    cdef ol_clean_hold *taken
    cdef Py_ssize_t index
    if not holds:
        return NULL
    taken = <ol_clean_hold *>calloc(<size_t>len(holds), sizeof(ol_clean_hold))
    if taken == NULL:
        raise MemoryError()
    try:
        for index, (group, is_prefix, end) in enumerate(holds):
            take_name(group, NAME_GROUP, &taken[index].group)
            taken[index].is_prefix = is_prefix
            taken[index].end = end
    except BaseException:
        free(taken)
        raise
    return taken


cdef int _run(Partition partition, const ol_clean_options *options, ol_clean_report *report, ol_error *error) except -1000:
    # Returns the status of an engine call, made without the GIL while the partition cannot be closed.
    cdef int status
    partition.enter()
    try:
        with nogil:
            status = ol_cleaner_run(partition.handle, options, report, error)
    finally:
        partition.leave()
    return status


def clean(Partition partition not None, CleanControl control not None, *, int64_t now_ms, int64_t first_dirty=-1,
          int64_t end_max=INT64_MAX, list holds=None, int64_t delete_retention_ms=86_400_000, size_t map_bytes=64 << 20,
          int64_t bytes_per_second=0, raise_floor=None):
    """Cleans the closed segments of one partition without the GIL.

    Args:
        partition: a partition whose log is writable.  It must be loaded, unless it is replicated.
        control: the object that can stop this run; every run needs its own.
        now_ms: the time, in milliseconds since 1970.
        first_dirty: the log offset in the cleaner's checkpoint, at which the part that is not cleaned yet begins; -1 if
            there is no checkpoint.
        end_max: records at or above this log offset are not cleaned.
        holds: tuples of a group or prefix, whether it is a prefix, and a log offset.  The run keeps the history of
            these groups from that log offset on.
        delete_retention_ms: how long a tombstone or marker is kept.  The time begins with the first run that finds no
            older records for it.
        map_bytes: the memory for the keys of one pass, in bytes.
        bytes_per_second: the limit of the bytes read and written together; 0 for no limit.
        raise_floor: a function that is called once, before the run replaces its first segment.  Its argument is a log
            offset: after the replacement, the log may no longer give the past states below it.  An exception of the
            function ends the run.

    Returns:
        (report, failure): the report is a dictionary that describes the work, even if the run failed; the failure is
        the exception with which the run failed, or None.

    Raises:
        ClosedError: the partition is closed.
    """
    cdef ol_clean_options options
    cdef ol_clean_report *report
    cdef ol_error error
    cdef Compressor compressor = Compressor()
    cdef _FloorPort floor_port = _FloorPort()
    cdef list listed = list(holds or ())
    cdef int status
    ol_clean_options_init(&options)
    options.first_dirty = first_dirty
    options.end_max = end_max
    options.hold_count = <size_t>len(listed)
    options.now_ms = now_ms
    options.delete_retention_ms = delete_retention_ms
    options.map_bytes = map_bytes
    options.bytes_per_second = bytes_per_second
    options.stop = &control._stop
    options.use_table = True
    options.compressor = &compressor.port
    options.progress = &control._progress
    if raise_floor is not None:
        floor_port.call = raise_floor
        options.raise_floor = _raise_floor
        options.raise_floor_context = <void *>floor_port
    options.holds = take_holds(listed)
    # Allocated on the heap, because its quarantine alone is too large for a thread's stack.
    report = <ol_clean_report *>calloc(1, sizeof(ol_clean_report))
    if report == NULL:
        free(<void *>options.holds)
        raise MemoryError()
    try:
        failure = None
        status = _run(partition, &options, report, &error)
        try:
            if floor_port.failure is not None:
                raise floor_port.failure
            check(status, &error)
        except Exception as raised:
            failure = raised
        return described_report(report), failure
    finally:
        free(report)
        free(<void *>options.holds)


# ---------------------------------------------------------------------------------------------------- a replay instead


cdef struct replaying:
    ol_state *state
    const ol_decompressor *decompressor
    int64_t next_offset
    int failed
    ol_error error


cdef void _pass_over(void *context, const ol_batch *batch, const ol_error *error) noexcept nogil:
    # A record that cannot be decoded is kept unchanged; a replay of the log itself reports it.
    pass


cdef int _replay(void *context, const ol_batch *batch, ol_error *error) noexcept nogil:
    # The cleaner made these batches, so an error in one is not damage of the log, and is reported as an InternalError.
    cdef replaying *work = <replaying *>context
    cdef ol_refusal refusal
    refusal.report = _pass_over
    refusal.context = NULL
    cdef int status = ol_batch_check_crc(batch, &work.error)
    if status == OL_OK:
        status = ol_batch_check_follows(batch, work.next_offset, &work.error)
    if status == OL_OK:
        status = ol_state_apply_batch(work.state, batch, work.decompressor, &refusal, &work.error)
    if status == OL_OK:
        work.next_offset = batch.last_offset + 1
        return OL_OK
    work.failed = status
    return ol_fail(error, OL_CLOSED, "the result of the cleaner cannot be replayed")


def replay_cleaned(Partition partition not None, Replay into not None, *, int64_t now_ms, int64_t end_max=INT64_MAX,
                   int64_t delete_retention_ms=86_400_000, size_t map_bytes=64 << 20, CleanControl control=None):
    """Computes the records that a clean of all segments would keep, and applies them to an empty replay.

    The clean would include the active segment.  The call changes no file.

    Args:
        partition: a loaded partition; its log may be read-only.
        into: the replay that receives the kept records.  It receives only records below the log offset that the report
            has as `sink_end`; a clean changes no record at or above that log offset.
        now_ms: the time, in milliseconds since 1970.
        end_max: records at or above this log offset are not applied.
        delete_retention_ms, map_bytes: as in `clean`.  The call makes only one pass, which ends where the keys no
            longer fit in memory.
        control: the object that can stop the call.  If it has stopped the call, the report's `stopped` is true, and the
            replay must not be used.

    Returns:
        The report as a dictionary.

    Raises:
        InternalError: the result of the cleaner cannot be replayed.
        StateError, StorageError, CapacityError.
    """
    cdef ol_clean_options options
    cdef ol_clean_sink sink
    cdef ol_clean_report *report
    cdef ol_error error
    cdef replaying work
    cdef Compressor compressor = Compressor()
    cdef int status
    work.state = &into.state
    work.decompressor = &into.decompressor.port
    work.next_offset = 0
    work.failed = OL_OK
    sink.take = _replay
    sink.context = &work
    sink.takes_active = True
    ol_clean_options_init(&options)
    options.end_max = end_max
    options.now_ms = now_ms
    options.delete_retention_ms = delete_retention_ms
    options.map_bytes = map_bytes
    options.use_table = True
    options.compressor = &compressor.port
    options.sink = &sink
    if control is not None:
        options.stop = &control._stop
        options.progress = &control._progress
    report = <ol_clean_report *>calloc(1, sizeof(ol_clean_report))
    if report == NULL:
        raise MemoryError()
    try:
        status = _run(partition, &options, report, &error)
        raise_interrupt()
        if work.failed in (OL_NO_MEMORY, OL_IO):
            check(work.failed, &work.error)
        if work.failed != OL_OK:
            reason = (<bytes>work.error.reason).decode("utf-8", "replace")
            raise InternalError(f"the result of the cleaner cannot be replayed: {reason}")
        check(status, &error)
        into.next_offset = work.next_offset
        return described_report(report)
    finally:
        free(report)


def roll(Partition partition not None):
    """Closes the active segment of a partition, so that it can be cleaned.  Raises the errors of a commit."""
    cdef ol_error error
    partition.enter()
    try:
        with nogil:
            check(ol_partition_roll(partition.handle, &error), &error)
    finally:
        partition.leave()


# ---------------------------------------------------------------------------------------------------- facts


cdef tuple _ages(ol_log *log, int64_t base_offset):
    # Returns (-1, -1) if the segment was replaced meanwhile; the next inspection will find the new one.
    cdef ol_log_segment_files files
    cdef ol_error error
    try:
        with nogil:
            check(ol_log_segment_files_at(log, base_offset, &files, &error), &error)
    except OffsetOutOfRangeError:
        return -1, -1
    return files.first_timestamp, files.largest_timestamp


def log_facts(Partition partition not None, bint ages=False):
    """Returns the facts for deciding about a clean of a log, as a dictionary.

    The fields are:

    * `segments`: a list, in ascending order, of (base offset, bytes, whether the segment is active, first timestamp,
      largest timestamp).  The timestamps are -1 unless `ages` is set.
    * `start`, `end`, `flushed`: log offsets.
    * `stable`: the first log offset whose record is not final, because it is not replicated or its transaction is open.
    * `entries`: the number of positions and group records; -1 if nothing is loaded.
    * `damaged`: whether the log is read-only because of damage.

    Raises:
        StateError: the partition is closed or has failed.
        StorageError: the files could not be inspected.
    """
    cdef ol_positions positions
    cdef ol_log_segment_info info
    cdef ol_log_transaction oldest
    cdef const ol_state *state
    cdef ol_error error
    cdef size_t index = 0
    cdef int64_t entries = -1
    cdef int64_t stable
    cdef int status
    cdef bint found
    cdef list segments = []
    partition.enter()
    try:
        log = ol_partition_log(partition.handle)
        # Read before the segments, so that appends in between only make the active segment longer than these positions.
        ol_partition_positions(partition.handle, &positions)
        stable = positions.watermark
        with nogil:
            found = ol_partition_transaction_at(partition.handle, 0, &oldest)
            status = ol_partition_lock_applied(partition.handle, &state, &error)
            if status == OL_OK:
                entries = <int64_t>(ol_table_count(state.table) + ol_group_records_count(state.group_records))
                ol_partition_unlock_state(partition.handle)
            elif status != OL_LOADING:
                check(status, &error)
        if found:
            stable = min(stable, oldest.first_offset)
        while ol_log_segment_at(log, index, &info):
            times = _ages(log, info.base_offset) if ages else (-1, -1)
            segments.append((info.base_offset, info.size, bool(info.active), *times))
            index += 1
        return {
            "segments": segments,
            "start": ol_log_start(log),
            "end": positions.written,
            "flushed": positions.flushed,
            "stable": stable,
            "entries": entries,
            "damaged": bool(ol_partition_is_read_only(partition.handle)),
        }
    finally:
        partition.leave()
