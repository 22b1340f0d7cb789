"""Reads the spans of a split, from the planned segments or from the files that have replaced them since."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from offsetlog._native.decompress import Decompressor
from offsetlog._native.scan import Outcomes, SegmentScan, batch_at, outcomes_of
from offsetlog.errors import CorruptionError, MissingFileError, OffsetLogError, StorageError, TornTailError
from offsetlog.spark.scan.bounds import end_of, find_start, seek
from offsetlog.spark.scan.files import Files, PartitionListing, Segment, attempts, list_again
from offsetlog.spark.scan.options import ReadOptions
from offsetlog.spark.scan.plan import Span, Split

#: How many rows a batch has: the number that Spark processes fastest.
ROWS = 65_536

#: A pyarrow.RecordBatch, or the error for bytes that could not be read.
Found = Any | OffsetLogError


class _ReplacedError(Exception):
    """The planned file was replaced or removed before any of its rows were returned."""


def is_rolled_space(scan: SegmentScan, segment: Segment, until: int) -> bool:
    """Returns whether a scan failed in space that was allocated ahead, after the last batch.  This is not damage.

    A closed segment has such space while its roll is in progress, or if a crash interrupted the roll.

    Args:
        scan: the scan that failed.
        segment: the segment that the scan reads.
        until: the log offset that the scan must have reached.  Otherwise batches are missing.
    """
    return scan.next_offset >= until and scan.limit >= segment.size and scan.is_at_unused()


class RunReader:
    """The records of one split.  Use it from one thread only.

    It yields batches.  With mode=permissive, it yields failures between the batches; otherwise it raises them.
    """

    def __init__(
        self, files: Files, split: Split, read: ReadOptions, view: str, columns: list[str], *, count_from: int = 0
    ) -> None:
        #: How many log offsets from `count_from` on have had a record so far.
        self.present = 0
        self._count_from = count_from
        self._files = files
        self._split = split
        self._read = read
        self._view = view
        self._columns = columns
        self._decompressor = Decompressor()
        self._outcomes: Outcomes | None = None
        self._next_offset = 0

    def found(self) -> Iterator[Found]:
        """Yields the records of the split, in log order."""
        for span in self._split.spans:
            try:
                yield from self._span(span)
            except StorageError as failure:
                if not self._read.permissive:
                    raise
                yield failure

    def _span(self, span: Span) -> Iterator[Found]:
        try:
            yield from self._planned(span)
        except _ReplacedError:
            yield from self._replaced(span)

    # ------------------------------------------------------------------------------------------------ as it was planned

    def _planned(self, span: Span) -> Iterator[Found]:
        next_offset = max(self._next_offset, span.begins)
        scan = self._open(span.segment, span.position, span.limit, span.first, span.until, span.ceiling, next_offset)
        with scan:
            if not self._is_same(span.segment):
                raise _ReplacedError
            yield from self._drain(scan, span.segment, span.until, span)
            yield from self._check_end(scan, span)

    def _open(
        self, segment: Segment, position: int, limit: int, first: int, until: int, ceiling: int, next_offset: int
    ) -> SegmentScan:
        read = self._read
        try:
            return SegmentScan(
                segment.path,
                self._view,
                self._columns,
                log_partition=self._split.number,
                file_system=self._files.native,
                decompressor=self._decompressor,
                position=position,
                limit=limit,
                first=max(first, 0),
                until=until,
                group=read.group,
                topic=read.topic,
                partition=read.partition,
                next_offset=next_offset,
                count_from=self._count_from,
                outcomes=self._outcomes,
                segment_base=segment.base_offset,
                segment_limit=ceiling,
            )
        except MissingFileError:
            raise _ReplacedError from None

    def _is_same(self, segment: Segment) -> bool:
        """Returns whether the file of a planned segment was not replaced.

        While a segment is written to, it grows.  When it is closed, it may become shorter, but only by space that was
        allocated ahead.
        """
        try:
            now = self._files.entry(segment.path)
        except MissingFileError:
            return False
        if now.identity == segment.identity and now.size == segment.size:
            return True
        horizon = self._split.horizon
        grows = segment.base_offset == horizon.base_offset
        return grows and now.identity[0] == segment.identity[0] and now.size >= horizon.position

    def _drain(self, scan: SegmentScan, segment: Segment, until: int, span: Span | None = None) -> Iterator[Found]:
        # The memory for all rows of a batch is allocated at once, which would be too much for a few records.  Therefore
        # the number of rows is estimated.  Compressed records may then need more batches.
        rows = min(ROWS, max(256, (scan.limit - scan.position) // 16))
        while True:
            try:
                batch = scan.read(rows)
            except CorruptionError as failure:
                if is_rolled_space(scan, segment, until):
                    self._count(scan)
                    return
                if span is not None:
                    self._refuse_false_boundary(scan, span, failure)
                if not self._read.permissive:
                    raise
                yield failure
                if not scan.skip():
                    self._count(scan)
                    return
                continue
            if scan.needs_outcomes:
                scan.outcomes = self._all_outcomes()
            if batch is None:
                self._count(scan)
                return
            if batch.num_rows:
                yield batch

    def _count(self, scan: SegmentScan) -> None:
        self.present += scan.present
        self._next_offset = max(self._next_offset, scan.next_offset)

    def _refuse_false_boundary(self, scan: SegmentScan, span: Span, failure: CorruptionError) -> None:
        """Raises if a batch only seems to be torn, because the span ends at an index entry that points into it."""
        if isinstance(failure, TornTailError) and scan.position < span.limit < span.segment.size:
            batch = batch_at(span.segment.path, scan.position, file_system=self._files.native)
            if batch is not None and scan.position + batch[2] > span.limit:
                self._fail_at_boundary(span)

    def _check_end(self, scan: SegmentScan, span: Span) -> Iterator[Found]:
        is_beyond = span.is_inner and self._view != "batches" and scan.next_offset > span.until
        if is_beyond and self._is_same(span.segment):
            # This span has left out the records at or above the first log offset of the next span.  The next span
            # begins after these records, so it cannot notice them.
            failure = CorruptionError(
                f"a batch begins at log offset {span.until}, but the batch before it ends at {scan.next_offset - 1}",
                path=span.segment.path,
                position=span.limit,
            )
            if not self._read.permissive:
                raise failure
            yield failure
        if scan.position >= span.limit or span.limit < 0:
            return
        batch = batch_at(span.segment.path, scan.position, file_system=self._files.native)
        # In a file that replaced this one, any batch may be at this position.
        if batch is None or not self._is_same(span.segment):
            return
        if batch[0] < span.until:
            self._fail_at_boundary(span)
        # In the last span, a batch that begins above the requested range may end the scan before the limit, which is
        # correct.
        if span.is_inner:
            failure = CorruptionError(
                f"the batch begins at log offset {batch[0]}, but a later batch, at byte {span.limit} of the segment, "
                f"begins at log offset {span.until}",
                path=span.segment.path,
                position=scan.position,
            )
            if not self._read.permissive:
                raise failure
            yield failure

    def _fail_at_boundary(self, span: Span) -> None:
        raise CorruptionError(
            f"an entry of the index points to byte {span.limit} of the segment, where no batch begins",
            path=span.segment.index_path,
        )

    # ------------------------------------------------------------------------------------------------ as it is now

    def _listing(self) -> PartitionListing:
        split = self._split
        directory = None if split.is_single_file else split.place
        segments = tuple(span.segment for span in split.spans)
        return list_again(self._files, PartitionListing(split.number, directory, segments))

    def _replaced(self, span: Span) -> Iterator[Found]:
        """Reads the records of a span from the files that now hold them."""
        first = span.first
        for left in attempts():
            listing = self._listing()
            if not listing.directory:
                raise StorageError("the file was replaced while it was read", path=span.segment.path)
            self._check_is_covered(span, listing)
            try:
                for segment, following in _holding(listing, first, span.until):
                    is_last = segment == listing.segments[-1]
                    ceiling = segment.offset_limit if is_last else min(following, segment.offset_limit)
                    yield from self._whole(segment, first, min(following, span.until), ceiling, listing)
                    first = max(first, following)
                return
            except _ReplacedError:
                if left == 0:
                    raise StorageError(
                        "the files were replaced during each attempt to read them; run the query again later",
                        path=listing.place,
                    ) from None

    def _check_is_covered(self, span: Span, listing: PartitionListing) -> None:
        """Raises if a segment was removed and no other segment replaced it."""
        holding = [segment for segment in listing.segments if segment.base_offset <= span.segment.base_offset]
        if not holding or holding[-1] == self._neighbour(span):
            raise MissingFileError(
                "the segment was removed, and no other segment holds its records", path=span.segment.path
            )

    def _neighbour(self, span: Span) -> Segment | None:
        """Returns the segment before that of a span, as it was listed."""
        earlier = [each.segment for each in self._split.spans if each.segment.base_offset < span.segment.base_offset]
        return earlier[-1] if earlier else self._split.before

    def _whole(
        self, segment: Segment, first: int, until: int, ceiling: int, listing: PartitionListing
    ) -> Iterator[Found]:
        limit = end_of(self._files, segment)[0] if segment == listing.segments[-1] else -1
        position, begins = find_start(self._files, segment, first)
        scan = self._open(segment, position, limit, first, until, ceiling, begins)
        with scan:
            if not self._is_unchanged(segment, listing):
                raise _ReplacedError
            yield from self._drain(scan, segment, until)

    def _is_unchanged(self, segment: Segment, listing: PartitionListing) -> bool:
        try:
            now = self._files.entry(segment.path)
        except MissingFileError:
            return False
        if segment == listing.segments[-1]:
            return now.identity[0] == segment.identity[0] and now.size >= segment.size
        return now.identity == segment.identity and now.size == segment.size

    # ------------------------------------------------------------------------------------------------ transactions

    def _all_outcomes(self) -> Outcomes:
        """Returns the outcomes of the split's transactions, as far as they are decided below the horizon."""
        if self._outcomes is None:
            first, until = self._split.spans[0].first, self._split.spans[-1].until
            self._outcomes = outcomes_within(self._files, self._split, self._listing, first, until, self._decompressor)
        return self._outcomes


def _holding(listing: PartitionListing, first: int, until: int) -> list[tuple[Segment, int]]:
    """Returns the segments that may contain records in [first, until), each with the next segment's base offset."""
    bases = [segment.base_offset for segment in listing.segments]
    ends = [*bases, until][1:]
    return [
        (segment, following)
        for segment, following in zip(listing.segments, ends, strict=True)
        if segment.base_offset < until and following > first
    ]


def outcomes_within(
    files: Files,
    split: Split,
    listing_now: Any,
    first: int,
    until: int,
    decompressor: Decompressor,
    *,
    horizon: int | None = None,
) -> Outcomes:
    """Returns the outcomes of the transactions with records in [first, until), as the log shows them below `horizon`.

    If `horizon` is None, the horizon of the split is used.  All splits of a partition use the same horizon, so that
    they agree on the outcome of a transaction.

    Raises:
        StorageError: a file cannot be read, or files were replaced faster than they could be read.
    """
    planned = split.horizon
    horizon = planned.offset if horizon is None else horizon
    for left in attempts():
        listing: PartitionListing = listing_now()
        walked = []
        try:
            for segment, _ in _holding(listing, first, max(horizon, first + 1)):
                limit = -1
                # The active segment is read only up to the planned end.  Any other segment is read whole, since a
                # cleaner may have moved older records to it.
                is_written = segment == listing.segments[-1] and segment.base_offset == planned.base_offset
                if is_written and horizon == planned.offset and segment.size >= planned.position:
                    limit = planned.position
                position = seek(files, segment, first) if segment.base_offset < first else 0
                walked.append((segment.path, position, limit))
            return outcomes_of(
                walked,
                first=first,
                until=until,
                horizon=horizon,
                file_system=files.native,
                decompressor=decompressor,
            )
        except MissingFileError:
            if left == 0 or listing.directory is None:
                raise
    raise AssertionError("the loop returns or raises")
