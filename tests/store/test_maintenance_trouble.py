"""Failures in maintenance: each kind of work of each log fails by itself, is reported, and ends nothing."""

import time
from collections.abc import Callable

import pytest

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, errors
from offsetlog.maintenance.cleaning import LogCleaner
from offsetlog.maintenance.retention import Expirer
from offsetlog.maintenance.scheduler import Maintenance

SMALL = StoreConfig(segment_bytes=16 << 10)
EAGER = {"interval_ms": 10, "min_cleanable_bytes": 0, "idle_roll_ms": 50}
EXPIRING = {"retention_ms": 10**9, "retention_check_interval_ms": 20}


def opened(path, **settings):
    return offsetlog.open(path, 1, "process", config=SMALL, maintenance=MaintenanceConfig(**{**EAGER, **settings}))


def feed(store, times: int = 2000) -> None:
    for number in range(times):
        store.commit_one("billing", "orders", number % 4, number)


def until(met: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def fail(*_, **__):
    raise errors.TooLargeError("a group is too large")


def test_an_expiry_that_fails_is_reported_and_keeps_nothing_from_being_cleaned(path, monkeypatch):
    monkeypatch.setattr(Expirer, "expire_one", fail)
    with opened(path, **EXPIRING) as store:
        feed(store)
        until(lambda: store.maintenance.status().counters.get("failed", 0) >= 3)
        cleaned = store.maintenance.status().counters.get("cleaned", 0)
        feed(store)
        until(lambda: store.maintenance.status().counters.get("cleaned", 0) > cleaned)
        for _ in range(20):
            assert isinstance(store.maintenance.status().failures[0], errors.TooLargeError)
            time.sleep(0.01)
        monkeypatch.undo()
        until(lambda: not store.maintenance.status().failures)


def test_a_cleaning_that_fails_keeps_nothing_from_expiring(path, monkeypatch):
    monkeypatch.setattr(LogCleaner, "clean", fail)
    with opened(path, **EXPIRING) as store:
        feed(store)
        until(lambda: store.maintenance.status().counters.get("failed", 0) >= 3)
        until(lambda: "it will be tried again later" in store.maintenance.status().plans[0].reason)
        store.commit("old", {("t", 0): offsetlog.OffsetAndMetadata(1, commit_timestamp=1)})
        until(lambda: store.maintenance.status().counters.get("positions_expired", 0) == 1)
        assert isinstance(store.maintenance.status().failures[0], errors.TooLargeError)


def test_a_clock_that_is_refused_is_reported(path, monkeypatch):
    def refuse(*_, **__):
        raise errors.ClockError("the clock goes wrong", now=1, newest=2)

    monkeypatch.setattr(Expirer, "now", refuse)
    with opened(path, **EXPIRING) as store:
        until(lambda: isinstance(store.maintenance.status().expiry_refused, errors.ClockError))
        assert store.maintenance.status().counters["expiry_checks_failed"] >= 1
        monkeypatch.undo()
        until(lambda: store.maintenance.status().expiry_refused is None)


@pytest.mark.parametrize("name", ["look_after", "expire"])
def test_nothing_ends_it(path, monkeypatch, caplog, name):
    with monkeypatch.context() as patch:
        patch.setattr(Maintenance, name, lambda self, partitions: 1 // 0)
        with opened(path, **EXPIRING) as store:
            until(lambda: store.maintenance.status().counters.get("failed", 0) >= 3)
            assert store.maintenance.status().running
            patch.undo()
            feed(store)
            until(lambda: store.maintenance.status().counters.get("cleaned", 0) > 0)
    logged = [record for record in caplog.records if "ZeroDivisionError" in record.getMessage()]
    assert len(logged) == 1, "what repeats is logged once in a while"
