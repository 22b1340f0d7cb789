"""Small snapshots of several logs are written side by side, large ones one at a time."""

from __future__ import annotations

import gc
import logging
import queue
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import offsetlog.directory.snapshots as snapshot_files
from offsetlog import MaintenanceConfig
from offsetlog.cancellation import Control
from offsetlog.errors import ClosedError, StorageError
from offsetlog.maintenance import cleaning, snapshot_round
from offsetlog.maintenance.cleaning import SNAPSHOTS_AT_ONCE
from offsetlog.maintenance.turns import Turns

from .test_maintenance import BY_HAND, feed, opened, until

PARTITIONS = 8
DUE = MaintenanceConfig(enabled=False, snapshot_tail_bytes=4096)


class Writes:
    """Stands in for the writing of snapshots, counts who is at it, and holds the first ones up until `together` are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, together: int = 1) -> None:
        self.most = 0
        self.of: Counter[int] = Counter()
        self._under_way = 0
        self._changed = threading.Condition()
        self._together = together
        self._write = snapshot_files.write
        monkeypatch.setattr(snapshot_files, "write", self)

    def __call__(self, partition, *given, **named):
        with self._changed:
            self._under_way += 1
            self.of[partition.number] += 1
            self.most = max(self.most, self._under_way)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self.most >= self._together, 60)
        try:
            return self._write(partition, *given, **named)
        finally:
            with self._changed:
                self._under_way -= 1


def fill(store) -> None:
    for number in range(40):
        feed(store, 200, group=f"group-{number}")


def renew(store) -> None:
    store.maintenance.renew_snapshots(store._core.attached())


def test_small_snapshots_are_written_side_by_side(path, monkeypatch):
    writes = Writes(monkeypatch, together=SNAPSHOTS_AT_ONCE)
    with opened(path, DUE, partitions=PARTITIONS) as store:
        fill(store)
        renew(store)
        assert not store.maintenance.status().failures
        assert writes.most == SNAPSHOTS_AT_ONCE
        assert writes.of == dict.fromkeys(range(PARTITIONS), 1)
        digest = store.digest()
    with opened(path, BY_HAND, partitions=PARTITIONS) as store:
        assert all(each.recovery["snapshot"] is not None for each in store._core.attached())
        assert store.digest() == digest


def test_large_snapshots_are_written_one_at_a_time(path, monkeypatch):
    for module in (cleaning, snapshot_round):
        monkeypatch.setattr(module, "SMALL_SNAPSHOT_BYTES_MAX", 1)
    writes = Writes(monkeypatch)
    with opened(path, DUE, partitions=PARTITIONS) as store:
        fill(store)
        with ThreadPoolExecutor(4) as pool:  # as callers beside each other, and beside the store's own thread
            for job in [pool.submit(renew, store), *(pool.submit(store.snapshot) for _ in range(3))]:
                job.result()
        assert writes.most == 1
        assert set(writes.of) == set(range(PARTITIONS))


def test_a_snapshot_that_fails_keeps_no_other_from_being_written(path, monkeypatch):
    writes = Writes(monkeypatch)
    write = snapshot_files.write

    def fail(partition, *given, **named):
        if partition.number % 2:
            raise StorageError("the disk is full", path=partition.path)
        return write(partition, *given, **named)

    monkeypatch.setattr(snapshot_files, "write", fail)
    with opened(path, DUE, partitions=PARTITIONS) as store:
        fill(store)
        renew(store)
        assert set(store.maintenance.status().failures) == set(range(1, PARTITIONS, 2))
        assert writes.of == dict.fromkeys(range(0, PARTITIONS, 2), 1)


def test_a_close_ends_all_that_are_under_way(path, monkeypatch):
    begun = []

    def endless(partition, directory, *, stop, **named):
        begun.append(partition.number)
        while not stop.is_set():
            pass
        raise ClosedError("it was stopped")

    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=1 << 30, snapshot_tail_bytes=4096)
    with opened(path, BY_HAND, partitions=PARTITIONS) as store:
        fill(store)
    monkeypatch.setattr(snapshot_files, "write", endless)
    store = opened(path, config, partitions=PARTITIONS)
    until(lambda: len(begun) == SNAPSHOTS_AT_ONCE)
    assert store.memory()["snapshot"] > 0
    store.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("offsetlog-snapshot")]
    assert len(begun) == SNAPSHOTS_AT_ONCE


@pytest.mark.parametrize("name", ["offsetlog-snapshots", "offsetlog-snapshot-writer"])
@pytest.mark.filterwarnings("ignore:the store in .* was not closed:ResourceWarning")
def test_a_store_that_ends_on_one_of_its_own_threads_is_closed(path, monkeypatch, name):
    with opened(path, BY_HAND, partitions=PARTITIONS) as store:
        fill(store)
    ready, collected = threading.Event(), threading.Event()
    write = snapshot_files.write

    def collecting(*given, **named):
        if threading.current_thread().name == name and not collected.is_set():
            assert ready.wait(60)
            collected.set()
            gc.collect()    # as any allocation of this thread may
        return write(*given, **named)

    monkeypatch.setattr(snapshot_files, "write", collecting)
    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=1 << 30, snapshot_tail_bytes=4096)
    gc.disable()
    try:
        cycle = [opened(path, config, partitions=PARTITIONS)]
        cycle.append(cycle)
        del cycle, store
        ready.set()
        assert collected.wait(60)
    finally:
        gc.enable()
    until(lambda: not [each for each in threading.enumerate() if each.name.startswith("offsetlog-")], 60)
    with opened(path, BY_HAND, partitions=PARTITIONS) as store:
        assert len(store.groups()) == 40


def test_a_stop_of_turns_waits_for_no_lock():
    """An interrupt of its caller could leave it held."""
    turns = Turns()
    with turns._changed:
        stopping = threading.Thread(target=turns.stop)
        stopping.start()
        stopping.join(60)
        assert not stopping.is_alive()
    with pytest.raises(ClosedError), turns.of(1, Control()):
        pass
    assert not turns.is_taken


def test_turns_on_one_log_come_one_after_the_other():
    turns, order = Turns(at_once=4), []

    def take(number: int, name: str, held: threading.Event) -> None:
        with turns.of(number, Control()):
            order.append(name)
            assert held.wait(60)

    first, others = threading.Event(), threading.Event()
    others.set()
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(take, 1, "first", first)]
        until(lambda: turns.is_at(1))
        jobs.append(pool.submit(take, 1, "second", others))
        jobs.append(pool.submit(take, 2, "another log", others))
        until(lambda: "another log" in order)
        assert order == ["first", "another log"]
        first.set()
        for job in jobs:
            job.result()
    assert order == ["first", "another log", "second"]
    assert not turns.is_taken


@pytest.mark.parametrize("name", ["offsetlog-snapshots", "offsetlog-snapshot-writer"])
def test_a_handler_of_log_records_may_close_the_store(path, monkeypatch, name):
    """It runs on the thread that reports: one of the store's own."""
    with opened(path, BY_HAND, partitions=PARTITIONS) as store:
        fill(store)

    def fail(partition, *given, **named):
        raise StorageError("the disk is full", path=partition.path)

    outcome: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    class Closer(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if threading.current_thread().name == name and ready.wait(60):
                try:
                    store.close()
                except BaseException as failure:
                    outcome.put(failure)
                else:
                    outcome.put(None)

    ready, handler, logger = threading.Event(), Closer(), logging.getLogger("offsetlog")
    monkeypatch.setattr(snapshot_files, "write", fail)
    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=1 << 30, snapshot_tail_bytes=4096)
    logger.addHandler(handler)
    try:
        store = opened(path, config, partitions=PARTITIONS)
        ready.set()
        assert outcome.get(timeout=60) is None
    finally:
        logger.removeHandler(handler)
    until(lambda: not [each for each in threading.enumerate() if each.name.startswith("offsetlog-")], 60)


def test_a_writer_is_started_without_a_lock(path, monkeypatch):
    """A start waits for the thread; the garbage that is collected meanwhile may hold what needs the round."""
    deciding, held = [], []
    round_of = snapshot_round.SnapshotRound.__init__

    def remember(self, *given):
        round_of(self, *given)
        deciding.append(self._deciding)

    class Watched(snapshot_round.MaintenanceThread):
        def start(self) -> None:
            held.append(deciding[-1].locked())
            super().start()

    monkeypatch.setattr(snapshot_round.SnapshotRound, "__init__", remember)
    monkeypatch.setattr(snapshot_round, "MaintenanceThread", Watched)
    with opened(path, DUE, partitions=PARTITIONS) as store:
        fill(store)
        renew(store)
    assert held
    assert not any(held)
