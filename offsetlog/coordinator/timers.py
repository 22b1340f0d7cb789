"""Deadlines by key, in the order of their times.  The caller passes in the time; this module reads no clock."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Hashable, Iterator


class Timers:
    """Deadlines by key, for deadlines that are often postponed.

    Every heartbeat postpones a deadline.  To postpone a deadline costs little: the new time is stored in a dictionary,
    and the heap keeps the old time of the key.  When the old time comes, `due` looks up the new time.
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
        """Sets the deadline of a key, in seconds; replaces an earlier deadline of the key."""
        self._deadlines[key] = deadline
        queued = self._queued.get(key)
        if queued is None or deadline < queued:
            self._push(key, deadline)

    def postpone(self, key: Hashable, deadline: float) -> None:
        """Moves the deadline of a key to the given time, unless the deadline is already later."""
        known = self._deadlines.get(key)
        if known is None or known < deadline:
            self.set(key, deadline)

    def cancel(self, key: Hashable) -> None:
        """Removes the deadline of a key, if it has one."""
        self._deadlines.pop(key, None)

    def next(self) -> float | None:
        """Returns the earliest time at which `due` may return a key; None if there are no keys."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Iterator[Hashable]:
        """Removes and yields the keys whose deadlines have passed, in the order of the deadlines.

        Yields each key at most once.  A deadline that is set during the call is left to the next call, even if it has
        passed already.  Otherwise a key whose deadline is always set again would keep the call from ending.
        """
        come: deque[tuple[float, Hashable]] = deque()
        while self._heap and self._heap[0][0] <= now:
            time, _, key = heapq.heappop(self._heap)
            come.append((time, key))
        try:
            while come:
                time, key = come.popleft()
                if self._takes(time, key, now):
                    yield key
        finally:
            for time, key in come:    # the caller stopped the iteration early
                heapq.heappush(self._heap, (time, next(self._numbers), key))

    def _takes(self, time: float, key: Hashable, now: float) -> bool:
        # Returns whether an entry of the heap is a deadline that has passed; if so, removes it.
        if self._queued.get(key) != time:
            return False    # an earlier entry of the key has replaced this one
        del self._queued[key]
        deadline = self._deadlines.get(key)
        if deadline is None:
            return False
        if deadline > now:
            self._push(key, deadline)
            return False
        del self._deadlines[key]
        return True

    def _push(self, key: Hashable, deadline: float) -> None:
        self._queued[key] = deadline
        heapq.heappush(self._heap, (deadline, next(self._numbers), key))
