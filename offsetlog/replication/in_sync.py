"""The leader's view of its replicas: the in-sync set, and how far W has come.

W is the high watermark: every replica of the in-sync set has acknowledged the records below it, and
only a replica of that set can be elected, so no election loses them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from offsetlog.errors import ConfigError
from offsetlog.replication.messages import FetchError, FetchRequest, InSyncChange, Member
from offsetlog.replication.progress import Ack, ReplicaProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncConfig:
    """The settings of replication, the same on all replicas of a partition.

    Attributes:
        min_insync_replicas: while fewer replicas are in sync, W does not advance and a host refuses commits
            (``min.insync.replicas``).  A partition with fewer replicas than this needs all of them.
        lag_time_max_ms: a replica that has not caught up for this time is not in sync
            (``replica.lag.time.max.ms``).
        ack: with "flushed", a follower acknowledges the records that it has flushed.  With "written", it acknowledges
            all records in its log, as in Kafka.  With "written", committed records are lost on all replicas if a
            replica loses power after it acknowledged unflushed records, and then leads.
        join_wait_ms: W waits for a replica that is about to join the in-sync set: if the replica was caught up within
            this time, W does not advance past its acknowledged position.  If W did not wait, a busy leader would move
            W past the position of every follower, and no follower could join.  Kafka waits
            ``replica.lag.time.max.ms``.
        proposal_backoff_ms: after the controller refused to add a replica, the leader waits for this time before it
            proposes the replica again.

    Raises:
        ConfigError: a value is out of range.
    """

    min_insync_replicas: int = 1
    lag_time_max_ms: int = 30_000
    ack: Ack = "flushed"
    join_wait_ms: int = 1000
    proposal_backoff_ms: int = 1000

    def __post_init__(self) -> None:
        if self.ack not in ("flushed", "written"):
            raise ConfigError(f'ack must be "flushed" or "written", not {self.ack!r}')
        if self.min_insync_replicas < 1:
            raise ConfigError(f"min_insync_replicas must be at least 1, not {self.min_insync_replicas}")
        for name in ("lag_time_max_ms", "join_wait_ms", "proposal_backoff_ms"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be at least 0, not {getattr(self, name)}")


class LeaderView:
    """The view that a leader has of its replicas during one leader epoch.

    A process creates at most one view for an epoch, when it is elected.  After a restart, it never continues in an
    epoch that it led before.  Its log may have lost records in the restart.  If it gave the offsets of the lost records
    to other records in the same epoch, no follower could see the difference.  The controller therefore elects a
    restarted leader again only in a new epoch (`election.on_replica_registered`).

    Times are milliseconds of a monotonic clock.  Not safe to share between threads.

    Args:
        replica: the id of the leader itself.
        leader_epoch: the epoch that it leads.
        log_end: the leader's log end at the election, where the epoch starts.
        assigned: all replicas of the partition, the leader among them.
        in_sync: the in-sync set as the controller gave it.
        version: the version of the controller's state.
        watermark: the W that this replica knew before the election.
        now: the time of the election.
        config: the settings.
    """

    __slots__ = (
        "_accepted",
        "_assigned",
        "_config",
        "_epoch_start",
        "_followers",
        "_leader_epoch",
        "_log_end",
        "_own",
        "_own_flushed",
        "_proposed",
        "_version",
        "_watermark",
    )

    def __init__(
        self,
        *,
        replica: int,
        leader_epoch: int,
        log_end: int,
        assigned: Sequence[int],
        in_sync: Collection[int],
        version: int,
        watermark: int,
        now: int,
        config: InSyncConfig,
    ) -> None:
        self._own = replica
        self._leader_epoch = leader_epoch
        self._epoch_start = self._log_end = log_end
        self._own_flushed = -1
        self._assigned = tuple(assigned)
        self._accepted = frozenset(in_sync) | {replica}
        self._version = version
        self._proposed: InSyncChange | None = None
        self._watermark = watermark
        self._config = config
        # The in-sync replicas have `lag_time_max_ms` from the election on to send a fetch.
        self._followers = {
            each: ReplicaProgress(
                config.ack, log_end, now, caught_up_at=now if each in self._accepted else None
            )
            for each in assigned
            if each != replica
        }

    # ---------------------------------------------------------------------------------------- state

    @property
    def leader_epoch(self) -> int:
        """The epoch that this leader leads."""
        return self._leader_epoch

    @property
    def epoch_start_offset(self) -> int:
        """The leader's log end at its election."""
        return self._epoch_start

    @property
    def in_sync(self) -> frozenset[int]:
        """The newest in-sync set that the controller is known to have accepted."""
        return self._accepted

    @property
    def version(self) -> int:
        """The version of the controller's state that contains `in_sync`."""
        return self._version

    @property
    def proposed(self) -> InSyncChange | None:
        """The proposal that is not answered yet, or None.  The host sends it again if a request times out."""
        return self._proposed

    def watermark(self) -> int:
        """Returns W: the records below it are committed.  It never goes back."""
        return self._watermark

    def has_enough(self) -> bool:
        """Returns whether enough replicas are in sync for commits (``min.insync.replicas``).

        If too few replicas are in sync, a host refuses commits with NOT_ENOUGH_REPLICAS.
        """
        needed = min(self._config.min_insync_replicas, len(self._assigned))
        return len(self._accepted) >= needed

    def positions(self) -> dict[int, int]:
        """Returns the acknowledged position of every replica; -1 if it is not known yet."""
        return {replica: self._acknowledged(replica) for replica in self._assigned}

    # --------------------------------------------------------------------------------------- events

    def check(self, request: FetchRequest) -> FetchError:
        """Returns why a fetch must not be counted, or `FetchError.NONE`; records nothing.

        A replica that is not assigned gets UNKNOWN_LEADER_EPOCH, as from Kafka, so that it tries again: this leader may
        not know of a new assignment yet.
        """
        if request.current_leader_epoch < self._leader_epoch:
            return FetchError.FENCED_LEADER_EPOCH
        if request.current_leader_epoch > self._leader_epoch:
            return FetchError.UNKNOWN_LEADER_EPOCH
        follower = self._followers.get(request.replica)
        if follower is None:
            return FetchError.UNKNOWN_LEADER_EPOCH
        if request.incarnation < follower.incarnation:
            return FetchError.NOT_LEADER_OR_FOLLOWER
        return FetchError.NONE

    def on_fetch(self, request: FetchRequest, leader_log_end: int, now: int) -> FetchError:
        """Records the positions of a fetch.

        Args:
            request: a fetch whose log agrees with the leader's up to its offset (`answer_fetch`).
            leader_log_end: the end of the leader's log when the fetch was answered.
            now: the time.

        Returns:
            NONE, or why nothing was recorded: another leader epoch, an unknown replica, or an older
            incarnation than the newest one known.
        """
        error = self.check(request)
        if error == FetchError.NONE:
            self._log_end = max(self._log_end, leader_log_end)
            self._followers[request.replica].on_fetch(request, leader_log_end, now)
            self._advance(now)
        return error

    def on_own_flush(self, flushed_end: int, log_end: int, now: int) -> None:
        """Records the leader's own positions, after an append or a flush.

        Args:
            flushed_end: the end of what the leader has on disk.
            log_end: the end of its log.
            now: the time.
        """
        self._own_flushed = max(self._own_flushed, flushed_end)
        self._log_end = max(self._log_end, log_end)
        self._advance(now)

    def on_in_sync(
        self, leader_epoch: int, in_sync: Collection[int], version: int, now: int
    ) -> None:
        """Takes a state from the controller: the answer to a proposal, or a change by the controller.

        If the state is of another leader epoch, or is not newer than the known state, it came late and changes nothing.
        A newer state closes an open proposal, whether or not the controller has accepted it, because the controller
        refuses proposals that are based on an older version.

        Args:
            leader_epoch: the leader epoch of the state.
            in_sync: its in-sync set.
            version: its version.
            now: the time.
        """
        if leader_epoch != self._leader_epoch or version <= self._version:
            return
        if self._proposed is not None:
            self._back_off(self._proposed.replicas - self._accepted - frozenset(in_sync), now)
        self._accepted = frozenset(in_sync) | {self._own}
        self._version = version
        self._proposed = None
        self._advance(now)

    def _back_off(self, refused: Iterable[int], now: int) -> None:
        for replica in refused:
            self._followers[replica].refused_until = now + self._config.proposal_backoff_ms

    def on_proposal_failed(self, now: int) -> None:
        """Withdraws an open proposal, if it is certain that the controller has not received it and never will.

        Do not call this if it is unknown whether the controller got the proposal, for example after a timeout: the
        controller may have accepted it, and may elect the replicas that it adds.  Such a proposal stays open, and the
        host sends it again.
        """
        self._proposed = None
        self._advance(now)

    # ------------------------------------------------------------------------------------ proposals

    def propose(self, now: int) -> InSyncChange | None:
        """Returns the change of the in-sync set that is due, or None.

        Only one proposal is open at a time: until it is answered, this method returns None.  The host calls this method
        after fetches and at intervals of half of `lag_time_max_ms`, and sends the result to the controller.

        Args:
            now: the time.
        """
        self._advance(now)
        if self._proposed is not None:
            return None
        wanted = self._wanted(now)
        if frozenset(wanted) == self._accepted:
            return None
        members = tuple(self._member(replica) for replica in wanted)
        self._proposed = InSyncChange(
            leader_epoch=self._leader_epoch, version=self._version, members=members
        )
        return self._proposed

    def _wanted(self, now: int) -> list[int]:
        # Only one replica joins at a time.  The controller accepts or refuses a set as a whole, so a replica that it
        # considers dead would keep the others out.
        belonging = [each for each in self._assigned if self._belongs(each, now)]
        joining = [each for each in belonging if each not in self._accepted]
        newest = max(joining, key=lambda each: self._followers[each].fetched_at or 0, default=None)
        return [each for each in belonging if each in self._accepted or each == newest]

    def _member(self, replica: int) -> Member:
        # The leader needs no incarnation: it is in the set, and loses its epoch when it restarts.
        if replica == self._own:
            return Member(replica)
        return Member(replica, self._followers[replica].incarnation)

    def _belongs(self, replica: int, now: int) -> bool:
        if replica == self._own:
            return True
        return self._keeps_up(replica, now) and (
            replica in self._accepted or self._may_join(self._followers[replica], now)
        )

    def _keeps_up(self, replica: int, now: int) -> bool:
        # A replica that has acknowledged the log end keeps up even if it has stopped fetching.
        follower = self._followers[replica]
        return follower.acknowledged >= self._log_end or follower.was_caught_up(
            now, self._config.lag_time_max_ms
        )

    def _may_join(self, follower: ReplicaProgress, now: int) -> bool:
        # A member can be elected, so it must hold every committed record.  Committed records are below W.  But a new
        # leader's W may be older than its predecessor's; the predecessor's committed records are all below the start of
        # this epoch.
        holds = follower.acknowledged >= max(self._watermark, self._epoch_start)
        # A member may pause its fetches, but a replica that joins must have fetched lately.
        fetched_at = follower.fetched_at
        is_heard = fetched_at is not None and now - fetched_at <= self._config.lag_time_max_ms
        return holds and is_heard and not follower.is_refused(now)

    # -------------------------------------------------------------------------------------------- W

    def _acknowledged(self, replica: int) -> int:
        if replica == self._own:
            return self._own_flushed if self._config.ack == "flushed" else self._log_end
        follower = self._followers.get(replica)
        return -1 if follower is None else follower.acknowledged

    def _counted(self, now: int) -> Iterable[int]:
        # The maximal in-sync set, and the replicas that are about to join.  Until a proposal is answered, the
        # controller may elect from the accepted set and from the proposed one.
        yield from self._accepted
        proposed = frozenset[int]() if self._proposed is None else self._proposed.replicas
        for replica, follower in self._followers.items():
            if replica not in self._accepted and (
                replica in proposed or self._waits_for(follower, now)
            ):
                yield replica

    def _waits_for(self, follower: ReplicaProgress, now: int) -> bool:
        is_near = follower.was_caught_up(now, self._config.join_wait_ms)
        return is_near and not follower.is_refused(now)

    def _advance(self, now: int) -> None:
        # W does not advance while too few replicas are in sync (KIP-966).  Before KIP-966, Kafka let it advance, so
        # that records could be committed that only one replica held.
        #
        # W may pass records of earlier epochs before a record of this epoch is acknowledged.  Raft forbids that,
        # because in Raft a majority can elect a leader that lacks the record.  Here, leaders are elected only from the
        # in-sync set, and all its members have acknowledged the record.
        if self.has_enough():
            position = min(self._acknowledged(replica) for replica in self._counted(now))
            self._watermark = max(self._watermark, position)
