"""The controller's rules, case by case."""

from __future__ import annotations

import pytest

from offsetlog.replication.election import (
    Elected,
    alter_in_sync,
    elect,
    ensure_leader,
    is_election_due,
    is_eligible,
    on_replica_lost,
    on_replica_registered,
    with_leader,
)
from offsetlog.replication.messages import (
    NO_LEADER,
    UNKNOWN_INCARNATION,
    AlterError,
    InSyncChange,
    Member,
    PartitionState,
)

ASSIGNED = (1, 2, 3)


def state_of(leader: int, *in_sync: int, epoch: int = 5, version: int = 9) -> PartitionState:
    return PartitionState(
        leader=leader, leader_epoch=epoch, in_sync=frozenset(in_sync), version=version
    )


def change_of(
    *members: tuple[int, int] | int, epoch: int = 5, version: int = 9
) -> InSyncChange:
    named = (each if isinstance(each, tuple) else (each,) for each in members)
    return InSyncChange(
        leader_epoch=epoch, version=version, members=tuple(Member(*each) for each in named)
    )


# --------------------------------------------------------------------------------------- elect


def test_the_first_live_replica_in_sync_is_elected_in_the_order_of_preference():
    assert elect((3, 1, 2), {1, 2}, {1, 2, 3}) == Elected(leader=1, in_sync=frozenset({1, 2}))


def test_a_dead_member_does_not_stay_in_the_set_of_a_new_leader():
    assert elect(ASSIGNED, {1, 2, 3}, {2, 3}) == Elected(leader=2, in_sync=frozenset({2, 3}))


def test_nobody_is_elected_where_no_member_is_alive():
    assert elect(ASSIGNED, {1}, {2, 3}) is None


def test_only_an_operator_elects_a_replica_that_is_not_in_sync():
    assert elect(ASSIGNED, {1}, {2, 3}, unclean=True) == Elected(
        leader=2, in_sync=frozenset({2}), is_unclean=True
    )


def test_an_unclean_election_is_clean_where_it_can_be():
    assert elect(ASSIGNED, {3}, {2, 3}, unclean=True) == Elected(
        leader=3, in_sync=frozenset({3}), is_unclean=False
    )


def test_an_unclean_election_needs_somebody_alive():
    assert elect(ASSIGNED, {1}, set(), unclean=True) is None


def test_an_election_takes_the_next_epoch_and_the_next_version():
    elected = Elected(leader=2, in_sync=frozenset({2, 3}))
    assert with_leader(state_of(1, 1, 2, 3), elected) == state_of(2, 2, 3, epoch=6, version=10)


# ------------------------------------------------------------------------------- ensure_leader


def test_a_live_leader_stays():
    state = state_of(1, 1, 2)
    assert ensure_leader(state, assigned=ASSIGNED, live={1}) is state


def test_a_dead_leader_is_replaced():
    after = ensure_leader(state_of(1, 1, 2, 3), assigned=ASSIGNED, live={2, 3})
    assert after == state_of(2, 2, 3, epoch=6, version=10)


def test_a_dead_leader_stays_until_its_lease_has_ended():
    state = state_of(1, 1, 2, 3)
    assert ensure_leader(state, assigned=ASSIGNED, live={2, 3}, may_elect=False) is state


def test_an_epoch_without_a_leader_fences_one_that_is_alive_after_all():
    after = ensure_leader(state_of(1, 1), assigned=ASSIGNED, live={2, 3})
    assert after == state_of(NO_LEADER, 1, epoch=6, version=10)


def test_without_a_leader_nothing_changes_until_a_member_is_back():
    state = state_of(NO_LEADER, 1)
    assert ensure_leader(state, assigned=ASSIGNED, live={2, 3}) is state
    after = ensure_leader(state, assigned=ASSIGNED, live={1, 2})
    assert after == state_of(1, 1, epoch=6, version=10)


@pytest.mark.parametrize(
    ("leader", "live", "is_due"),
    [(1, {1}, False), (1, {2}, True), (NO_LEADER, {1, 2}, True), (NO_LEADER, {NO_LEADER}, True)],
)
def test_an_election_is_due_without_a_live_leader(leader, live, is_due):
    assert is_election_due(state_of(leader, 1, 2), live) is is_due


# ----------------------------------------------------------------------------- on_replica_lost


def test_a_follower_that_died_leaves_the_set_in_the_same_epoch():
    after = on_replica_lost(state_of(1, 1, 2, 3), 2, assigned=ASSIGNED, live={1, 2, 3})
    assert after == state_of(1, 1, 3, version=10)


def test_a_follower_that_is_not_in_the_set_changes_nothing():
    state = state_of(1, 1, 3)
    assert on_replica_lost(state, 2, assigned=ASSIGNED, live={1, 3}) is state


def test_a_leader_that_died_is_replaced_once():
    after = on_replica_lost(state_of(1, 1, 2, 3), 1, assigned=ASSIGNED, live={1, 2, 3})
    assert after == state_of(2, 2, 3, epoch=6, version=10)


def test_the_last_member_stays_in_the_set_when_it_dies():
    after = on_replica_lost(state_of(1, 1), 1, assigned=ASSIGNED, live={2, 3})
    assert after == state_of(NO_LEADER, 1, epoch=6, version=10)


def test_the_last_of_two_members_to_die_stays():
    state = on_replica_lost(state_of(1, 1, 2), 1, assigned=ASSIGNED, live={2, 3})
    assert state == state_of(2, 2, epoch=6, version=10)
    state = on_replica_lost(state, 2, assigned=ASSIGNED, live={3})
    assert state == state_of(NO_LEADER, 2, epoch=7, version=11)


def test_members_without_a_leader_all_stay_when_no_other_is_alive():
    state = state_of(NO_LEADER, 1, 2)
    assert on_replica_lost(state, 2, assigned=ASSIGNED, live={3}) is state


def test_a_follower_leaves_the_set_while_the_lease_of_a_dead_leader_lasts():
    after = on_replica_lost(
        state_of(1, 1, 2, 3), 2, assigned=ASSIGNED, live={3}, may_elect=False
    )
    # The dead leader stays: it answers nobody's proposal, and the election leaves it out.
    assert after == state_of(1, 1, 3, version=10)
    assert ensure_leader(after, assigned=ASSIGNED, live={3}) == state_of(
        3, 3, epoch=6, version=11
    )


def test_a_dead_leader_is_not_replaced_while_its_lease_lasts():
    state = state_of(1, 1, 2)
    after = on_replica_lost(state, 1, assigned=ASSIGNED, live={2}, may_elect=False)
    assert after is state


# ----------------------------------------------------------------------- on_replica_registered


def test_a_restarted_follower_leaves_the_set():
    after = on_replica_registered(state_of(1, 1, 2), 2, assigned=ASSIGNED, live={1, 2})
    assert after == state_of(1, 1, version=10)


def test_a_restarted_leader_gives_way_to_another_member():
    after = on_replica_registered(state_of(1, 1, 2), 1, assigned=ASSIGNED, live={1, 2})
    assert after == state_of(2, 2, epoch=6, version=10)


def test_a_restarted_leader_that_is_all_there_is_leads_in_a_new_epoch():
    after = on_replica_registered(state_of(1, 1), 1, assigned=ASSIGNED, live={1, 2})
    assert after == state_of(1, 1, epoch=7, version=11)


def test_a_restarted_leader_never_goes_on_in_its_epoch_lease_or_not():
    after = on_replica_registered(
        state_of(1, 1, 2), 1, assigned=ASSIGNED, live={1, 2}, may_elect=False
    )
    assert after == state_of(2, 2, epoch=6, version=10)


def test_a_restarted_follower_waits_for_the_lease_of_a_dead_leader():
    state = state_of(1, 1, 2)
    after = on_replica_registered(state, 2, assigned=ASSIGNED, live={2}, may_elect=False)
    assert after is state


def test_the_last_member_leads_when_it_is_back():
    after = on_replica_registered(state_of(NO_LEADER, 2), 2, assigned=ASSIGNED, live={2, 3})
    assert after == state_of(2, 2, epoch=6, version=10)


# ------------------------------------------------------------------------------- alter_in_sync


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (change_of(1, (2, 7), epoch=4), AlterError.FENCED_LEADER_EPOCH),
        (change_of(1, (2, 7), epoch=6), AlterError.UNKNOWN_LEADER_EPOCH),
        (change_of(1, (2, 7), version=8), AlterError.INVALID_UPDATE_VERSION),
        (change_of(1, (2, 7), version=10), AlterError.INVALID_UPDATE_VERSION),
    ],
)
def test_a_proposal_on_another_state_changes_nothing(change, error):
    state = state_of(1, 1)
    answer = alter_in_sync(state, change, assigned=ASSIGNED, live={1: 7, 2: 7})
    assert (answer.error, answer.state) == (error, state)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (change_of((2, 7)), AlterError.INVALID_REQUEST),
        (change_of(1, (2, 6)), AlterError.INELIGIBLE_REPLICA),
        (change_of(1, (2, 8)), AlterError.INELIGIBLE_REPLICA),
        (change_of(1, (3, 7)), AlterError.INELIGIBLE_REPLICA),
        (change_of(1, 2), AlterError.INELIGIBLE_REPLICA),
        (change_of(1, (4, 7)), AlterError.INELIGIBLE_REPLICA),
        (change_of(1, (2, 7), (3, 7)), AlterError.INELIGIBLE_REPLICA),
    ],
)
def test_a_refused_proposal_takes_its_version(change, error):
    live = {1: 7, 2: 7, 4: 7}
    answer = alter_in_sync(state_of(1, 1), change, assigned=ASSIGNED, live=live)
    assert (answer.error, answer.state) == (error, state_of(1, 1, version=10))
    # A copy that comes later, when the replica is alive as it was named, is another version's.
    late = alter_in_sync(
        answer.state, change, assigned=(1, 2, 3, 4), live={1: 7, 2: 6, 3: 7, 4: 7}
    )
    assert late.error == AlterError.INVALID_UPDATE_VERSION
    assert late.state == answer.state


def test_an_accepted_proposal_is_the_new_set():
    change = change_of(1, (3, 7))
    answer = alter_in_sync(state_of(1, 1, 2), change, assigned=ASSIGNED, live={1: 4, 2: 5, 3: 7})
    assert (answer.error, answer.state) == (AlterError.NONE, state_of(1, 1, 3, version=10))


@pytest.mark.parametrize(
    ("member", "live", "eligible"),
    [
        (Member(2), {2: 5}, True),
        (Member(2), {}, False),
        (Member(3), {3: 5}, False),
        (Member(2, 5), {2: 5}, True),
        (Member(2, 5), {2: 6}, False),
        (Member(3, 5), {3: 5}, True),
        (Member(3, 5), {}, False),
        (Member(3, 0), {3: 0}, True),
    ],
)
def test_a_member_is_named_with_the_incarnation_that_is_alive(member, live, eligible):
    assert is_eligible(state_of(1, 1, 2), member, live) is eligible


def test_a_member_without_an_incarnation_has_none():
    assert Member(2).incarnation == UNKNOWN_INCARNATION == -1
