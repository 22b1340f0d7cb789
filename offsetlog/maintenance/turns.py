"""Turns: work that is done on one log at a time, and can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from offsetlog.cancellation import Control
from offsetlog.errors import ClosedError

#: How often `stop` stops the run under way, which another may follow, in seconds.
STOP_SECONDS = 0.1


class Turns:
    """Runs of one kind of work, one at a time over all logs of a store.  Safe from any thread."""

    def __init__(self) -> None:
        #: The log of the run under way, and what stops it; None between two runs.
        self.current: tuple[int, Control] | None = None
        self._turn = threading.Lock()
        self._stopped = False

    @property
    def is_taken(self) -> bool:
        """Whether a run is under way."""
        return self.current is not None

    @contextmanager
    def of(self, number: int, control: Control) -> Iterator[None]:
        """Waits for the others, and keeps them waiting.

        Args:
            number: of the log partition.
            control: of the caller, who may stop it, also while it waits.

        Raises:
            ClosedError: it was stopped before it began.
        """
        while not self._turn.acquire(timeout=STOP_SECONDS):
            control.check()
        try:
            self.current = (number, control)
            # After `current`, so that `stop` either stops this run or keeps it from beginning.
            if self._stopped:
                raise ClosedError("the store is closed")
            control.check()
            yield
        finally:
            self.current = None
            self._turn.release()

    def is_at(self, number: int) -> bool:
        """Whether a run is under way on one log."""
        current = self.current
        return current is not None and current[0] == number

    def interrupt(self, number: int) -> None:
        """Stops the run under way on one log, soon; others may follow."""
        current = self.current
        if current is not None and current[0] == number:
            current[1].stop()

    def stop(self) -> None:
        """Stops the run under way and waits for its end; no other begins."""
        self._stopped = True
        while not self._turn.acquire(timeout=STOP_SECONDS):
            current = self.current
            if current is not None:
                current[1].stop()
        self._turn.release()
