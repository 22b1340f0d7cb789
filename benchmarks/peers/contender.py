"""The operations that a workload needs from every store."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.keys import Call, KeySpace, Numbers, Row

#: A position in a key-value store: offset, leader epoch, and commit time, fixed so that no clock is read.
pack_value = struct.Struct("<qiq").pack
unpack_offset = struct.Struct("<q").unpack_from
pack_partition = struct.Struct(">i").pack
TIMESTAMP = 1_700_000_000_000


def pack_key(group: str, topic: str, partition: int) -> bytes:
    """Returns a key that sorts by group, topic and partition.  Hot loops contain this expression themselves."""
    return f"{group}\0{topic}\0".encode() + pack_partition(partition)


class Contender(ABC):
    """A store in its own directory.  A commit call returns when the commits have the durability that `name` states."""

    name: str

    @abstractmethod
    def fill(self, keys: KeySpace, offsets: Numbers) -> None:
        """Commits an offset for every key in the fastest way of the store; `offsets` is indexed by key number."""

    @abstractmethod
    def commit_each(self, rows: Sequence[Row], base: int) -> None:
        """Commits each row in its own transaction; the offsets count up from `base`."""

    @abstractmethod
    def commit_calls(self, calls: Sequence[Call]) -> None:
        """Commits each call in its own transaction."""

    @abstractmethod
    def commit_wave(self, calls: Sequence[Call]) -> None:
        """Commits all calls, and then waits for the disk once."""

    def commit_columns(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Commits each record batch in its own transaction."""
        raise NotImplementedError(f"{self.name} does not take columns")

    @abstractmethod
    def fetch_each(self, rows: Sequence[Row]) -> int:
        """Fetches one row after the other; returns the sum of the offsets."""

    @abstractmethod
    def offsets(self, keys: KeySpace) -> Numbers:
        """Returns the offset of each key by key number, -1 for none; raises AssertionError if there are other keys."""

    @abstractmethod
    def close(self) -> None:
        """Closes the store."""

    @property
    def count(self) -> Callable[[], int] | None:
        """A function that counts all offsets ever written; None if the store keeps only the last of each key."""
        return None

    def check_durability(self) -> None:
        """Raises AssertionError if the last commits do not have the durability that `name` states."""
        raise NotImplementedError(f"{self.name} does not report its durability")

    def maintain(self) -> None:  # noqa: B027  (other stores always run their own maintenance)
        """Starts the store's own maintenance.  Short rounds are measured before this call."""

    def maintained(self) -> str:
        """Describes, for the report, the maintenance since `maintain`."""
        return ""

    def offsets_by_rows(self, keys: KeySpace, get: object) -> Numbers:
        """Implements `offsets` for a store with packed keys; `get` returns the bytes of a value, or None."""
        assert callable(get)
        offsets = np.full(keys.count, -1, np.int64)
        for indices in keys.chunks():
            rows = keys.rows(indices)
            found = (get(pack_key(*row)) for row in rows)
            values = [-1 if value is None else unpack_offset(value)[0] for value in found]
            offsets[indices] = values
        return offsets

    def check_count(self, keys: KeySpace, count: int) -> None:
        if count != keys.count:
            raise AssertionError(f"{self.name} holds {count:,} keys, not {keys.count:,}")
