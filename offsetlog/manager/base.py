"""A base class for managers of other storage: a database, a service, a file format of your own.

The class implements the rules of OffsetManager that do not depend on the storage: it starts and
stops the manager, tracks leadership, and checks arguments.  A subclass provides five short
methods, the hooks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from offsetlog import arguments
from offsetlog._native.codec import partition_for
from offsetlog._native.completion import Completion
from offsetlog.clock import wall_ms
from offsetlog.config import KAFKA_PARTITIONS_DEFAULT
from offsetlog.errors import (
    CapabilityError,
    ConfigError,
    NotCoordinatorError,
    OffsetLogError,
    StorageError,
)
from offsetlog.manager.checked_offsets import (
    checked_group,
    checked_key,
    checked_offsets,
    checked_timeout,
)
from offsetlog.manager.interface import (
    Capability,
    Durability,
    PartitionState,
    Pending,
    PendingCommit,
    Transition,
    Watch,
    WatchPosition,
)
from offsetlog.manager.refusals import checked_partition, closed, older_epoch
from offsetlog.manager.transition import PartitionTransition
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

T = TypeVar("T")
_NOTHING = OffsetAndMetadata(-1)
_DURABILITIES = ("process", "disk", "replicas")
_EPOCH_MAX = 2**31 - 1


class _Answered(Completion[T]):
    """An answer that is known when the asynchronous call returns it; see Pending."""

    def __init__(self, result: T) -> None:
        super().__init__()
        self.succeed(result)


class _AnsweredCommit(_Answered[Position]):
    """A commit whose answer is known when `commit_async` returns it; see PendingCommit."""

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self.position = position


class BaseOffsetManager:
    """A manager without capabilities over storage of its own; see OffsetManager for every call.

    A subclass implements the hooks `read`, `write` and `groups`.  If it has resources, it also
    implements `open` and `close`.  Only one hook is called at a time.  `read`, `write` and
    `groups` are called only while the manager is started.  If a hook raises an error of
    `offsetlog.errors`, the caller gets that error.  If a hook raises any other exception, the
    caller gets a StorageError with the exception as its cause.

    A subclass that can do more lists its abilities in `capabilities`.  If it declares METADATA,
    EPOCHS or TIMESTAMPS, it must store the fields of that capability.  Commits with a field of a
    capability that is not declared are refused, with one exception: a commit timestamp is ignored
    (Capability.TIMESTAMPS).  For any other capability, the subclass overrides the calls that need
    it.

    All calls are safe from any thread, and only one runs at a time.  Leadership is kept in memory:
    a partition is led as soon as `become_leader` returns.

    Args:
        partitions: the number of partitions of the offsets topic.
        metadata_max_units: the largest number of UTF-16 units in the metadata of a commit.
    """

    #: The features of this manager beyond committing, fetching, deleting and expiring.
    capabilities: frozenset[Capability] = frozenset()
    #: Whether `fetch` waits for another machine, so that AsyncOffsetManager calls it on a thread.
    fetch_waits = False

    def __init__(
        self, *, partitions: int = KAFKA_PARTITIONS_DEFAULT, metadata_max_units: int = 4096
    ) -> None:
        self._count = partitions
        self._metadata_max_units = metadata_max_units
        self._lock = threading.RLock()
        self._started = self._stopped = False
        self._states: dict[int, PartitionState] = {}
        self._transitions: dict[int, PartitionTransition] = {}

    # ------------------------------------------------------------------------------------ the hooks

    def open(self) -> None:
        """Acquires the resources of the manager; called by `start`."""

    def close(self) -> None:
        """Makes everything durable and releases the resources; called once by `stop` after a start."""

    def read(self, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Returns all positions of a group; an empty mapping if the group does not exist."""
        raise NotImplementedError

    def write(self, group: str, changes: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Stores the changes of a group's positions, either all or none; None deletes a position.

        The method must return only when the changes are as durable as the storage can make them.
        The manager answers the commit as soon as the method returns, whatever durability was
        requested.
        """
        raise NotImplementedError

    def groups(self) -> Iterable[str]:
        """Returns the groups that have positions."""
        raise NotImplementedError

    # ----------------------------------------------------------------------------------------- life

    def start(self) -> None:
        """Opens the storage; see OffsetManager.start."""
        with self._lock:
            if self._stopped:
                raise closed(stopped=True)
            if not self._started:
                self._hooked(self.open)
                self._started = True

    def stop(self) -> None:
        """Stops leading and closes the storage; see OffsetManager.stop."""
        with self._lock:
            is_open = self._started and not self._stopped
            self._stopped = True
            if is_open:
                self._hooked(self.close)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @contextmanager
    def _running(self) -> Iterator[None]:
        with self._lock:
            if self._stopped or not self._started:
                raise closed(stopped=self._stopped)
            yield

    @staticmethod
    def _hooked(hook: Callable[..., T], *given: Any) -> T:
        try:
            return hook(*given)
        except (OffsetLogError, NotImplementedError):
            raise
        except Exception as failure:
            text = f"{getattr(hook, '__name__', hook)} failed: {type(failure).__name__}: {failure}"
            raise StorageError(text) from failure

    @property
    def partitions(self) -> int:
        """The number of partitions of the offsets topic."""
        with self._running():
            return self._count

    def partition_for(self, group: str) -> int:
        """Returns the log partition that keeps a group; see OffsetManager.partition_for."""
        with self._running():
            return partition_for(checked_group(group), self._count)

    # ----------------------------------------------------------------------------------- leadership

    def become_leader(self, partition: int, epoch: int) -> Transition:
        """Leads a partition at once; see OffsetManager.become_leader."""
        return self._change(partition, epoch, PartitionState.ACTIVE)

    def become_follower(self, partition: int, epoch: int) -> Transition:
        """Leaves a partition to another process; see OffsetManager.become_follower."""
        return self._change(partition, epoch, PartitionState.FOLLOWER)

    def resign(self, partition: int, epoch: int) -> Transition:
        """Stops leading; see OffsetManager.resign."""
        return self._change(partition, epoch, PartitionState.UNLOADED)

    def state(self, partition: int) -> PartitionState:
        """Returns the state of a partition here; see OffsetManager.state."""
        with self._running():
            return self._states.get(self._numbered(partition), PartitionState.UNLOADED)

    def leader_epoch(self, partition: int) -> int:
        """Returns the newest leader epoch that is known; see OffsetManager.leader_epoch."""
        with self._running():
            last = self._transitions.get(self._numbered(partition))
            return -1 if last is None else last.epoch

    def _numbered(self, partition: int) -> int:
        return checked_partition(partition, self._count)

    def _change(self, partition: int, epoch: int, state: PartitionState) -> Transition:
        with self._running():
            number = self._numbered(partition)
            arguments.checked_number("the leader epoch", epoch, 0, _EPOCH_MAX)
            last, known = self._transitions.get(number), self.leader_epoch(number)
            if last is not None and epoch == known and state is self._states[number]:
                return last
            if epoch < known or (epoch == known and state is PartitionState.ACTIVE):
                is_above = state is PartitionState.ACTIVE
                raise older_epoch(number, epoch, known, must_be_above=is_above)
            transition = PartitionTransition(number, epoch, lambda: 1.0)
            self._states[number], self._transitions[number] = state, transition
            self._settle(transition)
            return transition

    def _settle(self, transition: PartitionTransition) -> None:
        """Completes a transition, now or later; the new state of the partition is already set."""
        transition.succeed(0)

    def _led(self, group: str) -> None:
        number = partition_for(checked_group(group), self._count)
        if self._states.get(number) is not PartitionState.ACTIVE:
            raise NotCoordinatorError(f"this process does not lead log partition {number}")

    # -------------------------------------------------------------------------------------- offsets

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
        """Commits positions of a group; see OffsetManager.commit.

        The storage has no log, so the Position that is returned has the log offset -1.
        """
        with self._running():
            if expected is not None or monotonic:
                self._lacks(Capability.CONDITIONS)
            if generation is not None:
                self._lacks(Capability.GENERATIONS)
            checked = self._checked_commit(group, offsets, timeout, durability)
            self._hooked(self.write, group, checked)
            return Position(partition_for(group, self._count), -1)

    def _checked_commit(
        self,
        group: str,
        offsets: Mapping[Key, Committed],
        timeout: float | None,
        durability: Durability | None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        checked_timeout(timeout)
        if durability is not None and durability not in _DURABILITIES:
            raise ConfigError(f"durability must be one of {_DURABILITIES}, not {durability!r}")
        self._led(group)
        checked = checked_offsets(offsets, self._metadata_max_units)
        return {key: self._kept(checked[key]) for key in checked}

    def _kept(self, value: OffsetAndMetadata) -> OffsetAndMetadata:
        if value.metadata and Capability.METADATA not in self.capabilities:
            self._lacks(Capability.METADATA)
        if value.leader_epoch != -1 and Capability.EPOCHS not in self.capabilities:
            self._lacks(Capability.EPOCHS)
        if value.expire_timestamp != -1 and Capability.TIMESTAMPS not in self.capabilities:
            self._lacks(Capability.TIMESTAMPS)
        if value.commit_timestamp >= 0 and Capability.TIMESTAMPS in self.capabilities:
            return value
        return value._replace(commit_timestamp=wall_ms())

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
        """Commits before the call returns, so it blocks an event loop for as long as `write` takes.

        Override this method if the storage can be written to without waiting; see
        OffsetManager.commit_async.
        """
        position = self.commit(
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
        return _AnsweredCommit(position)

    def fetch(
        self, group: str, partitions: Iterable[PartitionKey] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns committed positions; see OffsetManager.fetch."""
        keys = None if partitions is None else arguments.listed_keys(partitions)
        with self._running():
            self._led(group)
            asked = None if keys is None else [checked_key(key) for key in keys]
            found = self._hooked(self.read, group)
            if asked is None:
                return dict(found)
            return {key: found.get(key, _NOTHING) for key in asked}

    def delete(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> int:
        """Deletes positions of a group; see OffsetManager.delete."""
        keys = arguments.listed_keys(partitions)
        with self._running():
            checked_timeout(timeout)
            self._led(group)
            asked = {checked_key(key) for key in keys}
            return self._remove(group, asked.intersection(self._hooked(self.read, group)))

    def delete_group(self, group: str, *, timeout: float | None = None) -> int:
        """Deletes everything of a group, whether or not it has members."""
        with self._running():
            checked_timeout(timeout)
            self._led(group)
            return self._remove(group, self._hooked(self.read, group))

    def _remove(self, group: str, keys: Iterable[TopicPartition]) -> int:
        gone = dict.fromkeys(keys)
        if gone:
            self._hooked(self.write, group, gone)
        return len(gone)

    def expire(self, *, timeout: float | None = None) -> int:
        """Deletes nothing, because this class has no retention; see OffsetManager.expire."""
        with self._running():
            checked_timeout(timeout)
            return 0

    def on_topic_deleted(self, topics: Sequence[str], *, timeout: float | None = None) -> int:
        """Deletes the positions of deleted topics; see OffsetManager.on_topic_deleted."""
        gone = frozenset(arguments.listed_topics(topics))
        deleted = 0
        with self._running():
            checked_timeout(timeout)
            for group in list(self._hooked(self.groups)):
                if self.state(partition_for(group, self._count)) is PartitionState.ACTIVE:
                    found = self._hooked(self.read, group)
                    deleted += self._remove(group, [key for key in found if key[0] in gone])
        return deleted

    def throttle(
        self, group: str, client: str | None = None, principal: str | None = None
    ) -> float:
        """Returns 0.0: nothing is limited."""
        with self._running():
            return 0.0

    # ---------------------------------------------------- awaitable, and answered when they return

    def delete_async(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> Pending[int]:
        """Deletes positions before the call returns; see OffsetManager.delete_async."""
        return _Answered(self.delete(group, partitions, timeout=timeout))

    def delete_group_async(self, group: str, *, timeout: float | None = None) -> Pending[int]:
        """Deletes a group before the call returns; see OffsetManager.delete_group_async."""
        return _Answered(self.delete_group(group, timeout=timeout))

    def fence_async(
        self,
        group: str,
        offsets: Mapping[Key, Committed] | None = None,
        *,
        timeout: float | None = None,
    ) -> Pending[int]:
        """Fences a group before the call returns; see OffsetManager.fence_async."""
        return _Answered(self.fence(group, offsets, timeout=timeout))

    def expire_async(self, *, timeout: float | None = None) -> Pending[int]:
        """Expires positions before the call returns; see OffsetManager.expire_async."""
        return _Answered(self.expire(timeout=timeout))

    def on_topic_deleted_async(
        self, topics: Sequence[str], *, timeout: float | None = None
    ) -> Pending[int]:
        """Deletes positions before the call returns; see OffsetManager.on_topic_deleted_async."""
        return _Answered(self.on_topic_deleted(topics, timeout=timeout))

    # ---------------------------------------------------------------------- what needs a capability

    def _lacks(self, capability: Capability) -> NoReturn:
        kind = type(self).__name__
        raise CapabilityError(f"{kind} does not have the capability {capability.value!r}")

    def _refuse(self, capability: Capability) -> NoReturn:
        with self._running():
            self._lacks(capability)

    def fence(
        self,
        group: str,
        offsets: Mapping[Key, Committed] | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        """Raises CapabilityError: the call needs GENERATIONS."""
        self._refuse(Capability.GENERATIONS)

    def watch(
        self, groups: Iterable[str] | None = None, *, from_position: WatchPosition | None = None
    ) -> Watch:
        """Raises CapabilityError: the call needs WATCH."""
        self._refuse(Capability.WATCH)

    def append_as_follower(self, partition: int, epoch: int, batches: Buffer) -> int:
        """Raises CapabilityError: the call needs REPLICATION."""
        self._refuse(Capability.REPLICATION)

    def advance(self, partition: int, epoch: int, offset: int) -> int:
        """Raises CapabilityError: the call needs REPLICATION."""
        self._refuse(Capability.REPLICATION)

    def truncate_to(self, partition: int, epoch: int, offset: int) -> int:
        """Raises CapabilityError: the call needs REPLICATION."""
        self._refuse(Capability.REPLICATION)

    def restart_at(self, partition: int, epoch: int, offset: int) -> None:
        """Raises CapabilityError: the call needs REPLICATION."""
        self._refuse(Capability.REPLICATION)

    def read_into(
        self,
        partition: int,
        offset: int,
        buffer: Buffer,
        *,
        epoch: int = -1,
        uncommitted: bool = False,
    ) -> int:
        """Raises CapabilityError: the call needs REPLICATION."""
        self._refuse(Capability.REPLICATION)

    def file_range(
        self,
        partition: int,
        offset: int,
        size_max: int,
        *,
        epoch: int = -1,
        uncommitted: bool = False,
    ) -> FileRange:
        """Raises CapabilityError: the call needs REPLICATION."""
        self._refuse(Capability.REPLICATION)

    # --------------------------------------------------------------- what is answered without a log

    def flush(self, partition: int) -> Transition:
        """Returns a transition that has ended, because every write is already durable."""
        with self._running():
            done = PartitionTransition(
                self._numbered(partition), self.leader_epoch(partition), float
            )
            done.succeed(0)
            return done

    def positions(self, partition: int) -> LogPositions:
        """Returns zeros, because the manager has no log."""
        with self._running():
            self._numbered(partition)
            return LogPositions(0, 0, 0, 0, 0)

    def end_offset_for_epoch(self, partition: int, epoch: int) -> EpochEnd:
        """Returns (-1, -1), because the manager has no log."""
        with self._running():
            self._numbered(partition)
            return EpochEnd(-1, -1)
