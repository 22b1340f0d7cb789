"""A round writes the snapshots that are due, the longest tail first, small ones in parallel.

While another thread commits without pause, the writer of a snapshot waits some milliseconds for the
GIL after each call of the engine.  This wait is most of the time that a snapshot takes.  Several
writers can wait for the GIL at the same time, so that together they finish sooner.
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
    others: int  # that are also due


class SnapshotRound:
    """One round over the logs of a store.  Before each snapshot, it asks again which logs are due.

    Args:
        partitions: the partitions of the logs.
        due: called with the tails of the logs, and the numbers of the logs that may still get a
            snapshot; returns the tails of those that are due now, the most urgent first.
        write: writes the snapshot of a log; never raises.
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
        self._places = SNAPSHOTS_AT_ONCE - 1  # for writers besides the thread of the round
        self._writers: list[threading.Thread] = []
        self._failures: list[BaseException] = []

    def run(self) -> list[Tail]:
        """Writes snapshots until none is due, one for each log at most; returns the final tails."""
        try:
            self._write_due()
        finally:
            # A writer may start other writers while this loop runs; they are joined, too.
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
        # The thread is started without the lock.  `start` waits for the new thread, and code that
        # runs meanwhile may need the lock.
        writer = MaintenanceThread(self._write_small, "offsetlog-snapshot-writer")
        # If no thread can be started, the existing threads do all the work.
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
            # A log whose snapshot is being written counts as if it had no tail.
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
