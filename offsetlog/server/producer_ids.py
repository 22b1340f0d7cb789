"""Ids for idempotent producers; no id is used twice, even after a crash."""

from __future__ import annotations

from offsetlog.server.metadata_store import MetadataStore

#: The number of ids reserved at a time, as in Kafka; a restart loses the unused ids of a block.
BLOCK = 1000


class ProducerIds:
    """The producer ids of a node.  Not thread-safe: it belongs to one event loop.

    Args:
        metadata: reserves blocks of ids.
        above: the highest id already used in a log.
    """

    def __init__(self, metadata: MetadataStore, above: int = -1) -> None:
        self._metadata = metadata
        self._above = above
        self._next = self._end = 0

    def has_more(self) -> bool:
        """Whether `take` may be called without `reserve`."""
        return self._next < self._end

    async def reserve(self) -> None:
        """Reserves the next block of ids if none is left.

        Raises:
            StorageError: the block cannot be reserved.
        """
        async with self._metadata.changing:
            if not self.has_more():
                self._next = await self._metadata.reserve_producer_ids(BLOCK, self._above + 1)
                self._end = self._next + BLOCK

    def take(self) -> int:
        """Returns an unused id; call it only if `has_more`."""
        taken = self._next
        self._next += 1
        return taken
