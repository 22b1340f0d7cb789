"""The host of one replica: nothing that it waits for is lost, and no follower decides what it costs."""

from __future__ import annotations

import errno
import tracemalloc

import pytest
from faults import FaultFileSystem

from offsetlog.errors import CapacityError, OffsetLogError, PartitionFailedError
from offsetlog.manager.replica_host import HostConfig, ReplicaHost
from offsetlog.manager.transition import PartitionTransition
from offsetlog.replication.messages import FetchError, FetchRequest, PartitionState

from .manual_executor import ManualExecutor
from .replicas import KEYS, partition_of, start
from .wire import Wire


@pytest.fixture
def executor():
    return ManualExecutor()


@pytest.fixture
def manager(tmp_path, executor):
    manager = start(tmp_path / "data", executor)
    yield manager
    manager.abandon()


@pytest.fixture
def wire():
    return Wire()


@pytest.fixture
def host(manager, executor, wire):
    return ReplicaHost(
        manager, 0, 0, 1, (0, 1), wire, executor, config=HostConfig(fetch_bytes=8192)
    )


def state(leader, epoch, version):
    return PartitionState(
        leader=leader, leader_epoch=epoch, in_sync=frozenset((0, 1)), version=version
    )


def fetch_of(offset, max_bytes):
    return FetchRequest(
        partition=0,
        replica=1,
        incarnation=1,
        current_leader_epoch=1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        flushed_offset=offset,
        max_bytes=max_bytes,
    )


def test_a_follower_does_not_decide_how_much_memory_an_answer_takes(manager, executor, host):
    host.on_state(state(0, 1, 1))
    for number in range(200):
        manager.commit("g", dict.fromkeys(KEYS, number))
    answers = []
    tracemalloc.start()
    try:
        host.on_fetch(fetch_of(0, 2**30), answers.append)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [each.error for each in answers] == [FetchError.NONE]
    assert 0 < len(answers[0].records) <= 8192
    assert most < 1 << 20


@pytest.mark.parametrize("leader", [0, 1])
def test_a_flush_that_fails_after_the_next_election_is_made_again(
    manager, executor, host, wire, monkeypatch, leader
):
    host.on_state(state(0, 1, 1))
    manager.commit("g", {KEYS[0]: 1})
    flushes: list[PartitionTransition] = []

    def flush_later(partition):
        flushes.append(PartitionTransition(partition, 0, lambda: 0.0))
        return flushes[-1]

    monkeypatch.setattr(manager, "flush", flush_later)
    host.on_written()
    executor.run()
    assert len(flushes) <= 1
    if not flushes:
        host._flush()
    host.on_state(state(leader, 2, 2))
    executor.run()
    assert len(flushes) == 1  # it is under way still
    flushes[0].fail(PartitionFailedError("the disk failed in the last epoch"))
    assert len(flushes) == 2
    assert not wire.failures
    monkeypatch.undo()
    flushes[1].succeed(1)
    if leader == 0:
        assert host.view.positions()[0] == 1
    else:
        assert [each.fetch_offset for each in wire.fetches] == [1]


def test_a_write_for_which_there_is_no_thread_does_not_silence_the_next(
    manager, executor, host, monkeypatch
):
    host.on_state(state(0, 1, 1))
    manager.commit("g", {KEYS[0]: 1})
    executor.run()

    def refuse(work):
        raise CapacityError("no thread")

    with monkeypatch.context() as patched:
        patched.setattr(executor, "submit", refuse)
        with pytest.raises(CapacityError):
            host.on_written()
    host.on_written()
    executor.run()
    assert host.view.positions()[0] == 1


def test_a_follower_that_asks_again_and_again_has_one_fetch_that_waits(manager, executor, host):
    host.on_state(state(0, 1, 1))
    manager.commit("g", {KEYS[0]: 1})
    answers: list[int] = []
    for number in range(100):
        host.on_fetch(fetch_of(1, 1000), lambda _, number=number: answers.append(number))
    executor.pass_time(1)
    assert answers == [0, 99]  # the first was answered at once: W moved with it


@pytest.fixture
def failing(tmp_path, executor, wire):
    """A leader in epoch 1 that has written something, its host, and its disk."""
    fs = FaultFileSystem(tmp_path)
    manager = start(tmp_path / "failing", executor, fs=fs)
    host = ReplicaHost(manager, 0, 0, 1, (0, 1), wire, executor)
    host.on_state(state(0, 1, 1))
    executor.run()
    manager.commit("g", {KEYS[0]: 1})
    yield manager, host, fs
    manager.abandon()


def test_a_failure_that_no_call_of_the_host_met_is_reported(failing, executor, wire):
    manager, host, fs = failing
    fs.fail_flush(fs.flushes + 1, errno.EIO)
    with pytest.raises(OffsetLogError):
        partition_of(manager).flush()  # as a thread of the manager does
    assert not wire.failures
    executor.pass_time(5)
    assert [type(each) for each in wire.failures] == [PartitionFailedError]
    assert host.failure is wire.failures[0]


def test_a_fetch_that_is_repeated_while_the_log_is_opened_again_is_no_failure(
    failing, executor, wire
):
    manager, host, fs = failing
    host.on_state(state(1, 2, 2))
    executor.run()
    assert wire.fetches  # and a timer that repeats it
    manager.become_leader(0, 3)
    manager.commit("g", {KEYS[0]: 2})
    fs.fail_flush(fs.flushes + 1, errno.EIO)
    with pytest.raises(OffsetLogError):
        partition_of(manager).flush()
    host.on_state(state(1, 4, 3))
    before = len(wire.fetches)
    executor.pass_time(10)
    assert not wire.failures
    assert len(wire.fetches) == before
    executor.run()
    executor.pass_time(1)
    assert wire.fetches[-1].current_leader_epoch == 4
    assert not wire.failures
