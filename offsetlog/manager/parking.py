"""Commits that wait for W or for the disk, each with its term: one heap for each, and no thread."""

from __future__ import annotations

import heapq
import itertools
import threading

from offsetlog._native.partition import Partition
from offsetlog.errors import CommitTimeoutError, NotCoordinatorError, OffsetLogError
from offsetlog.manager.completion import Completion
from offsetlog.manager.executor import Executor, Timer
from offsetlog.types import Position

_order = itertools.count()


class ParkedCommit(Completion[Position]):
    """A commit that is written and not answered yet; see PendingCommit."""

    __slots__ = ("end_offset", "partition", "term", "timer")

    def __init__(self, partition: int, end_offset: int, term: int) -> None:
        super().__init__()
        self.partition = partition
        self.end_offset = end_offset
        self.term = term
        self.timer: Timer | None = None

    @property
    def position(self) -> Position:
        """Where it stands in the log."""
        return Position(self.partition, self.end_offset - 1)

    def answer(self, failure: BaseException | None = None) -> None:
        """Answers it, once, and takes its timer back."""
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.cancel()
        if failure is None:
            self.succeed(self.position)
        else:
            self.fail(failure)

    def time_out(self, seconds: float) -> None:
        """Answers that it was not in time; nothing is undone (docs/format/append.md §7.4)."""
        self.fail(
            CommitTimeoutError(
                f"the commit at log offset {self.end_offset - 1} of log partition {self.partition} "
                f"was not answered within {seconds} s; it stays, and may yet count"
            )
        )


class Parking:
    """The commits of one partition that wait for one thing.  Safe from any thread.

    Args:
        replicated: whether they wait for W, else for the disk.
    """

    __slots__ = ("_heap", "_lock", "_replicated")

    def __init__(self, replicated: bool) -> None:
        self._replicated = replicated
        self._lock = threading.Lock()
        self._heap: list[tuple[int, int, ParkedCommit]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def park(self, commit: ParkedCommit) -> None:
        """Takes a commit; `settle` follows, since what it waits for may have come before."""
        with self._lock:
            heapq.heappush(self._heap, (commit.end_offset, next(_order), commit))

    def settle(self, partition: Partition, reached: int) -> None:
        """Answers the commits at and below a log offset: with the failure, where their term has ended."""
        for commit in self._taken(reached):
            try:
                partition.wait(
                    commit.end_offset, term=commit.term, replicated=self._replicated, timeout=0
                )
            except OffsetLogError as failure:
                commit.answer(failure)
            else:
                commit.answer()

    def _taken(self, reached: int) -> list[ParkedCommit]:
        taken: list[ParkedCommit] = []
        with self._lock:
            while self._heap and self._heap[0][0] <= reached:
                taken.append(heapq.heappop(self._heap)[2])
        return taken

    def refuse(self, failure: BaseException) -> None:
        """Answers all of them with a failure, oldest first."""
        with self._lock:
            taken = [heapq.heappop(self._heap)[2] for _ in range(len(self._heap))]
        for commit in taken:
            commit.answer(failure)

    def refuse_term(self, current: int) -> None:
        """Answers those of other terms: leadership ended, or the log was cut, before they were durable."""
        with self._lock:
            gone = [each for each in self._heap if each[2].term != current]
            if not gone:
                return
            self._heap = [each for each in self._heap if each[2].term == current]
            heapq.heapify(self._heap)
        for _, _, commit in sorted(gone):
            commit.answer(
                NotCoordinatorError("leadership changed before this was known to be durable")
            )


def start_timer(commit: ParkedCommit, executor: Executor, seconds: float) -> None:
    """Has a commit answered after some time at the latest."""
    commit.timer = executor.call_later(seconds, lambda: commit.time_out(seconds))
