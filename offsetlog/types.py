"""The values that calls accept and return."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from io import FileIO
from typing import Any, Literal, NamedTuple, Protocol, SupportsIndex, TypeVar, overload
from uuid import UUID

#: From the start of a batch to the end of its last offset delta (docs/format/batches.md §2.1).
_OFFSETS_BYTES = 27


class TopicPartition(NamedTuple):
    """A partition of a topic, for which positions are committed."""

    topic: str
    partition: int


class NamesPartition(Protocol):
    """An object that names a topic and a partition, such as the TopicPartition of confluent-kafka."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def partition(self) -> SupportsIndex:
        """The partition of the topic."""


PartitionKey = tuple[str, SupportsIndex] | NamesPartition
"""A topic and its partition, as calls accept them: a TopicPartition, a plain tuple, or another library's object."""

#: The type of all keys of a mapping, and of all keys of a second mapping.
Key = TypeVar("Key", bound=PartitionKey)
OtherKey = TypeVar("OtherKey", bound=PartitionKey)


def key_of(named: Any) -> TopicPartition | None:
    """Returns the topic and the partition that the caller's object names; None if it names none.

    A tuple of two elements names a topic and a partition.  So does any object that has the attributes `topic`, a str,
    and `partition`, even a longer tuple of another library.  Other attributes, such as an offset, are ignored.  If the
    partition is an integer of any type, it is converted to an int.  Any other partition is returned as it is, so that
    the caller can check it.
    """
    if isinstance(named, tuple) and len(named) == 2:
        topic, partition = named
        if type(partition) is int:
            return named  # type: ignore[return-value]  # a plain tuple is as good
        return TopicPartition(topic, _plain(partition))
    topic, partition = getattr(named, "topic", None), getattr(named, "partition", None)
    if isinstance(topic, str) and partition is not None and not callable(partition):
        return TopicPartition(topic, _plain(partition))
    return None


def _plain(number: Any) -> Any:
    if isinstance(number, bool):
        return number
    try:
        return operator.index(number)
    except TypeError:
        return number


class OffsetAndMetadata(NamedTuple):
    """A committed position.  The first three fields are in the order of kafka-python.

    Attributes:
        offset: the next offset that the group will read.
        metadata: free text of the client that committed, at most 4096 UTF-16 units by default.
        leader_epoch: the leader epoch of the last record that was read; -1 if it is unknown.
        commit_timestamp: the time of the commit, in milliseconds since 1970; -1 to use the store's clock.
        expire_timestamp: the time when the position expires, in milliseconds since 1970; -1 if the record has none.
        topic_id: Kafka's id of the topic, or None.  Only values of version 4 contain it; a commit that writes another
            version silently omits it.  `StoreConfig(write_offset_value_v4="always")` writes version 4; "auto", the
            default, writes it if the log partition already has such values.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    commit_timestamp: int = -1
    expire_timestamp: int = -1
    topic_id: UUID | None = None


Committed = (
    SupportsIndex | OffsetAndMetadata | tuple[SupportsIndex] | tuple[SupportsIndex, str]
    | tuple[SupportsIndex, str, SupportsIndex] | tuple[SupportsIndex, str, SupportsIndex, SupportsIndex]
    | tuple[SupportsIndex, str, SupportsIndex, SupportsIndex, SupportsIndex]
    | tuple[SupportsIndex, str, SupportsIndex, SupportsIndex, SupportsIndex, UUID | None]
)
"""The value of a commit: an offset, an OffsetAndMetadata, or a plain tuple of its first fields."""


Durability = Literal["process", "disk"]
"""The failure that a commit survives once it has returned: the end of the process, or a loss of power."""
#: Where a missing log may be made: nowhere, in a new or empty directory, or also in a directory with other files.
Create = Literal["never", "new", "anywhere"]


class Position(NamedTuple):
    """The log partition and the log offset of a commit.  The call that commits returns it.

    Attributes:
        log_partition: the partition of the offsets topic, which the name of the group determines.
        log_offset: the offset of the commit's last record in that partition.
    """

    log_partition: int
    log_offset: int


class OpenTransaction(NamedTuple):
    """An open transaction; its positions take effect only if it is committed.

    Attributes:
        producer_id: the id of its producer, which `OffsetStore.abort_transaction` accepts.
        producer_epoch: the producer's epoch.
        log_partition: the partition of the offsets topic.
        start_offset: the log offset of its first record.
        last_timestamp: the time of its last batch, in milliseconds since 1970.
        groups: the groups of its positions.
        positions: the number of positions that would change if the transaction were committed now.
        own: whether offsetlog itself began the transaction for one large commit, and will end it.
    """

    producer_id: int
    producer_epoch: int
    log_partition: int
    start_offset: int
    last_timestamp: int
    groups: tuple[str, ...]
    positions: int
    own: bool


class QuarantinedSegment(NamedTuple):
    """A segment that the cleaner left unchanged because part of it is damaged.

    Attributes:
        base_offset: the base offset of the segment.
        path: the path of the segment's file.
        position: the byte position of the first bad batch in the file; -1 if it is unknown.
        log_offset: the log offset of that batch; -1 if it is unknown.
        reason: the damage, in one sentence.
    """

    base_offset: int
    path: str
    position: int
    log_offset: int
    reason: str


class PartitionHealth(NamedTuple):
    """A log partition with a fault.

    Attributes:
        log_partition: the number of the log partition.
        state: "missing": it has no directory.  "unreadable": the disk cannot read its bytes.  "failed": it refuses
            calls until the store is opened again.  "read-only": commits are missing, or bytes are damaged.  "in doubt":
            records may be missing, but it accepts commits.  "quarantined": the cleaner skips damaged segments, but it
            accepts commits.
        problems: the reasons for this state, as errors that were not raised.
        quarantined: the segments that the last cleaning left unchanged.
    """

    log_partition: int
    state: str
    problems: tuple[Exception, ...]
    quarantined: tuple[QuarantinedSegment, ...] = ()


class StoreHealth(NamedTuple):
    """The faults of a store.

    Attributes:
        sound: whether the store has no faults.
        partitions: the log partitions that have faults, by number.
        directory: problems outside the log partitions, such as a damaged checkpoint, as errors that were not raised.
    """

    sound: bool
    partitions: tuple[PartitionHealth, ...]
    directory: tuple[Exception, ...]


class CleanShare(NamedTuple):
    """The records of one group in a log partition, and the effect that a clean would have on these records.

    All numbers count records, unless stated otherwise.  The bytes of a batch, and the bytes that a clean frees in it,
    are divided among the records of the batch.

    Attributes:
        group: the name of the group; None for transaction markers and for records whose key names no group.
        records: all records of the group.
        live_records: the records that make up the present state, and all transaction markers.
        superseded: records that a clean drops because a later record has the same key.
        aborted: records that a clean drops because their transaction was aborted.
        expired_tombstones: tombstones that a clean drops because their retention is over.
        expired_markers: markers that a clean drops because no other record of their transaction is left.
        keyless: records that a clean drops because they have no key.
        tombstones: tombstones that a clean keeps; a later clean drops them once their retention is over.
        markers: markers that a clean keeps; a later clean drops them once their retention is over.
        bytes: the bytes of all records.
        live_bytes: the bytes of the live records.
        freed_bytes: the bytes that the clean frees; negative if a batch grows because it gets a delete horizon.
    """

    group: str | None
    records: int = 0
    live_records: int = 0
    superseded: int = 0
    aborted: int = 0
    expired_tombstones: int = 0
    expired_markers: int = 0
    keyless: int = 0
    tombstones: int = 0
    markers: int = 0
    bytes: float = 0.0
    live_bytes: float = 0.0
    freed_bytes: float = 0.0


class CleanSurvey(NamedTuple):
    """The effect that a clean of one log would have.

    Attributes:
        share: the numbers for all groups together; its `group` is None.
        quarantine: the segments that a clean would leave unchanged because they are damaged; at most the first 16.
    """

    share: CleanShare
    quarantine: tuple[QuarantinedSegment, ...] = ()


class CleaningReport(NamedTuple):
    """The result of one cleaning of one log.  All numbers count records, unless stated otherwise.

    Attributes:
        log_partition: the number of the log partition.
        reason: why the log was cleaned, or why it was not, in one sentence.
        cleaned: whether the log was cleaned; if not, the sizes before and after are equal, and nothing was read.
        complete: whether everything that could be cleaned was cleaned; if not, the next cleaning cleans the rest.
        stopped: whether `close`, an interrupt, or a load or truncation of the log stopped the cleaning.
        rolled: whether the active segment was closed for the cleaning.
        checkpoint: the first log offset that is not cleaned yet; it can be -1 if no part of the log was ever cleaned.
        floor: the log offset below which states of the log can no longer be queried; -1 if all states can be queried.
        bytes_before: the bytes of the log before the cleaning.
        bytes_after: the bytes of the log after the cleaning.
        segments_before: the number of segments before the cleaning.
        segments_after: the number of segments after the cleaning.
        bytes_read: the bytes that all passes read.
        bytes_written: the bytes written to new segments.
        records_read: the records in the segments that were rewritten.
        records_kept: the records that stayed.
        superseded: records dropped because a later record has the same key.
        tombstones_dropped: tombstones dropped because their retention was over.
        aborted_dropped: records dropped because their transaction was aborted.
        markers_dropped: markers dropped because no other record of their transaction was left.
        keyless_dropped: records dropped because they have no key; Kafka's cleaner drops them too.
        passes: the number of times that the log was read; more than one if the keys did not fit in memory.
        quarantined: segments left unchanged because part of them is damaged.
        quarantine: the quarantined segments, at most the first 16.
        seconds: the time that the cleaning took.
    """

    log_partition: int
    reason: str
    cleaned: bool = False
    complete: bool = True
    stopped: bool = False
    rolled: bool = False
    checkpoint: int = -1
    floor: int = -1
    bytes_before: int = 0
    bytes_after: int = 0
    segments_before: int = 0
    segments_after: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    superseded: int = 0
    tombstones_dropped: int = 0
    aborted_dropped: int = 0
    markers_dropped: int = 0
    keyless_dropped: int = 0
    passes: int = 0
    quarantined: int = 0
    quarantine: tuple[QuarantinedSegment, ...] = ()
    seconds: float = 0.0


class Expiring(NamedTuple):
    """A position that will expire, or a group that will have no position left.  Times are in ms since 1970.

    Attributes:
        group: the consumer group.
        topic: the topic; None if the row is about the group's own records.  They are deleted with the last position.
        partition: the partition of the topic; None if `topic` is None.
        expires_at: the time when the position or group expires; None for a group whose last position was deleted at an
            unknown time.
        reason: the event with which the retention begins.  "commit": the position was committed.  "empty": the group
            became empty.  "expire_timestamp": there is no event, because the record says when it expires.  "group": the
            row is about the group's own records.
        counted_from: the time of this event; for "expire_timestamp" it equals `expires_at`.
        retention_ms: the retention that applies to the group.
        rule: the group or "prefix*" whose rule sets this retention; None for the default.
        offset: the committed offset; None if `topic` is None.
        log_partition: the partition of the offsets topic.
        log_offset: the log offset of the commit; None if `topic` is None.
    """

    group: str
    topic: str | None
    partition: int | None
    expires_at: int | None
    reason: str
    counted_from: int | None
    retention_ms: int
    rule: str | None
    offset: int | None
    log_partition: int
    log_offset: int | None


class ExpiryReport(NamedTuple):
    """The result of one check for expired positions.

    Attributes:
        timestamp: the time for which the check was made, in milliseconds since 1970.
        dry_run: whether nothing was deleted; the numbers then count what would have been deleted.
        partitions: the number of log partitions that were checked.
        groups: the number of groups that were checked: all groups that have positions or records of their own.
        groups_never: the number of checked groups whose positions never expire.
        groups_held: the number of checked groups that keep positions because they have members or unreadable records.
        groups_removed: the number of groups that were removed because nothing was left of them.
        positions_expired: the number of positions that were deleted.
        positions_pending: the number of positions kept only because an open transaction has a value for them.
        seconds: the time that the check took.
    """

    timestamp: int
    dry_run: bool
    partitions: int
    groups: int
    groups_never: int
    groups_held: int
    groups_removed: int
    positions_expired: int
    positions_pending: int
    seconds: float


class Digest(NamedTuple):
    """A digest of the committed state: sums modulo 2**128 over the canonical bytes of each record (docs/digest.md).

    Attributes:
        positions: the sum over all committed positions.
        group_records: the sum over the groups' own records.
        pending: the sum over the values of open transactions.
    """

    positions: int
    group_records: int
    pending: int

    def __str__(self) -> str:
        return "-".join(f"{part:032x}" for part in self)


class Way(NamedTuple):
    """A method by which a verification computes the state of a log partition, and its result.

    Attributes:
        log_partition: the number of the log partition; None for files outside every partition's directory.
        name: "live": the state in memory, which the commits of an open store have made.  "loaded": the state after
            an open of the directory.  "replay": a plain replay of its files.  "cleaned": a replay of the records that
            the cleaner would keep.  "snapshot": the snapshot and the log after it.
        end: the log offset at which the state ends; -1 if the method was not used.
        digest: the digest of the state, which includes log offsets (docs/digest.md); None if the method was not used.
        note: the reason why the method was not used; "" if it was used.
    """

    log_partition: int | None
    name: str
    end: int
    digest: Digest | None
    note: str = ""


class HistoryEntry(NamedTuple):
    """A record of one position in the log.

    Attributes:
        log_offset: the log offset of the record.
        timestamp: the record's time, in milliseconds since 1970; -1 if its format is too old to hold one.
        kind: "commit", or "delete" for a tombstone, which both a deletion and an expiry write.
        value: the committed position, None in a tombstone.
        outcome: "plain" outside transactions; in a transaction "committed", "aborted" or, until it ends, "open".
        marker_offset: the log offset of the record that ended the transaction, None if none did.
        effective_at: the log offset at which the record took effect: its own, or that of the marker if a transaction
            committed it.  None if the transaction was aborted or is open, or if a newer record came before the marker.
            A tombstone takes effect at once, even in a transaction.
        producer_id: the producer of its transaction; -1 outside transactions.
        producer_epoch: the epoch of this producer; -1 outside transactions.
    """

    log_offset: int
    timestamp: int
    kind: Literal["commit", "delete"]
    value: OffsetAndMetadata | None
    outcome: Literal["plain", "committed", "aborted", "open"]
    marker_offset: int | None
    effective_at: int | None
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class History(Sequence[HistoryEntry]):
    """The records of one position that are still in the log, oldest first.

    Attributes:
        entries: the records.
        log_partition: the partition of the offsets topic.
        end: the log offset up to which the log was read.
        complete_from: no record at or above this log offset is missing; 0 if nothing was cleaned.  Records below it may
            have been cleaned away.
        complete_since: no record since this time is missing; None if nothing was cleaned, or if only the present state
            is known.
        problems: the number of records and batches that could not be read.
    """

    entries: tuple[HistoryEntry, ...]
    log_partition: int
    end: int
    complete_from: int
    complete_since: datetime | None
    problems: int

    @overload
    def __getitem__(self, index: int) -> HistoryEntry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[HistoryEntry]: ...
    def __getitem__(self, index: int | slice) -> HistoryEntry | Sequence[HistoryEntry]:
        return self.entries[index]

    def __len__(self) -> int:
        return len(self.entries)


class Change(NamedTuple):
    """A position that differs between two states.

    Attributes:
        group: the consumer group.
        topic: the topic.
        partition: the partition of the topic.
        before: the value in the first state, None if it has none.
        after: the value in the second state, None if it has none.
    """

    group: str
    topic: str
    partition: int
    before: OffsetAndMetadata | None
    after: OffsetAndMetadata | None


class EpochEnd(NamedTuple):
    """The end of a leader epoch in a log (docs/format/leader-epochs.md §12).  Both fields are -1 if it is unknown.

    Attributes:
        epoch: the leader epoch.
        end_offset: the log offset after the last record of the epoch.
    """

    epoch: int
    end_offset: int


class Appended(NamedTuple):
    """The answer of a topic's log to the batch of a producer.

    Attributes:
        base_offset: the base offset of the batch, -1 if it was refused.
        next_offset: the log offset after the batch; once the log is flushed up to it, the batch survives a power loss.
        log_append_time: if the topic uses the time of the append instead of the producer's timestamps, this time in ms
            since 1970.  If the batch was already in the log, the greatest timestamp of the batch.  Otherwise -1.
        is_duplicate: whether the batch was already in the log, because the producer sent it twice.
        refusal: the kind of the refusal, from `_native.topic_log.REFUSALS`; "" if the batch was accepted.
        refused_records: the indexes of the first 1000 records that caused the refusal; empty if the batch as a whole
            did.
        reason: the reason for the refusal, as text.
    """

    base_offset: int
    next_offset: int
    log_append_time: int
    is_duplicate: bool
    refusal: str
    refused_records: tuple[int, ...]
    reason: str


class TimedRecord(NamedTuple):
    """A record that was found by its time.

    Attributes:
        offset: the record's offset.
        timestamp: the record's time, in ms since 1970.
        leader_epoch: the leader epoch of its batch.
    """

    offset: int
    timestamp: int
    leader_epoch: int


class LogPositions(NamedTuple):
    """The bounds of one log: log_start <= applied <= watermark <= log_end, and flushed <= log_end.

    Attributes:
        log_start: the first log offset.
        log_end: the log offset after the last record.
        flushed: records below it survive a loss of power.
        watermark: the high watermark W; records below it are committed.
        applied: records below it have been applied to the positions in memory.
    """

    log_start: int
    log_end: int
    flushed: int
    watermark: int
    applied: int


class FileRange(NamedTuple):
    """A range of the bytes of a segment's file, for sendfile.

    Attributes:
        path: the path of the file, which the cleaner may replace at any time (see `open`).
        position: the byte position at which the range begins; a batch begins there.
        size: the size of the range in bytes, which can be 0.
    """

    path: str
    position: int
    size: int

    def open(self, offset: int) -> FileIO | None:
        """Opens the file, unless the file was replaced or deleted.

        Args:
            offset: the log offset for which the range was requested.

        Returns:
            The file, which the caller must close.  The open file keeps the range even if the log is cleaned later.
            None if the file was replaced or deleted; the caller must then request the range again.

        Raises:
            OSError: the file cannot be opened or read.
        """
        try:
            file = FileIO(self.path)
        except FileNotFoundError:
            return None
        try:
            if self._is_in(file, offset):
                return file
        except BaseException:
            file.close()
            raise
        file.close()
        return None

    def _is_in(self, file: FileIO, offset: int) -> bool:
        # In a cleaned file, the batch of a log offset may be at another position, or may be gone.
        if os.fstat(file.fileno()).st_size < self.position + self.size:
            return False
        header = os.pread(file.fileno(), _OFFSETS_BYTES, self.position)
        base = int.from_bytes(header[:8], "big")
        last = base + int.from_bytes(header[23:], "big")
        return base <= offset <= last


class PositionChange(NamedTuple):
    """A change or a deletion of a committed position, which has taken effect.

    Attributes:
        log_partition: the partition of the offsets topic.
        log_offset: the log offset of the record.
        effective_at: the log offset at which the change took effect: that of the record, or that of the marker if a
            transaction committed it.
        epoch: the leader epoch of the record at `effective_at`, -1 if it is unknown; (epoch, effective_at + 1) is the
            position in the log after the change.
        timestamp: the time of the record at `effective_at`, in milliseconds since 1970; -1 if it has none.
        group: the consumer group.
        topic: the topic.
        partition: the partition of the topic.
        value: the position after the change; None if the position was deleted or expired.
    """

    log_partition: int
    log_offset: int
    effective_at: int
    epoch: int
    timestamp: int
    group: str
    topic: str
    partition: int
    value: OffsetAndMetadata | None


class LogGap(NamedTuple):
    """A range of a log whose changes a watch cannot report, or whose reported changes it retracts.

    Attributes:
        log_partition: the partition of the offsets topic.
        start: the first log offset of the range.
        end: the log offset after the last one of the range.
        reason: "cleaned": the cleaner has removed superseded records and old tombstones from the range, or the start of
            the log was moved above records of the range.  The watch then reports the remaining records.  Such a range
            may begin below the position of the watch, at the first record of a transaction that ends above the
            position.  "damaged": batches of the range cannot be read.
            "truncated": the changes reported at and above `start` are no longer in the log.  Other changes may follow
            at the same log offsets.
    """

    log_partition: int
    start: int
    end: int
    reason: Literal["cleaned", "damaged", "truncated"]


class Leadership(NamedTuple):
    """The leadership of a replicated partition, as far as one replica knows it.

    Attributes:
        epoch: the newest leader epoch that the replica was given or has in its log; -1 if there is none.
        leads: whether this replica is the leader in that epoch.
        alone: whether this replica leads without other replicas.
        term: a counter that grows whenever this replica stops leading or its log is truncated.  If the term has changed
            since a record was written, the log offset of that record may now belong to another record, so a wait for
            the record fails.
        elected_end: the log end offset at the time when this leader was elected.
    """

    epoch: int
    leads: bool
    alone: bool
    term: int
    elected_end: int


class Deletion(NamedTuple):
    """A deleted position whose tombstone is still in the log.

    Attributes:
        group: the consumer group.
        topic: the topic.
        partition: the partition of the topic.
        timestamp: the time of the tombstone, in ms since 1970.  A deletion or an expiry has written the tombstone.
        last: the value that was deleted; None if the log no longer has it, or may have only an older value.
        log_partition: the partition of the offsets topic.
        log_offset: the log offset of the tombstone.
        last_log_offset: the log offset of the record of that value; None if there is none.
    """

    group: str
    topic: str
    partition: int
    timestamp: int
    last: OffsetAndMetadata | None
    log_partition: int
    log_offset: int
    last_log_offset: int | None

    @property
    def recoverable(self) -> bool:
        """Whether `OffsetStore.undelete` can restore it."""
        return self.last is not None
