"""The leader's view of its replicas and W, case by case."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from offsetlog.errors import ConfigError
from offsetlog.replication.in_sync import InSyncConfig, LeaderView
from offsetlog.replication.messages import FetchError, InSyncChange, Member
from tests.replication.requests import EPOCH, request_of

ASSIGNED = (1, 2, 3)
USUAL = {"lag_time_max_ms": 1000, "join_wait_ms": 100, "proposal_backoff_ms": 50}


def view_of(in_sync: Collection[int], *, watermark: int = 10, **settings: Any) -> LeaderView:
    """Replica 1 leads from log offset 10 and time 0 on, and has flushed nothing yet."""
    return LeaderView(
        replica=1,
        leader_epoch=EPOCH,
        log_end=10,
        assigned=ASSIGNED,
        in_sync=in_sync,
        version=3,
        watermark=watermark,
        now=0,
        config=InSyncConfig(**USUAL | settings),
    )


def fetch(
    view: LeaderView, replica: int, offset: int, now: int, *, end: int = 10, **fields: Any
) -> FetchError:
    return view.on_fetch(request_of(offset, replica=replica, **fields), end, now)


def change_of(*members: Member, version: int = 3) -> InSyncChange:
    return InSyncChange(leader_epoch=EPOCH, version=version, members=members)


# ------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    "setting",
    [
        {"ack": "some"},
        {"min_insync_replicas": 0},
        {"lag_time_max_ms": -1},
        {"join_wait_ms": -1},
        {"proposal_backoff_ms": -1},
    ],
)
def test_a_setting_outside_its_domain_is_refused(setting):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        InSyncConfig(**setting)


def test_the_ends_of_the_domains_are_in_them():
    InSyncConfig(min_insync_replicas=1, lag_time_max_ms=0, join_wait_ms=0, proposal_backoff_ms=0)
    assert InSyncConfig() == InSyncConfig(
        min_insync_replicas=1,
        lag_time_max_ms=30_000,
        ack="flushed",
        join_wait_ms=1000,
        proposal_backoff_ms=1000,
    )


# --------------------------------------------------------------------------------------- state


def test_a_view_begins_with_what_the_controller_said():
    view = view_of({2})
    assert view.in_sync == {1, 2}
    assert (view.leader_epoch, view.version, view.epoch_start_offset) == (EPOCH, 3, 10)
    assert view.watermark() == 10
    assert view.proposed is None
    assert view.positions() == {1: -1, 2: -1, 3: -1}


@pytest.mark.parametrize(
    ("least", "in_sync", "enough"),
    [(1, {1}, True), (2, {1}, False), (2, {1, 2}, True), (3, {1, 2}, False), (9, {1, 2, 3}, True)],
)
def test_enough_replicas_are_in_sync(least, in_sync, enough):
    assert view_of(in_sync, min_insync_replicas=least).has_enough() is enough


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, FetchError.NONE),
        ({"incarnation": 8}, FetchError.NONE),
        ({"current_leader_epoch": EPOCH - 1}, FetchError.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": EPOCH + 1}, FetchError.UNKNOWN_LEADER_EPOCH),
        ({"replica": 1}, FetchError.UNKNOWN_LEADER_EPOCH),
        ({"replica": 4}, FetchError.UNKNOWN_LEADER_EPOCH),
        ({"incarnation": 6}, FetchError.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_fetch_is_checked_and_counts_only_then(fields, error):
    view = view_of({1})
    fetch(view, 2, 5, now=1)
    asked = request_of(9, **fields)
    assert view.check(asked) == error
    assert view.positions()[2] == 5
    assert view.on_fetch(asked, 10, 2) == error
    assert view.positions()[2] == (9 if error == FetchError.NONE else 5)


# ------------------------------------------------------------------------------------------- W


def test_w_is_the_smallest_flushed_end_of_the_set():
    view = view_of({1, 2, 3})
    view.on_own_flush(20, 25, 1)
    fetch(view, 2, 18, now=1, end=25)
    assert view.watermark() == 10
    fetch(view, 3, 22, now=1, end=25, flushed_offset=19)
    assert view.watermark() == 18
    fetch(view, 2, 25, now=1, end=25)
    assert view.watermark() == 19
    fetch(view, 3, 25, now=1, end=25)
    assert view.watermark() == 20
    view.on_own_flush(25, 25, 2)
    assert view.watermark() == 25
    assert view.positions() == {1: 25, 2: 25, 3: 25}


def test_with_written_records_w_is_the_smallest_written_end():
    view = view_of({1, 2}, ack="written")
    view.on_own_flush(0, 20, 1)
    fetch(view, 2, 18, now=1, end=20, flushed_offset=0)
    assert view.watermark() == 18
    assert view.positions() == {1: 20, 2: 18, 3: -1}


def test_w_does_not_go_back():
    view = view_of({1, 2}, watermark=15)
    view.on_own_flush(12, 12, 1)
    fetch(view, 2, 12, now=1)
    assert view.watermark() == 15


def test_the_leaders_own_positions_do_not_go_back():
    view = view_of({1}, ack="written")
    view.on_own_flush(20, 25, 1)
    view.on_own_flush(15, 15, 2)
    assert view.positions()[1] == 25
    view = view_of({1})
    view.on_own_flush(20, 25, 1)
    view.on_own_flush(15, 15, 2)
    assert view.positions()[1] == 20


def test_w_rests_while_too_few_are_in_sync_and_moves_when_they_are():
    view = view_of({1}, min_insync_replicas=2)
    view.on_own_flush(20, 20, 1)
    fetch(view, 2, 20, now=1, end=20)
    assert view.watermark() == 10
    view.on_in_sync(EPOCH, {1, 2}, 4, 2)
    assert view.watermark() == 20


def test_w_waits_for_the_set_that_is_proposed_until_it_is_answered():
    view = view_of({1}, join_wait_ms=0)
    view.on_own_flush(10, 10, 1)
    fetch(view, 2, 10, now=1)
    assert view.propose(1) == change_of(Member(1), Member(2, 7))
    view.on_own_flush(20, 20, 50)
    assert view.watermark() == 10
    view.on_in_sync(EPOCH, {1}, 4, 50)
    assert view.watermark() == 20


def test_w_waits_for_a_member_that_is_proposed_to_leave():
    view = view_of({1, 2}, join_wait_ms=0)
    view.on_own_flush(20, 20, 1)
    assert view.propose(1001) == change_of(Member(1))
    assert view.watermark() == 10
    view.on_in_sync(EPOCH, {1}, 4, 1001)
    assert view.watermark() == 20


@pytest.mark.parametrize(("now", "watermark"), [(101, 10), (102, 20)])
def test_w_waits_for_who_is_about_to_join(now, watermark):
    view = view_of({1})
    view.on_own_flush(10, 10, 0)
    fetch(view, 2, 10, now=1)
    view.on_own_flush(20, 20, now)
    assert view.watermark() == watermark


def test_w_does_not_wait_for_who_was_refused():
    view = view_of({1})
    view.on_own_flush(10, 10, 0)
    fetch(view, 2, 10, now=1)
    view.propose(1)
    view.on_in_sync(EPOCH, {1}, 4, 2)
    view.on_own_flush(20, 20, 3)
    assert view.watermark() == 20


def test_w_does_not_wait_for_who_was_never_caught_up():
    view = view_of({1})
    fetch(view, 2, 5, now=1)
    view.on_own_flush(20, 20, 2)
    assert view.watermark() == 20


def test_a_proposal_that_never_was_holds_w_no_more():
    view = view_of({1}, join_wait_ms=0)
    view.on_own_flush(10, 10, 0)
    fetch(view, 2, 10, now=0)
    assert view.propose(0) is not None
    view.on_own_flush(20, 20, 5)
    assert view.watermark() == 10
    view.on_proposal_failed(5)
    assert view.proposed is None
    assert view.watermark() == 20


def test_time_alone_moves_w_when_the_host_asks_for_a_proposal():
    view = view_of({1})
    view.on_own_flush(10, 10, 0)
    fetch(view, 2, 10, now=0)
    view.on_own_flush(20, 20, 1)
    assert view.watermark() == 10
    view.propose(101)
    assert view.watermark() == 20


# ----------------------------------------------------------------------------------- proposals


def test_nothing_is_proposed_where_nothing_changes():
    view = view_of({1, 2, 3})
    assert view.propose(1000) is None
    assert view.proposed is None


def test_a_member_has_the_lag_time_from_the_election_on():
    assert view_of({1, 2}).propose(1000) is None
    assert view_of({1, 2}).propose(1001) == change_of(Member(1))


def test_a_member_that_rests_at_the_log_end_stays():
    view = view_of({1, 2})
    fetch(view, 2, 10, now=1)
    assert view.propose(1_000_000) is None


def test_a_member_that_lags_leaves():
    view = view_of({1, 2})
    fetch(view, 2, 10, now=500)
    view.on_own_flush(11, 11, 600)
    assert view.propose(1500) is None
    assert view.propose(1501) == change_of(Member(1))


def test_a_fetch_says_where_the_log_ends_as_a_flush_does():
    view = view_of({1, 2})
    fetch(view, 2, 10, now=0, end=12)
    assert view.propose(1000) is None
    assert view.propose(1001) == change_of(Member(1))


def test_the_end_of_an_overtaken_fetch_takes_nothing_back():
    view = view_of({1, 2})
    fetch(view, 2, 10, now=0, end=12)
    fetch(view, 3, 5, now=0, end=10)
    assert view.propose(1001) == change_of(Member(1))


def test_a_proposal_names_the_lives_that_are_known_and_not_the_leaders():
    view = view_of({1, 3})
    fetch(view, 2, 10, now=1)
    assert view.propose(1) == change_of(Member(1), Member(2, 7), Member(3, -1))


def test_one_proposal_is_open_at_a_time():
    view = view_of({1})
    fetch(view, 2, 10, now=1)
    change = view.propose(1)
    assert change is not None
    assert view.propose(2) is None
    assert view.proposed is change


@pytest.mark.parametrize(("offset", "joins"), [(9, False), (10, True)])
def test_who_joins_has_all_below_the_start_of_the_epoch(offset, joins):
    # W of the former leader was above what this one knows of.
    view = view_of({1, 2}, watermark=5)
    fetch(view, 2, 10, now=1)
    fetch(view, 3, offset, now=1)
    assert (view.propose(1) is not None) is joins


@pytest.mark.parametrize(("offset", "joins"), [(9, False), (10, True)])
def test_who_left_after_the_election_joins_with_all_below_the_start_of_the_epoch(offset, joins):
    view = view_of({1, 2, 3}, watermark=5)
    fetch(view, 2, 5, now=1)
    view.on_in_sync(EPOCH, {1, 2}, 4, 1)
    fetch(view, 3, offset, now=2)
    assert (view.propose(2) is not None) is joins


@pytest.mark.parametrize(("offset", "joins"), [(19, False), (20, True)])
def test_who_joins_has_all_below_w(offset, joins):
    view = view_of({1, 2}, lag_time_max_ms=10_000)
    fetch(view, 3, 15, now=1, end=15)
    view.on_own_flush(25, 25, 2)
    fetch(view, 3, 15, now=3, end=25)
    fetch(view, 2, 20, now=500, end=25)
    assert view.watermark() == 20
    fetch(view, 3, offset, now=500, end=25)
    assert (view.propose(500) is not None) is joins


@pytest.mark.parametrize(("now", "joins"), [(1001, True), (1002, False)])
def test_who_joins_was_heard_within_the_lag_time(now, joins):
    view = view_of({1})
    fetch(view, 2, 10, now=1)
    assert (view.propose(now) is not None) is joins


def test_who_was_never_heard_does_not_join():
    view = LeaderView(
        replica=1,
        leader_epoch=EPOCH,
        log_end=-1,
        assigned=ASSIGNED,
        in_sync={1},
        version=3,
        watermark=-1,
        now=0,
        config=InSyncConfig(**USUAL),
    )
    assert view.propose(0) is None


def test_who_was_heard_at_time_zero_joins():
    view = view_of({1})
    fetch(view, 2, 10, now=0)
    assert view.propose(0) is not None


def test_who_was_heard_last_joins_first():
    view = view_of({1})
    fetch(view, 3, 10, now=1)
    fetch(view, 2, 10, now=2)
    assert view.propose(2) == change_of(Member(1), Member(2, 7))
    view = view_of({1})
    fetch(view, 2, 10, now=1)
    fetch(view, 3, 10, now=2)
    assert view.propose(2) == change_of(Member(1), Member(3, 7))


def test_a_refused_replica_is_proposed_again_after_a_while():
    view = view_of({1})
    fetch(view, 2, 10, now=1)
    assert view.propose(1) is not None
    view.on_in_sync(EPOCH, {1}, 4, 10)
    assert view.propose(59) is None
    assert view.propose(60) == change_of(Member(1), Member(2, 7), version=4)


def test_only_who_was_refused_is_put_off():
    view = view_of({1, 3})
    fetch(view, 3, 10, now=1)
    fetch(view, 2, 10, now=1)
    assert view.propose(1) is not None
    # Another change came first: 2 is in, and 3 is out, which nobody refused.
    view.on_in_sync(EPOCH, {1, 2}, 4, 2)
    assert view.propose(2) == change_of(Member(1), Member(2, 7), Member(3, 7), version=4)


def test_who_was_accepted_is_not_put_off():
    view = view_of({1})
    fetch(view, 2, 10, now=1)
    assert view.propose(1) is not None
    view.on_in_sync(EPOCH, {1, 2}, 4, 2)
    view.on_in_sync(EPOCH, {1}, 5, 3)
    assert view.propose(3) == change_of(Member(1), Member(2, 7), version=5)


# -------------------------------------------------------------------------- states that arrive


@pytest.mark.parametrize(
    ("epoch", "version", "taken"),
    [
        (EPOCH, 4, True),
        (EPOCH, 3, False),
        (EPOCH, 2, False),
        (EPOCH - 1, 4, False),
        (EPOCH + 1, 4, False),
    ],
)
def test_only_a_newer_state_of_the_epoch_counts(epoch, version, taken):
    view = view_of({1, 2})
    fetch(view, 3, 10, now=1)
    assert view.propose(1) is not None
    view.on_in_sync(epoch, {3}, version, 2)
    assert view.in_sync == ({1, 3} if taken else {1, 2})
    assert view.version == (4 if taken else 3)
    assert (view.proposed is None) is taken
