"""Replica hosts whose log fails while leadership changes: the failure is reported, and the replica goes on."""

from __future__ import annotations

import errno

import pytest
from tests.faults.fault_fs import FaultFileSystem

from offsetlog.errors import CapacityError
from offsetlog.manager.interface import PartitionState
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.replica_host import ReplicaHost
from offsetlog.manager.transition import PartitionTransition
from offsetlog.replication import messages
from offsetlog.types import TopicPartition
from tests.manager.manual_executor import ManualExecutor
from tests.manager.watch_model import settings
from tests.manager.wire import Wire

KEY = TopicPartition("t", 0)


@pytest.fixture
def parts(tmp_path):
    fs, executor, network = FaultFileSystem(str(tmp_path)), ManualExecutor(), Wire()
    given = settings(tmp_path, replication_factor=3)
    manager = LogManager(given, executor=executor, fs=fs, background=False)
    manager.start()
    host = ReplicaHost(manager, 0, 1, 1, (1, 2, 3), network, executor)
    yield manager, host, network, executor, fs
    host.stop()
    manager.abandon()


def tell(host, leader, epoch):
    state = messages.PartitionState(
        leader=leader, leader_epoch=epoch, in_sync=frozenset({1, 2, 3}), version=epoch
    )
    host.on_state(state)


def run(executor):
    while executor.queue:
        executor.queue.popleft()()


def test_a_flush_of_the_former_epoch_that_fails_is_reported(parts):
    manager, host, network, executor, fs = parts
    tell(host, leader=1, epoch=1)
    run(executor)
    manager.commit("g", {KEY: 1}, durability="process")
    host.on_written()
    executor.queue.popleft()()      # which orders the flush
    assert executor.queue
    tell(host, leader=2, epoch=2)
    for later in range(1, 5):
        fs.fail_flush(fs.flushes + later, errno.EIO)
        run(executor)
        if manager.state(0) is PartitionState.FAILED:
            break
        manager.flush(0)
    assert manager.state(0) is PartitionState.FAILED
    assert network.failures
    assert host.failure is network.failures[0]


def test_a_flush_of_the_former_epoch_that_fails_for_itself_keeps_no_follower_from_fetching(parts):
    manager, host, network, executor, _fs = parts
    tell(host, leader=1, epoch=1)
    run(executor)
    manager.commit("g", {KEY: 1}, durability="process")
    flushes = manager.flush

    def flush_without_memory(partition):
        transition = PartitionTransition(partition, 1, lambda: 0.0)
        executor.submit(lambda: transition.fail(CapacityError("no memory for a flush")))
        return transition

    manager.flush = flush_without_memory
    host.on_written()
    executor.queue.popleft()()
    manager.flush = flushes
    tell(host, leader=2, epoch=2)
    run(executor)
    assert manager.state(0) is PartitionState.FOLLOWER
    assert network.fetches, "the follower waits for a flush that nobody makes"
    assert not network.failures
