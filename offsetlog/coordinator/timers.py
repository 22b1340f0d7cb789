"""Deadlines by key, in order of time.  Time is given: nothing here looks at a clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Iterator


class Timers:
    """Deadlines, each under a key that is set again and again.

    Moving a deadline later, as every heartbeat does, costs one store in a dictionary: the heap holds
    an older time for the key, and finds the newer one when that has come.
    """

    def __init__(self) -> None:
        self._deadlines: dict[Hashable, float] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._queued: dict[Hashable, float] = {}
        self._numbers = itertools.count()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._deadlines

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: Hashable, deadline: float) -> None:
        """Sets or moves the deadline of a key, in seconds."""
        self._deadlines[key] = deadline
        queued = self._queued.get(key)
        if queued is None or deadline < queued:
            self._push(key, deadline)

    def postpone(self, key: Hashable, deadline: float) -> None:
        """Moves the deadline of a key, unless that is later already."""
        known = self._deadlines.get(key)
        if known is None or known < deadline:
            self.set(key, deadline)

    def cancel(self, key: Hashable) -> None:
        """Forgets the deadline of a key, if it has one."""
        self._deadlines.pop(key, None)

    def next(self) -> float | None:
        """The earliest time at which `due` may return a key; None: there is none."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Iterator[Hashable]:
        """The keys whose deadline has come, in order of their deadlines; they are set no more.

        Deadlines that are set meanwhile count as well.
        """
        while self._heap and self._heap[0][0] <= now:
            time, _, key = heapq.heappop(self._heap)
            if self._queued.get(key) != time:
                continue  # an earlier entry of the key has replaced this one
            del self._queued[key]
            deadline = self._deadlines.get(key)
            if deadline is None:
                continue
            if deadline > now:
                self._push(key, deadline)
                continue
            del self._deadlines[key]
            yield key

    def _push(self, key: Hashable, deadline: float) -> None:
        self._queued[key] = deadline
        heapq.heappush(self._heap, (deadline, next(self._numbers), key))
