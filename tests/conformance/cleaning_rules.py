"""The records that a cleaner may drop and those it must keep, by the log before and after
(docs/format/cleaner.md §8).

It knows no cleaner: it reads both logs with the oracle.  A *slot* is what a record is the latest word about: group,
topic and partition for a committed offset, whatever the version of its key, and the bytes of the key for all else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .oracle import LogRecord, Segment, records
from .oracle_batches import Batch, Record

Slot = tuple[object, ...]
#: A record's place: log partition and log offset.
Place = tuple[int, int]

DIFFERENCES_SHOWN = 5


@dataclass(frozen=True)
class Entry:
    """A data record in its place; `aborted` where its transaction was."""

    place: Place
    batch: Batch
    record: Record
    slot: Slot
    aborted: bool

    @property
    def is_value(self) -> bool:
        """Not a tombstone."""
        return self.record.value is not None


@dataclass(frozen=True)
class Contents:
    """A log: its data records by place, its batches by (partition, base offset), its ends by partition."""

    entries: dict[Place, Entry]
    batches: dict[Place, Batch]
    ends: dict[int, int]


def contents_of(segments: list[Segment]) -> Contents:
    """Reads a log that ends cleanly."""
    assert not [segment for segment in segments if segment.tail], "a tail that is no batch"
    aborted = _aborted_places(segments)
    entries = {}
    for found in records(segments):
        if found.record is None or found.batch.control:
            continue
        place = (found.log_partition, found.record.offset)
        entries[place] = Entry(place, found.batch, found.record, _slot(found), place in aborted)
    batches, ends = {}, {}
    for segment in segments:
        ends.setdefault(segment.log_partition, int(segment.name.split(".")[0]))
        for batch in segment.batches:
            assert batch.base_offset >= int(segment.name.split(".")[0])
            # Ascending, and none reaches into the next one, also from one segment to the next.
            assert batch.base_offset >= ends[segment.log_partition], f"{segment.name} at {batch.position}"
            batches[segment.log_partition, batch.base_offset] = batch
            ends[segment.log_partition] = batch.last_offset + 1
        ends[segment.log_partition] = max(ends[segment.log_partition], int(segment.name.split(".")[0]))
    return Contents(entries, batches, ends)


def _slot(found: LogRecord) -> Slot:
    assert found.record is not None
    if found.kind == "offset_commit":
        assert found.key is not None
        name = found.key["data"]
        return ("offset", found.log_partition, name["group"], name["topic"], name["partition"])
    return ("key", found.log_partition, found.record.key)


def _aborted_places(segments: list[Segment]) -> set[Place]:
    """The places of records whose transaction ended with an ABORT marker."""
    pending: dict[tuple[int, int], list[Place]] = {}
    aborted: set[Place] = set()
    for found in records(segments):
        if found.record is None or not found.batch.transactional:
            continue
        producer = (found.log_partition, found.batch.producer_id)
        if not found.batch.control:
            pending.setdefault(producer, []).append((found.log_partition, found.record.offset))
        else:
            ended = pending.pop(producer, [])
            if found.key is not None and found.key["type"] == "ABORT":
                aborted.update(ended)
    return aborted


def last_words(log: Contents, ends: Mapping[int, int]) -> dict[Slot, Entry]:
    """The last record of each slot below `ends`: values of aborted transactions are none, their tombstones are."""
    last = {}
    for entry in _below(log, ends):
        if not (entry.aborted and entry.is_value):
            last[entry.slot] = entry
    return last


def _below(log: Contents, ends: Mapping[int, int]) -> Iterator[Entry]:
    for place in sorted(log.entries):
        if place[1] < ends.get(place[0], 0):
            yield log.entries[place]


def check_cleaned(before: Contents, after: Contents, ends: Mapping[int, int], *, tombstones_stay: bool) -> None:
    """Nothing is in `after` that was not in `before`, and everything is that a replay needs.

    Args:
        before: a log.
        after: the same, cleaned any number of times.
        ends: by partition, below which something may have gone; above it everything is there.
        tombstones_stay: whether the time of no tombstone is over that no cleaner has seen before.
    """
    assert after.ends == before.ends, "the log ends somewhere else"
    _check_survivors(before, after)
    last = last_words(before, ends)
    needed = {entry.place for entry in last.values() if entry.is_value}
    if tombstones_stay:
        # In formats 0 and 1 the segment's time is that of a tombstone.
        tombstones = (entry for entry in last.values() if not entry.is_value)
        needed |= {each.place for each in tombstones if each.batch.magic == 2 and each.batch.delete_horizon is None}
    needed |= {place for place in before.entries if place[1] >= ends.get(place[0], 0)}
    missing = sorted(needed - after.entries.keys())
    assert not missing, f"{len(missing)} needed records are gone: {missing[:DIFFERENCES_SHOWN]}"


def _check_survivors(before: Contents, after: Contents) -> None:
    different = [
        f"{place}: {before.entries[place].record if place in before.entries else None} became {entry.record}"
        for place, entry in after.entries.items()
        if place not in before.entries or _content_of(before.entries[place]) != _content_of(entry)
    ]
    assert not different, f"{len(different)} records: " + "\n".join(different[:DIFFERENCES_SHOWN])
    for place, batch in after.batches.items():
        if batch.magic == 2:
            found = before.batches.get(place)
            assert found is not None, f"a new batch at {place}"
            assert _frame(found, like=batch) == _frame(batch, like=batch), f"the batch at {place}"


def _content_of(entry: Entry) -> tuple[object, ...]:
    """Returns the contents of a record, byte for byte; the CRC of a message, in formats 0 and 1, follows from it."""
    record, batch = entry.record, entry.batch
    content = (record.offset, record.timestamp, record.key, record.value, record.headers, record.sequence)
    return (*content, batch.magic, batch.timestamp_type, entry.aborted)


def _frame(batch: Batch, *, like: Batch) -> tuple[object, ...]:
    """Returns the fields that a rewrite of a batch keeps; one that was emptied is not compressed any more.

    Source: docs/format/batches.md §2.7.
    """
    codec = batch.codec if like.records else None
    producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    return (batch.last_offset, batch.leader_epoch, *producer, batch.transactional, batch.control, codec)


def superseded_left(log: Contents, ends: Mapping[int, int]) -> list[Place]:
    """The values below `ends` that a complete clean takes out: of which a later record of their slot is there, or
    whose transaction was aborted."""
    last = last_words(log, ends)
    return [entry.place for entry in _below(log, ends) if entry.is_value and last.get(entry.slot) is not entry]
