"""Work that sends a storage several requests, each after the previous answer, without a waiting thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from offsetlog._native.completion import Completion
from offsetlog.errors import OffsetLogError, StorageError

T = TypeVar("T")


class Awaited(Protocol):
    """An answer to wait for, from the connection or from other work."""

    def done(self) -> bool:
        """Whether the answer has come."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Calls the callback with this object once the answer has come."""


#: The steps of work: a generator that yields answers to wait for, continues once all have come, and returns the result.
Steps = Generator[Sequence[Awaited], None, T]


class AbandonedError(Exception):
    """Ends the steps of work that was answered early: its timeout passed, or the manager stopped."""


class _Countdown:
    def __init__(self, count: int, last: Callable[[], object]) -> None:
        self._left = count
        self._last = last
        self._lock = threading.Lock()

    def __call__(self, _: object) -> None:
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._last()


class Work(Completion[T]):
    """Running steps and their result.

    The caller's thread runs the first steps; the threads that bring answers run the others.  Work may be answered from
    outside before its steps end.  The steps then continue up to their next `check`, so `ended` is called only once
    nothing of the work runs any more.

    Args:
        steps: creates the steps.
        ended: called with the work once its steps have ended.
        allow: raises an error if requests are forbidden now.

    Attributes:
        is_sent: whether a write was sent and not refused.
        is_writing: whether a write is being sent or about to be.
        node: the first node that the last write concerns.
        group: the group in whose turns it runs, or None.
        synced_session: the session whose reads see every write that was answered earlier, to any client; or None.
    """

    def __init__(
        self,
        steps: Callable[[Work[T]], Steps[T]],
        ended: Callable[[Work[T]], object],
        allow: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__()
        self.is_sent = False
        self.is_writing = False
        self.node: str | None = None
        self.group: str | None = None
        self.synced_session: int | None = None
        self._steps = steps(self)
        self._ended = ended
        self._allow = allow

    def check(self) -> None:
        """Raises AbandonedError if the work was answered, or the error of `allow`; call it before each request."""
        if self.done():
            raise AbandonedError
        self._allow()

    def go_on(self) -> None:
        """Runs the steps up to the first answer that has not come yet."""
        answer: Callable[[], object]
        try:
            while True:
                waiting = [each for each in next(self._steps) if not each.done()]
                if waiting:
                    countdown = _Countdown(len(waiting), self.go_on)
                    for each in waiting:
                        each.add_done_callback(countdown)
                    return
        except StopIteration as end:
            answer = partial(self.succeed, end.value)
        except AbandonedError as end:
            answer = partial(self.fail, end)  # has no effect: the work was answered before
        except OffsetLogError as failure:
            answer = partial(self.fail, failure)
        except Exception as failure:
            wrapped = StorageError(f"{type(failure).__name__}: {failure}")
            wrapped.__cause__ = failure
            answer = partial(self.fail, wrapped)
        except BaseException as interrupt:
            # An interrupt of the calling thread.  If this work did not end, others would wait for its turn for ever.
            text = f"{type(interrupt).__name__} while the request to ZooKeeper was being sent"
            self._end(partial(self.fail, StorageError(text)))
            raise
        self._end(answer)

    def _end(self, answer: Callable[[], object]) -> None:
        # Ended first, so that the next work in turn begins before callers that get the answer send more.
        try:
            self._ended(self)
        finally:
            answer()
