"""The log manager: keeps positions in a log directory, whose partitions a broker leads, follows and replicates."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from offsetlog import arguments
from offsetlog._native import fetch_columns
from offsetlog._native.files import FileSystem
from offsetlog._native.manager_core import ManagerCore
from offsetlog._native.partition import Partition
from offsetlog._native.quotas import Quotas, check_client, client_name
from offsetlog._native.replica import Replica
from offsetlog._native.store_core import StoreCore
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.errors import LockedError, NotCoordinatorError, PartitionFailedError
from offsetlog.lifecycle.awaitable_tickets import TicketWaiter
from offsetlog.lifecycle.close import StoreCloser
from offsetlog.lifecycle.open_directory import open_writable
from offsetlog.lifecycle.open_partitions import OpenPartitions
from offsetlog.lifecycle.partition_opener import ReplicaOptions
from offsetlog.maintenance.retention import ClockGuard, Expirer, Retention
from offsetlog.maintenance.scheduler import Maintenance
from offsetlog.manager.cut_checkpoints import lower_checkpoints
from offsetlog.manager.executor import Executor, executors
from offsetlog.manager.flushes import Flushes, parkings
from offsetlog.manager.group_expiry import GroupExpiry
from offsetlog.manager.group_log import GroupLog
from offsetlog.manager.interface import (
    Capability,
    PartitionState,
    Pending,
    PendingCommit,
    Transition,
    Watch,
    WatchPosition,
)
from offsetlog.manager.leaderships import Leaderships, Role
from offsetlog.manager.leases import Leases
from offsetlog.manager.properties import Setting
from offsetlog.manager.refusals import checked_partition, closed
from offsetlog.manager.replica_partitions import ReplicaPartitions
from offsetlog.manager.replicas_in_use import ReplicasInUse
from offsetlog.manager.settings import ManagerSettings, from_properties
from offsetlog.manager.sweep import Sweeps
from offsetlog.manager.watches import Watches
from offsetlog.types import (
    Committed,
    EpochEnd,
    FileRange,
    Key,
    LogPositions,
    OffsetAndMetadata,
    OtherKey,
    PartitionKey,
    Position,
    TopicPartition,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from offsetlog._native.clocks import ManualClock
    from offsetlog.manager.interface import Durability

_NOTHING = OffsetAndMetadata(-1)


def create(properties: Mapping[str, Setting]) -> LogManager:
    """Makes a log manager from a broker's properties; the entry point "log" of `offsetlog.managers`."""
    return LogManager(from_properties(properties))


#: While a manager is started, these calls of its core replace the methods of the class.
_DIRECT = ("commit", "commit_async", "advance")


class LogManager:
    """Keeps positions in a log directory, in Kafka's own files; see OffsetManager for every call.

    Args:
        settings: the manager's settings.
        executor: runs loads, flushes and timers; the manager stops it.  With None, the manager uses threads of its
            own, on which no flush waits for a load.
        fs: the file system that the manager uses; None for that of the system.
        clock: returns the time of day; None for the system's clock.
        background: whether threads of the manager prepare segments and maintain the logs.

    Attributes:
        group_log: reads and writes the records of groups.  All attributes exist once the manager is started.
        directory: the log directory, for owners of other logs in the directory.
        maintenance_status, flush_times: the state of maintenance, and the durations of flushes.
    """

    def __init__(
        self,
        settings: ManagerSettings,
        *,
        executor: Executor | None = None,
        fs: FileSystem | None = None,
        clock: ManualClock | None = None,
        background: bool = True,
    ) -> None:
        self.settings = settings
        self._given_executor = executor
        self._fs = fs if fs is not None else FileSystem()
        self._clock = clock
        self._background = background
        self._lock = threading.Lock()
        self._started = self._stopped = False
        self._core: ManagerCore | None = None

    # ------------------------------------------------------------------------------------------- life

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All capabilities."""
        return frozenset(Capability)

    def start(self) -> None:
        """Locks the directory and opens the logs, but does not load them; see OffsetManager.start."""
        with self._lock:
            if self._stopped:
                raise closed(stopped=True)
            if not self._started:
                self._open()
                self._started = True

    def _open(self) -> None:
        settings = self.settings
        self.directory = directory = LogDirectory(settings.path, self._fs)
        try:
            count, self._owned = open_writable(
                directory,
                settings.store,
                settings.partitions,
                None,
                None,
                replication=ReplicaOptions(not settings.accept_while_loading, self._clock),
            )
            assert count is not None
            try:
                self._assemble(count)
            except BaseException:
                self._owned.abandon()
                raise
        except LockedError as failure:
            raise failure.advise("stop that process first: only one process may use a directory") from None
        except BaseException:
            directory.unlock()
            raise

    def _assemble(self, count: int) -> None:
        settings = self.settings
        waiter = TicketWaiter()
        self._executors = executors(self._given_executor, settings.load_threads)
        self._executor, flusher = self._executors
        clock, now = self._clock, self._executor.now
        guard = None if clock is None else ClockGuard(lambda: clock.milliseconds, lambda: int(now() * 1000))
        expirer = Expirer(Retention.of(settings.maintenance), guard)
        self._maintenance = Maintenance(self.directory, settings.maintenance, expirer, read_only=False)
        self._partitions = ReplicaPartitions(self._owned, self._check_leads, self._made)
        store = StoreCore(
            count,
            self._partitions,
            waiter,
            "process",
            settings.store.metadata_max_units,
            background=self._background,
            flush_interval_ms=settings.store.flush_interval_ms or 0,
        )
        self._for_watermark = parkings(count, self._executor, replicated=True)
        self._for_disk = parkings(count, self._executor, replicated=False)
        self._flushes = Flushes(
            flusher, self.replica, self.leader_epoch, self._for_disk, self._for_watermark
        )
        self._leases = Leases(count, self._executor.now)
        core = ManagerCore(
            store,
            settings.durability,
            settings.commit_timeout,
            settings.alone,
            settings.quotas.buckets(),
            self._settle,
            self._flushes.order,
            self._leases.check,
            for_watermark=self._for_watermark,
            for_disk=self._for_disk,
        )
        self._sweeps = Sweeps(
            core, self._executor, expirer, self._leads, self._owned.failure_of, self._leases.check
        )
        self._replicas = ReplicasInUse(core, self._owned, self._gave_up)
        self._leaderships = Leaderships(
            count,
            self._executor,
            self._replicas,
            alone=settings.alone,
            keep_table=settings.keep_table,
            warm=settings.warm_followers,
            ended=self._term_ended,
            attend=core.attend,
        )
        core.check_epoch = self._leaderships.check_epoch
        self._watches = Watches(
            self.directory,
            count,
            self._checked,
            self._watched_partition,
            store.number_of,
            core.listen_to_moves,
        )
        self._core = core
        self.group_log = GroupLog(core, self.directory)
        self.group_expiry = GroupExpiry(core, expirer, self._maintenance, self._sweeps)
        self.maintenance_status, self.flush_times = self._maintenance.status, self._flushes.times
        for partition in self._owned.all():
            self._replicas.use(Replica(partition))
        self._maintenance.attach(store, self._owned.all())
        self._closer = StoreCloser(self.directory, self._owned, waiter, self._maintenance, read_only=False)
        self._closer.watch(store)
        if self._background:
            self._closer.keep_checkpoints(store)
            self._maintenance.start()
        # A Python frame in between would cost more than the commit itself.
        vars(self).update({each: getattr(core, each) for each in _DIRECT})

    def stop(self) -> None:
        """Resigns all partitions and closes cleanly; see OffsetManager.stop."""
        core = self._taken_core()
        if core is None:
            return
        try:
            self._watches.close()
            self._leaderships.close()
            self._end_waits()
        finally:
            self._closer.close(core.core)

    def _taken_core(self) -> ManagerCore | None:
        with self._lock:
            core, self._core = self._core, None
            self._stopped = True
            # From now on, calls of this class report a stopped manager; the core would report a closed store.
            for each in _DIRECT:
                vars(self).pop(each, None)
            return core

    def _end_waits(self) -> None:
        failure = NotCoordinatorError(
            "the manager was stopped before the write was known to be durable; the write may still take effect"
        )
        for parking in (*self._for_watermark, *self._for_disk):
            parking.close(failure)
        # A running check for expired positions ends at its next group.
        self._maintenance.stop()
        for executor in self._executors:
            executor.stop()
        # If work was ordered but has not begun, it fails now, so that its callers get an answer.
        self._flushes.close()
        self._sweeps.close()

    def abandon(self) -> None:
        """Releases all resources without writing to a file, as if the process had ended."""
        core = self._taken_core()
        if core is None:
            return
        try:
            self._watches.close()
            self._leaderships.abandon()
            self._end_waits()
        finally:
            self._closer.abandon(core.core)

    def __repr__(self) -> str:
        started = "started" if self._core is not None else "not started"
        return f"<LogManager {self.settings.path} {'stopped' if self._stopped else started}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def open_core(self) -> ManagerCore:
        """The core, for callers that bypass the methods of this class; it raises their errors."""
        core = self._core
        if core is None:
            raise closed(stopped=self._stopped)
        return core

    @property
    def partitions(self) -> int:
        """The number of partitions of the offsets topic."""
        return self.open_core.core.count

    def partition_for(self, group: str) -> int:
        """Returns the log partition that keeps a group; see OffsetManager.partition_for."""
        return self.open_core.core.number_of(group)

    # ------------------------------------------------------------------------------------- partitions

    def _watched_partition(self, number: int) -> Partition | None:
        replica = self.open_core.replica(number)
        return None if replica is None else replica.partition

    def _made(self, partition: Partition) -> None:
        self._leaderships.introduce(partition)

    def _gave_up(self, number: int) -> None:
        # The failed log is opened again.  Writes that were already durable succeed; the others fail.
        failure = PartitionFailedError("the log partition failed before the write was known to be durable")
        self._maintenance.interrupt(number)
        for parking in (self._for_watermark[number], self._for_disk[number]):
            parking.settle()
            parking.refuse(failure)

    def _check_leads(self, number: int) -> None:
        self._leaderships.check_leads(number)

    def _leads(self, number: int) -> bool:
        return self._leaderships.role(number) is Role.LEADER

    def _checked(self, partition: int) -> int:
        return checked_partition(partition, self.open_core.core.count)

    def replica(self, partition: int) -> Replica | None:
        """Returns the replica, or None if the partition has no log yet.  Do not keep it, as it may be replaced."""
        return self.open_core.replica(self._checked(partition))

    # ------------------------------------------------------------------------------------- leadership

    def become_leader(self, partition: int, epoch: int) -> Transition:
        """Leads a partition; see OffsetManager.become_leader."""
        number = self._checked(partition)
        return self._leaderships.become_leader(number, arguments.checked_epoch(epoch, 0))

    def become_follower(self, partition: int, epoch: int) -> Transition:
        """Follows a leader; see OffsetManager.become_follower."""
        number = self._checked(partition)
        return self._leaderships.become_follower(number, arguments.checked_epoch(epoch, 0))

    def resign(self, partition: int, epoch: int) -> Transition:
        """Stops leading; see OffsetManager.resign."""
        number = self._checked(partition)
        return self._leaderships.resign(number, arguments.checked_epoch(epoch, 0))

    def state(self, partition: int) -> PartitionState:
        """Returns the state of a partition here; see OffsetManager.state."""
        number = self._checked(partition)
        return self._leaderships.state(number)

    def leader_epoch(self, partition: int) -> int:
        """Returns the newest known leader epoch; see OffsetManager.leader_epoch."""
        number = self._checked(partition)
        return self._leaderships.epoch(number)

    def require_replicas(self, partition: int, epoch: int, *, enough: bool) -> None:
        """Sets whether commits are admitted: `enough` tells whether `min.insync.replicas` replicas are in sync.

        If the epoch of a call is not the newest one known, the call has no effect.  Raises PartitionError, ClosedError.
        """
        if epoch == self.leader_epoch(partition):
            short = self.open_core.short_of_replicas
            change = short.discard if enough else short.add
            change(partition)

    def elected_end(self, partition: int) -> int:
        """Returns the log end that a leader had at its election; 0 if there was no log."""
        replica = self.replica(partition)
        return 0 if replica is None else replica.leadership.elected_end

    def is_electing(self, partition: int) -> bool:
        """Whether this replica leads, but the high watermark has not reached the log end of its election yet."""
        is_loading = self.state(partition) is PartitionState.LOADING
        return is_loading and self._leaderships.role(partition) is Role.LEADER

    def grant(self, partition: int, epoch: int, until: float) -> None:
        """Grants a lease: the partition answers fetches until a time, in seconds of the executor's clock.

        With leases (`offsetlog.replication.lease`), fetches are linearizable: a leader that lost its connections does
        not answer with positions that another leader has replaced.  If a partition has never been granted a lease, it
        always answers.  Once it has been granted a lease, it needs a new lease in each epoch.  If the epoch of a call
        is not the newest one known, the call has no effect.
        """
        if epoch == self.leader_epoch(partition):
            self._leases.grant(partition, until)

    def _term_ended(self, number: int) -> None:
        self.open_core.short_of_replicas.discard(number)
        self._leases.end(number)
        # Writes of the term that has ended are refused.
        self._for_watermark[number].settle()
        self._for_disk[number].settle()

    # -------------------------------------------------------------------------------- commits and W

    def commit(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, int | None] | None = None,
        monotonic: bool = False,
        generation: int | None = None,
        timeout: float | None = None,
        durability: Durability | None = None,
        client: str | None = None,
        principal: str | None = None,
    ) -> Position:
        """Commits positions of a group and waits for the answer; see OffsetManager.commit."""
        return self.open_core.commit(
            group,
            offsets,
            expected=expected,
            monotonic=monotonic,
            generation=generation,
            timeout=timeout,
            durability=durability,
            client=client,
            principal=principal,
        )

    def commit_async(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        *,
        expected: Mapping[OtherKey, int | None] | None = None,
        monotonic: bool = False,
        generation: int | None = None,
        timeout: float | None = None,
        durability: Durability | None = None,
        client: str | None = None,
        principal: str | None = None,
    ) -> PendingCommit:
        """Commits without waiting; see OffsetManager.commit_async."""
        return self.open_core.commit_async(
            group,
            offsets,
            expected=expected,
            monotonic=monotonic,
            generation=generation,
            timeout=timeout,
            durability=durability,
            client=client,
            principal=principal,
        )

    def _settle(self, number: int, watermark: int) -> None:
        # `disregard` comes first: commits that are parked from now on attend again.  If another thread moves W
        # meanwhile, that move is settled here, because that thread found no attendant.
        core = self.open_core
        replica = core.replica(number)
        parking = self._for_watermark[number]
        while replica is not None:
            core.disregard(number)
            parking.settle(watermark)
            waits = self._leaderships.settle(number)
            if not waits and len(parking) == 0:
                return
            core.attend(number)
            moved = replica.positions().watermark
            if moved == watermark:
                return
            watermark = moved

    def advance(self, partition: int, epoch: int, offset: int) -> int:
        """Moves the high watermark (W); see OffsetManager.advance."""
        return self.open_core.advance(partition, epoch, offset)

    def flush(self, partition: int) -> Transition:
        """Makes everything written so far durable; see OffsetManager.flush."""
        number = self._checked(partition)
        return self._flushes.flush(number)

    # ------------------------------------------------------------------------------ reading and deleting

    def fetch(
        self, group: str, partitions: Iterable[PartitionKey] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns committed positions; see OffsetManager.fetch."""
        core = self.open_core.core
        number = core.number_of(group)
        # Without its table, a partition raises CoordinatorLoadingError, but only a leader may raise this error.
        self._leaderships.check_leads(number)
        if partitions is None:
            found = fetch_columns.fetch_group(core, group)
        else:
            keys = arguments.listed_keys(partitions)
            known = fetch_columns.fetch_keys(core, group, keys)
            found = {key: known.get(key, _NOTHING) for key in keys}
        # Checked after the read, because this thread may have been suspended before the read until the lease ended.
        self._leases.check(number)
        return found

    def delete(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> int:
        """Deletes positions of a group; see OffsetManager.delete."""
        return self.open_core.delete(group, arguments.distinct_keys(partitions), timeout)

    def delete_async(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> Pending[int]:
        """Deletes positions without waiting; see OffsetManager.delete_async."""
        return self.open_core.delete_async(group, arguments.distinct_keys(partitions), timeout)

    def delete_group(self, group: str, *, timeout: float | None = None) -> int:
        """Deletes everything of a group without members; see OffsetManager.delete_group."""
        return self.open_core.delete_group(group, timeout)

    def delete_group_async(self, group: str, *, timeout: float | None = None) -> Pending[int]:
        """Deletes a group without waiting; see OffsetManager.delete_group_async."""
        return self.open_core.delete_group_async(group, timeout)

    def fence(
        self,
        group: str,
        offsets: Mapping[Key, Committed] | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        """Ends the group's generation, with offsets in the same batch; see OffsetManager.fence."""
        return self.open_core.fence(group, offsets, timeout)

    def fence_async(
        self,
        group: str,
        offsets: Mapping[Key, Committed] | None = None,
        *,
        timeout: float | None = None,
    ) -> Pending[int]:
        """Fences a group without waiting; see OffsetManager.fence_async."""
        return self.open_core.fence_async(group, offsets, timeout)

    # ------------------------------------------------------------------------------------- all partitions

    def groups(self) -> list[str]:
        """Returns the groups of the partitions that this process leads and has loaded, sorted.  Raises ClosedError."""
        return self._open_sweeps.groups()

    @property
    def _open_sweeps(self) -> Sweeps:
        _ = self.open_core
        return self._sweeps

    def expire(self, *, timeout: float | None = None) -> int:
        """Deletes expired positions; see OffsetManager.expire."""
        return self._open_sweeps.expire(timeout)

    def expire_async(self, *, timeout: float | None = None) -> Pending[int]:
        """Deletes expired positions on the manager's threads; see OffsetManager.expire_async."""
        return self._open_sweeps.expire_async(timeout)

    def on_topic_deleted(self, topics: Sequence[str], *, timeout: float | None = None) -> int:
        """Deletes the positions of deleted topics; see OffsetManager.on_topic_deleted."""
        return self._open_sweeps.removal(topics, timeout).run()

    def on_topic_deleted_async(self, topics: Sequence[str], *, timeout: float | None = None) -> Pending[int]:
        """Deletes positions on the manager's threads; see OffsetManager.on_topic_deleted_async."""
        return self._open_sweeps.begin(self._sweeps.removal(topics, timeout))

    def throttle(self, group: str, client: str | None = None, principal: str | None = None) -> float:
        """Returns the seconds until a commit is admitted; see OffsetManager.throttle."""
        quotas = self.open_core.quotas
        check_client(client, principal)
        return 0.0 if quotas is None else quotas.throttle(group, client_name(client, principal))

    @property
    def quotas(self) -> Quotas | None:
        """The token buckets for limits of single groups and clients; None if nothing is limited."""
        return self.open_core.quotas

    # ------------------------------------------------------------------------------------- replication

    def append_as_follower(self, partition: int, epoch: int, batches: Buffer) -> int:
        """Appends batches from the leader; see OffsetManager.append_as_follower."""
        given = arguments.checked_buffer(batches)
        self._checked(partition)
        return self._followed(partition, arguments.checked_epoch(epoch)).append(epoch, given)

    def _followed(self, partition: int, epoch: int) -> Replica:
        # A follower's directory is created when its leader sends the first batch.
        replica = self.replica(partition)
        if replica is None:
            self._leaderships.check_follows(partition, epoch)
            self._partitions.make_replica(partition)
            replica = self.replica(partition)
            assert replica is not None
        return replica

    def truncate_to(self, partition: int, epoch: int, offset: int) -> int:
        """Truncates a follower's log; see OffsetManager.truncate_to."""
        replica = self.replica(partition)
        arguments.checked_place(epoch, offset)
        if replica is None:
            self._leaderships.check_follows(partition, epoch)
            return 0
        # A truncation that is refused must change nothing, so it is checked first.
        replica.check_cut(epoch)
        with self.directory.cutting:
            self._prepare_cut(replica, offset)
            dropped = replica.truncate(epoch, offset)
        self._maintenance.cut(partition, replica.positions().log_end)
        self._term_ended(partition)
        if dropped:
            self._leaderships.order(partition)
        return replica.positions().log_end

    def restart_at(self, partition: int, epoch: int, offset: int) -> None:
        """Starts a follower's log again at an offset; see OffsetManager.restart_at."""
        self._checked(partition)
        arguments.checked_place(epoch, offset)
        replica = self._followed(partition, epoch)
        replica.check_cut(epoch)
        with self.directory.cutting:
            if offset >= replica.positions().log_end:
                self._prepare_cut(replica, 0)
            replica.restart_at(epoch, offset)
        self._maintenance.cut(partition, offset)
        self._term_ended(partition)
        self._leaderships.order(partition)

    def _prepare_cut(self, replica: Replica, offset: int) -> None:
        self._maintenance.cut(replica.partition.number, offset)
        lower_checkpoints(self.directory, replica.partition, offset)

    def positions(self, partition: int) -> LogPositions:
        """Returns log start, log end, flushed end, high watermark and applied end; see OffsetManager.positions."""
        replica = self.replica(partition)
        return LogPositions(0, 0, 0, 0, 0) if replica is None else replica.positions()

    def end_offset_for_epoch(self, partition: int, epoch: int) -> EpochEnd:
        """Returns where an epoch ends; see OffsetManager.end_offset_for_epoch."""
        replica = self.replica(partition)
        arguments.checked_epoch(epoch)
        return EpochEnd(-1, -1) if replica is None else replica.end_offset_for_epoch(epoch)

    def read_into(
        self,
        partition: int,
        offset: int,
        buffer: Buffer,
        *,
        epoch: int = -1,
        uncommitted: bool = False,
    ) -> int:
        """Reads whole batches into a buffer; see OffsetManager.read_into."""
        replica = self.replica(partition)
        given = arguments.checked_buffer(buffer, writable=True)
        arguments.checked_place(epoch, offset, -(2**63))  # an offset below 0 is refused by the log
        if replica is None:
            self._leaderships.check_read(partition, epoch, offset)
            return 0
        return replica.read_into(offset, given, epoch=epoch, uncommitted=uncommitted)

    def file_range(
        self,
        partition: int,
        offset: int,
        size_max: int,
        *,
        epoch: int = -1,
        uncommitted: bool = False,
    ) -> FileRange:
        """Returns a range of a file; see OffsetManager.file_range."""
        replica = self.replica(partition)
        arguments.checked_place(epoch, offset, -(2**63))
        arguments.checked_number("size_max", size_max, 0, 2**63 - 1)
        if replica is None:
            self._leaderships.check_read(partition, epoch, offset)
            return FileRange("", 0, 0)
        return replica.file_range(offset, size_max, epoch=epoch, uncommitted=uncommitted)

    def listen_to_writes(self, listener: object) -> None:
        """Sets a function that is called with the number of a partition after each write to it; None for none."""
        self.open_core.appended = listener  # type: ignore[assignment]

    # ------------------------------------------------------------------------------------------- watch

    def watch(
        self,
        groups: Iterable[str] | None = None,
        *,
        from_position: WatchPosition | None = None,
    ) -> Watch:
        """Watches changes of positions; see OffsetManager.watch."""
        _ = self.open_core  # raises if the manager is not started
        return self._watches.open(groups, from_position)

    @property
    def open_partitions(self) -> OpenPartitions:
        """The owner of the partitions, for inspection."""
        return self._owned
