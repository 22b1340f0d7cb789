"""If a call has another leader epoch than the current one, it is refused and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from offsetlog.errors import (
    FencedLeaderEpochError,
    OffsetOutOfRangeError,
    PartitionError,
    UnknownLeaderEpochError,
)
from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.manager.testing.errors import refused
from offsetlog.manager.testing.replica_set import ReplicaSet, batches_of, committed_bytes
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite

Call = Callable[[OffsetManager, int, int, bytes], object]

#: Calls of a follower, with the partition, an epoch and batches that would fit.
FOLLOWING: dict[str, Call] = {
    "append_as_follower": lambda manager, partition, epoch, batches: manager.append_as_follower(
        partition, epoch, batches
    ),
    "truncate_to": lambda manager, partition, epoch, _: manager.truncate_to(partition, epoch, 1),
    "restart_at": lambda manager, partition, epoch, _: manager.restart_at(partition, epoch, 90),
}
ALL: dict[str, Call] = {
    **FOLLOWING,
    "advance": lambda manager, partition, epoch, _: manager.advance(partition, epoch, 3),
    "read_into": lambda manager, partition, epoch, _: manager.read_into(
        partition, 0, bytearray(4096), epoch=epoch, uncommitted=True
    ),
    "file_range": lambda manager, partition, epoch, _: manager.file_range(
        partition, 0, 4096, epoch=epoch, uncommitted=True
    ),
}


def _write(manager: OffsetManager, count: int) -> None:
    for offset in range(count):
        manager.commit(GROUP, {KEYS[0]: offset}, durability="process")


@pytest.mark.needs(Capability.REPLICATION)
class TestReplicationEpochs:
    """Only calls in the current epoch change anything."""

    @pytest.mark.parametrize("name", ALL)
    def test_a_follower_refuses_another_epoch(self, manager_site: ManagerSite, name: str) -> None:
        replicas = ReplicaSet(manager_site)
        leader, follower = replicas.elect("one", epoch=5), replicas["two"]
        _write(leader, 3)
        replicas.ship()
        _write(leader, 1)
        late = batches_of(committed_bytes(leader, replicas.partition))[-1]
        partition = replicas.partition
        before = (follower.positions(partition), committed_bytes(follower, partition))
        for epoch, kind in ((4, FencedLeaderEpochError), (6, UnknownLeaderEpochError)):
            with refused(kind, case=epoch):
                ALL[name](follower, partition, epoch, late)
            found = follower.positions(partition)
            assert (found, committed_bytes(follower, partition)) == before
        assert follower.leader_epoch(partition) == 5

    @pytest.mark.parametrize("partition", [-1, 1_000_000])
    def test_a_partition_that_is_not_there_is_refused(
        self, manager_site: ManagerSite, partition: int
    ) -> None:
        manager = manager_site.replica("one")
        for name, call in ALL.items():
            with refused(PartitionError, case=name):
                call(manager, partition, 1, b"")

    def test_a_late_answer_of_a_former_leader_is_refused(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, follower = replicas.elect("one"), replicas["two"]
        _write(leader, 3)
        late = committed_bytes(leader, replicas.partition)
        partition = replicas.partition
        follower.become_follower(partition, 2).result(manager_site.harness.patience)
        with refused(FencedLeaderEpochError):
            follower.append_as_follower(partition, 1, late)
        assert follower.positions(partition).log_end == 0

    @pytest.mark.parametrize("name", FOLLOWING)
    def test_a_leader_does_not_follow(self, manager_site: ManagerSite, name: str) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        _write(leader, 3)
        replicas.replicate()
        before = committed_bytes(leader, replicas.partition)
        with refused(FencedLeaderEpochError):
            FOLLOWING[name](leader, replicas.partition, replicas.epoch, before)
        assert committed_bytes(leader, replicas.partition) == before
        assert replicas.fetched() == {KEYS[0]: 2}

    def test_a_former_leader_moves_nothing(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        former = replicas.elect("one")
        _write(former, 3)
        replicas.ship()
        replicas.elect("two")
        with refused(FencedLeaderEpochError):
            former.advance(replicas.partition, replicas.epoch - 1, 3)
        assert former.positions(replicas.partition).watermark == 0

    @pytest.mark.parametrize("name", ALL)
    def test_an_empty_follower_refuses_another_epoch(
        self, manager_site: ManagerSite, name: str
    ) -> None:
        replicas = ReplicaSet(manager_site)
        leader, follower = replicas.elect("one", epoch=5), replicas["two"]
        _write(leader, 1)
        batches = committed_bytes(leader, replicas.partition)
        for epoch, kind in ((4, FencedLeaderEpochError), (6, UnknownLeaderEpochError)):
            with refused(kind, case=epoch):
                ALL[name](follower, replicas.partition, epoch, batches)
            assert follower.positions(replicas.partition).log_end == 0

    def test_an_empty_follower_has_nothing_to_move_or_to_remove(
        self, manager_site: ManagerSite
    ) -> None:
        replicas = ReplicaSet(manager_site)
        replicas.elect("one", epoch=5)
        follower, partition = replicas["two"], replicas.partition
        assert follower.advance(partition, 5, 3) == 0
        assert follower.truncate_to(partition, 5, 3) == 0
        buffer = bytearray(4096)
        assert follower.read_into(partition, 0, buffer, epoch=5, uncommitted=True) == 0
        for offset in (-1, 1):
            with refused(OffsetOutOfRangeError, case=offset):
                follower.read_into(partition, offset, buffer, epoch=5)
            with refused(OffsetOutOfRangeError, case=offset):
                follower.file_range(partition, offset, 4096, epoch=5)

    def test_who_does_not_follow_appends_nothing(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site, ("one", "two"))
        leader, other = replicas.elect("one"), replicas["two"]
        _write(leader, 1)
        batches = committed_bytes(leader, replicas.partition)
        third = manager_site.replica("three")
        with refused(FencedLeaderEpochError, UnknownLeaderEpochError):
            third.append_as_follower(replicas.partition, replicas.epoch, batches)
        assert third.positions(replicas.partition).log_end == 0
        assert other.append_as_follower(replicas.partition, replicas.epoch, batches) == 1
