"""Watches of one partition beside a life of commits, cleaning and restarts, and what each has to have seen.

One watch is read after every step: it never lags, so it never meets a gap, and what it saw is the truth.  A mirror
that follows it must always be the present state.  Every other watch may lag, stop, and go on from its position: it
must have seen each change of the truth once, or a gap that holds it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from offsetlog.config import MaintenanceConfig, StoreConfig
from offsetlog.manager.interface import Watch, WatchPosition
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings
from offsetlog.types import LogGap, OffsetAndMetadata, PositionChange, TopicPartition

GROUPS = ("red", "green", "blue")
KEYS = [TopicPartition(topic, number) for topic in ("t", "u") for number in range(4)]
KEY = KEYS[0]
FROM_THE_BEGINNING = {0: (-1, 0)}
BY_HAND = MaintenanceConfig(enabled=False)
SMALL = StoreConfig(segment_bytes=16384, batch_bytes_max=4096, extend_bytes_min=4096, extend_bytes_max=16384)


def settings(path: Path, **more: object) -> ManagerSettings:
    given: dict = {"partitions": 1, "durability": "process", "store": SMALL, "maintenance": BY_HAND}
    return ManagerSettings(path=path, **given | more)


def lead(path: Path, epoch: int = 1, **more: object) -> LogManager:
    """A manager that leads the partition."""
    manager = LogManager(settings(path, **more), background=False)
    manager.start()
    manager.become_leader(0, epoch).result(30)
    return manager


def offsets_of(items: list) -> list[int | None]:
    """The offsets of changes, None for a deletion."""
    values = [item.value for item in items if isinstance(item, PositionChange)]
    return [None if value is None else value.offset for value in values]


def changes_of(batch) -> list[PositionChange]:
    """The rows of an Arrow batch as changes."""
    found = []
    for row in batch.to_pylist():
        value = None
        if row["offset"] is not None:
            assert row["topic_id"] is None
            value = OffsetAndMetadata(
                row["offset"], row["metadata"], row["leader_epoch"], row["commit_timestamp"],
                row["expire_timestamp"],
            )
        found.append(
            PositionChange(
                row["log_partition"], row["log_offset"], row["effective_at"], row["epoch"], row["timestamp"],
                row["group"], row["topic"], row["partition"], value,
            )
        )
    return found


@dataclass
class Reader:
    """One watch, and all that it has seen since `start`."""

    watch: Watch | None
    start: int
    groups: tuple[str, ...] | None = None
    position: WatchPosition = field(default_factory=dict)
    changes: list[PositionChange] = field(default_factory=list)
    gaps: list[LogGap] = field(default_factory=list)

    def take(self, items: list) -> None:
        for item in items:
            if isinstance(item, LogGap):
                self.gaps.append(item)
            elif isinstance(item, PositionChange):
                self.changes.append(item)
            else:
                self.changes += changes_of(item)

    def read(self, draw: random.Random) -> None:
        assert self.watch is not None
        kind = draw.random()
        if kind < 0.4 or (kind < 0.8 and self.watch._unread):  # type: ignore[attr-defined]
            self.take(self.watch.poll(0, draw.choice([1, 3, 50])))
        elif kind < 0.8:
            self.take(self.watch.poll_arrow(0, draw.choice([1, 7, 1000])))
        else:
            # An iteration that stops anywhere: the rest is for whoever goes on from the position.
            self.take(self.watch.poll(0, 1))
            for _ in range(draw.randrange(20)):
                item = self.watch._next()  # type: ignore[attr-defined]
                if item is None:
                    break
                self.take([item])
            while self.is_inside_a_transaction():
                self.take([self.watch._next()])  # type: ignore[attr-defined]

    def is_inside_a_transaction(self) -> bool:
        # A position cannot stand there; whoever goes on begins before it.
        unread = self.watch._unread  # type: ignore[union-attr]
        if not unread or not self.changes or isinstance(unread[0][0], LogGap):
            return False
        return unread[0][0].effective_at == self.changes[-1].effective_at

    def stop(self) -> None:
        if self.watch is not None:
            self.position = self.watch.position
            self.watch.close()
            self.watch = None


class Life:
    """A manager of one partition with a truth, and readers."""

    def __init__(self, seed: int, path: Path, **given: object) -> None:
        self.given = given
        self.draw = random.Random(seed)
        self.path = path
        self.epoch = 0
        self.value = 0
        self.truth = Reader(None, 0, position={0: (-1, 0)})
        self.mirror: dict[tuple[str, TopicPartition], int] = {}
        self.readers: list[Reader] = []
        self.old: list[WatchPosition] = [{0: (-1, 0)}]
        self.cleaned = 0
        self.start()

    # ------------------------------------------------------------------------------------------------ the manager

    def start(self) -> None:
        self.epoch += 1
        self.manager = LogManager(settings(self.path, **self.given), background=False)
        self.manager.start()
        self.manager.become_leader(0, self.epoch).result(30)
        for reader in [self.truth, *self.readers]:
            reader.watch = self.manager.watch(reader.groups, from_position=reader.position)

    def restart(self) -> None:
        for reader in [self.truth, *self.readers]:
            reader.stop()
        self.manager.stop()
        self.start()

    def clean(self) -> None:
        reports = self.manager._maintenance.compact(roll=self.draw.random() < 0.8, delete_retention_ms=0)
        self.cleaned += sum(report.superseded + report.tombstones_dropped for report in reports)

    def commit(self) -> None:
        count = self.draw.choice([1, 1, 2, 3, len(KEYS)])
        self.value += 1
        value = OffsetAndMetadata(self.value, "m" * self.draw.randrange(60))
        offsets = dict.fromkeys(self.draw.sample(KEYS, count), value)
        self.manager.commit(self.draw.choice(GROUPS), offsets)

    def commit_much(self) -> None:
        # Above batch_bytes_max: a transaction, whose values count from its marker on.
        self.value += 1
        offsets = {key: OffsetAndMetadata(self.value, "m" * 900) for key in KEYS}
        self.manager.commit(self.draw.choice(GROUPS), offsets)

    # ------------------------------------------------------------------------------------------------ the readers

    def open_reader(self) -> None:
        groups = self.draw.choice([None, None, ("red",), ("green", "blue")])
        position = self.draw.choice(self.old)
        reader = Reader(None, position[0][1], groups, position)
        reader.watch = self.manager.watch(groups, from_position=position)
        self.readers.append(reader)

    def reopen(self, reader: Reader) -> None:
        reader.stop()
        reader.watch = self.manager.watch(reader.groups, from_position=reader.position)

    def step(self) -> None:
        kind = self.draw.random()
        if kind < 0.5:
            self.commit()
        elif kind < 0.55:
            self.commit_much()
        elif kind < 0.6:
            self.manager.delete(self.draw.choice(GROUPS), self.draw.sample(KEYS, 3))
        elif kind < 0.62:
            self.manager.delete_group(self.draw.choice(GROUPS))
        elif kind < 0.66:
            self.clean()
        elif kind < 0.67:
            self.restart()
        elif kind < 0.70 and len(self.readers) < 8:
            self.open_reader()
        elif self.readers:
            reader = self.draw.choice(self.readers)
            if self.draw.random() < 0.2:
                self.reopen(reader)
            reader.read(self.draw)
        self.follow()

    def follow(self) -> None:
        known = len(self.truth.changes)
        assert self.truth.watch is not None
        self.truth.take(self.truth.watch.poll(0, 10_000))
        assert not self.truth.gaps, "a watch that never lags met a gap"
        for change in self.truth.changes[known:]:
            place = change.group, TopicPartition(change.topic, change.partition)
            if change.value is None:
                self.mirror.pop(place, None)
            else:
                self.mirror[place] = change.value.offset
        self.old.append(self.truth.watch.position)

    # ------------------------------------------------------------------------------------------------ the promises

    def check_mirror(self) -> None:
        present = {
            (group, key): found.offset for group in GROUPS for key, found in self.manager.fetch(group).items()
        }
        assert self.mirror == present

    def check_reader(self, reader: Reader) -> None:
        wanted = [
            change
            for change in self.truth.changes
            if change.effective_at >= reader.start and (reader.groups is None or change.group in reader.groups)
        ]
        seen = [(change.effective_at, change.log_offset) for change in reader.changes]
        assert seen == sorted(set(seen)), "twice, or out of order"
        missing = set(wanted) - set(reader.changes)
        assert set(reader.changes) <= set(wanted), "nobody committed this"
        for change in missing:
            assert any(
                gap.start <= change.log_offset < gap.end or gap.start <= change.effective_at < gap.end
                for gap in reader.gaps
            ), f"{change} was skipped without report: {reader.gaps}"

    def finish(self) -> None:
        for reader in self.readers:
            assert reader.watch is not None
            while items := reader.watch.poll(0, 1000):
                reader.take(items)
            self.check_reader(reader)
        self.manager.stop()
