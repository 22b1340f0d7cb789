"""The store as a whole on a machine that stops: at each file operation, with unflushed pages kept or lost.

The engine's own crash tests are in tests/c; here lock, marker, checkpoints and properties take part too.
"""

from __future__ import annotations

import errno
import random
import shutil
from dataclasses import replace

import pytest
from depth import by_depth, first_seed
from faults import FaultFileSystem

from offsetlog import OffsetStore, StoreConfig, TopicPartition, errors, opening

CONFIG = StoreConfig(segment_bytes=16 * 1024, batch_bytes_max=4096, extend_bytes_min=4096, extend_bytes_max=16 * 1024)
STOPS = by_depth(gate=25, long=1_000_000)
SEED = first_seed()
KEYS = [TopicPartition("t", number) for number in range(120)]


#: Segments that are extended often and never rolled.
LONG_SEGMENTS = StoreConfig(extend_bytes_min=4096, extend_bytes_max=4096)


def open_store(path, fs=None, config=CONFIG) -> OffsetStore:
    return opening.open_with(path, partitions=2, durability="process", config=config, fs=fs, background=False)


def workload(path, fs, acknowledged, config=CONFIG) -> None:
    """Commits, an oversize commit, a delete, a transaction, and a reopen; notes what was acknowledged as "disk"."""
    store = open_store(path, fs, config)
    try:
        for number in range(12):
            store.commit(
                "g", {KEYS[number % 3]: number, KEYS[3]: number}, durability="disk" if number % 4 == 3 else None
            )
            if number % 4 == 3:
                acknowledged["small"] = number
        store.commit("h", dict.fromkeys(KEYS, 7), durability="disk")
        acknowledged["large"] = 7
        store.delete("g", [KEYS[0]], durability="disk")
        acknowledged["deleted"] = True
        with store.transaction("x", 9, durability="disk") as transaction:
            transaction.commit({KEYS[0]: 1, KEYS[1]: 2})
        acknowledged["transaction"] = True
        store.close()
        acknowledged["closed"] = True
        store = open_store(path, fs, config)
        store.commit_one("y", "t", 0, 1, durability="disk")
        acknowledged["reopened"] = True
        store.close()
    finally:
        # The machine is gone: nothing can be closed cleanly any more.
        if not store.closed:
            with pytest.raises(errors.OffsetLogError):
                store.close()


def check(path, acknowledged) -> None:
    with open_store(path) as store:
        assert store.problems() == []
        assert store.verify() == []
        found = {group: {key.partition: value.offset for key, value in store.fetch(group).items()} for group in "ghxy"}
        if "small" in acknowledged:
            assert found["g"][3] >= acknowledged["small"]
        if 3 in found["g"]:
            # Two positions of one commit are there together.
            assert found["g"][3] in found["g"].values()
        assert len(found["h"]) in (0, len(KEYS))
        assert found["x"] in ({}, {0: 1, 1: 2})
        if "large" in acknowledged:
            assert len(found["h"]) == len(KEYS)
        if "deleted" in acknowledged:
            assert 0 not in found["g"]
        if "transaction" in acknowledged:
            assert found["x"] == {0: 1, 1: 2}
        if "reopened" in acknowledged:
            assert found["y"] == {0: 1}
        for producer, *_ in (entry for number in range(2) for entry in transactions(store, number)):
            store.abort_transaction(producer)
        store.commit_one("after", "t", 0, 5, durability="disk")
    with open_store(path) as store:
        assert store.fetch_one("after", "t", 0).offset == 5


def transactions(store, number):
    partition = store._open_core.partition(number)
    return [] if partition is None else partition.transactions()


def run(root, stop_at):
    root.mkdir()
    fs = FaultFileSystem(root)
    fs.stop_at(stop_at)
    acknowledged = {}
    config = replace(CONFIG, append="written" if stop_at % 2 else "mapped")
    try:
        workload(root / "data", fs, acknowledged, config)
    except errors.OffsetLogError:
        assert fs.stopped
    return fs, acknowledged


def operations(tmp_path) -> int:
    fs, acknowledged = run(tmp_path / "whole", 0)
    assert acknowledged["reopened"]
    return fs.operations


def test_stopped_at_sampled_operations(tmp_path):
    total = operations(tmp_path)
    draw = random.Random(SEED)
    for stop_at in sorted(draw.sample(range(1, total + 1), min(total, STOPS))):
        fs, acknowledged = run(tmp_path / "run", stop_at)
        for seed in range(by_depth(gate=2, long=6)):
            disk = tmp_path / "disk"
            disk.mkdir()
            fs.materialize(disk, seed)
            check(disk / "data", acknowledged)
            shutil.rmtree(disk)
        del fs
        shutil.rmtree(tmp_path / "run")


def test_a_killed_process_loses_nothing_it_committed(tmp_path):
    total = operations(tmp_path)
    draw = random.Random(SEED + 1)
    for stop_at in sorted(draw.sample(range(1, total + 1), min(total, STOPS))):
        fs, acknowledged = run(tmp_path / "run", stop_at)
        disk = tmp_path / "disk"
        disk.mkdir()
        fs.materialize_all(disk)
        check(disk / "data", acknowledged)
        shutil.rmtree(disk)
        del fs
        shutil.rmtree(tmp_path / "run")


def test_a_failed_flush_fails_the_partition_and_not_the_store(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    fs = FaultFileSystem(root)
    store = open_store(root / "data", fs)
    store.commit_one("testGroup", "t", 0, 1, durability="disk")
    fs.fail_flush(fs.flushes + 1, errno.EIO)
    with pytest.raises((errors.PartitionFailedError, errors.StorageError)):
        store.commit_one("testGroup", "t", 0, 2, durability="disk")
    for refused in (
        lambda: store.commit_one("testGroup", "t", 0, 3),
        lambda: store.fetch_one("testGroup", "t", 0),
        lambda: store.fetch("testGroup"),
    ):
        with pytest.raises(errors.PartitionFailedError):
            refused()
    with pytest.raises(errors.PartitionFailedError):
        store.close()
    assert not (root / "data" / ".kafka_cleanshutdown").exists()
    with open_store(root / "data", fs) as store:
        assert store.fetch_one("testGroup", "t", 0).offset in (1, 2)
        assert store.verify() == []


def commits_until_extended(store, fs):
    """Commits until one had to extend its segment, which takes an operation before the note of its store."""
    number = 0
    while True:
        before = fs.operations
        store.commit_one("g", "t", 0, number, "m" * 100)
        number += 1
        if fs.operations - before > 1:
            return number, before + 1


def test_a_disk_without_room_for_a_step_is_used_to_the_end(tmp_path):
    roots = [tmp_path / "dry", tmp_path / "full"]
    for root in roots:
        root.mkdir()
    fs = FaultFileSystem(roots[0])
    with open_store(roots[0] / "data", fs, LONG_SEGMENTS) as store:
        store.commit_one("g", "t", 0, 1)
        count, operation = commits_until_extended(store, fs)
    fs = FaultFileSystem(roots[1])
    with open_store(roots[1] / "data", fs, LONG_SEGMENTS) as store:
        store.commit_one("g", "t", 0, 1)
        fs.fail_at(operation, errno.ENOSPC)
        # The step fails, and what this one commit needs is taken instead.
        for number in range(count + 5):
            store.commit_one("g", "t", 0, number, "m" * 100)
        assert store.fetch_one("g", "t", 0).offset == count + 4
        assert store.verify() == []


def test_a_full_disk_makes_no_directory_and_is_reported(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    fs = FaultFileSystem(root)
    with open_store(root / "data", fs) as store:
        fs.fail_at(fs.operations + 1, errno.ENOSPC)
        with pytest.raises(errors.DiskFullError):
            store.commit_one("g", "t", 0, 1)
        assert store.groups() == []
        store.commit_one("g", "t", 0, 2)
        assert store.fetch_one("g", "t", 0).offset == 2
