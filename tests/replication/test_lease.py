"""Leases, case by case: both sides measure one length from different moments."""

from __future__ import annotations

from offsetlog.replication.lease import LeaderLease, LeaseBook


def test_a_leader_without_a_grant_holds_nothing():
    assert not LeaderLease(3).is_held(0)


def test_a_lease_lasts_from_when_it_was_asked_for():
    lease = LeaderLease(3)
    lease.on_granted(3, 100, 50)
    assert lease.is_held(149)
    assert not lease.is_held(150)


def test_a_grant_at_time_zero_counts():
    lease = LeaderLease(3)
    lease.on_granted(3, 0, 1)
    assert lease.is_held(0)
    assert not lease.is_held(1)


def test_a_grant_of_another_epoch_changes_nothing():
    lease = LeaderLease(3)
    lease.on_granted(2, 100, 50)
    lease.on_granted(4, 100, 50)
    assert lease.until is None


def test_a_grant_that_comes_late_shortens_nothing():
    lease = LeaderLease(3)
    lease.on_granted(3, 100, 50)
    lease.on_granted(3, 60, 50)
    assert lease.until == 150
    lease.on_granted(3, 101, 50)
    assert lease.until == 151


def test_the_book_elects_nobody_before_the_newest_lease_has_ended():
    book = LeaseBook(50)
    assert book.may_elect(0)
    assert book.grant(100, is_leader=True) == 50
    assert not book.may_elect(149)
    assert book.may_elect(150)
    assert book.grant(120, is_leader=True) == 50
    assert book.until == 170


def test_a_clock_that_is_asked_out_of_order_shortens_nothing():
    book = LeaseBook(50)
    book.grant(100, is_leader=True)
    book.grant(90, is_leader=True)
    assert book.until == 150


def test_a_replica_that_does_not_lead_gets_no_lease():
    book = LeaseBook(50)
    assert book.grant(100, is_leader=False) is None
    assert book.may_elect(0)


def test_a_released_lease_is_not_waited_for():
    book = LeaseBook(50)
    book.grant(100, is_leader=True)
    book.release()
    assert book.may_elect(0)


def test_a_grant_that_is_late_ends_with_the_book_and_not_after_it():
    """A leader that counted from the arrival would answer beside its successor."""
    book, lease = LeaseBook(50), LeaderLease(3)
    asked_at = 1_000_100     # by the leader's clock, which shows another time
    length = book.grant(110, is_leader=True)
    assert length is not None
    lease.on_granted(3, asked_at, length)
    # The leader's clock is 1,000,000 ahead: when the controller may elect, it has ended here.
    assert book.until == 160
    assert not lease.is_held(1_000_000 + book.until)
