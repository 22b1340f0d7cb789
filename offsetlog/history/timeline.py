"""Reads the past of a store from its logs: the changes of a position, and the positions at a moment.

If a moment is a log offset, its state is that of the records below the log offset.  If it is a time, its state is that
of the longest prefix of the log that has no timestamp after this time.  Each log partition has its own log offsets, and
clocks can be set back.  The prefix therefore ends separately in each log partition, and never within a batch.

Records that were cleaned away are never guessed.  If the log does not contain a state exactly, a call raises
HistoryError.  `history_floor` describes how this is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from offsetlog import arguments, moments
from offsetlog._native import timeline as native
from offsetlog._native.fetch_columns import position_schema
from offsetlog._native.partition import Partition
from offsetlog._native.retention import newest_timestamp
from offsetlog._native.store_core import StoreCore
from offsetlog.clock import SKEW_MS_MAX, future_error, is_ahead, wall_ms
from offsetlog.directory.history_floor import HistoryFloor, read_floor
from offsetlog.directory.listing import decode_text
from offsetlog.directory.log_directory import CLEANER_POINTS, TOPIC, LogDirectory
from offsetlog.errors import (
    HistoryError,
    InsideCommitError,
    InvalidArgumentError,
    OffsetOutOfRangeError,
)
from offsetlog.history.group_events import events_by_position
from offsetlog.types import (
    Change,
    Deletion,
    History,
    HistoryEntry,
    OffsetAndMetadata,
    PartitionKey,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow

#: Earlier than every timestamp, in milliseconds.
LONG_AGO = -(2**63)

#: A time with its zone, or a log offset.
Moment = datetime | int
#: Offset, leader epoch, metadata, commit timestamp, expire timestamp, topic id, log offset, as in
#: the log.
Value = tuple[int, int, bytes, int, int, bytes | None, int]
_Answer = TypeVar("_Answer")


def value_of(row: Value) -> OffsetAndMetadata:
    """Converts a value of the log to an OffsetAndMetadata."""
    offset, leader_epoch, metadata, committed, expires, topic_id, _ = row
    identity = None if topic_id is None else UUID(bytes=topic_id)
    return OffsetAndMetadata(
        offset, decode_text(metadata), leader_epoch, committed, expires, identity
    )


def recorded_floor(directory: LogDirectory, partition: Partition) -> HistoryFloor:
    """Returns where a partition's history begins, by the record of our cleaner and the checkpoint of any other cleaner.

    Raises:
        StorageError: the disk cannot read a file.
    """
    checkpoint = directory.read_checkpoint(CLEANER_POINTS).get((TOPIC, partition.number), 0)
    return read_floor(directory.fs, Path(partition.path)).at_least(checkpoint)


@dataclass(frozen=True, slots=True)
class PartitionPast:
    """The past of one open partition, up to the creation of this object.  Any thread may use it.

    Attributes:
        partition: the partition.
        directory: the log directory of the partition.
        start: the first offset of the log.
        end: the log offset after the last record that was applied when this object was created.
    """

    partition: Partition
    directory: LogDirectory
    start: int
    end: int

    @classmethod
    def of(cls, partition: Partition, directory: LogDirectory) -> PartitionPast:
        """Creates the past of a partition up to now.  Raises StateError if the partition is loading or has failed."""
        return cls(partition, directory, *native.bounds(partition))

    def cut(self, moment: Moment | None, group: str | None, name: str = "at") -> int:
        """Returns a log offset: the records below it make up the state of a moment.  The moment None means now.

        Raises:
            HistoryError: the records near the moment were cleaned away, or have no times, so it is unknown which of
                them are before the moment.
            OffsetOutOfRangeError: the log offset is above the end of the log.
            InsideCommitError: the log offset is inside a commit.
        """
        if moment is None:
            return self.end
        if isinstance(moment, datetime):
            return self._cut_by_time(arguments.checked_time(name, moment), group)
        if moment > self.end:
            hint = f"; pass milliseconds since 1970 as str({moment}) or as a datetime"
            raise OffsetOutOfRangeError(
                f"log partition {self.partition.number} ends at log offset {self.end}: there is no state at log offset "
                f"{moment} yet{hint if moment >= moments.EPOCH_MS_MIN else ''}",
                path=self.partition.path,
                log_offset=moment,
            )
        self._refuse_inside(moment, group)
        return moment

    def _cut_by_time(self, asked_ms: int, group: str | None) -> int:
        cut = min(native.cutoff(self.partition, asked_ms), self.end)
        if cut < self.end and native.survey(self.partition, cut, cut + 1).first_missing is not None:
            self.refuse_below_floor(group, cut)
        is_present = cut == self.end and asked_ms >= wall_ms() - SKEW_MS_MAX
        if is_present or not self._has_untimed_end(cut):
            return cut
        floor = self.floor(group)
        raise self._untimed_error(cut, floor, self.since(floor))

    def _has_untimed_end(self, cut: int) -> bool:
        """Returns whether the last batch below a log offset has no time."""
        if cut == 0:
            return False
        last = native.survey(self.partition, cut - 1, cut).last_timestamp
        if last is None:  # it was cleaned away
            last = native.survey(self.partition, 0, cut).last_timestamp
        return last is not None and last < 0

    def _refuse_inside(self, cut: int, group: str | None) -> None:
        batch = native.next_batch(self.partition, cut) if 0 < cut < self.end else None
        if batch is None or not batch.first < cut < batch.next:
            return
        self.check(group, cut, native.survey(self.partition, 0, cut))
        raise InsideCommitError(
            f"log offset {cut} of log partition {self.partition.number} is inside a commit, which is never split; "
            f"give offset:{batch.first} for the state before this commit, offset:{batch.next} for the state after it",
            before=batch.first,
            after=batch.next,
            path=self.partition.path,
            log_offset=cut,
        )

    # --------------------------------------------------------------------------------- what is gone

    def floor(self, group: str | None) -> int:
        """Returns the first log offset whose state is known, for a group or for all groups; `end` if none is known."""
        return self._floors(group)[1]

    def cleaned_below(self, group: str | None) -> int:
        """Returns the log offset from which on no record of a group, or of all groups, is missing."""
        return self._floors(group)[0]

    def _floors(self, group: str | None) -> tuple[int, int]:
        floors = recorded_floor(self.directory, self.partition)
        cleaned, foreign = max(floors.of(group), self.start), floors.foreign
        general = max(floors.end, self.start)
        if (
            general < self.end
            and native.survey(self.partition, general, self.end).first_missing is not None
        ):
            # Another cleaner worked here and recorded nothing: the cleaner of a broker that was
            # killed meanwhile, or of the broker from which this log was copied.  No cleaner changes
            # the newest segment, but a copy may have other segments than the original.
            newest = native.last_segment_base(self.partition)
            touched = (
                newest >= self.end
                or native.survey(self.partition, newest, self.end).first_missing is not None
            )
            cleaned = foreign = self.end if touched else newest
        cleaned, foreign = min(cleaned, self.end), min(foreign, self.end)
        # A transaction takes effect only when it ends.  If it was open at the log offset where the
        # cleaning ended, its records may have superseded others before they took effect.  Our
        # cleaner avoids that (csrc/cleaner/transactions.h); Kafka's does not.
        settled = native.ended_by(self.partition, foreign, self.end) if foreign > 0 else 0
        return cleaned, max(cleaned, settled)

    def since(self, floor: int) -> datetime | None:
        """Returns the oldest time whose state can be read from the log; None if only the present state can be read."""
        if floor >= self.end:
            return None
        youngest = native.survey(self.partition, 0, floor).max_timestamp
        if native.cutoff(self.partition, youngest) < floor:
            # The record just below the floor is gone with its time, which was not later than that
            # of the next record.
            youngest = max(youngest, self._next_timestamp(floor))
        # Records without times give no bound; the next record with a time does.
        while youngest < 0 or self._has_untimed_end(native.cutoff(self.partition, youngest)):
            cut = native.cutoff(self.partition, youngest)
            following = self._next_timestamp(cut) if cut < self.end else -1
            if following <= youngest:
                return None
            youngest = following
        return arguments.time_of(youngest)

    def _next_timestamp(self, offset: int) -> int:
        batch = native.next_batch(self.partition, offset)
        return -1 if batch is None else batch.timestamp

    def earliest_refusal(self, group: str | None) -> HistoryError | None:
        """Returns the error that this log gives for times that it cannot answer; None if it can answer every time.

        The field `oldest` of the error is set even if only the present state is known.  It is None if no record has a
        time.
        """
        floor = self.floor(group)
        if floor >= self.end > 0:
            newest = native.survey(self.partition, 0, self.end).max_timestamp
            return self._cleaned_error(floor, None if newest < 0 else arguments.time_of(newest))
        if floor > 0:
            return self._cleaned_error(floor, self.since(floor))
        untimed = native.cutoff(self.partition, -1)
        return self._untimed_error(untimed, 0, self.since(0)) if untimed > 0 else None

    def check(self, group: str | None, cut: int, facts: native.Facts) -> None:
        """Raises HistoryError if the state that was read from the log below `cut` may lack records.

        The caller must read the log before this call, because a cleaner records the floor before it removes records.
        """
        if facts.first_missing is not None and facts.first_missing < cut:
            self.refuse_below_floor(group, cut)

    def refuse_below_floor(self, group: str | None, cut: int) -> None:
        """Raises HistoryError if a log offset is below the floor, because the state there is not known."""
        floor = self.floor(group)
        if cut >= floor:
            return
        raise self._cleaned_error(floor, self.since(floor))

    def _cleaned_error(self, floor: int, oldest: datetime | None) -> HistoryError:
        number = self.partition.number
        message = f"superseded commits before log offset {floor} of log partition {number} were cleaned away"
        if floor >= self.end:
            message += "; only the present state is known"
        if oldest is not None:
            message += f"; the oldest time that can be asked for is {_text(oldest)}"
        elif floor < self.end:
            message += "; the later records have no timestamps, so name a log offset instead of a time"
        if floor < self.end:
            message += f"; the lowest log offset that can be asked for is offset:{floor}"
        return self._error(message, floor, oldest)

    def _untimed_error(self, cut: int, floor: int, oldest: datetime | None) -> HistoryError:
        # A record of magic 0 has no time.  If a record with a time follows, the first one existed by that time.
        message = (
            f"the records before log offset {cut} of log partition {self.partition.number} have no timestamps (Kafka "
            "wrote timestamps only from 0.10 on), so it is unknown which of these records existed at that time; name a "
            "log offset instead, such as offset:12345 (`offsetlog history` prints the log offsets)"
        )
        if oldest is not None:
            message += f"; the oldest time that can be asked for is {_text(oldest)}"
        return self._error(message, floor, oldest)

    def _error(self, message: str, floor: int, oldest: datetime | None) -> HistoryError:
        return HistoryError(
            message,
            floor=floor,
            oldest=oldest,
            log_partition=self.partition.number,
            path=self.partition.path,
        )

    # --------------------------------------------------------------------------------------- states

    def rows(self, group: str, cut: int) -> dict[tuple[bytes, int], Value]:
        """Returns the positions that a group had at a log offset, as a dictionary by topic and partition."""
        past = native.Pasts(self.partition, group, [cut])
        self.check(group, cut, past.facts)
        return past.rows()

    def positions(self, cut: int) -> list[tuple[Any, ...]]:
        """Returns the rows of `position_schema` in the state at a log offset."""
        # Compared with the empty log, every position differs.
        pasts = native.Pasts(self.partition, None, (0, cut))
        self.check(None, cut, pasts.facts)
        rows = []
        for name, topic, number, _, value in pasts.changes():
            if value is not None:
                offset, epoch, metadata, *times, log_offset = value
                place = (decode_text(name), decode_text(topic), number)
                kept = (offset, epoch, decode_text(metadata), *times)
                rows.append((*place, *kept, self.partition.number, log_offset))
        return rows

    def changes(self, group: str | None, cuts: tuple[int, int]) -> list[Change]:
        """Returns the positions that differ between the states at two log offsets."""
        pasts = native.Pasts(self.partition, group, cuts)
        for cut in sorted(cuts):
            self.check(group, cut, pasts.facts)
        return [
            Change(
                decode_text(name),
                decode_text(topic),
                number,
                None if before is None else value_of(before),
                None if after is None else value_of(after),
            )
            for name, topic, number, before, after in pasts.changes()
        ]

    # -------------------------------------------------------------------------------------- records

    def history(self, group: str, topic: str, number: int) -> History:
        """Returns the records of one position."""
        events, facts = native.events(self.partition, group, topic, number, self.end)
        return self._history_of(events, facts, self._complete_from(group, facts))

    def histories(self, group: str) -> dict[TopicPartition, History]:
        """Returns the records of all positions of a group, sorted by position."""
        events, facts = native.events(self.partition, group, None, 0, self.end)
        complete = self._complete_from(group, facts)
        return {
            key: self._history_of(found, facts, complete)
            for key, found in sorted(events_by_position(events).items())
        }

    def _complete_from(
        self, group: str, facts: native.Facts
    ) -> tuple[int, datetime | None]:
        if facts.first_missing is None:
            return 0, None
        floor = self.cleaned_below(group)
        return floor, self.since(floor)

    def _history_of(
        self,
        events: list[tuple[Any, ...]],
        facts: native.Facts,
        complete: tuple[int, datetime | None],
    ) -> History:
        problems = facts.passed_over + facts.refused
        return History(
            tuple(entries_of(events)), self.partition.number, self.end, *complete, problems
        )

    def deletions(self, group: str | None, since_ms: int) -> list[DeletedRow]:
        """Returns the deleted positions that have a tombstone no older than `since_ms`."""
        rows, facts = native.tombstones(self.partition, group, self.end, since_ms)
        floor = 0 if facts.first_missing is None else self.cleaned_below(group)
        found: dict[tuple[bytes, bytes, int], DeletedRow] = {}
        for name, topic, number, log_offset, timestamp, missing_end, value in rows:
            key = (name, topic, number)
            if value is None and key in found:
                continue  # it was deleted before
            # Below the floor, a later value that the tombstone also superseded may be gone.
            doubtful = value is not None and log_offset < floor and missing_end > value[-1]
            found[key] = DeletedRow(
                name, topic, number, log_offset, timestamp, None if doubtful else value
            )
        return [row for row in found.values() if row.timestamp >= since_ms]


class DeletedRow(NamedTuple):
    """A Deletion whose names and values are still in the form of the log."""

    group: bytes
    topic: bytes
    partition: int
    log_offset: int
    timestamp: int
    value: Value | None

    def as_deletion(self, log_partition: int) -> Deletion:
        """Converts this object to a Deletion."""
        return Deletion(
            decode_text(self.group),
            decode_text(self.topic),
            self.partition,
            self.timestamp,
            None if self.value is None else value_of(self.value),
            log_partition,
            self.log_offset,
            None if self.value is None else self.value[-1],
        )


def table_of(rows: list[tuple[Any, ...]]) -> pyarrow.Table:
    """Converts rows of positions to a table of `position_schema`."""
    import pyarrow

    schema = position_schema()
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [
        pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def entries_of(events: list[tuple[Any, ...]]) -> list[HistoryEntry]:
    """Converts the events of one position to history entries, by the rules of docs/format/loading.md §6.4."""
    entries: list[HistoryEntry] = []
    waiting: dict[int, list[int]] = {}  # by producer, the entries of its open transaction
    pending: dict[int, int] = {}  # by producer, the entry that its COMMIT would apply
    current = -1  # log offset of the last record that took effect
    for event in events:
        if len(event) == 3:
            marker, producer_id, committed = event
            for index in waiting.pop(producer_id, []):
                entries[index] = entries[index]._replace(
                    outcome="committed" if committed else "aborted", marker_offset=marker
                )
            index = pending.pop(producer_id, -1)
            if committed and index >= 0 and entries[index].log_offset > current:
                entries[index] = entries[index]._replace(effective_at=marker)
                current = entries[index].log_offset
            continue
        log_offset, timestamp, producer_id, producer_epoch, value = event
        if producer_id >= 0:
            waiting.setdefault(producer_id, []).append(len(entries))
        if value is None:
            pending.clear()
        elif producer_id >= 0:
            pending[producer_id] = len(entries)
        counts = value is None or producer_id < 0
        if counts:
            current = log_offset
        entries.append(
            HistoryEntry(
                log_offset,
                timestamp,
                "delete" if value is None else "commit",
                None if value is None else value_of(value),
                "plain" if producer_id < 0 else "open",
                None,
                log_offset if counts else None,
                producer_id,
                producer_epoch,
            )
        )
    return entries


def refuse_future(name: str, moment: Moment | None, *pasts: PartitionPast | None) -> None:
    """Raises InvalidArgumentError if a time is in the future, because no state is known there.

    A time is accepted if the log has a record of that time or a later one, even if this machine's clock is earlier,
    because either clock may be wrong.  Log offsets are not checked here; `PartitionPast.cut` compares them with the log
    end.

    Args:
        name: the name of the argument.
        moment: the value of the argument.
        pasts: the pasts of the queried partitions; None for a partition that does not exist.
    """
    if not isinstance(moment, datetime):
        return
    asked_ms = arguments.checked_time(name, moment)
    if is_ahead(asked_ms) and all(
        past is None or newest_timestamp(past.partition) < asked_ms for past in pasts
    ):
        raise future_error(name, asked_ms)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The past of an open store.  Any thread may use the object."""

    core: StoreCore
    directory: LogDirectory

    def of(self, group: str) -> PartitionPast | None:
        """Returns the past of a group's log partition; None if the log partition does not exist yet.

        Raises GroupError.
        """
        partition = self.core.partition(self.core.number_of(group))
        return None if partition is None else PartitionPast.of(partition, self.directory)

    def of_all(self, group: str | None) -> list[PartitionPast]:
        """Returns the past of a group's log partition, or the pasts of all log partitions."""
        if group is None:
            return [
                PartitionPast.of(partition, self.directory) for partition in self.core.attached()
            ]
        past = self.of(group)
        return [] if past is None else [past]

    def history(
        self, group: str, topic: str | PartitionKey, partition: int | None
    ) -> History:
        """See OffsetStore.history."""
        # Refuses arguments that cannot name a position.
        self.core.fetch_one(group, topic, *(() if partition is None else (partition,)))
        named: Any = topic if partition is None else (topic, partition)
        [key] = arguments.listed_keys([named])
        past = self.of(group)
        if past is None:
            return History((), self.core.number_of(group), 0, 0, None, 0)
        return past.history(group, *key)

    def group_history(self, group: str) -> dict[TopicPartition, History]:
        """See OffsetStore.group_history."""
        past = self.of(group)
        return {} if past is None else past.histories(group)

    def fetch(
        self, group: str, partitions: Iterable[PartitionKey] | None, given: moments.Moment
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """See OffsetStore.fetch."""
        wanted = None if partitions is None else self.checked_keys(group, partitions)
        at = arguments.parsed_moment("at", given)
        past = self.of(group)
        refuse_future("at", at, past)
        rows = {} if past is None else past.rows(group, past.cut(at, group))
        found = {
            TopicPartition(decode_text(topic), number): value_of(row)
            for (topic, number), row in rows.items()
        }
        return found if wanted is None else {key: found[key] for key in wanted if key in found}

    def to_arrow(self, given: moments.Moment) -> pyarrow.Table:
        """See OffsetStore.to_arrow."""
        at = arguments.parsed_moment("at", given)
        if isinstance(at, int):
            raise InvalidArgumentError(
                f"at={at} is a log offset of one log partition, but the call reads all log partitions: pass a time, "
                "or read one group"
            )
        pasts = self.of_all(None)
        refuse_future("at", at, *pasts)
        rows = answers_of(pasts, None, lambda past: past.positions(past.cut(at, None)))
        return table_of(sorted(rows, key=lambda row: row[:3]))

    def checked_keys(
        self, group: str, partitions: Iterable[PartitionKey]
    ) -> list[TopicPartition]:
        """Returns the partitions as TopicPartition objects; raises InvalidArgumentError if one of them is not valid."""
        keys = [TopicPartition(*key) for key in arguments.listed_keys(partitions)]
        for topic, partition in keys:
            self.core.fetch_one(group, topic, partition)
        return keys

    def diff(
        self, a: moments.Moment | None, b: moments.Moment | None, group: str | None
    ) -> list[Change]:
        """See OffsetStore.diff."""
        before, after = arguments.parsed_moment("a", a), arguments.parsed_moment("b", b)
        for name, moment in (("a", before), ("b", after)):
            if group is None and isinstance(moment, int):
                raise InvalidArgumentError(
                    f"{name}={moment} is a log offset, and each log partition has its own log offsets: name a group, "
                    "so that the log partition of the group is meant, or pass a time"
                )
        pasts = self.of_all(group)
        refuse_future("a", before, *pasts)
        refuse_future("b", after, *pasts)

        def changes(past: PartitionPast) -> list[Change]:
            cuts = past.cut(before, group, "a"), past.cut(after, group, "b")
            return past.changes(group, cuts)

        return sorted(answers_of(pasts, group, changes), key=lambda change: change[:3])

    def deletions(self, group: str | None, given: datetime | str | None) -> list[Deletion]:
        """See OffsetStore.deletions."""
        since = None if given is None else arguments.parsed_time("since", given)
        since_ms = LONG_AGO if since is None else arguments.checked_time("since", since)
        pasts = self.of_all(group)
        refuse_future("since", since, *pasts)
        found = [
            row.as_deletion(past.partition.number)
            for past in pasts
            for row in past.deletions(group, since_ms)
        ]
        return sorted(found, key=lambda deletion: deletion[:3])


def answers_of(
    pasts: list[PartitionPast], group: str | None, ask: Callable[[PartitionPast], list[_Answer]]
) -> list[_Answer]:
    """Returns the rows of all partitions together.

    Raises:
        HistoryError: a partition cannot answer.  If several cannot, the error is that of the partition with the
            shortest history.  From the oldest time of that partition on, all partitions can answer.
    """
    found: list[_Answer] = []
    for past in pasts:
        try:
            found += ask(past)
        except HistoryError as failure:
            if len(pasts) == 1:
                raise
            raise _shortest(pasts, group, failure) from None
    return found


def _shortest(
    pasts: list[PartitionPast], group: str | None, failure: HistoryError
) -> HistoryError:
    # A partition that can answer for this moment may be unable to answer for a later one.
    known = [past.earliest_refusal(group) for past in pasts]
    return max((each for each in known if each is not None), key=_shortness, default=failure)


def _shortness(failure: HistoryError) -> float:
    return float("inf") if failure.oldest is None else failure.oldest.timestamp()


def _text(moment: datetime) -> str:
    """Returns a time in the form that commands print, and that every call that takes a moment accepts."""
    return moment.astimezone(UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")
