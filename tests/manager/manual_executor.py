"""An executor whose work runs, and whose time passes, when a test says so."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable

Work = Callable[[], object]


class ManualTimer:
    def __init__(self, executor: ManualExecutor, work: Work) -> None:
        self._executor = executor
        self.work = work
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualExecutor:
    """`queue` holds the work that was submitted; `timers` those that were ordered, cancelled ones included."""

    def __init__(self) -> None:
        self.time = 0.0
        self.queue: deque[Work] = deque()
        self.timers: list[tuple[float, int, ManualTimer]] = []
        self.stopped = False
        self._order = itertools.count()

    def now(self) -> float:
        return self.time

    def submit(self, work: Work) -> None:
        if not self.stopped:
            self.queue.append(work)

    def call_later(self, seconds: float, work: Work) -> ManualTimer:
        timer = ManualTimer(self, work)
        heapq.heappush(self.timers, (self.time + seconds, next(self._order), timer))
        return timer

    def stop(self) -> None:
        self.stopped = True
        self.queue.clear()
        self.timers.clear()

    @property
    def waiting_timers(self) -> list[float]:
        """The times of the timers that were not cancelled, earliest first."""
        return [when for when, _, timer in sorted(self.timers) if not timer.cancelled]

    def run(self) -> None:
        """Does all the work, and what that submits."""
        while self.queue:
            self.queue.popleft()()

    def pass_time(self, seconds: float) -> None:
        """Has the timers fire that are due by then, each at its time."""
        until = self.time + seconds
        while self.timers and self.timers[0][0] <= until:
            when, _, timer = heapq.heappop(self.timers)
            self.time = max(self.time, when)
            if not timer.cancelled:
                timer.work()
        self.time = until
