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
    """The clock by which sessions, rebalances and writes of group records time out; used on the event loop.

    `now_ms` may be called on any thread.
    """

    def time(self) -> float:
        """The time in seconds, which never goes back."""

    def now_ms(self) -> int:
        """The time of day, in milliseconds since 1970."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Schedules a function: the event loop calls it when `time()` reaches `when`, in seconds."""


class LoopClock:
    """The clock of a running server: the event loop's time, and the system's time of day."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        #: See Clock.  This is the loop's own method, because every read of every connection calls
        #: it.
        self.time = loop.time

    def now_ms(self) -> int:
        """See Clock."""
        return wall_ms()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """See Clock."""
        return self._loop.call_at(when, callback)
