"""`Turns` limits how many runs of one kind of work happen at a time; at most one is on each log."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from offsetlog.cancellation import Control
from offsetlog.errors import ClosedError

#: How often a caller that waits for a turn checks whether it was stopped, in seconds.
STOP_SECONDS = 0.1
#: How often `stop` checks whether all runs have ended, in seconds.
STOPPED_CHECK_SECONDS = 0.002


class Turns:
    """Runs of one kind of work, a few at a time over all logs of a store.  Safe from any thread.

    Args:
        at_once: the largest number of runs at a time; two never run on the same log.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
        self._changed = threading.Condition()
        self._under_way: dict[int, Control] = {}
        self._stopped = False

    @property
    def current(self) -> tuple[int, Control] | None:
        """The log of the oldest run in progress, and its control; None if no run is in progress."""
        return next(iter(self._under_way.copy().items()), None)

    @property
    def is_taken(self) -> bool:
        """Whether a run is in progress."""
        return bool(self._under_way)

    @contextmanager
    def of(self, number: int, control: Control) -> Iterator[None]:
        """Waits for a turn, and holds it during the `with` block.

        Args:
            number: the number of the log partition.
            control: lets the caller stop the run, even while it waits for its turn.

        Raises:
            ClosedError: the run was stopped before it began.
        """
        with self._changed:
            while number in self._under_way or len(self._under_way) >= self._at_once:
                self._changed.wait(STOP_SECONDS)
                control.check()
            self._under_way[number] = control
        try:
            # This is checked after the turn was taken.  Either `stop` then finds this run, or this
            # check sees `_stopped`.
            if self._stopped:
                raise ClosedError("the store is closed")
            control.check()
            yield
        finally:
            with self._changed:
                self._under_way.pop(number)
                self._changed.notify_all()

    def is_at(self, number: int) -> bool:
        """Whether a run on one log is in progress."""
        return number in self._under_way

    def interrupt(self, number: int) -> None:
        """Asks the run in progress on one log to stop; later runs are not affected."""
        control = self._under_way.get(number)
        if control is not None:
            control.stop()

    def stop(self) -> None:
        """Stops the runs in progress and waits until they end; refuses later ones."""
        self._stopped = True
        # Takes no lock, because an interrupt of the caller could leave the lock held for ever.
        while under_way := self._under_way.copy():
            for control in under_way.values():
                control.stop()
            time.sleep(STOPPED_CHECK_SECONDS)
