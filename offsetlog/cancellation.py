"""Long calls that stop when the caller is interrupted or the store is closed.

Each call runs on its own thread.  Python delivers a signal only between two Python instructions, so
a long call into C would delay it.
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
    """Stops the work of one caller, and holds its progress.  Safe from any thread."""

    def __init__(self) -> None:
        self.clean = CleanControl()
        self.flag = StopFlag()

    def renew(self) -> None:
        """Sets the progress to zero for the next log; a stopped control stays stopped."""
        self.clean = CleanControl()
        # Checked after the assignment: `stop` sets the flag first and then reads `clean`, so one of the two sees the
        # other.
        if self.flag.is_set():
            self.clean.stop()

    def stop(self) -> None:
        """Asks the work to stop, without waiting for its end."""
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

    If the caller is interrupted, the work is asked to stop, and the interrupt is raised once the work
    has ended.

    Args:
        work: receives the control, and must end soon after the control is stopped.
        control: the control of this work alone.
        report: called on the caller's thread ten times a second.
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
    """The long calls in progress in one store."""

    def __init__(self) -> None:
        self._controls: set[Control] = set()
        self._stopped = False

    def run(
        self, work: Callable[[Control], Result], report: Callable[[Control], None] | None = None
    ) -> Result:
        """Runs the work as `interruptibly` does; raises ClosedError once the close of the store has begun."""
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
        """Asks the calls in progress to stop, without waiting for them; later calls are refused."""
        self._stopped = True
        for control in list(self._controls):
            control.stop()
