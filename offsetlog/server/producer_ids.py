"""Ids for idempotent producers; no id is given twice, even after a crash."""

from __future__ import annotations

from offsetlog.server.metadata_store import MetadataStore

#: As many are reserved at a time, as Kafka does; those of a block that were not given are lost with a
#: restart.
BLOCK = 1000


class ProducerIds:
    """The producer ids of a node.  Not thread-safe: it belongs to one event loop.

    Args:
        metadata: reserves blocks.
        above: the highest id already used in a log.
    """

    def __init__(self, metadata: MetadataStore, above: int = -1) -> None:
        self._metadata = metadata
        self._above = above
        self._next = self._end = 0

    def has_more(self) -> bool:
        """Whether `take` can be called."""
        return self._next < self._end

    async def reserve(self) -> None:
        """Reserves the next ids if there are no more.

        Raises:
            StorageError: they cannot be reserved.
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
