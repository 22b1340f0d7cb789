"""Limits on what clients can hold of a server: connections, memory for requests, time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from offsetlog.errors import ConfigError

_log = logging.getLogger(__name__)

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits, with the names that Kafka has for them.

    Attributes:
        request_bytes_max: of one request (``socket.request.max.bytes``); a larger one ends its
            connection before it is read.
        queued_request_bytes_max: of all requests that have begun to arrive
            (``queued.max.request.bytes``), but for the first 64 KiB of each, and of all commits that
            wait for a flush; the others are read when there is room.
        connections_max: of all clients (``max.connections``); one more is closed at once.
        connections_per_host_max: of one address (``max.connections.per.ip``); likewise.
        idle_seconds: after this time without a whole request and without one that waits for its
            answer, a connection is closed (``connections.max.idle.ms``).
        requests_in_flight_max: of one connection; more are read when some are answered.

    Raises:
        ConfigError: one of them is not above 0.
    """

    request_bytes_max: int = 100 * MIB
    queued_request_bytes_max: int = 512 * MIB
    connections_max: int = 20_000
    connections_per_host_max: int = 20_000
    idle_seconds: float = 600.0
    requests_in_flight_max: int = 1000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value > 0:
                raise ConfigError(f"{name} must be above 0, and is {value}")


class RequestMemory:
    """The memory for requests that have begun to arrive; who finds none waits in line.

    As in Kafka, a request is let in while anything is left, and may take more than that: so the
    largest one is never kept out, and all together hold less than the limit and one request more.
    Not thread-safe: it belongs to one event loop.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit
        # Ordered as they came.
        self._waiting: dict[Callable[[], None], int] = {}

    @property
    def left(self) -> int:
        """In bytes; below 0 where the last request took more than was left."""
        return self._left

    def take(self, size: int, later: Callable[[], None]) -> bool:
        """Takes `size` bytes, or calls `later` when they have been taken for it."""
        if self._left > 0 and not self._waiting:
            self._left -= size
            return True
        self._waiting[later] = size
        return False

    def add(self, size: int) -> bool:
        """Takes `size` bytes that are held already; returns whether anything is left then."""
        self._left -= size
        return self._left > 0

    def give_back(self, size: int) -> None:
        """Gives back what was taken, to the next in line."""
        self._left += size
        while self._waiting and self._left > 0:
            later = next(iter(self._waiting))
            self._left -= self._waiting.pop(later)
            later()

    def leave(self, later: Callable[[], None]) -> None:
        """Waits no longer."""
        self._waiting.pop(later, None)


class Closable(Protocol):
    """A connection, as far as its limits go."""

    def is_idle(self, since: float) -> bool:
        """Whether nothing has happened since that time."""

    def end(self, reason: str) -> None:
        """Ends it at once."""

    def close(self) -> None:
        """Ends it when what was asked is answered."""


class OpenConnections:
    """The connections of a server.  Not thread-safe: it belongs to one event loop.

    Attributes:
        accepted, refused: how many clients came, and found room or none; any thread may read them.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.memory = RequestMemory(limits.queued_request_bytes_max)
        self._open: dict[Closable, str] = {}
        self._by_host: Counter[str] = Counter()
        self.accepted = self.refused = 0
        self._all_gone: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Closable, host: str) -> bool:
        """Counts a new connection; False where that would be one too many."""
        for count, limit, which in (
            (len(self._open), self.limits.connections_max, "in all"),
            (self._by_host[host], self.limits.connections_per_host_max, "of this address"),
        ):
            if count >= limit:
                text = "%s: refused: there are %d connections %s"
                _log.warning(text, host, count, which, extra={"client": host, "connections": count})
                self.refused += 1
                return False
        self.accepted += 1
        self._open[connection] = host
        self._by_host[host] += 1
        return True

    def remove(self, connection: Closable) -> None:
        """Forgets a connection that has ended, admitted or not."""
        host = self._open.pop(connection, None)
        if host is None:
            return
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        if not self._open and self._all_gone is not None:
            self._all_gone.set()

    def end_idle(self, now: float) -> None:
        """Ends the connections that have been idle for too long; `now` in seconds."""
        since = now - self.limits.idle_seconds
        for connection in [each for each in self._open if each.is_idle(since)]:
            connection.end(f"idle for {self.limits.idle_seconds:g} s")

    async def close_all(self, seconds: float) -> None:
        """Closes all when what they have asked is answered, and after so many seconds at once."""
        self._all_gone = asyncio.Event()
        for connection in list(self._open):
            connection.close()
        if self._open:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), seconds)
        late = list(self._open)
        for connection in late:
            connection.end("the server stops")
        if late:
            # Each hears of it in the next turn of the loop.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), seconds)
