"""The interface through which a manager runs slow work: loads, flushes and timers.

A running broker uses `ThreadExecutor`.  A program that controls time passes an executor of its
own.  For example, a simulation runs all work on one thread, in an order that depends on its seed.
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

from offsetlog.errors import CapacityError

_log = logging.getLogger(__name__)

Work = Callable[[], object]


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancels the call; does nothing if the call has begun."""


class Executor(Protocol):
    """Runs work of a manager.  Any thread may call any method."""

    def now(self) -> float:
        """Returns the time of a monotonic clock, in seconds."""

    def submit(self, work: Work) -> None:
        """Schedules the work to run once.  The work never runs within this call."""

    def call_later(self, seconds: float, work: Work) -> Timer:
        """Schedules the work to run once, after `seconds`."""

    def stop(self) -> None:
        """Waits for running work, and drops work that has not begun."""


#: Below this number of timers, cancelled timers are not dropped.
_TIMERS_UNCHECKED = 64


class _ThreadTimer:
    __slots__ = ("_timers", "cancelled", "work")

    def __init__(self, timers: _Timers, work: Work) -> None:
        self._timers = timers
        self.work = work
        self.cancelled = False

    def cancel(self) -> None:
        self._timers.cancel(self)


class _Timers:
    """A thread that runs scheduled calls in the order of their times; the calls must be short.

    Most timers are cancelled long before their time.  A cancelled timer does not keep its work in
    memory.  When more than half of all timers are cancelled, the cancelled ones are dropped.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, _ThreadTimer]] = []
        self._cancelled = 0
        self._thread: threading.Thread | None = None
        self._order = itertools.count()
        self._stopped = False

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, when: float, work: Work) -> _ThreadTimer:
        timer = _ThreadTimer(self, work)
        with self._changed:
            if self._stopped:
                return timer
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                _start(thread)
                self._thread = thread
            heapq.heappush(self._heap, (when, next(self._order), timer))
            if self._heap[0][2] is timer:
                self._changed.notify()
        return timer

    def cancel(self, timer: _ThreadTimer) -> None:
        with self._changed:
            if timer.cancelled:
                return
            timer.cancelled = True
            timer.work = _nothing
            self._cancelled += 1
            if len(self._heap) > _TIMERS_UNCHECKED and 2 * self._cancelled > len(self._heap):
                self._heap = [each for each in self._heap if not each[2].cancelled]
                heapq.heapify(self._heap)
                self._cancelled = 0

    def stop(self) -> threading.Thread | None:
        """Drops all scheduled calls; returns the thread of the timers, which ends soon."""
        with self._changed:
            self._stopped = True
            self._heap.clear()
            self._changed.notify_all()
            return self._thread

    def _next(self) -> Work | None:
        with self._changed:
            while not self._stopped:
                left = self._heap[0][0] - time.monotonic() if self._heap else None
                if left is not None and left <= 0:
                    timer = heapq.heappop(self._heap)[2]
                    if not timer.cancelled:
                        timer.cancelled = True  # a timer that is cancelled from now on is no longer in the heap
                        return timer.work
                    self._cancelled = max(0, self._cancelled - 1)
                    continue
                self._changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
        return None

    def _run(self) -> None:
        while (work := self._next()) is not None:
            _run_one(work)


class ThreadExecutor:
    """Runs work on a few threads, which start with the first work.

    Args:
        threads: the largest number of threads.  One more thread runs the timers; their work must
            be short.
        name: the name of the threads.
    """

    def __init__(self, threads: int, name: str = "offsetlog-manager") -> None:
        self._limit = threads
        self._name = name
        self._changed = threading.Condition()
        self._queue: deque[Work] = deque()
        self._workers: list[threading.Thread] = []
        self._idle = 0
        self._timers = _Timers(f"{name}-timers")
        self._stopped = False

    def now(self) -> float:
        """Returns the time in seconds; see Executor."""
        return time.monotonic()

    def submit(self, work: Work) -> None:
        """Runs the work on one of the threads.  After `stop`, the work is dropped.

        Raises:
            CapacityError: the system cannot start a thread.
        """
        with self._changed:
            if self._stopped:
                return
            if self._idle <= len(self._queue) and len(self._workers) < self._limit:
                self._add_worker()
            self._queue.append(work)
            self._changed.notify()

    def _add_worker(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            _start(thread)
        except CapacityError:
            if not self._workers:
                raise
            return  # the existing threads run it
        self._workers.append(thread)

    def call_later(self, seconds: float, work: Work) -> Timer:
        """Runs the work later on the thread of the timers.  After `stop`, the work is dropped.

        Raises:
            CapacityError: the system cannot start a thread.
        """
        return self._timers.add(self.now() + seconds, work)

    def stop(self) -> None:
        """Waits for running work, and drops work that has not begun; see Executor."""
        with self._changed:
            self._stopped = True
            self._queue.clear()
            self._changed.notify_all()
            threads = list(self._workers)
        timers = self._timers.stop()
        if timers is not None:
            threads.append(timers)
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


def executors(given: Executor | None, threads: int) -> tuple[Executor, Executor]:
    """Returns the executor for loads and the executor for flushes.

    If the host passed its own executor, both are that executor.  Otherwise they are two executors,
    so that no flush waits for a load.
    """
    if given is not None:
        return given, given
    return ThreadExecutor(threads), ThreadExecutor(threads, "offsetlog-flusher")


def _nothing() -> None:
    """Replaces work that was cancelled."""


def _start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError as failure:
        raise CapacityError(f"cannot start the thread {thread.name}: {failure}") from failure


def _run_one(work: Work) -> None:
    # Work reports its failures itself.  If an exception ended the thread, all later work would
    # wait.
    try:
        work()
    except BaseException:
        _log.exception("a background call of the manager failed")
