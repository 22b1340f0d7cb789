"""One replica: a disk that can lose what was not flushed, a log manager, and its replica host."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.faults.fault_fs import FaultFileSystem

from offsetlog._native.clocks import ManualClock
from offsetlog._native.manager_core import ManagerCore
from offsetlog.config import MaintenanceConfig, StoreConfig
from offsetlog.errors import OffsetLogError
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.replica_host import HostConfig, ReplicaHost
from offsetlog.manager.settings import ManagerSettings
from offsetlog.replication.in_sync import InSyncConfig
from offsetlog.replication.messages import FetchRequest, FetchResponse, InSyncChange, PartitionState
from tests.simulation.network import CONTROLLER
from tests.simulation.scheduler import NodeExecutor

PARTITION = 0
EPOCH_MS = 1_700_000_000_000
#: Positions expire after two simulated seconds.
RETENTION_MS = 2_000


def settings(path: Path, *, accept: bool) -> ManagerSettings:
    return ManagerSettings(
        path=path,
        partitions=1,
        replication_factor=3,
        min_insync_replicas=2,
        accept_while_loading=accept,
        store=StoreConfig(segment_bytes=16384, batch_bytes_max=4096, extend_bytes_min=4096, extend_bytes_max=16384),
        maintenance=MaintenanceConfig(enabled=False, retention_ms=RETENTION_MS),
    )


class Node:
    """A replica of the partition.  `life` grows with every start of its process."""

    def __init__(self, number: int, world: Any, root: Path) -> None:
        self.number = number
        self.world = world
        self.life = 0
        self.path = root / f"node{number}-0"
        self.path.mkdir()
        self._root = root
        self.manager: LogManager | None = None
        self.host: ReplicaHost | None = None
        self.executor: NodeExecutor | None = None
        self.clock_ms = EPOCH_MS
        self.last_known: PartitionState | None = None

    # ------------------------------------------------------------------------------------------------ life

    @property
    def is_up(self) -> bool:
        return self.manager is not None

    @property
    def role(self) -> str:
        if self.host is None:
            return "down"
        return "leader" if self.host.view is not None else "follower"

    def start(self) -> None:
        self.life += 1
        self.fs = FaultFileSystem(str(self.path))
        self.executor = NodeExecutor(self.world.scheduler, f"node{self.number}")
        self.clock = ManualClock(0)
        self.show_time()
        manager = LogManager(
            settings(self.path, accept=self.world.accepts),
            executor=self.executor,
            fs=self.fs,
            clock=self.clock,
            background=False,
        )
        manager.start()
        self.manager = manager
        self.host = ReplicaHost(
            manager,
            PARTITION,
            self.number,
            self.life,
            (0, 1, 2),
            self,
            self.executor,
            InSyncConfig(min_insync_replicas=2, lag_time_max_ms=1500, join_wait_ms=300, proposal_backoff_ms=200),
            HostConfig(fetch_wait=0.05, retry=0.2, tick=0.3, fetch_bytes=8192, renew=0.1),
        )
        appends = manager.append_as_follower

        def append(partition: int, epoch: int, batches: Any) -> int:
            end = appends(partition, epoch, batches)
            self.world.checker.appended(self.number, manager.leader_epoch(partition), batches)
            return end

        manager.append_as_follower = append  # type: ignore[method-assign]
        manager.listen_to_writes(lambda _: self.host.on_written() if self.host is not None else None)

    def stop(self, *, power: bool) -> None:
        """Dies: the disk keeps what was flushed, or with `power` off perhaps some more; else all that was written."""
        assert self.host is not None
        assert self.executor is not None
        self.executor.stop()
        self.host.stop()
        manager, self.manager, self.host = self.manager, None, None
        assert manager is not None
        if not self.fs.stopped:
            self.fs.stop()
        manager.abandon()
        target = self._root / f"node{self.number}-{self.life}"
        target.mkdir()
        if power:
            self.fs.materialize(str(target), self.world.scheduler.random.getrandbits(48))
        else:
            self.fs.materialize_all(str(target))
        shutil.rmtree(self.path)
        self.path = target
        del self.fs

    # ------------------------------------------------------------------------------------------------ the network port

    def fetch(self, leader: int, request: FetchRequest, answer: Any) -> None:
        world, life = self.world, self.life
        other = world.nodes[leader]

        def ask() -> None:
            if other.host is not None:
                other.host.on_fetch(request, reply)

        def reply(response: FetchResponse) -> None:
            world.checker.ships(response.records, response.leader_epoch)
            world.network.send(leader, self.number, "", lambda: take(response))

        def take(response: FetchResponse) -> None:
            if self.life == life and self.is_up:
                answer(response)

        world.network.send(self.number, leader, "", ask)

    def propose(self, partition: int, change: InSyncChange) -> None:
        self.world.network.send(self.number, CONTROLLER, "", lambda: self.world.controller.on_proposal(change))

    def renew(self, partition: int, leader_epoch: int, answer: Any) -> None:
        world, life = self.world, self.life

        def ask() -> None:
            length = world.controller.on_renew(self.number, leader_epoch)
            if length is not None:
                world.network.send(CONTROLLER, self.number, "", lambda: take(length))

        def take(length: int) -> None:
            if self.life == life and self.is_up:
                answer(length)

        world.network.send(self.number, CONTROLLER, "", ask)

    def failed(self, partition: int, failure: OffsetLogError) -> None:
        reason = str(failure).replace(f"{self._root}/", "")    # which no other run has
        self.world.scheduler.note(f"node {self.number} failed: {reason}")
        self.world.on_failed(self.number)

    def on_state(self, state: PartitionState) -> None:
        self.last_known = state
        if self.host is not None:
            self.host.on_state(state)

    def show_time(self) -> None:
        """The time of day goes on with the scheduler's."""
        self.clock.milliseconds = self.clock_ms + int(self.world.scheduler.now * 1000)

    @property
    def core(self) -> ManagerCore:
        assert self.manager is not None
        return self.manager._open_core
