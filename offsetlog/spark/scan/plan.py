"""Divides a read into tasks: the log of each partition into runs of whole batches, or its keys into buckets.

The driver plans from the listed files, their indexes, and the last few batches of each partition.  Each task checks by
itself what has changed since the read was planned; see `batch`.
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

#: Views for which a task needs all records of a key.
KEYED_BY_TASK = frozenset({"offsets", "groups", "history"})
#: How many splits of a log become one bucket of its keys, if all records of the keys are kept in memory.
_SPLITS_A_BUCKET = 2
#: The most bytes of a log in a bucket.  64 MiB contain a million small records, which take 300 MiB of the 512 MiB of a
#: worker.
_BUCKET_BYTES_MAX = 2**26
#: The most buckets, unless the option `buckets` requests more, since each bucket reads the whole partition.
_BUCKETS_MAX = 64
#: A read smaller than this, in bytes, is not divided into tasks, unless smaller splits are requested.
_TASK_BYTES = 2**20
#: A piece that is smaller than this, in bytes, does not become a split of its own just to give another core work.
_SPLIT_BYTES_MIN = 2**22
#: The smallest size of a batch, in bytes.
_BATCH_BYTES_MIN = 26


@dataclass(frozen=True, slots=True)
class Span:
    """Several whole batches in a row, in one segment.

    Attributes:
        segment: the segment as it was listed; another file may have replaced it.
        position: the position of the first batch.
        limit: the position after the last batch; -1 if the segment could not be read when the read was planned.
        first: the log offset from which on records are read.
        until: the log offset before which reading ends.
        ceiling: a log offset that no batch of the segment can reach: the base offset of the next segment, or the limit
            of relative offsets.
        is_inner: whether the batch at `limit` begins at the log offset `until`, so that all batches before it are read.
        begins: a lower bound of the log offsets of the batches from `position` on.
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
    """A piece of one partition, which a task reads as a unit.

    Attributes:
        number: the number of the partition.
        place: the path of the partition's directory, or of the single segment file.
        horizon: the end of the partition for this read.
        spans: the spans to read, in log order; empty if the task reads a bucket of the keys.
        before: the segment before that of the first span; None if there is none.
        bucket: the number of the bucket to read, below `buckets`.
        buckets: the number of buckets of the keys.
        segments: the segments of the partition, if a bucket of the keys is read.
        threads: the number of runs of the log to read at once, if a state is read.
        is_single_file: whether a single segment file is read.
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
        """The number of bytes to read."""
        spans = sum(max(span.limit - span.position, 0) for span in self.spans)
        return spans + sum(segment.size for segment in self.segments)


@dataclass(frozen=True)
class Task(InputPartition):
    """The splits that one task of Spark reads: one large split, or several small ones of several partitions.

    Attributes:
        splits: the splits.
        problems: the problems that the driver found, with mode=permissive, as (log partition, text); each becomes a
            row.
        read: the options of the read.  The JVM reader needs them, since it sends only the tasks to its processes.
    """

    splits: tuple[Split, ...]
    problems: tuple[tuple[int, str], ...] = ()
    read: ReadOptions | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Source:
    """The log that is read: a path, and its partitions as they were listed once.

    Attributes:
        files: the file system.
        path: the path on that file system.
        listings: the partitions to read.
        count: the number of requested partitions, including those that Spark's filters exclude.
        numbers: the numbers of all log partitions that exist, including those that are not read.
    """

    files: Files
    path: str
    listings: tuple[PartitionListing, ...]
    count: int
    numbers: frozenset[int] = frozenset()


def open_source(read: ReadOptions, files: Files | None = None) -> Source:
    """Lists the partitions at the path of a read.  If `files` is given, the path is on that file system.

    Raises:
        ConfigError, MissingFileError, InvalidArgumentError, StorageError: raised by `resolve` and `list_partitions`.
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
    """Lists the path as `open_source` does, on the driver.  If no log is there, the error says how to read it.

    Raises:
        ConfigError, MissingFileError, InvalidArgumentError, StorageError: raised by `open_source`.
    """
    try:
        return open_source(read, files)
    except MissingFileError as failure:
        if files is not None or Location.of(read.path).path is None or _is_seen(read):
            raise
        raise not_on_driver(failure) from None


def _is_seen(read: ReadOptions) -> bool:
    """Returns whether the driver sees the log, and the log only lacks the requested log partitions."""
    if read.partitions is None:
        return False
    try:
        return bool(open_source(replace(read, partitions=None)).listings)
    except OffsetLogError:
        return False


def check_named(source: Source, read: ReadOptions, lost: Collection[int] = ()) -> None:
    """Refuses a log offset that is given for a log partition that does not exist.

    Without this check, a typing error would make the read cover all records, or the present state.

    Args:
        source: the source that is read.
        read: the options.
        lost: the numbers of missing log partitions, which are reported elsewhere.

    Raises:
        ConfigError: `at`, `startingOffset` or `endingOffset` names a log partition that does not exist.
    """
    there = source.numbers | set(lost)
    moment = {} if read.at is None else {number: offset for number, offset in read.at.offsets if number is not None}
    bounds = {"at": moment, "startingOffset": read.starting_offset, "endingOffset": read.ending_offset}
    for name, bound in bounds.items():
        unknown = sorted(set(bound) - there) if isinstance(bound, dict) else []
        if unknown:
            raise ConfigError(
                f"{name} names log partition {unknown[0]}, which is not in this log (its log partitions: "
                f"{numbers_text(source.numbers)})",
                path=source.path,
            )


def plan(source: Source, read: ReadOptions) -> list[Split]:
    """Returns the splits of a read; none if there is no byte to read.

    Raises:
        StorageError: a file cannot be read, and mode=failfast.
        OffsetOutOfRangeError, InvalidArgumentError: the requested log offset is above the end of the log, or the
            requested time is in the future.
    """
    _refuse_future(source, read)
    if read.view not in KEYED_BY_TASK:
        total = sum(listing.size for listing in source.listings)
        read = divided(read, total)
        if read.partitions_min:
            read = replace(read, split_bytes=min(read.split_bytes, max(total // read.partitions_min, 1)))
        splits = _plan_all(source, read)
        # A split ends at the first batch beyond its share that has an index entry.  If this gives too few splits,
        # smaller shares are tried.
        while len(tasks_of(splits, read)) < read.partitions_min and read.split_bytes > _BATCH_BYTES_MIN:
            read = replace(read, split_bytes=read.split_bytes // 2)
            splits = _plan_all(source, read)
        return splits
    return _plan_all(source, read)


def divided(read: ReadOptions, total: int) -> ReadOptions:
    """Returns options with a smaller `split_bytes`, if needed, so that each core gets a part of the `total` bytes."""
    # An idle core is worse than a small split, but more splits than cores gain nothing: a task costs a worker some 50
    # ms.
    fair = max(total // parallelism(read), _SPLIT_BYTES_MIN)
    return replace(read, split_bytes=min(read.split_bytes, fair))


def _plan_all(source: Source, read: ReadOptions) -> list[Split]:
    return [split for listing in source.listings for split in _plan_partition(source, listing, read)]


def tasks_of(splits: list[Split], read: ReadOptions) -> list[Task]:
    """Returns the tasks for splits, in order.  A task may get several small splits, also of several partitions.

    Therefore a log of fifty small partitions does not need fifty tasks.  A large read is still divided into several.
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
        # The log is being cleaned; a new list shows the whole log again.
        listing = listing if left == ATTEMPTS - 1 else list_again(source.files, listing)
        try:
            horizon = find_horizon(source, listing, read)
            return _DIVISIONS.get(read.view, _runs)(source, listing, horizon, read)
        except MissingFileError:
            if left == 0 or listing.directory is None:
                raise
    raise AssertionError("the loop returns or raises")


def _refuse_future(source: Source, read: ReadOptions) -> None:
    """Raises InvalidArgumentError if `at` is a time in the future, as OffsetStore.fetch(at=) does.

    A time after the present time is accepted if the log has a record at or after it.
    """
    timestamp = None if read.at is None else read.at.timestamp
    if timestamp is None or not is_ahead(timestamp):
        return
    # If a horizon one millisecond earlier excludes records, the log has records at or after this time.
    before, everything = replace(read, at=Moment(timestamp=timestamp - 1)), replace(read, at=None)
    for listing in source.listings:
        if find_horizon(source, listing, before).offset < find_horizon(source, listing, everything).offset:
            return
    raise future_error("at", timestamp)


def find_horizon(source: Source, listing: PartitionListing, read: ReadOptions) -> Horizon:
    """Returns the horizon of a partition for these options."""
    try:
        now = horizon_now(source.files, listing)
    except StorageError as failure:
        if not read.permissive or isinstance(failure, MissingFileError):
            raise
        # The task meets the error again, and reports it.
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
    """Returns one split.  Its task reads the partition once, on as many threads as there are cores for the partition.

    More tasks would not help: Spark does not let a source add a shuffle, so each task would have to read the whole
    partition.
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
    """Returns the number of threads that read the partition.

    The number of cores, or `minPartitions` if it is set, is divided among the partitions in proportion to their bytes.
    """
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
    # Every bucket reads the whole partition again, which pays only if there is enough to decode.
    spread = -(-parallelism(read) // partitions) if size > min(read.split_bytes, _SPLIT_BYTES_MIN) else 1
    asked = -(-read.partitions_min // partitions)
    return max(1, min(max(needed, spread, asked), _BUCKETS_MAX))


# ----------------------------------------------------------------------------------------------------------------- runs


def _runs(source: Source, listing: PartitionListing, horizon: Horizon, read: ReadOptions) -> list[Split]:
    first = bound_of(read.starting_offset, listing.number, 0)
    until = min(bound_of(read.ending_offset, listing.number, OFFSET_MAX), horizon.offset)
    return split_range(source.files, listing, horizon, first, until, read)


def bytes_between(files: Files, listing: PartitionListing, first: int, until: int) -> int:
    """Returns an estimate, from the indexes, of the bytes of a partition's records in [first, until).

    Raises:
        MissingFileError: a segment was removed after it was listed.
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
    """Divides the records of a partition in [first, until), in log order, into splits of about `read.split_bytes`.

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


def boundaries(files: Files, segment: Segment, start: tuple[int, int], stop: int, every: int) -> list[tuple[int, int]]:
    """Returns (file position, base offset) of batches that divide a segment into pieces of about `every` bytes.

    The batches are those to which trusted index entries point (`bounds.entered`).  Where the index has too few entries,
    batches are found by reading headers.  `start` is a result of `find_start`.
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
    """Returns the text for the column `problem`: the type of the error, its message, and its file and position."""
    return f"{type(failure).__name__}: {failure}"


_DIVISIONS = {"offsets": _state, "groups": _state, "history": _buckets}
