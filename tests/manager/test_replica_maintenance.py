"""Maintenance of replicas that do not lead: cleaned and snapshotted as leaders are, and never expired."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from depth import by_depth, first_seed
from faults import FaultFileSystem

from offsetlog.config import MaintenanceConfig
from offsetlog.directory.log_directory import CLEANER_POINTS, TOPIC
from offsetlog.directory.snapshots import FILE_NAME
from offsetlog.errors import OffsetLogError
from offsetlog.manager.log_manager import LogManager
from offsetlog.verify import verify

from .replicas import KEYS, Later, copy, digest_of, look_after, partition_of, start

GROUPS = [f"group-{number}" for number in range(6)]
EXPIRING = MaintenanceConfig(enabled=False, min_cleanable_bytes=0, retention_ms=1)


def feed(leader: LogManager, draw: random.Random, count: int) -> None:
    for number in range(count):
        leader.commit(draw.choice(GROUPS), dict.fromkeys(draw.sample(KEYS, 3), number))
        if number % 40 == 20:
            leader.delete(draw.choice(GROUPS), draw.sample(KEYS, 5))


def lead(path: Path, epoch: int = 1) -> LogManager:
    executor = Later()
    leader = start(path, executor)
    leader.become_leader(0, epoch)
    executor.run()
    return leader


def follow(path: Path, *, warm: bool, epoch: int = 1, **more) -> tuple[LogManager, Later]:
    executor = Later()
    follower = start(path, executor, warm_followers=warm, **more)
    follower.become_follower(0, epoch)
    executor.run()
    return follower, executor


def size_of(manager: LogManager) -> int:
    return partition_of(manager).log_facts()["size_bytes"]


def settle(leader: LogManager, *others: LogManager, epoch: int = 1) -> int:
    """Has all replicas catch up, and moves W to the end on each."""
    for other in others:
        copy(leader, other, epoch)
    end = leader.positions(0).log_end
    for each in (leader, *others):
        each.flush(0)
        each.advance(0, epoch, end)
    return end


@pytest.fixture
def leader(tmp_path):
    manager = lead(tmp_path / "leader")
    yield manager
    manager.stop()


def warm_twin(leader: LogManager, path: Path) -> tuple[int, ...]:
    """The digest of a replica that nobody cleans."""
    twin, _ = follow(path, warm=True)
    settle(leader, twin)
    found = digest_of(twin)
    twin.stop()
    return found


@pytest.mark.parametrize("warm", [True, False])
def test_a_follower_is_cleaned_and_snapshotted(tmp_path, leader, warm):
    feed(leader, random.Random(5), 600)
    follower, _ = follow(tmp_path / "follower", warm=warm)
    assert follower.positions(0).log_end == 0
    end = settle(leader, follower)
    if not warm:
        # It was made loaded, with its first batch; cold is how the next process finds it.
        follower.stop()
        follower, _ = follow(tmp_path / "follower", warm=False)
        follower.advance(0, 1, end)
        assert partition_of(follower).role == "unloaded"
    whole = size_of(follower)
    for _ in range(3):
        look_after(follower)
    assert size_of(follower) < whole / 4
    assert (tmp_path / "follower" / f"{TOPIC}-0" / FILE_NAME).exists()
    status = follower._maintenance.status()
    assert status.failures == {}
    assert status.counters["snapshots"] > 0
    assert status.reports[0].superseded > 100
    expected = warm_twin(leader, tmp_path / "twin")
    follower.stop()
    follower, _ = follow(tmp_path / "follower", warm=True)
    assert partition_of(follower).recovery["snapshot"] is not None
    assert partition_of(follower).recovery["snapshot_discarded"] is None
    assert digest_of(follower) == expected
    follower.stop()


@pytest.mark.parametrize("warm", [True, False])
def test_a_follower_cleans_nothing_at_or_above_the_watermark(tmp_path, leader, warm):
    draw = random.Random(6)
    feed(leader, draw, 200)
    watermark = leader.positions(0).log_end
    feed(leader, draw, 400)
    follower, _ = follow(tmp_path / "follower", warm=warm)
    copy(leader, follower, 1)
    follower.advance(0, 1, watermark)
    for _ in range(3):
        look_after(follower)
    reached = follower._maintenance.status().reports[0].checkpoint
    assert 0 < reached <= watermark
    # Everything at and above W is as the leader wrote it.
    assert following(follower, watermark) == following(leader, watermark)
    follower.stop()


def following(manager: LogManager, offset: int) -> bytes:
    """The bytes of the log from an offset on."""
    found, end = b"", manager.positions(0).log_end
    while offset < end:
        buffer = bytearray(1 << 20)
        read = manager.read_into(0, offset, buffer, uncommitted=True)
        found += buffer[:read]
        at = 0
        while at < read:
            size = 12 + int.from_bytes(buffer[at + 8 : at + 12], "big")
            offset = int.from_bytes(buffer[at : at + 8], "big") + 1
            offset += int.from_bytes(buffer[at + 23 : at + 27], "big")
            at += size
    return found


def test_a_replica_that_resigned_is_looked_after(tmp_path):
    leader = lead(tmp_path)
    feed(leader, random.Random(7), 400)
    leader.advance(0, 1, leader.positions(0).log_end)
    leader.resign(0, 1)
    whole = size_of(leader)
    for _ in range(3):
        look_after(leader)
    assert size_of(leader) < whole / 4
    leader.stop()


def test_a_follower_never_expires_anything(tmp_path):
    executor = Later()
    leader = start(tmp_path / "leader", executor, maintenance=EXPIRING)
    leader.become_leader(0, 1)
    leader.commit("g", {KEYS[0]: 7})
    follower, _ = follow(tmp_path / "follower", warm=True, maintenance=EXPIRING)
    end = settle(leader, follower)
    # Past the retention by the clock of both, since the commit was made an age ago.
    for each in (leader, follower):
        each._maintenance._expirer.guard.check = lambda *_, **__: 2**42
    look_after(follower)
    assert follower.positions(0).log_end == end
    counters = follower._maintenance.status().counters
    assert counters["expiry_checks"] == 1
    assert counters.get("positions_expired", 0) == 0
    look_after(leader)
    assert leader._maintenance.status().counters["positions_expired"] == 1
    follower.stop()
    leader.stop()


def test_the_next_open_after_a_kill_uses_the_last_snapshot(tmp_path, leader):
    """The checkpoint of W that a minute wrote, or the last stop, is far below."""
    feed(leader, random.Random(15), 200)
    follower, _ = follow(tmp_path / "follower", warm=True)
    end = settle(leader, follower)
    expected = digest_of(follower)
    [report] = follower._maintenance.snapshot([0])
    assert report.offset == end
    follower.abandon()
    follower, _ = follow(tmp_path / "follower", warm=True)
    assert partition_of(follower).recovery["snapshot_discarded"] is None
    assert partition_of(follower).recovery["snapshot"] == end
    assert digest_of(follower) == expected
    follower.stop()


def test_a_lone_leader_that_was_killed_loads_from_its_last_snapshot(tmp_path):
    def lone() -> LogManager:
        executor = Later()
        manager = start(tmp_path / "data", executor, replication_factor=1)
        manager.become_leader(0, 1 + manager.leader_epoch(0))
        executor.run()
        return manager

    manager = lone()
    feed(manager, random.Random(16), 200)
    [report] = manager._maintenance.snapshot([0])
    manager.commit("after", {KEYS[0]: 7})
    manager.abandon()
    manager = lone()
    assert partition_of(manager).recovery["snapshot_discarded"] is None
    assert partition_of(manager).recovery["snapshot"] == report.offset > 0
    assert manager.fetch("after")[KEYS[0]].offset == 7
    manager.stop()


def test_a_kill_at_any_operation_of_a_snapshot_leaves_one_that_is_used(scratch):
    source, root = scratch / "source", scratch / "run"
    executor = Later()
    manager = start(source / "data", executor, replication_factor=1)
    manager.become_leader(0, 1)
    executor.run()
    feed(manager, random.Random(17), 100)
    [before] = manager._maintenance.snapshot([0])
    feed(manager, random.Random(18), 100)
    manager.stop()
    found = set()
    for stop_at in itertools.count(1):
        shutil.copytree(source, root)
        fs = FaultFileSystem(root)
        executor = Later()
        manager = start(root / "data", executor, replication_factor=1, fs=fs)
        manager.become_leader(0, 2)
        executor.run()
        manager.commit("more", {KEYS[0]: 1})
        begun = fs.operations
        fs.stop_at(begun + stop_at)
        with contextlib.suppress(OffsetLogError):
            manager._maintenance.snapshot([0])
        manager.abandon()
        disk = scratch / "disk"
        disk.mkdir()
        fs.materialize(disk, 0)
        executor = Later()
        manager = start(disk / "data", executor, replication_factor=1)
        manager.become_leader(0, 3)
        executor.run()
        recovery = partition_of(manager).recovery
        assert recovery["snapshot_discarded"] is None, f"stopped at operation {stop_at}"
        found.add(recovery["snapshot"])
        manager.stop()
        shutil.rmtree(disk)
        shutil.rmtree(root)
        if not fs.stopped:
            break
    # The one before, until the new one has its place.
    assert before.offset == min(found) < max(found)
    assert stop_at > 5


# ------------------------------------------------------------------------------------------ truncations


def test_a_snapshot_above_a_truncation_is_never_used(tmp_path, leader):
    draw = random.Random(8)
    feed(leader, draw, 100)
    kept = leader.positions(0).log_end
    feed(leader, draw, 300)
    follower, executor = follow(tmp_path / "follower", warm=True)
    settle(leader, follower)
    snapshot = tmp_path / "follower" / f"{TOPIC}-0" / FILE_NAME
    [report] = follower._maintenance.snapshot([0])
    assert report.written
    assert report.offset > kept
    old = snapshot.read_bytes()
    # An election that was not clean: the new leader never had what follows.
    follower.become_follower(0, 2)
    executor.run()
    follower.truncate_to(0, 2, kept)
    assert not snapshot.exists()
    executor.run()
    replacement, _ = follow(tmp_path / "replacement", warm=True)
    copy(leader, replacement, 1, up_to=kept)
    replacement.truncate_to(0, 1, kept)
    replacement.become_leader(0, 2)
    replacement.advance(0, 2, kept)
    feed(replacement, random.Random(9), 300)
    end = settle(replacement, follower, epoch=2)
    expected = digest_of(replacement)
    assert digest_of(follower) == expected
    follower.stop()
    # Also one that comes back, as from a copy of the directory, is recognised.
    for put_back in (False, True):
        if put_back:
            snapshot.write_bytes(old)
        follower, executor = follow(tmp_path / "follower", warm=True, epoch=2)
        if put_back:
            assert partition_of(follower).recovery["snapshot"] is None
            assert partition_of(follower).recovery["snapshot_discarded"] is not None
        follower.advance(0, 2, end)
        assert digest_of(follower) == expected
        follower.stop()
    replacement.stop()


def test_a_truncation_lowers_the_cleaners_checkpoint(tmp_path, leader):
    feed(leader, random.Random(10), 400)
    follower, executor = follow(tmp_path / "follower", warm=True)
    end = settle(leader, follower)
    for _ in range(3):
        look_after(follower)
    directory = follower.directory
    assert directory.read_checkpoint(CLEANER_POINTS)[TOPIC, 0] > end // 2
    follower.become_follower(0, 2)
    follower.truncate_to(0, 2, end // 2)
    executor.run()
    cut_to = follower.positions(0).log_end
    assert 0 < cut_to <= end // 2
    assert directory.read_checkpoint(CLEANER_POINTS)[TOPIC, 0] == cut_to
    follower.stop()
    follower, executor = follow(tmp_path / "follower", warm=True, epoch=3)
    facts = follower._maintenance._cleaner.inspect(partition_of(follower))
    assert facts.checkpoint == cut_to
    follower.stop()


def test_a_run_that_was_overtaken_by_a_truncation_records_nothing_above_it(tmp_path, leader, monkeypatch):
    feed(leader, random.Random(11), 400)
    follower, _ = follow(tmp_path / "follower", warm=True)
    end = settle(leader, follower)
    from offsetlog._native import cleaner

    clean = cleaner.clean

    def cut_after(*given, **more):
        found = clean(*given, **more)
        follower.truncate_to(0, 1, end // 2)
        return found

    monkeypatch.setattr(cleaner, "clean", cut_after)
    look_after(follower)
    found = follower.directory.read_checkpoint(CLEANER_POINTS)[TOPIC, 0]
    assert found <= follower.positions(0).log_end <= end // 2
    follower.stop()


# ---------------------------------------------------------------------------------------------- crashes

#: The stopped replica: a follower with a table, one without, and one whose leader never had what it has.
KINDS = ("warm", "cold", "unclean")

Digests = dict[int, tuple[int, ...]]


def work(path: Path, fs: FaultFileSystem, kind: str, kept: int) -> None:
    """A follower starts, is looked after, is cut, and is looked after again."""
    follower, executor = follow(path, warm=kind != "cold", fs=fs, epoch=2)
    try:
        if kind == "unclean":
            # Cleaned it would lose what the records that are cut superseded.
            follower.advance(0, 2, follower.positions(0).log_end)
            follower._maintenance.snapshot([0])
        else:
            follower.advance(0, 2, kept)
            look_after_twice(follower)
        follower.truncate_to(0, 2, kept)
        executor.run()
        look_after_twice(follower)
        follower.stop()
    finally:
        follower.abandon()


def look_after_twice(follower: LogManager) -> None:
    for _ in range(2):
        look_after(follower)
        failures = follower._maintenance.status().failures
        if failures:
            raise failures[0]


def check(path: Path, expected: Digests, *, warm: bool) -> None:
    """Flushed records are there by every way to read them, and the log goes on."""
    assert verify(path).problems == []
    follower, executor = follow(path, warm=warm, epoch=3)
    end = follower.positions(0).log_end
    follower.advance(0, 3, min(expected))
    look_after_twice(follower)
    follower.become_leader(0, 4)
    executor.run()
    follower.advance(0, 4, end)
    executor.run()
    assert digest_of(follower) == expected[end]
    follower.stop()


@pytest.fixture(scope="module")
def fed(tmp_path_factory) -> tuple[Path, int, Digests]:
    """A follower's directory, an offset at which it may be cut, and what it holds then and before."""
    root = tmp_path_factory.mktemp("fed")
    leader = lead(root / "leader")
    feed(leader, random.Random(12), 280)
    kept = leader.positions(0).log_end
    expected = {kept: digest_up_to(leader, root / "kept", kept)}
    feed(leader, random.Random(13), 20)
    end = leader.positions(0).log_end
    expected[end] = digest_up_to(leader, root / "whole", end)
    follower, _ = follow(root / "fed" / "data", warm=True)
    copy(leader, follower, 1)
    follower.flush(0)
    follower.advance(0, 1, kept)
    follower.stop()
    leader.stop()
    return root / "fed", kept, expected


def digest_up_to(leader: LogManager, path: Path, end: int) -> tuple[int, ...]:
    twin, _ = follow(path, warm=True)
    copy(leader, twin, 1)
    twin.advance(0, 1, end)
    found = digest_of(twin)
    twin.stop()
    return found


@pytest.fixture
def scratch(tmp_path) -> Iterator[Path]:
    """A directory in memory, where there is one: every stop is flushed many times over."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="offsetlog-crash-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_a_follower_that_stops_at_any_operation_of_its_maintenance(scratch, fed, kind):
    source, kept, expected = fed
    seed = first_seed()
    print(f"OL_SEED={seed}")
    draw = random.Random(seed)
    shutil.copytree(source, scratch / "whole")
    fs = FaultFileSystem(scratch / "whole")
    work(scratch / "whole" / "data", fs, kind, kept)
    assert fs.operations > 60, "it is all of the work"
    points = range(1, fs.operations + 1)
    count = min(by_depth(gate=25, long=fs.operations), fs.operations)
    for stop_at in sorted(draw.sample(points, count)):
        if stop_at % 10 == 0:
            gc.collect()    # the file systems of former runs, which keep their files open
        root, disk = scratch / "run", scratch / "disk"
        shutil.copytree(source, root)
        fs = FaultFileSystem(root)
        fs.stop_at(stop_at)
        with pytest.raises(OffsetLogError):
            work(root / "data", fs, kind, kept)
        assert fs.stopped
        disk.mkdir()
        kept_pages = draw.getrandbits(20)
        fs.materialize(disk, kept_pages)
        try:
            check(disk / "data", expected, warm=draw.random() < 0.5)
        except BaseException:
            print(f"stopped at operation {stop_at}, draw {kept_pages}")
            raise
        shutil.rmtree(root)
        shutil.rmtree(disk)


def test_a_stop_leaves_a_snapshot_where_one_is_due(tmp_path, leader):
    feed(leader, random.Random(14), 200)
    given = MaintenanceConfig(snapshot_tail_bytes=4096)
    follower, _ = follow(tmp_path / "follower", warm=True, maintenance=given)
    end = settle(leader, follower)
    expected = digest_of(follower)
    follower.stop()
    follower, _ = follow(tmp_path / "follower", warm=True)
    assert partition_of(follower).recovery["snapshot"] == end
    assert digest_of(follower) == expected
    follower.stop()
