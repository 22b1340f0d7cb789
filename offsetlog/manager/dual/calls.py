"""Runs blocking calls on a few threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from offsetlog._native.completion import Completion
from offsetlog.errors import NotCoordinatorError, OffsetLogError, StorageError
from offsetlog.manager.executor import ThreadExecutor, Timer

T = TypeVar("T")
THREADS = 8


class Calls:
    """Runs calls on its own threads.  Thread-safe.

    Args:
        threads: the largest number of calls that run at a time.
        name: the name of the threads.
    """

    def __init__(self, threads: int = THREADS, name: str = "offsetlog-dual") -> None:
        self._executor = ThreadExecutor(threads, name)
        self._threads = threads
        self._lock = threading.Lock()
        self._waiting: set[Completion[Any]] = set()
        self._stopped = False

    @property
    def are_busy(self) -> bool:
        """Whether all threads are in use, so that a new call would wait for one."""
        return len(self._waiting) >= self._threads

    def begin(self, call: Callable[[], T]) -> Completion[T]:
        """Starts a call on a thread; returns an answer, which completes when the call ends."""
        answer: Completion[T] = Completion()
        with self._lock:
            if self._stopped:
                answer.fail(_stopped())
                return answer
            self._waiting.add(answer)

        def made() -> None:
            give: Callable[[], object]
            try:
                give = partial(answer.succeed, call())
            except OffsetLogError as failure:
                give = partial(answer.fail, failure)
            except Exception as failure:
                wrapped = StorageError(f"{type(failure).__name__}: {failure}")
                wrapped.__cause__ = failure
                give = partial(answer.fail, wrapped)
            self._end(answer, give)

        self._executor.submit(made)
        return answer

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Schedules a short call on the thread of the timers, after `seconds`.

        If `stop` is called before the call has begun, the call is dropped.

        Raises:
            CapacityError: the system cannot start a thread.
        """
        return self._executor.call_later(seconds, call)

    def _end(self, answer: Completion[Any], give: Callable[[], object]) -> None:
        with self._lock:
            self._waiting.discard(answer)
        give()

    def stop(self) -> None:
        """Waits for running calls; fails the calls that have not begun with NotCoordinatorError."""
        with self._lock:
            self._stopped = True
        self._executor.stop()
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        for each in waiting:
            each.fail(_stopped())


def _stopped() -> NotCoordinatorError:
    return NotCoordinatorError("the manager was stopped before the call was answered; nothing was written")
