"""A round of snapshots: each log that is due gets one, the longest tail first, small ones side by side.

Beside a thread that commits without pause, a snapshot waits for the interpreter most of its time,
some milliseconds after each call of the engine; writers that wait at the same time wait once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from offsetlog._native.partition import Partition
from offsetlog.maintenance.cleaning import SMALL_SNAPSHOT_BYTES_MAX, SNAPSHOTS_AT_ONCE, tails_of
from offsetlog.maintenance.policy import Tail
from offsetlog.maintenance.threads import MaintenanceThread


class _Chosen(NamedTuple):
    partition: Partition
    others: int  # that are due as well


class SnapshotRound:
    """One round over the logs of a store; who is due is decided again before each, since logs grow meanwhile.

    Args:
        partitions: their logs.
        due: returns which of these tails get a snapshot now, among the logs of these numbers; the
            most urgent first.
        write: writes the snapshot of a log; keeps its failures to itself.
    """

    def __init__(
        self,
        partitions: list[Partition],
        due: Callable[[list[Tail], AbstractSet[int]], list[Tail]],
        write: Callable[[Partition], None],
    ) -> None:
        self._partitions = {each.number: each for each in partitions}
        self._due = due
        self._write = write
        self._deciding = threading.Lock()
        self._left = set(self._partitions)
        self._under_way: set[int] = set()
        self._places = SNAPSHOTS_AT_ONCE - 1  # for writers beside the thread of the round
        self._writers: list[threading.Thread] = []
        self._failures: list[BaseException] = []

    def run(self) -> list[Tail]:
        """Writes until nothing is due, of each log at most one; returns the tails as they are then."""
        try:
            self._write_due()
        finally:
            # Writers begin others as long as they find work, and so do those that are joined here.
            for writer in self._writers:
                writer.join()
        for failure in self._failures:
            raise failure
        return tails_of(list(self._partitions.values()))

    def _write_due(self, bytes_max: int | None = None) -> None:
        while (chosen := self._next(bytes_max)) is not None:
            if chosen.others:
                self._begin_another()
            self._write_one(chosen.partition)

    def _begin_another(self) -> None:
        with self._deciding:
            if self._places == 0:
                return
            self._places -= 1
        # Without the lock: a start waits for the thread, and whatever runs meanwhile may need it.
        writer = MaintenanceThread(self._write_small, "offsetlog-snapshot-writer")
        # Where no thread can be had, those that are there do all.
        with contextlib.suppress(RuntimeError):
            writer.start()
            self._writers.append(writer)

    def _write_small(self) -> None:
        try:
            self._write_due(SMALL_SNAPSHOT_BYTES_MAX)
        except BaseException as failure:
            self._failures.append(failure)

    def _write_one(self, partition: Partition) -> None:
        try:
            self._write(partition)
        finally:
            with self._deciding:
                self._under_way.discard(partition.number)

    def _next(self, bytes_max: int | None = None) -> _Chosen | None:
        with self._deciding:
            # One whose snapshot is being written has no long tail any more.
            measured = [
                each for each in self._partitions.values() if each.number not in self._under_way
            ]
            tails = tails_of(measured)
            small = {
                tail.number
                for tail in tails
                if bytes_max is None or tail.snapshot_bytes <= bytes_max
            }
            due = self._due(tails, self._left & small)
            if not due:
                return None
            number = due[0].number
            self._left.discard(number)
            self._under_way.add(number)
            return _Chosen(self._partitions[number], len(due) - 1)
