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
    """Something that not every manager can do; the list is closed.

    A call that needs a capability which the manager does not have raises CapabilityError.
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

    #: Nobody said who leads it, or it was resigned.
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
    """The answer of a call that returns before it; from the calls whose names end in `_async`.

    It comes once.  A wait that is given up, by its timeout or by the end of a task, changes nothing:
    the write stays, and the answer can be waited for again.
    """

    def done(self) -> bool:
        """Whether the answer is there."""

    def result(self, timeout: float | None = None) -> T_co:
        """Waits for the answer, `timeout` in seconds, and returns it or raises.

        Raises:
            CommitTimeoutError: not in time; nothing is undone, and it may still become durable.
            NotCoordinatorError: leadership ended before, or the manager was stopped; whether it
                stays is for the next leader to say.
            PartitionFailedError, StorageError: the flush failed.
            Also as the call.
        """

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Has the callback called with it once the answer is there, at once if it is.

        The thread that answers calls it; it must not wait. Its exceptions are logged.
        """

    def __await__(self) -> Generator[Any, None, T_co]:
        """Waits as `result` without end, in the running event loop."""


@runtime_checkable
class Transition(Protocol):
    """A change of leadership on its way, or a flush; from `become_leader` and its like, which return at once.

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
        """From 0 to 1: the part of the log that is read."""

    def done(self) -> bool:
        """Whether it has ended."""

    def result(self, timeout: float | None = None) -> int:
        """Waits for the end, `timeout` in seconds, and returns the log end, of a flush the flushed end.

        Raises:
            CommitTimeoutError: it has not ended in time, and goes on.
            FencedLeaderEpochError: a later change took its place.
            OffsetLogError: why it failed.
        """

    def add_done_callback(self, callback: Callable[[Transition], object]) -> None:
        """Has the callback called with it once it has ended, at once if it has; by the thread that ends it."""

    def __await__(self) -> Generator[Any, None, int]:
        """Waits as `result`, in the running event loop."""


@runtime_checkable
class PendingCommit(Pending[Position], Protocol):
    """A commit that is written and not answered yet; from `commit_async`."""

    @property
    def position(self) -> Position:
        """Where it stands in the log."""


@runtime_checkable
class Watch(Protocol):
    """The changes of committed positions from a place in each log on, in the order of each log.

    A change is reported once it is below W, at every replica that has the log: a watch goes on
    when leadership moves.  Nothing is skipped without a LogGap that says so, and nothing is
    reported twice, also by a later watch that goes on from `position`.

    One thread at a time reads a watch; `close` and `position` can be called from any thread.
    """

    @property
    def position(self) -> dict[int, tuple[int, int]]:
        """Where a later watch goes on after all that was returned; of plain integers, for storing.

        By log partition the leader epoch and the log offset, (-1, 0) for a log that has none yet.
        """

    def poll(
        self, timeout: float | None = 0.0, max_changes: int = 500
    ) -> list[PositionChange | LogGap]:
        """Returns what took effect, waiting for the first of it; an empty list after the timeout.

        Args:
            timeout: seconds; 0 to look only, None to wait without end.
            max_changes: about so many at a time; the values of one transaction stay together.

        Raises:
            ClosedError: the watch or its manager was closed.
            StorageError, CapacityError, PartitionFailedError: of one log; the same call again goes on,
                and the other logs have their turn.
            InvalidArgumentError.
        """

    def poll_arrow(
        self, timeout: float | None = 0.0, max_changes: int = 65_536
    ) -> list[pyarrow.RecordBatch | LogGap]:
        """Returns the same as batches of columns, named as the fields of PositionChange and its value.

        A row without an `offset` is a deletion.  Raises as `poll`.
        """

    def __iter__(self) -> Iterator[PositionChange | LogGap]:
        """Waits for changes without end; ends when the watch is closed."""

    def __aiter__(self) -> AsyncIterator[PositionChange | LogGap]:
        """The same in the running event loop, without a thread."""

    def close(self) -> None:
        """Ends the watch, also for one who waits in it.  A second call does nothing."""

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
        """Everything that this manager can do beyond committing, fetching, deleting and expiring."""

    @property
    def partitions(self) -> int:
        """The number of partitions of the offsets topic."""

    def start(self) -> None:
        """Takes what it needs (files, locks, connections).  Before it every other call raises ClosedError.

        Raises:
            LockedError, StorageError, CorruptionError, ConfigError, PartitionCountError.
        """

    def stop(self) -> None:
        """Resigns everywhere, answers what waits with NotCoordinatorError, makes all durable, releases what it took.

        A second call does nothing.  It cannot be started again.
        """

    def partition_for(self, group: str) -> int:
        """Returns the log partition that keeps a group, by Java's hash (docs/format/partitioning.md).

        Raises:
            GroupError: no name that can be written.
        """

    # ------------------------------------------------------------------------------------- leadership

    def become_leader(self, partition: int, epoch: int) -> Transition:
        """Leads a partition from now on: loads what is not loaded, and answers when W has reached the present log end.

        Until then fetches raise CoordinatorLoadingError.  The same call again returns the same transition.
        A partition that failed is opened again first, as after a crash.  Where that, or the load, fails
        or finds damage, the transition fails, and the partition until the next epoch.

        Raises:
            FencedLeaderEpochError: the epoch is not above the newest one known.
            CorruptionError, StorageError: a record above W cannot be read, or the epoch not be stored.  The leadership
                of an epoch before this one has ended all the same, and the call can be repeated.
            ReadOnlyError, PartitionFailedError, PartitionError, ClosedError.
        """

    def become_follower(self, partition: int, epoch: int) -> Transition:
        """Follows; what waits for W raises NotCoordinatorError.  The table is kept, or loaded, where configured.

        A partition that failed is opened again in an epoch above the newest one known, as by
        `become_leader`; until then its log refuses the leader's batches.

        Raises:
            FencedLeaderEpochError: the epoch is older than the newest one known.
            PartitionFailedError: it failed, and this is no newer epoch.
            PartitionError, ClosedError.
        """

    def resign(self, partition: int, epoch: int) -> Transition:
        """Leads no more, and does not know who does.  The log stays; the table is kept or dropped as configured.

        Raises:
            FencedLeaderEpochError: the epoch is older than the newest one known.
            PartitionError, ClosedError.
        """

    def state(self, partition: int) -> PartitionState:
        """Returns the state of a partition here.  Raises PartitionError, ClosedError."""

    def leader_epoch(self, partition: int) -> int:
        """Returns the newest leader epoch that is known, -1 for none.  Raises PartitionError, ClosedError."""

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
        """Commits positions of a group, all or none, and waits until they are as durable as asked for.

        A committed leader epoch is stored as given and returned (docs/format/leader-epochs.md §12.1); it is never
        checked.

        Args:
            group: the consumer group.
            offsets: those to commit.
            expected: for any of the keys the offset that must be committed now, None for none.
            monotonic: nothing is written if any offset would go back.
            generation: that of the group, which must have it now; -1: the group must have no members; None: not
                checked.
            timeout: in seconds; None for the configured one.  A commit that times out is not undone.
            durability: when it is answered; None for the configured one.
            client: the client id, for quotas.
            principal: the user, for quotas: clients with one id share a quota only within one user.

        A refusal by a condition that rests on a position which is not replicated yet is raised once it is: if that
        position is cut off instead, NotCoordinatorError is.

        Raises:
            NotCoordinatorError: this process does not lead the group's partition, or stopped before the commit was
                answered: it may or may not stay.
            CoordinatorLoadingError: the partition loads, and the commit needs its table, or commits are refused while
                it does.
            GenerationError, ExpectedOffsetError, RewindError: the condition does not hold; nothing was written.
            ThrottledError: a quota is used up; nothing was written.
            CommitTimeoutError: not answered in time; it may yet count.
            CapabilityError: `expected` or `monotonic` without CONDITIONS, `generation` without GENERATIONS, or a
                value that carries what the manager does not keep.
            InvalidArgumentError: one of its kinds; nothing was written.
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
        """Commits without waiting: the result can be awaited, or calls back.  No thread waits for it.

        It is written when the call returns.  Raises as `commit`, but for what is known only later,
        which the result raises.
        """

    def fetch(
        self, group: str, partitions: Iterable[PartitionKey] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns committed positions: of the given keys, where there is none with offset -1; or all there are.

        Raises:
            NotCoordinatorError, CoordinatorLoadingError, PartitionFailedError, InvalidArgumentError, ClosedError.
        """

    def delete(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> int:
        """Deletes positions of a group; returns how many there were.

        Where nothing is found, it waits for what is in flight: a delete before it may be cut off.

        Raises as `commit`.
        """

    def delete_async(
        self, group: str, partitions: Iterable[PartitionKey], *, timeout: float | None = None
    ) -> Pending[int]:
        """Deletes without waiting, as `commit_async`; the result is that of `delete`."""

    def delete_group(self, group: str, *, timeout: float | None = None) -> int:
        """Deletes all of a group; returns how many records were written, 0 for a group that is not there.

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
        """Ends the group's generation and, in the same batch, sets offsets: a reset of a group that runs.

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
        """Deletes what has expired in the partitions that this process leads; returns how many positions.

        It returns when that is as durable as configured; the timeout, in seconds, bounds only this
        last wait, and None is the configured one.  A partition that fails does not keep the others
        from it; then the first failure is raised.

        Raises:
            ClockError: the clock cannot be right; nothing was deleted.
            Also as `commit`, when part of it may have been deleted.
        """

    def expire_async(self, *, timeout: float | None = None) -> Pending[int]:
        """Has it done by the manager's threads, a partition at a time; the result is that of `expire`.

        Raises:
            ClockError: the clock cannot be right; nothing was deleted.
            ClosedError.
        """

    def on_topic_deleted(self, topics: Sequence[str], *, timeout: float | None = None) -> int:
        """Deletes the positions of deleted topics in the partitions that this process leads; returns how many.

        Waits and raises as `expire`, without ClockError.  It can be repeated.

        Raises:
            CoordinatorLoadingError: a partition loads, and was left out.
        """

    def on_topic_deleted_async(
        self, topics: Sequence[str], *, timeout: float | None = None
    ) -> Pending[int]:
        """Has it done by the manager's threads, as `expire_async`; the result is that of `on_topic_deleted`."""

    def throttle(
        self, group: str, client: str | None = None, principal: str | None = None
    ) -> float:
        """Returns the seconds after which a commit of the group and client is admitted, 0.0 for now."""

    # ------------------------------------------------------------------------------------ replication

    def append_as_follower(self, partition: int, epoch: int, batches: Buffer) -> int:
        """Appends whole batches as they came from the leader of the epoch, offsets kept; returns the log end.

        Raises:
            FencedLeaderEpochError, UnknownLeaderEpochError: another epoch than the one followed, or this process leads.
            CorruptionError: no batches, or none that may follow the log.
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
        """Cuts a follower's log at an offset; returns the log end, which is below it where it lies within a batch.

        Below what was applied the table is dropped and loaded again.  Raises as `append_as_follower`, and
        CoordinatorLoadingError while the table is loaded.
        """

    def restart_at(self, partition: int, epoch: int, offset: int) -> None:
        """Drops a follower's log, which ends below where its leader's begins, and begins again at that offset.

        Raises as `truncate_to`; InvalidArgumentError for an offset below the log end.
        """

    def flush(self, partition: int) -> Transition:
        """Makes durable what is written now; the transition's result is the flushed end.  Raises PartitionError."""

    def positions(self, partition: int) -> LogPositions:
        """Returns log start, log end, flushed end, W, and the end of what is applied; zeros where no log is."""

    def end_offset_for_epoch(self, partition: int, epoch: int) -> EpochEnd:
        """Returns where an epoch ends, as OffsetForLeaderEpoch does (docs/format/directory.md §1.5).

        That is the greatest epoch of the log that is at most `epoch`, with the start of the next
        one, of the newest the log end; `epoch` with the start of the first one where it is older
        than all; (-1, -1) where it is newer than all, -1, or there is no log.
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
        """Reads whole batches from the one that holds an offset on into a buffer; returns the number of bytes.

        Args:
            partition: the log partition.
            offset: from the log start to the log end.
            buffer: writable, at least 61 bytes.
            epoch: the leader epoch of the reader, -1 for whichever it is.
            uncommitted: for followers: also at and above W.

        Raises:
            OffsetOutOfRangeError: the log does not have the offset.
            TooLargeError: the first batch does not fit; the message says what it needs.
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
        """Returns the piece of a file that `read_into` would read, for sendfile.

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
        """Watches what takes effect; see Watch.

        Args:
            groups: of these groups; None for all.
            from_position: where to go on, by log partition, as `Watch.position` was, or (-1, 0) for
                the beginning.  Only these partitions are watched.  None: all partitions that the
                groups live in, from W on.

        Raises:
            CapabilityError, GroupError, PartitionError, ClosedError.
        """
