"""Cleaning and snapshots on a machine that stops: at each file operation, with unflushed pages kept or lost.

Committed positions are there, deleted ones are not, pending ones are pending, whatever part of a cleaning or of a
snapshot was done; and both go on.  The cleaner's own crash tests are in tests/c; here checkpoints, the floor of the
history, producers and the next open take part too.

At the depth "long" (tests/depth.py) it is all of the stops, more than 2,000 with their draws; else a sample of them.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from depth import by_depth, first_seed
from faults import FaultFileSystem

from offsetlog import (
    Digest,
    MaintenanceConfig,
    OffsetAndMetadata,
    OffsetStore,
    StoreConfig,
    TopicPartition,
    errors,
    opening,
)
from offsetlog.directory.history_floor import FLOOR_FILE
from offsetlog.directory.log_directory import CLEANER_POINTS
from offsetlog.verify import verify

POINTS = by_depth(gate=160, long=1_000_000)
DRAWS = 4  # of what the disk kept; the last is that of a killed process, which loses nothing

CONFIG = StoreConfig(segment_bytes=8192, batch_bytes_max=2048, extend_bytes_min=4096, extend_bytes_max=8192)
MAINTENANCE = MaintenanceConfig(cleaner_map_bytes=4096, snapshot_tail_bytes=4096)
KEYS = [TopicPartition("t", number) for number in range(40)]
LATER = TopicPartition("later", 0)
#: The digest knows when something was committed, and the work is done many times.
NOON = 1_700_000_000_000


class State(NamedTuple):
    """The contents of a store, as far as cleaning may not change them."""

    digest: Digest
    pending: tuple[Any, ...]


def open_store(path: Path, fs: FaultFileSystem | None = None, **options: Any) -> OffsetStore:
    return opening.open_with(
        path, 2, "process", config=CONFIG, maintenance=MAINTENANCE, fs=fs, background=False, **options
    )


def state_of(store: OffsetStore) -> State:
    return State(store.digest(), tuple(sorted(store.transactions())))


def feed(store: OffsetStore, draw: random.Random) -> None:
    """Commits, deletes, and transactions of both ends; in the end one that stays open."""
    groups = [f"group-{number}" for number in range(6)]
    for number in range(400):
        store.commit(draw.choice(groups), dict.fromkeys(draw.sample(KEYS, 3), number))
        if number % 40 == 20:
            store.delete(draw.choice(groups), draw.sample(KEYS, 5))
        if number % 100 == 50:
            store.delete(draw.choice(groups))
        if number % 50 == 25:
            with store.transaction(draw.choice(groups), 1000 + number) as transaction:
                transaction.commit(dict.fromkeys(draw.sample(KEYS, 4), number))
                store.commit_one("between", "t", number % 7, number)
                if number % 100 == 75:
                    transaction.abort()
        if number == 200:
            store.snapshot()
            store.compact(delete_retention_ms=0)
    store.transaction("group-1", 77).commit(dict.fromkeys(KEYS[:3], 5))
    store.flush()


def work(path: Path, fs: FaultFileSystem, reached: dict[str, State]) -> None:
    """The work that is stopped: an open, a cleaning, a commit, a snapshot, a cleaning of everything, a close."""
    store = open_store(path, fs)
    try:
        reached["before"] = state_of(store)
        store.compact(delete_retention_ms=0)
        store.commit("group-2", {LATER: OffsetAndMetadata(1, commit_timestamp=NOON)}, durability="disk")
        reached["after"] = state_of(store)
        store.snapshot()
        store.compact(again=True, delete_retention_ms=0)
        store.close()
        reached["closed"] = reached["after"]
    finally:
        if not store.closed:
            with pytest.raises(errors.OffsetLogError):
                store.close()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Iterator[Path]:
    """A directory in memory, where there is one: every stop is flushed many times over."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path_factory.mktemp("scratch")
        return
    with tempfile.TemporaryDirectory(prefix="offsetlog-crash-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def fed(scratch) -> Path:
    root = scratch / "fed"
    root.mkdir()
    with open_store(root / "data") as store:
        feed(store, random.Random(4))
    return root


@pytest.fixture(scope="module")
def whole(fed, scratch) -> tuple[int, dict[str, State]]:
    """How many operations the work takes, and the states that it goes through."""
    fs, reached = run(fed, scratch / "whole", 0)
    assert set(reached) == {"before", "after", "closed"}
    return fs.operations, reached


def run(fed: Path, root: Path, stop_at: int) -> tuple[FaultFileSystem, dict[str, State]]:
    shutil.copytree(fed, root)
    fs = FaultFileSystem(root)
    fs.stop_at(stop_at)
    reached: dict[str, State] = {}
    try:
        work(root / "data", fs, reached)
    except errors.OffsetLogError:
        assert fs.stopped
    return fs, reached


def check(path: Path, reached: dict[str, State], states: dict[str, State]) -> None:
    expected = [states["after"]] if "after" in reached else [states["before"], states["after"]]
    # Before anybody recovers it, also within a swap of segments.
    unopened = verify(path)
    assert unopened.problems == []
    assert unopened.digest in [state.digest for state in expected]
    with open_store(path) as store:
        assert store.problems() == []
        assert store.verify() == []
        found = state_of(store)
        assert found in expected
        assert store.fetch("group-2").get(LATER) is None or found == states["after"]
        store.compact(again=True, delete_retention_ms=0)
        assert state_of(store) == found
        store.commit_one("after", "t", 0, 5, durability="disk")
        end = state_of(store)
    with open_store(path, read_only=True) as store:
        assert state_of(store) == end
    leftovers = {".cleaned", ".swap", ".deleted", ".tmp"}
    assert not [file for file in path.rglob("*") if file.suffix in leftovers]


def test_stopped_at_any_operation(fed, whole, scratch):
    operations, states = whole
    assert operations * DRAWS >= 2000, "there are as many points as were asked for"
    seed = first_seed()
    print(f"OL_SEED={seed}")
    draw = random.Random(seed)
    points = [(stop_at, kept) for stop_at in range(1, operations + 1) for kept in range(DRAWS)]
    chosen = sorted(draw.sample(points, min(POINTS, len(points))))
    stopped: tuple[int, FaultFileSystem, dict[str, State]] | None = None
    for stop_at, kept in chosen:
        if stopped is None or stopped[0] != stop_at:
            shutil.rmtree(scratch / "run", ignore_errors=True)
            stopped = (stop_at, *run(fed, scratch / "run", stop_at))
        _, fs, reached = stopped
        disk = scratch / "disk"
        disk.mkdir()
        if kept == DRAWS - 1:
            fs.materialize_all(disk)
        else:
            fs.materialize(disk, kept)
        try:
            check(disk / "data", reached, states)
        except BaseException:
            print(f"stopped at operation {stop_at} of {operations}, draw {kept}")
            raise
        shutil.rmtree(disk)


def test_the_work_is_all_of_it(fed, whole, scratch):
    # The canary: what is stopped above does clean, and write snapshots, checkpoints and the floor.
    _, states = whole
    root = scratch / "again"
    shutil.copytree(fed, root)
    with open_store(root / "data") as store:
        reports = store.compact(delete_retention_ms=0)
        assert all(report.superseded > 10 for report in reports)
        again = store.compact(again=True, delete_retention_ms=0)
        assert sum(report.tombstones_dropped for report in again) > 0
        assert state_of(store) == states["before"]
        assert states["before"].pending
        assert {found["snapshot"] is not None for found in store.recoveries().values()} == {True}
    assert (root / "data" / CLEANER_POINTS).exists()
    assert list((root / "data").rglob(FLOOR_FILE))


def test_the_producers_of_an_idle_log_outlast_a_close_and_the_loss_of_power(scratch):
    """A roll does not wait for the disk, and the snapshot that it stores may be the newest one at a close."""
    root = scratch / "idle"
    root.mkdir()
    fs = FaultFileSystem(root)
    store = open_store(root / "data", fs)
    with store.transaction("group", 7) as transaction:
        transaction.commit(dict.fromkeys(KEYS, 1))
    store.compact()
    store.close()
    for kept in range(20):
        disk = scratch / "disk"
        disk.mkdir()
        fs.materialize(disk, kept)
        found = verify(disk / "data")
        assert [each for each in found.findings if each.kind == "producer snapshot"] == []
        shutil.rmtree(disk)
