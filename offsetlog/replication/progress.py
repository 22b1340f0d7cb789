"""The progress of one follower, as far as its leader knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from offsetlog.replication.messages import UNKNOWN_INCARNATION, FetchRequest

#: Whether records count as acknowledged once the follower has flushed them, or once it has written
#: them to its log.
Ack = Literal["flushed", "written"]


@dataclass(slots=True)
class ReplicaProgress:
    """The positions of one follower in the leader's epoch.  Not safe to share between threads.

    Each fetch of the follower shows how far it has come.  In Kafka, a follower counts as caught up at the time of its
    previous fetch if its present fetch offset has reached the log end that the leader had then.  Here, the position
    that the follower has acknowledged must have reached that log end.  If the fetch offset were enough, a follower
    whose flushes hang would stay in sync and hold W back for ever.  A follower may flush records many fetches after it
    got them, so the log end of an earlier fetch is kept as a goal until the follower has acknowledged it.

    Attributes:
        ack: which position counts as acknowledged.
        goal: a former end of the leader's log that the follower has yet to acknowledge.
        goal_at: the time at which the leader's log ended at `goal`, in milliseconds.
        caught_up_at: the last time for which the follower has acknowledged all records that the
            leader's log had at that time; None for never.
        incarnation: the incarnation that sent the last fetch; -1 before the first fetch.
        fetch_offset: the follower's log end; -1 before the first fetch.
        flushed_offset: the end of what the follower has on disk; -1 before the first fetch.
        refused_until: until this time, the controller is not asked again to add the follower.
        fetched_at: when the follower fetched last, in milliseconds; None for never.
    """

    ack: Ack
    goal: int
    goal_at: int
    caught_up_at: int | None = None
    incarnation: int = UNKNOWN_INCARNATION
    fetch_offset: int = -1
    flushed_offset: int = -1
    refused_until: int | None = None
    fetched_at: int | None = None

    @property
    def acknowledged(self) -> int:
        """The position that the follower has acknowledged, which counts towards W; -1 for none."""
        return self.flushed_offset if self.ack == "flushed" else self.fetch_offset

    def on_fetch(self, request: FetchRequest, leader_log_end: int, now: int) -> None:
        """Records the positions of a fetch whose log agrees with the leader's.

        Args:
            request: a fetch of this incarnation or a later one.
            leader_log_end: the end of the leader's log now.
            now: the time in milliseconds.
        """
        if UNKNOWN_INCARNATION < self.incarnation < request.incarnation:
            self._start_over(leader_log_end, now)
        self.incarnation = request.incarnation
        self.fetched_at = now
        # Fetches can overtake each other.  Within one incarnation and one epoch, a log that agrees
        # with the leader's is never truncated, so the greatest position is the newest one.
        self.fetch_offset = max(self.fetch_offset, request.fetch_offset)
        flushed = min(request.flushed_offset, request.fetch_offset)
        self.flushed_offset = max(self.flushed_offset, flushed)
        self._catch_up(leader_log_end, now)

    def _start_over(self, leader_log_end: int, now: int) -> None:
        # A process that restarted may have lost any record: even its disk may be another one.
        self.fetch_offset = self.flushed_offset = -1
        self.caught_up_at = None
        self.goal, self.goal_at = leader_log_end, now

    def _catch_up(self, leader_log_end: int, now: int) -> None:
        if self.acknowledged >= leader_log_end:
            self.caught_up_at = now
        elif self.acknowledged >= self.goal:
            self.caught_up_at = max(self.caught_up_at or self.goal_at, self.goal_at)
        else:
            return
        self.goal, self.goal_at = leader_log_end, now

    def was_caught_up(self, now: int, within_ms: int) -> bool:
        """Returns whether the follower was caught up within the last `within_ms` milliseconds."""
        return self.caught_up_at is not None and now - self.caught_up_at <= within_ms

    def is_refused(self, now: int) -> bool:
        """Returns whether the controller refused to add the follower a short time ago."""
        return self.refused_until is not None and now < self.refused_until
