"""Partitions that failed: the next election opens their logs again, and no other call does."""

from __future__ import annotations

import errno
import gc
import random
import threading
import time
from pathlib import Path

import pytest
from depth import by_depth, first_seed
from faults import FaultFileSystem

import offsetlog
from offsetlog import opening
from offsetlog._native.partition import Partition
from offsetlog.config import MaintenanceConfig
from offsetlog.errors import (
    CoordinatorLoadingError,
    DiskFullError,
    FencedLeaderEpochError,
    NotCoordinatorError,
    OffsetLogError,
    PartitionFailedError,
    StorageError,
)
from offsetlog.manager.interface import PartitionState
from offsetlog.manager.log_manager import LogManager

from .replicas import EAGER, KEYS, SMALL_SEGMENTS, Later, copy, digest_of, start

GIVEN = {"replication_factor": 1, "durability": "disk"}
BY_HAND = MaintenanceConfig(enabled=False)


def fail_next_flush(fs: FaultFileSystem) -> None:
    fs.fail_flush(fs.flushes + 1, errno.EIO)


@pytest.fixture
def fs(tmp_path) -> FaultFileSystem:
    return FaultFileSystem(tmp_path)


@pytest.fixture
def executor() -> Later:
    return Later()


@pytest.fixture
def failed(tmp_path, fs, executor):
    """A leader in epoch 1, alone, that acknowledged 7 and failed before 8 was on disk."""
    manager = start(tmp_path / "data", executor, fs=fs, **GIVEN)
    manager.become_leader(0, 1)
    manager.commit("g", {KEYS[0]: 7})
    fail_next_flush(fs)
    with pytest.raises(PartitionFailedError):
        manager.commit("g", {KEYS[0]: 8})
    assert manager.state(0) is PartitionState.FAILED
    yield manager
    manager.abandon()


def survives(fs: FaultFileSystem, path: Path, *, seed: int) -> dict:
    """Returns the positions left after a loss of power now."""
    path.mkdir()
    fs.materialize(path, seed)
    with offsetlog.open(path / "data", read_only=True) as store:
        return {key: found.offset for key, found in store.fetch("g").items()}


def test_the_next_election_opens_it_again(tmp_path, failed, fs, executor):
    transition = failed.become_leader(0, 2)
    # The call returned at once, and what comes meanwhile is answered so.
    assert not transition.done()
    assert failed.state(0) is PartitionState.LOADING
    executor.run()
    assert transition.result(0) >= 2
    assert failed.state(0) is PartitionState.ACTIVE
    # 8 was written, and came to the disk with the open.
    assert failed.fetch("g")[KEYS[0]].offset == 8
    assert survives(fs, tmp_path / "disk", seed=3) == {KEYS[0]: 8}
    failed.commit("g", {KEYS[0]: 9})
    assert survives(fs, tmp_path / "later", seed=3) == {KEYS[0]: 9}
    failed.stop()


@pytest.mark.parametrize("call", ["become_leader", "become_follower"])
def test_no_call_of_the_same_epoch_opens_it_again(failed, executor, call):
    if call == "become_leader":
        # It is the same election, which was answered.
        assert failed.become_leader(0, 1).done()
        with pytest.raises(FencedLeaderEpochError):
            failed.become_leader(0, 0)
    else:
        with pytest.raises(PartitionFailedError):
            failed.become_follower(0, 1)
        with pytest.raises(FencedLeaderEpochError):
            failed.become_follower(0, 0)
    executor.run()
    assert failed.state(0) is PartitionState.FAILED
    with pytest.raises(PartitionFailedError):
        failed.fetch("g")
    with pytest.raises(PartitionFailedError):
        failed.commit("g", {KEYS[0]: 9})


@pytest.mark.parametrize("end", ["stop", "abandon"])
def test_a_manager_that_ends_before_one_is_opened_again_lets_it_go(failed, end):
    failed.become_leader(0, 2)
    partition = failed.open_core.replica(0).partition
    getattr(failed, end)()
    assert partition.closed


def asked_of_leaders(manager, change):
    if change != "become_leader":
        return ()
    return (
        lambda: manager.fetch("g"),
        lambda: manager.fetch("g", KEYS[:1]),
        lambda: manager.on_topic_deleted(["t"]),
    )


@pytest.mark.parametrize("change", ["become_leader", "become_follower"])
def test_from_its_election_on_everybody_is_sent_to_ask_later(failed, executor, change):
    getattr(failed, change)(0, 2)
    for call in (
        lambda: failed.commit("g", {KEYS[0]: 9}),
        lambda: failed.positions(0),
        lambda: failed.read_into(0, 0, bytearray(100)),
        *asked_of_leaders(failed, change),
    ):
        with pytest.raises(CoordinatorLoadingError):
            call()
    assert failed.state(0) is PartitionState.LOADING
    executor.run()
    assert failed.positions(0).log_end == 2


def test_while_it_is_opened_again_everybody_is_sent_to_ask_later(failed, executor, monkeypatch):
    replica = failed.open_core.replica(0)
    partition = replica.partition
    opens = failed._owned._opener.open_log_again
    asked = []

    def ask(number, **given):
        # In the middle of it, with the failed one let go.
        for call in (
            lambda: failed.fetch("g"),
            lambda: failed.fetch("g", KEYS[:1]),
            lambda: failed.commit("g", {KEYS[0]: 1}, durability="process"),
            lambda: failed.commit_async("g", {KEYS[0]: 1}),
            lambda: failed.delete("g", KEYS[:1]),
            lambda: failed.delete_group("g"),
            lambda: failed.fence("g"),
            lambda: failed.read_into(0, 0, bytearray(100)),
            lambda: failed.positions(0),
            lambda: failed.append_as_follower(0, 2, b""),
            lambda: failed.truncate_to(0, 2, 0),
            lambda: failed.advance(0, 2, 5),
            replica.digest,
            partition.load,
        ):
            with pytest.raises(CoordinatorLoadingError):
                call()
            asked.append(call)
        # A caller that waits for its write gets the truth.
        with pytest.raises(PartitionFailedError):
            partition.flush()
        with pytest.raises(PartitionFailedError):
            partition.wait(1)
        assert failed.state(0) is PartitionState.LOADING
        assert failed.expire() == 0
        return opens(number, **given)

    monkeypatch.setattr(failed._owned._opener, "open_log_again", ask)
    failed.become_leader(0, 2)
    executor.run()
    assert len(asked) == 14
    assert failed.fetch("g")[KEYS[0]].offset == 8
    # A caller that still has the failed one is sent to ask again, and finds the other.
    with pytest.raises(CoordinatorLoadingError):
        partition.log_facts()
    failed.stop()


def test_one_that_cannot_be_opened_stays_failed(tmp_path, failed, fs, executor):
    for epoch in (2, 3):
        transition = failed.become_leader(0, epoch)
        fail_next_flush(fs)
        executor.run()
        with pytest.raises(StorageError):
            transition.result(0)
        assert failed.state(0) is PartitionState.FAILED
        assert failed.leader_epoch(0) == epoch
        for call in (
            lambda: failed.fetch("g"),
            lambda: failed.commit("g", {KEYS[0]: 9}),
            lambda: failed.positions(0),
        ):
            with pytest.raises(PartitionFailedError, match="could not be opened again"):
                call()
        with pytest.raises(PartitionFailedError):
            failed.become_follower(0, epoch)
    transition = failed.become_leader(0, 4)
    executor.run()
    assert transition.done()
    assert failed.fetch("g")[KEYS[0]].offset == 8
    failed.stop()
    with offsetlog.open(tmp_path / "data", maintenance=BY_HAND) as store:
        assert store.fetch("g")[KEYS[0]].offset == 8
        assert store.problems() == []


def test_a_stop_with_one_that_stayed_failed_is_no_clean_stop(tmp_path, failed, fs, executor):
    failed.become_leader(0, 2)
    fail_next_flush(fs)
    executor.run()
    assert failed.state(0) is PartitionState.FAILED
    failed.stop()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    with offsetlog.open(tmp_path / "data", maintenance=BY_HAND) as store:
        assert store.fetch("g")[KEYS[0]].offset == 8


def test_a_later_election_takes_over_while_it_is_opened(failed, executor):
    first = failed.become_leader(0, 2)
    second = failed.become_leader(0, 3)
    with pytest.raises(FencedLeaderEpochError):
        first.result(0)
    executor.run()
    assert second.done()
    assert failed.leader_epoch(0) == 3
    assert failed.state(0) is PartitionState.ACTIVE
    failed.stop()


def test_one_that_resigned_is_opened_at_its_next_election(failed, executor):
    assert failed.resign(0, 1).done()
    executor.run()
    assert failed.state(0) is PartitionState.FAILED
    with pytest.raises(PartitionFailedError):
        failed.commit("g", {KEYS[0]: 9})
    transition = failed.become_leader(0, 2)
    executor.run()
    assert transition.done()
    assert failed.fetch("g")[KEYS[0]].offset == 8
    failed.stop()


def test_a_commit_that_waits_learns_that_it_failed_and_never_that_it_is_durable(failed, fs, executor):
    failed.become_leader(0, 2)
    executor.run()
    written = failed.commit_async("g", {KEYS[1]: 1})
    fail_next_flush(fs)
    executor.run()
    with pytest.raises(PartitionFailedError):
        written.result(0)
    late = failed.open_core.park(0, written.position.log_offset + 1, 0, -1, None)
    failed.become_leader(0, 3)
    executor.run()
    # The flushed bytes there now may be another's.
    with pytest.raises(OffsetLogError):
        late.result(0)
    after = failed.open_core.park(0, written.position.log_offset + 1, 0, -1, None)
    executor.run()
    with pytest.raises(NotCoordinatorError):
        after.result(0)
    failed.stop()


# ---------------------------------------------------------------------------------------------- followers


def fail_flush_of_segment(follower: LogManager, fs: FaultFileSystem, executor: Later) -> None:
    # Those before it, of a manifest and of the epochs, concern only who asked for the flush.
    for _ in range(4):
        fs.fail_flush(fs.flushes + 2, errno.EIO)
        flush = follower.flush(0)
        executor.run()
        if follower.state(0) is PartitionState.FAILED:
            break
    with pytest.raises(PartitionFailedError):
        flush.result(0)


def follower_of(leader: LogManager, path: Path, fs: FaultFileSystem, executor: Later, *, warm: bool) -> LogManager:
    follower = start(path, executor, fs=fs, warm_followers=warm)
    follower.become_follower(0, 1)
    copy(leader, follower, 1)
    executor.run()
    return follower


@pytest.mark.parametrize("warm", [True, False])
def test_a_follower_is_opened_again_and_goes_on(tmp_path, fs, executor, warm):
    leader = start(tmp_path / "leader", executor)
    leader.become_leader(0, 1)
    follower = follower_of(leader, tmp_path / "follower", fs, executor, warm=warm)
    for epoch in range(2, 6):
        for number in range(30):
            leader.commit("g", {KEYS[number]: 10 * epoch})
        copy(leader, follower, epoch - 1)
        fail_flush_of_segment(follower, fs, executor)
        leader.become_leader(0, epoch)
        transition = follower.become_follower(0, epoch)
        assert not transition.done()
        with pytest.raises(CoordinatorLoadingError):
            follower.append_as_follower(0, epoch, b"")
        executor.run()
        with pytest.raises(NotCoordinatorError):
            follower.fetch("g", KEYS[:1])
        transition.result(0)
        assert follower.state(0) is PartitionState.FOLLOWER
        assert follower.positions(0).flushed == leader.positions(0).log_end
        # A late answer of the epoch before is not appended.
        with pytest.raises(FencedLeaderEpochError):
            follower.append_as_follower(0, epoch - 1, b"")
        end = copy(leader, follower, epoch)
        for each in (leader, follower):
            each.advance(0, epoch, end)
        if warm:
            assert digest_of(follower) == digest_of(leader)
    transition = follower.become_leader(0, 9)
    executor.run()
    follower.advance(0, 9, follower.positions(0).log_end)
    executor.run()
    transition.result(0)
    assert digest_of(follower) == digest_of(leader)
    leader.stop()
    follower.stop()


# ---------------------------------------------------------------------------------------------- other failures


def fill(path: Path, fs: FaultFileSystem) -> None:
    given = {"config": SMALL_SEGMENTS, "maintenance": BY_HAND, "fs": fs, "background": False}
    with opening.open_with(path, 1, "process", **given) as store:
        store.commit("g", {KEYS[0]: 7})


def test_a_load_that_failed_is_tried_again_at_the_next_election(tmp_path, fs, executor):
    fill(tmp_path / "data", fs)
    failures = 0
    for read in range(1, 9):
        manager = start(tmp_path / "data", executor, fs=fs, **GIVEN)
        epoch = manager.leader_epoch(0)
        transition = manager.become_leader(0, epoch + 1)
        fs.fail_read(fs.reads + read, errno.EIO)
        executor.run()
        fs.fail_read(0, 0)
        assert transition.done()
        if manager.state(0) is not PartitionState.ACTIVE:
            failures += 1
            assert manager.state(0) is PartitionState.FAILED
            with pytest.raises(OffsetLogError):
                transition.result(0)
            again = manager.become_leader(0, epoch + 2)
            executor.run()
            again.result(0)
        assert manager.fetch("g")[KEYS[0]].offset == 7
        manager.stop()
    assert failures > 0


def test_a_log_that_the_disk_could_not_read_is_opened_at_the_next_election(tmp_path, fs, executor):
    fill(tmp_path / "data", fs)
    log = next((tmp_path / "data").glob("__consumer_offsets-0/*.log"))
    fs.spoil(log, 0, 4096)
    manager = start(tmp_path / "data", executor, fs=fs, **GIVEN)
    assert manager.state(0) is PartitionState.FAILED
    transition = manager.become_leader(0, 5)
    executor.run()
    with pytest.raises(StorageError):
        transition.result(0)
    with pytest.raises(OffsetLogError):
        manager.fetch("g")
    fs.spoil(log, 0, 0)
    again = manager.become_leader(0, 6)
    executor.run()
    again.result(0)
    assert manager.fetch("g")[KEYS[0]].offset == 7
    manager.stop()


def test_work_of_maintenance_does_not_keep_it_from_being_opened(tmp_path, fs):
    slow = MaintenanceConfig(enabled=False, min_cleanable_bytes=0, cleaner_bytes_per_second=1000)
    manager = start(tmp_path / "data", fs=fs, maintenance=slow, **GIVEN)
    manager.become_leader(0, 1).result(10)
    for number in range(400):
        manager.commit("g", {KEYS[number % 7]: number}, durability="process")
    raised: list[OffsetLogError] = []

    def compact() -> None:
        try:
            manager._maintenance.compact()
        except OffsetLogError as failure:
            raised.append(failure)

    worker = threading.Thread(target=compact)
    worker.start()
    while not manager._maintenance.status().progress.get("bytes_read"):
        pass
    fail_next_flush(fs)
    with pytest.raises(PartitionFailedError):
        manager.commit("g", {KEYS[0]: 9})
    manager.become_leader(0, 2).result(30)
    worker.join(30)
    assert not worker.is_alive()
    # It went on for half a minute otherwise.
    assert raised or manager._maintenance.status().reports[0].stopped
    assert manager.fetch("g")[KEYS[1]].offset == 393
    manager.stop()


# ---------------------------------------------------------------------------------------------- threads


def open_partitions() -> list[Partition]:
    """Those that nobody closed, or that somebody still holds open."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, Partition) and not each.closed]


def test_threads_commit_while_it_fails_and_is_opened_again(tmp_path, fs):
    seed = first_seed()
    print(f"OL_SEED={seed}")
    draw = random.Random(seed)
    assert open_partitions() == []
    manager = start(
        tmp_path / "data", fs=fs, background=True, maintenance=EAGER, replication_factor=1, durability="disk"
    )
    manager.become_leader(0, 1).result(10)
    stopped = threading.Event()
    acknowledged: list[dict[int, int]] = [{} for _ in range(4)]
    strange: list[BaseException] = []

    def commit(thread: int) -> None:
        value = 0
        while not stopped.is_set():
            value += 1
            key = 10 * thread + value % 10
            try:
                if value % 3 == 0:
                    manager.commit_async("g", {KEYS[key]: value}).result(10)
                else:
                    manager.commit("g", {KEYS[key]: value})
            except (StorageError, PartitionFailedError, CoordinatorLoadingError, NotCoordinatorError):
                continue
            except BaseException as failure:
                strange.append(failure)
                return
            acknowledged[thread][key] = value

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    rounds = by_depth(gate=12, long=200)
    for epoch in range(2, 2 + rounds):
        while manager.state(0) is not PartitionState.FAILED and not strange:
            # The flush that was meant may be over by now.
            fs.fail_flush(fs.flushes + draw.randrange(1, 4), errno.EIO)
            time.sleep(0.001)
        for again in range(10):
            try:
                manager.become_leader(0, 1000 * epoch + again).result(10)
            except StorageError:
                continue
            break
        assert manager.state(0) in (PartitionState.ACTIVE, PartitionState.FAILED)
    stopped.set()
    for thread in threads:
        thread.join()
    assert not strange
    fs.fail_flush(0, 0)
    manager.become_leader(0, 2**30).result(10)
    found = manager.fetch("g")
    for each in acknowledged:
        for key, value in each.items():
            assert found[KEYS[key]].offset >= value
    manager.stop()
    assert open_partitions() == []
    with offsetlog.open(tmp_path / "data", read_only=True) as store:
        assert {key: found.offset for key, found in store.fetch("g").items()} == {
            key: value.offset for key, value in found.items()
        }
    assert all(each for each in acknowledged)


# ---------------------------------------------------------------------------- elections that fail


@pytest.mark.parametrize("next_epoch", [2, 3])
def test_an_election_that_cannot_be_stored_ends_the_leadership_before_it(
    tmp_path, fs, executor, next_epoch
):
    given = {"replication_factor": 3, "durability": "replicas"}
    with start(tmp_path / "data", executor, fs=fs, **given) as manager:
        manager.become_leader(0, 1)
        executor.run()
        waits = manager.commit_async("g", {KEYS[0]: 7})
        fs.fill(fs.operations + 1)
        with pytest.raises(DiskFullError):
            manager.become_leader(0, 2)
        fs.fill(0)
        with pytest.raises(NotCoordinatorError):
            waits.result(0)
        end = manager.positions(0).log_end
        with pytest.raises(NotCoordinatorError):
            manager.commit_async("g", {KEYS[0]: 8})
        with pytest.raises(NotCoordinatorError):
            manager.fetch("g")
        assert manager.positions(0).log_end == end
        manager.become_leader(0, next_epoch)
        executor.run()
        manager.advance(0, next_epoch, end)
        assert manager.fetch("g")[KEYS[0]].offset == 7
        manager.commit_async("g", {KEYS[0]: 9})
        assert manager.end_offset_for_epoch(0, 1).end_offset == end


def test_an_election_that_comes_as_the_log_is_open_again_keeps_it(failed, executor, monkeypatch):
    opens, later = failed._replicas.open_again, []

    def open_again(number):
        fresh = opens(number)
        if not later:
            # Before this thread has the lock of the partition.
            election = threading.Thread(
                target=lambda: later.append(failed.become_leader(number, 3))
            )
            election.start()
            election.join(30)
        return fresh

    monkeypatch.setattr(failed._replicas, "open_again", open_again)
    failed.become_leader(0, 2)
    executor.run()
    assert [each.done() for each in later] == [True]
    assert failed.state(0) is PartitionState.ACTIVE
    assert failed.fetch("g")[KEYS[0]].offset in (7, 8)
    failed.commit("g", {KEYS[0]: 9})
    assert failed.become_leader(0, 4).epoch == 4


def test_a_step_that_raises_leaves_nobody_at_work(failed, executor, monkeypatch):
    def fail(number):
        raise RuntimeError("nobody knows why")

    with monkeypatch.context() as patched:
        patched.setattr(failed._leaderships, "_assume_or_follow", lambda *_: fail(0))
        transition = failed.become_leader(0, 2)
        with pytest.raises(RuntimeError):
            executor.run()
    with pytest.raises(RuntimeError):
        transition.result(0)
    failed.become_leader(0, 3)
    executor.run()
    assert failed.state(0) is PartitionState.ACTIVE


def test_an_epoch_that_could_not_be_stored_begins_where_it_is_elected_at_last(
    tmp_path, fs, executor
):
    leader = start(tmp_path / "leader", executor)
    with start(tmp_path / "data", executor, fs=fs) as follower:
        leader.become_leader(0, 5)
        leader.commit("g", {KEYS[0]: 7})
        follower.become_follower(0, 5)
        executor.run()
        copy(leader, follower, 5)
        fs.fill(fs.operations + 1)
        with pytest.raises(DiskFullError):
            follower.become_leader(0, 6)
        fs.fill(0)
        for number in range(5):
            leader.commit("g", {KEYS[0]: 100 + number})
        copy(leader, follower, 5)
        assert follower.replica(0).last_epoch() == 5
        follower.become_leader(0, 6)
        assert follower.end_offset_for_epoch(0, 5).end_offset == 6
    leader.abandon()
