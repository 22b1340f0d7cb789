"""A clock that runs with real time and that a test can move ahead."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable

from offsetlog._native.clocks import ManualClock
from offsetlog.clock import wall_ms
from offsetlog.manager.executor import Executor, Timer, Work
from offsetlog.server import clock


class _Deadline:
    __slots__ = ("_when", "callback")

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self._when = when
        self.callback: Callable[[], object] | None = callback

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """A clock for a server whose clients use real time (see offsetlog.server.clock.Clock).

    Clients send heartbeats by their own clocks, so this clock runs at the same pace as theirs.  `advance` moves this
    clock ahead of them.  The clock must be used on the event loop; only `now_ms` and `offset` may be used on any
    thread.

    Args:
        loop: the server's event loop.

    Attributes:
        offset: how far the clock is ahead of real time, in seconds.
        store_clock: the ManualClock of the log directory, which is set whenever the time is read.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.offset = 0.0
        self.store_clock = ManualClock(wall_ms())
        self._loop = loop
        self._deadlines: list[tuple[float, int, _Deadline]] = []
        self._numbers = itertools.count()
        self._alarm: asyncio.TimerHandle | None = None
        self._is_advancing = False
        self._turn = asyncio.Lock()

    def time(self) -> float:
        """See Clock."""
        self.now_ms()
        return self._loop.time() + self.offset

    def now_ms(self) -> int:
        """See Clock."""
        now = wall_ms() + round(self.offset * 1000)
        self.store_clock.milliseconds = now
        return now

    def call_at(self, when: float, callback: Callable[[], object]) -> clock.Timer:
        """See Clock."""
        deadline = _Deadline(when, callback)
        heapq.heappush(self._deadlines, (when, next(self._numbers), deadline))
        self._arm()
        return deadline

    def call_later(self, seconds: float, callback: Callable[[], object]) -> clock.Timer:
        """Calls a function after this clock has moved by `seconds`, by real time or because `advance` moved it."""
        return self.call_at(self.time() + seconds, callback)

    async def advance(self, seconds: float, settle: Callable[[], Awaitable[object]]) -> None:
        """Moves the clock ahead.  On the way, the calls that are scheduled are made in order, each at its own time.

        Concurrent calls of this method run one after another.  Each starts at the time that the previous call reached.

        Args:
            seconds: how far to move the clock, at least 0.
            settle: a function that waits until all work that a scheduled call has started is done.  The work may
                schedule more calls.
        """
        async with self._turn:
            await self._advance(seconds, settle)

    async def _advance(self, seconds: float, settle: Callable[[], Awaitable[object]]) -> None:
        target = self.offset + seconds
        self._is_advancing = True
        try:
            while (when := self._first()) is not None and when <= self._loop.time() + target:
                self.offset = min(target, max(self.offset, when - self._loop.time()))
                self._call_due()
                await settle()
        finally:
            self._is_advancing = False
            self.offset = max(self.offset, target)
            self.now_ms()
            self._arm()

    def close(self) -> None:
        """Drops all scheduled calls."""
        self._deadlines.clear()
        self._arm()

    def _first(self) -> float | None:
        while self._deadlines and self._deadlines[0][2].callback is None:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _arm(self) -> None:
        first = self._first()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if first is not None and not self._is_advancing:
            self._alarm = self._loop.call_at(first - self.offset, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        try:
            self._call_due()
        finally:
            self._arm()    # if one of them fails, the others still come

    def _call_due(self) -> None:
        # The event loop may call early by the resolution of its clock: what is due now is called.
        now = self.time()
        while (first := self._first()) is not None and first <= now:
            callback = heapq.heappop(self._deadlines)[2].callback
            if callback is not None:
                callback()


class VirtualExecutor:
    """An executor whose time is ahead of real time by as much as the clock (see Executor).

    Its timers run in real time.

    Args:
        inner: the executor that runs the work.
        clock: the clock that determines how far the time is ahead.
    """

    def __init__(self, inner: Executor, clock: VirtualClock) -> None:
        self._inner = inner
        self._clock = clock

    def now(self) -> float:
        """See Executor."""
        return self._inner.now() + self._clock.offset

    def submit(self, work: Work) -> None:
        """See Executor."""
        self._inner.submit(work)

    def call_later(self, seconds: float, work: Work) -> Timer:
        """See Executor."""
        return self._inner.call_later(seconds, work)

    def stop(self) -> None:
        """See Executor."""
        self._inner.stop()
