"""Finds in the log the commits that moved an offset back, which is often the first question after an accident.

One pass over each log partition reads the changes in the order in which they took effect.  Offsets of open and aborted
transactions have not taken effect, so they are not considered (csrc/history/change_feed.h).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, overload

from offsetlog import arguments
from offsetlog._native import timeline as native
from offsetlog._native.change_feed import ChangeFeed
from offsetlog._native.partition import Partition
from offsetlog._native.row_blocks import RowBlocks
from offsetlog.history.timeline import LONG_AGO, PartitionPast, Timeline, refuse_future
from offsetlog.types import LogGap, OffsetAndMetadata, PositionChange

#: How many changes are read at a time.
ROWS = 4096


class Rewind(NamedTuple):
    """A committed offset that is lower than the committed offset before it.

    Attributes:
        group: the consumer group.
        topic: the topic.
        partition: the partition of the topic.
        timestamp: the time at which the lower offset took effect, in milliseconds since 1970; -1 if it is unknown.
        before: the position before the commit.
        after: the position that was committed.
        log_partition: the partition of the offsets topic.
        log_offset: the log offset of the record.
        effective_at: the log offset at which the commit took effect: that of the record, or that of the marker if a
            transaction committed it.
        restore_at: the log offset of the state before the commit, which `restore` accepts.  It is the log offset of the
            first record of the batch, or of the marker.  None if the position before the commit is recorded in the same
            batch.
    """

    group: str
    topic: str
    partition: int
    timestamp: int
    before: OffsetAndMetadata
    after: OffsetAndMetadata
    log_partition: int
    log_offset: int
    effective_at: int
    restore_at: int | None


@dataclass(frozen=True, slots=True)
class Rewinds(Sequence[Rewind]):
    """The commits that moved an offset back, oldest first, as far as the log still shows them.

    Attributes:
        entries: the rewinds.
        gaps: the ranges of the log that were cleaned or cannot be read, and that may have contained other rewinds.
    """

    entries: tuple[Rewind, ...]
    gaps: tuple[LogGap, ...]

    @overload
    def __getitem__(self, index: int) -> Rewind: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Rewind]: ...
    def __getitem__(self, index: int | slice) -> Rewind | Sequence[Rewind]:
        return self.entries[index]

    def __len__(self) -> int:
        return len(self.entries)


def find_rewinds(timeline: Timeline, given: datetime | str | None, group: str | None) -> Rewinds:
    """See OffsetStore.rewinds."""
    since = None if given is None else arguments.parsed_time("since", given)
    since_ms = LONG_AGO if since is None else arguments.checked_time("since", since)
    # A group is looked up in every log partition, so that the number of partitions is not needed.
    pasts = timeline.of_all(None)
    refuse_future("since", since, *pasts)
    groups = None if group is None else [group]
    blocks = RowBlocks("changes", None)
    found: list[Rewind] = []
    gaps: list[LogGap] = []
    for past in pasts:
        # A record without a time may be newer than `since`.
        found += (
            each
            for each in _rewinds_of(past, groups, blocks, gaps)
            if each.timestamp < 0 or each.timestamp >= since_ms
        )
    found.sort(key=lambda each: (each.timestamp, each.log_partition, each.effective_at))
    return Rewinds(tuple(found), tuple(gaps))


def _rewinds_of(
    past: PartitionPast, groups: list[str] | None, blocks: RowBlocks, gaps: list[LogGap]
) -> Iterator[Rewind]:
    last: dict[tuple[str, str, int], tuple[OffsetAndMetadata, int]] = {}
    batches = _Batches(past.partition)
    for change in _changes_of(past, groups, blocks, gaps):
        value = change.value
        if value is None:
            continue  # a deletion does not hide that the next commit is lower
        key = (change.group, change.topic, change.partition)
        before, written_at = last.get(key, (None, -1))
        last[key] = (value, change.log_offset)
        if before is not None and value.offset < before.offset:
            time = change.timestamp if change.timestamp >= 0 else value.commit_timestamp
            start = batches.start_of(change)
            restore_at = start if written_at < start else None
            yield Rewind(*key, time, before, value, *change[:3], restore_at)


class _Batches:
    """Finds the batch of a change.  The changes must be passed in the order of the log."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._first, self._next = 0, 0  # of the last batch that was found

    def start_of(self, change: PositionChange) -> int:
        """Returns the first log offset of the batch that put a change into effect."""
        if change.effective_at != change.log_offset:
            return change.effective_at  # a marker is a batch of its own
        if not self._first <= change.log_offset < self._next:
            batch = native.next_batch(self._partition, change.log_offset)
            if batch is None or batch.first > change.log_offset:
                return change.log_offset
            self._first, self._next = batch.first, batch.next
        return self._first


def _changes_of(
    past: PartitionPast, groups: list[str] | None, blocks: RowBlocks, gaps: list[LogGap]
) -> Iterator[PositionChange]:
    number = past.partition.number
    floor = past.cleaned_below(None if groups is None else groups[0])
    if floor > 0:
        gaps.append(LogGap(number, 0, floor, "cleaned"))
    feed = ChangeFeed(number, groups)
    feed.start(past.partition, 0, -1, floor)
    is_end = False
    while not is_end:
        changes, gap, is_end = feed.read(blocks, ROWS, arrow=False)
        yield from changes
        if gap is not None:
            gaps.append(gap)
