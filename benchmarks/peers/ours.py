"""offsetlog itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa

import offsetlog
from benchmarks.keys import Call, KeySpace, Numbers, Row
from benchmarks.peers.contender import Contender
from offsetlog import MaintenanceConfig

#: The figures are of calls, not of what cleans the log beside them.
_AT_REST = MaintenanceConfig(enabled=False)


class Ours(Contender):
    """A store with `partitions` log partitions, opened once for a whole workload."""

    def __init__(
        self, directory: Path, durability: Literal["process", "disk"], partitions: int, name: str = "offsetlog"
    ) -> None:
        self.name = name
        self.directory = directory
        self.store = offsetlog.open(directory, partitions=partitions, durability=durability, maintenance=_AT_REST)

    def fill(self, keys: KeySpace, offsets: Numbers) -> None:
        for indices in keys.chunks():
            batch = keys.columns(indices, offsets[indices], dictionary=True)
            self.store.commit_arrow(batch, durability="process")

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
        """So many outstanding all the time: the oldest is collected before the next is committed."""
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
