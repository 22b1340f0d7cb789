"""RocksDB, the log-structured store in which most stream processors keep their state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from benchmarks.keys import Call, KeySpace, Numbers, Row
from benchmarks.peers.contender import TIMESTAMP, Contender, pack_key, pack_partition, pack_value, unpack_offset


class RocksDb(Contender):
    """One database with its default options.  With `sync`, it syncs its write-ahead log at each write."""

    def __init__(self, directory: Path, *, sync: bool) -> None:
        self.name = "RocksDB, synced" if sync else "RocksDB, sync off"
        self.sync = sync
        self.database = Rdict(str(directory), options=Options(raw_mode=True))
        self.write_options = WriteOptions()
        self.write_options.sync = sync

    def fill(self, keys: KeySpace, offsets: Numbers) -> None:
        for indices in keys.chunks():
            batch = WriteBatch(raw_mode=True)
            for row, offset in zip(keys.rows(indices), offsets[indices].tolist(), strict=True):
                batch.put(pack_key(*row), pack_value(offset, -1, TIMESTAMP))
            self.database.write(batch)
        self.database.flush()

    def commit_each(self, rows: Sequence[Row], base: int) -> None:
        put, options = self.database.put, self.write_options
        for offset, (group, topic, partition) in enumerate(rows, base):
            key = f"{group}\0{topic}\0".encode() + pack_partition(partition)
            put(key, pack_value(offset, -1, TIMESTAMP), write_opt=options)

    def commit_calls(self, calls: Sequence[Call]) -> None:
        for call in calls:
            self.commit_wave([call])

    def commit_wave(self, calls: Sequence[Call]) -> None:
        batch = WriteBatch(raw_mode=True)
        put = batch.put
        for group, offsets in calls:
            for (topic, partition), offset in offsets.items():
                key = f"{group}\0{topic}\0".encode() + pack_partition(partition)
                put(key, pack_value(offset, -1, TIMESTAMP))
        self.database.write(batch, write_opt=self.write_options)

    def fetch_each(self, rows: Sequence[Row]) -> int:
        get = self.database.get
        total = 0
        for group, topic, partition in rows:
            found = get(f"{group}\0{topic}\0".encode() + pack_partition(partition))
            if found is not None:
                total += unpack_offset(found)[0]
        return total

    def check_durability(self) -> None:
        if self.write_options.sync != self.sync or self.write_options.disable_wal:
            raise AssertionError(f"{self.name}: its write options have changed")

    def offsets(self, keys: KeySpace) -> Numbers:
        self.check_count(keys, len(list(self.database.keys())))
        return self.offsets_by_rows(keys, self.database.get)

    def close(self) -> None:
        self.database.close()
