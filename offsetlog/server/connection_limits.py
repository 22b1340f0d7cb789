"""Limits on a server's connections, on the memory for their requests, and on how long slow or idle clients may stay."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from offsetlog.errors import ConfigError
from offsetlog.server.unread_answers import UnreadAnswers

_log = logging.getLogger(__name__)

MIB = 1 << 20
#: The server warns at its start if it has files for fewer connections than this.
FEW_CONNECTIONS = 1000
#: A request that may be read further takes this many bytes in advance.
ADVANCE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits on clients, with Kafka's names in parentheses.

    Attributes:
        request_bytes_max: limit for one request (``socket.request.max.bytes``).  If a client sends
            a larger request, the server ends the connection before it reads the request.
        queued_request_bytes_max: limit for the bytes of all held requests
            (``queued.max.request.bytes``).  Held requests are the parts read so far of incomplete
            requests above 64 KiB, commits that wait for a flush, and requests that wait for the
            server's threads.  At the limit, the server continues to read only the request that
            began first.  If the requests that wait for threads reach the limit by themselves, the
            server does not read that request either.
        connections_max: limit for the connections of all clients (``max.connections``).  The server
            closes further connections at once.
        connections_per_host_max: limit for the connections from one address
            (``max.connections.per.ip``).  The server closes further connections at once.
        idle_seconds: the server closes a connection on which no whole request has arrived for this
            time, unless a request waits for its answer (``connections.max.idle.ms``).
        requests_in_flight_max: limit for the unanswered requests of one connection.  The server
            reads further requests when some are answered.
        unread_answer_bytes_max: limit for the bytes of all answers that clients do not read.  Above
            the limit, the server ends the connection whose answers have waited the longest.
        read_bytes_max: limit for the bytes of all answers to fetches that were read from the disk
            and not sent yet.  At the limit, a fetch waits until earlier answers are sent.
        request_seconds: while requests wait for memory, the server ends a connection whose request
            is still incomplete after this time, or has waited for memory for twice this time.  The
            connection with the oldest request ends first.

    Raises:
        ConfigError: a limit is not above 0.
    """

    request_bytes_max: int = 100 * MIB
    queued_request_bytes_max: int = 512 * MIB
    connections_max: int = 20_000
    connections_per_host_max: int = 20_000
    idle_seconds: float = 600.0
    requests_in_flight_max: int = 1000
    unread_answer_bytes_max: int = 512 * MIB
    read_bytes_max: int = 128 * MIB
    request_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value > 0:
                raise ConfigError(f"{name} must be above 0, not {value}")


class Arriving(Protocol):
    """A connection on which a request has begun to arrive."""

    def read_on(self) -> None:
        """Continues to read the request, because memory is free again; the request's time limit starts again."""

    def is_slow(self, since: float) -> bool:
        """Whether the request is incomplete, and began or last got memory before `since`."""

    def end(self, reason: str) -> None:
        """Ends the connection at once."""


class RequestMemory:
    """Limits the memory of requests that are arriving or held; a request that finds no free memory waits.

    A request takes memory for the bytes that have arrived.  Once no memory is left, the server
    continues to read only the request that began first, so every request arrives in the end,
    however large.  All requests together hold less than the limit plus one request, not counting
    one read of each connection.

    Complete requests that the server has not handled yet also take memory.  While they take the
    whole limit, the server does not continue to read any request, not even the one that began
    first.  Not thread-safe: it belongs to one event loop.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._kept = 0
        # `_taken` is ordered by when requests began, `_waiting` by when they began to wait.
        self._taken: dict[Arriving, int] = {}
        self._waiting: dict[Arriving, None] = {}

    @property
    def left(self) -> int:
        """The bytes that requests may still take; negative if the last request took more than there were."""
        return self._left

    def arrived(self, request: Arriving, size: int) -> bool:
        """Raises a request's share to `size` bytes; returns False if the request must wait for `read_on`."""
        taken = self._taken.setdefault(request, 0)
        if size <= taken:
            return True  # the request got more in advance than has arrived
        self._taken[request] = size
        self._left -= size - taken
        if self._left > 0 or self._may_exceed(request):
            return True
        self._waiting[request] = None
        return False

    def release(self, request: Arriving) -> None:
        """Frees a request's share, since the request was handled or its connection has ended."""
        self._waiting.pop(request, None)
        if request in self._taken:
            self.give_back(self._taken.pop(request))

    def add(self, size: int) -> bool:
        """Counts `size` bytes that are already held; returns whether any memory is left."""
        self._left -= size
        return self._left > 0

    def keep(self, size: int) -> None:
        """Counts `size` bytes of a whole request that is handled later, until `give_back_kept` frees them."""
        self._kept += size
        self._left -= size

    def give_back_kept(self, size: int) -> None:
        """See keep."""
        self._kept -= size
        self.give_back(size)

    def give_back(self, size: int) -> None:
        """Frees `size` bytes, which the next waiting request gets."""
        self._left += size
        first = next(iter(self._taken), None)
        if first is not None and first in self._waiting and self._may_exceed(first):
            self._let_in(first)
        while self._waiting and self._left > 0:
            self._let_in(next(iter(self._waiting)))

    def end_slow(self, now: float, seconds: float) -> None:
        """Ends requests that are incomplete after `seconds`, the oldest first, until no request waits for memory.

        A request that waits for memory is ended only after twice `seconds`, because the server delays it, not its
        client.  When it gets memory, its time begins again.  The wait needs a limit, because the client may have given
        up.  Without a limit, any number of such requests could get memory, one after the other, and then send nothing.
        """
        for request in list(self._taken):
            if not self._waiting:
                return
            if request in self._waiting:
                if request.is_slow(now - 2 * seconds):
                    self._end(request, f"its request waited for memory for more than {2 * seconds:g} s")
            elif request.is_slow(now - seconds):
                reason = f"its request was incomplete after {seconds:g} s while other requests waited for memory"
                self._end(request, reason)

    def _end(self, request: Arriving, reason: str) -> None:
        request.end(reason)
        self.release(request)

    def _may_exceed(self, request: Arriving) -> bool:
        # No request may exceed the limit while kept requests take all of it.  Otherwise each
        # request that becomes whole would be kept, and the next one would be read.
        return self._kept < self._limit and next(iter(self._taken)) is request

    def _let_in(self, request: Arriving) -> None:
        # The request takes some bytes in advance.  Otherwise any number of requests would be read
        # further while one byte is left.
        del self._waiting[request]
        self._taken[request] += ADVANCE_BYTES
        self._left -= ADVANCE_BYTES
        request.read_on()


class Closable(Arriving, Protocol):
    """A connection that the limits can close."""

    def is_idle(self, since: float) -> bool:
        """Whether the connection has been idle from `since` on."""

    def close(self) -> None:
        """Ends the connection when its requests are answered."""


class OpenConnections:
    """The connections of a server.  Not thread-safe: it belongs to one event loop.

    Attributes:
        connections_max: the limit on connections, lowered if too few files can be open.
        memory: the memory for requests.
        unread: the answers that clients have not read.
        accepted, refused: counts of connections; any thread may read them.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.connections_max = limits.connections_max
        self.memory = RequestMemory(limits.queued_request_bytes_max)
        self.unread = UnreadAnswers(limits.unread_answer_bytes_max)
        self._open: dict[Closable, str] = {}
        self._by_host: Counter[str] = Counter()
        self.accepted = self.refused = 0
        self._all_gone: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._open)

    def leave_files(self, most: int | None) -> None:
        """Lowers the limit on connections to `most`, the number of files left for connections; None changes nothing."""
        if most is None or most >= self.connections_max:
            return
        text = (
            "accepting at most %d connections instead of max.connections=%d: logs and other files need the rest "
            "of the limit on open files; to accept more connections, raise ulimit -n"
        )
        level = logging.WARNING if most < FEW_CONNECTIONS else logging.INFO
        _log.log(level, text, most, self.connections_max, extra={"connections": most})
        self.connections_max = most

    def admit(self, connection: Closable, host: str) -> bool:
        """Counts a new connection; returns False if it would exceed a limit."""
        for count, limit, which in (
            (len(self._open), self.connections_max, "in total"),
            (self._by_host[host], self.limits.connections_per_host_max, "from this address"),
        ):
            if count >= limit:
                text = "%s: connection refused: already %d connections %s"
                _log.warning(text, host, count, which, extra={"client": host, "connections": count})
                self.refused += 1
                return False
        self.accepted += 1
        self._open[connection] = host
        self._by_host[host] += 1
        return True

    def remove(self, connection: Closable) -> None:
        """Stops counting a connection that has ended; does nothing if it was not admitted."""
        host = self._open.pop(connection, None)
        if host is None:
            return
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        if not self._open and self._all_gone is not None:
            self._all_gone.set()

    def end_idle(self, now: float) -> None:
        """Ends connections that have been idle, or have kept others waiting for memory, for too long.

        Args:
            now: the time of `time.perf_counter`, in seconds.  It is not the time of the server's
                clock, so a test that advances that clock does not lose its connections.
        """
        since = now - self.limits.idle_seconds
        for connection in [each for each in self._open if each.is_idle(since)]:
            connection.end(f"idle for {self.limits.idle_seconds:g} s")
        self.memory.end_slow(now, self.limits.request_seconds)

    async def close_all(self, seconds: float) -> None:
        """Closes each connection when its requests are answered, or after `seconds` at the latest."""
        self._all_gone = asyncio.Event()
        for connection in list(self._open):
            connection.close()
        if self._open:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), seconds)
        late = list(self._open)
        for connection in late:
            connection.end("the server is stopping")
        if late:
            # Each connection learns of its end in the next iteration of the event loop.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), seconds)
