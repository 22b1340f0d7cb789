"""Work that sends requests to a storage, each after the answer to the previous one; no thread waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from offsetlog._native.completion import Completion
from offsetlog.errors import OffsetLogError, StorageError

T = TypeVar("T")


class Awaited(Protocol):
    """An answer for which work waits; it comes from the connection or from other work."""

    def done(self) -> bool:
        """Whether the answer has come."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Registers a function that is called with this object once the answer has come."""


#: The steps of work: a generator that yields the answers for which it waits, continues once all of them have come, and
#: returns the result.
Steps = Generator[Sequence[Awaited], None, T]


class AbandonedError(Exception):
    """Ends the steps of work that was answered before its end: its timeout passed, or the manager was stopped."""


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

    The thread of the caller runs the first steps.  The threads that bring the answers run the other steps.  Another
    thread may answer the work before its steps end, for example when its timeout passes.  The steps then continue up
    to their next call of `check`.  `ended` is called only when no step runs any more.

    Args:
        steps: creates the steps.
        ended: called with the work once its steps have ended.
        allow: raises an error if the work may not send requests now.

    Attributes:
        is_sent: whether a write was sent, and was not refused.
        is_writing: whether a write is being sent, or is about to be sent.
        node: the first node that the last write concerns.
        group: the group whose order of turns the work follows; None if the work needs no turn.
        synced_session: a session in which reads see every write of any client that was answered before; or None.
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
        """Raises AbandonedError if the work has been answered, or the error of `allow`.

        The steps must call this method before each request.
        """
        if self.done():
            raise AbandonedError
        self._allow()

    def go_on(self) -> None:
        """Runs the steps until they wait for an answer that has not come yet."""
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
            # The calling thread was interrupted.  If this work did not end, other work would wait for its turn for
            # ever.
            text = f"{type(interrupt).__name__} while the request to ZooKeeper was being sent"
            self._end(partial(self.fail, StorageError(text)))
            raise
        self._end(answer)

    def _end(self, answer: Callable[[], object]) -> None:
        # `ended` is called first, so that the next work in turn begins before the callers get the answer and send more.
        try:
            self._ended(self)
        finally:
            answer()
