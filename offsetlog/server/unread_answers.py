"""Limits the memory of answers that clients do not read."""

from __future__ import annotations

from typing import Protocol


class Reader(Protocol):
    """A connection with answers that its client has not read."""

    def end(self, reason: str) -> None:
        """Ends the connection at once."""


class UnreadAnswers:
    """Counts the bytes of unread answers on all connections.

    Above the limit, the connection whose answers have waited the longest is ended.  Below the
    limit, a client may stop reading for any time.
    Not thread-safe: it belongs to one event loop.

    Args:
        limit: the limit in bytes; a single connection may exceed it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        # The connections, in the order in which their clients stopped reading.
        self._held: dict[Reader, int] = {}

    @property
    def size(self) -> int:
        """Bytes of all unread answers."""
        return self._size

    def hold(self, reader: Reader, size: int) -> None:
        """Sets the number of bytes that count as unread for a connection until the next `hold` or `release`."""
        self._size += size - self._held.get(reader, 0)
        self._held[reader] = size
        while self._size > self._limit and len(self._held) > 1:
            oldest = next(iter(self._held))
            self.release(oldest)
            oldest.end("the client does not read its answers, and the memory for unread answers is full")

    def release(self, reader: Reader) -> None:
        """Stops counting a connection, since its client has read everything or has gone."""
        self._size -= self._held.pop(reader, 0)
