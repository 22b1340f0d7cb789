"""The lease of a leader.  While it lasts, no other replica leads, so the leader's answers to fetches are current.

Commits need no lease: they are answered when every replica of the in-sync set has them.  A fetch is
answered by the leader alone, and a leader that is disconnected from the controller does not know
whether another was elected.  A leader therefore answers fetches only while it holds a lease.  The
controller elects no other leader before the last lease that it granted has ended.

The leader and the controller measure the same length of time, but from different moments.  The leader counts from its
request, and the controller from its grant, which is later, so the lease ends first for the leader.  The two clocks may
show different times, but must run at the same speed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LeaderLease:
    """The leader's side, for one leader epoch.  Not safe to share between threads.

    Times are milliseconds of a monotonic clock.

    Attributes:
        leader_epoch: the epoch of the lease.
        until: the leader answers fetches before this time; None before the first grant.
    """

    leader_epoch: int
    until: int | None = None

    def on_granted(self, leader_epoch: int, asked_at: int, length_ms: int) -> None:
        """Takes a grant.  Ignores a grant of another epoch; a late grant never shortens the lease.

        Args:
            leader_epoch: the epoch that the request named.
            asked_at: when the request was sent, by this replica's clock.
            length_ms: the length of the lease.
        """
        if leader_epoch == self.leader_epoch:
            granted = asked_at + length_ms
            self.until = granted if self.until is None else max(self.until, granted)

    def is_held(self, now: int) -> bool:
        """Returns whether the lease is still valid."""
        return self.until is not None and now < self.until


@dataclass(slots=True)
class LeaseBook:
    """The controller's side, for one partition.  Not safe to share between threads.

    A controller that restarts, or takes over from another, waits for the length of a lease before
    its first election, because it does not know which leases were granted.

    Attributes:
        length_ms: the length of every lease.
        until: when the newest lease ends, by the controller's clock.
    """

    length_ms: int
    until: int = 0

    def grant(self, now: int, *, is_leader: bool) -> int | None:
        """Grants a lease, and returns its length; returns None if the replica that asks does not lead.

        Args:
            now: the time.
            is_leader: whether the replica that asks leads, in the epoch that it names, and no
                election is due.
        """
        if not is_leader:
            return None
        self.until = max(self.until, now + self.length_ms)
        return self.length_ms

    def release(self) -> None:
        """Ends the lease early: its leader gave it up, or the leader's process has ended."""
        self.until = 0

    def may_elect(self, now: int) -> bool:
        """Returns whether another leader may be elected."""
        return now >= self.until
