"""Converts the C code's reports about a partition to Python: errors that were not raised, results of recovery, digests."""

from libc.stdint cimport INT64_MAX

from offsetlog._native.buffers cimport text_of
from offsetlog._native.csrc cimport (
    OL_APPEND_AUTO,
    OL_APPEND_MAPPED,
    OL_APPEND_WRITTEN,
    OL_PROBLEM_DOUBT,
    OL_PROBLEM_LOSS,
    ol_append,
    ol_copied_transaction,
    ol_error,
    ol_hash128,
    ol_log_recovery,
    ol_problem,
    ol_slice,
    ol_transaction_copy,
    ol_transaction_copy_group,
)

from offsetlog.error_status import from_status
from offsetlog.errors import CorruptionError, DataLossError, PossibleLossError


cdef object whole_of(ol_hash128 value):
    return (int(value.high) << 64) | int(value.low)


cdef object failure_of(const ol_error *error):
    return from_status(
        error.status,
        (<bytes>error.reason).decode("utf-8", "replace"),
        path=(<bytes>error.path).decode("utf-8", "surrogateescape") or None,
        position=None if error.position < 0 else error.position,
        offset=None if error.offset < 0 else error.offset,
        errno=error.sys_errno or None,
    )


cdef object problem_of(const ol_problem *problem, int number, dict keys):
    failure = failure_of(&problem.error)
    if problem.kind == OL_PROBLEM_LOSS or problem.kind == OL_PROBLEM_DOUBT:
        kind = DataLossError if problem.kind == OL_PROBLEM_LOSS else PossibleLossError
        failure = kind(failure.message, path=failure.path, position=failure.position, log_offset=failure.log_offset)
    if isinstance(failure, CorruptionError):
        failure.log_partition = number
    if isinstance(failure, CorruptionError) and problem.below > problem.from_ >= 0:
        failure.lost_from = problem.from_
        failure.lost_below = None if problem.below == INT64_MAX else problem.below
        failure.keys = keys.get((failure.lost_from, failure.lost_below), ())
    return failure


cdef tuple groups_of(const ol_transaction_copy *copy, const ol_copied_transaction *row):
    cdef ol_slice name
    cdef size_t index
    cdef dict found = {}
    for index in range(row.first_group, row.first_group + row.group_count):
        name = ol_transaction_copy_group(copy, index)
        found[text_of(name.data, name.size)] = None
    return tuple(found)


cdef dict recovery_of(const ol_log_recovery *found):
    return {
        "recovered": bool(found.recovered),
        "torn_bytes": found.torn_bytes,
        "torn_path": (<bytes>found.torn_path).decode("utf-8", "surrogateescape") or None,
        "torn_position": found.torn_position,
        "broken_path": (<bytes>found.broken_path).decode("utf-8", "surrogateescape") or None,
        "segments_removed": found.segments_removed,
        "swaps_finished": found.swaps_finished,
        "rewritten_bytes": found.rewritten_bytes,
        "corruption": failure_of(&found.corruption) if found.corrupt else None,
        "lossy": bool(found.is_lossy),
        "others_worked": bool(found.others_worked),
        "log_start_refused": bool(found.log_start_refused),
    }


cdef ol_append append_of(str name) except *:
    return {"mapped": OL_APPEND_MAPPED, "written": OL_APPEND_WRITTEN}.get(name, OL_APPEND_AUTO)
