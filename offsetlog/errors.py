"""Every error that a call of offsetlog can raise.

    OffsetLogError
    ├── InvalidArgumentError (ValueError)       an argument is not valid; nothing was done
    │   ├── GroupError, TopicError, PartitionError, OffsetError, MetadataTooLargeError, StringTooLongError
    │   ├── DuplicateKeyError, InsideCommitError, ConfigError, PartitionCountError
    │   └── ArgumentTypeError (TypeError)
    ├── StorageError (OSError)                  the file system or the disk
    │   └── DiskFullError, MissingFileError (FileNotFoundError), ChangedFileError, LockedError (BlockingIOError)
    ├── CapacityError (MemoryError)             no memory, or an index space is full
    ├── CorruptionError                         damaged or unknown bytes
    │   ├── TornTailError, UnsupportedVersionError, LimitError
    │   ├── DataLossError, PossibleLossError    missing records
    ├── TooLargeError (ValueError), OffsetOutOfRangeError (LookupError)
    ├── StateError                              the present state of the store or the partition
    │   ├── ClosedError, ReadOnlyError, PartitionFailedError
    │   ├── CoordinatorLoadingError, NotCoordinatorError          retriable
    │   ├── ConditionError: ExpectedOffsetError, RewindError
    │   ├── HistoryError, DeletesGroupError
    │   ├── GenerationError, GroupNotEmptyError, ThrottledError, NotEnoughReplicasError, CapabilityError
    │   ├── FencedError: FencedLeaderEpochError; UnknownLeaderEpochError
    │   ├── TransactionError, ClockError, DifferenceError, CommitTimeoutError (TimeoutError): UnknownOutcomeError
    ├── ClusterError                            a Kafka cluster, reached through its protocol
    │   ├── ActiveGroupError, ClusterUnavailableError (retriable)
    ├── ZooKeeperError                          a ZooKeeper ensemble
    │   ├── NoNodeError, NodeVersionError, NodeNotEmptyError, NodeExistsError: BrokerIdTakenError
    │   ├── ControllerMovedError
    │   ├── ZooKeeperUnavailableError (retriable): SessionExpiredError
    └── InternalError                           a bug in offsetlog

    CorruptionWarning (UserWarning)             opening found damage, and serves the sound part

`offsetlog.error_status` maps each failure of the C code to its class, and `offsetlog.error_codes` says what each class
means to a client of Kafka's protocol.
"""

from __future__ import annotations

import os
from datetime import datetime
from errno import EBADMSG, EIO, EUCLEAN
from typing import Any, ClassVar, Self

from offsetlog.error_codes import ERROR_CODES
from offsetlog.status import Status


class OffsetLogError(Exception):
    """A call of offsetlog failed; the base of all its errors.

    Attributes:
        message: the failure in one sentence, without the file and the position.
        retriable: whether the same call may succeed later, here or at another broker.
        error_code: the code that a coordinator sends to a client of Kafka's protocol.
        status: the status of the C code for this kind of error.
        path: the file or directory concerned, or None.
        position: the byte position in that file, or None.
        log_offset: the offset in the log, or None.
        item: the item that was refused, if the call has several: the key as the caller passed it, or the row of a
            batch.  Otherwise None.
    """

    retriable: ClassVar[bool]
    error_code: ClassVar[int]
    status: int = Status.INVALID

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if cls.__module__ == __name__:
            cls._take_code()

    @classmethod
    def _take_code(cls) -> None:
        entry = ERROR_CODES.get(cls.__name__)
        if entry is not None:
            cls.error_code, cls.retriable = entry

    def __init__(
        self,
        message: str = "",
        *,
        path: str | os.PathLike[str] | None = None,
        position: int | None = None,
        log_offset: int | None = None,
        item: object = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = None if path is None else os.fspath(path)
        self.position = position
        self.log_offset = log_offset
        self.item = item

    def __str__(self) -> str:
        places = self._places()
        text = self.message or type(self).__name__
        return f"{text} ({', '.join(places)})" if places else text

    def _places(self) -> list[str]:
        places = []
        if self.path is not None:
            places.append(self.path)
        if self.position is not None:
            places.append(f"byte {self.position}")
        if self.log_offset is not None:
            places.append(f"log offset {self.log_offset}")
        return places

    def __reduce__(self) -> tuple[Any, ...]:
        # The built-in bases pickle positional arguments only; this keeps every attribute across processes.
        return _rebuild, (type(self), self.message), self.__dict__.copy()


OffsetLogError._take_code()


def _rebuild(kind: type[OffsetLogError], message: str) -> OffsetLogError:
    return kind(message)


# ----------------------------------------------------------------------------------------------- the caller's arguments


class InvalidArgumentError(OffsetLogError, ValueError):
    """An argument is not valid; nothing was changed."""

    status = Status.INVALID


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument has a type that the call does not accept."""


class GroupError(InvalidArgumentError):
    """The name of the group cannot be used, because UTF-8 cannot encode it or the storage does not allow it."""


class TopicError(InvalidArgumentError):
    """The topic is empty, or is not a name that can be written."""


class PartitionError(InvalidArgumentError):
    """The partition is negative or above 2,147,483,647, or there is no log partition with this number."""


class OffsetError(InvalidArgumentError):
    """The offset is negative or above 2**63 - 1."""


class MetadataTooLargeError(InvalidArgumentError):
    """The metadata is longer than the limit, which counts UTF-16 units as Kafka does (4096 by default)."""


class StringTooLongError(InvalidArgumentError):
    """A string is longer than 32,767 bytes of UTF-8, the most that Kafka's format can hold."""


class DuplicateKeyError(InvalidArgumentError):
    """The keys of a call name the same topic and partition more than once, for example as a str and as an object."""


class InsideCommitError(InvalidArgumentError):
    """The log offset is inside a commit.  A commit takes effect as a whole, so the log has no state at this offset.

    Attributes:
        before: the log offset of the state before this commit.
        after: the log offset of the state after this commit.
    """

    def __init__(self, message: str = "", *, before: int | None = None, after: int | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.before = before
        self.after = after


class ConfigError(InvalidArgumentError):
    """A setting is out of range, or contradicts another."""


class PartitionCountError(ConfigError):
    """The directory has another number of partitions than requested, so groups would be looked up in wrong partitions.

    An error that is created without arguments says that the caller must pass the number.

    Attributes:
        asked: the number that the caller requested.
        actual: the number that the directory has.
    """

    def __init__(self, message: str = "", *, asked: int | None = None, actual: int | None = None, **place: Any) -> None:
        if not message and asked is None and actual is None:
            message = (
                "a Kafka directory does not record its number of partitions: pass partitions=N, where N is the "
                "broker's offsets.topic.num.partitions (50 by default). kafka-topics.sh --describe --topic "
                "__consumer_offsets prints N as PartitionCount"
            )
        super().__init__(message or f"partitions={asked} was given, but the directory has {actual} partitions", **place)
        self.asked = asked
        self.actual = actual


class TooLargeError(OffsetLogError, ValueError):
    """A record, a batch or a deletion is too large for the format or for a limit; nothing was changed."""

    status = Status.TOO_LARGE


class OffsetOutOfRangeError(OffsetLogError, LookupError):
    """The log offset is below the start of the log or above its end."""

    status = Status.OUT_OF_RANGE


# ---------------------------------------------------------------------------------------------------- the machine below


#: The errnos of a disk that cannot return bytes, or returns changed bytes.
_BAD_DISK = frozenset({EIO, EBADMSG, EUCLEAN})


class StorageError(OffsetLogError, OSError):
    """A system call failed, or a file or lock cannot be used.  `errno` is that of the system call, or None."""

    status = Status.IO

    def __init__(self, message: str = "", *, errno: int | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.errno = errno
        self.strerror = None if errno is None else os.strerror(errno)
        self.filename = self.path

    @property
    def is_unreadable(self) -> bool:
        """Whether some bytes of a file could not be read.  Other files may still be readable."""
        return type(self) is StorageError and (self.position is not None or self.errno in _BAD_DISK)

    def __reduce__(self) -> tuple[Any, ...]:
        # OSError keeps these outside the instance's dictionary.
        kept = {"errno": self.errno, "strerror": self.strerror, "filename": self.filename}
        return _rebuild, (type(self), self.message), {**self.__dict__, **kept}


class DiskFullError(StorageError):
    """The disk or quota is full.  Nothing was changed; but if only the flush of a commit failed, it remains written."""

    status = Status.DISK_FULL


class MissingFileError(StorageError, FileNotFoundError):
    """A required file or directory does not exist."""

    status = Status.NO_SUCH_FILE


class LockedError(StorageError, BlockingIOError):
    """Another process, or another store in this process, holds the lock of the directory."""

    status = Status.LOCKED

    def advise(self, advice: str) -> LockedError:
        """Returns this error with `advice` to the reader, which replaces any earlier advice."""
        reason = self.message.partition("; ")[0]
        return LockedError(f"{reason}; {advice}", errno=self.errno, path=self.path)


class ChangedFileError(StorageError):
    """Another process replaced or truncated a file during the read.  Nothing is damaged; a retry may succeed."""

    status = Status.CHANGED


class CapacityError(OffsetLogError, MemoryError):
    """Memory ran out.  Nothing was changed; but if only the flush of a commit failed, the commit remains written."""

    status = Status.NO_MEMORY


# ------------------------------------------------------------------------------------------------------------ the bytes


class CorruptionError(OffsetLogError):
    """Bytes on the disk are not those that were written.  offsetlog reports them, and does not repair by guessing.

    Attributes:
        log_partition: the partition of the offsets topic; None if the error is not about one.
        lost_from: the first log offset that cannot be read; None if the error is not about log offsets.
        lost_below: the log offset after the last one that cannot be read; None if it is unknown.
        keys: the positions, as (group, topic, partition), whose newest known commits were in the lost range; empty if
            no snapshot shows them.
    """

    status = Status.CORRUPT

    def __init__(
        self, message: str = "", *, log_partition: int | None = None, lost_from: int | None = None,
        lost_below: int | None = None, **place: Any
    ) -> None:
        super().__init__(message, **place)
        self.log_partition = log_partition
        self.lost_from = lost_from
        self.lost_below = lost_below
        self.keys: tuple[tuple[str, str, int], ...] = ()

    def _places(self) -> list[str]:
        if self.lost_from is None:
            return super()._places()
        places = [each for each in super()._places() if not each.startswith("log offset ")]
        if self.log_partition is not None:
            places.append(f"log partition {self.log_partition}")
        until = "and above" if self.lost_below is None else f"to {self.lost_below - 1}"
        return [*places, f"log offsets {self.lost_from} {until}"]


class DataLossError(CorruptionError):
    """Acknowledged commits are missing: a file that records how far the log extends lists more than the log contains.

    The log partition is read-only until somebody accepts the loss (docs/repair.md).
    """


class PossibleLossError(CorruptionError):
    """Records may be missing: the file that would prove the log complete is gone, or another program wrote to the log.

    The log partition still accepts commits.  The problem is reported until somebody accepts it (docs/repair.md).
    """


class CorruptionWarning(UserWarning):
    """Opening a store found damaged or incomplete logs.  Damaged logs are read-only; their sound part is served."""


class TornTailError(CorruptionError):
    """The bytes end in the middle of a record or a file, for example after a crash during the write."""

    status = Status.TORN


class UnsupportedVersionError(CorruptionError):
    """The bytes are well formed, but their version, magic or codec is not supported."""

    status = Status.UNSUPPORTED


class LimitError(CorruptionError):
    """The bytes state a size that is above its limit, as in a decompression bomb."""

    status = Status.LIMIT


# -------------------------------------------------------------------------------------- the store or the partition, now


class StateError(OffsetLogError):
    """The store or the partition cannot answer the call in its present state.

    Attributes:
        rests_on: None, unless the error depends on records that are not replicated yet.  Then (log offset, term): the
            error is final once the high watermark reaches this log offset before this term of the leader ends.
    """

    status = Status.CLOSED
    rests_on: tuple[int, int] | None = None


class ClosedError(StateError):
    """The store or an object of it is closed, or this process was forked from the process that opened the store."""

    status = Status.CLOSED


class ReadOnlyError(StateError):
    """The store was opened read-only, or the partition became read-only because of damage in its log."""

    status = Status.READ_ONLY


class PartitionFailedError(StateError):
    """After a failure, for example of a flush, the state of the log is unknown.  The partition must be opened again.

    Close the store and open it again.  In a broker, the manager opens the partition at the next election.
    """

    status = Status.FAILED


class CoordinatorLoadingError(StateError):
    """The partition is still being loaded; try again."""

    status = Status.LOADING


class NotCoordinatorError(StateError):
    """This process does not lead the partition, or leads it no longer.  Send the call to the broker that leads it.

    A write that had begun before the leadership ended may still take effect.
    """

    status = Status.NOT_COORDINATOR


class ConditionError(StateError):
    """A commit was refused because the present position does not meet its condition; nothing was written.

    Attributes:
        group: the consumer group.
        topic: the topic of the refused position.
        partition: the partition of the topic.
        actual: the committed offset; None if there is none.
    """

    def __init__(
        self, message: str = "", *, group: str | None = None, topic: str | None = None, partition: int | None = None,
        actual: int | None = None, **place: Any
    ) -> None:
        super().__init__(message, **place)
        self.group = group
        self.topic = topic
        self.partition = partition
        self.actual = actual

    @staticmethod
    def _text(offset: int | None) -> str:
        return "no offset" if offset is None else str(offset)


class ExpectedOffsetError(ConditionError):
    """The committed offset is not the one that the caller passed in `expected=`.

    Attributes:
        expected: the offset that the caller expected; None if the caller expected no position.
    """

    status = Status.CONDITION

    def __init__(self, message: str = "", *, expected: int | None = None, **found: Any) -> None:
        super().__init__(message, **found)
        self.expected = expected

    @classmethod
    def found(cls, group: str, topic: str, partition: int, *, expected: int | None, actual: int | None) -> Self:
        """Creates the error and its message."""
        text = f"group {group!r} at {topic}:{partition}: expected {cls._text(expected)}, found {cls._text(actual)}"
        return cls(text, group=group, topic=topic, partition=partition, expected=expected, actual=actual)


class RewindError(ConditionError):
    """A commit with `monotonic=True` was refused, because its offset is below the committed offset.

    Attributes:
        asked: the offset of the refused commit.
    """

    status = Status.REWIND

    def __init__(self, message: str = "", *, asked: int | None = None, **found: Any) -> None:
        super().__init__(message, **found)
        self.asked = asked

    @classmethod
    def found(cls, group: str, topic: str, partition: int, *, asked: int, actual: int) -> Self:
        """Creates the error and its message."""
        text = f"group {group!r} at {topic}:{partition}: {asked} is below the committed offset {actual}"
        return cls(text, group=group, topic=topic, partition=partition, asked=asked, actual=actual)


class HistoryError(StateError):
    """The requested moment is before the history that the log still has; cleaning has removed what was earlier.

    Attributes:
        floor: the first log offset whose state is known; None if only the present state is known.
        oldest: the oldest time that can be queried; None if only the present state can be queried.
        log_partition: the partition of the offsets topic.
    """

    def __init__(
        self, message: str = "", *, floor: int | None = None, oldest: datetime | None = None,
        log_partition: int | None = None, **place: Any
    ) -> None:
        super().__init__(message, **place)
        self.floor = floor
        self.oldest = oldest
        self.log_partition = log_partition


class DeletesGroupError(StateError):
    """A restore needs `delete_all` if it would leave the group no offsets, or if the group had none at that moment."""


class FencedError(StateError):
    """The producer epoch or leader epoch of the call is older than the newest one known."""

    status = Status.FENCED


class FencedLeaderEpochError(FencedError):
    """The leader epoch of the call is too old, or the call is only for followers and this replica leads."""

    status = Status.FENCED_LEADER_EPOCH


class UnknownLeaderEpochError(StateError):
    """The leader epoch of the call is newer than the newest one that this replica knows; try again later."""

    status = Status.UNKNOWN_LEADER_EPOCH


class GenerationError(StateError):
    """The caller's generation is not the group's, or the group has members but must have none; nothing was written.

    Attributes:
        group: the consumer group.
        asked: the generation that the caller passed; -1 for none.
        actual: the generation of the group; None if the group has none.
    """

    status = Status.GENERATION

    def __init__(
        self, message: str = "", *, group: str | None = None, asked: int = -1, actual: int | None = None, **place: Any
    ) -> None:
        super().__init__(message, **place)
        self.group = group
        self.asked = asked
        self.actual = actual


class GroupNotEmptyError(GenerationError):
    """The group has members, but only a group without members can be deleted; nothing was written."""


class NotEnoughReplicasError(StateError):
    """Fewer replicas are in sync than a commit needs (`min.insync.replicas`); nothing was written."""


class CapabilityError(StateError):
    """The manager does not support the call; `OffsetManager.capabilities` says what it supports."""


class DifferenceError(StateError):
    """A change was made in ZooKeeper, but perhaps not in the log that has the same positions.  Make the call again."""


class ThrottledError(StateError):
    """A quota is used up; nothing was written.

    Attributes:
        seconds: how long to wait before the next try.
    """

    def __init__(self, message: str = "", *, seconds: float = 0.0, **place: Any) -> None:
        super().__init__(message, **place)
        self.seconds = seconds


class TransactionError(StateError):
    """The transaction is not open; or the producer has an open transaction already; or its producer id is reserved."""

    status = Status.TRANSACTION


class ClockError(StateError):
    """The clock is before the newest record, or has jumped.  No positions of the log or ZooKeeper group were expired.

    Attributes:
        now: the time that this machine's clock shows, in milliseconds since 1970.
        newest: the time of the newest record, in milliseconds since 1970.
    """

    def __init__(self, message: str = "", *, now: int | None = None, newest: int | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.now = now
        self.newest = newest


class CommitTimeoutError(StateError, TimeoutError):
    """The awaited event, such as a flush or a replication, did not happen within the timeout; it may still happen."""

    status = Status.TIMED_OUT


# ------------------------------------------------------------------------------------------------------ a Kafka cluster


class ClusterError(OffsetLogError):
    """A Kafka cluster refused a request.

    Attributes:
        code: the name of the error, such as "UNKNOWN_TOPIC_OR_PART"; errors of librdkafka itself begin with "_".
        group: the consumer group, or None.
    """

    def __init__(self, message: str = "", *, code: str | None = None, group: str | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.code = code
        self.group = group


class ActiveGroupError(ClusterError):
    """The group has active members, and Kafka accepts positions only from them."""


class ClusterUnavailableError(ClusterError):
    """The cluster, or the coordinator of the group, did not answer or was not ready."""


# ----------------------------------------------------------------------------------------------------------- ZooKeeper


class ZooKeeperError(OffsetLogError):
    """ZooKeeper refused a request; nothing was changed.

    Attributes:
        node: the path of the node concerned, below the root of the connection; None if there is no such node.
    """

    def __init__(self, message: str = "", *, node: str | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.node = node


class NoNodeError(ZooKeeperError):
    """The node, or its parent, does not exist."""


class NodeExistsError(ZooKeeperError):
    """A node with this path exists already."""


class BrokerIdTakenError(NodeExistsError):
    """Another broker is registered with this broker id.  The message names that broker.

    Attributes:
        broker_id: the broker id.
        holder: the first address of the other broker, such as "kafka1:9092"; None if its node cannot be read.
        session: the ZooKeeper session that keeps the other broker's node.
        since_ms: when the other broker registered, in ms since 1970.
    """

    def __init__(
        self, message: str = "", *, broker_id: int = -1, holder: str | None = None, session: int = 0,
        since_ms: int = -1, **place: Any
    ) -> None:
        super().__init__(message, **place)
        self.broker_id = broker_id
        self.holder = holder
        self.session = session
        self.since_ms = since_ms


class ControllerMovedError(ZooKeeperError):
    """The caller is not the controller, or its controller epoch is older than the present one; nothing was changed.

    Attributes:
        controller_id: the present controller's broker id, None if unknown.
        epoch: the present controller's epoch, None if unknown.
    """

    def __init__(
        self, message: str = "", *, controller_id: int | None = None, epoch: int | None = None, **place: Any
    ) -> None:
        super().__init__(message, **place)
        self.controller_id = controller_id
        self.epoch = epoch


class NodeVersionError(ZooKeeperError):
    """The node has changed, so its version is not the one in the request."""


class NodeNotEmptyError(ZooKeeperError):
    """The node has children."""


class ZooKeeperUnavailableError(ZooKeeperError):
    """No ZooKeeper server answered; nothing was written."""


class SessionExpiredError(ZooKeeperUnavailableError):
    """The session has ended.  Its ephemeral nodes have been deleted, and a new session begins."""


class UnknownOutcomeError(CommitTimeoutError):
    """The connection to ZooKeeper ended after a write was sent.  Either all of the write was made, or none of it.

    Attributes:
        node: the path of the first node of the write.
    """

    def __init__(self, message: str = "", *, node: str | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.node = node


# ------------------------------------------------------------------------------------------------------ our own bugs


class InternalError(OffsetLogError):
    """An invariant of offsetlog's code does not hold.  This is a bug; please report it."""

    status = -1
