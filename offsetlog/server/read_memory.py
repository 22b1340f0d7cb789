"""Limits the memory of answers that are read from disk."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Share:
    """The memory that one read has taken; see ReadMemory.share."""

    def __init__(self, memory: ReadMemory, size: int) -> None:
        self._memory = memory
        self._size = size

    def resize(self, size: int) -> None:
        """Changes the share to `size` bytes, once the read knows its size; to 0 at the end."""
        less, self._size = self._size - size, size
        self._memory.give_back(less)


class ReadMemory:
    """Limits the memory of answers, from the read on a thread until they are sent.

    A read that finds too little free memory waits; waiting reads are served in order.
    Not thread-safe: it belongs to one event loop.

    Args:
        limit: the limit in bytes; a single read may exceed it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def taken(self) -> int:
        """Bytes that all reads have taken."""
        return self._taken

    @property
    def waiting(self) -> int:
        """Number of waiting reads."""
        return len(self._waiting)

    @asynccontextmanager
    async def share(self, size: int) -> AsyncIterator[Share]:
        """Waits until `size` bytes are free, and holds them until the with block ends."""
        if self._waiting or not self._has_room(size):
            await self._room_for(size)
        else:
            self._taken += size
        taken = Share(self, size)
        try:
            yield taken
        finally:
            taken.resize(0)

    def give_back(self, size: int) -> None:
        """Frees `size` bytes for waiting reads; a negative `size` takes memory, for a read that exceeded its share."""
        self._taken -= size
        while self._waiting:
            wanted, turn = self._waiting[0]
            if not turn.cancelled():
                if not self._has_room(wanted):
                    return
                self._taken += wanted
                turn.set_result(None)
            self._waiting.popleft()

    def _has_room(self, size: int) -> bool:
        return not self._taken or self._taken + size <= self._limit

    async def _room_for(self, size: int) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            # Without this, later reads would wait for a turn that never comes.
            self.give_back(0 if turn.cancelled() else size)
            raise
