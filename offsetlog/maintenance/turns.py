"""Turns: work that is done on few logs at a time, once on each, and can be stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from offsetlog.cancellation import Control
from offsetlog.errors import ClosedError

#: How often who waits for a turn looks whether it was stopped, in seconds.
STOP_SECONDS = 0.1
#: How often `stop` looks whether all have ended, in seconds.
STOPPED_CHECK_SECONDS = 0.002


class Turns:
    """Runs of one kind of work, few at a time over all logs of a store.  Safe from any thread.

    Args:
        at_once: how many at most; never two on one log.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
        self._changed = threading.Condition()
        self._under_way: dict[int, Control] = {}
        self._stopped = False

    @property
    def current(self) -> tuple[int, Control] | None:
        """The log of the run that began first of those under way, and what stops it; None between two runs."""
        return next(iter(self._under_way.copy().items()), None)

    @property
    def is_taken(self) -> bool:
        """Whether a run is under way."""
        return bool(self._under_way)

    @contextmanager
    def of(self, number: int, control: Control) -> Iterator[None]:
        """Waits for others, and keeps others waiting.

        Args:
            number: of the log partition.
            control: of the caller, who may stop it, also while it waits.

        Raises:
            ClosedError: it was stopped before it began.
        """
        with self._changed:
            while number in self._under_way or len(self._under_way) >= self._at_once:
                self._changed.wait(STOP_SECONDS)
                control.check()
            self._under_way[number] = control
        try:
            # After it has its place, so that `stop` either stops this run or keeps it from beginning.
            if self._stopped:
                raise ClosedError("the store is closed")
            control.check()
            yield
        finally:
            with self._changed:
                self._under_way.pop(number)
                self._changed.notify_all()

    def is_at(self, number: int) -> bool:
        """Whether a run is under way on one log."""
        return number in self._under_way

    def interrupt(self, number: int) -> None:
        """Stops the run under way on one log, soon; others may follow."""
        control = self._under_way.get(number)
        if control is not None:
            control.stop()

    def stop(self) -> None:
        """Stops the runs under way and waits for their end; no other begins."""
        self._stopped = True
        # It takes no lock: an interrupt of the caller could leave that held for ever.
        while under_way := self._under_way.copy():
            for control in under_way.values():
                control.stop()
            time.sleep(STOPPED_CHECK_SECONDS)
