"""The values that callers hand in and get back."""

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
    """One partition of one topic, for which a position is committed."""

    topic: str
    partition: int


class NamesPartition(Protocol):
    """An object that names a topic and a partition, as the TopicPartition of confluent-kafka does."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def partition(self) -> SupportsIndex:
        """Its partition."""


PartitionKey = tuple[str, SupportsIndex] | NamesPartition
"""A topic and its partition where a call takes one: a TopicPartition, a plain tuple, or another library's object."""

#: The keys of a mapping, all of one type, and those of a second mapping.
Key = TypeVar("Key", bound=PartitionKey)
OtherKey = TypeVar("OtherKey", bound=PartitionKey)


def key_of(named: Any) -> TopicPartition | None:
    """Returns the topic and the partition that a caller names, None where nothing says that it names them.

    That is a tuple of two, or an object of another library, also a longer tuple, with the attributes `topic`, a str,
    and `partition`.  Whatever else the object carries, as an offset, is not read.  A partition is a plain int where it
    is an integer of any type; otherwise it is as it was given, for whoever checks its domain.
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
    """A committed position; the first three fields stand in kafka-python's order.

    Attributes:
        offset: the next offset that the group will read.
        metadata: free text of the committer, at most 4096 UTF-16 units by default.
        leader_epoch: the epoch of the last record read, -1 for unknown.
        commit_timestamp: when it was committed, in milliseconds since 1970; -1 lets the store take its clock.
        expire_timestamp: when it expires, in milliseconds since 1970; -1 where the record carries none.
        topic_id: Kafka's id of the topic, or None.  Committing one writes it only where values of version 4 are
            written: with `StoreConfig(write_offset_value_v4="always")`, and with "auto", the default, where the
            partition already holds such values; else it is left out without a word.
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
"""The value of a commit: an offset, an OffsetAndMetadata, or a plain tuple that begins like one."""


Durability = Literal["process", "disk"]
"""A commit survives this when it returns: the end of the process, or the loss of power."""
#: Where a log that is missing may be made: nowhere, in a directory that is new or empty, also among other files.
Create = Literal["never", "new", "anywhere"]


class Position(NamedTuple):
    """Where a commit stands in the log: the result of a commit, for which a caller can wait.

    Attributes:
        log_partition: the partition of the offsets topic, chosen by the group's name.
        log_offset: the offset of the commit's last record in that partition.
    """

    log_partition: int
    log_offset: int


class OpenTransaction(NamedTuple):
    """A transaction that has not ended; what is committed in it takes no effect until it does.

    Attributes:
        producer_id: its writer; an argument of `OffsetStore.abort_transaction`.
        producer_epoch: the producer's epoch.
        log_partition: the partition of the offsets topic.
        start_offset: the log offset of its first record.
        last_timestamp: of its last batch, in milliseconds since 1970: how long nothing was heard of it.
        groups: the groups of its positions.
        positions: how many positions a COMMIT would install now.
        own: whether it is part of one large commit of offsetlog, which ends it by itself.
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
    """A segment that the cleaner left as it is, since something in it is damaged.

    Attributes:
        base_offset: of the segment.
        path: the file.
        position: the byte position of the first bad batch in it, -1 unknown.
        log_offset: of that batch, -1 unknown.
        reason: one sentence.
    """

    base_offset: int
    path: str
    position: int
    log_offset: int
    reason: str


class PartitionHealth(NamedTuple):
    """A log partition that is not as it should be.

    Attributes:
        log_partition: of the offsets topic.
        state: "missing" (its directory is), "unreadable" (the disk does not give its bytes), "failed" (until the store
            is opened again), "read-only" (commits are missing, or bytes are damaged), "in doubt" (nobody can prove that
            nothing is missing; commits go on) or "quarantined" (its cleaner leaves segments alone; commits go on).
        problems: why, as errors that were not raised.
        quarantined: segments that the last cleaning left as they are.
    """

    log_partition: int
    state: str
    problems: tuple[Exception, ...]
    quarantined: tuple[QuarantinedSegment, ...] = ()


class StoreHealth(NamedTuple):
    """The faults of a store.

    Attributes:
        sound: whether that is nothing.
        partitions: the log partitions concerned, by number.
        directory: problems of none of them, as a damaged checkpoint; errors that were not raised.
    """

    sound: bool
    partitions: tuple[PartitionHealth, ...]
    directory: tuple[Exception, ...]


class CleanShare(NamedTuple):
    """The records of one group of a log partition, and what a clean would do to them.

    Counts are of records unless they say otherwise.  The bytes of a batch, and what a clean frees of it, are shared by
    its records.

    Attributes:
        group: its name; None for markers of transactions, and for records whose key names no group.
        records: all of them.
        live_records: those from which the present state comes; every marker counts.
        superseded: these go, since a later record has the same key.
        aborted: these go, since their transaction was aborted.
        expired_tombstones: these go, after their time.
        expired_markers: these go, since nothing else of their transaction is left.
        keyless: these go, since they have no key.
        tombstones: these stay until their time.
        markers: these stay until their time.
        bytes: of the batches.
        live_bytes: of the live records.
        freed_bytes: by the clean; negative where a batch grows by a delete horizon.
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
    """The effects that a clean of one log would have.

    Attributes:
        share: the records of all groups.
        quarantine: the segments that it would leave as they are, since something in them is damaged; the first of them.
    """

    share: CleanShare
    quarantine: tuple[QuarantinedSegment, ...] = ()


class CleaningReport(NamedTuple):
    """The result of one cleaning of one log; counts are of records unless they say otherwise.

    Attributes:
        log_partition: of the offsets topic.
        reason: why it was cleaned, or why it was not, in one sentence.
        cleaned: whether it was; all counts are 0 where it was not.
        complete: whether everything was cleaned that could be; what is left is done by the next cleaning.
        stopped: whether it was stopped on the way: by `close`, an interrupt, or a load or a truncation of the log.
        rolled: whether the active segment was closed for it.
        checkpoint: the first log offset that is not cleaned yet, -1 where nothing is.
        floor: states of the log below this offset are no longer known, -1 where all are.
        bytes_before: of the log.
        bytes_after: of the log.
        segments_before: files of the log.
        segments_after: files of the log.
        bytes_read: by all passes.
        bytes_written: into new segments.
        records_read: in what was rewritten.
        records_kept: of those.
        superseded: dropped, since a later record has the same key.
        tombstones_dropped: after their time.
        aborted_dropped: of aborted transactions.
        markers_dropped: of transactions of which nothing else is left.
        keyless_dropped: without a key, which Kafka's cleaner drops, too.
        passes: how often the log was read, since not all keys fitted into memory.
        quarantined: segments that were left as they are, since something in them is damaged.
        quarantine: the first of those.
        seconds: how long it took.
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
    """A position that expires, or a group of which nothing is left then; times are in milliseconds since 1970.

    Attributes:
        group: the consumer group.
        topic: the topic; None: this is about the group's own records, which go with its last position.
        partition: its partition; None as the topic.
        expires_at: when; None for a group without positions that became so at a time nobody knows.
        reason: the start of its time: "commit" the position's commit, "empty" when the group became empty,
            "expire_timestamp": the record itself says when; "group" for a group's own records.
        counted_from: that time; with "expire_timestamp" it is `expires_at`.
        retention_ms: the retention in force for the group.
        rule: the group or the "prefix*" whose retention that is, None for the default.
        offset: the committed one; None as the topic.
        log_partition: of the offsets topic.
        log_offset: of the commit; None as the topic.
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
        timestamp: the time by which was decided, in milliseconds since 1970.
        dry_run: whether it only looked: the counters say what would have been done.
        partitions: how many of the offsets topic were checked.
        groups: looked at: with positions, or with records of their own.
        groups_never: of those, of which nothing is ever to expire.
        groups_held: of those, with members, or with records that cannot be read: nothing of them expires.
        groups_removed: of which nothing is left.
        positions_expired: deleted.
        positions_pending: that would have expired, but for an open transaction.
        seconds: how long it took.
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
    """The committed positions, as sums modulo 2**128 over the canonical bytes of each record (docs/digest.md).

    Attributes:
        positions: over all committed positions.
        group_records: over the records of groups.
        pending: over the values of open transactions.
    """

    positions: int
    group_records: int
    pending: int

    def __str__(self) -> str:
        return "-".join(f"{part:032x}" for part in self)


class Way(NamedTuple):
    """One way to the state of a log partition, as a verification went it.

    Attributes:
        log_partition: of the offsets topic; None for files that lie in no directory of a partition.
        name: "live": the state that commits made in an open store; "loaded": the one that an open makes of the
        directory; "replay": a
            plain replay of its files; "cleaned": a replay of what the cleaner would leave of them; "snapshot": the
            snapshot and the log after it.
        end: the log offset below which everything is in it; -1 where the way was not gone.
        digest: of the state with log offsets (docs/digest.md); None where the way was not gone.
        note: why not; "" else.
    """

    log_partition: int | None
    name: str
    end: int
    digest: Digest | None
    note: str = ""


class HistoryEntry(NamedTuple):
    """A record of one position in the log.

    Attributes:
        log_offset: where it stands.
        timestamp: of the record, in milliseconds since 1970; -1 where the log is too old to tell.
        kind: "commit", or "delete" for a tombstone, which a deletion and an expiry leave alike.
        value: the committed one, None in a tombstone.
        outcome: "plain" outside of transactions; of a transaction "committed", "aborted", or "open" until it ends.
        marker_offset: the log offset of the record that ended the transaction, None where none did.
        effective_at: the log offset from which on it counted: its own, or for what a transaction committed that of its
            end; None where it never did, since the transaction was aborted or is open, or something newer came before
            its end.  A tombstone takes effect at once, also in a transaction.
        producer_id: of its transaction, -1 outside of one.
        producer_epoch: likewise.
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
    """The commits of one position that the log still holds, oldest first.

    Attributes:
        entries: the records.
        log_partition: the partition of the offsets topic.
        end: the log offset below which was read.
        complete_from: the log offset from which on everything is there; what is older may have been cleaned away.  0
            where nothing ever was.
        complete_since: the time from which on everything is there, None where nothing was cleaned, or where only the
            present is known.
        problems: records that could not be read, or lie in batches that could not.
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
    """A position that is not the same in two states.

    Attributes:
        group: the consumer group.
        topic: the topic.
        partition: its partition.
        before: the value in the first state, None where there was none.
        after: the value in the second.
    """

    group: str
    topic: str
    partition: int
    before: OffsetAndMetadata | None
    after: OffsetAndMetadata | None


class EpochEnd(NamedTuple):
    """Where a leader epoch ends in a log (docs/format/leader-epochs.md §12); both fields are -1 for none.

    Attributes:
        epoch: the leader epoch.
        end_offset: the log offset after its last record.
    """

    epoch: int
    end_offset: int


class Appended(NamedTuple):
    """The answer of a topic's log to a producer.

    Attributes:
        base_offset: of the batch, -1 where it was refused.
        next_offset: the offset after it; once that is flushed, it survives a loss of power.
        log_append_time: in ms, where the topic has it or the batch was there already; else -1.
        is_duplicate: the batch was in the log already: it was sent again.
        refusal: why it was refused, one of `_native.topic_log.REFUSALS`; "" where it was taken.
        refused_records: the indexes of the first 1000 records it was refused for; none for the batch as a whole.
        reason: the same in words.
    """

    base_offset: int
    next_offset: int
    log_append_time: int
    is_duplicate: bool
    refusal: str
    refused_records: tuple[int, ...]
    reason: str


class TimedRecord(NamedTuple):
    """A record that was looked for by its time.

    Attributes:
        offset: of the record.
        timestamp: in ms.
        leader_epoch: of its batch.
    """

    offset: int
    timestamp: int
    leader_epoch: int


class LogPositions(NamedTuple):
    """The places in one log that count; log_start <= applied <= watermark <= log_end, flushed <= log_end.

    Attributes:
        log_start: the first log offset.
        log_end: after the last one.
        flushed: below it everything survives a loss of power.
        watermark: W: below it records count.
        applied: below it they are in the table.
    """

    log_start: int
    log_end: int
    flushed: int
    watermark: int
    applied: int


class FileRange(NamedTuple):
    """A piece of a segment's file, for sendfile.

    Attributes:
        path: the file, which a cleaner may replace before it is open; see `open`.
        position: of its first byte, where a batch begins.
        size: in bytes; 0 for nothing.
    """

    path: str
    position: int
    size: int

    def open(self, offset: int) -> FileIO | None:
        """Opens the file, if the piece is there still.

        Args:
            offset: the log offset that the piece was asked for.

        Returns:
            The file, for the caller to close.  It holds the piece whatever is cleaned from now on.
            None where it was replaced, or is gone: the piece is to be asked for again.

        Raises:
            OSError: it cannot be read.
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
        # A cleaned file has the same offsets at other positions, and may have lost some.
        if os.fstat(file.fileno()).st_size < self.position + self.size:
            return False
        header = os.pread(file.fileno(), _OFFSETS_BYTES, self.position)
        base = int.from_bytes(header[:8], "big")
        last = base + int.from_bytes(header[23:], "big")
        return base <= offset <= last


class PositionChange(NamedTuple):
    """A committed position that took effect, or a deletion that did.

    Attributes:
        log_partition: the partition of the offsets topic.
        log_offset: of the record.
        effective_at: the log offset from which on it counts: its own, or for what a transaction
            committed that of the marker which ended it.
        epoch: the leader epoch of that log offset, -1 for unknown; (epoch, effective_at + 1) is the
            place after the change.
        timestamp: of the record at that log offset, in milliseconds since 1970, -1 for none.
        group: the consumer group.
        topic: the topic.
        partition: its partition.
        value: the position now; None: it was deleted, or has expired.
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
    """A piece of a log whose changes a watch cannot report, or cannot stand by.

    Attributes:
        log_partition: the partition of the offsets topic.
        start: the first log offset of the piece.
        end: the log offset after its last one.
        reason: "cleaned": records in it are gone, because later ones have their keys, because they
            were tombstones past their time, or because they lay before the start of the log; what
            is left of the piece follows.  It may begin below the place of the watch, where a
            transaction that ends above it began.  "damaged": batches in it cannot be read.  "truncated":
            changes reported at and above `start` are not in the log any more, and other changes
            may follow at the same log offsets.
    """

    log_partition: int
    start: int
    end: int
    reason: Literal["cleaned", "damaged", "truncated"]


class Leadership(NamedTuple):
    """The leader of a replicated partition, as far as one replica knows.

    Attributes:
        epoch: the newest leader epoch that the replica was given or has in its log, -1 for none.
        leads: whether this replica leads in it.
        alone: whether it leads without other replicas.
        term: grows whenever leadership ends here, or the log is cut: records of one term are lost to those who
            wait for it in another.
        elected_end: the log end at the election of this leader.
    """

    epoch: int
    leads: bool
    alone: bool
    term: int
    elected_end: int


class Deletion(NamedTuple):
    """A position that is not there now, and whose tombstone the log still holds.

    Attributes:
        group: the consumer group.
        topic: the topic.
        partition: its partition.
        timestamp: of the tombstone, in milliseconds since 1970.  A record does not tell whether somebody deleted the
            position or it expired.
        last: the value that was deleted; None where the log does not hold it any more, or not for certain.
        log_partition: the partition of the offsets topic.
        log_offset: of the tombstone.
        last_log_offset: of the value's record, None without one.
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
        """Whether `OffsetStore.undelete` can bring it back."""
        return self.last is not None


class Undeletion(NamedTuple):
    """The result of `OffsetStore.undelete`.

    Attributes:
        restored: the positions that came back.
        lost: those that could not: their values were cleaned away.
    """

    restored: list[Change]
    lost: list[Deletion]
