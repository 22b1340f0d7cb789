"""The replicas of one log partition.  A test copies batches and moves the high watermark (W)."""

from __future__ import annotations

from offsetlog.manager.interface import OffsetManager
from offsetlog.manager.testing.site import GROUP, ManagerSite
from offsetlog.types import TopicPartition


def committed_bytes(manager: OffsetManager, partition: int, *, uncommitted: bool = True) -> bytes:
    """Returns the bytes of a log, from its start on, that its followers may read."""
    offset = manager.positions(partition).log_start
    buffer = bytearray(1 << 16)
    read = bytearray()
    while True:
        size = manager.read_into(partition, offset, buffer, uncommitted=uncommitted)
        if size == 0:
            return bytes(read)
        read += buffer[:size]
        offset = next_offset(bytes(buffer[:size]))


def batches_of(log: bytes) -> list[bytes]:
    """Splits a log into its batches (docs/format/batches.md §2.1)."""
    batches = []
    while log:
        size = 12 + int.from_bytes(log[8:12], "big")
        batches.append(log[:size])
        log = log[size:]
    return batches


def next_offset(batches: bytes) -> int:
    """Returns the log offset that follows these whole batches."""
    last = batches_of(batches)[-1]
    return int.from_bytes(last[:8], "big") + int.from_bytes(last[23:27], "big") + 1


class ReplicaSet:
    """The replicas of the log partition that keeps GROUP.

    Args:
        site: makes the managers.
        names: the names of the replicas.
    """

    def __init__(self, site: ManagerSite, names: tuple[str, ...] = ("one", "two")) -> None:
        self.site = site
        self.managers = {name: site.replica(name) for name in names}
        self.partition = self.managers[names[0]].partition_for(GROUP)
        self.leader = names[0]
        self.epoch = 0

    def __getitem__(self, name: str) -> OffsetManager:
        return self.managers[name]

    def elect(self, leader: str, *, epoch: int | None = None) -> OffsetManager:
        """Makes one replica lead in the next epoch and the others follow it; returns the leader."""
        self.leader, self.epoch = leader, self.epoch + 1 if epoch is None else epoch
        for name, manager in self.managers.items():
            if name == leader:
                manager.become_leader(self.partition, self.epoch)
            else:
                done = manager.become_follower(self.partition, self.epoch)
                done.result(self.site.harness.patience)
        return self.managers[leader]

    def ship(self) -> int:
        """Copies missing batches to the followers; returns the leader's log end."""
        leader = self.managers[self.leader]
        end = leader.positions(self.partition).log_end
        buffer = bytearray(1 << 16)
        for name, manager in self.managers.items():
            while name != self.leader and (at := manager.positions(self.partition).log_end) < end:
                size = leader.read_into(self.partition, at, buffer, uncommitted=True)
                batches = memoryview(buffer)[:size]
                manager.append_as_follower(self.partition, self.epoch, batches)
        return end

    def advance(self, offset: int | None = None) -> int:
        """Moves the high watermark of all replicas to an offset, or to the leader's log end; returns it."""
        end = self.managers[self.leader].positions(self.partition).log_end
        moved = end if offset is None else offset
        for name in sorted(self.managers, key=lambda name: name != self.leader):
            self.managers[name].advance(self.partition, self.epoch, moved)
        return moved

    def replicate(self) -> int:
        """Copies missing batches to the followers; returns the high watermark past them."""
        self.ship()
        return self.advance()

    def lead(self, leader: str, *, epoch: int | None = None) -> OffsetManager:
        """Makes one replica lead, and waits until it answers; returns it."""
        manager = self.elect(leader, epoch=epoch)
        self.replicate()
        self.wait_for_leader()
        return manager

    def wait_for_leader(self) -> None:
        """Waits until the leader answers; its high watermark must have reached the log end."""
        transition = self.managers[self.leader].become_leader(self.partition, self.epoch)
        transition.result(self.site.harness.patience)

    def fetched(self, group: str = GROUP) -> dict[TopicPartition, int]:
        """Returns the offsets that the leader returns."""
        found = self.managers[self.leader].fetch(group)
        return {key: value.offset for key, value in found.items()}

    def restart(self, name: str) -> OffsetManager:
        """Restarts a replica; afterwards, the replica leads no partition."""
        self.site.stop(name)
        self.managers[name] = self.site.replica(name)
        return self.managers[name]
