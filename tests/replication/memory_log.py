"""A log in memory: one record is one batch.

A loss of power cuts it anywhere above the flushed end.
"""

from __future__ import annotations

import random
import struct
from typing import NamedTuple

from offsetlog.types import EpochEnd

_RECORD = struct.Struct(">iq")
RECORD_BYTES = _RECORD.size


class Record(NamedTuple):
    epoch: int
    value: int


def encode(records: list[Record]) -> bytes:
    return b"".join(_RECORD.pack(*record) for record in records)


def decode(data: bytes) -> list[Record]:
    return [Record(*fields) for fields in _RECORD.iter_unpack(data)]


class MemoryLog:
    """The log of one replica.

    It trusts whoever appends: records carry no offsets that could be checked.
    """

    def __init__(
        self, *records: tuple[int, int], start: int = 0, flushed: int | None = None
    ) -> None:
        self.start = start
        self.records: list[Record] = []
        self.epochs: list[tuple[int, int]] = []
        self.append([Record(*record) for record in records])
        self.flushed_end = self.log_end() if flushed is None else flushed

    # ---------------------------------------------------------------------- what the rules read

    def log_start(self) -> int:
        return self.start

    def log_end(self) -> int:
        return self.start + len(self.records)

    def flushed(self) -> int:
        return self.flushed_end

    def last_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """docs/format/directory.md §1.5, row by row."""
        if epoch == -1 or not self.epochs:
            return EpochEnd(-1, -1)
        newest = self.epochs[-1][0]
        if epoch == newest:
            return EpochEnd(epoch, self.log_end())
        if epoch > newest:
            return EpochEnd(-1, -1)
        at = sum(known <= epoch for known, _ in self.epochs)
        return EpochEnd(self.epochs[at - 1][0] if at else epoch, self.epochs[at][1])

    def read(self, offset: int, max_bytes: int) -> bytes:
        first = offset - self.start
        return encode(self.records[first : first + max(1, max_bytes // RECORD_BYTES)])

    # -------------------------------------------------------------------------- what changes it

    def assign_epoch(self, epoch: int) -> None:
        start = self.log_end()
        if not self.epochs or self.epochs[-1][0] != epoch:
            self.epochs = [entry for entry in self.epochs if entry[0] < epoch and entry[1] < start]
            self.epochs.append((epoch, start))

    def append(self, records: list[Record]) -> None:
        for record in records:
            self.assign_epoch(record.epoch)
            self.records.append(record)

    def flush(self) -> None:
        self.flushed_end = self.log_end()

    def truncate(self, offset: int) -> None:
        assert self.start <= offset
        # Also at the log end: an epoch that was led there, and nothing written in, goes.
        del self.records[offset - self.start :]
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]
        self.flushed_end = min(self.flushed_end, offset)

    def restart_at(self, offset: int) -> None:
        self.start = self.flushed_end = offset
        self.records, self.epochs = [], []

    def trim(self, offset: int) -> None:
        """Moves the start up."""
        assert self.start <= offset <= self.log_end()
        del self.records[: offset - self.start]
        self.start = offset
        older = [entry for entry in self.epochs if entry[1] <= offset]
        self.epochs = [(epoch, offset) for epoch, _ in older[-1:]] + self.epochs[len(older) :]
        self.flushed_end = max(self.flushed_end, offset)

    def lose_power(self, rng: random.Random) -> None:
        # An epoch that starts at the new end stays known (docs/format/recovery.md §9.3).
        end = rng.randint(self.flushed_end, self.log_end())
        known = [entry for entry in self.epochs if entry[1] <= end]
        self.truncate(end)
        self.epochs = known

    def lose_disk(self) -> None:
        self.restart_at(0)
