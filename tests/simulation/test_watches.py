"""Watches at all replicas of the simulation: what takes effect is one sequence, whoever reports it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from offsetlog.errors import OffsetLogError
from offsetlog.manager.interface import Watch
from offsetlog.types import LogGap, PositionChange
from tests.depth import by_depth, first_seed
from tests.simulation.batches import Position, key_of, position_of
from tests.simulation.truth import Violation
from tests.simulation.world import World

Place = tuple[int, int]
BEGINNING = {0: (-1, 0)}


class Reader:
    """Follows one replica through its lives; now and then it goes on at another one."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.watch: Watch | None = None
        self.life = (-1, -1)
        self.position: dict[int, Place] = BEGINNING
        self.items: list[PositionChange | LogGap] = []

    def read(self, world: WatchedWorld) -> None:
        node = world.nodes[self.number]
        if node.manager is None:
            return
        if self.life != (self.number, node.life):
            self.life = self.number, node.life
            self.watch = node.manager.watch(from_position=self.position)
        assert self.watch is not None
        try:
            self.items += self.watch.poll(0, world.scheduler.random.choice([1, 5, 100]))
        except OffsetLogError:
            return  # its disk failed
        self.position = self.watch.position

    def check(self, world: WatchedWorld) -> None:
        """Each change of the truth was reported once and in order, or a gap that holds it was.

        A reported change is below some W: no replica's log ever has another truth there.
        """
        reported: list[Place] = []
        gaps: list[LogGap] = []
        for item in self.items:
            if isinstance(item, PositionChange):
                place = item.effective_at, item.log_offset
                if reported and place <= reported[-1]:
                    raise Violation(f"{item} was reported after {reported[-1]}")
                world.check_change(item)
                reported.append(place)
            else:
                world.check_gap(item)
                gaps.append(item)
        known = set(reported)
        for place in world.checker.truth.changes:
            if place not in known and not any(gap.start <= place[1] < gap.end for gap in gaps):
                raise Violation(f"the change at {place} was not reported; the gaps are {gaps}")


class WatchedWorld(World):
    """A world whose replicas are watched."""

    def __init__(self, seed: int, root: Path) -> None:
        super().__init__(seed, root)
        self.readers = [Reader(number) for number in range(3)]

    def _look(self) -> None:
        super()._look()
        draw = self.scheduler.random
        for reader in self.readers:
            if draw.random() < 0.15:
                reader.read(self)
            elif draw.random() < 0.002:
                # Whoever watched here goes on elsewhere, where it stands.
                reader.number = draw.randrange(3)

    def check_change(self, change: PositionChange) -> None:
        """A reported change is the record that stands there, and took effect where it is said to."""
        truth = self.checker.truth
        place = change.effective_at, change.log_offset
        known = truth.records.get(change.log_offset)
        if known is None or place not in self._places:
            raise Violation(f"nothing took effect at {place}: {change}")
        _, record = known
        group, key = key_of(record)
        value = None if record.value is None else position_of(record.value)
        shown = change.value and Position(
            change.value.offset,
            change.value.leader_epoch,
            change.value.metadata,
            change.value.commit_timestamp,
        )
        if (change.group, (change.topic, change.partition), shown) != (group, key, value):
            raise Violation(f"{change} was reported where {record} stands")

    def check_gap(self, gap: LogGap) -> None:
        """A gap lies where logs were cleaned, or where none began."""
        cleaned_to = max(self.checker.cleaned_to, self.begins_at)
        if gap.reason != "cleaned" or not 0 <= gap.start < gap.end <= cleaned_to:
            raise Violation(f"{gap} in a log that was cleaned up to {cleaned_to}")

    def check_readers(self) -> None:
        self._places = set(self.checker.truth.changes)
        for reader in self.readers:
            reader.number = self.controller.state.leader
            while True:
                before = len(reader.items)
                reader.read(self)
                if len(reader.items) == before:
                    break
            reader.check(self)


def test_every_reader_gets_the_same_changes_once():
    first, count = first_seed() + 500, by_depth(gate=12, long=300)
    changes = 0
    for seed in range(first, first + count):
        print(f"seed {seed}")
        root = Path(tempfile.mkdtemp(prefix="offsetlog-watches-"))
        world = WatchedWorld(seed, root)
        try:
            world.run()
            world.check_readers()
            changes += len(world.checker.truth.changes)
        finally:
            for node in world.nodes:
                if node.is_up:
                    node.stop(power=False)
            shutil.rmtree(root, ignore_errors=True)
    assert changes > 100 * count
