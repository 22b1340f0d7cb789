"""The port through which the server asks for the time and has something done later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from offsetlog.clock import wall_ms


class Timer(Protocol):
    """A call that was ordered for later."""

    def cancel(self) -> None:
        """Takes the order back."""


class Clock(Protocol):
    """The time by which sessions, rebalances and waiting records end; used on the event loop.

    `now_ms` may be asked for on any thread.
    """

    def time(self) -> float:
        """The time in seconds; it never goes back."""

    def now_ms(self) -> int:
        """The time of day, in milliseconds since 1970."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Has a function called on the event loop once `time()` has come to `when`, in seconds."""


class LoopClock:
    """The clock of a running server: that of its event loop, and the system's time of day."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        #: See Clock.  Without a call in between: every read of every connection asks for it.
        self.time = loop.time

    def now_ms(self) -> int:
        """See Clock."""
        return wall_ms()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """See Clock."""
        return self._loop.call_at(when, callback)
