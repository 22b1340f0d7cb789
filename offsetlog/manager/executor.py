"""The port through which a manager does what takes time: loads, flushes, timers.

`ThreadExecutor` is the one of a running broker.  A host that owns the time hands in its own: a
simulation runs everything on one thread, in an order that its seed decides.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

_log = logging.getLogger(__name__)

Work = Callable[[], object]


class Timer(Protocol):
    """A call that was ordered for later."""

    def cancel(self) -> None:
        """Takes the order back; does nothing where the call has begun."""


class Executor(Protocol):
    """Runs work of a manager.  Every method can be called from any thread."""

    def now(self) -> float:
        """Returns the time in seconds, by a clock that never goes back."""

    def submit(self, work: Work) -> None:
        """Has the work run once, later; never in the call itself."""

    def call_later(self, seconds: float, work: Work) -> Timer:
        """Has the work run once, when so many seconds have passed."""

    def stop(self) -> None:
        """Waits for the work under way, and drops the rest."""


class _ThreadTimer:
    __slots__ = ("cancelled", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ThreadExecutor:
    """Runs work on a few threads, which start with the first of it.

    Args:
        threads: how many at a time.  Timers have a thread of their own, and their work is short.
        name: that the threads carry.
    """

    def __init__(self, threads: int, name: str = "offsetlog-manager") -> None:
        self._limit = threads
        self._name = name
        self._changed = threading.Condition()
        self._queue: deque[Work] = deque()
        self._workers: list[threading.Thread] = []
        self._idle = 0
        self._timers: list[tuple[float, int, _ThreadTimer]] = []
        self._timers_changed = threading.Condition()
        self._timer_thread: threading.Thread | None = None
        self._order = itertools.count()
        self._stopped = False

    def now(self) -> float:
        """Returns the time in seconds; see Executor."""
        return time.monotonic()

    def submit(self, work: Work) -> None:
        """Has the work run on one of the threads; dropped after `stop`."""
        with self._changed:
            if self._stopped:
                return
            self._queue.append(work)
            if self._idle < len(self._queue) and len(self._workers) < self._limit:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._workers.append(thread)
                thread.start()
            self._changed.notify()

    def call_later(self, seconds: float, work: Work) -> Timer:
        """Has the work run on the timers' thread; dropped after `stop`."""
        timer = _ThreadTimer(work)
        with self._timers_changed:
            if self._stopped:
                return timer
            heapq.heappush(self._timers, (self.now() + seconds, next(self._order), timer))
            if self._timer_thread is None:
                self._timer_thread = threading.Thread(
                    target=self._run_timers, name=f"{self._name}-timers", daemon=True
                )
                self._timer_thread.start()
            self._timers_changed.notify()
        return timer

    def stop(self) -> None:
        """Waits for the work under way, and drops the rest; see Executor."""
        with self._changed:
            self._stopped = True
            self._queue.clear()
            self._changed.notify_all()
        with self._timers_changed:
            self._timers.clear()
            self._timers_changed.notify_all()
        threads = [*self._workers, *([self._timer_thread] if self._timer_thread else [])]
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._queue and not self._stopped:
                    self._changed.wait()
                self._idle -= 1
                if self._stopped:
                    return
                work = self._queue.popleft()
            _run_one(work)

    def _next_timer(self) -> _ThreadTimer | None:
        with self._timers_changed:
            while not self._stopped:
                left = self._timers[0][0] - self.now() if self._timers else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._timers)[2]
                self._timers_changed.wait(left)
        return None

    def _run_timers(self) -> None:
        while (timer := self._next_timer()) is not None:
            if not timer.cancelled:
                _run_one(timer.work)


def _run_one(work: Work) -> None:
    # Work reports its failures itself; a thread that died of one would let all later work wait.
    try:
        work()
    except Exception:
        _log.exception("work of the manager failed")
