"""The controller's side: the leader of a partition, and its in-sync set.

Three rules keep every committed record.  First, the in-sync set grows only by a proposal that the current leader bases
on the newest version of the state.  Second, the last members of the set stay in it when they die, because no other
replica is known to hold all records.  Third, a replica that restarts may have lost records, so it leaves the set if
another member is alive.

All functions are pure, and safe to call from any thread.  The argument `assigned` lists the
replicas in the order of preference; `live` holds those that are registered and alive.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from offsetlog.replication.messages import (
    NO_LEADER,
    UNKNOWN_INCARNATION,
    AlterError,
    InSyncChange,
    Member,
    PartitionState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """The result of an election.

    Attributes:
        leader: the id of the new leader.
        in_sync: the in-sync set to begin with; the leader is in it.
        is_unclean: whether the leader was not in sync, so that committed records may be lost.
    """

    leader: int
    in_sync: frozenset[int]
    is_unclean: bool = False


def elect(
    assigned: Sequence[int],
    in_sync: Collection[int],
    live: Collection[int],
    *,
    unclean: bool = False,
) -> Elected | None:
    """Elects the first live replica that is in sync.

    Args:
        assigned: the replicas of the partition, in the order of preference.
        in_sync: the in-sync set.
        live: the replicas that are alive.
        unclean: whether a replica that is not in sync may lead if no other can.  Such an election
            loses committed records, so an operator decides on it, each time.

    Returns:
        The leader, and the in-sync set with which its epoch begins; None if no replica can lead.
    """
    alive = [replica for replica in assigned if replica in live]
    clean = [replica for replica in alive if replica in in_sync]
    if clean:
        return Elected(leader=clean[0], in_sync=frozenset(clean))
    if unclean and alive:
        return Elected(leader=alive[0], in_sync=frozenset(alive[:1]), is_unclean=True)
    return None


def with_leader(state: PartitionState, elected: Elected) -> PartitionState:
    """Returns the state after an election: the next leader epoch and version."""
    return PartitionState(
        leader=elected.leader,
        leader_epoch=state.leader_epoch + 1,
        in_sync=elected.in_sync,
        version=state.version + 1,
    )


def ensure_leader(
    state: PartitionState,
    *,
    assigned: Sequence[int],
    live: Collection[int],
    may_elect: bool = True,
) -> PartitionState:
    """Returns the state with a live leader, or without a leader if no replica in sync is alive.

    A leader that is alive stays.  If a replica was taken for lost and comes back without a restart,
    it has lost no records, and the host need make no other call.

    Args:
        state: the state before.
        assigned: the replicas of the partition.
        live: the replicas that are alive.
        may_elect: whether the lease of the last leader has ended (`lease.LeaseBook.may_elect`).
            Until it has, the last leader stays, dead or alive, and the host calls this function
            again later.
    """
    if not is_election_due(state, live) or not may_elect:
        return state
    elected = elect(assigned, state.in_sync, live)
    if elected is not None:
        return with_leader(state, elected)
    if state.leader == NO_LEADER:
        return state
    # No replica leads in the new epoch.  It fences the former leader, in case that leader is still
    # alive.
    return with_leader(state, Elected(leader=NO_LEADER, in_sync=state.in_sync))


def is_election_due(state: PartitionState, live: Collection[int]) -> bool:
    """Returns whether the partition has no live leader.  If so, the host grants no lease."""
    return state.leader == NO_LEADER or state.leader not in live


def on_replica_lost(
    state: PartitionState,
    replica: int,
    *,
    assigned: Sequence[int],
    live: Collection[int],
    may_elect: bool = True,
) -> PartitionState:
    """Returns the state after a replica died or became unreachable.

    Args:
        state: the state before.
        replica: the id of the replica.
        assigned: the replicas of the partition.
        live: the replicas that are alive, with or without `replica`.
        may_elect: see `ensure_leader`.
    """
    others = frozenset(live) - {replica}
    # If no member of the set is alive, the set stays: each member holds all committed records, and
    # the first one to come back can lead.  A leader stays in the set until another is elected.
    if replica in state.in_sync and state.in_sync & others and replica != state.leader:
        remaining = state.in_sync - {replica}
        state = replace(state, in_sync=remaining, version=state.version + 1)
    return ensure_leader(state, assigned=assigned, live=others, may_elect=may_elect)


def on_replica_registered(
    state: PartitionState,
    replica: int,
    *,
    assigned: Sequence[int],
    live: Collection[int],
    may_elect: bool = True,
) -> PartitionState:
    """Returns the state after a replica registered with a new incarnation, that is, after its restart.

    The log of this replica may have lost unflushed records, or all records.  The replica therefore
    leaves the in-sync set until the leader sees it catch up.  It stays in the set only if no other
    member is alive.  If it was the leader, its epoch ends in any case: see `in_sync.LeaderView`.

    Args:
        state: the state before.
        replica: the id of the replica.
        assigned: the replicas of the partition.
        live: the replicas that are alive, `replica` among them.
        may_elect: see `ensure_leader`.  The argument is ignored if `replica` was the leader, because its former process
            has ended, and its lease has ended with it (`lease.LeaseBook.release`).
    """
    may_elect = may_elect or replica == state.leader
    lost = on_replica_lost(state, replica, assigned=assigned, live=live, may_elect=may_elect)
    return ensure_leader(lost, assigned=assigned, live=live, may_elect=may_elect)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterAnswer:
    """The controller's answer to a proposal.

    Attributes:
        error: NONE if the proposal is accepted.
        state: the state after the proposal, accepted or not.  The host stores the state if its
            version is new, and sends it to the leader, which passes it to `LeaderView.on_in_sync`.
    """

    error: AlterError
    state: PartitionState


def alter_in_sync(
    state: PartitionState,
    change: InSyncChange,
    *,
    assigned: Collection[int],
    live: Mapping[int, int],
) -> AlterAnswer:
    """Accepts or refuses a leader's proposal of another in-sync set.

    Args:
        state: the current state.
        change: the proposal.
        assigned: the replicas of the partition.
        live: the replicas that are alive, each with its newest incarnation.
    """
    if change.leader_epoch < state.leader_epoch:
        return AlterAnswer(error=AlterError.FENCED_LEADER_EPOCH, state=state)
    if change.leader_epoch > state.leader_epoch:
        return AlterAnswer(error=AlterError.UNKNOWN_LEADER_EPOCH, state=state)
    if change.version != state.version:
        return AlterAnswer(error=AlterError.INVALID_UPDATE_VERSION, state=state)
    # A refusal uses up the version, too.  After it, the leader no longer counts the replicas that
    # it proposed, so a copy of the proposal that arrives later must not be accepted.
    version = state.version + 1
    error = _refuse(state, change, assigned, live)
    if error != AlterError.NONE:
        return AlterAnswer(error=error, state=replace(state, version=version))
    return AlterAnswer(error=error, state=replace(state, in_sync=change.replicas, version=version))


def _refuse(
    state: PartitionState,
    change: InSyncChange,
    assigned: Collection[int],
    live: Mapping[int, int],
) -> AlterError:
    if state.leader not in change.replicas:
        return AlterError.INVALID_REQUEST
    if all(
        member.replica in assigned and is_eligible(state, member, live) for member in change.members
    ):
        return AlterError.NONE
    return AlterError.INELIGIBLE_REPLICA


def is_eligible(state: PartitionState, member: Member, live: Mapping[int, int]) -> bool:
    """Returns whether a replica may be in the in-sync set with the incarnation proposed for it.

    The incarnation that caught up must be the one that is alive, because a later incarnation may
    have lost records that the replica had acknowledged (KIP-903).  A proposal may omit the
    incarnation of a replica that is already in the set.  If such a replica had restarted, the state
    would have a new version, and the controller would refuse the proposal.
    """
    if member.incarnation == UNKNOWN_INCARNATION:
        return member.replica in state.in_sync and member.replica in live
    return live.get(member.replica) == member.incarnation
