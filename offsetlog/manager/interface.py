"""The interface of an offset manager, which a broker process calls to keep its consumers' positions.

The broker decides on leadership and replicates the partitions of its offsets topic.  The manager keeps the positions.

All calls can be made from any thread.  Errors are those of `offsetlog.errors`.  Each error has `error_code`, the number
with which a coordinator answers a client, and `retriable`.  A call that raises has changed nothing, unless its
description says otherwise.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar, runtime_checkable

from offsetlog.types import (
    Committed,
    EpochEnd,
    FileRange,
    Key,
    LogGap,
    LogPositions,
    OffsetAndMetadata,
    OtherKey,
    PartitionKey,
    Position,
    PositionChange,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Buffer

#: When a commit is answered: once it is in the page cache, flushed by this process, or below the high watermark.
Durability = Literal["process", "disk", "replicas"]

#: Where a watch continues: by log partition, the leader epoch and the log offset after the last change seen.
WatchPosition = Mapping[int, tuple[int, int]]


class Capability(enum.Enum):
    """A feature that not every manager has; managers cannot add others.

    A call that needs a missing capability raises CapabilityError.
    """

    #: Metadata of a commit is kept and returned.
    METADATA = "metadata"
    #: The leader epoch of a commit is kept and returned.
    EPOCHS = "epochs"
    #: The commit and expiry timestamps of a commit are kept and returned.  Without this capability, the time of a
    #: position is when the storage wrote it, whatever commit timestamp was given, and a commit with an expiry timestamp
    #: is refused.
    TIMESTAMPS = "timestamps"
    #: The conditions `expected=` and `monotonic=` of a commit.
    CONDITIONS = "conditions"
    #: The condition `generation=` of a commit, and the call `fence`.
    GENERATIONS = "generations"
    #: The log keeps earlier commits, for offsetlog's calls about the past.
    HISTORY = "history"
    #: Leadership, followers and W (the high watermark): `append_as_follower`, `advance` and the related calls.
    REPLICATION = "replication"
    #: The call `watch`.
    WATCH = "watch"


class PartitionState(enum.Enum):
    """The state of a log partition at one replica."""

    #: No leader is known: the host has not named one yet, or the replica resigned.
    UNLOADED = "unloaded"
    #: The replica leads, but W has not reached the log end of its election yet, or the table is being loaded.
    LOADING = "loading"
    #: The replica leads and answers.
    ACTIVE = "active"
    #: Another replica leads.
    FOLLOWER = "follower"
    #: A failure left the log or the table in an unknown state.  A manager that is later started on the directory
    #: recovers it.
    FAILED = "failed"


T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Pending(Protocol[T_co]):
    """The future answer of a call whose name ends in `_async`.

    The answer comes once.  A wait that ends early, by its timeout or because its task ends, changes nothing: the write
    stays, and the answer can be waited for again.
    """

    def done(self) -> bool:
        """Whether the answer has come."""

    def result(self, timeout: float | None = None) -> T_co:
        """Waits for the answer, at most `timeout` seconds, and returns or raises it.

        Raises:
            CommitTimeoutError: no answer came in time; nothing is undone, and the write may still become durable.
            NotCoordinatorError: leadership ended first, or the manager was stopped; the next leader
                decides whether the write stays.
            PartitionFailedError, StorageError: the flush failed.
            Also the errors of the call.
        """

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Calls the callback with this object once the answer has come; at once if it has come already.

        The answering thread calls it, so it must not block.  Its exceptions are logged.
        """

    def __await__(self) -> Generator[Any, None, T_co]:
        """Waits like `result` without a timeout, in the running event loop."""


@runtime_checkable
class Transition(Protocol):
    """A running change of leadership, or a running flush; returned at once by `become_leader` and similar calls.

    A transition ends once: it is done, has failed, or is superseded by a later change.  `await transition` and `result`
    wait for its end; neither cancels it.
    """

    @property
    def partition(self) -> int:
        """The log partition."""

    @property
    def epoch(self) -> int:
        """The leader epoch to which the transition belongs."""

    @property
    def progress(self) -> float:
        """Progress from 0 to 1: the part of the log that has been read."""

    def done(self) -> bool:
        """Whether the transition has ended."""

    def result(self, timeout: float | None = None) -> int:
        """Waits for the end, at most `timeout` seconds; returns the log end, or the flushed end for a flush.

        Raises:
            CommitTimeoutError: the transition has not ended in time; it continues.
            FencedLeaderEpochError: a later change superseded it.
            OffsetLogError: the transition failed.
        """

    def add_done_callback(self, callback: Callable[[Transition], object]) -> None:
        """Calls the callback with this object once it ends, on the thread that ends it; at once if it has ended."""

    def __await__(self) -> Generator[Any, None, int]:
        """Waits like `result`, in the running event loop."""


@runtime_checkable
class PendingCommit(Pending[Position], Protocol):
    """A commit that is written but not answered yet; from `commit_async`."""

    @property
    def position(self) -> Position:
        """The position of the commit in the log."""


@runtime_checkable
class Watch(Protocol):
    """Reports changes of committed positions, from a given log offset in each log on, in the order of that log.

    A change is reported as soon as it is below W.  Every replica that has the log reports it, so a watch continues when
    leadership moves.  Changes that cannot be reported are replaced by a LogGap.  Nothing is reported twice, not even by
    a later watch that continues from `position`.

    Only one thread at a time may read a watch; any thread may call `close` and `position`.
    """

    @property
    def position(self) -> dict[int, tuple[int, int]]:
        """Where a later watch continues after everything returned so far; plain integers that can be stored.

        By log partition, a pair of leader epoch and log offset; (-1, 0) for a log without records.
        """

    def poll(
        self, timeout: float | None = 0.0, max_changes: int = 500
    ) -> list[PositionChange | LogGap]:
        """Waits for changes and returns them; an empty list after the timeout.

        Args:
            timeout: seconds; 0 does not wait, None waits without limit.
            max_changes: the approximate number of changes returned; the values of one transaction stay together.

        Raises:
            ClosedError: the watch or its manager was closed.
            StorageError, CapacityError, PartitionFailedError: one log failed; repeat the call to continue.  The other
                logs are read, too.
            InvalidArgumentError.
        """

    def poll_arrow(
        self, timeout: float | None = 0.0, max_changes: int = 65_536
    ) -> list[pyarrow.RecordBatch | LogGap]:
        """Returns changes like `poll`, but as Arrow batches with columns named after PositionChange's fields.

        A row without an `offset` is a deletion.  Raises the same errors as `poll`.
        """

    def __iter__(self) -> Iterator[PositionChange | LogGap]:
        """Yields changes until the watch is closed."""

    def __aiter__(self) -> AsyncIterator[PositionChange | LogGap]:
        """Yields changes in the running event loop, without a thread."""

    def close(self) -> None:
        """Ends the watch, and wakes a waiting thread.  A second call does nothing."""

    def __enter__(self) -> Self:
        """Returns the watch."""

    def __exit__(self, *_: object) -> None:
        """Closes the watch."""


@runtime_checkable
class OffsetManager(Protocol):
    """Keeps the committed positions of the consumer groups of one broker."""

    # ------------------------------------------------------------------------------------------- life

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The features of this manager beyond committing, fetching, deleting and expiring."""

    @property
    def partitions(self) -> int:
        """The number of partitions of the offsets topic."""

    def start(self) -> None:
        """Acquires files, locks and connections.  Before the start, every call but `stop` raises ClosedError.

        Raises:
            LockedError, StorageError, CorruptionError, ConfigError, PartitionCountError.
        """

    def stop(self) -> None:
        """Resigns all partitions, fails waiting calls with NotCoordinatorError, makes everything durable, and closes.

        A second call does nothing.  The manager cannot be started again.
        """

    def partition_for(self, group: str) -> int:
        """Returns the log partition that keeps a group, by Java's hash (docs/format/partitioning.md).

        Raises:
            GroupError: the name cannot be stored.
        """

    # ------------------------------------------------------------------------------------- leadership

    def become_leader(self, partition: int, epoch: int) -> Transition:
        """Leads a partition, and loads it if it is not loaded.

        The partition answers once it is loaded and W has reached the current log end; until then, fetches raise
        CoordinatorLoadingError.  If the call is repeated, it returns the same transition.  A failed partition is first
        opened again, as after a crash.  If the open or the load fails or finds damage, the transition fails, and the
        partition stays failed until the next epoch.

        Raises:
            FencedLeaderEpochError: the epoch is not above the newest one known.
            CorruptionError, StorageError: a record above W cannot be read, or the epoch cannot be stored.  Even so,
                leadership in an earlier epoch has ended.  The call can be repeated.
            ReadOnlyError, PartitionFailedError, PartitionError, ClosedError.
        """

    def become_follower(self, partition: int, epoch: int) -> Transition:
        """Follows a leader; waiting commits and deletes raise NotCoordinatorError.

        The table is kept, loaded or dropped as configured.  If the partition has failed, and the epoch is above the
        newest one known, the partition is opened again, as by `become_leader`; until it is open, its log refuses the
        leader's batches.

        Raises:
            FencedLeaderEpochError: the epoch is older than the newest one known.
            PartitionFailedError: the partition has failed, and the epoch is not newer.
            PartitionError, ClosedError.
        """

    def resign(self, partition: int, epoch: int) -> Transition:
        """Stops leading when no new leader is known.  The log stays; the table is kept or dropped as configured.

        Raises:
            FencedLeaderEpochError: the epoch is older than the newest one known.
            PartitionError, ClosedError.
        """

    def state(self, partition: int) -> PartitionState:
        """Returns the state of a partition in this process.  Raises PartitionError, ClosedError."""

    def leader_epoch(self, partition: int) -> int:
        """Returns the newest known leader epoch; -1 if none is known.  Raises PartitionError, ClosedError."""

    # ---------------------------------------------------------------------------------------- offsets

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
        """Commits positions of a group, all or none, and waits until they are as durable as requested.

        The leader epoch in a position is stored as given and returned (docs/format/leader-epochs.md §12.1); it is never
        checked.

        Args:
            group: the consumer group.
            offsets: the positions to commit.
            expected: by key, the offset that must be committed now; None if the key must have no position.
            monotonic: whether to write nothing if any offset would be lowered.
            generation: the generation that the group must have now; with -1, the group must have no members; None is
                not checked.
            timeout: seconds to wait; None is the configured timeout.  A commit that times out is not undone.
            durability: how durable the commit must be before the answer; None is the configured durability.
            client: the client id, for quotas.
            principal: the user, for quotas: clients with the same id share a quota only if they have the same user.

        A condition may fail because of a position that is not replicated yet.  In that case the error is raised only
        once that position is replicated; if the position is truncated instead, NotCoordinatorError is raised.

        Raises:
            NotCoordinatorError: this process does not lead the group's partition, or stopped leading before the answer;
                in the second case the commit may or may not stay.
            CoordinatorLoadingError: the partition is being loaded, and either the commit needs its table, or the
                settings refuse commits during loads.
            GenerationError, ExpectedOffsetError, RewindError: the condition does not hold; nothing was written.
            ThrottledError: a quota is used up; nothing was written.
            CommitTimeoutError: the commit was not answered in time; it may still take effect.
            CapabilityError: `expected` or `monotonic` without CONDITIONS, `generation` without GENERATIONS, or a
                value with a field that the manager does not keep.
            InvalidArgumentError or a subclass: an argument is invalid; nothing was written.
            NotEnoughReplicasError, ReadOnlyError, PartitionFailedError, StorageError, TooLargeError, CapacityError,
            ClosedError.
        """

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
        """Commits without blocking, and without a thread that waits: the result can be awaited or takes callbacks.

        The commit has been written when the call returns.  Raises the errors of `commit`; the result raises those that
        are known only later.
        """

    def fetch(
        self, group: str, partitions: Iterable[PartitionKey] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the committed positions of the given keys, with offset -1 for a key without one; without keys, all.

        Raises:
            NotCoordinatorError, CoordinatorLoadingError, PartitionFailedError, InvalidArgumentError, ClosedError.
        """

    def delete(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> int:
        """Deletes positions of a group; returns how many existed.

        If none exists, the call still waits for all earlier writes to the group's log partition, because one of them
        may be a delete that is truncated.

        Raises the errors of `commit`.
        """

    def delete_async(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> Pending[int]:
        """Deletes without waiting, like `commit_async`; the result is that of `delete`."""

    def delete_group(self, group: str, *, timeout: float | None = None) -> int:
        """Deletes everything of a group; returns the number of records written; 0 if the group does not exist.

        Raises:
            GroupNotEmptyError: the group has members.
        Also the errors of `commit`.
        """

    def delete_group_async(self, group: str, *, timeout: float | None = None) -> Pending[int]:
        """Deletes without waiting, like `commit_async`; the result is that of `delete_group`."""

    def fence(
        self,
        group: str,
        offsets: Mapping[Key, Committed] | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        """Ends the group's generation and sets offsets in the same batch, to reset a running group.

        From then on, commits and heartbeats of the group's members are refused.  The members join again and read the
        offsets.

        Returns:
            The new generation.

        Raises the errors of `commit`.
        """

    def fence_async(
        self,
        group: str,
        offsets: Mapping[Key, Committed] | None = None,
        *,
        timeout: float | None = None,
    ) -> Pending[int]:
        """Fences without waiting, like `commit_async`; the result is that of `fence`."""

    def expire(self, *, timeout: float | None = None) -> int:
        """Deletes expired positions in the partitions that this process leads; returns their number.

        The call returns once the deletions are as durable as configured.  `timeout`, in seconds, limits only this last
        wait; None is the configured timeout.  If a partition fails, the others are still handled, and the first failure
        is raised at the end.

        Raises:
            ClockError: the clock cannot be right; nothing was deleted.
            Also the errors of `commit`; in that case, some positions may have been deleted.
        """

    def expire_async(self, *, timeout: float | None = None) -> Pending[int]:
        """Runs `expire` on the manager's threads, one partition at a time; the result is that of `expire`.

        Raises:
            ClockError: the clock cannot be right; nothing was deleted.
            ClosedError.
        """

    def on_topic_deleted(self, topics: Sequence[str], *, timeout: float | None = None) -> int:
        """Deletes positions of deleted topics in the partitions that this process leads; returns their number.

        Waits like `expire`, and raises the same errors except ClockError.  The call can be repeated.

        Raises:
            CoordinatorLoadingError: a partition is being loaded and was skipped.
        """

    def on_topic_deleted_async(
        self, topics: Sequence[str], *, timeout: float | None = None
    ) -> Pending[int]:
        """Runs `on_topic_deleted` on the manager's threads, like `expire_async`; the result is the same."""

    def throttle(
        self, group: str, client: str | None = None, principal: str | None = None
    ) -> float:
        """Returns the seconds after which a commit of the group and client is admitted; 0.0 if it is admitted now."""

    # ------------------------------------------------------------------------------------ replication

    def append_as_follower(self, partition: int, epoch: int, batches: Buffer) -> int:
        """Appends whole batches, whose offsets the leader of the epoch has assigned; returns the log end.

        Raises:
            FencedLeaderEpochError, UnknownLeaderEpochError: the epoch is not the one that this replica follows, or this
                process leads.
            CorruptionError: the bytes are not batches, or the batches do not continue the log.
            CapabilityError, StorageError, PartitionFailedError, ReadOnlyError, PartitionError, ClosedError.
        """

    def advance(self, partition: int, epoch: int, offset: int) -> int:
        """Moves W to min(offset, log end), but never back; applies the records below W and answers their commits.

        Returns:
            W.

        Raises:
            FencedLeaderEpochError, UnknownLeaderEpochError, PartitionFailedError, PartitionError, ClosedError.
        """

    def truncate_to(self, partition: int, epoch: int, offset: int) -> int:
        """Truncates a follower's log at an offset; returns the log end, which is lower if the offset is inside a batch.

        If applied records are removed, the table is dropped and loaded again.  Raises the errors of
        `append_as_follower`, and CoordinatorLoadingError while the table is being loaded.
        """

    def restart_at(self, partition: int, epoch: int, offset: int) -> None:
        """Drops a follower's log that ends below the start of its leader's log, and starts a new one at an offset.

        Raises the errors of `truncate_to`, and InvalidArgumentError if the offset is below the follower's log end.
        """

    def flush(self, partition: int) -> Transition:
        """Makes everything written so far durable; the result is the flushed end.  Raises PartitionError."""

    def positions(self, partition: int) -> LogPositions:
        """Returns the log start, log end, flushed end, W and applied end; zeros without a log."""

    def end_offset_for_epoch(self, partition: int, epoch: int) -> EpochEnd:
        """Returns where an epoch ends, as OffsetForLeaderEpoch does (docs/format/directory.md §1.5).

        Returns the greatest epoch of the log that is at most `epoch`, and its end: the start of the next epoch, or the
        log end for the newest one.  If `epoch` is older than all epochs of the log, returns `epoch` and the start of
        the first one.  If `epoch` is -1 or newer than all epochs of the log, or if no log exists, returns (-1, -1).
        """

    def read_into(
        self,
        partition: int,
        offset: int,
        buffer: Buffer,
        *,
        epoch: int = -1,
        uncommitted: bool = False,
    ) -> int:
        """Reads whole batches into a buffer, from the one that contains an offset on; returns the number of bytes read.

        Args:
            partition: the log partition.
            offset: from the log start to the log end.
            buffer: writable, at least 61 bytes.
            epoch: the leader epoch of the reader; -1 for any.
            uncommitted: whether to read records at and above W, too, for followers.

        Raises:
            OffsetOutOfRangeError: the log does not have the offset.
            TooLargeError: the first batch does not fit into the buffer; the message says how many bytes it needs.
            FencedLeaderEpochError, UnknownLeaderEpochError, CorruptionError, StorageError, PartitionError, ClosedError.
        """

    def file_range(
        self,
        partition: int,
        offset: int,
        size_max: int,
        *,
        epoch: int = -1,
        uncommitted: bool = False,
    ) -> FileRange:
        """Returns the range of a file that `read_into` would read, for sendfile.

        The range contains the first batch as a whole, even if that batch is larger than `size_max`; it may end within a
        later batch.  Raises the errors of `read_into` except TooLargeError.  `FileRange.open` opens the file; it
        returns None if a cleaner has replaced the file since.
        """

    # ------------------------------------------------------------------------------------------ watch

    def watch(
        self,
        groups: Iterable[str] | None = None,
        *,
        from_position: WatchPosition | None = None,
    ) -> Watch:
        """Watches changes of positions as they take effect; see Watch.

        Args:
            groups: the groups to watch; None for all.
            from_position: where to continue, by log partition: a value from `Watch.position`, or (-1, 0) for the start
                of the log.  Only these partitions are watched.  None: all partitions that keep the groups, from W on.

        Raises:
            CapabilityError, GroupError, PartitionError, ClosedError.
        """
