"""Calls that take long: each on a thread of its own, so that an interrupt of its caller stops it, or the store's end.

A signal is delivered between two instructions of Python, and a run in C has none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from offsetlog._native.cleaner import CleanControl
from offsetlog._native.snapshot import StopFlag
from offsetlog.errors import ClosedError

#: How often who waits looks whether to go on, in seconds.
LOOK_SECONDS = 0.1

Result = TypeVar("Result")


class Control:
    """Stops what one caller asked for, wherever it is, and tells how far it is; any thread may use it."""

    def __init__(self) -> None:
        self.clean = CleanControl()
        self.flag = StopFlag()

    def renew(self) -> None:
        """Begins with the next log: how far it is counts from nothing, and what was stopped stays so."""
        self.clean = CleanControl()
        # Behind it, as `stop` looks for it behind the flag: one of the two sees the other.
        if self.flag.is_set():
            self.clean.stop()

    def stop(self) -> None:
        """Ends it soon."""
        self.flag.set()
        self.clean.stop()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self.flag.is_set()

    def check(self) -> None:
        """Raises ClosedError when it was stopped."""
        if self.stopped:
            raise ClosedError("it was stopped before its end")


def interruptibly(
    work: Callable[[Control], Result], control: Control, look: Callable[[], None] | None = None
) -> Result:
    """Returns what the work does on another thread; what interrupts the waiting stops it, and is raised at its end.

    Args:
        work: gets the control, and ends soon once that is stopped.
        control: of this work alone.
        look: called from here ten times a second.
    """
    results: list[Result] = []
    failures: list[BaseException] = []
    begun: list[bool] = []
    # Held by the work.  An interrupt cannot come between the parts of an Event here, nor let a Thread take itself for
    # ended, as it does in Python 3.11.
    at_work = threading.Lock()
    at_work.acquire()

    def guarded() -> None:
        begun.append(True)
        try:
            control.check()
            results.append(work(control))
        except BaseException as failure:
            failures.append(failure)
        finally:
            at_work.release()

    worker = threading.Thread(target=guarded, name="offsetlog-call", daemon=True)
    try:
        worker.start()
        while not at_work.acquire(timeout=LOOK_SECONDS):
            if look is not None:
                look()
    except BaseException:
        control.stop()
        while begun and not (results or failures) and not at_work.acquire(timeout=LOOK_SECONDS):
            pass
        raise
    if failures:
        raise failures[0]
    return results[0]


class LongCalls:
    """The long calls that are under way in one store."""

    def __init__(self) -> None:
        self._controls: set[Control] = set()
        self._ended = False

    def run(self, work: Callable[[Control], Result], look: Callable[[Control], None] | None = None) -> Result:
        """Does the work; see `interruptibly`.  Raises ClosedError once the store is being closed."""
        control = Control()
        self._controls.add(control)
        try:
            # Behind the `add`, so that `end` either stops this one or keeps it from beginning.
            if self._ended:
                raise ClosedError("the store is closed")
            return interruptibly(work, control, None if look is None else lambda: look(control))
        finally:
            self._controls.discard(control)

    def end(self) -> None:
        """Ends those that are under way soon, and does not wait for it; no other begins."""
        self._ended = True
        for control in list(self._controls):
            control.stop()
