"""One replica: a disk that can lose what was not flushed, a log manager, and its replica host."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

from tests.faults.fault_fs import FaultFileSystem

from offsetlog._native.clocks import ManualClock
from offsetlog._native.manager_core import ManagerCore
from offsetlog._native.partition import Partition
from offsetlog.config import MaintenanceConfig, StoreConfig
from offsetlog.directory.log_bounds import checkpoint_bounds
from offsetlog.errors import NotCoordinatorError, OffsetLogError
from offsetlog.maintenance import policy
from offsetlog.maintenance.cleaning import LogCleaner
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.replica_host import HostConfig, ReplicaHost
from offsetlog.manager.settings import ManagerSettings
from offsetlog.replication.in_sync import InSyncConfig
from offsetlog.replication.messages import FetchRequest, FetchResponse, InSyncChange, PartitionState
from offsetlog.types import LogPositions
from tests.simulation.network import CONTROLLER
from tests.simulation.scheduler import NodeExecutor
from tests.simulation.truth import Violation

PARTITION = 0
EPOCH_MS = 1_700_000_000_000
#: Positions expire after two simulated seconds.
RETENTION_MS = 2_000
CHECKPOINT_SECONDS = 0.8
#: A replica that lacks a tombstone when it is cleaned away never hears of it, as in Kafka: it has
#: to come back within this time, and the clocks jump by days.
TOMBSTONE_MS = 90 * 86_400_000
MAINTENANCE = MaintenanceConfig(enabled=False, retention_ms=RETENTION_MS)


def settings(path: Path, *, accept: bool, min_insync: int) -> ManagerSettings:
    return ManagerSettings(
        path=path,
        partitions=1,
        replication_factor=3,
        min_insync_replicas=min_insync,
        accept_while_loading=accept,
        commit_timeout=0.001,   # nobody may wait on the one thread
        store=StoreConfig(
            segment_bytes=16384,
            batch_bytes_max=4096,
            extend_bytes_min=4096,
            extend_bytes_max=16384,
        ),
        maintenance=MAINTENANCE,
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
        #: The log offset up to which the replica has reported the disk to hold its log, less later cuts.
        self._kept = 0
        #: W of its present life, which does not go back but with a truncation.
        self._watermark = 0
        #: Whether its next life begins with a cut of its log below W, as after a repair.
        self.rewinds = False
        #: Calls of its manager as they are, by name, where they are watched.
        self.unwatched: dict[str, Any] = {}

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
        self._watermark = 0
        self.fs = FaultFileSystem(str(self.path))
        self.executor = NodeExecutor(self.world.scheduler, f"node{self.number}")
        self.clock = ManualClock(0)
        self.show_time()
        manager = LogManager(
            settings(
                self.path, accept=self.world.accepts, min_insync=self.world.min_insync
            ),
            executor=self.executor,
            fs=self.fs,
            clock=self.clock,
            background=False,
        )
        manager.start()
        self.manager = manager
        if self.life == 1 and self.world.begins_at > 0:
            # As after a clean-up of the oldest segments.
            manager.become_follower(PARTITION, 0)
            manager.restart_at(PARTITION, 0, self.world.begins_at)
        end = manager.positions(PARTITION).log_end
        if end < self._kept:
            raise Violation(f"node {self.number} lost what was on disk: {end} to {self._kept}")
        self.host = ReplicaHost(
            manager,
            PARTITION,
            self.number,
            self.life,
            (0, 1, 2),
            self,
            self.executor,
            InSyncConfig(
                min_insync_replicas=self.world.min_insync,
                lag_time_max_ms=1500,
                join_wait_ms=300,
                proposal_backoff_ms=200,
            ),
            HostConfig(fetch_wait=0.05, retry=0.2, tick=0.3, fetch_bytes=4096, renew=0.1),
        )
        self._listen(manager)
        self._keep_checkpoints()
        if self.rewinds:
            self._rewind(manager)

    def _rewind(self, manager: LogManager) -> None:
        self.rewinds = False
        with contextlib.suppress(OffsetLogError):       # it failed, or has no log
            epoch, partition = max(0, manager.leader_epoch(PARTITION)), self._partition
            manager.become_follower(PARTITION, epoch)
            manager._replicas.load(partition)
            positions = manager.positions(PARTITION)
            offset = self.world.scheduler.random.randint(positions.log_start, positions.watermark)
            manager.truncate_to(PARTITION, epoch, offset)
            self.world.scheduler.note(f"node {self.number} is cut back to {offset}")
            self.world.coverage["rewind", self.role] += 1

    def _listen(self, manager: LogManager) -> None:
        appends, truncates, restarts = (
            manager.append_as_follower,
            manager.truncate_to,
            manager.restart_at,
        )

        def truncate(partition: int, epoch: int, offset: int) -> int:
            self._kept = min(self._kept, offset)
            end = truncates(partition, epoch, offset)
            self._kept = min(self._kept, end)
            self._watermark = min(self._watermark, end)
            self.world.coverage["truncation", self.role] += 1
            return end

        def restart(partition: int, epoch: int, offset: int) -> None:
            self._kept = 0
            restarts(partition, epoch, offset)
            self.world.coverage["new start", self.role] += 1

        def append(partition: int, epoch: int, batches: Any) -> int:
            end = appends(partition, epoch, batches)
            self.world.checker.appended(self.number, manager.leader_epoch(partition), batches)
            return end

        self.unwatched = {
            "append_as_follower": appends,
            "truncate_to": truncates,
            "restart_at": restarts,
        }
        watched = {"append_as_follower": append, "truncate_to": truncate, "restart_at": restart}
        vars(manager).update(watched)
        manager.listen_to_writes(lambda _: self.host.on_written() if self.host is not None else None)

    def reported(self, positions: LogPositions) -> None:
        """The replica has said what is on disk, which no loss of power may take, and its W."""
        self._kept = max(self._kept, positions.flushed)
        if positions.watermark < self._watermark:
            raise Violation(f"W of node {self.number} went back from {self._watermark}")
        self._watermark = positions.watermark

    @property
    def is_active(self) -> bool:
        """Whether it leads, and answers."""
        partition = None if self.manager is None else self.core.core.partition(PARTITION)
        return partition is not None and partition.role == "active"

    def _keep_checkpoints(self) -> None:
        # A thread of the manager does this each minute.
        assert self.executor is not None
        if self.manager is not None:
            with contextlib.suppress(OffsetLogError):
                checkpoint_bounds(self.manager.directory, self.core.core.attached(wait=False))
        self.executor.call_later(CHECKPOINT_SECONDS, self._keep_checkpoints)

    def clean(self) -> bool:
        """Cleans the log; returns whether anything was done.  Raises OffsetLogError."""
        cleaner, partition = self._cleaner(), self._partition
        plan = policy.decide_asked(
            cleaner.inspect(partition), MAINTENANCE, self.clock.milliseconds, roll=True
        )
        if plan.action == "none":
            return False
        cleaner.clean(partition, plan, delete_retention_ms=TOMBSTONE_MS)
        return True

    def snapshot(self) -> None:
        """Writes a snapshot.  Raises OffsetLogError."""
        self._cleaner().snapshot(self._partition)

    @property
    def _partition(self) -> Partition:
        partition = self.core.core.partition(PARTITION)
        if partition is None:
            raise NotCoordinatorError("there is no log yet")
        return partition

    def _cleaner(self) -> LogCleaner:
        # One for each run: it remembers times of the real clock.
        assert self.manager is not None
        self.show_time()
        clock = self.clock
        return LogCleaner(self.manager.directory, MAINTENANCE, lambda: clock.milliseconds)

    def replace_disk(self) -> None:
        """The disk of a node that is down is replaced by an empty one."""
        shutil.rmtree(self.path)
        self.path.mkdir()
        self._kept = 0

    def stop_cleanly(self) -> None:
        """Ends its process as an operator does."""
        assert self.manager is not None
        with contextlib.suppress(OffsetLogError):   # its disk is full, or has failed
            self.manager.stop()
        self.stop(power=False)

    def stop(self, *, power: bool) -> None:
        """Dies: the disk keeps what was flushed, or with `power` off perhaps some more; else all that was written."""
        assert self.executor is not None
        self.executor.stop()
        if self.host is not None:
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

        world.late.fetches.append((leader, request))

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
        self.world.late.proposals.append(change)
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

    def on_state(self, life: int, state: PartitionState) -> None:
        """The controller's word for a life of this process, which had registered before."""
        if self.host is not None and self.life == life:
            self.host.on_state(state)

    def show_time(self) -> None:
        """The time of day goes on with the scheduler's."""
        self.clock.milliseconds = self.clock_ms + int(self.world.scheduler.now * 1000)

    @property
    def core(self) -> ManagerCore:
        assert self.manager is not None
        return self.manager.open_core
