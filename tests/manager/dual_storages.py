"""Storages of a dual manager for tests: a log in memory, and a ZooKeeper that answers late, or not at all."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from offsetlog import errors
from offsetlog._native.completion import Completion
from offsetlog.manager.base import BaseOffsetManager
from offsetlog.manager.dual.manager import DualManager
from offsetlog.manager.interface import Capability
from offsetlog.types import OffsetAndMetadata, Position, TopicPartition

KEYS = [TopicPartition("t", number) for number in range(3)]
GROUP = "g"
PATIENCE = 30.0
Kept = dict[str, dict[TopicPartition, OffsetAndMetadata]]


def offsets_in(kept: Kept, group: str = GROUP) -> dict[TopicPartition, int]:
    return {key: value.offset for key, value in kept.get(group, {}).items()}


class Crash:
    """Ends everything at a write of a given number, before it is made or afterwards."""

    def __init__(self, at: int | None = None, *, is_after: bool = False) -> None:
        self.at, self.is_after = at, is_after
        self.count = 0
        self.is_over = False

    def __call__(self, write: Callable[[], object]) -> None:
        if self.is_over or (self.at == self.count and not self.is_after):
            self.is_over = True
            raise errors.StorageError("crash")
        write()
        if self.at == self.count:
            self.is_over = True
            raise errors.StorageError("crash")
        self.count += 1


class Memory(BaseOffsetManager):
    """Keeps positions in a dictionary that outlives it."""

    def __init__(self, kept: Kept, crash: Crash) -> None:
        super().__init__(partitions=2)
        self.kept, self.crash = kept, crash

    def read(self, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self.kept.get(group, {})

    def write(self, group: str, changes: Mapping[TopicPartition, Any]) -> None:
        merged = {**self.kept.get(group, {}), **changes}
        self.crash(lambda: self.kept.update({group: {key: each for key, each in merged.items() if each is not None}}))

    def groups(self) -> Iterable[str]:
        return [group for group, found in self.kept.items() if found]


class Log(Memory):
    """A log.

    Attributes:
        is_unsure: whether a commit is made, and its answer is not in time.
    """

    is_unsure = False

    def commit_async(self, *given: Any, **more: Any) -> Any:
        pending = super().commit_async(*given, **more)
        if not self.is_unsure:
            return pending
        late: Any = Pending(pending.position)
        late.fail(errors.CommitTimeoutError("not known to be on disk in time"))
        return late


class Pending(Completion[Position]):
    def __init__(self, position: Position) -> None:
        super().__init__()
        self.position = position


class ZooKeeper(Memory):
    """A ZooKeeper of which the test says how it answers.

    Attributes:
        is_away: whether it answers nothing, and nothing is made.
        loses: how many of the next writes have no answer.
        makes: whether those are made.
        is_held: whether commits wait until `answer` is called.
        held: those that wait.
        writes: the offsets of each commit that came, in their order.
    """

    capabilities = frozenset({Capability.CONDITIONS})

    def __init__(self, kept: Kept, crash: Crash) -> None:
        super().__init__(kept, crash)
        self.is_away, self.loses, self.makes, self.is_held = False, 0, False, False
        self.held: deque[tuple[Callable[[], Position], Pending]] = deque()
        self.writes: list[dict[TopicPartition, int]] = []
        self.came = threading.Condition()

    def _check(self) -> None:
        if self.is_away:
            raise errors.ZooKeeperUnavailableError("away")

    def read(self, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        self._check()
        return super().read(group)

    def write(self, group: str, changes: Mapping[TopicPartition, Any]) -> None:
        self._check()
        is_lost, self.loses = self.loses > 0, max(0, self.loses - 1)
        if not is_lost or self.makes:
            super().write(group, changes)
        if is_lost:
            raise errors.UnknownOutcomeError("the connection broke")

    def commit(self, *given: Any, **more: Any) -> Position:
        return self.commit_async(*given, **more).result(PATIENCE)

    def commit_async(
        self,
        group: str,
        offsets: Mapping[TopicPartition, Any],
        *,
        expected: Mapping[TopicPartition, int | None] | None = None,
        monotonic: bool = False,
        **more: Any,
    ) -> Any:
        pending = Pending(Position(self.partition_for(group), -1))

        def make() -> Position:
            with self._lock:
                found = offsets_in(self.kept, group)
                for key, offset in (expected or {}).items():
                    if found.get(key) != offset:
                        raise errors.ExpectedOffsetError("changed", actual=found.get(key))
                for key, offset in offsets.items() if monotonic else ():
                    if found.get(key, -1) > offset:
                        raise errors.RewindError("larger", actual=found[key])
                return super(ZooKeeper, self).commit(group, offsets, **more)

        with self.came:
            self.writes.append(dict(offsets))
            self.held.append((make, pending))
            self.came.notify_all()
        if not self.is_held:
            self.answer()
        return pending

    def answer(self, count: int | None = None) -> None:
        """Answers so many of the commits that wait, the first ones first; None for all."""
        while self.held and count != 0:
            make, pending = self.held.popleft()
            count = None if count is None else count - 1
            try:
                position = make()
            except errors.OffsetLogError as failure:
                pending.fail(failure)
            else:
                pending.succeed(position)

    def wait_for_commit(self, count: int = 1) -> None:
        """Waits until so many commits wait."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.held) >= count, PATIENCE)


class Site:
    """Two storages that outlive the managers on them.

    Attributes:
        timers: the calls that the manager that runs ordered for later: the tries to reach ZooKeeper in an outage.
    """

    def __init__(self, log: Mapping[TopicPartition, int] = {}, zookeeper: Mapping[TopicPartition, int] = {}) -> None:
        self.log: Kept = {GROUP: {key: OffsetAndMetadata(offset) for key, offset in log.items()}}
        self.zookeeper: Kept = {GROUP: {key: OffsetAndMetadata(offset) for key, offset in zookeeper.items()}}
        self.timers: list[Callable[[], object]] = []

    def start(self, crash: Crash | None = None, **more: Any) -> DualManager:
        crash = crash or Crash()
        self.timers = []
        manager = DualManager(
            Log(self.log, crash), ZooKeeper(self.zookeeper, crash), **{"commit_timeout": PATIENCE, **more}
        )
        manager._queue._call_later = lambda _, call: self.timers.append(call)  # type: ignore[assignment, return-value]
        manager.start()
        for partition in range(manager.partitions):
            manager.become_leader(partition, 1)
        return manager

    def pass_time(self) -> None:
        """Makes the calls that are ordered now."""
        timers, self.timers = self.timers, []
        for each in timers:
            each()

    def fetched(self, group: str = GROUP) -> dict[TopicPartition, int]:
        """Returns what a manager that starts now fetches."""
        timers = self.timers
        with self.start() as manager:
            found = {key: value.offset for key, value in manager.fetch(group).items()}
        self.timers = timers
        return found

    def stored(self, group: str = GROUP) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        return offsets_in(self.log, group), offsets_in(self.zookeeper, group)
