"""The interface of an offset manager, which a broker process calls to keep its consumers' positions.

The broker decides which process leads each partition of its offsets topic, and replicates the partitions.  The manager
stores the positions.

All calls can be made from any thread.  Errors are those of `offsetlog.errors`.  Each error has `error_code`, the number
with which a coordinator answers a client, and `retriable`, which says whether the same call may succeed later.  A call
that raises an error has changed nothing, unless its description says otherwise.
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

#: Where a watch continues: for each log partition, the leader epoch and the log offset after the last change seen.
WatchPosition = Mapping[int, tuple[int, int]]


class Capability(enum.Enum):
    """A feature that some managers do not have.  The set of features is fixed: a manager cannot add others.

    A call that needs a missing capability raises CapabilityError.
    """

    #: Metadata of a commit is kept and returned.
    METADATA = "metadata"
    #: The leader epoch of a commit is kept and returned.
    EPOCHS = "epochs"
    #: The commit timestamp and the expire timestamp of a commit are kept and returned.  Without this capability, the
    #: time of a position is the time at which the storage wrote it, whatever commit timestamp was given, and a commit
    #: with an expire timestamp is refused.
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
    #: The replica leads, but the table is being loaded, or the high watermark (W) has not reached the log end of the
    #: election yet.
    LOADING = "loading"
    #: The replica leads and answers.
    ACTIVE = "active"
    #: Another replica leads.
    FOLLOWER = "follower"
    #: A failure left the log or the table in an unknown state.  `become_leader` or `become_follower` in a newer epoch
    #: opens the log again and recovers it, as does the next start of a manager on the directory.  `resign` does not.
    FAILED = "failed"


T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Pending(Protocol[T_co]):
    """The future answer of a call whose name ends in `_async`.

    The answer comes once.  If a wait ends early, because its timeout has passed or its task is cancelled, the write is
    not undone, and the caller can wait for the answer again.
    """

    def done(self) -> bool:
        """Whether the answer has come."""

    def result(self, timeout: float | None = None) -> T_co:
        """Waits at most `timeout` seconds for the answer; returns the result or raises the error.

        Raises:
            CommitTimeoutError: no answer came in time.  The write is not undone, and may still become durable.
            NotCoordinatorError: the leadership ended before the answer came, or the manager was stopped.  The next
                leader decides whether the write stays.
            PartitionFailedError, StorageError: the flush failed.
            Also the errors of the call.
        """

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Registers a function that is called with this object when the answer comes.

        If the answer has come already, the function is called at once.  Otherwise the thread that brings the answer
        calls it, so the function must not block.  If the function raises an exception, the exception is logged.
        """

    def __await__(self) -> Generator[Any, None, T_co]:
        """Waits for the answer in the running event loop, like `result` without a timeout."""


@runtime_checkable
class Transition(Protocol):
    """A change of leadership, or a flush; `become_leader` and similar calls return it at once.

    A transition ends once.  It succeeds, it fails, or a later change supersedes it.  `await transition` and `result`
    wait until the transition has ended.  If the wait ends early, the transition continues.
    """

    @property
    def partition(self) -> int:
        """The log partition."""

    @property
    def epoch(self) -> int:
        """The leader epoch to which the transition belongs."""

    @property
    def progress(self) -> float:
        """The progress of the transition, from 0 to 1: the part of the log that has been read."""

    def done(self) -> bool:
        """Whether the transition has ended."""

    def result(self, timeout: float | None = None) -> int:
        """Waits at most `timeout` seconds for the end; returns the log end, or the flushed end if this is a flush.

        Raises:
            CommitTimeoutError: the transition has not ended in time; it continues.
            FencedLeaderEpochError: a later change superseded it.
            OffsetLogError: the transition failed.
        """

    def add_done_callback(self, callback: Callable[[Transition], object]) -> None:
        """Registers a function that is called with this object when the transition ends.

        If the transition has ended already, the function is called at once.  Otherwise the thread that ends the
        transition calls it.
        """

    def __await__(self) -> Generator[Any, None, int]:
        """Waits for the end of the transition in the running event loop, like `result` without a timeout."""


@runtime_checkable
class PendingCommit(Pending[Position], Protocol):
    """The future answer of a commit that is written; `commit_async` returns it."""

    @property
    def position(self) -> Position:
        """The position of the commit in the log."""


@runtime_checkable
class Watch(Protocol):
    """Reports changes of committed positions: in each log from a given log offset on, and in the order of that log.

    A change is reported once it has taken effect.  A change outside of a transaction takes effect
    when its record is below the high watermark (W).  A change in a transaction takes effect when
    the marker that ends the transaction is below W.  Every replica that has the log reports the
    change, so a watch continues when the leadership moves.  A LogGap stands for changes that cannot
    be reported.  No change is reported twice, not even by a later watch that continues from
    `position`.

    Only one thread at a time may read from a watch; any thread may call `close` and `position`.
    """

    @property
    def position(self) -> dict[int, tuple[int, int]]:
        """The place after everything returned so far, where a later watch can continue.

        The mapping has, for each log partition, a pair of leader epoch and log offset; the pair is (-1, 0) if the log
        has no records.  All values are plain integers, which can be stored.
        """

    def poll(
        self, timeout: float | None = 0.0, max_changes: int = 500
    ) -> list[PositionChange | LogGap]:
        """Waits until there are changes, and returns them; returns an empty list if the timeout passes first.

        Args:
            timeout: the seconds to wait for a change; with 0 the call does not wait, and with None it waits without
                limit.
            max_changes: the approximate number of changes to return.  The values of one transaction stay together, so
                more changes may be returned.

        Raises:
            ClosedError: the watch or its manager was closed.
            StorageError, CapacityError, PartitionFailedError: one log could not be read.  The other logs are still
                read.  Repeat the call to continue.
            InvalidArgumentError.
        """

    def poll_arrow(
        self, timeout: float | None = 0.0, max_changes: int = 65_536
    ) -> list[pyarrow.RecordBatch | LogGap]:
        """Returns changes like `poll`, but as Arrow batches with columns named after PositionChange's fields.

        A row without an `offset` is a deletion.  The call raises the same errors as `poll`.
        """

    def __iter__(self) -> Iterator[PositionChange | LogGap]:
        """Yields changes until the watch is closed."""

    def __aiter__(self) -> AsyncIterator[PositionChange | LogGap]:
        """Yields changes in the running event loop, and needs no thread."""

    def close(self) -> None:
        """Ends the watch, and wakes a thread that waits for changes.  A second call does nothing."""

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
        """Returns the log partition that keeps a group; Java's hash of the name decides (docs/format/partitioning.md).

        Raises:
            GroupError: the name cannot be stored.
        """

    # ------------------------------------------------------------------------------------- leadership

    def become_leader(self, partition: int, epoch: int) -> Transition:
        """Leads a partition, and loads it if it is not loaded.

        The partition answers once it is loaded and the high watermark (W) has reached the log end at the time of this
        call.  Until then, fetches raise CoordinatorLoadingError.  If the call is repeated, it returns the same
        transition.

        If the partition has failed, its log is first opened again, as after a crash.  If the log cannot be opened or
        loaded, or if the load finds damage, the transition fails, and the partition stays failed until the next leader
        epoch.

        Raises:
            FencedLeaderEpochError: the epoch is not above the newest one known.
            CorruptionError, StorageError: a record above the high watermark cannot be read, or the epoch cannot be
                stored.  If the process was the leader in an earlier epoch, it no longer is.  The call can be repeated.
            ReadOnlyError, PartitionFailedError, PartitionError, ClosedError.
        """

    def become_follower(self, partition: int, epoch: int) -> Transition:
        """Follows a leader; commits and deletes that wait for their answers raise NotCoordinatorError.

        The settings decide whether the table (the positions in memory) is kept, loaded or dropped.
        If the partition has failed, and the epoch is above the newest one known, its log is opened
        again, as by `become_leader`.  Until the log is open, calls that append the leader's batches
        raise an error.

        Raises:
            FencedLeaderEpochError: the epoch is older than the newest one known.
            PartitionFailedError: the partition has failed, and the epoch is not newer.
            PartitionError, ClosedError.
        """

    def resign(self, partition: int, epoch: int) -> Transition:
        """Stops leading when no new leader is known.

        The log stays.  The settings decide whether the table (the positions in memory) is kept or
        dropped.

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
        """Commits positions of a group, either all or none, and waits until they are as durable as requested.

        The leader epoch of a position is stored and returned as given (docs/format/leader-epochs.md §12.1).  It is
        never checked.

        Args:
            group: the consumer group.
            offsets: the positions to commit.
            expected: the conditions of the commit: for each key, the offset that must be committed now, or None if the
                key must have no position.
            monotonic: whether the commit is refused if it would lower any offset.
            generation: the generation that the group must have now.  With -1, the group must have no members.  With
                None, the generation is not checked.
            timeout: the seconds to wait; None for the configured timeout.  A commit that times out is not undone.
            durability: how durable the commit must be before it is answered; None for the configured durability.
            client: the client id, for quotas.
            principal: the user, for quotas.  Clients with the same id share a quota only if they have the same user.

        A condition may fail because of a position that is written but not replicated yet.  In that case, the call waits
        until that position is replicated, and then raises the error.  If the leadership ends first, the position may
        be truncated, and the call raises NotCoordinatorError.

        Raises:
            NotCoordinatorError: this process does not lead the group's partition, or it stopped
                leading before the answer.  If it stopped leading, the commit may or may not stay.
            CoordinatorLoadingError: the partition is being loaded.  Either the commit needs the
                loaded positions, or the settings refuse commits during loads.
            GenerationError, ExpectedOffsetError, RewindError: a condition does not hold; nothing was written.
            ThrottledError: a quota is used up; nothing was written.
            CommitTimeoutError: the commit was not answered in time; it may still take effect.
            CapabilityError: the manager lacks a capability that the call needs: CONDITIONS for `expected` and
                `monotonic`, GENERATIONS for `generation`, or that of a field of a position.
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
        """Commits without blocking; returns an answer that can be awaited, and that needs no waiting thread.

        When the call returns, the commit has been written.  The call raises those errors of `commit` that are known by
        then; the answer raises the others.
        """

    def fetch(
        self, group: str, partitions: Iterable[PartitionKey] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the committed positions of the given keys, or of all keys of the group if no keys are given.

        A given key that has no position gets the offset -1.

        Raises:
            NotCoordinatorError, CoordinatorLoadingError, PartitionFailedError, InvalidArgumentError, ClosedError.
        """

    def delete(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> int:
        """Deletes positions of a group; returns how many existed.

        If no position exists, the call still waits for all earlier writes to the group's log partition.  One of them
        may be a delete that removed the position, and that delete may be truncated.

        Raises the errors of `commit`.
        """

    def delete_async(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> Pending[int]:
        """Deletes without waiting, like `commit_async`; the result is that of `delete`."""

    def delete_group(self, group: str, *, timeout: float | None = None) -> int:
        """Deletes everything of a group; returns the number of records written, or 0 if the group does not exist.

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

        After the call, commits and heartbeats of the group's members are refused.  The members join
        again and read the offsets.

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

        The call returns once the deletions are as durable as configured.  `timeout`, in seconds,
        limits only the wait for durability, not the deletions themselves; None is the configured
        timeout.  If a partition fails, the call continues with the other partitions, and raises the
        first failure at the end.

        Raises:
            ClockError: the clock cannot be right; nothing was deleted.
            Also the errors of `commit`.  If the call raises one of these, it may have deleted some positions.
        """

    def expire_async(self, *, timeout: float | None = None) -> Pending[int]:
        """Starts `expire` on the manager's threads, one partition at a time; the result is that of `expire`.

        Raises:
            ClockError: the clock cannot be right; nothing was deleted.
            ClosedError.
        """

    def on_topic_deleted(self, topics: Sequence[str], *, timeout: float | None = None) -> int:
        """Deletes positions of deleted topics in the partitions that this process leads; returns their number.

        The call waits like `expire`, and raises the same errors except ClockError.  It can be repeated.

        Raises:
            CoordinatorLoadingError: a partition is being loaded and was skipped.
        """

    def on_topic_deleted_async(
        self, topics: Sequence[str], *, timeout: float | None = None
    ) -> Pending[int]:
        """Starts `on_topic_deleted` on the manager's threads; the result is that of `on_topic_deleted`."""

    def throttle(
        self, group: str, client: str | None = None, principal: str | None = None
    ) -> float:
        """Returns the seconds until a commit of the group and client is admitted; 0.0 if it is admitted now."""

    # ------------------------------------------------------------------------------------ replication

    def append_as_follower(self, partition: int, epoch: int, batches: Buffer) -> int:
        """Appends complete batches, in which the leader has assigned the offsets; returns the log end.

        Raises:
            FencedLeaderEpochError: the epoch is older than the newest one known; or this process leads in that epoch;
                or the partition has no log yet, and this process does not follow in that epoch.
            UnknownLeaderEpochError: the epoch is newer than the newest one known.
            CorruptionError: the bytes are not batches, or the batches do not continue the log.
            CapabilityError, StorageError, PartitionFailedError, ReadOnlyError, PartitionError, ClosedError.
        """

    def advance(self, partition: int, epoch: int, offset: int) -> int:
        """Moves the high watermark (W) forward to an offset, or to the log end if that is smaller; never moves it back.

        The call applies the records below the high watermark, and answers the commits that waited for them.

        Returns:
            The high watermark after the call.

        Raises:
            FencedLeaderEpochError, UnknownLeaderEpochError, PartitionFailedError, PartitionError, ClosedError.
        """

    def truncate_to(self, partition: int, epoch: int, offset: int) -> int:
        """Truncates a follower's log at an offset; returns the log end.

        If the offset is inside a batch, the whole batch is removed, and the log end is below the offset.

        If the truncation removes records that were applied, the table (the positions in memory) is
        dropped and loaded again.  The call raises the errors of `append_as_follower`, and
        CoordinatorLoadingError while the table is being loaded.
        """

    def restart_at(self, partition: int, epoch: int, offset: int) -> None:
        """Drops the log of a follower, and starts a new log at an offset.

        A follower calls this if its log ends below the start of its leader's log.

        The call raises the errors of `truncate_to`, and InvalidArgumentError if the offset is below the follower's log
        end.
        """

    def flush(self, partition: int) -> Transition:
        """Makes everything written so far durable; the result is the flushed end of the log.  Raises PartitionError."""

    def positions(self, partition: int) -> LogPositions:
        """Returns log start, log end, flushed end, high watermark and applied end; zeros if there is no log."""

    def end_offset_for_epoch(self, partition: int, epoch: int) -> EpochEnd:
        """Returns where an epoch ends, as OffsetForLeaderEpoch does (docs/format/directory.md §1.5).

        Returns the greatest epoch of the log that is at most `epoch`, and the log offset at which this epoch ends.  An
        epoch ends at the start of the next epoch; the newest epoch ends at the log end.  If `epoch` is older than all
        epochs of the log, the call returns `epoch` and the start of the first epoch.  If `epoch` is -1 or newer than
        all epochs of the log, or if no log exists, the call returns (-1, -1).
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
        """Reads complete batches into a buffer, from the batch that contains an offset on; returns the size in bytes.

        Args:
            partition: the log partition.
            offset: a log offset, from the log start to the log end.
            buffer: a writable buffer of at least 61 bytes.
            epoch: the leader epoch of the reader; with -1, any epoch is accepted.
            uncommitted: whether to read also the records at and above the high watermark, as followers do.

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

        The range contains the whole first batch, even if that batch is larger than `size_max`.  The range may end
        inside a later batch.  The call raises the errors of `read_into` except TooLargeError.  `FileRange.open` opens
        the file, or returns None if a cleaner has replaced the file since.
        """

    # ------------------------------------------------------------------------------------------ watch

    def watch(
        self,
        groups: Iterable[str] | None = None,
        *,
        from_position: WatchPosition | None = None,
    ) -> Watch:
        """Watches changes of positions, and reports each change when it takes effect; see Watch.

        Args:
            groups: the groups to watch; None for all groups.
            from_position: the place at which the watch continues in each log partition: a value from `Watch.position`,
                or (-1, 0) for the start of the log.  Only these partitions are watched.  With None, the watch begins at
                the present high watermark of every partition that keeps one of the groups.

        Raises:
            CapabilityError, GroupError, PartitionError, ClosedError.
        """
