"""Stores that answer while they load: `offsetlog.open(wait=False)`, `progress` and `wait_loaded`."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

import offsetlog
from offsetlog import OffsetStore, errors
from offsetlog.directory.log_directory import TOPIC
from offsetlog.lifecycle.partition_opener import PartitionOpener


@pytest.fixture
def gate(monkeypatch):
    """Holds every load until its log partition is let through; tells the order in which they began."""

    class Gate:
        def __init__(self) -> None:
            self.open = {number: threading.Event() for number in range(8)}
            self.begun: list[int] = []

        def all(self) -> None:
            for event in self.open.values():
                event.set()

    gate = Gate()
    load = PartitionOpener.load

    def held(opener, partition, threads):
        gate.begun.append(partition.number)
        assert gate.open[partition.number].wait(60)
        load(opener, partition, threads)

    monkeypatch.setattr(PartitionOpener, "load", held)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    yield gate
    gate.all()


def group_of(store: OffsetStore, number: int) -> str:
    return next(f"g{n}" for n in range(1000) if store._open_core.number_of(f"g{n}") == number)


@pytest.fixture
def eight(path) -> Path:
    with offsetlog.open(path, partitions=8) as store:
        for number in range(8):
            store.commit_one(group_of(store, number), "t", 0, number)
    return path


def waiting(target) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    time.sleep(0.05)
    return thread


def test_a_group_waits_for_its_own_log_partition(eight, gate):
    results: dict[str, object] = {}
    with offsetlog.open(eight, wait=False) as store:
        assert store.progress().ready == 0
        assert not store.progress().done
        assert repr(store).endswith("open>")
        assert not store.wait_loaded(0.01)
        groups = [group_of(store, number) for number in range(8)]
        fetch = waiting(lambda: results.update(fetched=store.fetch_one(groups[5], "t", 0)))
        commit = waiting(lambda: results.update(committed=store.commit_one(groups[6], "t", 1, 7)))
        assert results == {}
        gate.open[0].set()
        gate.open[6].set()
        commit.join(10)
        assert "committed" in results
        assert "fetched" not in results
        gate.open[5].set()
        fetch.join(10)
        assert results["fetched"].offset == 5
        # Awaited partitions came first, the last one that was asked for first of all.
        assert gate.begun[:3] == [0, 6, 5]
        assert store.progress().ready == 3
        every = waiting(lambda: results.update(groups=store.groups()))
        assert "groups" not in results
        gate.all()
        every.join(10)
        assert results["groups"] == sorted(groups)
        assert store.wait_loaded()
        assert store.progress() == (8, 8, 0, *store.progress()[3:])
        assert store.delete(groups[1]) == 1
        assert store.verify() == []


def test_whoever_waits_gets_an_error_when_the_store_is_closed(eight, gate):
    store = offsetlog.open(eight, wait=False)
    group = group_of(store, 4)
    refused: list[BaseException] = []

    def fetch() -> None:
        try:
            store.fetch_one(group, "t", 0)
        except BaseException as failure:
            refused.append(failure)

    thread = waiting(fetch)
    closing = waiting(store.close)
    thread.join(10)
    assert isinstance(refused[0], errors.ClosedError)
    gate.all()
    closing.join(10)
    assert store.closed
    # One was being loaded; the others never were, and all are as they were.
    assert len(gate.begun) == 1
    assert (eight / ".kafka_cleanshutdown").exists()
    with offsetlog.open(eight) as again:
        assert again.fetch_one(group, "t", 0).offset == 4


def test_one_that_cannot_be_loaded_says_so(eight, monkeypatch):
    load = PartitionOpener.load

    def failing(opener, partition, threads):
        if partition.number == 3:
            raise errors.CapacityError("no memory")
        load(opener, partition, threads)

    monkeypatch.setattr(PartitionOpener, "load", failing)
    with pytest.raises(errors.CapacityError):
        offsetlog.open(eight)
    store = offsetlog.open(eight, wait=False)
    with pytest.raises(errors.CapacityError):
        store.wait_loaded()
    assert store.progress().failed == 1
    assert store.progress().ready == 7
    assert store.fetch_one(group_of(store, 2), "t", 0).offset == 2
    with pytest.raises(errors.CapacityError):
        store.fetch_one(group_of(store, 3), "t", 0)
    with pytest.raises(errors.CapacityError):
        store.commit_one(group_of(store, 3), "t", 0, 1)
    with pytest.raises(errors.CapacityError):
        store.groups()
    store.close()


def test_damage_is_reported_when_loading_is_over(eight):
    [log] = (eight / f"{TOPIC}-2").glob("*.log")
    content = bytearray(log.read_bytes())
    content[70] ^= 0xFF
    log.write_bytes(content)
    store = offsetlog.open(eight, wait=False)
    with pytest.warns(errors.CorruptionWarning):
        assert store.wait_loaded()
    assert len(store.problems()) == 1
    store.close()


def test_a_read_only_store_answers_while_it_loads(eight, gate):
    with offsetlog.open(eight, read_only=True, wait=False) as store:
        group = group_of(store, 7)
        gate.open[0].set()
        gate.open[7].set()
        assert store.fetch_one(group, "t", 0).offset == 7
        assert store.fetch(group)
        gate.all()
        store.refresh()
        assert len(store.groups()) == 8


def test_a_child_of_a_store_that_loads(eight, gate):
    store = offsetlog.open(eight, wait=False)
    group = group_of(store, 0)
    while not gate.begun:
        time.sleep(0.01)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            store.fetch_one(group, "t", 0)
        except errors.ClosedError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    gate.all()
    assert store.fetch_one(group, "t", 0).offset == 0
    store.close()
