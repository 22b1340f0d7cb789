"""The operations that a workload needs of every store."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.keys import Call, KeySpace, Numbers, Row

#: The fields of a position in a key-value peer: offset, leader epoch, commit time, which is fixed: it reads no clock.
pack_value = struct.Struct("<qiq").pack
unpack_offset = struct.Struct("<q").unpack_from
pack_partition = struct.Struct(">i").pack
TIMESTAMP = 1_700_000_000_000


def pack_key(group: str, topic: str, partition: int) -> bytes:
    """A key that sorts by group, topic and partition; the hot loops have this expression in place."""
    return f"{group}\0{topic}\0".encode() + pack_partition(partition)


class Contender(ABC):
    """A store in a directory of its own; its commit calls return when the commits are as durable as its name says."""

    name: str

    @abstractmethod
    def fill(self, keys: KeySpace, offsets: Numbers) -> None:
        """Commits an offset for every key, by its number, in the fastest way that the store has."""

    @abstractmethod
    def commit_each(self, rows: Sequence[Row], base: int) -> None:
        """One transaction a row; offsets count up from `base`."""

    @abstractmethod
    def commit_calls(self, calls: Sequence[Call]) -> None:
        """One transaction a call."""

    @abstractmethod
    def commit_wave(self, calls: Sequence[Call]) -> None:
        """All calls together, then one wait for the disk."""

    def commit_columns(self, batches: Sequence[pa.RecordBatch]) -> None:
        """One transaction a record batch."""
        raise NotImplementedError(f"{self.name} does not take columns")

    @abstractmethod
    def fetch_each(self, rows: Sequence[Row]) -> int:
        """Reads one row after the other; returns the sum of the offsets."""

    @abstractmethod
    def offsets(self, keys: KeySpace) -> Numbers:
        """The offset of each key by its number, -1 where there is none; raises when there are other keys."""

    @abstractmethod
    def close(self) -> None:
        """Closes the store."""

    @property
    def count(self) -> Callable[[], int] | None:
        """Counts the offsets that were ever written; None for a store that knows only the last of each key."""
        return None

    def check_durability(self) -> None:
        """Raises AssertionError where what was committed last is not as durable as the store's name says."""
        raise NotImplementedError(f"{self.name} cannot tell")

    def maintain(self) -> None:  # noqa: B027  (peers do what they do by themselves all the time)
        """From now on the store runs its own maintenance; bursts are measured before this call."""

    def maintained(self) -> str:
        """The maintenance that the store did since then, for the report."""
        return ""

    def offsets_by_rows(self, keys: KeySpace, get: object) -> Numbers:
        """`offsets` for a store of packed keys; `get` returns the value's bytes, or None."""
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
