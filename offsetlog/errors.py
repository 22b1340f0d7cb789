"""Every way in which a call of offsetlog can fail.

    OffsetLogError
    ├── InvalidArgumentError (ValueError)       an argument is out of its domain; nothing was done
    │   ├── GroupError, TopicError, PartitionError, OffsetError, MetadataTooLargeError, StringTooLongError
    │   ├── DuplicateKeyError, InsideCommitError, ConfigError, PartitionCountError
    │   └── ArgumentTypeError (TypeError)
    ├── StorageError (OSError)                  the machine below
    │   └── DiskFullError, MissingFileError (FileNotFoundError), ChangedFileError, LockedError (BlockingIOError)
    ├── CapacityError (MemoryError)             no memory, or an index space is full
    ├── CorruptionError                         the bytes
    │   ├── TornTailError, UnsupportedVersionError, LimitError
    │   ├── DataLossError, PossibleLossError    what should be there
    ├── TooLargeError (ValueError), OffsetOutOfRangeError (LookupError)
    ├── StateError                              the store or the partition, now
    │   ├── ClosedError, ReadOnlyError, PartitionFailedError
    │   ├── CoordinatorLoadingError, NotCoordinatorError          retriable
    │   ├── ConditionError: ExpectedOffsetError, RewindError
    │   ├── HistoryError, DeletesGroupError
    │   ├── GenerationError, GroupNotEmptyError, ThrottledError, NotEnoughReplicasError, CapabilityError
    │   ├── FencedError: FencedLeaderEpochError; UnknownLeaderEpochError
    │   ├── TransactionError, ClockError, DifferenceError, CommitTimeoutError (TimeoutError): UnknownOutcomeError
    ├── ClusterError                            a Kafka cluster that was asked through its protocol
    │   ├── ActiveGroupError, ClusterUnavailableError (retriable)
    ├── ZooKeeperError                          an ensemble of ZooKeeper
    │   ├── NoNodeError, NodeVersionError, NodeNotEmptyError, NodeExistsError: BrokerIdTakenError
    │   ├── ControllerMovedError
    │   ├── ZooKeeperUnavailableError (retriable): SessionExpiredError
    └── InternalError                           our bug

    CorruptionWarning (UserWarning)             opening found damage, and serves what is sound

`offsetlog.error_status` has the one table from a failure of the C floor to its class, and `offsetlog.error_codes`
says what each class means to a client of Kafka's protocol.
"""

from __future__ import annotations

import os
from datetime import datetime
from errno import EBADMSG, EIO, EUCLEAN
from typing import Any, ClassVar, Self

from offsetlog.error_codes import ERROR_CODES
from offsetlog.status import Status


class OffsetLogError(Exception):
    """Something that offsetlog was asked for could not be done; the base of all its errors.

    Attributes:
        message: the failure in one sentence, without the place.
        retriable: whether the same call may succeed later, here or at another broker.
        error_code: the number with which a coordinator answers a client of Kafka's protocol.
        status: the status of the C floor that stands for this kind of error.
        path: the file or directory concerned, or None.
        position: the byte position in that file, or None.
        log_offset: the offset in the log, or None.
        item: the refused one of many: the key of a dictionary or list (TopicPartition), the row of a batch, or None.
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
        # The built-in bases pickle by positional arguments alone; an error must come home whole from another process.
        return _rebuild, (type(self), self.message), self.__dict__.copy()


OffsetLogError._take_code()


def _rebuild(kind: type[OffsetLogError], message: str) -> OffsetLogError:
    return kind(message)


# ----------------------------------------------------------------------------------------------- the caller's arguments


class InvalidArgumentError(OffsetLogError, ValueError):
    """An argument is out of its domain; nothing was changed."""

    status = Status.INVALID


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument is of a type that the call does not take."""


class GroupError(InvalidArgumentError):
    """The group is not a name that can be written: not text, or not encodable as UTF-8."""


class TopicError(InvalidArgumentError):
    """The topic is empty, or not a name that can be written."""


class PartitionError(InvalidArgumentError):
    """The partition is negative or above 2,147,483,647."""


class OffsetError(InvalidArgumentError):
    """The offset is negative or above 2**63 - 1."""


class MetadataTooLargeError(InvalidArgumentError):
    """The metadata is longer than the limit, which counts UTF-16 units as Kafka does (4096 by default)."""


class StringTooLongError(InvalidArgumentError):
    """A string is longer than the 32,767 UTF-8 bytes that Kafka's format can hold."""


class DuplicateKeyError(InvalidArgumentError):
    """A conditional commit names the same topic and partition twice."""


class InsideCommitError(InvalidArgumentError):
    """The log offset lies inside a commit, and no state has half of one.

    Attributes:
        before: the log offset of the state before this commit.
        after: the log offset of the state after it.
    """

    def __init__(self, message: str = "", *, before: int | None = None, after: int | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.before = before
        self.after = after


class ConfigError(InvalidArgumentError):
    """A setting is out of its domain, or contradicts another."""


class PartitionCountError(ConfigError):
    """The directory has another number of partitions than asked for; groups would be looked for in the wrong place.

    Without a message, `asked` and `actual` it says that the number is needed and nobody has given it.

    Attributes:
        asked: the number that was asked for.
        actual: the number that the directory has.
    """

    def __init__(self, message: str = "", *, asked: int | None = None, actual: int | None = None, **place: Any) -> None:
        if not message and asked is None and actual is None:
            message = (
                "a Kafka directory does not say how many partitions its topic has: partitions= must be given. It is "
                "the broker's offsets.topic.num.partitions (50 by default), and the PartitionCount that "
                "kafka-topics.sh --describe --topic __consumer_offsets prints"
            )
        super().__init__(message or f"partitions={asked} was asked for, the directory has {actual}", **place)
        self.asked = asked
        self.actual = actual


class TooLargeError(OffsetLogError, ValueError):
    """A record, a batch or a delete does not fit the format or the limit set for it; nothing was changed."""

    status = Status.TOO_LARGE


class OffsetOutOfRangeError(OffsetLogError, LookupError):
    """The log offset is below the start of the log or above its end."""

    status = Status.OUT_OF_RANGE


# ---------------------------------------------------------------------------------------------------- the machine below


#: Errors of a file system about bytes that the disk does not return, or returns changed.
_BAD_DISK = frozenset({EIO, EBADMSG, EUCLEAN})


class StorageError(OffsetLogError, OSError):
    """A system call failed; `errno` says how."""

    status = Status.IO

    def __init__(self, message: str = "", *, errno: int | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.errno = errno
        self.strerror = None if errno is None else os.strerror(errno)
        self.filename = self.path

    @property
    def is_unreadable(self) -> bool:
        """Whether bytes of one file could not be read; others may be sound."""
        return type(self) is StorageError and (self.position is not None or self.errno in _BAD_DISK)

    def __reduce__(self) -> tuple[Any, ...]:
        # The slots of OSError are not in the instance's dictionary.
        kept = {"errno": self.errno, "strerror": self.strerror, "filename": self.filename}
        return _rebuild, (type(self), self.message), {**self.__dict__, **kept}


class DiskFullError(StorageError):
    """There is no space, or no quota; nothing was changed, but if only the flush of a commit failed, it stands."""

    status = Status.DISK_FULL


class MissingFileError(StorageError, FileNotFoundError):
    """A file or directory that must be there is not."""

    status = Status.NO_SUCH_FILE


class LockedError(StorageError, BlockingIOError):
    """Another process, or another store of this one, holds the directory's lock."""

    status = Status.LOCKED

    def advise(self, advice: str) -> LockedError:
        """Returns the same error with what its reader can do about it, in the place of other advice."""
        reason = self.message.partition("; ")[0]
        return LockedError(f"{reason}; {advice}", errno=self.errno, path=self.path)


class ChangedFileError(StorageError):
    """Another process replaced or cut a file while it was read; nothing is damaged, and another try may succeed."""

    status = Status.CHANGED


class CapacityError(OffsetLogError, MemoryError):
    """There is no memory; nothing was changed, but if only the flush of a commit failed, it stands."""

    status = Status.NO_MEMORY


# ------------------------------------------------------------------------------------------------------------ the bytes


class CorruptionError(OffsetLogError):
    """Bytes that were known to be on disk are not what was written; nothing is guessed, nothing is repaired.

    Attributes:
        log_partition: the partition of the offsets topic, None where no one is concerned.
        lost_from: the first log offset that cannot be read, None where none is concerned.
        lost_below: the end of those, None where nobody knows it.
        keys: the positions whose newest known commits were among them, as (group, topic, partition); empty where no
            snapshot tells.
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
    """Acknowledged commits are gone: a witness is ahead of the log, or what it lists is not there.

    The log partition is read-only until the loss is accepted (docs/repair.md).
    """


class PossibleLossError(CorruptionError):
    """Nobody can prove that nothing is missing: a witness is missing, or another program wrote here.

    Commits go on; the report stays until it is accepted (docs/repair.md).
    """


class CorruptionWarning(UserWarning):
    """Opening a store found damaged logs; what is sound in them is served, and nothing more is written to them."""


class TornTailError(CorruptionError):
    """The bytes end in the middle of something, as after a crash while it was written."""

    status = Status.TORN


class UnsupportedVersionError(CorruptionError):
    """The bytes are well formed, but of a version, magic or codec that is not known here."""

    status = Status.UNSUPPORTED


class LimitError(CorruptionError):
    """A size in the bytes is over the limit set for it, as in a decompression bomb."""

    status = Status.LIMIT


# -------------------------------------------------------------------------------------- the store or the partition, now


class StateError(OffsetLogError):
    """The store or the partition is not in a state in which the call can be answered.

    Attributes:
        rests_on: where it rests on what is not replicated yet, the log offset that W must pass before it is certain,
            and the term of the leadership in which that was written.
    """

    status = Status.CLOSED
    rests_on: tuple[int, int] | None = None


class ClosedError(StateError):
    """The store, or the object taken from it, is closed; or this process is a child made by fork."""

    status = Status.CLOSED


class ReadOnlyError(StateError):
    """The store was opened read-only, or the partition became so by what was found in its log."""

    status = Status.READ_ONLY


class PartitionFailedError(StateError):
    """A failure left the log or the state unknown, a flush for example; only another open of it helps.

    A store is closed and opened again; a log manager opens the partition at the next election.
    """

    status = Status.FAILED


class CoordinatorLoadingError(StateError):
    """The partition is still being loaded; ask again."""

    status = Status.LOADING


class NotCoordinatorError(StateError):
    """This process does not lead the partition, or no longer does; ask the one that does."""

    status = Status.NOT_COORDINATOR


class ConditionError(StateError):
    """A commit was refused because the position now is not what the caller named; nothing was written.

    Attributes:
        group: the consumer group.
        topic: the topic of the refused position.
        partition: its partition.
        actual: the offset found, None where there is none.
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
    """`expected=` did not hold: the committed offset, or its absence, is another.

    Attributes:
        expected: the offset that was expected, None for none.
    """

    status = Status.CONDITION

    def __init__(self, message: str = "", *, expected: int | None = None, **found: Any) -> None:
        super().__init__(message, **found)
        self.expected = expected

    @classmethod
    def found(cls, group: str, topic: str, partition: int, *, expected: int | None, actual: int | None) -> Self:
        """Makes the error with its sentence."""
        text = f"group {group!r} at {topic}:{partition}: expected {cls._told(expected)}, found {cls._told(actual)}"
        return cls(text, group=group, topic=topic, partition=partition, expected=expected, actual=actual)


class RewindError(ConditionError):
    """`monotonic=True` refused to go back before the committed offset.

    Attributes:
        asked: the offset that was to be committed.
    """

    status = Status.REWIND

    def __init__(self, message: str = "", *, asked: int | None = None, **found: Any) -> None:
        super().__init__(message, **found)
        self.asked = asked

    @classmethod
    def found(cls, group: str, topic: str, partition: int, *, asked: int, actual: int) -> Self:
        """Makes the error with its sentence."""
        text = f"group {group!r} at {topic}:{partition}: {asked} is below the committed offset {actual}"
        return cls(text, group=group, topic=topic, partition=partition, asked=asked, actual=actual)


class HistoryError(StateError):
    """The requested moment is older than the history that the log still holds: it was cleaned since.

    Attributes:
        floor: the first log offset whose state is known, None where there is none but the present one.
        oldest: the oldest time that can be asked for, None likewise.
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
    """The call comes from an older producer or leader epoch than the newest one known."""

    status = Status.FENCED


class FencedLeaderEpochError(FencedError):
    """The call is of an older leader epoch than this replica knows, or asks a leader to follow; nothing changed."""

    status = Status.FENCED_LEADER_EPOCH


class UnknownLeaderEpochError(StateError):
    """The call is of a leader epoch that this replica was not given yet; ask again when it was."""

    status = Status.UNKNOWN_LEADER_EPOCH


class GenerationError(StateError):
    """The group is in another generation than the caller, or has members where it may have none; nothing was written.

    Attributes:
        group: the consumer group.
        asked: the caller's generation, -1 for none.
        actual: that of the group, None where it has none.
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
    """The group has members, and goes only without them; nothing was written."""


class NotEnoughReplicasError(StateError):
    """Fewer replicas are in sync than a commit needs (`min.insync.replicas`); nothing was written."""


class CapabilityError(StateError):
    """The manager cannot do what was asked for; `OffsetManager.capabilities` says what it can."""


class DifferenceError(StateError):
    """A change that has to be made in two storages was made in one of them; the message says what stands where."""


class ThrottledError(StateError):
    """A quota is used up; nothing was written.

    Attributes:
        seconds: how long to wait before the next try.
    """

    def __init__(self, message: str = "", *, seconds: float = 0.0, **place: Any) -> None:
        super().__init__(message, **place)
        self.seconds = seconds


class TransactionError(StateError):
    """There is no such open transaction, or one that must not be there."""

    status = Status.TRANSACTION


class ClockError(StateError):
    """The time of day cannot be right: nothing expired by it.

    Attributes:
        now: the time of the clock, in milliseconds since 1970.
        newest: the time of the newest record.
    """

    def __init__(self, message: str = "", *, now: int | None = None, newest: int | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.now = now
        self.newest = newest


class CommitTimeoutError(StateError, TimeoutError):
    """The awaited event did not happen in time; it may still happen."""

    status = Status.TIMED_OUT


# ------------------------------------------------------------------------------------------------------ a Kafka cluster


class ClusterError(OffsetLogError):
    """A Kafka cluster refused what it was asked for.

    Attributes:
        code: Kafka's name of the error, as in "UNKNOWN_TOPIC_OR_PART"; librdkafka's own begin with an underscore.
        group: the consumer group, or None.
    """

    def __init__(self, message: str = "", *, code: str | None = None, group: str | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.code = code
        self.group = group


class ActiveGroupError(ClusterError):
    """The group has active members, and Kafka takes its positions from them alone."""


class ClusterUnavailableError(ClusterError):
    """The cluster, or the coordinator of the group, did not answer, or could not yet."""


# ----------------------------------------------------------------------------------------------------------- ZooKeeper


class ZooKeeperError(OffsetLogError):
    """ZooKeeper refused what it was asked for; nothing was changed.

    Attributes:
        node: the path of the node concerned, below the root of the connection; None where there is none.
    """

    def __init__(self, message: str = "", *, node: str | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.node = node


class NoNodeError(ZooKeeperError):
    """There is no such node, or not the one above it."""


class NodeExistsError(ZooKeeperError):
    """There is a node of this path already."""


class BrokerIdTakenError(NodeExistsError):
    """Another broker is registered under this id; the message names it.

    Attributes:
        broker_id: the id.
        holder: the first address of the other broker, as "kafka1:9092"; None where its node cannot be read.
        session: the session with ZooKeeper that keeps its node.
        since_ms: when it registered, ms since 1970.
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
    """The caller is not the controller, or acts for one of an older epoch than the cluster has; nothing was changed.

    Attributes:
        controller_id: the broker that is the controller now, None where that is not known.
        epoch: the epoch of the controller now, None likewise.
    """

    def __init__(
        self, message: str = "", *, controller_id: int | None = None, epoch: int | None = None, **place: Any
    ) -> None:
        super().__init__(message, **place)
        self.controller_id = controller_id
        self.epoch = epoch


class NodeVersionError(ZooKeeperError):
    """The node was changed meanwhile: its version is not the one that was named."""


class NodeNotEmptyError(ZooKeeperError):
    """The node has nodes below it."""


class ZooKeeperUnavailableError(ZooKeeperError):
    """No ZooKeeper answered; a write that raises this was not made."""


class SessionExpiredError(ZooKeeperUnavailableError):
    """The session ended; its ephemeral nodes are gone, and a new session begins."""


class UnknownOutcomeError(CommitTimeoutError):
    """The connection to ZooKeeper broke, or was silent, after a write was sent: it was made as a whole, or not at all.

    Attributes:
        node: the path of the first node that is written.
    """

    def __init__(self, message: str = "", *, node: str | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.node = node


# ------------------------------------------------------------------------------------------------------ neither of them


class InternalError(OffsetLogError):
    """An invariant of offsetlog's own code does not hold; please report it."""

    status = -1
