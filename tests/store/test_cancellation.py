"""Calls that take long: an interrupt of who asked stops them, and nobody else's; closing the store does, too."""

import _thread
import threading
import time
from collections.abc import Callable

import pytest

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, errors
from offsetlog._native import cleaner
from offsetlog._native.replay import Replay
from offsetlog.cancellation import Control, LongCalls, interruptibly

#: The settings of a log that takes some seconds to be cleaned.
SLOW = MaintenanceConfig(enabled=False, cleaner_bytes_per_second=1_500_000)


@pytest.fixture
def slow(path):
    with offsetlog.open(path, 2, "process", maintenance=SLOW) as store:
        groups: dict[int, str] = {}
        for number in range(20):
            groups.setdefault(store._core.number_of(f"g{number}"), f"g{number}")
        for group in groups.values():
            for number in range(15_000):
                store.commit_one(group, "orders", number % 4, number)
        yield store


def interrupted(call: Callable[[], object], after: float = 0.3) -> float:
    """Returns for how many seconds a call went on after a Ctrl-C."""
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.monotonic())
        _thread.interrupt_main()

    def wait() -> None:
        call()
        time.sleep(5)  # an interrupt that comes after its end

    timer = threading.Timer(after, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            wait()
        return time.monotonic() - sent[0]
    finally:
        timer.join()


def until(met: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_an_interrupt_stops_nobody_elses_cleaning(slow):
    found = []
    other = threading.Thread(target=lambda: found.extend(slow.compact([0])))
    other.start()
    until(lambda: slow.maintenance.status().cleaning == 0)
    assert interrupted(lambda: slow.compact([1])) < 1
    other.join()
    assert [(report.log_partition, report.stopped, report.complete) for report in found] == [(0, False, True)]
    # Its own never began.
    time.sleep(0.3)
    assert 1 not in slow.maintenance.status().reports


def test_an_interrupt_stops_its_own_cleaning(slow):
    assert interrupted(slow.compact) < 1
    assert slow.maintenance.status().cleaning is None
    assert not [thread for thread in threading.enumerate() if thread.name == "offsetlog-call"]


def test_progress_is_of_what_was_asked_for(slow):
    other = threading.Thread(target=slow.compact, args=([0],))
    other.start()
    until(lambda: slow.maintenance.status().cleaning == 0)
    seen = []
    slow.compact([1], progress=lambda *now: seen.append(now[0]))
    other.join()
    assert set(seen) == {1}


def test_what_is_interrupted_is_waited_for_until_it_ends():
    ended = []

    def work(control: Control) -> None:
        while not control.stopped:
            time.sleep(0.01)
        time.sleep(0.3)
        ended.append(True)

    assert interrupted(lambda: interruptibly(work, Control())) < 1
    assert ended == [True]


def test_what_the_work_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        interruptibly(lambda control: 1 // 0, Control())
    assert interruptibly(lambda control: None, Control()) is None


def test_at_the_end_of_the_store_long_calls_end():
    calls, failures = LongCalls(), []

    def work(control: Control) -> None:
        while True:
            control.check()
            time.sleep(0.01)

    def ask() -> None:
        try:
            calls.run(work)
        except errors.ClosedError as failure:
            failures.append(failure)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.1)
    calls.stop()
    thread.join(5)
    assert len(failures) == 1
    with pytest.raises(errors.ClosedError):
        calls.run(work)


def test_a_replay_can_be_stopped(path):
    with offsetlog.open(path, 1, "process", maintenance=MaintenanceConfig(enabled=False)) as store:
        for number in range(100):
            store.commit_one("g", "t", number, number)
        control = Control()
        control.stop()
        (log,) = path.rglob("*.log")
        with pytest.raises(errors.ClosedError):
            Replay(stop=control.flag).apply(log)
        control.renew()
        (partition,) = store._core.attached()
        report = cleaner.replay_cleaned(partition, Replay(), now_ms=0, control=control.clean)
        assert report["stopped"]


@pytest.mark.parametrize("name", ["snapshot", "verify"])
def test_an_interrupt_stops_what_is_in_c(path, monkeypatch, name):
    # The native calls take the control, so that running C code notices; here it stands for any of them.
    stopped = []

    def endless(*given, **named) -> None:
        control = next(each for each in (*given, *named.values()) if isinstance(each, Control))
        while not control.stopped:
            time.sleep(0.01)
        stopped.append(name)
        raise errors.ClosedError("it was stopped")

    target = {
        "snapshot": "offsetlog.maintenance.cleaning.LogCleaner.snapshot",
        "verify": "offsetlog.verify.store.verify_store",
    }
    monkeypatch.setattr(target[name], endless)
    with offsetlog.open(path, 1, "process", maintenance=MaintenanceConfig(enabled=False)) as store:
        store.commit_one("g", "t", 0, 0)
        assert interrupted(getattr(store, name)) < 1
    assert stopped == [name]


def test_close_does_not_wait_for_a_verify_beside_it(path, monkeypatch):
    config = StoreConfig(segment_bytes=1 << 20)
    store = offsetlog.open(path, 1, "process", config=config, maintenance=MaintenanceConfig(enabled=False))
    for number in range(20_000):
        store.commit_one("g", "t", number % 5, number)
    ended = []

    def verify_for_ever() -> None:
        try:
            while True:
                store.verify()
        except errors.ClosedError as failure:
            ended.append(failure)

    thread = threading.Thread(target=verify_for_ever)
    thread.start()
    time.sleep(0.1)
    begun = time.monotonic()
    store.close()
    assert time.monotonic() - begun < 2
    thread.join()
    assert len(ended) == 1
