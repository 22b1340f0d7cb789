"""The one thread of a simulation: everything that happens is an event, in an order that the seed decides."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable


class Event:
    """Something that is to happen; it can be cancelled."""

    __slots__ = ("cancelled", "name", "work")

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self.name = name
        self.work = work
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Scheduler:
    """Time in seconds, and what happens next.  `trace` holds the last events, for a seed that fails."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.steps = 0
        self.trace: list[str] = []
        self._events: list[tuple[float, float, int, Event]] = []

    def after(self, seconds: float, name: str, work: Callable[[], object]) -> Event:
        """Orders an event; those of one moment come in any order."""
        event = Event(name, work)
        heapq.heappush(self._events, (self.now + seconds, self.random.random(), self.steps, event))
        return event

    def step(self) -> bool:
        """Has the next event happen; returns whether there was one."""
        while self._events:
            when, _, _, event = heapq.heappop(self._events)
            if event.cancelled:
                continue
            self.now = max(self.now, when)
            self.steps += 1
            if event.name:
                self.note(event.name)
            event.work()
            return True
        return False

    def note(self, text: str) -> None:
        """Adds a line to the trace."""
        self.trace.append(f"{self.now:9.3f} {text}")


class NodeExecutor:
    """The executor of one life of a node: its work is gone when the node dies."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self._scheduler = scheduler
        self._name = name
        self.is_alive = True
        #: Seconds that work of the disk takes at most; a slow disk has more.
        self.slowness = 0.002
        #: How far the clock of this node is ahead; it never goes back, and may jump.
        self.skew = 0.0

    def now(self) -> float:
        return self._scheduler.now + self.skew

    def submit(self, work: Callable[[], object]) -> None:
        delay = self._scheduler.random.random() * self.slowness
        self._scheduler.after(delay, "", lambda: self._run(work))

    def call_later(self, seconds: float, work: Callable[[], object]) -> Event:
        return self._scheduler.after(seconds, "", lambda: self._run(work))

    def _run(self, work: Callable[[], object]) -> None:
        if self.is_alive:
            work()

    def stop(self) -> None:
        self.is_alive = False
