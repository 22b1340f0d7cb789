"""Long calls, which an interrupt of the caller or the close of the store can stop.

Each runs on a thread of its own.  A signal is delivered between two instructions of Python, and a
run in C has none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from offsetlog._native.cleaner import CleanControl
from offsetlog._native.snapshot import StopFlag
from offsetlog.errors import ClosedError

#: How often a caller that waits checks whether to go on, in seconds.
CHECK_SECONDS = 0.1

Result = TypeVar("Result")


class Control:
    """Stops the work of one caller, and knows how far it is.  Safe from any thread."""

    def __init__(self) -> None:
        self.clean = CleanControl()
        self.flag = StopFlag()

    def renew(self) -> None:
        """Begins with the next log: progress starts at zero; a stopped control stays stopped."""
        self.clean = CleanControl()
        # After it, as `stop` reads it after the flag: one of the two sees the other.
        if self.flag.is_set():
            self.clean.stop()

    def stop(self) -> None:
        """Stops the work soon."""
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
    work: Callable[[Control], Result], control: Control, report: Callable[[], None] | None = None
) -> Result:
    """Runs work on another thread; an interrupt of the caller stops it, and is raised at its end.

    Args:
        work: gets the control, and ends soon once that is stopped.
        control: of this work alone.
        report: called from here ten times a second.
    """
    results: list[Result] = []
    failures: list[BaseException] = []
    begun: list[bool] = []
    # Held by the work.  An interrupt cannot come between the parts of an Event here, nor let a
    # Thread take itself for ended, as it does in Python 3.11.
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
        while not at_work.acquire(timeout=CHECK_SECONDS):
            if report is not None:
                report()
    except BaseException:
        control.stop()
        while begun and not (results or failures) and not at_work.acquire(timeout=CHECK_SECONDS):
            pass
        raise
    if failures:
        raise failures[0]
    return results[0]


class LongCalls:
    """The long calls that are under way in one store."""

    def __init__(self) -> None:
        self._controls: set[Control] = set()
        self._stopped = False

    def run(
        self, work: Callable[[Control], Result], report: Callable[[Control], None] | None = None
    ) -> Result:
        """Runs the work (`interruptibly`); raises ClosedError once the store is being closed."""
        control = Control()
        self._controls.add(control)
        try:
            # After the `add`, so that `stop` either stops this one or keeps it from beginning.
            if self._stopped:
                raise ClosedError("the store is closed")
            return interruptibly(work, control, None if report is None else lambda: report(control))
        finally:
            self._controls.discard(control)

    def stop(self) -> None:
        """Stops the calls under way soon, and does not wait for their end; no other begins."""
        self._stopped = True
        for control in list(self._controls):
            control.stop()
