"""The memory for answers that clients do not read."""

from __future__ import annotations

from typing import Protocol


class Reader(Protocol):
    """A connection whose client is to read."""

    def end(self, reason: str) -> None:
        """Ends it at once."""


class UnreadAnswers:
    """The answers that wait to be sent on all connections whose clients do not read.

    While they are larger than the limit, the connection whose answers have waited the longest ends; a
    client may come back after a pause as long as there is room.
    Not thread-safe: it belongs to one event loop.

    Args:
        limit: in bytes; one connection alone may have more.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        # Ordered by when their clients ceased to read.
        self._held: dict[Reader, int] = {}

    @property
    def size(self) -> int:
        """In bytes."""
        return self._size

    def hold(self, reader: Reader, size: int) -> None:
        """Counts so many bytes for a connection, in all; until `release` what is read of them, too."""
        self._size += size - self._held.get(reader, 0)
        self._held[reader] = size
        while self._size > self._limit and len(self._held) > 1:
            oldest = next(iter(self._held))
            self.release(oldest)
            oldest.end("the client does not read its answers, and the memory for unread answers is full")

    def release(self, reader: Reader) -> None:
        """Counts nothing more for a connection: its client reads, or is gone."""
        self._size -= self._held.pop(reader, 0)
