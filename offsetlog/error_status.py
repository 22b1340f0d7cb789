"""The one table that maps each failure of the C code to its exception."""

from __future__ import annotations

from offsetlog.errors import (
    CapacityError,
    ChangedFileError,
    ClosedError,
    CommitTimeoutError,
    ConditionError,
    CoordinatorLoadingError,
    CorruptionError,
    DiskFullError,
    ExpectedOffsetError,
    FencedError,
    FencedLeaderEpochError,
    GenerationError,
    InternalError,
    InvalidArgumentError,
    LimitError,
    LockedError,
    MissingFileError,
    NotCoordinatorError,
    OffsetLogError,
    OffsetOutOfRangeError,
    PartitionFailedError,
    ReadOnlyError,
    RewindError,
    StorageError,
    TooLargeError,
    TornTailError,
    TransactionError,
    UnknownLeaderEpochError,
    UnsupportedVersionError,
)
from offsetlog.status import Status

#: The one table that maps each failure of the C code to its class.
STATUS_ERRORS: dict[int, type[OffsetLogError]] = {
    Status.NO_MEMORY: CapacityError,
    Status.IO: StorageError,
    Status.DISK_FULL: DiskFullError,
    Status.NO_SUCH_FILE: MissingFileError,
    Status.LOCKED: LockedError,
    Status.CHANGED: ChangedFileError,
    Status.CORRUPT: CorruptionError,
    Status.TORN: TornTailError,
    Status.UNSUPPORTED: UnsupportedVersionError,
    Status.LIMIT: LimitError,
    Status.INVALID: InvalidArgumentError,
    Status.TOO_LARGE: TooLargeError,
    Status.OUT_OF_RANGE: OffsetOutOfRangeError,
    Status.CLOSED: ClosedError,
    Status.READ_ONLY: ReadOnlyError,
    Status.FAILED: PartitionFailedError,
    Status.LOADING: CoordinatorLoadingError,
    Status.NOT_COORDINATOR: NotCoordinatorError,
    Status.CONDITION: ExpectedOffsetError,
    Status.REWIND: RewindError,
    Status.FENCED: FencedError,
    Status.TRANSACTION: TransactionError,
    Status.TIMED_OUT: CommitTimeoutError,
    Status.FENCED_LEADER_EPOCH: FencedLeaderEpochError,
    Status.UNKNOWN_LEADER_EPOCH: UnknownLeaderEpochError,
    Status.GENERATION: GenerationError,
}


def from_status(
    status: int,
    reason: str,
    *,
    path: str | None = None,
    position: int | None = None,
    offset: int | None = None,
    errno: int | None = None,
    item: int | None = None,
) -> OffsetLogError:
    """Creates the exception for a failure of the C code, which the caller raises.  Any thread may call this function.

    Args:
        status: an ol_status that is a failure.  Any other number is a bug in offsetlog, and gives an InternalError.
        reason: the failure, in one sentence.
        path: the path of the file concerned.
        position: the byte position in the file.
        offset: the log offset; for the statuses CONDITION and REWIND, the committed offset that was found.
        errno: the errno of the system call that failed.
        item: the index of the refused item in the caller's array.
    """
    kind = STATUS_ERRORS.get(status)
    if kind is None:
        kind, reason = InternalError, f"unknown status {status}: {reason}"
    if issubclass(kind, ConditionError):
        return kind(reason, actual=offset, path=path, position=position, item=item)
    if issubclass(kind, StorageError):
        return kind(reason, errno=errno, path=path, position=position, log_offset=offset, item=item)
    return kind(reason, path=path, position=position, log_offset=offset, item=item)
