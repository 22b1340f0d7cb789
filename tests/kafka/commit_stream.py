"""Commits of every kind that a store knows, drawn from a seed, and what must be committed after each of them.

A test runs a stream on a store of its own; ``python commit_stream.py DIRECTORY PARTITIONS SEED`` runs it in a process
that is killed from outside, and prints the number of every step that the store has acknowledged.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow

import offsetlog
from offsetlog import OffsetAndMetadata, OffsetStore, StoreConfig, TopicPartition

GROUPS = (
    "billing",
    "Rechnung für Ärzte",
    "счета и заказы",
    "請求書",
    "فواتير",
    "παραγγελίες",
    "group with blanks",
    "émoji 🧾",
    "x" * 249,
)
TOPICS = {"orders": 4, "clicks.eu-west": 12, "audit_log": 1}
"""The topics of all commits with their numbers of partitions, few enough for a broker to create them."""

METADATA = ("", "plain", "naïve", "данные", "データ", "ملاحظة", "🧾" * 20, 'a "quoted"\ttab\nline', "m" * 700)
CONFIG = StoreConfig(batch_bytes_max=8192)
"""Batches so small that a commit of a whole topic with long metadata is written as a transaction of ours; the
tombstones of a group still fit one."""

EXPIRY = 4_102_444_800_000
"""An expiry in the year 2100: written with the record (value version 1), and far off for the broker."""


class Committed(NamedTuple):
    """A committed position as a broker shows it."""

    offset: int
    leader_epoch: int
    metadata: str


State = dict[tuple[str, str, int], Committed]
"""(group, topic, partition) -> what is committed."""


class CommitStream:
    """An endless, seeded row of steps; each changes ``state`` at once, as a store that is killed has it or has it not.

    ``store`` may be another one from step to step; without one a stream only keeps ``state``, from the same draws.
    Not thread-safe.
    """

    def __init__(self, seed: int, store: OffsetStore | None = None) -> None:
        self.store = store
        self.state: State = {}
        self.kinds: list[str] = []
        self._draw = random.Random(seed)
        self._producer_ids = itertools.count(1000)
        self._steps: dict[str, tuple[int, Callable[[], None]]] = {
            "one": (4, self._commit_one),
            "plain": (6, self._commit),
            "async": (2, self._commit_async),
            "arrow": (2, self._commit_arrow),
            "oversize": (2, self._commit_oversize),
            "expiring": (1, self._commit_expiring),
            "delete": (2, self._delete),
            "delete group": (1, self._delete_group),
            "transaction": (2, self._transaction),
            "aborted": (2, self._aborted_transaction),
        }

    def run(self, steps: int) -> None:
        """Makes the next steps."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """Makes the next step, by a draw; the first ones go through all kinds, so that none is missing."""
        names = list(self._steps)
        weights = [weight for weight, _ in self._steps.values()]
        name = self._draw.choices(names, weights)[0] if len(self.kinds) >= len(names) else names[len(self.kinds)]
        self._steps[name][1]()
        self.kinds.append(name)

    def _durability(self) -> offsetlog.Durability:
        """Mixed, so that later batches carry the flushed bound."""
        return "disk" if self._draw.random() < 0.2 else "process"

    def _group(self) -> str:
        return self._draw.choice(GROUPS)

    def _value(self) -> OffsetAndMetadata:
        epoch = self._draw.choice((-1, -1, 0, 5, 2**31 - 1))
        offset = self._draw.choice((0, 1, self._draw.randrange(2**31), 2**63 - 1))
        return OffsetAndMetadata(offset, self._draw.choice(METADATA), epoch)

    def _offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns a few positions, small enough for one batch."""
        keys = [TopicPartition(topic, number) for topic, count in TOPICS.items() for number in range(count)]
        return {key: self._value() for key in self._draw.sample(keys, self._draw.randint(1, 4))}

    def _keep(self, group: str, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        for (topic, partition), value in offsets.items():
            self.state[group, topic, partition] = Committed(value.offset, value.leader_epoch, value.metadata)

    def _commit_one(self) -> None:
        group, durability = self._group(), self._durability()
        ((topic, partition), value) = next(iter(self._offsets().items()))
        if self.store is not None:
            self.store.commit_one(group, topic, partition, *value[:3], durability=durability)
        self._keep(group, {TopicPartition(topic, partition): value})

    def _commit(self) -> None:
        group, offsets, durability = self._group(), self._offsets(), self._durability()
        if self.store is not None:
            self.store.commit(group, offsets, durability=durability)
        self._keep(group, offsets)

    def _commit_async(self) -> None:
        group, offsets, durability = self._group(), self._offsets(), self._durability()
        if self.store is not None:
            self.store.commit_async(group, offsets, durability=durability).result(60)
        self._keep(group, offsets)

    def _commit_arrow(self) -> None:
        group, offsets, durability = self._group(), self._offsets(), self._durability()
        if self.store is not None:
            self.store.commit_arrow(arrow_batch({group: offsets}), durability=durability)
        self._keep(group, offsets)

    def _commit_oversize(self) -> None:
        group, durability, offset = self._group(), self._durability(), self._draw.randrange(2**40)
        offsets = oversize_offsets(offset)
        if self.store is not None:
            self.store.commit(group, offsets, durability=durability)
        self._keep(group, offsets)

    def _commit_expiring(self) -> None:
        group, durability = self._group(), self._durability()
        # The format of a value with an expiry has no place for a leader epoch.
        offsets = {
            key: OffsetAndMetadata(value.offset, value.metadata, expire_timestamp=EXPIRY)
            for key, value in self._offsets().items()
        }
        if self.store is not None:
            self.store.commit(group, offsets, durability=durability)
        self._keep(group, offsets)

    def _delete(self) -> None:
        group, durability = self._group(), self._durability()
        keys = [TopicPartition(*key[1:]) for key in self.state if key[0] == group]
        chosen = self._draw.sample(keys, min(len(keys), 3))
        if self.store is not None:
            self.store.delete(group, chosen, durability=durability)
        for topic, partition in chosen:
            del self.state[group, topic, partition]

    def _delete_group(self) -> None:
        group, durability = self._group(), self._durability()
        if self.store is not None:
            self.store.delete(group, durability=durability)
        self.state = {key: value for key, value in self.state.items() if key[0] != group}

    def _transaction(self) -> None:
        self._run_transaction(aborts=False)

    def _aborted_transaction(self) -> None:
        self._run_transaction(aborts=True)

    def _run_transaction(self, *, aborts: bool) -> None:
        group, durability, parts = self._group(), self._durability(), [self._offsets(), self._offsets()]
        producer_id = next(self._producer_ids)
        if self.store is not None:
            with self.store.transaction(group, producer_id, durability=durability) as transaction:
                for part in parts:
                    transaction.commit(part)
                if aborts:
                    transaction.abort()
        if not aborts:
            for part in parts:
                self._keep(group, part)


def oversize_offsets(offset: int) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns positions for a whole topic that fill several batches of CONFIG."""
    topic, count = "clicks.eu-west", TOPICS["clicks.eu-west"]
    return {TopicPartition(topic, number): OffsetAndMetadata(offset + number, "m" * 1500) for number in range(count)}


def arrow_batch(offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]]) -> pyarrow.RecordBatch:
    """Returns the positions of some groups as a batch for ``commit_arrow``."""
    rows = [
        {
            "group": group,
            "topic": topic,
            "partition": partition,
            "offset": value.offset,
            "leader_epoch": value.leader_epoch,
            "metadata": value.metadata,
        }
        for group, positions in offsets.items()
        for (topic, partition), value in positions.items()
    ]
    return pyarrow.RecordBatch.from_pylist(rows)


def states(seed: int) -> Iterator[State]:
    """Yields what is committed after 0, 1, 2, ... steps."""
    stream = CommitStream(seed)
    while True:
        yield dict(stream.state)
        stream.step()


def _run_until_killed(directory: str, partitions: int, seed: int) -> None:
    stream = CommitStream(seed, offsetlog.open(directory, partitions, config=CONFIG))
    for number in itertools.count(1):
        stream.step()
        print(number, flush=True)


if __name__ == "__main__":
    _run_until_killed(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
