"""The interface of an offset manager, which a broker process calls to keep its consumers' positions.

A broker owns leadership and replication of the partitions of its offsets topic.  A manager keeps the
positions.

All calls can be made from any thread.  Errors are those of `offsetlog.errors`: each carries
`error_code`, the number with which a coordinator answers a client, and `retriable`.  A call that
raises has changed nothing, except where it says otherwise.
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

#: The moment at which a commit is answered: in the page cache, flushed by this process, or below the high watermark.
Durability = Literal["process", "disk", "replicas"]

#: Where a watch goes on: by log partition the leader epoch and the offset after the last change seen.
WatchPosition = Mapping[int, tuple[int, int]]


class Capability(enum.Enum):
    """A feature that not every manager has; the list is closed.

    A call that needs a missing capability raises CapabilityError.
    """

    #: Metadata of a commit is kept and returned.
    METADATA = "metadata"
    #: The leader epoch of a commit is kept and returned.
    EPOCHS = "epochs"
    #: The commit and expiry timestamps of a commit are kept and returned.  Without it a position has the time at which
    #: its storage wrote it, whatever commit timestamp was given, and an expiry timestamp is refused.
    TIMESTAMPS = "timestamps"
    #: `expected=` and `monotonic=`.
    CONDITIONS = "conditions"
    #: `generation=` and `fence`.
    GENERATIONS = "generations"
    #: The log keeps what was committed before, for offsetlog's calls about the past.
    HISTORY = "history"
    #: Leadership, followers and W: `append_as_follower`, `advance`, and what goes with them.
    REPLICATION = "replication"
    #: `watch`.
    WATCH = "watch"


class PartitionState(enum.Enum):
    """The state of a log partition at one replica."""

    #: No leader is known: none was named yet, or the replica resigned.
    UNLOADED = "unloaded"
    #: It leads, and W has not reached the log end of its election yet, or the table is being loaded.
    LOADING = "loading"
    #: It leads and answers.
    ACTIVE = "active"
    #: Another replica leads.
    FOLLOWER = "follower"
    #: A failure left its log or its table unknown; a manager that is started on the directory later recovers it.
    FAILED = "failed"


T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Pending(Protocol[T_co]):
    """The future answer of a call whose name ends in `_async`.

    It comes once.  A wait that is given up, by its timeout or by the end of a task, changes nothing:
    the write stays, and the answer can be waited for again.
    """

    def done(self) -> bool:
        """Whether the answer has come."""

    def result(self, timeout: float | None = None) -> T_co:
        """Waits for the answer, `timeout` in seconds, and returns it or raises.

        Raises:
            CommitTimeoutError: no answer in time; nothing is undone, and the write may still become durable.
            NotCoordinatorError: leadership ended first, or the manager was stopped; the next leader
                decides whether the write stays.
            PartitionFailedError, StorageError: the flush failed.
            Also the errors of the call.
        """

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Calls the callback with this object once the answer has come, at once if it has.

        The answering thread calls it, so it must not block.  Its exceptions are logged.
        """

    def __await__(self) -> Generator[Any, None, T_co]:
        """Waits as `result` without a timeout, in the running event loop."""


@runtime_checkable
class Transition(Protocol):
    """A running change of leadership or flush, returned by `become_leader` and similar calls at once.

    It ends once, in one of three ways: done, failed, or superseded by a later change.  `await transition` and `result`
    wait for that; neither cancels it.
    """

    @property
    def partition(self) -> int:
        """The log partition."""

    @property
    def epoch(self) -> int:
        """The leader epoch that it belongs to."""

    @property
    def progress(self) -> float:
        """Progress from 0 to 1: the part of the log that has been read."""

    def done(self) -> bool:
        """Whether it has ended."""

    def result(self, timeout: float | None = None) -> int:
        """Waits for the end, `timeout` in seconds; returns the log end, for a flush the flushed end.

        Raises:
            CommitTimeoutError: it has not ended in time; it continues.
            FencedLeaderEpochError: a later change superseded it.
            OffsetLogError: why it failed.
        """

    def add_done_callback(self, callback: Callable[[Transition], object]) -> None:
        """Calls the callback with this object once it has ended, on the thread that ends it, or at once."""

    def __await__(self) -> Generator[Any, None, int]:
        """Waits as `result`, in the running event loop."""


@runtime_checkable
class PendingCommit(Pending[Position], Protocol):
    """A commit that is written but not answered yet; from `commit_async`."""

    @property
    def position(self) -> Position:
        """Its position in the log."""


@runtime_checkable
class Watch(Protocol):
    """Reports changes of committed positions, from a place in each log on and in the order of each log.

    A change is reported once it is below W, at every replica that has the log, so a watch continues
    when leadership moves.  Whatever is skipped is reported as a LogGap, and nothing is reported twice,
    not even by a later watch that continues from `position`.

    Only one thread at a time may read a watch; any thread may call `close` and `position`.
    """

    @property
    def position(self) -> dict[int, tuple[int, int]]:
        """Where a later watch continues after everything returned so far; plain integers, to be stored.

        (Leader epoch, log offset) by log partition; (-1, 0) for a log without records.
        """

    def poll(
        self, timeout: float | None = 0.0, max_changes: int = 500
    ) -> list[PositionChange | LogGap]:
        """Waits for changes and returns them; an empty list after the timeout.

        Args:
            timeout: seconds; 0 does not wait, None waits without limit.
            max_changes: approximate number at a time; the values of one transaction stay together.

        Raises:
            ClosedError: the watch or its manager was closed.
            StorageError, CapacityError, PartitionFailedError: one log failed; repeating the call continues,
                and the other logs have their turn.
            InvalidArgumentError.
        """

    def poll_arrow(
        self, timeout: float | None = 0.0, max_changes: int = 65_536
    ) -> list[pyarrow.RecordBatch | LogGap]:
        """Returns changes as `poll` does, as Arrow batches with columns named after PositionChange's fields.

        A row without an `offset` is a deletion.  Raises as `poll`.
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
        """Closes it."""


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
        """Acquires files, locks and connections.  Before it, every other call raises ClosedError.

        Raises:
            LockedError, StorageError, CorruptionError, ConfigError, PartitionCountError.
        """

    def stop(self) -> None:
        """Resigns everywhere, answers waiting calls with NotCoordinatorError, makes all durable, and closes.

        A second call does nothing.  It cannot be started again.
        """

    def partition_for(self, group: str) -> int:
        """Returns the log partition that keeps a group, by Java's hash (docs/format/partitioning.md).

        Raises:
            GroupError: the name cannot be written.
        """

    # ------------------------------------------------------------------------------------- leadership

    def become_leader(self, partition: int, epoch: int) -> Transition:
        """Leads a partition: loads it unless it is loaded; answers when W has reached the current log end.

        Until then fetches raise CoordinatorLoadingError.  Repeating the call returns the same transition.
        A failed partition is first opened again, as after a crash.  If that or the load fails or finds
        damage, the transition fails, and the partition stays failed until the next epoch.

        Raises:
            FencedLeaderEpochError: the epoch is not above the newest one known.
            CorruptionError, StorageError: a record above W cannot be read, or the epoch cannot be stored.  Leadership
                in an earlier epoch has ended even so, and the call can be repeated.
            ReadOnlyError, PartitionFailedError, PartitionError, ClosedError.
        """

    def become_follower(self, partition: int, epoch: int) -> Transition:
        """Follows a leader; calls waiting for W raise NotCoordinatorError.  Keeps or loads the table if configured.

        A failed partition is opened again, as by `become_leader`, if the epoch is above the newest one
        known; until then its log refuses the leader's batches.

        Raises:
            FencedLeaderEpochError: the epoch is older than the newest one known.
            PartitionFailedError: the partition has failed, and the epoch is not newer.
            PartitionError, ClosedError.
        """

    def resign(self, partition: int, epoch: int) -> Transition:
        """Stops leading, with no new leader known.  The log stays; the table is kept or dropped as configured.

        Raises:
            FencedLeaderEpochError: the epoch is older than the newest one known.
            PartitionError, ClosedError.
        """

    def state(self, partition: int) -> PartitionState:
        """Returns the state of a partition here.  Raises PartitionError, ClosedError."""

    def leader_epoch(self, partition: int) -> int:
        """Returns the newest known leader epoch, -1 for none.  Raises PartitionError, ClosedError."""

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

        A committed leader epoch is stored as given and returned (docs/format/leader-epochs.md §12.1); it is never
        checked.

        Args:
            group: the consumer group.
            offsets: the positions to commit.
            expected: the offset that must be committed now, by key; None for a key without a position.
            monotonic: whether to write nothing if any offset would be lowered.
            generation: the generation that the group must have now; -1: the group must have no members; None: not
                checked.
            timeout: in seconds; None for the configured one.  A commit that times out is not undone.
            durability: how durable it must be before the answer; None for the configured one.
            client: the client id, for quotas.
            principal: the user, for quotas: clients with one id share a quota only within one user.

        A condition may fail because of a position that is not replicated yet.  The refusal is then raised only once
        that position is replicated; if it is truncated instead, NotCoordinatorError is raised.

        Raises:
            NotCoordinatorError: this process does not lead the group's partition, or stopped leading before the
                answer; then the commit may or may not stay.
            CoordinatorLoadingError: the partition is loading, and the commit needs its table, or commits are refused
                during loads.
            GenerationError, ExpectedOffsetError, RewindError: the condition does not hold; nothing was written.
            ThrottledError: a quota is used up; nothing was written.
            CommitTimeoutError: not answered in time; the commit may still take effect.
            CapabilityError: `expected` or `monotonic` without CONDITIONS, `generation` without GENERATIONS, or a
                value with a field that the manager does not keep.
            InvalidArgumentError: or a subclass; nothing was written.
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
        """Commits without blocking: the result can be awaited, or takes callbacks.  No thread waits for it.

        The commit is written when the call returns.  Raises as `commit`; errors known only later are
        raised by the result.
        """

    def fetch(
        self, group: str, partitions: Iterable[PartitionKey] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns committed positions: of the given keys, with offset -1 for those without; or all.

        Raises:
            NotCoordinatorError, CoordinatorLoadingError, PartitionFailedError, InvalidArgumentError, ClosedError.
        """

    def delete(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> int:
        """Deletes positions of a group; returns how many existed.

        If none exists, it still waits for writes in flight: an earlier delete may be truncated.

        Raises as `commit`.
        """

    def delete_async(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> Pending[int]:
        """Deletes without waiting, as `commit_async`; the result is that of `delete`."""

    def delete_group(self, group: str, *, timeout: float | None = None) -> int:
        """Deletes everything of a group; returns the number of records written, 0 if it does not exist.

        Raises:
            GroupNotEmptyError: the group has members.
        Also as `commit`.
        """

    def delete_group_async(self, group: str, *, timeout: float | None = None) -> Pending[int]:
        """Deletes without waiting, as `commit_async`; the result is that of `delete_group`."""

    def fence(
        self,
        group: str,
        offsets: Mapping[Key, Committed] | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        """Ends the group's generation and sets offsets in the same batch, to reset a running group.

        Its members' commits and heartbeats are refused from then on; they join again and read the offsets.

        Returns:
            The new generation.

        Raises as `commit`.
        """

    def fence_async(
        self,
        group: str,
        offsets: Mapping[Key, Committed] | None = None,
        *,
        timeout: float | None = None,
    ) -> Pending[int]:
        """Fences without waiting, as `commit_async`; the result is that of `fence`."""

    def expire(self, *, timeout: float | None = None) -> int:
        """Deletes expired positions in the partitions that this process leads; returns their number.

        It returns when that is as durable as configured; `timeout`, in seconds, bounds only this last
        wait, and None is the configured one.  If a partition fails, the others are still handled, and
        the first failure is raised at the end.

        Raises:
            ClockError: the clock cannot be right; nothing was deleted.
            Also as `commit`, when part of it may have been deleted.
        """

    def expire_async(self, *, timeout: float | None = None) -> Pending[int]:
        """Runs `expire` on the manager's threads, one partition at a time; the result is that of `expire`.

        Raises:
            ClockError: the clock cannot be right; nothing was deleted.
            ClosedError.
        """

    def on_topic_deleted(self, topics: Sequence[str], *, timeout: float | None = None) -> int:
        """Deletes positions of deleted topics in the partitions that this process leads; returns their number.

        Waits and raises as `expire`, without ClockError.  It can be repeated.

        Raises:
            CoordinatorLoadingError: a partition is loading and was skipped.
        """

    def on_topic_deleted_async(
        self, topics: Sequence[str], *, timeout: float | None = None
    ) -> Pending[int]:
        """Runs `on_topic_deleted` on the manager's threads, as `expire_async`; its result is the same."""

    def throttle(
        self, group: str, client: str | None = None, principal: str | None = None
    ) -> float:
        """Returns the seconds after which a commit of the group and client is admitted, 0.0 for now."""

    # ------------------------------------------------------------------------------------ replication

    def append_as_follower(self, partition: int, epoch: int, batches: Buffer) -> int:
        """Appends whole batches from the leader of the epoch with their offsets; returns the log end.

        Raises:
            FencedLeaderEpochError, UnknownLeaderEpochError: the epoch is not the one followed, or this process leads.
            CorruptionError: the bytes are not batches, or these may not follow the log.
            CapabilityError, StorageError, PartitionFailedError, ReadOnlyError, PartitionError, ClosedError.
        """

    def advance(self, partition: int, epoch: int, offset: int) -> int:
        """Moves W to min(offset, log end), never back: records below are applied, and their commits are answered.

        Returns:
            W.

        Raises:
            FencedLeaderEpochError, UnknownLeaderEpochError, PartitionFailedError, PartitionError, ClosedError.
        """

    def truncate_to(self, partition: int, epoch: int, offset: int) -> int:
        """Truncates a follower's log at an offset; returns the log end, which is lower if that is inside a batch.

        If applied records are removed, the table is dropped and loaded again.  Raises as
        `append_as_follower`, and CoordinatorLoadingError while the table is being loaded.
        """

    def restart_at(self, partition: int, epoch: int, offset: int) -> None:
        """Drops a follower's log that ends below the start of its leader's, and starts a new one at that offset.

        Raises as `truncate_to`; InvalidArgumentError for an offset below the log end.
        """

    def flush(self, partition: int) -> Transition:
        """Makes everything written so far durable; the result is the flushed end.  Raises PartitionError."""

    def positions(self, partition: int) -> LogPositions:
        """Returns log start, log end, flushed end, W, and the applied end; zeros without a log."""

    def end_offset_for_epoch(self, partition: int, epoch: int) -> EpochEnd:
        """Returns where an epoch ends, as OffsetForLeaderEpoch does (docs/format/directory.md §1.5).

        Returns the greatest epoch of the log that is at most `epoch`, with the start of the next epoch or,
        for the newest, the log end.  If `epoch` is older than all: `epoch` and the start of the first.
        If it is newer than all, or -1, or there is no log: (-1, -1).
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
        """Reads whole batches into a buffer, beginning with the one that holds an offset; returns the bytes read.

        Args:
            partition: the log partition.
            offset: from the log start to the log end.
            buffer: writable, at least 61 bytes.
            epoch: the leader epoch of the reader, -1 for any.
            uncommitted: whether to read at and above W too, for followers.

        Raises:
            OffsetOutOfRangeError: the log does not have the offset.
            TooLargeError: the first batch does not fit; the message says how many bytes it needs.
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

        It may end within a batch, after the first one, which it has whole, even if that is larger
        than `size_max`.  Raises as `read_into`, but TooLargeError.  `FileRange.open` opens the
        file, or says that a cleaner has replaced it since.
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
            from_position: where to continue, by log partition, from `Watch.position`, or (-1, 0) for
                the beginning.  Only these partitions are watched.  None: all partitions that the
                groups live in, from W on.

        Raises:
            CapabilityError, GroupError, PartitionError, ClosedError.
        """
