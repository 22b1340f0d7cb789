"""The leader's answer to a follower's fetch (docs/format/leader-epochs.md §12.2)."""

from __future__ import annotations

from typing import Protocol

from offsetlog.errors import CorruptionError, PartitionFailedError
from offsetlog.replication.in_sync import LeaderView
from offsetlog.replication.messages import (
    NO_EPOCH,
    EpochEnd,
    FetchError,
    FetchRequest,
    FetchResponse,
)


class LeaderLog(Protocol):
    """The part of a leader's log that `answer_fetch` needs.

    From the election on, the log knows the leader's own epoch, even before it contains a record of
    that epoch.
    """

    def log_start(self) -> int:
        """Returns the log's first offset."""

    def log_end(self) -> int:
        """Returns the offset of the next record."""

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Returns where an epoch ends, by the rule of docs/format/directory.md §1.5."""

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Returns whole batches from the one that contains `offset` on, flushed or not.

        The batches have at most `max_bytes` bytes, but the first one is returned whatever its size,
        so that a follower with a small limit makes progress.  At the log end, the result is empty.

        Raises:
            OSError: the disk failed.
            CorruptionError: a batch is damaged.
            PartitionFailedError: the partition must be opened again.
        """


def diverging_epoch(request: FetchRequest, log: LeaderLog) -> EpochEnd | None:
    """Returns where the follower's log diverges from the leader's; None if it does not.

    The request must be of the leader's own epoch.

    Two logs that have the same epoch at the same offset are equal up to that offset, because an
    epoch has one leader, and that leader writes each offset once.  A log that knows no epoch is not
    compared, as in Kafka.
    """
    if request.last_fetched_epoch == NO_EPOCH:
        return None
    if _is_unknown(request, log.log_start()):
        return EpochEnd(request.last_fetched_epoch, request.fetch_offset)
    end = log.end_offset_for_epoch(request.last_fetched_epoch)
    if end.epoch == NO_EPOCH:
        # The follower's epoch is newer than all epochs in this log.  KRaft answers with its own
        # newest epoch, as here.  Kafka's other brokers answer OFFSET_OUT_OF_RANGE, which does not
        # make the logs agree.
        end = EpochEnd(request.current_leader_epoch, log.log_end())
    is_diverging = end.epoch < request.last_fetched_epoch or end.end_offset < request.fetch_offset
    return end if is_diverging else None


def _is_unknown(request: FetchRequest, start: int) -> bool:
    # The follower's log ends where this log begins.  This log no longer has the epoch of the
    # follower's last record, so nothing shows whether that record is the one that was here.  The
    # follower removes its records, which are below this log, or an epoch without records, and
    # fetches again.  Until it has, its position does not count.  A record of this leader's own
    # epoch is known to be right.
    return 0 < start == request.fetch_offset and (
        request.last_fetched_epoch < request.current_leader_epoch
    )


def answer_fetch(
    request: FetchRequest,
    *,
    leader_epoch: int,
    log: LeaderLog,
    view: LeaderView | None,
    now: int,
) -> FetchResponse:
    """Answers a fetch, and records the position of a follower whose log agrees with the leader's.

    The checks are made in Kafka's order: the leader epoch, whether this replica leads, the follower
    and its incarnation, the log start, the divergence, and the log end.  If threads share a view,
    the caller must hold a lock during the call.

    Args:
        request: the fetch.
        leader_epoch: the newest leader epoch that this replica knows.
        log: the leader's log.
        view: the view of the epoch that this replica leads; None if it does not lead.
        now: the time in milliseconds.
    """
    error = _refuse(request, leader_epoch, view)
    if error != FetchError.NONE or view is None:
        return _error(request, error, leader_epoch)
    start, end = log.log_start(), log.log_end()
    if request.fetch_offset < start:
        return _error(request, FetchError.OFFSET_OUT_OF_RANGE, leader_epoch, start, end)
    diverging = diverging_epoch(request, log)
    records = b""
    if diverging is None:
        if request.fetch_offset > end:
            return _error(request, FetchError.OFFSET_OUT_OF_RANGE, leader_epoch, start, end)
        try:
            records = log.read(request.fetch_offset, request.max_bytes)
        except (OSError, CorruptionError, PartitionFailedError):
            return _error(request, FetchError.STORAGE_ERROR, leader_epoch)
        # A position is recorded only here: in a log that diverges, it says nothing about the
        # leader's records.
        view.on_fetch(request, end, now)
    return FetchResponse(
        partition=request.partition,
        error=FetchError.NONE,
        leader_epoch=leader_epoch,
        high_watermark=view.watermark(),
        log_start_offset=start,
        log_end_offset=end,
        records=records,
        diverging_epoch=diverging,
    )


def _refuse(request: FetchRequest, leader_epoch: int, view: LeaderView | None) -> FetchError:
    if request.current_leader_epoch < leader_epoch:
        return FetchError.FENCED_LEADER_EPOCH
    if request.current_leader_epoch > leader_epoch:
        return FetchError.UNKNOWN_LEADER_EPOCH
    if view is None or view.leader_epoch != leader_epoch:
        return FetchError.NOT_LEADER_OR_FOLLOWER
    return view.check(request)


def _error(
    request: FetchRequest, error: FetchError, leader_epoch: int, start: int = -1, end: int = -1
) -> FetchResponse:
    return FetchResponse(
        partition=request.partition,
        error=error,
        leader_epoch=leader_epoch,
        log_start_offset=start,
        log_end_offset=end,
    )
