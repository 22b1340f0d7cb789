"""The follower's side: its fetches, and what it does with the answers.

A follower truncates its log only where the log diverges from the leader's log.  The leader epochs of
both logs show where that is (KIP-101, KIP-279, KIP-595).  A follower never truncates at its own high
watermark, which may be out of date: records above it may be committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from offsetlog.replication.messages import EpochEnd, FetchError, FetchRequest, FetchResponse

#: Kafka's ``replica.fetch.max.bytes``.
FETCH_BYTES_MAX = 1024 * 1024


class ReplicaLog(Protocol):
    """The part of a follower's log that `Follower` needs."""

    def log_start(self) -> int:
        """Returns the log's first offset."""

    def log_end(self) -> int:
        """Returns the offset of the next record."""

    def flushed(self) -> int:
        """Returns the flushed end: records below it survive a loss of power."""

    def last_epoch(self) -> int:
        """Returns the newest leader epoch that the log knows; -1 if it knows none.

        The newest epoch has no records if this replica led in it and wrote nothing.  A later leader that does not know
        the epoch answers that the logs diverge at the log end, and the truncation there removes the epoch.
        """

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Returns where an epoch ends, by the rule of docs/format/directory.md §1.5."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Remove the records at and above an offset, durably, before anything is appended.

    Attributes:
        offset: the log offset, from the log start to the log end.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class RestartAt:
    """Drop the whole log, and begin it again where the leader's log begins.

    Attributes:
        log_start_offset: the start of the leader's log.  It is below the follower's log end only if
            an unclean election left two logs with nothing in common.
    """

    log_start_offset: int


@dataclass(frozen=True, slots=True)
class Append:
    """Append record batches at the log end, with the offsets and epochs that they have.

    Attributes:
        records: whole batches; the first one contains the log end offset.
    """

    records: bytes


@dataclass(frozen=True, slots=True)
class Advance:
    """Move W.

    Attributes:
        high_watermark: the leader's W.
    """

    high_watermark: int

    def within(self, log_end: int) -> int:
        """Returns the smaller of W and `log_end`, which is the log end after the preceding actions."""
        return min(self.high_watermark, log_end)


@dataclass(frozen=True, slots=True)
class Retry:
    """Fetch again after a pause; the leader may have changed.

    Attributes:
        reason: the leader's answer.
    """

    reason: FetchError


@dataclass(frozen=True, slots=True)
class Stop:
    """Fetch no more until the controller names a newer epoch (`Follower.follow`).

    Attributes:
        reason: the leader's answer.
    """

    reason: FetchError


Action: TypeAlias = Truncate | RestartAt | Append | Advance | Retry | Stop


class Follower:
    """Follows the leader of one partition.

    All positions are read from the log, so an action that failed is returned again after the next
    fetch.  Not safe to share between threads.

    Args:
        partition: the number of the log partition.
        replica: the id of this replica.
        incarnation: the incarnation of this process.
        leader_epoch: the epoch to follow.
        log: the replica's log.
        max_bytes: the largest size of the records in an answer.
    """

    __slots__ = (
        "_incarnation",
        "_is_fenced",
        "_leader_epoch",
        "_log",
        "_max_bytes",
        "_partition",
        "_replica",
    )

    def __init__(
        self,
        *,
        partition: int,
        replica: int,
        incarnation: int,
        leader_epoch: int,
        log: ReplicaLog,
        max_bytes: int = FETCH_BYTES_MAX,
    ) -> None:
        self._partition = partition
        self._replica = replica
        self._incarnation = incarnation
        self._leader_epoch = leader_epoch
        self._is_fenced = False
        self._log = log
        self._max_bytes = max_bytes

    @property
    def leader_epoch(self) -> int:
        """The epoch that is followed."""
        return self._leader_epoch

    def follow(self, leader_epoch: int) -> None:
        """Follows the leader of a newer epoch; does nothing if the epoch is already followed.

        Raises:
            ValueError: the epoch is older than the one followed.
        """
        if leader_epoch < self._leader_epoch:
            raise ValueError(f"leader epoch {leader_epoch} is older than the followed epoch {self._leader_epoch}")
        if leader_epoch > self._leader_epoch:
            self._leader_epoch = leader_epoch
            self._is_fenced = False

    def next_fetch(self) -> FetchRequest | None:
        """Returns the request to send next; None while the follower is stopped."""
        return None if self._is_fenced else self._request()

    def _request(self) -> FetchRequest:
        end = self._log.log_end()
        return FetchRequest(
            partition=self._partition,
            replica=self._replica,
            incarnation=self._incarnation,
            current_leader_epoch=self._leader_epoch,
            fetch_offset=end,
            last_fetched_epoch=self._log.last_epoch(),
            flushed_offset=min(self._log.flushed(), end),
            max_bytes=self._max_bytes,
        )

    def on_response(self, request: FetchRequest, response: FetchResponse) -> list[Action]:
        """Returns the actions that an answer requires, in order.

        The host carries out the actions one after the other, and skips the remaining ones if one
        fails.  It must not change the log in any other way between this call and the last action.

        Args:
            request: the request that the answer belongs to.
            response: the answer.

        Returns:
            The actions; an empty list if the answer must be ignored, because it came too late or is
            from another leader epoch.
        """
        if self._is_fenced or self._is_late(request):
            return []
        if response.error == FetchError.FENCED_LEADER_EPOCH:
            self._is_fenced = True
            return [Stop(response.error)]
        if response.error not in (FetchError.NONE, FetchError.OFFSET_OUT_OF_RANGE):
            return [Retry(response.error)]
        if response.leader_epoch != self._leader_epoch:
            return []
        if self._is_below(response.log_start_offset):
            return [RestartAt(response.log_start_offset)]
        if response.error == FetchError.OFFSET_OUT_OF_RANGE:
            return [self._return_into_range(response)]
        if response.diverging_epoch is not None:
            return [self._truncate(response.diverging_epoch, response)]
        advance = Advance(response.high_watermark)
        return [Append(response.records), advance] if response.records else [advance]

    def _is_late(self, request: FetchRequest) -> bool:
        # An answer is valid only while the log still has the end and the newest epoch that the
        # request named.  The records of an answer to an earlier fetch would be appended at the
        # wrong offset.  An answer from another epoch, or to an earlier incarnation of this replica,
        # may be about other records.
        current = self._request()
        return (
            request.current_leader_epoch != current.current_leader_epoch
            or request.incarnation != current.incarnation
            or request.fetch_offset != current.fetch_offset
            or request.last_fetched_epoch != current.last_fetched_epoch
        )

    def _is_below(self, leader_start: int) -> bool:
        # The leader cannot compare records below the start of its log.  If the leader's log starts
        # at the end of this log, Kafka's followers remove the same records, by advancing their log
        # start offset.
        return self._log.log_start() < leader_start and self._log.log_end() <= leader_start

    def _truncate(self, diverging: EpochEnd, response: FetchResponse) -> Action:
        # `diverging` names the largest epoch that both logs may have.  Each log has an end offset
        # for it, and the logs cannot agree above the smaller of the two.  If only one log has the
        # epoch, the next fetch diverges again, at a smaller epoch or offset, so the truncations
        # come to an end.
        own = self._log.end_offset_for_epoch(diverging.epoch)
        if own.end_offset < 0:
            return self._cut(diverging.end_offset, response)
        return self._cut(min(own.end_offset, diverging.end_offset), response)

    def _return_into_range(self, response: FetchResponse) -> Action:
        if self._log.log_end() > response.log_end_offset:
            return self._cut(response.log_end_offset, response)
        return Retry(response.error)

    def _cut(self, offset: int, response: FetchResponse) -> Action:
        start, leader_start = self._log.log_start(), response.log_start_offset
        if offset < start and leader_start < start:
            # The logs diverge below the start of this log.  That start is at most W, so an unclean
            # election must have happened.  The leader's records below the start are needed as well.
            return RestartAt(leader_start)
        # If the logs agree nowhere above the start of the leader's log, the next fetch leads to
        # RestartAt.
        return Truncate(max(start, leader_start, min(offset, self._log.log_end())))
