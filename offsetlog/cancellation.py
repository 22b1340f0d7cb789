"""Long calls that stop when the caller is interrupted or the store is closed.

Each call runs on a thread of its own, because Python delivers a signal only between two Python instructions.  A long
call into C on the caller's thread would delay the signal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from offsetlog._native.cleaner import CleanControl
from offsetlog._native.snapshot import StopFlag
from offsetlog.errors import ClosedError

#: The interval at which a waiting caller checks for an interrupt, in seconds.
CHECK_SECONDS = 0.1

Result = TypeVar("Result")


class Control:
    """Stops the work of one caller, and holds the progress of the work.  Any thread may use the object."""

    def __init__(self) -> None:
        self.clean = CleanControl()
        self.flag = StopFlag()

    def renew(self) -> None:
        """Sets the progress to zero for the next log.  If `stop` was called, the control stays stopped."""
        self.clean = CleanControl()
        # Checked after the assignment: `stop` sets the flag first and then reads `clean`, so one of the two sees the
        # other.
        if self.flag.is_set():
            self.clean.stop()

    def stop(self) -> None:
        """Asks the work to stop, and returns without waiting for its end."""
        self.flag.set()
        self.clean.stop()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self.flag.is_set()

    def check(self) -> None:
        """Raises ClosedError if `stop` was called."""
        if self.stopped:
            raise ClosedError("the call was stopped before it had finished")


def interruptibly(
    work: Callable[[Control], Result], control: Control, report: Callable[[], None] | None = None
) -> Result:
    """Runs work on another thread, and returns its result.

    If the caller is interrupted, the call asks the work to stop, waits until the work has ended, and then raises the
    interrupt.

    Args:
        work: a function that gets the control as its argument.  It must end soon after the control is stopped.
        control: the control that stops this work; no other work may use it.
        report: a function that is called ten times a second on the caller's thread.
    """
    results: list[Result] = []
    failures: list[BaseException] = []
    begun: list[bool] = []
    # The work holds this lock.  An Event is not safe here, because an interrupt can come between
    # its steps.  Thread.join is not safe either: after an interrupt, Python 3.11 takes a running
    # thread for ended.
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
    """The long calls that are in progress in one store."""

    def __init__(self) -> None:
        self._controls: set[Control] = set()
        self._stopped = False

    def run(
        self, work: Callable[[Control], Result], report: Callable[[Control], None] | None = None
    ) -> Result:
        """Runs the work as `interruptibly` does.  Raises ClosedError if `stop` was called."""
        control = Control()
        self._controls.add(control)
        try:
            # Checked after the `add`, so that either `stop` finds this control or this check sees `_stopped`.
            if self._stopped:
                raise ClosedError("the store is closed")
            return interruptibly(work, control, None if report is None else lambda: report(control))
        finally:
            self._controls.discard(control)

    def stop(self) -> None:
        """Asks the calls in progress to stop, without waiting for them.  Later calls raise ClosedError."""
        self._stopped = True
        for control in list(self._controls):
            control.stop()
