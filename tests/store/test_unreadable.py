"""Bytes that a disk cannot read or another program cut off: an error with its place, of one partition only."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from faults import FaultFileSystem

import offsetlog
from offsetlog import MaintenanceConfig, OffsetStore, StoreConfig, errors, opening
from offsetlog._native.snapshot import FILE_NAME
from offsetlog.lifecycle.accept_loss import find_losses, kind_of
from offsetlog.verify import verify

TOPIC = "__consumer_offsets"
PARTITIONS = 3
COMMITS = 2_000
SMALL = StoreConfig(segment_bytes=1 << 14, batch_bytes_max=1 << 13)
QUIET = MaintenanceConfig(enabled=False)


def group_in(store: OffsetStore, number: int) -> str:
    return next(name for name in map(str, range(100)) if store._core.number_of(name) == number)


@pytest.fixture
def disk(path) -> FaultFileSystem:
    """A store of three partitions with some segments each, closed cleanly, on a disk that can be spoiled."""
    path.mkdir()
    fs = FaultFileSystem(path)
    with open_store(path, fs) as store:
        for number in range(PARTITIONS):
            group = group_in(store, number)
            for offset in range(COMMITS):
                store.commit_one(group, "t", offset % 50, offset)
            store.flush()
    return fs


def open_store(path: Path, fs: FaultFileSystem, **options: object) -> OffsetStore:
    arguments = {"partitions": PARTITIONS, "config": SMALL, "maintenance": QUIET, "durability": "process", **options}
    return opening.open_with(path, fs=fs, background=False, **arguments)  # type: ignore[arg-type]


def segments(path: Path, number: int) -> list[Path]:
    return sorted((path / f"{TOPIC}-{number}").glob("*.log"))


def check_others(store: OffsetStore, broken: int) -> None:
    """The other partitions answer and take commits."""
    for number in range(PARTITIONS):
        if number == broken:
            continue
        group = group_in(store, number)
        if not store.read_only:
            store.commit_one(group, "t", 7, 5_000)
        assert store.fetch_one(group, "t", 7).offset == (COMMITS - 43 if store.read_only else 5_000)


def check_place(failure: errors.OffsetLogError, path: Path) -> None:
    assert type(failure) is errors.StorageError
    assert failure.path == str(path)
    assert failure.position is not None


@pytest.mark.parametrize("read_only", [False, True])
def test_a_bad_sector_makes_one_partition_read_only(disk, path, read_only):
    closed = segments(path, 1)[2]
    disk.spoil(closed, 4096, 8192)
    with pytest.warns(errors.CorruptionWarning, match="1 of 3 partitions"):
        store = open_store(path, disk, read_only=read_only)
    with store:
        [problem] = store.problems()
        check_place(problem, closed)
        assert problem.errno == errno.EIO
        assert problem.log_offset > int(closed.stem)
        group = group_in(store, 1)
        assert store.fetch_one(group, "t", 49).offset == COMMITS - 1
        with pytest.raises(errors.ReadOnlyError):
            store.commit_one(group, "t", 0, 1)
        check_others(store, 1)
    disk.spoil(closed, 0, 0)
    with open_store(path, disk) as store:
        assert store.problems() == []
        assert store.verify() == []


def spoil_tail(disk: FaultFileSystem, path: Path) -> Path:
    last = segments(path, 1)[-1]
    disk.spoil(last, 0, 1 << 30)
    return last


def spoil_epochs(disk: FaultFileSystem, path: Path) -> Path:
    found = path / f"{TOPIC}-1" / "leader-epoch-checkpoint"
    disk.spoil(found, 0, 1)
    return found


@pytest.mark.parametrize("spoil", [spoil_tail, spoil_epochs])
@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_partition_that_cannot_be_opened_leaves_the_others_to_their_callers(disk, path, spoil, wait, read_only):
    where = spoil(disk, path)
    kept = {file: file.read_bytes() for file in segments(path, 1)}
    if wait:
        with pytest.warns(errors.CorruptionWarning, match="1 of 3 partitions"):
            store = open_store(path, disk, read_only=read_only)
    else:
        store = open_store(path, disk, read_only=read_only, wait=False)
        with pytest.warns(errors.CorruptionWarning, match="1 of 3 partitions"):
            assert store.wait_loaded()
    check_others(store, 1)
    assert store.progress().failed == 1
    assert "1 of 3 partitions damaged" in repr(store)
    [problem] = store.problems()
    check_place(problem, where)
    group = group_in(store, 1)
    calls: list[Callable[[], object]] = [lambda: store.fetch_one(group, "t", 0), store.groups]
    if not read_only:
        calls.append(lambda: store.commit_one(group, "t", 0, 1))
    for call in calls:
        with pytest.raises(errors.StorageError) as caught:
            call()
        check_place(caught.value, where)
    if read_only:
        with pytest.raises(errors.StorageError):
            store.refresh()
        check_others(store, 1)
    store.close()
    assert {file: file.read_bytes() for file in segments(path, 1)} == kept
    if not read_only:
        assert not (path / ".kafka_cleanshutdown").exists()
    disk.spoil(where, 0, 0)
    with open_store(path, disk) as store:
        assert store.problems() == []
        assert store.fetch_one(group, "t", 49).offset == COMMITS - 1
        assert store.verify() == []
    assert (path / ".kafka_cleanshutdown").exists()


def test_a_refresh_serves_what_could_not_be_read_before(disk, path):
    where = spoil_epochs(disk, path)
    with pytest.warns(errors.CorruptionWarning):
        store = open_store(path, disk, read_only=True)
    with store:
        group = group_in(store, 1)
        disk.spoil(where, 0, 0)
        store.refresh()
        assert store.problems() == []
        assert store.fetch_one(group, "t", 49).offset == COMMITS - 1
        assert len(store.groups()) == PARTITIONS


def test_a_disk_that_fails_under_an_open_store_fails_the_call_and_nothing_else(disk, path):
    with open_store(path, disk) as store:
        group = group_in(store, 1)
        before = store.digest(physical=True)
        bad = segments(path, 1)[2]
        disk.spoil(bad, 5000, 5001)
        for call in (
            lambda: store.snapshot([1]),
            lambda: store.fetch(group, at=1_500),
            lambda: store.history(group, "t", 0),
        ):
            with pytest.raises(errors.StorageError) as caught:
                call()
            check_place(caught.value, bad)
        [report] = [each for each in store.compact() if each.log_partition == 1]
        assert [each.path for each in report.quarantine] == [str(bad)]
        found = store.verify()
        [problem] = found.findings
        assert (problem.kind, problem.log_partition, problem.path) == ("unreadable", 1, str(bad))
        assert problem.position is not None
        assert [each for each in found.ways if each.log_partition != 1]
        assert store.digest(physical=True) == before
        store.commit_one(group, "t", 0, 9_999)
        assert store.fetch_one(group, "t", 0).offset == 9_999
        check_others(store, 1)
        disk.spoil(bad, 0, 0)
        store.snapshot([1])
        assert store.verify() == []


@pytest.mark.parametrize("size", [0, 4096])
def test_a_file_cut_short_under_an_open_store(disk, path, size):
    store = open_store(path, disk)
    group = group_in(store, 1)
    bad = segments(path, 1)[2]
    full = bad.stat().st_size
    disk.shrink(bad, size)
    for call in (
        lambda: store.snapshot([1]),
        lambda: store.fetch(group, at=1_500),
        lambda: store.history(group, "t", 0),
    ):
        with pytest.raises(errors.StorageError) as caught:
            call()
        assert caught.value.message == f"the file is {size} bytes long, but its segment has {full} bytes"
        check_place(caught.value, bad)
    assert [each.path for report in store.compact() for each in report.quarantine] == [str(bad)]
    assert [each.log_partition for each in store.verify().findings] == [1]
    check_others(store, 1)
    store.close()
    if size == 0:
        return
    with pytest.warns(errors.CorruptionWarning):
        store = open_store(path, disk)
    with store:
        assert {each.path for each in store.problems()} == {str(bad)}
        check_others(store, 1)


CUT_WHILE_COMMITTING = """
import os, pathlib, sys, time
import offsetlog
from offsetlog import opening
path, append, size = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
config = offsetlog.StoreConfig(append=append)
# The thread that extends segments may meet the cut first; then the whole partition has failed.
store = opening.open_with(path, partitions=2, durability="process", config=config, background=False)
group, other = (next(name for name in map(str, range(100)) if store._core.number_of(name) == n) for n in (1, 0))
for offset in range(100):
    store.commit_one(group, "t", 0, offset)
store.flush()
[active] = (path / "__consumer_offsets-1").glob("*.log")
os.truncate(active, size)
time.sleep(0.01)
for offset in range(1000, 1200):
    try:
        store.commit_one(group, "t", 0, offset)
        sys.exit("a commit into a file that is cut")
    except offsetlog.errors.StorageError as failure:
        assert failure.path == str(active), failure
        assert failure.message.startswith(f"the file is {size} bytes long, but "), failure
    store.commit_one(other, "t", 0, offset)
try:
    with store.transaction(group, 7) as transaction:
        transaction.commit({offsetlog.TopicPartition("t", 0): 5})
    sys.exit("a transaction into a file that is cut")
except offsetlog.errors.StorageError as failure:
    assert failure.path == str(active), failure
assert store.fetch_one(group, "t", 0).offset == 99
assert store.fetch_one(other, "t", 0).offset == 1199
print("alive")
os._exit(0)
"""


@pytest.mark.parametrize("size", [0, 4096])
@pytest.mark.parametrize("append", ["auto", "mapped", "written"])
def test_the_process_lives_when_the_segment_it_appends_to_is_cut(path, append, size):
    call = [sys.executable, "-c", CUT_WHILE_COMMITTING, str(path), append, str(size)]
    ended = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "alive\n"), ended.stderr
    with pytest.warns(errors.CorruptionWarning), offsetlog.open(path) as store:
        assert {each.log_partition for each in store.problems()} == {1}


def test_verify_names_what_the_disk_cannot_read_and_checks_the_rest(disk, path, monkeypatch):
    bad, index = segments(path, 1)[2], segments(path, 2)[1].with_suffix(".index")
    disk.spoil(bad, 5000, 9000)
    disk.spoil(index, 0, 1)
    monkeypatch.setattr("offsetlog.verify.directory.FileSystem", lambda: disk)
    found = verify(path)
    assert [(each.kind, each.log_partition, each.path) for each in found.problems] == [
        ("unreadable", 1, str(bad)),
        ("unreadable", 2, str(index)),
    ]
    assert found.problems[0].position is not None
    assert found.partitions == PARTITIONS
    disk.spoil(bad, 0, 0)
    disk.spoil(index, 0, 0)
    assert verify(path).sound


def test_a_snapshot_that_cannot_be_read_is_done_without(disk, path):
    with open_store(path, disk) as store:
        store.snapshot()
        digest = store.digest(physical=True)
    disk.spoil(path / f"{TOPIC}-1" / FILE_NAME, 0, 1 << 30)
    with open_store(path, disk) as store:
        assert store.problems() == []
        assert store.digest(physical=True) == digest
        assert store.recoveries()[1]["snapshot"] is None
        assert store.recoveries()[0]["snapshot"] is not None


def test_every_read_of_an_open_fails_once(disk, path):
    """An error with its place, or a partition with a report; never another state, and the others work."""
    with open_store(path, disk) as store:
        store.snapshot([0])
        digest = store.digest()
    os.unlink(path / ".kafka_cleanshutdown")
    before = disk.reads
    open_store(path, disk, read_only=True).close()
    refused = served = unread = 0
    for number in range(1, disk.reads - before + 1):
        disk.fail_read(disk.reads + number, errno.EIO)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", errors.CorruptionWarning)
                store = open_store(path, disk, read_only=True)
        except errors.StorageError as failure:  # of the directory above the partitions
            refused += failure.path is not None
            continue
        finally:
            disk.fail_read(0, 0)
        problems = " ".join(map(str, store.problems()))
        broken = {each for each in range(PARTITIONS) if f"{TOPIC}-{each}" in problems}
        assert len(broken) <= 1
        for each in set(range(PARTITIONS)) - broken:
            assert store.fetch_one(group_in(store, each), "t", 49).offset == COMMITS - 1
        if broken:
            unread += 1
        else:
            assert store.digest() == digest
            served += 1
        store.close()
    assert unread + served + refused == number
    assert unread > 20
    assert served > 3
    assert refused < 20


def test_a_loss_is_accepted_beside_a_partition_that_cannot_be_read(disk, path):
    """The one that cannot be read stays as it is; the other one goes on."""
    bad = segments(path, 1)[2]
    segments(path, 0)[1].unlink()
    bad.rename(bad.with_suffix(".kept"))
    bad.mkdir()
    found = find_losses(path, SMALL)
    assert sorted(kind_of(each) for each in found) == ["missing", "unreadable"]
    accepted = offsetlog.accept_loss(path, SMALL, shown=found)
    assert [kind_of(each) for each in accepted.losses] == ["missing"]
    assert [each.path for each in accepted.unreadable] == [str(bad)]
    bad.rmdir()
    bad.with_suffix(".kept").rename(bad)
    with offsetlog.open(path, config=SMALL, maintenance=QUIET) as store:
        assert store.problems() == []
        check_others(store, 0)
