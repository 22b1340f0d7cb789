"""Every way in which a call of offsetlog can fail.

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
        item: the refused item of several: the key as the caller passed it, or the row of a batch; None if there is only
            one.
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
    """The name of the group cannot be used: UTF-8 cannot encode it, or the storage allows no such name."""


class TopicError(InvalidArgumentError):
    """The topic is empty, or not a name that can be written."""


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
    """The log offset is inside a commit; a commit takes effect as a whole, so no state ends there.

    Attributes:
        before: the log offset of the state before this commit.
        after: the log offset of the state after it.
    """

    def __init__(self, message: str = "", *, before: int | None = None, after: int | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.before = before
        self.after = after


class ConfigError(InvalidArgumentError):
    """A setting is out of range, or contradicts another."""


class PartitionCountError(ConfigError):
    """The directory has another number of partitions than requested; groups would be looked up in the wrong partition.

    Without arguments, the message says that the number is required but was not given.

    Attributes:
        asked: the requested number.
        actual: the number that the directory has.
    """

    def __init__(self, message: str = "", *, asked: int | None = None, actual: int | None = None, **place: Any) -> None:
        if not message and asked is None and actual is None:
            message = (
                "a Kafka directory does not record its number of partitions: pass partitions=, the broker's "
                "offsets.topic.num.partitions (50 by default), which is the PartitionCount printed by "
                "kafka-topics.sh --describe --topic __consumer_offsets"
            )
        super().__init__(message or f"partitions={asked} was given, but the directory has {actual}", **place)
        self.asked = asked
        self.actual = actual


class TooLargeError(OffsetLogError, ValueError):
    """A record, batch or delete does not fit the format or its limit; nothing was changed."""

    status = Status.TOO_LARGE


class OffsetOutOfRangeError(OffsetLogError, LookupError):
    """The log offset is below the start of the log or above its end."""

    status = Status.OUT_OF_RANGE


# ---------------------------------------------------------------------------------------------------- the machine below


#: The errnos of a disk that cannot return bytes, or returns changed bytes.
_BAD_DISK = frozenset({EIO, EBADMSG, EUCLEAN})


class StorageError(OffsetLogError, OSError):
    """A system call failed, or a file or a lock has an unusable state; `errno` is the call's error, otherwise None."""

    status = Status.IO

    def __init__(self, message: str = "", *, errno: int | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.errno = errno
        self.strerror = None if errno is None else os.strerror(errno)
        self.filename = self.path

    @property
    def is_unreadable(self) -> bool:
        """Whether bytes of one file could not be read; other files may be sound."""
        return type(self) is StorageError and (self.position is not None or self.errno in _BAD_DISK)

    def __reduce__(self) -> tuple[Any, ...]:
        # OSError keeps these outside the instance's dictionary.
        kept = {"errno": self.errno, "strerror": self.strerror, "filename": self.filename}
        return _rebuild, (type(self), self.message), {**self.__dict__, **kept}


class DiskFullError(StorageError):
    """The disk or the quota is full; nothing was changed, but a commit remains if only its flush failed."""

    status = Status.DISK_FULL


class MissingFileError(StorageError, FileNotFoundError):
    """A required file or directory does not exist."""

    status = Status.NO_SUCH_FILE


class LockedError(StorageError, BlockingIOError):
    """Another process, or another store of this process, holds the directory's lock."""

    status = Status.LOCKED

    def advise(self, advice: str) -> LockedError:
        """Returns this error with `advice` for the reader, in place of any earlier advice."""
        reason = self.message.partition("; ")[0]
        return LockedError(f"{reason}; {advice}", errno=self.errno, path=self.path)


class ChangedFileError(StorageError):
    """Another process replaced or truncated a file while it was read; nothing is damaged, and a retry may succeed."""

    status = Status.CHANGED


class CapacityError(OffsetLogError, MemoryError):
    """Memory ran out; nothing was changed, but a commit remains if only its flush failed."""

    status = Status.NO_MEMORY


# ------------------------------------------------------------------------------------------------------------ the bytes


class CorruptionError(OffsetLogError):
    """Bytes on the disk are no longer those that were written; offsetlog reports them, and does not repair by guessing.

    Attributes:
        log_partition: the partition of the offsets topic; None if the error is not about one.
        lost_from: the first log offset that cannot be read; None if the error is not about log offsets.
        lost_below: the log offset after the last one that cannot be read; None if it is unknown.
        keys: the positions whose newest known commits were in the lost range, as (group, topic, partition); empty if no
            snapshot shows them.
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
    """Acknowledged commits are gone: a file that records the log's extent lists more than the log holds.

    The log partition is read-only until the loss is accepted (docs/repair.md).
    """


class PossibleLossError(CorruptionError):
    """Records may be missing: a file that would prove the log complete is gone, or another program wrote to the log.

    The log partition still takes commits.  The problem is reported until the owner accepts it (docs/repair.md).
    """


class CorruptionWarning(UserWarning):
    """Opening a store found damaged or incomplete logs; a damaged log is read-only, and its sound part is served."""


class TornTailError(CorruptionError):
    """The bytes end in the middle of a record or a file, as after a crash during the write."""

    status = Status.TORN


class UnsupportedVersionError(CorruptionError):
    """The bytes are well formed, but their version, magic or codec is not supported."""

    status = Status.UNSUPPORTED


class LimitError(CorruptionError):
    """A size in the bytes is over its limit, as in a decompression bomb."""

    status = Status.LIMIT


# -------------------------------------------------------------------------------------- the store or the partition, now


class StateError(OffsetLogError):
    """The store or the partition cannot answer the call in its present state.

    Attributes:
        rests_on: set if the error depends on a record that is not replicated yet.  It has the log offset that the high
            watermark must pass before the error is certain, and the term of the leadership that wrote the record.
    """

    status = Status.CLOSED
    rests_on: tuple[int, int] | None = None


class ClosedError(StateError):
    """The store, or the object taken from it, is closed; or this process is a child made by fork."""

    status = Status.CLOSED


class ReadOnlyError(StateError):
    """The store was opened read-only, or the partition became read-only because of damage in its log."""

    status = Status.READ_ONLY


class PartitionFailedError(StateError):
    """After a failure, such as one of a flush, the state of the log is unknown; the partition must be opened again.

    A store must be closed and opened again.  The manager of a broker opens the partition at the next election.
    """

    status = Status.FAILED


class CoordinatorLoadingError(StateError):
    """The partition is still being loaded; try again."""

    status = Status.LOADING


class NotCoordinatorError(StateError):
    """This process does not lead the partition, or no longer does; send the call to the broker that leads it.

    A write that had begun when the leadership ended may still take effect.
    """

    status = Status.NOT_COORDINATOR


class ConditionError(StateError):
    """A commit was refused because the present position does not meet its condition; nothing was written.

    Attributes:
        group: the consumer group.
        topic: the topic of the refused position.
        partition: the partition of the topic.
        actual: the committed offset, None if there is none.
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
    def _told(offset: int | None) -> str:
        return "no offset" if offset is None else str(offset)


class ExpectedOffsetError(ConditionError):
    """The condition `expected=` failed: the committed offset differs from it.

    Attributes:
        expected: the expected offset, None for no position.
    """

    status = Status.CONDITION

    def __init__(self, message: str = "", *, expected: int | None = None, **found: Any) -> None:
        super().__init__(message, **found)
        self.expected = expected

    @classmethod
    def found(cls, group: str, topic: str, partition: int, *, expected: int | None, actual: int | None) -> Self:
        """Makes the error with its message."""
        text = f"group {group!r} at {topic}:{partition}: expected {cls._told(expected)}, found {cls._told(actual)}"
        return cls(text, group=group, topic=topic, partition=partition, expected=expected, actual=actual)


class RewindError(ConditionError):
    """`monotonic=True` refused a commit below the committed offset.

    Attributes:
        asked: the offset of the refused commit.
    """

    status = Status.REWIND

    def __init__(self, message: str = "", *, asked: int | None = None, **found: Any) -> None:
        super().__init__(message, **found)
        self.asked = asked

    @classmethod
    def found(cls, group: str, topic: str, partition: int, *, asked: int, actual: int) -> Self:
        """Makes the error with its message."""
        text = f"group {group!r} at {topic}:{partition}: {asked} is below the committed offset {actual}"
        return cls(text, group=group, topic=topic, partition=partition, asked=asked, actual=actual)


class HistoryError(StateError):
    """The requested moment is older than the history in the log, which later cleaning removed.

    Attributes:
        floor: the first log offset whose state is known; None if only the present state is known.
        oldest: the oldest time that can be queried; None if only the present state can be.
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
    """A restore was refused because it would delete all offsets of the group; `delete_all` permits it."""


class FencedError(StateError):
    """The call has a producer epoch or leader epoch that is older than the newest one known."""

    status = Status.FENCED


class FencedLeaderEpochError(FencedError):
    """The call's leader epoch is too old for this replica, or the call is for followers and this replica leads."""

    status = Status.FENCED_LEADER_EPOCH


class UnknownLeaderEpochError(StateError):
    """The call has a leader epoch that this replica has not learned yet; try again later."""

    status = Status.UNKNOWN_LEADER_EPOCH


class GenerationError(StateError):
    """The group has another generation than the caller, or has members where none are allowed; nothing was written.

    Attributes:
        group: the consumer group.
        asked: the caller's generation, -1 for none.
        actual: the group's generation, None if it has none.
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
    """The group has members, and only a group without members can be deleted; nothing was written."""


class NotEnoughReplicasError(StateError):
    """Fewer replicas are in sync than a commit needs (`min.insync.replicas`); nothing was written."""


class CapabilityError(StateError):
    """The manager does not support the call; `OffsetManager.capabilities` says what it supports."""


class DifferenceError(StateError):
    """A change was made in ZooKeeper, but perhaps not in the log that keeps the same positions; make the call again."""


class ThrottledError(StateError):
    """A quota is used up; nothing was written.

    Attributes:
        seconds: how long to wait before the next try.
    """

    def __init__(self, message: str = "", *, seconds: float = 0.0, **place: Any) -> None:
        super().__init__(message, **place)
        self.seconds = seconds


class TransactionError(StateError):
    """The transaction is not open, another one is open where none is allowed, or the producer id is reserved."""

    status = Status.TRANSACTION


class ClockError(StateError):
    """The clock is before the newest record, or has jumped: nothing of that log, or group in ZooKeeper, expired.

    Attributes:
        now: the time of this machine's clock, in milliseconds since 1970.
        newest: the time of the newest record, in milliseconds since 1970.
    """

    def __init__(self, message: str = "", *, now: int | None = None, newest: int | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.now = now
        self.newest = newest


class CommitTimeoutError(StateError, TimeoutError):
    """The awaited event, such as a flush or a replication, did not happen within the timeout, but may still happen."""

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
        node: the path of the node concerned, below the root of the connection; None if the error is not about one.
    """

    def __init__(self, message: str = "", *, node: str | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.node = node


class NoNodeError(ZooKeeperError):
    """The node does not exist, or its parent does not."""


class NodeExistsError(ZooKeeperError):
    """A node with this path exists already."""


class BrokerIdTakenError(NodeExistsError):
    """Another broker is registered under this id; the message names that broker.

    Attributes:
        broker_id: the id.
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
    """The node has changed: its version differs from the one in the request."""


class NodeNotEmptyError(ZooKeeperError):
    """The node has children."""


class ZooKeeperUnavailableError(ZooKeeperError):
    """No ZooKeeper server answered; nothing was written."""


class SessionExpiredError(ZooKeeperUnavailableError):
    """The session ended; its ephemeral nodes are gone, and a new session begins."""


class UnknownOutcomeError(CommitTimeoutError):
    """The connection to ZooKeeper broke or timed out after a write was sent: either all of the write was made, or none.

    Attributes:
        node: the path of the first node of the write.
    """

    def __init__(self, message: str = "", *, node: str | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.node = node


# ------------------------------------------------------------------------------------------------------ our own bugs


class InternalError(OffsetLogError):
    """An invariant of offsetlog's code does not hold; this is a bug, please report it."""

    status = -1
