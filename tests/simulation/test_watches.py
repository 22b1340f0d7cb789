"""Watches at all replicas of the simulation: what takes effect is one sequence, whoever reports it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from offsetlog.errors import OffsetLogError
from offsetlog.manager.interface import Watch
from offsetlog.types import LogGap, PositionChange
from tests.depth import by_depth, first_seed
from tests.simulation.checker import Violation
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
        self.changes: list[PositionChange] = []
        self.gaps: list[LogGap] = []

    def read(self, world: WatchedWorld) -> None:
        node = world.nodes[self.number]
        if node.manager is None:
            return
        if self.life != (self.number, node.life):
            self.life = self.number, node.life
            self.watch = node.manager.watch(from_position=self.position)
        assert self.watch is not None
        try:
            found = self.watch.poll(0, world.scheduler.random.choice([1, 5, 100]))
        except OffsetLogError:
            return  # its disk failed
        for item in found:
            if isinstance(item, LogGap):
                self.gaps.append(item)
            else:
                world.reported(item)
                self.changes.append(item)
        self.position = self.watch.position


class WatchedWorld(World):
    """A world whose replicas are watched."""

    def __init__(self, seed: int, root: Path) -> None:
        super().__init__(seed, root)
        self.readers = [Reader(number) for number in range(3)]
        self.truth: dict[tuple[int, int], PositionChange] = {}

    def reported(self, change: PositionChange) -> None:
        place = change.effective_at, change.log_offset
        if self.truth.setdefault(place, change) != change:
            raise Violation(f"at {place} one replica reports {change}, another {self.truth[place]}")

    def _look_at(self, node: Any) -> None:
        super()._look_at(node)
        draw = self.scheduler.random
        reader = self.readers[node.number]
        if draw.random() < 0.05:
            reader.read(self)
        elif draw.random() < 0.0005:
            # Whoever watched here goes on elsewhere, where it stands.
            reader.number = draw.randrange(3)

    def check_readers(self) -> None:
        leader = self.nodes[self.controller.state.leader]
        assert leader.manager is not None
        with leader.manager.watch(from_position=BEGINNING) as watch:
            whole: list[PositionChange | LogGap] = []
            while found := watch.poll(0, 1000):
                whole += found
        for reader in self.readers:
            reader.number = leader.number
            for _ in range(10_000):
                before = len(reader.changes)
                reader.read(self)
                if len(reader.changes) == before:
                    break
            if reader.gaps:
                raise Violation(f"a gap in a log that nobody cleaned: {reader.gaps}")
            if reader.changes != whole:
                raise Violation(f"{len(reader.changes)} of {len(whole)} changes were reported")


def test_every_reader_is_told_the_same_changes_once():
    first, count = first_seed() + 500, by_depth(gate=12, long=300)
    changes = 0
    for seed in range(first, first + count):
        print(f"seed {seed}")
        root = Path(tempfile.mkdtemp(prefix="offsetlog-watches-"))
        world = WatchedWorld(seed, root)
        try:
            world.run()
            world.check_readers()
            changes += len(world.truth)
        finally:
            for node in world.nodes:
                if node.is_up:
                    node.stop(power=False)
            shutil.rmtree(root, ignore_errors=True)
    assert changes > 100 * count
