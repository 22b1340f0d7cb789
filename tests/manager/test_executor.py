"""The threads of a manager: none is lost to work that fails, and timers that are cancelled keep nothing."""

from __future__ import annotations

import gc
import logging
import math
import threading
import weakref

import pytest

from offsetlog.errors import CapacityError
from offsetlog.manager.executor import ThreadExecutor


@pytest.fixture
def executor():
    made = ThreadExecutor(2, "of-the-test")
    yield made
    made.stop()


def threads_of_the_test():
    return [each for each in threading.enumerate() if each.name.startswith("of-the-test")]


def test_work_runs_on_no_more_threads_than_allowed(executor):
    left = threading.Semaphore(0)
    names = set()

    def work():
        names.add(threading.current_thread().name)
        left.release()

    for _ in range(2000):
        executor.submit(work)
    for _ in range(2000):
        assert left.acquire(timeout=60)
    assert len(threads_of_the_test()) <= 2
    assert names == {"of-the-test"}


def test_work_that_fails_costs_no_thread(executor, caplog):
    done = threading.Event()

    def fails():
        raise ValueError("of the work")

    def leaves():
        raise SystemExit

    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            executor.submit(fails)
            executor.submit(leaves)
            executor.call_later(0, leaves)
        executor.submit(lambda: executor.call_later(0, done.set))
        assert done.wait(60)
    assert "ValueError: of the work" in caplog.text


def test_cancelled_timers_keep_nothing(executor):
    class Kept:
        pass

    kept = Kept()
    gone = weakref.ref(kept)
    timer = executor.call_later(3600, lambda kept=kept: None)
    timer.cancel()
    del kept
    gc.collect()
    assert gone() is None
    for _ in range(100_000):
        executor.call_later(3600, gc.collect).cancel()
    assert len(executor._timers) < 200
    timer.cancel()
    assert len(executor._timers) < 200


def test_timers_fire_in_order_also_beside_cancelled_and_endless_ones(executor):
    fired = []
    done = threading.Event()
    executor.call_later(math.inf, fired.clear)
    executor.call_later(1e12, fired.clear)
    cancelled = [executor.call_later(0.01, fired.clear) for _ in range(100)]
    for timer in cancelled:
        timer.cancel()
    executor.call_later(0.02, done.set)
    executor.call_later(0.0, lambda: fired.append("first"))
    assert done.wait(60)
    assert fired == ["first"]


def test_a_timer_that_fired_can_be_cancelled(executor):
    fired = threading.Event()
    timer = executor.call_later(0, fired.set)
    assert fired.wait(60)
    for _ in range(200):
        timer.cancel()
    assert executor._timers._cancelled == 0
    again = threading.Event()
    executor.call_later(0, again.set)
    assert again.wait(60)


def test_stop_waits_for_work_and_drops_the_rest():
    executor = ThreadExecutor(1, "of-the-test")
    begun, go_on = threading.Event(), threading.Event()
    done = []

    def work():
        begun.set()
        assert go_on.wait(60)
        done.append("begun")

    executor.submit(work)
    executor.submit(lambda: done.append("dropped"))
    executor.call_later(3600, lambda: done.append("dropped"))
    assert begun.wait(60)
    stopping = threading.Thread(target=executor.stop)
    stopping.start()
    go_on.set()
    stopping.join()
    executor.submit(lambda: done.append("late"))
    executor.call_later(0, lambda: done.append("late"))
    assert done == ["begun"]
    assert not threads_of_the_test()


def test_stop_from_its_own_thread_waits_for_the_others_alone():
    executor = ThreadExecutor(2, "of-the-test")
    stopped = threading.Event()

    def work():
        executor.stop()
        stopped.set()

    executor.submit(work)
    assert stopped.wait(60)


def test_without_a_thread_work_is_refused_and_nothing_is_left(monkeypatch):
    executor = ThreadExecutor(2, "of-the-test")
    ran = threading.Event()
    starts = threading.Thread.start

    def refuse(self):
        if self.name.startswith("of-the-test"):
            raise RuntimeError("can't start new thread")
        starts(self)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for order in (lambda: executor.submit(ran.set), lambda: executor.call_later(0, ran.set)):
        with pytest.raises(CapacityError):
            order()
    monkeypatch.undo()
    assert not ran.is_set()
    executor.submit(ran.set)
    assert ran.wait(60)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    # Those that there are do it.
    again = [threading.Event() for _ in range(10)]
    for event in again:
        executor.submit(event.set)
    assert all(event.wait(60) for event in again)
    executor.stop()
