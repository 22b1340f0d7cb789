"""Replicas that join the in-sync set: one at a time, alive, and holding all that is committed."""

from __future__ import annotations

from offsetlog.replication.election import alter_in_sync
from offsetlog.replication.in_sync import InSyncConfig, LeaderView
from offsetlog.replication.messages import AlterError, PartitionState
from tests.replication.requests import EPOCH, request_of

ASSIGNED = (1, 2, 3)
CONFIG = InSyncConfig(
    min_insync_replicas=2, lag_time_max_ms=1000, join_wait_ms=100, proposal_backoff_ms=100
)


def view_of(in_sync: set[int]) -> LeaderView:
    view = LeaderView(
        replica=1,
        leader_epoch=EPOCH,
        log_end=10,
        assigned=ASSIGNED,
        in_sync=in_sync,
        version=0,
        watermark=10,
        now=0,
        config=CONFIG,
    )
    view.on_own_flush(10, 10, 0)
    return view


def fetch(view: LeaderView, replica: int, offset: int, now: int, incarnation: int = 1) -> None:
    view.on_fetch(request_of(offset, replica=replica, incarnation=incarnation), 10, now)


def test_a_replica_that_died_keeps_no_other_out():
    view = view_of({1})
    state = PartitionState(leader=1, leader_epoch=5, in_sync=frozenset({1}), version=0)
    fetch(view, 3, 10, now=0)       # and is never heard again
    for now in range(0, 5000, 50):
        fetch(view, 2, 10, now)
        change = view.propose(now)
        if change is not None:
            state = alter_in_sync(state, change, assigned=ASSIGNED, live={1: 1, 2: 1}).state
            view.on_in_sync(state.leader_epoch, state.in_sync, state.version, now)
    assert state.in_sync == {1, 2}


def test_one_replica_joins_at_a_time():
    view = view_of({1})
    fetch(view, 2, 10, now=0)
    fetch(view, 3, 10, now=1)
    change = view.propose(2)
    assert change is not None
    assert change.replicas == {1, 3}


def test_a_replica_below_the_start_of_the_epoch_does_not_join():
    view = view_of({1})
    fetch(view, 2, 9, now=0)
    assert view.propose(1) is None


def test_a_later_life_of_a_replica_starts_over():
    view = view_of({1})
    fetch(view, 2, 10, now=0)
    fetch(view, 2, 8, now=1, incarnation=2)
    assert view.propose(2) is None


def test_a_proposal_that_names_an_earlier_life_is_refused():
    view = view_of({1})
    fetch(view, 2, 10, now=0)
    change = view.propose(1)
    assert change is not None
    state = PartitionState(leader=1, leader_epoch=5, in_sync=frozenset({1}), version=0)
    answer = alter_in_sync(state, change, assigned=ASSIGNED, live={1: 1, 2: 2})
    assert answer.error == AlterError.INELIGIBLE_REPLICA
    assert answer.state.in_sync == {1}


def test_w_rests_while_too_few_are_in_sync():
    view = view_of({1})
    view.on_own_flush(20, 20, 1)
    assert not view.has_enough()
    assert view.watermark() == 10
