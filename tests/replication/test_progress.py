"""How far a follower has come, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from offsetlog.replication.messages import FetchRequest
from offsetlog.replication.progress import ReplicaProgress


def fetch(offset: int, flushed: int | None = None, incarnation: int = 1) -> FetchRequest:
    return FetchRequest(
        partition=0,
        replica=2,
        incarnation=incarnation,
        current_leader_epoch=5,
        fetch_offset=offset,
        last_fetched_epoch=4,
        flushed_offset=offset if flushed is None else flushed,
        max_bytes=1000,
    )


def progress(**fields: Any) -> ReplicaProgress:
    return ReplicaProgress(**{"ack": "flushed", "goal": 10, "goal_at": 100} | fields)


def test_what_is_acknowledged_is_what_is_flushed_or_what_is_written():
    flushed, written = progress(), progress(ack="written")
    for each in (flushed, written):
        assert each.acknowledged == -1
        each.on_fetch(fetch(8, flushed=5), 10, 200)
    assert (flushed.acknowledged, written.acknowledged) == (5, 8)


def test_what_is_flushed_is_not_above_what_is_fetched():
    each = progress()
    each.on_fetch(fetch(5, flushed=9), 10, 200)
    assert each.flushed_offset == 5


def test_a_fetch_that_was_overtaken_takes_nothing_back():
    each = progress()
    each.on_fetch(fetch(8, flushed=7), 10, 200)
    each.on_fetch(fetch(6, flushed=6), 10, 201)
    assert (each.fetch_offset, each.flushed_offset) == (8, 7)
    assert each.fetched_at == 201


def test_a_follower_at_the_log_end_is_caught_up_now():
    each = progress()
    each.on_fetch(fetch(20), 20, 200)
    assert (each.caught_up_at, each.goal, each.goal_at) == (200, 20, 200)


def test_a_follower_that_reaches_its_goal_was_caught_up_when_the_goal_was_the_end():
    each = progress()
    each.on_fetch(fetch(10), 20, 200)
    assert (each.caught_up_at, each.goal, each.goal_at) == (100, 20, 200)
    each.on_fetch(fetch(19), 30, 300)
    assert (each.caught_up_at, each.goal, each.goal_at) == (100, 20, 200)
    each.on_fetch(fetch(20), 30, 301)
    assert (each.caught_up_at, each.goal, each.goal_at) == (200, 30, 301)


def test_a_follower_below_its_goal_keeps_it():
    each = progress()
    each.on_fetch(fetch(9), 20, 200)
    assert (each.caught_up_at, each.goal, each.goal_at) == (None, 10, 100)


def test_an_older_goal_takes_no_time_back():
    each = progress(caught_up_at=150)
    each.on_fetch(fetch(10), 20, 200)
    assert each.caught_up_at == 150


def test_a_goal_of_time_zero_counts():
    each = progress(goal_at=0)
    each.on_fetch(fetch(10), 20, 200)
    assert each.caught_up_at == 0


def test_unflushed_records_reach_no_goal():
    each = progress()
    each.on_fetch(fetch(20, flushed=9), 20, 200)
    assert each.caught_up_at is None


def test_a_later_life_starts_over():
    each = progress()
    each.on_fetch(fetch(20), 20, 200)
    each.on_fetch(fetch(15, flushed=12, incarnation=2), 30, 300)
    assert (each.fetch_offset, each.flushed_offset, each.incarnation) == (15, 12, 2)
    assert (each.caught_up_at, each.goal, each.goal_at) == (None, 30, 300)


def test_the_same_life_does_not_start_over():
    each = progress()
    each.on_fetch(fetch(20, incarnation=0), 20, 200)
    each.on_fetch(fetch(15, incarnation=0), 30, 300)
    assert (each.fetch_offset, each.caught_up_at) == (20, 200)


def test_the_first_life_that_is_heard_keeps_the_time_of_the_election():
    each = progress(caught_up_at=100)
    each.on_fetch(fetch(5, incarnation=7), 20, 200)
    assert (each.caught_up_at, each.goal, each.incarnation) == (100, 10, 7)


def test_life_zero_is_followed_by_a_later_one():
    each = progress()
    each.on_fetch(fetch(20, incarnation=0), 20, 200)
    each.on_fetch(fetch(15, incarnation=1), 30, 300)
    assert each.fetch_offset == 15


@pytest.mark.parametrize(("now", "was"), [(200, True), (250, True), (251, False)])
def test_it_was_caught_up_within_a_time(now, was):
    assert progress(caught_up_at=200).was_caught_up(now, 50) is was


def test_it_was_never_caught_up():
    assert not progress().was_caught_up(0, 1_000_000)


def test_it_was_caught_up_at_time_zero():
    assert progress(caught_up_at=0).was_caught_up(50, 50)


@pytest.mark.parametrize(("now", "refused"), [(149, True), (150, False)])
def test_a_refusal_lasts_for_a_time(now, refused):
    assert progress(refused_until=150).is_refused(now) is refused
    assert not progress().is_refused(now)
