"""LMDB, the fastest embedded store to read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import lmdb
import pyarrow as pa

from benchmarks.keys import Call, KeySpace, Numbers, Row
from benchmarks.peers.contender import TIMESTAMP, Contender, pack_key, pack_partition, pack_value, unpack_offset


class Lmdb(Contender):
    """One environment.  With `sync`, its configuration is the default; otherwise the fastest, with a writable map."""

    def __init__(self, directory: Path, *, sync: bool, map_bytes: int = 16 << 30) -> None:
        self.name = "LMDB, synced" if sync else "LMDB, sync off, writable map"
        self.sync = sync
        self.environment = lmdb.open(
            str(directory), map_size=map_bytes, sync=sync, metasync=sync, writemap=not sync, map_async=not sync
        )

    def fill(self, keys: KeySpace, offsets: Numbers) -> None:
        for indices in keys.chunks():
            values = (pack_value(offset, -1, TIMESTAMP) for offset in offsets[indices].tolist())
            names = (pack_key(*row) for row in keys.rows(indices))
            with self.environment.begin(write=True) as transaction:
                transaction.cursor().putmulti(list(zip(names, values, strict=True)), append=True)

    def commit_each(self, rows: Sequence[Row], base: int) -> None:
        begin = self.environment.begin
        for offset, (group, topic, partition) in enumerate(rows, base):
            transaction = begin(write=True)
            key = f"{group}\0{topic}\0".encode() + pack_partition(partition)
            transaction.put(key, pack_value(offset, -1, TIMESTAMP))
            transaction.commit()

    def commit_each_in_one(self, rows: Sequence[Row], base: int) -> None:
        """Commits all rows in a single transaction, so that nothing is committed before the last row."""
        with self.environment.begin(write=True) as transaction:
            put = transaction.put
            for offset, (group, topic, partition) in enumerate(rows, base):
                key = f"{group}\0{topic}\0".encode() + pack_partition(partition)
                put(key, pack_value(offset, -1, TIMESTAMP))

    def commit_calls(self, calls: Sequence[Call]) -> None:
        begin = self.environment.begin
        for group, offsets in calls:
            with begin(write=True) as transaction:
                put = transaction.put
                for (topic, partition), offset in offsets.items():
                    key = f"{group}\0{topic}\0".encode() + pack_partition(partition)
                    put(key, pack_value(offset, -1, TIMESTAMP))

    def commit_wave(self, calls: Sequence[Call]) -> None:
        with self.environment.begin(write=True) as transaction:
            put = transaction.put
            for group, offsets in calls:
                for (topic, partition), offset in offsets.items():
                    key = f"{group}\0{topic}\0".encode() + pack_partition(partition)
                    put(key, pack_value(offset, -1, TIMESTAMP))

    def commit_columns(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("group", "topic", "partition", "offset"))
            items = [
                (f"{group}\0{topic}\0".encode() + pack_partition(partition), pack_value(offset, -1, TIMESTAMP))
                for group, topic, partition, offset in zip(*columns, strict=True)
            ]
            with self.environment.begin(write=True) as transaction:
                transaction.cursor().putmulti(items)

    def fetch_each(self, rows: Sequence[Row]) -> int:
        # One read transaction for all rows is the cheapest way.
        total = 0
        with self.environment.begin(buffers=True) as transaction:
            get = transaction.get
            for group, topic, partition in rows:
                found = get(f"{group}\0{topic}\0".encode() + pack_partition(partition))
                if found is not None:
                    total += unpack_offset(found)[0]
        return total

    def check_durability(self) -> None:
        flags = self.environment.flags()
        if flags["sync"] != self.sync or flags["metasync"] != self.sync:
            raise AssertionError(f"{self.name}: {flags}")

    def offsets(self, keys: KeySpace) -> Numbers:
        self.check_count(keys, self.environment.stat()["entries"])
        with self.environment.begin() as transaction:
            return self.offsets_by_rows(keys, transaction.get)

    def close(self) -> None:
        self.environment.close()
