"""The stream reader.  It follows a log by log offsets, which Spark keeps in the checkpoint.

The offset of a stream is `{"__consumer_offsets": {"0": 123}, "begun": {"0": 100}}`.  For each log partition, it
contains the next log offset to read, and the end that the partition had when the query began.  If a record below that
end is missing, it may have been cleaned away before the query began.  If a record at or above that end disappears
before it is read, this is data loss.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from offsetlog.directory.listing import TOPIC
from offsetlog.errors import (
    ConfigError,
    CorruptionError,
    HistoryError,
    MissingFileError,
    OffsetLogError,
    OffsetOutOfRangeError,
)
from offsetlog.spark.in_effect import is_undone
from offsetlog.spark.scan.bounds import Horizon, horizon_now
from offsetlog.spark.scan.files import ATTEMPTS, Files, PartitionListing, attempts, list_again, resolve
from offsetlog.spark.scan.history import equals
from offsetlog.spark.scan.open_transactions import OpenTransactions
from offsetlog.spark.scan.options import EARLIEST, LATEST, OFFSET_MAX, ReadOptions
from offsetlog.spark.scan.plan import Split, bytes_between, divided, open_on_driver, problem_of, split_range
from offsetlog.spark.scan.runs import RunReader
from offsetlog.spark.scan.views import PROBLEM, asked_schema, problem_batch, shaped

#: The module with admission control, available from Spark 4.2 on.
_ADMISSION = "pyspark.sql.streaming.datasource"
_admission: Any = import_module(_ADMISSION) if find_spec(_ADMISSION) is not None else None

BEGUN = "begun"
_log = logging.getLogger(__name__)

Offsets = dict[int, int]


@dataclasses.dataclass(frozen=True)
class StreamSplit(InputPartition):
    """The records of a stream's batch that one task reads.

    Attributes:
        split: the split with the records.
        begun: the log offset from which on a missing record is data loss.
    """

    split: Split
    begun: int


@dataclasses.dataclass(frozen=True)
class StreamProblems(InputPartition):
    """The missing parts that the driver found when the query started.  Only used with mode=permissive.

    Attributes:
        problems: (log partition, text) for each missing part; each becomes a row.
    """

    problems: tuple[tuple[int, str], ...]


def _offset(positions: Offsets, begun: Offsets) -> dict[str, dict[str, int]]:
    return {
        TOPIC: {str(number): positions[number] for number in sorted(positions)},
        BEGUN: {str(number): begun[number] for number in sorted(begun)},
    }


def _numbers(offset: dict[str, dict[str, int]] | None, name: str) -> Offsets:
    return {int(number): value for number, value in ((offset or {}).get(name) or {}).items()}


class StreamReader(DataSourceStreamReader):
    """Reads the records of a log as they are written.  Each query has one reader on the driver; one thread uses it."""

    def __init__(self, read: ReadOptions, schema: Any, files: Files | None = None) -> None:
        """Takes the options, the columns as a pyarrow.Schema, and a file system to use in place of the path's own."""
        self._read = read
        self._schema = schema
        self._files = files
        self._last: dict[str, dict[str, int]] | None = None
        self._target: Offsets | None = None
        self._open: dict[int, OpenTransactions] = {}
        self._problems: tuple[tuple[int, str], ...] | None = None
        #: The batch that also has the rows for the problems.  It has them each time it is planned.
        self._first: tuple[Offsets, Offsets] | None = None
        self._newest: Offsets | None = None

    # ------------------------------------------------------------------------------------------------ on the driver

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802  (PySpark's name)
        """Returns the offset at which a new query begins.

        Raises:
            OffsetOutOfRangeError: `startingOffsets` gives a log offset that is above the end of the log.
            ConfigError: `startingOffsets` names a log partition that does not exist, or the path is a single segment.
            CorruptionError: raised by `_ask_once`.
            StorageError: the log cannot be read.
        """
        starts, bases, ends = {}, {}, {}
        asked = self._read.starting_offsets
        for listing, horizon in self._partitions():
            base = listing.segments[0].base_offset if listing.segments else 0
            bases[listing.number], ends[listing.number] = base, horizon.offset
            starts[listing.number] = horizon.offset if asked == "latest" else base
        if isinstance(asked, dict):
            starts.update(self._checked(asked, starts, ends))
        # A query that begins with the first segment requests everything, including lost segments before it.
        self._ask_once({number: start for number, start in starts.items() if start > bases[number]})
        self._last = _offset(starts, ends)
        return self._last

    def _checked(self, asked: Offsets, bases: Offsets, ends: Offsets) -> Offsets:
        found = {}
        for number, offset in asked.items():
            if number not in ends:
                if offset in (EARLIEST, LATEST):
                    # A store creates directories when they are needed: when this directory appears, it is read from the
                    # start.
                    continue
                raise ConfigError(
                    f"startingOffsets names log partition {number}, which {self._read.path} does not have"
                )
            if offset > ends[number]:
                raise OffsetOutOfRangeError(
                    f"startingOffsets gives log offset {offset} for log partition {number}, which ends at "
                    f"{ends[number]}",
                    path=self._read.path,
                    log_offset=offset,
                )
            found[number] = {EARLIEST: bases[number], LATEST: ends[number]}.get(offset, offset)
        return found

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Returns the limit that `maxOffsetsPerTrigger` sets."""
        limit = self._read.offsets_per_trigger
        return _admission.ReadMaxRows(limit) if limit else _admission.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Records the present end of the log.  A query with the trigger `availableNow` does not read beyond it."""
        self._target = self._ends()

    def latestOffset(  # noqa: N802
        self, start: dict[str, dict[str, int]] | None = None, limit: Any = None
    ) -> dict[str, dict[str, int]]:
        """Returns the offset at which the next batch ends.

        Spark 4.0 and 4.1 pass no arguments.  A batch then begins where the last planned batch ended, and the first
        batch after a restart reads everything up to the end of the log.

        Raises:
            StorageError: the log cannot be read.
        """
        start = start if start is not None else self._last
        known, begun = _numbers(start, TOPIC), _numbers(start, BEGUN)
        self._ask_once(known)
        ends = self._ends(known)
        self._newest = {**known, **ends}
        if start is not None and BEGUN in start:
            # A log partition that appears later may have been cleaned before it appeared.
            begun = {**{number: end for number, end in ends.items() if number not in known}, **begun}
        if self._target is not None:
            ends = {number: min(end, self._target.get(number, 0)) for number, end in ends.items()}
        # A partition that is missing for a moment keeps its offset.
        ends = {**known, **ends}
        most = getattr(limit, "max_rows", None) or (self._read.offsets_per_trigger if limit is None else 0)
        if most and start is not None:
            ends = _limited(known, ends, most)
        self._last = _offset(ends, begun)
        return self._last

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """Returns the end that the log had when the last batch was planned; None before the first batch.

        Spark 4.2 and later show this end as `latestOffset` in the progress of a query.  The records between `endOffset`
        and this end are the backlog.  Spark calls this method directly after `latestOffset`, so the log is not read
        again.
        """
        return None if self._newest is None else _offset(self._newest, {})

    def partitions(self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]) -> list[InputPartition]:
        """Returns the splits between two offsets.

        Raises:
            HistoryError, OffsetOutOfRangeError, MissingFileError: records have been removed, with failOnDataLoss=true.
            StorageError: the log cannot be read.
        """
        if self._last is None:
            # The first call after a restart in Spark 4.0 and 4.1.
            self._last = end
        self._ask_once(_numbers(start, TOPIC))
        # If a partition appeared after `start`, `begun` in `end` holds the end that it had when it appeared.
        starts, begun = _numbers(start, TOPIC), {**_numbers(end, BEGUN), **_numbers(start, BEGUN)}
        there = dict(self._listings())
        ranges: list[tuple[PartitionListing, int, int]] = []
        for number in sorted(starts.keys() - _numbers(end, TOPIC).keys()):
            # If this were ignored, the partition would be read again from its start when it reappears.
            self._lose(self._partition_gone(number))
        for number, until in sorted(_numbers(end, TOPIC).items()):
            first = starts.get(number, 0)
            if until <= first:
                continue
            listing = there.get(number)
            if listing is None:
                self._lose(self._partition_gone(number))
                continue
            ranges.append((listing, first, until))
        read = divided(self._read, sum(self._size(*each) for each in ranges))
        found = [
            split
            for listing, first, until in ranges
            for split in self._between(listing, first, until, begun.get(listing.number, 0), read)
        ]
        batch = starts, _numbers(end, TOPIC)
        self._first = self._first or batch
        of_problems = [StreamProblems(self._problems)] if self._problems and self._first == batch else []
        # Spark would take an empty list as one partition of an unknown class.
        return [*of_problems, *found] or [InputPartition(None)]

    def _ask_once(self, starts: Offsets) -> None:
        """Checks once, when the query starts, whether the part of the log that it has not read yet is complete.

        Raises:
            DataLossError, PossibleLossError, CorruptionError: a part is missing, with mode=failfast and
                failOnDataLoss=true.
        """
        if self._problems is not None:
            return
        # Executors import this module; they must not import modules that know the files of a store.
        from offsetlog.spark.scan.completeness import find_losses, refusal

        self._problems = ()
        losses = [
            each
            for each in find_losses(open_on_driver(self._read, self._files), self._read)
            if each.log_partition is None or (each.lost_below or OFFSET_MAX) > starts.get(each.log_partition, 0)
        ]
        if losses and not self._read.permissive:
            self._lose(refusal(losses, "mode=permissive or failOnDataLoss=false"), _read_without(losses))
        elif losses:
            # Without new records Spark plans no batch, and no row would report the losses.
            _log.warning("%s", _read_without(losses))
            self._problems = tuple(
                (-1 if each.log_partition is None else each.log_partition, problem_of(each)) for each in losses
            )

    def _size(self, listing: PartitionListing, first: int, until: int) -> int:
        """Returns an estimate of the bytes to read.  It may be wrong if the log is cleaned meanwhile."""
        try:
            return bytes_between(self._source_files(), listing, first, until)
        except MissingFileError:
            return listing.size

    def _between(
        self, listing: PartitionListing, first: int, until: int, begun: int, read: ReadOptions
    ) -> Iterator[StreamSplit]:
        files = self._source_files()
        for left in attempts():
            listing = listing if left == ATTEMPTS - 1 else list_again(files, listing)
            try:
                horizon = horizon_now(files, listing)
                splits = split_range(files, listing, horizon, first, min(until, horizon.offset), read)
                break
            except MissingFileError:
                if left == 0:
                    raise
        if horizon.offset < until:
            self._lose(self._cut(listing, horizon.offset, until))
        covered = sum(_length(split, begun) for split in splits)
        missing = max(0, min(until, horizon.offset) - max(first, begun)) - covered
        if missing > 0:
            self._lose(self._gone(listing.number, listing.place, missing, max(first, begun), until))
        for split in splits:
            yield StreamSplit(split, begun)

    def _partition_gone(self, number: int) -> MissingFileError:
        return MissingFileError(
            "the log partition was removed; with failOnDataLoss=false, the query continues without it",
            path=f"{self._read.path}/{TOPIC}-{number}",
        )

    def _gone(self, number: int, place: str, missing: int, first: int, until: int) -> HistoryError:
        return HistoryError(
            f"{missing} records of log partition {number} between the log offsets {first} and {until} were cleaned "
            "away before they were read; with failOnDataLoss=false, the query continues without them",
            log_partition=number,
            path=place,
        )

    def _lose(self, failure: OffsetLogError, warning: str | None = None) -> None:
        """Raises the error of a data loss.  With failOnDataLoss=false, logs `warning` or, if it is None, the error."""
        if self._read.fail_on_data_loss:
            raise failure
        _log.warning("%s", warning or failure)

    def commit(self, end: dict[str, dict[str, int]]) -> None:
        """Does nothing, because Spark's checkpoint records how far a query has read."""

    def stop(self) -> None:
        """Does nothing, because no file is kept open."""

    # ------------------------------------------------------------------------------------------------ what is there

    def _source_files(self) -> Files:
        return self._files if self._files is not None else resolve(self._read.path, self._read.hadoop)[0]

    def _listings(self) -> Iterator[tuple[int, PartitionListing]]:
        for listing in open_on_driver(self._read, self._files).listings:
            if listing.directory is None:
                raise ConfigError(f"path={self._read.path!r}: a stream follows a directory, not a single segment")
            yield listing.number, listing

    def _partitions(self) -> Iterator[tuple[PartitionListing, Horizon]]:
        files = self._source_files()
        for _, listing in self._listings():
            yield _where_it_ends(files, listing)

    def _ends(self, known: Offsets | None = None) -> Offsets:
        """Returns the present end of each partition for a reader; reports an end that is below a known offset."""
        files = self._source_files()
        found = {}
        for listing, horizon in self._partitions():
            number, before = listing.number, (known or {}).get(listing.number, 0)
            found[number] = horizon.offset
            if horizon.offset < before:
                self._lose(self._cut(listing, horizon.offset, before))
            elif self._read.committed_only:
                follower = self._open.setdefault(number, OpenTransactions())
                found[number] = max(follower.stable_offset(files, listing, horizon), before)
        return found

    def _cut(self, listing: PartitionListing, end: int, until: int) -> OffsetOutOfRangeError:
        return OffsetOutOfRangeError(
            f"log partition {listing.number} ends at log offset {end}, but ended at log offset {until} before, so the "
            "log was truncated or created again; with failOnDataLoss=false, the query continues at the present end",
            path=listing.place,
            log_offset=end,
        )

    # ------------------------------------------------------------------------------------------------ in the tasks

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the batches of a split.

        Raises:
            CorruptionError: the log is damaged.  With mode=permissive, a row reports the damage instead.
            HistoryError: records were cleaned away after the batch was planned, with failOnDataLoss=true.
            StorageError: the files cannot be read.
        """
        if isinstance(partition, StreamProblems):
            for number, text in partition.problems:
                yield problem_batch(self._schema, number, text)
        if not isinstance(partition, StreamSplit):
            return
        split = partition.split
        columns = [name for name in self._schema.names if name != PROBLEM]
        scanned = [*columns, *(name for name in self._deciding() if name not in columns)]
        reader = RunReader(
            self._source_files(), split, self._read, self._read.view, scanned, count_from=partition.begun
        )
        damaged = False
        try:
            for each in reader.found():
                if isinstance(each, OffsetLogError):
                    damaged = True
                    yield problem_batch(self._schema, split.number, problem_of(each))
                else:
                    yield shaped(_committed(each) if self._read.committed_only else each, self._schema)
        except MissingFileError as failure:
            self._lose(failure)
            return
        missing = _length(split, partition.begun) - reader.present
        if missing > 0 and not damaged:
            first, until = max(split.spans[0].first, partition.begun), split.spans[-1].until
            self._lose(self._gone(split.number, split.place, missing, first, until))

    def _deciding(self) -> tuple[str, ...]:
        """The columns from which the reader decides whether a record is committed."""
        if not self._read.committed_only:
            return ()
        return ("outcome", "offset") if self._read.view == "commits" else ("outcome", "value_version")


class RefusedStreamReader(DataSourceStreamReader):
    """A reader for wrong options.  It raises their error when Spark first calls it."""

    def __init__(self, refusal: ConfigError) -> None:
        """Takes the error to raise."""
        self._refusal = refusal

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802  (PySpark's name)
        """Raises ConfigError."""
        raise self._refusal

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Raises ConfigError."""
        raise self._refusal

    def latestOffset(  # noqa: N802
        self, start: dict[str, dict[str, int]] | None = None, limit: Any = None
    ) -> dict[str, dict[str, int]]:
        """Raises ConfigError."""
        raise self._refusal

    def partitions(self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]) -> list[InputPartition]:
        """Raises ConfigError."""
        raise self._refusal

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Raises ConfigError."""
        raise self._refusal


if _admission is not None:
    # Spark checks whether a reader is an instance of this class.
    _admission.SupportsTriggerAvailableNow.register(StreamReader)


def _where_it_ends(files: Files, listing: PartitionListing) -> tuple[PartitionListing, Horizon]:
    """Returns a partition and its end.  If its files were removed meanwhile, the partition is listed again."""
    for left in attempts():
        listing = listing if left == ATTEMPTS - 1 else list_again(files, listing)
        try:
            return listing, horizon_now(files, listing)
        except MissingFileError:
            if left == 0:
                raise
    raise AssertionError("the loop returns or raises")


def _read_without(losses: Sequence[CorruptionError]) -> str:
    more = f" (and {len(losses) - 1} more like it)" if len(losses) > 1 else ""
    return f"{losses[0]}{more}; the stream reads the rest"


def _length(split: Split, begun: int) -> int:
    """Returns the number of log offsets in a split at which a missing record is data loss."""
    return sum(max(0, span.until - max(span.first, begun)) for span in split.spans)


def _committed(batch: Any) -> Any:
    """Returns a batch without the records of aborted transactions; tombstones are kept."""
    value = "offset" if "value_version" not in batch.schema.names else "value_version"
    is_delete = np.asarray(batch.column(value).is_null())
    undone = is_undone(is_delete, lambda outcome: equals(batch.column("outcome"), outcome))
    return batch.filter(pa.array(~undone))


def _limited(starts: Offsets, ends: Offsets, most: int) -> Offsets:
    """Returns ends for a batch of at most `most` log offsets; each partition's share is proportional to its backlog."""
    waiting = {number: end - starts.get(number, 0) for number, end in ends.items()}
    total = sum(waiting.values())
    if total <= most:
        return ends
    taken = {number: most * count // total for number, count in waiting.items()}
    left = most - sum(taken.values())
    # The remainder of the division goes to the partitions with the largest backlogs.
    for number in sorted(waiting, key=lambda number: taken[number] - waiting[number])[:left]:
        taken[number] += 1
    return {number: starts.get(number, 0) + taken[number] for number in ends}


def make_stream_reader(read: ReadOptions, asked: Any) -> StreamReader:
    """Returns the reader for options and for Spark's StructType of the requested columns; raises ConfigError."""
    return StreamReader(read, asked_schema(read, asked))
