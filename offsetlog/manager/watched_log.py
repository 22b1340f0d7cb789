"""One log partition of a watch: reports its changes, and a gap where changes cannot be reported.

A place in a log is a log offset, together with the leader epoch of the record before it.  The log may have been
truncated since, or another replica may read its own log from the same place.  The epoch shows whether the log still
contains the records that were reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from offsetlog._native import timeline
from offsetlog._native.change_feed import ChangeFeed
from offsetlog._native.partition import Partition
from offsetlog._native.replica import Replica
from offsetlog._native.row_blocks import RowBlocks
from offsetlog.directory.history_floor import HistoryFloor
from offsetlog.errors import CoordinatorLoadingError, OffsetLogError
from offsetlog.types import LogGap

#: A place: the leader epoch of the record before the log offset, and the log offset.
Place: TypeAlias = tuple[int, int]

#: The place at the start of every log.
BEGINNING: Place = (-1, 0)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The result of one read of a log.

    Attributes:
        number: the log partition.
        before: the place in the log before the read.
        after: the place in the log after the read.
        items: the changes, as PositionChange or in Arrow batches.  A LogGap may follow them.
        changes: the number of changes and gaps in `items`.
    """

    number: int
    before: Place
    after: Place
    items: list[Any]
    changes: int


class LogSource(Protocol):
    """Provides the logs that a watch reads.  Thread-safe."""

    def watched_partition(self, number: int) -> Partition | None:
        """Returns a partition, or None if it has no log in this process.

        Raises:
            ClosedError, StorageError, DataLossError.
        """

    def recorded_floor(self, partition: Partition) -> HistoryFloor:
        """Returns the log offset where the history of each group in a partition begins; raises StorageError."""


def present_place(partition: Partition) -> Place:
    """Returns the place at the high watermark (W) of a partition."""
    replica = Replica(partition)
    watermark = replica.positions().watermark
    return replica.epoch_before(watermark), watermark


def place_of_cut(replica: Replica, epoch: int, offset: int) -> int | None:
    """Returns the log offset up to which a log still contains the records that were read before a place.

    If the log contains all records that were read before the place, the function returns the log
    offset of the place.  It returns None if this replica cannot decide yet: it is a follower that
    does not have the records yet, or it does not know yet that another replica leads.  A follower
    decides by the same rule where it truncates its log (docs/format/leader-epochs.md §12.4): if a
    log knows an epoch, it contains the records of that epoch up to the end of the epoch.
    """
    positions, leadership = replica.positions(), replica.leadership
    if offset <= positions.log_start:
        return offset  # none of these records is in the log any more; the missing ones are a gap
    newest = replica.last_epoch()
    leads = leadership.leads and leadership.epoch >= epoch
    if epoch < 0 or epoch == newest:
        if offset <= positions.log_end:
            return offset
        return positions.log_end if leads else None
    if epoch > newest and not leads:
        return None
    end = replica.end_offset_for_epoch(epoch)
    if end.epoch == epoch:
        return min(offset, end.end_offset)
    # The log does not know the epoch.  The log of a leader without followers is then a prefix of its former self.  If
    # another leader's log replaced it, it is unknown where the two diverge.
    if not leadership.alone:
        return positions.log_start
    return min(offset, end.end_offset if end.end_offset >= 0 else positions.log_end)


class WatchedLog:
    """Reads one log from a place on.  Only one thread at a time may use this object.

    Args:
        source: provides the log.
        number: the log partition.
        groups: the watched groups; None for all groups.
        place: the leader epoch and the log offset at which the watch begins.
    """

    def __init__(
        self, source: LogSource, number: int, groups: Sequence[str] | None, place: Place
    ) -> None:
        self.number = number
        self._source = source
        self._groups = groups
        self._feed = ChangeFeed(number, groups)
        self._epoch, self._offset = place
        self._follows: Partition | None = None
        # The floor of the watched groups at the time when the watch last skipped a gap that concerned only other
        # groups.
        self._held_floor: int | None = None

    @property
    def place(self) -> Place:
        """The leader epoch and the log offset after everything that was returned so far."""
        return self._epoch, self._offset

    def read(self, blocks: RowBlocks, rows: int, *, arrow: bool) -> tuple[Chunk, bool]:
        """Reads the next changes; returns about as many as `rows`, and whether the log has no more for now.

        Raises:
            StorageError, CapacityError, LimitError, ClosedError: the log could not be read.  After such an error, or
                after an interrupt, the next call reads the same changes again.
        """
        before = self.place
        try:
            items, is_end = self._read(blocks, rows, arrow)
        except BaseException:
            self.go_back(before)
            raise
        changes = sum(each.num_rows if arrow and not isinstance(each, LogGap) else 1 for each in items)
        return Chunk(self.number, before, self.place, items, changes), is_end

    def go_back(self, place: Place) -> None:
        """Goes back to a place, because the changes that were read after it were not returned to the caller."""
        self._epoch, self._offset = place
        self._follows = None

    def _read(self, blocks: RowBlocks, rows: int, arrow: bool) -> tuple[list[Any], bool]:
        partition = self._source.watched_partition(self.number)
        if partition is None:
            return [], True
        try:
            return self._read_open(partition, blocks, rows, arrow)
        except CoordinatorLoadingError:
            # The log failed, and is being opened again.
            self._follows = None
            return [], True

    def _read_open(
        self, partition: Partition, blocks: RowBlocks, rows: int, arrow: bool
    ) -> tuple[list[Any], bool]:
        if partition is not self._follows or not self._feed.is_current():
            gap = self._find_place(partition)
            if self._follows is None:
                return [], True
            if gap is not None:
                return [gap], False
        try:
            found, gap, is_end = self._feed.read(blocks, rows, arrow)
        except OffsetLogError:
            self._follows = None
            if not self._was_cut():
                raise
            return [], False
        if self._was_cut() or self._was_released(partition):
            # Some changes may come from records that were being truncated or cleaned.
            self._follows = None
            return [], False
        if gap is not None:
            gap = self._judged(partition, gap)
        self._epoch, self._offset = self._feed.epoch, self._feed.offset
        return [*found, *([] if gap is None else [gap])], is_end

    def _was_cut(self) -> bool:
        try:
            return not self._feed.is_current()
        except OffsetLogError:
            return False  # the partition is closed, or its log has failed

    def _was_released(self, partition: Partition) -> bool:
        # While the history of the watched groups is kept, the watch skips missing records, because they belong to other
        # groups.  When this history is no longer kept, a cleaner raises the floor before it removes any record.
        if self._held_floor is None:
            return False
        floor = self._own(self._source.recorded_floor(partition))
        return floor > max(self._held_floor, self._offset)

    # ------------------------------------------------------------------------------- finding the place

    def _find_place(self, partition: Partition) -> LogGap | None:
        # Starts the feed at the current place, unless this replica does not have that place yet.
        self._follows = None
        self._held_floor = None
        replica = Replica(partition)
        cut = place_of_cut(replica, self._epoch, self._offset)
        if cut is None:
            return None
        gap = None
        if cut < self._offset:
            gap = LogGap(self.number, cut, self._offset, "truncated")
            self._epoch, self._offset = replica.epoch_before(cut), cut
        floor = self._floor(partition)
        while True:
            known_below = self._offset if gap is not None else max(self._offset, floor)
            self._feed.start(partition, self._offset, self._epoch, known_below)
            # A cleaner records the floor before it removes anything, so the floor now shows whether records were
            # removed while the feed looked for open transactions.
            again = self._floor(partition)
            if again <= floor:
                break
            floor = again
        self._follows = partition
        if gap is None and floor > self._offset:
            gap = LogGap(self.number, self._offset, floor, "cleaned")
        return gap

    # ------------------------------------------------------------------------------- what was cleaned

    def _floor(self, partition: Partition) -> int:
        # Returns the log offset from which on the log contains every change of the watched groups.
        floors = self._source.recorded_floor(partition)
        watermark = Replica(partition).positions().watermark
        return min(watermark, max(self._own(floors), self._settled(partition, floors, watermark)))

    def _own(self, floors: HistoryFloor) -> int:
        if self._groups is None:
            return floors.end
        return max((floors.of(group) for group in self._groups), default=0)

    @staticmethod
    def _settled(partition: Partition, floors: HistoryFloor, watermark: int) -> int:
        # This concerns the part of the log that another program cleaned.  A transaction may have been open there.  Its
        # values take effect at its end, but the program may have removed them as if they were superseded
        # (HistoryFloor.foreign).
        foreign = min(floors.foreign, watermark)
        return timeline.ended_by(partition, foreign, watermark) if foreign > 0 else 0

    def _judged(self, partition: Partition, gap: LogGap) -> LogGap | None:
        # Records are missing in a gap.  A group whose history is kept may nevertheless have all its records.
        if gap.reason != "cleaned":
            return gap
        floors = self._source.recorded_floor(partition)
        own = self._own(floors)
        if gap.end <= floors.end and own <= gap.start:
            self._feed.extend_gap(floors.end)
            self._held_floor = own
            return None
        # One gap covers all records that a pass of the cleaner has removed.
        end = max(gap.end, self._floor(partition))
        self._feed.extend_gap(end)
        return gap._replace(end=end)
