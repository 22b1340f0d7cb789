"""Finds the start of the oldest open transaction of a partition, beyond which a stream of committed records waits."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from offsetlog._native.scan import SegmentScan
from offsetlog.errors import CorruptionError, MissingFileError
from offsetlog.spark.scan.bounds import Horizon, seek
from offsetlog.spark.scan.files import ATTEMPTS, Files, PartitionListing, attempts, list_again

_COLUMNS = ("base_offset", "last_offset", "producer_id", "transactional", "control", "crc_ok")


class OpenTransactions:
    """Finds the open transactions of one partition from the headers of its batches.  Use it from one thread only."""

    def __init__(self) -> None:
        self._began: dict[int, int] = {}
        self._next_offset = 0

    def stable_offset(self, files: Files, listing: PartitionListing, horizon: Horizon) -> int:
        """Returns the log offset below which all transactions have ended; it is at most the end in `horizon`.

        Each call reads only the headers of the batches that were written since the last call.

        Raises:
            StorageError: a file cannot be read, or files were replaced faster than they could be read.
        """
        for left in attempts():
            listing = listing if left == ATTEMPTS - 1 else list_again(files, listing)
            try:
                self._follow(files, listing, horizon)
                break
            except MissingFileError:
                if left == 0:
                    raise
        return min([*self._began.values(), horizon.offset])

    def _follow(self, files: Files, listing: PartitionListing, horizon: Horizon) -> None:
        bases = [segment.base_offset for segment in listing.segments]
        for segment, following in zip(listing.segments, [*bases, horizon.offset][1:], strict=True):
            if following <= self._next_offset or segment.base_offset > horizon.base_offset:
                continue
            position = seek(files, segment, self._next_offset)
            with SegmentScan(
                segment.path,
                "batches",
                _COLUMNS,
                file_system=files.native,
                position=position,
                limit=horizon.limit_of(segment),
                first=self._next_offset,
            ) as scan:
                self._take_all(scan)

    def _take_all(self, scan: SegmentScan) -> None:
        while True:
            try:
                batch = scan.read()
            except CorruptionError:
                # The reader of the records reports the error.
                if not scan.skip():
                    return
                continue
            if batch is None:
                return
            self._take(batch)

    def _take(self, batch: Any) -> None:
        for row in batch.filter(pc.or_(batch.column("transactional"), pc.invert(batch.column("crc_ok")))).to_pylist():
            if not row["crc_ok"]:
                # A marker that cannot be read may have ended any of the transactions, and no other marker will end that
                # one.  Therefore all of them are treated as ended.  The reader of the records reports the error.
                self._began.clear()
            elif row["producer_id"] >= 0 and row["control"]:
                self._began.pop(row["producer_id"], None)
            elif row["producer_id"] >= 0:
                self._began.setdefault(row["producer_id"], row["base_offset"])
        if batch.num_rows:
            self._next_offset = batch.column("last_offset")[-1].as_py() + 1
