"""offsetlog itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa

import offsetlog
from benchmarks.keys import Call, KeySpace, Numbers, Row
from benchmarks.opening import BY_HAND, partitions_of
from benchmarks.peers.contender import Contender
from offsetlog import MaintenanceConfig

#: The store runs its maintenance more often than by default, so that a run of ten seconds includes it.
MAINTAINED = MaintenanceConfig(interval_ms=2_000)


class Ours(Contender):
    """A store of offsetlog, with the default number of log partitions unless `partitions` is given.

    Before `maintain` is called, the store cleans no log and takes no snapshot, so that short rounds measure only calls.
    """

    def __init__(
        self,
        directory: Path,
        durability: Literal["process", "disk"],
        partitions: int | None = None,
        name: str = "offsetlog",
    ) -> None:
        self.name = name
        self.directory = directory
        self.durability = durability
        self.store = offsetlog.open(directory, partitions, durability, maintenance=BY_HAND)

    def __str__(self) -> str:
        used = partitions_of(self.directory)
        return f"{self.name}: {self.store.partitions} log partition(s), {used} of them used, {self.durability!r}"

    def maintain(self) -> None:
        self.store.close()
        self.store = offsetlog.open(self.directory, None, self.durability, maintenance=MAINTAINED)

    def maintained(self) -> str:
        counters = self.store.maintenance.status().counters
        cleaned, read = counters.get("cleaned", 0), counters.get("bytes_read", 0) / 1e6
        return f"{cleaned} cleans of {read:,.0f} MB, {counters.get('snapshots', 0)} snapshots meanwhile"

    def _logs(self) -> list[dict[str, int]]:
        return [partition.log_facts() for partition in self.store._open_core.attached()]

    @property
    def count(self) -> Callable[[], int]:
        return lambda: sum(log["end"] for log in self._logs())

    def check_durability(self) -> None:
        unflushed = sum(log["end"] - log["flushed"] for log in self._logs())
        if self.durability == "disk" and unflushed:
            raise AssertionError(f"{self.name}: {unflushed:,} records are not on disk")

    def fill(self, keys: KeySpace, offsets: Numbers) -> None:
        for indices in keys.chunks():
            batch = keys.columns(indices, offsets[indices], dictionary=True)
            self.store.commit_arrow(batch, durability="process")
        if self.durability == "disk":
            self.store.flush()

    def commit_each(self, rows: Sequence[Row], base: int) -> None:
        commit = self.store.commit_one
        for offset, (group, topic, partition) in enumerate(rows, base):
            commit(group, topic, partition, offset)

    def commit_calls(self, calls: Sequence[Call]) -> None:
        commit = self.store.commit
        for group, offsets in calls:
            commit(group, offsets)

    def commit_wave(self, calls: Sequence[Call]) -> None:
        commit = self.store.commit_async
        tickets = [commit(group, offsets) for group, offsets in calls]
        for ticket in tickets:
            ticket.result()

    def commit_sliding(self, calls: Sequence[Call], waiting: int) -> None:
        """Keeps `waiting` commits outstanding: waits for the result of the oldest before it makes the next commit."""
        commit = self.store.commit_async
        tickets = deque(commit(group, offsets) for group, offsets in calls[:waiting])
        for group, offsets in calls[waiting:]:
            tickets.popleft().result()
            tickets.append(commit(group, offsets))
        for ticket in tickets:
            ticket.result()

    def commit_columns(self, batches: Sequence[pa.RecordBatch]) -> None:
        commit = self.store.commit_arrow
        for batch in batches:
            commit(batch)

    def fetch_each(self, rows: Sequence[Row]) -> int:
        fetch = self.store.fetch_one
        total = 0
        for group, topic, partition in rows:
            found = fetch(group, topic, partition)
            if found is not None:
                total += found.offset
        return total

    def offsets(self, keys: KeySpace) -> Numbers:
        table = self.store.to_arrow()
        self.check_count(keys, table.num_rows)
        return keys.offsets_of(table)

    def close(self) -> None:
        self.store.close()
