"""SQLite with a write-ahead log."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.keys import Call, KeySpace, Numbers, Row
from benchmarks.peers.contender import TIMESTAMP, Contender

CREATE = """create table if not exists positions (
    name text, topic text, partition integer, position integer, epoch integer, time integer,
    primary key (name, topic, partition)) without rowid"""
PUT = f"insert or replace into positions values (?, ?, ?, ?, -1, {TIMESTAMP})"
SYNCHRONOUS_FULL = 2
GET = "select position from positions where name = ? and topic = ? and partition = ?"


class Sqlite(Contender):
    """One table without row ids.  With synchronous=FULL, each transaction waits for the disk; with OFF, none does."""

    def __init__(self, directory: Path, *, sync: bool) -> None:
        self.name = "SQLite, synchronous=FULL" if sync else "SQLite, synchronous=OFF"
        self.sync = sync
        self.connection = sqlite3.connect(directory / "positions.db", isolation_level=None)
        self.connection.execute("pragma journal_mode=wal")
        self.connection.execute(f"pragma synchronous={'full' if sync else 'off'}")
        self.connection.execute(CREATE)

    def _transaction(self, rows: list[tuple[str, str, int, int]]) -> None:
        self.connection.execute("begin immediate")
        self.connection.executemany(PUT, rows)
        self.connection.execute("commit")

    def fill(self, keys: KeySpace, offsets: Numbers) -> None:
        for indices in keys.chunks():
            rows = zip(keys.rows(indices), offsets[indices].tolist(), strict=True)
            self._transaction([(*row, offset) for row, offset in rows])

    def commit_each(self, rows: Sequence[Row], base: int) -> None:
        execute = self.connection.execute
        for offset, (group, topic, partition) in enumerate(rows, base):
            execute(PUT, (group, topic, partition, offset))

    def commit_calls(self, calls: Sequence[Call]) -> None:
        for call in calls:
            self.commit_wave([call])

    def commit_wave(self, calls: Sequence[Call]) -> None:
        self._transaction(
            [
                (group, topic, partition, offset)
                for group, offsets in calls
                for (topic, partition), offset in offsets.items()
            ]
        )

    def fetch_each(self, rows: Sequence[Row]) -> int:
        execute = self.connection.execute
        total = 0
        for row in rows:
            found = execute(GET, row).fetchone()
            if found is not None:
                total += found[0]
        return total

    def check_durability(self) -> None:
        (mode,) = self.connection.execute("pragma journal_mode").fetchone()
        (level,) = self.connection.execute("pragma synchronous").fetchone()
        if (mode, level) != ("wal", SYNCHRONOUS_FULL if self.sync else 0):
            raise AssertionError(f"{self.name}: journal_mode {mode}, synchronous {level}")

    def offsets(self, keys: KeySpace) -> Numbers:
        (count,) = self.connection.execute("select count(*) from positions").fetchone()
        self.check_count(keys, count)
        # The numbers in the names are padded, so that the primary key sorts in the order of the key numbers.
        rows = self.connection.execute("select position from positions order by name, topic, partition")
        return np.fromiter((row[0] for row in rows), np.int64, keys.count)

    def close(self) -> None:
        self.connection.close()
