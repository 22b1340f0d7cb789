"""Log managers as replicas of one log partition, driven by hand: work runs when a test says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from offsetlog._native.files import FileSystem
from offsetlog._native.partition import Partition
from offsetlog.config import MaintenanceConfig, StoreConfig
from offsetlog.manager.executor import Work
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings
from offsetlog.types import TopicPartition

KEYS = [TopicPartition("t", number) for number in range(40)]
SMALL_SEGMENTS = StoreConfig(
    segment_bytes=8192, batch_bytes_max=2048, extend_bytes_min=4096, extend_bytes_max=8192
)
#: Everything that can be done is worth its while, and nothing is done unasked.
EAGER = MaintenanceConfig(
    enabled=False, min_cleanable_bytes=0, idle_roll_ms=0, snapshot_tail_bytes=4096, retention_ms=None
)


class Later:
    """An executor whose work runs when the test says so."""

    def __init__(self) -> None:
        self.work: list[Work] = []

    def now(self) -> float:
        return 0.0

    def submit(self, work: Work) -> None:
        self.work.append(work)

    def call_later(self, seconds: float, work: Work) -> Later:
        return self

    def cancel(self) -> None:
        pass

    def stop(self) -> None:
        self.work.clear()

    def run(self) -> None:
        while self.work:
            self.work.pop(0)()


def start(
    path: Path,
    executor: Any = None,
    *,
    fs: FileSystem | None = None,
    background: bool = False,
    maintenance: MaintenanceConfig = EAGER,
    **more: Any,
) -> LogManager:
    """Starts a manager of one log partition that is one of three replicas."""
    given = {"replication_factor": 3, "durability": "process", "store": SMALL_SEGMENTS, **more}
    settings = ManagerSettings(path=path, partitions=1, maintenance=maintenance, **given)
    manager = LogManager(settings, executor=executor, fs=fs, background=background)
    manager.start()
    return manager


def partition_of(manager: LogManager) -> Partition:
    replica = manager.open_core.replica(0)
    assert replica is not None
    return replica.partition


def copy(leader: LogManager, follower: LogManager, epoch: int, *, up_to: int | None = None) -> int:
    """Has the follower copy what it lacks of the leader's log, and returns its log end."""
    buffer = bytearray(1 << 20)
    while True:
        end = follower.positions(0).log_end
        read = leader.read_into(0, end, buffer, uncommitted=True)
        if read == 0 or (up_to is not None and end >= up_to):
            return end
        follower.append_as_follower(0, epoch, memoryview(buffer)[:read])


def digest_of(manager: LogManager) -> Any:
    """The physical digest of what is applied, and up to where that is."""
    replica = manager.open_core.replica(0)
    assert replica is not None
    return replica.digest(physical=True)


def look_after(manager: LogManager) -> None:
    """Does once what the threads of maintenance do unasked."""
    manager._maintenance._round(checks=True, inspects=True)
    manager._maintenance.renew_snapshots(manager._maintenance._growing())
