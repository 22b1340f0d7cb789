"""Reads a whole partition for the views `offsets`, `groups` and `history`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from offsetlog._native.decompress import Decompressor
from offsetlog._native.replay import MemoryAccount, Replay
from offsetlog._native.scan import PositionScan, SegmentScan, batch_at, used_until
from offsetlog._native.snapshot import StopFlag
from offsetlog.directory.listing import group_rows
from offsetlog.directory.segments import SEGMENT
from offsetlog.errors import (
    CapacityError,
    ChangedFileError,
    CorruptionError,
    HistoryError,
    MissingFileError,
    OffsetLogError,
    StorageError,
)
from offsetlog.spark.scan.bounds import end_of, seek
from offsetlog.spark.scan.files import Files, PartitionListing, Segment, attempts, is_replaced, list_again
from offsetlog.spark.scan.history import NEEDED, effective_offsets
from offsetlog.spark.scan.joined_runs import replay_joined
from offsetlog.spark.scan.options import OFFSET_MAX, ReadOptions, bound_of
from offsetlog.spark.scan.plan import Split
from offsetlog.spark.scan.runs import ROWS, Found, is_rolled_space, outcomes_within
from offsetlog.spark.scan.views import columns_of

#: How many times a state is updated with records that were written while it was read.
CATCH_UPS = 5
#: The most memory, in bytes, for the states of a task.  While two states are combined, they take more.  A worker has
#: 512 MiB.
STATE_BYTES_MAX = 192 * 2**20
#: The most shares into which the keys of a partition are divided if its state takes more memory.
SHARES_MAX = 1024


def _is_as_it_was(segments: Sequence[Segment], now: PartitionListing, size: int) -> bool:
    """Returns whether all listed segments are unchanged, except that the newest one may have grown.

    New segments may have been added.  The newest listed segment must still have at least `size` bytes.

    If the log now has a newer segment, a cleaner may have replaced the newest listed segment.  Only the inode shows
    whether the segment was replaced or has grown.
    """
    present = {segment.base_offset: segment for segment in now.segments}
    *closed, newest = segments
    if any(present.get(segment.base_offset) != segment for segment in closed):
        return False
    same = present.get(newest.base_offset)
    if same is None or same == newest:
        return same is not None
    is_told = newest.identity[0] != 0 or same == now.segments[-1]
    return is_told and same.identity[0] == newest.identity[0] and same.size >= size


def _lost(planned: Sequence[Segment], now: PartitionListing) -> list[Segment]:
    """Returns the segments that were removed since the read was planned, and whose records are in no other segment.

    A cleaner may move the records of a segment to an earlier one.  It then replaces the file of the earlier segment.
    """
    present = {segment.base_offset for segment in now.segments}
    known = {(segment.base_offset, segment.identity, segment.size) for segment in planned}
    lost = []
    for segment in planned:
        earlier = [each for each in now.segments if each.base_offset < segment.base_offset]
        is_kept = earlier and (earlier[-1].base_offset, earlier[-1].identity, earlier[-1].size) not in known
        if segment.base_offset not in present and not is_kept:
            lost.append(segment)
    return lost


@dataclass(slots=True)
class ReplayedBucket:
    """The replayed state of one bucket of a partition.  `listing.group_rows` converts it to rows."""

    number: int
    place: str
    replay: Replay
    refused: list[CorruptionError] = field(default_factory=list)
    problems: list[OffsetLogError] = field(default_factory=list)


def _has_one_group(replay: Replay) -> bool:
    """Returns whether a state is that of a single group; dividing the keys into shares would not make it smaller."""
    if replay.group_record_count > 1:
        return False
    groups = {*replay.groups(), *replay.pending_groups()}
    # A group's own record ends with its name.
    return len(groups) == 1 and all(key.endswith(tuple(groups)) for key, _, _ in replay.group_records())


class BucketReader:
    """The rows of one bucket of one partition.  Use it from one thread only.

    It yields batches.  With mode=permissive, it yields failures between the batches; otherwise it raises them.  All
    buckets of a partition, and all shares of a bucket, meet the same damage, so only the first bucket reports damage,
    and only once.  A file that cannot be read or was removed may affect only one bucket, so each bucket reports it.
    """

    def __init__(self, files: Files, split: Split, read: ReadOptions, columns: list[str]) -> None:
        self._files = files
        self._split = split
        self._read = read
        self._columns = columns
        self._runs = 1
        self._is_one_group = False
        self._is_first = split.bucket == 0
        self._told: set[tuple[Any, ...]] = set()

    def found(self) -> Iterator[Found]:
        """Yields the rows of the bucket."""
        try:
            yield from {"offsets": self._offsets, "groups": self._groups, "history": self._history}[self._read.view]()
        except (StorageError, HistoryError) as failure:
            if not self._read.permissive:
                raise
            yield failure

    def _listing(self) -> PartitionListing:
        split = self._split
        directory = None if split.is_single_file else split.place
        listing = list_again(self._files, PartitionListing(split.number, directory, split.segments))
        if not listing.segments:
            raise MissingFileError("the segments of the partition were removed", path=split.place)
        return listing

    def _whole_listing(self, problems: list[OffsetLogError]) -> PartitionListing:
        """Returns the partition with its present segments.  Adds to `problems` the segments lost since the planning."""
        listing = self._listing()
        for segment in _lost(self._split.segments, listing):
            failure = MissingFileError(
                "the segment was removed, and no other segment holds its records", path=segment.path
            )
            if not self._read.permissive:
                raise failure
            problems.append(failure)
        return listing

    def _tell(self, problems: Sequence[OffsetLogError], refused: Sequence[OffsetLogError] = ()) -> Iterator[Found]:
        """Yields the failures that this bucket reports.

        Only the first bucket of a partition reports damage, and only once.  A refused record is reported by the bucket
        that contains its key.
        """
        if not self._read.permissive:
            for failure in (*problems, *refused):
                raise failure
        for failure in problems:
            place = type(failure), failure.path, failure.position, failure.message
            if (self._is_first or isinstance(failure, StorageError)) and place not in self._told:
                self._told.add(place)
                yield failure
        yield from refused

    def _until(self, listing: PartitionListing) -> int:
        """Returns the log offset below which records are read: the end that the partition had when it was planned.

        If the partition was cleaned after the planning, all present records are read.  The cleaner may have removed a
        record below the planned end because of a newer record above it, so that the state at the planned end would be
        incomplete.
        """
        horizon = self._split.horizon
        if horizon.is_cut:
            return horizon.offset
        # When a segment is closed, space that was allocated ahead is truncated.  Therefore only the bytes that were
        # read must still exist.
        if not _is_as_it_was(self._split.segments, listing, horizon.position):
            return OFFSET_MAX
        return horizon.offset if self._went_on() else OFFSET_MAX

    def _went_on(self) -> bool:
        """Returns whether the planned end is still the end of a batch.  If not, another file has reused the inode.

        The planned end is the end of a batch if the next batch begins there with the planned log offset, or if no bytes
        follow.
        """
        horizon, path, native = self._split.horizon, self._split.segments[-1].path, self._files.native
        try:
            behind = batch_at(path, horizon.position, file_system=native)
            if behind is not None:
                return behind[0] == horizon.offset
            return used_until(path, horizon.position, file_system=native) <= horizon.position
        except MissingFileError:
            return False

    def _refuse_replaced(self, segment: Segment) -> None:
        """Raises if another file has replaced a listed segment; otherwise its bytes could be mistaken for damage.

        Between two reads, other processes can write a new segment, close it, and clean it.
        """
        if is_replaced(self._files, segment):
            raise ChangedFileError("the file was replaced while it was read", path=segment.path)

    # ------------------------------------------------------------------------------------------------ the state

    def _states(self, *, by_group: bool) -> Iterator[ReplayedBucket]:
        """Yields the state of the partition: as a whole, or in shares of its keys if it takes too much memory."""
        shares, threads = [(self._split.bucket, self._split.buckets)], self._split.threads
        while shares:
            number, count = shares.pop()
            self._split = replace(self._split, bucket=number, buckets=count, threads=threads)
            try:
                state = self._replayed(by_group=by_group)
            except CapacityError:
                if count >= SHARES_MAX or self._is_one_group:
                    raise
                # Nothing of this share was yielded yet: tries its two halves.
                shares += [(2 * number + 1, 2 * count), (2 * number, 2 * count)]
                continue
            # Shares are about equally large: if this one needed fewer runs, so will the next.
            threads = self._runs
            yield state
            del state

    def _begin(
        self, account: MemoryAccount, *, by_group: bool, is_run: bool = False, stop: StopFlag | None = None
    ) -> Replay:
        return Replay(
            self._files.native,
            stop=stop,
            bucket=self._split.bucket,
            buckets=self._split.buckets,
            by_group=by_group,
            run=is_run,
            account=account,
        )

    def _replayed(self, *, by_group: bool) -> ReplayedBucket:
        for left in attempts():
            problems: list[OffsetLogError] = []
            listing = self._whole_listing(problems)
            until = self._until(listing)
            try:
                state = self._read_whole(listing, until, by_group=by_group)
                state.problems += problems
                if self._catch_up(state, listing):
                    self._check_is_known(state, listing, until)
                    return state
            except (ChangedFileError, MissingFileError):
                if left == 0 or listing.directory is None:
                    raise
        raise StorageError(
            "the files were replaced during each attempt to read them; run the query again later",
            path=self._split.place,
        )

    def _read_whole(self, listing: PartitionListing, until: int, *, by_group: bool) -> ReplayedBucket:
        joined = replay_joined(
            self._files,
            listing,
            until,
            self._split.threads,
            lambda is_run, stop, account: self._begin(account, by_group=by_group, is_run=is_run, stop=stop),
            STATE_BYTES_MAX,
        )
        self._runs = 1 if joined is None else joined.count
        if joined is not None:
            return ReplayedBucket(self._split.number, self._split.place, joined.replay, joined.refused)
        replay = self._begin(MemoryAccount(STATE_BYTES_MAX), by_group=by_group)
        state = ReplayedBucket(self._split.number, self._split.place, replay)
        try:
            self._replay(state, listing, until)
        except CapacityError:
            self._is_one_group = by_group and _has_one_group(replay)
            raise
        return state

    def _catch_up(self, state: ReplayedBucket, listing: PartitionListing) -> bool:
        """Updates a state whose log was cleaned while it was read.  Returns False if everything must be read again."""
        for _ in range(CATCH_UPS):
            now = self._listing()
            if _is_as_it_was(listing.segments, now, listing.segments[-1].size):
                return True
            if self._split.horizon.is_cut:
                return False
            # A record that the cleaner dropped was superseded by a record that this replay applies.
            self._replay(state, now, OFFSET_MAX)
            listing = now
        return False

    def _replay(self, state: ReplayedBucket, listing: PartitionListing, until: int) -> None:
        """Applies the records after the last one that the state has applied."""
        since = state.replay.next_offset
        bases = [segment.base_offset for segment in listing.segments]
        for segment, following in zip(listing.segments, [*bases, OFFSET_MAX][1:], strict=True):
            if segment.base_offset < until and following > since:
                position = seek(self._files, segment, since) if segment.base_offset < since else 0
                self._replay_segment(state, segment, position, since, until, following)

    def _replay_segment(
        self, state: ReplayedBucket, segment: Segment, position: int, since: int, until: int, following: int
    ) -> None:
        # `following` is the base offset of the next segment, OFFSET_MAX for the last one.
        replay, tried, filled, is_last = state.replay, -1, -1, following == OFFSET_MAX
        limit = min(following, segment.offset_limit)
        while True:
            found = replay.apply(segment.path, position=position, since=since, until=until, segment_limit=limit)
            state.refused += found["refused"]
            damage, position = found["damage"], found["position"]
            if damage is None or replay.next_offset >= until:
                return
            if position == 0 and not SEGMENT.fullmatch(segment.name):
                raise CorruptionError(f"not a log segment: {damage.message}", path=segment.path, position=0)
            if position != tried:
                # A running writer may have filled these bytes after they were read.
                tried = position
                continue
            # A roll in progress, or one that a crash interrupted, leaves space that was allocated ahead.
            is_whole = is_last or replay.next_offset >= following
            if is_whole and position >= end_of(self._files, segment)[0]:
                return
            native = self._files.native
            if is_last and position != filled and batch_at(segment.path, position, file_system=native) is not None:
                # The batch was completed between the two reads.  If the replay refuses it again, it is damage.
                filled = position
                continue
            self._refuse_replaced(segment)
            if not self._read.permissive:
                raise damage
            state.problems.append(damage)
            follows = replay.skip(segment.path, position)
            if follows is None:
                return
            position = follows

    def _check_is_known(self, state: ReplayedBucket, listing: PartitionListing, until: int) -> None:
        """Raises if the requested past state is not known because records of it were cleaned away."""
        newest = listing.segments[-1].base_offset
        if not self._split.horizon.is_cut or until >= newest or state.replay.records_below == until:
            return
        raise HistoryError(
            f"the state at log offset {until} of log partition {self._split.number} is no longer known, because "
            f"records below that log offset were cleaned away; states are known from log offset {newest} on",
            floor=newest,
            log_partition=self._split.number,
            path=self._split.place,
            log_offset=until,
        )

    def _offsets(self) -> Iterator[Found]:
        for state in self._states(by_group=False):
            yield from self._positions(state)
            yield from self._tell(state.problems, state.refused)
            # Frees the memory of this share for the next one.
            del state

    def _positions(self, state: ReplayedBucket) -> Iterator[Found]:
        read = self._read
        asked = [name for name in ("group", "topic") if getattr(read, name) is not None]
        asked += ["partition"] if read.partition >= 0 else []
        columns = [*self._columns, *(name for name in asked if name not in self._columns)]
        positions = PositionScan(state.replay, columns, log_partition=self._split.number)
        while (kept := positions.read(ROWS)) is not None:
            for name in asked:
                kept = kept.filter(pc.equal(kept.column(columns.index(name)), getattr(read, name)))
            if kept.num_rows:
                yield kept.select(self._columns)

    def _groups(self) -> Iterator[Found]:
        for state in self._states(by_group=True):
            rows = [row for row in group_rows([state]) if self._read.group in (None, row["group"])]
            if rows:
                schema = columns_of("groups")
                yield pa.RecordBatch.from_pylist(rows, schema=schema).select(self._columns)
            yield from self._tell(state.problems, state.refused)
            del state

    # ------------------------------------------------------------------------------------------------ the history

    def _history(self) -> Iterator[Found]:
        batches, problems = self._whole_commits()
        read, number = self._read, self._split.number
        schema = columns_of("history")
        plain = [name for name in columns_of("commits").names if name in {*self._columns, *NEEDED}]
        table = pa.Table.from_batches(batches, schema=pa.schema([schema.field(name) for name in plain]))
        if "effective_at" in self._columns:
            table = table.append_column(schema.field("effective_at"), effective_offsets(table))
        first, until = bound_of(read.starting_offset, number, 0), bound_of(read.ending_offset, number, OFFSET_MAX)
        if first > 0 or until < OFFSET_MAX:
            offsets = table.column("log_offset")
            table = table.filter(pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, until)))
        yield from table.select(self._columns).to_batches(max_chunksize=ROWS)
        yield from self._tell(problems)

    def _whole_commits(self) -> tuple[list[Any], list[OffsetLogError]]:
        """Returns the commits and the problems.

        If the log was cleaned while it was read, it is read again: a record that the cleaner moved may have been in
        none of the files that were read.
        """
        for left in attempts():
            problems: list[OffsetLogError] = []
            listing = self._whole_listing(problems)
            try:
                end = end_of(self._files, listing.segments[-1])[0]
                batches = self._all_commits(listing, end, problems)
                if _is_as_it_was(listing.segments, self._listing(), end):
                    return batches, problems
            except (ChangedFileError, MissingFileError):
                if left == 0 or listing.directory is None:
                    raise
        raise StorageError(
            "the files were replaced during each attempt to read them; run the query again later",
            path=self._split.place,
        )

    def _all_commits(self, listing: PartitionListing, end: int, problems: list[OffsetLogError]) -> list[Any]:
        """Reads the commits from the segments.  Reads the newest segment up to the file position `end`."""
        split, read = self._split, self._read
        until = self._until(listing)
        decompressor = Decompressor()
        plain = [name for name in columns_of("commits").names if name in {*self._columns, *NEEDED}]
        batches, outcomes, next_offset = [], None, 0
        bases = [segment.base_offset for segment in listing.segments]
        for segment, following in zip(listing.segments, [*bases, OFFSET_MAX][1:], strict=True):
            if segment.base_offset >= until:
                continue
            limit = end if segment == listing.segments[-1] else -1
            scan = SegmentScan(
                segment.path,
                "commits",
                plain,
                log_partition=split.number,
                file_system=self._files.native,
                decompressor=decompressor,
                limit=limit,
                until=until,
                group=read.group,
                topic=read.topic,
                partition=read.partition,
                bucket=split.bucket,
                buckets=split.buckets,
                next_offset=next_offset,
                outcomes=outcomes,
                segment_base=segment.base_offset,
                segment_limit=min(following, segment.offset_limit),
            )
            with scan:
                while True:
                    try:
                        batch = scan.read(ROWS)
                    except CorruptionError as failure:
                        if is_rolled_space(scan, segment, min(following, until)):
                            break
                        self._refuse_replaced(segment)
                        if not read.permissive:
                            raise
                        problems.append(failure)
                        if not scan.skip():
                            break
                        continue
                    if scan.needs_outcomes:
                        outcomes = outcomes_within(
                            self._files, split, self._listing, 0, until, decompressor, horizon=until
                        )
                        scan.outcomes = outcomes
                    if batch is None:
                        break
                    if batch.num_rows:
                        batches.append(batch)
                next_offset = max(next_offset, scan.next_offset)
        return batches
