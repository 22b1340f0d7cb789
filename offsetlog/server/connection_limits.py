"""Limits on what clients can hold of a server: connections, memory for requests, time."""

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
#: If there are files for fewer, that is worth a warning at the start.
FEW_CONNECTIONS = 1000
#: Taken for a request that may be read on, before more of it arrives.
ADVANCE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits; Kafka's name of each is in parentheses.

    Attributes:
        request_bytes_max: of one request (``socket.request.max.bytes``); a larger one ends its
            connection before it is read.
        queued_request_bytes_max: of what has arrived of requests above 64 KiB that are not whole
            (``queued.max.request.bytes``), of commits that wait for a flush, and of requests that
            wait for the server's threads; when there is no more, only the request that began first
            is read on, and not even that one while those that wait for threads take all.
        connections_max: of all clients (``max.connections``); one more is closed at once.
        connections_per_host_max: of one address (``max.connections.per.ip``); likewise.
        idle_seconds: after this time without a whole request and without one that waits for its
            answer, a connection is closed (``connections.max.idle.ms``).
        requests_in_flight_max: of one connection; more are read when some are answered.
        unread_answer_bytes_max: of answers that clients do not read, in all; above it the connection
            ends whose answers have waited the longest.
        read_bytes_max: of answers to fetches that are read from the disk and not written yet, in
            all; a fetch that finds no room waits for those before it.
        request_seconds: while requests wait for memory, those that are not whole after this time
            end their connections, the oldest first; those that wait after twice this time.

    Raises:
        ConfigError: one of them is not above 0.
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
        """Continues reading: there is memory for all or part of the rest.  Its time limit starts again."""

    def is_slow(self, since: float) -> bool:
        """Whether the request is incomplete and began, or last got memory, before that time."""

    def end(self, reason: str) -> None:
        """Ends the connection at once."""


class RequestMemory:
    """Limits the memory of requests that arrive or are held; requests that find none wait.

    A request takes what has arrived of it.  Once nothing is left, only the one that began first is
    read on: so each is whole some day, the largest too, and all together hold less than the limit
    and one request more, besides what is read of a connection at a time.  The memory of whole
    requests that the server has not handled yet may take the limit and one request more, too: then
    nothing is read on until it has.
    Not thread-safe: it belongs to one event loop.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._kept = 0
        # Both ordered: by when the requests began, and by when they began to wait.
        self._taken: dict[Arriving, int] = {}
        self._waiting: dict[Arriving, None] = {}

    @property
    def left(self) -> int:
        """Bytes left; negative if the last request took more than was left."""
        return self._left

    def arrived(self, request: Arriving, size: int) -> bool:
        """Raises a request's share to `size` bytes; False if it must wait for `read_on`."""
        taken = self._taken.setdefault(request, 0)
        if size <= taken:
            return True  # it was let in for more than has come since
        self._taken[request] = size
        self._left -= size - taken
        if self._left > 0 or self._may_exceed(request):
            return True
        self._waiting[request] = None
        return False

    def release(self, request: Arriving) -> None:
        """Returns a request's share: the request was handled, or its connection has ended."""
        self._waiting.pop(request, None)
        if request in self._taken:
            self.give_back(self._taken.pop(request))

    def add(self, size: int) -> bool:
        """Counts `size` bytes that are already held; returns whether any memory is left."""
        self._left -= size
        return self._left > 0

    def keep(self, size: int) -> None:
        """Counts `size` bytes of a whole request that is handled later, until `give_back_kept`."""
        self._kept += size
        self._left -= size

    def give_back_kept(self, size: int) -> None:
        """See keep."""
        self._kept -= size
        self.give_back(size)

    def give_back(self, size: int) -> None:
        """Returns bytes, which the next waiting request gets."""
        self._left += size
        first = next(iter(self._taken), None)
        if first is not None and first in self._waiting and self._may_exceed(first):
            self._let_in(first)
        while self._waiting and self._left > 0:
            self._let_in(next(iter(self._waiting)))

    def end_slow(self, now: float, seconds: float) -> None:
        """Ends requests that are incomplete after `seconds`, the oldest first, until none waits.

        The time of one that had to wait begins again when it is let in.  Until then it has twice the
        time: it is not what keeps memory from others.  But clients give up at some time, and any
        number that wait and then send nothing would have their turns one after the other.
        """
        for request in list(self._taken):
            if not self._waiting:
                return
            if request in self._waiting:
                if request.is_slow(now - 2 * seconds):
                    self._end(request, f"its request waited for memory for more than {2 * seconds:g} s")
            elif request.is_slow(now - seconds):
                reason = f"its request was incomplete after {seconds:g} s while others waited for memory"
                self._end(request, reason)

    def _end(self, request: Arriving, reason: str) -> None:
        request.end(reason)
        self.release(request)

    def _may_exceed(self, request: Arriving) -> bool:
        # Not while the kept ones take all: each that is whole would be kept, and make way for the next.
        return self._kept < self._limit and next(iter(self._taken)) is request

    def _let_in(self, request: Arriving) -> None:
        # With some bytes in advance: else any number would be let in while one byte is left.
        del self._waiting[request]
        self._taken[request] += ADVANCE_BYTES
        self._left -= ADVANCE_BYTES
        request.read_on()


class Closable(Arriving, Protocol):
    """A connection, as far as its limits go."""

    def is_idle(self, since: float) -> bool:
        """Whether the connection has been idle since that time."""

    def close(self) -> None:
        """Ends the connection when its requests are answered."""


class OpenConnections:
    """The connections of a server.  Not thread-safe: it belongs to one event loop.

    Attributes:
        connections_max: as in the limits, or less.
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
        """Lowers the limit to the number of files left for connections; None: no limit."""
        if most is None or most >= self.connections_max:
            return
        text = (
            "accepting at most %d connections instead of max.connections=%d, because the limit on open files "
            "leaves no more beside those reserved for logs (raise ulimit -n)"
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
        """Ends connections that have been idle, or have held memory that others wait for, too long.

        Args:
            now: of `time.perf_counter`, in seconds.  It is real time, since clients live in it: a test
                that advances the time of groups must not find its connections closed.
        """
        since = now - self.limits.idle_seconds
        for connection in [each for each in self._open if each.is_idle(since)]:
            connection.end(f"idle for {self.limits.idle_seconds:g} s")
        self.memory.end_slow(now, self.limits.request_seconds)

    async def close_all(self, seconds: float) -> None:
        """Closes all connections when their requests are answered, or after `seconds` at the latest."""
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
            # Each hears of it in the next turn of the loop.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), seconds)
