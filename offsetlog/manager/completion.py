"""Answers that come later: commits that wait for W or the disk, changes of leadership, flushes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from offsetlog.errors import CommitTimeoutError

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

#: Guards the ends of all answers: it is held for moments, and an answer of its own lock would cost a commit more.
_ends = threading.Lock()


class Completion(Generic[T]):
    """An answer that comes once: a result, or the error that is raised for it.  Safe from any thread.

    Nothing waits for it on a thread of its own: `result` blocks the thread that calls it, `await`
    and callbacks block none.
    """

    __slots__ = ("_callbacks", "_failure", "_finished", "_result", "_waiting")

    def __init__(self) -> None:
        self._finished = False
        self._result: T | None = None
        self._failure: BaseException | None = None
        self._callbacks: list[Callable[[Any], object]] = []
        self._waiting: threading.Event | None = None

    def done(self) -> bool:
        """Whether the answer is there."""
        return self._finished

    def succeed(self, result: T) -> bool:
        """Gives the result; returns whether this was the first answer, which alone counts."""
        return self._finish(result, None)

    def fail(self, failure: BaseException) -> bool:
        """Gives the error instead."""
        return self._finish(None, failure)

    def _finish(self, result: T | None, failure: BaseException | None) -> bool:
        with _ends:
            if self._finished:
                return False
            self._result, self._failure = result, failure
            self._finished = True
            callbacks, self._callbacks = self._callbacks, []
            waiting = self._waiting
        if waiting is not None:
            waiting.set()
        for callback in callbacks:
            callback(self)
        return True

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Has the callback called with this answer once it is there, at once if it is.

        The thread that answers calls it, with no lock held; it must not raise, nor wait.
        """
        with _ends:
            if not self._finished:
                self._callbacks.append(callback)
                return
        callback(self)

    def result(self, timeout: float | None = None) -> T:
        """Waits for the answer, `timeout` in seconds, and returns or raises it.

        Raises:
            CommitTimeoutError: it is not there in time, and may yet come.
        """
        if not self._finished:
            self._wait(timeout)
        if self._failure is not None:
            raise self._failure
        return cast(T, self._result)

    def _wait(self, timeout: float | None) -> None:
        with _ends:
            if self._finished:
                return
            if self._waiting is None:
                self._waiting = threading.Event()
            waiting = self._waiting
        if not waiting.wait(timeout):
            raise CommitTimeoutError(f"no answer within {timeout} s; it may yet come")

    def __await__(self) -> Generator[Any, None, T]:
        """Waits in the running event loop; other calls of the loop go on."""
        if not self._finished:
            yield from self._future().__await__()
        return self.result(0)

    def _future(self) -> asyncio.Future[None]:
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not future.done():
                future.set_result(None)

        def wake(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(settle)

        self.add_done_callback(wake)
        return future
