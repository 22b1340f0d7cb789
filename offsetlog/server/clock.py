"""The port through which the server reads the time and schedules calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from offsetlog.clock import wall_ms


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancels the call."""


class Clock(Protocol):
    """The time by which sessions, rebalances and waiting records end; used on the event loop.

    `now_ms` may be called on any thread.
    """

    def time(self) -> float:
        """The time in seconds; it never goes back."""

    def now_ms(self) -> int:
        """The time of day, in milliseconds since 1970."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Schedules a function on the event loop for when `time()` reaches `when`, in seconds."""


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
