"""Deadlines by key: what is due comes once, in order, and nothing is lost."""

from __future__ import annotations

import itertools

from offsetlog.coordinator.timers import Timers


def test_keys_come_in_order_of_their_deadlines_and_are_set_no_more():
    timers = Timers()
    for key, deadline in (("b", 2.0), ("a", 1.0), ("c", 3.0), ("late", 9.0)):
        timers.set(key, deadline)
    assert list(timers.due(3.0)) == ["a", "b", "c"]
    assert "a" not in timers
    assert "late" in timers
    assert timers.next() == 9.0


def test_a_key_that_is_set_again_each_time_comes_once_a_call():
    timers = Timers()
    timers.set("a", 1.0)
    timers.set("b", 1.0)
    met = []
    for key in itertools.islice(timers.due(5.0), 100):
        met.append(key)
        timers.set(key, 0.0)    # due already
    assert met == ["a", "b"]
    assert timers.next() == 0.0
    assert list(timers.due(5.0)) == ["a", "b"]


def test_what_is_cancelled_or_moved_on_the_way_does_not_come():
    timers = Timers()
    for key in ("a", "b", "c", "d"):
        timers.set(key, 1.0)
    met = []
    for key in timers.due(5.0):
        met.append(key)
        if key == "a":
            timers.cancel("b")
            timers.set("c", 6.0)
            timers.set("d", 0.5)
    assert met == ["a"]
    assert list(timers.due(5.0)) == ["d"]
    assert list(timers.due(6.0)) == ["c"]


def test_a_caller_that_stops_midway_loses_nothing():
    timers = Timers()
    for key, deadline in (("a", 1.0), ("b", 2.0), ("c", 2.0)):
        timers.set(key, deadline)
    due = timers.due(5.0)
    assert next(due) == "a"
    due.close()
    assert timers.next() == 2.0
    assert list(timers.due(5.0)) == ["b", "c"]
