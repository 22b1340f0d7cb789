"""The division of a read among tasks: the log of each partition in runs of whole batches, or its keys in buckets.

Made on the driver from listings, indexes and the last few batches of each partition.  A task finds by itself what has
changed since: see `batch`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from pyspark.sql.datasource import InputPartition

from offsetlog._native.scan import skim
from offsetlog.clock import future_error, is_ahead
from offsetlog.errors import ConfigError, MissingFileError, OffsetLogError, StorageError
from offsetlog.spark.location import Location
from offsetlog.spark.scan.bounds import (
    Horizon,
    entered,
    find_start,
    horizon_at_offset,
    horizon_at_time,
    horizon_now,
    index_entries,
    seek,
)
from offsetlog.spark.scan.files import (
    ATTEMPTS,
    Files,
    PartitionListing,
    Segment,
    attempts,
    choose,
    list_again,
    list_partitions,
    numbers_text,
    resolve,
)
from offsetlog.spark.scan.options import OFFSET_MAX, Moment, ReadOptions, bound_of, moment_of, parallelism
from offsetlog.spark.scan.reach import not_on_driver

#: Views of which a task needs all records of a key.
KEYED_BY_TASK = frozenset({"offsets", "groups", "history"})
#: How many splits of a log one bucket of its keys stands for, where all records of the keys are kept.
_SPLITS_A_BUCKET = 2
#: And how much of a log at most: 64 MiB are a million small records, which take a worker 300 MiB of its 512.
_BUCKET_BYTES_MAX = 2**26
#: How many buckets are made unless `buckets` asks for more: each of them reads the whole partition.
_BUCKETS_MAX = 64
#: Anything smaller is not divided among tasks, unless splits are asked to be smaller.
_TASK_BYTES = 2**20
#: Anything smaller is not worth a split of its own so that another core has work.
_SPLIT_BYTES_MIN = 2**22
#: No batch is smaller.
_BATCH_BYTES_MIN = 26


@dataclass(frozen=True, slots=True)
class Span:
    """A run of whole batches of one segment.

    Attributes:
        segment: as it was listed; another file may have taken its place.
        position: where the first batch begins.
        limit: after the last one; -1: the segment could not be read when this was planned.
        first: its records are at or above this log offset.
        until: and below this one.
        ceiling: no batch reaches this log offset: the next segment begins there, or its relative offset has no room.
        is_inner: whether the batch at the limit is the one at `until`: every batch before it is to be read.
        begins: the log offset below which no batch from `position` on lies.
    """

    segment: Segment
    position: int
    limit: int
    first: int
    until: int
    ceiling: int = OFFSET_MAX
    is_inner: bool = False
    begins: int = 0


@dataclass(frozen=True)
class Split:
    """A piece of one partition that is read by itself.

    Attributes:
        number: of the partition.
        place: its directory, or the single segment.
        horizon: where the partition ends.
        spans: runs of batches in log order; none where the task reads all records of a bucket of keys.
        before: the segment before the first span's, None where that is the first.
        bucket: of `buckets`.
        buckets: into how many shares the keys are divided.
        segments: the listed ones, where a bucket is read.
        threads: how many runs of the log are read at a time, where the state is read.
        is_single_file: whether a segment is read by itself.
    """

    number: int
    place: str
    horizon: Horizon
    spans: tuple[Span, ...] = ()
    before: Segment | None = None
    bucket: int = 0
    buckets: int = 1
    segments: tuple[Segment, ...] = ()
    threads: int = 1
    is_single_file: bool = False

    @property
    def size(self) -> int:
        """Bytes that are read."""
        spans = sum(max(span.limit - span.position, 0) for span in self.spans)
        return spans + sum(segment.size for segment in self.segments)


@dataclass(frozen=True)
class Task(InputPartition):
    """The splits that one task of Spark reads: a large piece, or small ones of several partitions.

    Attributes:
        splits: the pieces.
        problems: findings of the driver, as (log partition, text): a row each, with mode=permissive.
        read: the options, where the reader does not travel beside its tasks: the JVM reader has only these.
    """

    splits: tuple[Split, ...]
    problems: tuple[tuple[int, str], ...] = ()
    read: ReadOptions | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a read: a path, looked at once.

    Attributes:
        files: the file system.
        path: on it.
        listings: the partitions that are read.
        count: how many there were before a filter of Spark's left some out.
        numbers: of all log partitions that are there, also where others are read.
    """

    files: Files
    path: str
    listings: tuple[PartitionListing, ...]
    count: int
    numbers: frozenset[int] = frozenset()


def open_source(read: ReadOptions, files: Files | None = None) -> Source:
    """Looks at what the options name; `files`, where given, is the file system, and the path one on it.

    Raises:
        ConfigError, MissingFileError, InvalidArgumentError, StorageError: as `resolve` and `list_partitions`.
    """
    files, path = resolve(read.path, read.hadoop) if files is None else (files, read.path)
    there = list_partitions(files, path)
    chosen = choose(there, read.partitions, path)
    filtered = read.filtered_partitions
    return Source(
        files,
        path,
        tuple(each for each in chosen if filtered is None or each.number in filtered),
        len(chosen),
        frozenset(each.number for each in there),
    )


def open_on_driver(read: ReadOptions, files: Files | None = None) -> Source:
    """Looks at what the options name, as `open_source`, where the driver does: a missing log may be elsewhere.

    Raises:
        ConfigError, MissingFileError, InvalidArgumentError, StorageError: as `open_source`.
    """
    try:
        return open_source(read, files)
    except MissingFileError as failure:
        if files is not None or Location.of(read.path).path is None or _is_seen(read):
            raise
        raise not_on_driver(failure) from None


def _is_seen(read: ReadOptions) -> bool:
    """Tells whether the log is there, and only the log partitions that are asked for are not."""
    if read.partitions is None:
        return False
    try:
        return bool(open_source(replace(read, partitions=None)).listings)
    except OffsetLogError:
        return False


def check_named(source: Source, read: ReadOptions, lost: Collection[int] = ()) -> None:
    """Refuses log offsets of log partitions that are not there: a wrong digit would read everything, or the present.

    Args:
        source: the one that is read.
        read: the options.
        lost: log partitions that are missing, which are reported otherwise.

    Raises:
        ConfigError: `at`, `startingOffset` or `endingOffset` names another log partition than are there.
    """
    there = source.numbers | set(lost)
    moment = {} if read.at is None else {number: offset for number, offset in read.at.offsets if number is not None}
    bounds = {"at": moment, "startingOffset": read.starting_offset, "endingOffset": read.ending_offset}
    for name, bound in bounds.items():
        unknown = sorted(set(bound) - there) if isinstance(bound, dict) else []
        if unknown:
            raise ConfigError(
                f"{name} names log partition {unknown[0]}, not in it; there are {numbers_text(source.numbers)}",
                path=source.path,
            )


def plan(source: Source, read: ReadOptions) -> list[Split]:
    """Returns the splits of everything that the options ask for; none without a byte to read.

    Raises:
        StorageError: a file cannot be read, and mode=failfast.
        OffsetOutOfRangeError, InvalidArgumentError: the moment asked for cannot be.
    """
    _refuse_future(source, read)
    if read.view not in KEYED_BY_TASK:
        total = sum(listing.size for listing in source.listings)
        read = divided(read, total)
        if read.partitions_min:
            read = replace(read, split_bytes=min(read.split_bytes, max(total // read.partitions_min, 1)))
        splits = _plan_all(source, read)
        # A split ends at the first batch that an index has above its share: where that makes too few, smaller ones do.
        while len(tasks_of(splits, read)) < read.partitions_min and read.split_bytes > _BATCH_BYTES_MIN:
            read = replace(read, split_bytes=read.split_bytes // 2)
            splits = _plan_all(source, read)
        return splits
    return _plan_all(source, read)


def divided(read: ReadOptions, total: int) -> ReadOptions:
    """Returns the options with splits so small that each core has one of `total` bytes."""
    # A core without work is worse than a small split; after that every task costs Spark's worker some 50 ms.
    fair = max(total // parallelism(read), _SPLIT_BYTES_MIN)
    return replace(read, split_bytes=min(read.split_bytes, fair))


def _plan_all(source: Source, read: ReadOptions) -> list[Split]:
    return [split for listing in source.listings for split in _plan_partition(source, listing, read)]


def tasks_of(splits: list[Split], read: ReadOptions) -> list[Task]:
    """Returns the tasks for splits, in their order: small ones are put together, but not all into one.

    A log of fifty partitions of which each is small is not worth fifty tasks.
    """
    total = sum(split.size for split in splits)
    enough = max(total // (4 * parallelism(read)), _TASK_BYTES)
    if read.partitions_min:
        enough = min(enough, total // read.partitions_min)
    tasks: list[Task] = []
    batch: list[Split] = []
    size = 0
    for split in splits:
        if batch and size + split.size > min(enough, read.split_bytes):
            tasks.append(Task(tuple(batch)))
            batch, size = [], 0
        batch.append(split)
        size += split.size
    return [*tasks, Task(tuple(batch))] if batch else tasks


def _plan_partition(source: Source, listing: PartitionListing, read: ReadOptions) -> list[Split]:
    for left in attempts():
        # Somebody cleans the log; with the new list it is whole again.
        listing = listing if left == ATTEMPTS - 1 else list_again(source.files, listing)
        try:
            horizon = find_horizon(source, listing, read)
            return _DIVISIONS.get(read.view, _runs)(source, listing, horizon, read)
        except MissingFileError:
            if left == 0 or listing.directory is None:
                raise
    raise AssertionError("the loop returns or raises")


def _refuse_future(source: Source, read: ReadOptions) -> None:
    """Raises InvalidArgumentError for a time that is still to come, as OffsetStore.fetch(at=) does.

    One that the log has a record of, or of a later one, is none.
    """
    timestamp = None if read.at is None else read.at.timestamp
    if timestamp is None or not is_ahead(timestamp):
        return
    # Everything that is younger than the millisecond before it would be cut off.
    before, everything = replace(read, at=Moment(timestamp=timestamp - 1)), replace(read, at=None)
    for listing in source.listings:
        if find_horizon(source, listing, before).offset < find_horizon(source, listing, everything).offset:
            return
    raise future_error("at", timestamp)


def find_horizon(source: Source, listing: PartitionListing, read: ReadOptions) -> Horizon:
    """Returns where a partition ends for these options."""
    try:
        now = horizon_now(source.files, listing)
    except StorageError as failure:
        if not read.permissive or isinstance(failure, MissingFileError):
            raise
        # The task meets it again, and tells.
        last = listing.segments[-1]
        now = Horizon(OFFSET_MAX, last.base_offset, -1)
    if read.at is None:
        return now
    if read.at.timestamp is not None:
        return horizon_at_time(source.files, listing, now, read.at.timestamp)
    offset = moment_of(read.at, listing.number, source.count)
    return now if offset is None else horizon_at_offset(source.files, listing, now, offset)


# ----------------------------------------------------------------------------------------------------------------- keys


def _state(source: Source, listing: PartitionListing, horizon: Horizon, read: ReadOptions) -> list[Split]:
    """One task reads a partition once, on as many threads as there are cores for it.

    Spark lets a source add no shuffle, and without one a second task would have to read everything again.
    """
    if not listing.segments:
        return []
    split = Split(
        number=listing.number,
        place=listing.place,
        horizon=horizon,
        segments=listing.segments,
        threads=_thread_count(listing.size, sum(each.size for each in source.listings), read),
        is_single_file=listing.directory is None,
    )
    return [split]


def _thread_count(size: int, total: int, read: ReadOptions) -> int:
    """The partition's part of the cluster's cores, by its part of the bytes."""
    if read.partitions_min:
        return max(1, -(-read.partitions_min * size // max(total, 1)))
    part = -(-parallelism(read) * size // max(total, 1))
    return max(1, min(part, size // _SPLIT_BYTES_MIN))


def _buckets(source: Source, listing: PartitionListing, horizon: Horizon, read: ReadOptions) -> list[Split]:
    if not listing.segments:
        return []
    buckets = read.buckets or _bucket_count(listing.size, len(source.listings), read)
    return [
        Split(
            number=listing.number,
            place=listing.place,
            horizon=horizon,
            bucket=bucket,
            buckets=buckets,
            segments=listing.segments,
            is_single_file=listing.directory is None,
        )
        for bucket in range(buckets)
    ]


def _bucket_count(size: int, partitions: int, read: ReadOptions) -> int:
    needed = -(-size // min(_SPLITS_A_BUCKET * read.split_bytes, _BUCKET_BYTES_MAX))
    # Every bucket reads the whole partition again, which pays where there is something to decode.
    spread = -(-parallelism(read) // partitions) if size > min(read.split_bytes, _SPLIT_BYTES_MIN) else 1
    asked = -(-read.partitions_min // partitions)
    return max(1, min(max(needed, spread, asked), _BUCKETS_MAX))


# ----------------------------------------------------------------------------------------------------------------- runs


def _runs(source: Source, listing: PartitionListing, horizon: Horizon, read: ReadOptions) -> list[Split]:
    first = bound_of(read.starting_offset, listing.number, 0)
    until = min(bound_of(read.ending_offset, listing.number, OFFSET_MAX), horizon.offset)
    return split_range(source.files, listing, horizon, first, until, read)


def bytes_between(files: Files, listing: PartitionListing, first: int, until: int) -> int:
    """Returns about how many bytes the records of a partition in [first, until) take, by the indexes.

    Raises:
        MissingFileError: a segment has gone since it was listed.
        StorageError: a file cannot be read.
    """
    bases = [segment.base_offset for segment in listing.segments]
    total = 0
    for segment, following in zip(listing.segments, [*bases, OFFSET_MAX][1:], strict=True):
        if segment.base_offset < until and following > first:
            start = seek(files, segment, first) if first > segment.base_offset else 0
            total += (seek(files, segment, until) if until < following else segment.size) - start
    return total


def split_range(
    files: Files, listing: PartitionListing, horizon: Horizon, first: int, until: int, read: ReadOptions
) -> list[Split]:
    """Returns the splits of the records of a partition in [first, until), in log order, each about `read.split_bytes`.

    Raises:
        StorageError: a file cannot be read, and mode=failfast.
    """
    splits: list[Split] = []
    batch: list[Span] = []
    size = 0
    for span in _spans(files, listing, horizon, first, until, read):
        length = max(span.limit - span.position, 0)
        if batch and size + length > read.split_bytes:
            splits.append(_split(listing, horizon, batch))
            batch, size = [], 0
        batch.append(span)
        size += length
    if batch:
        splits.append(_split(listing, horizon, batch))
    return splits


def _split(listing: PartitionListing, horizon: Horizon, spans: list[Span]) -> Split:
    at = listing.segments.index(spans[0].segment)
    return Split(
        number=listing.number,
        place=listing.place,
        horizon=horizon,
        spans=tuple(spans),
        before=listing.segments[at - 1] if at else None,
        is_single_file=listing.directory is None,
    )


def _spans(
    files: Files, listing: PartitionListing, horizon: Horizon, first: int, until: int, read: ReadOptions
) -> Iterator[Span]:
    bases = [segment.base_offset for segment in listing.segments]
    for segment, following in zip(listing.segments, [*bases, OFFSET_MAX][1:], strict=True):
        if following <= first or segment.base_offset >= until or segment.base_offset > horizon.base_offset:
            continue
        begin, end = max(segment.base_offset, first), min(following, until)
        if begin >= end:
            continue
        limit = horizon.limit_of(segment)
        try:
            start = find_start(files, segment, first) if first > segment.base_offset else (0, segment.base_offset)
            limit = files.entry(segment.path).size if limit < 0 else limit
            cuts = [start, *boundaries(files, segment, start, limit, read.split_bytes)]
        except StorageError as failure:
            if not read.permissive or isinstance(failure, MissingFileError):
                raise
            yield Span(segment, 0, -1, begin, end, min(following, segment.offset_limit))
            continue
        ceiling = min(following, segment.offset_limit)
        cuts = [cut for cut in cuts if cut[1] < end]
        for (position, low), (stop, high) in zip(cuts, [*cuts[1:], (limit, end)], strict=True):
            if stop > position:
                is_inner = (stop, high) != (limit, end)
                yield Span(segment, position, stop, max(low, begin), max(high, begin), ceiling, is_inner, low)


def boundaries(
    files: Files, segment: Segment, start: tuple[int, int], stop: int, every: int
) -> list[tuple[int, int]]:
    """Returns (file position, base offset) of batches that cut a segment's bytes into pieces of about `every` bytes.

    From the index where that is dense enough, each checked; by walking over headers where it is not.  `start` is as of
    `find_start`.
    """
    found = [start]
    last, low = start
    for named, position in index_entries(files, segment).tolist():
        if position < last + every or position >= stop:
            continue
        batch = entered(files, segment, named, position)
        if batch is not None and low <= batch[0]:
            found.append((position, batch[0]))
            last, low = position, batch[1]
    cuts = []
    for (begin, low), end in zip(found, [*found[1:], (stop, 0)], strict=True):
        if end[0] - begin > 2 * every:
            walked = skim(
                segment.path, position=begin, limit=end[0], every=every, next_offset=low, file_system=files.native
            )
            cuts += walked.marks[1:]
        if end[0] < stop:
            cuts.append(end)
    return cuts


def problem_of(failure: OffsetLogError) -> str:
    """Returns what the column `problem` says: the kind of failure, what happened, file and position."""
    return f"{type(failure).__name__}: {failure}"


_DIVISIONS = {"offsets": _state, "groups": _state, "history": _buckets}
