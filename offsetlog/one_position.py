"""The calls of a store about one position, which is named by its topic and partition or by a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, SupportsIndex, overload

from offsetlog._native.store_core import StoreCore
from offsetlog.types import Committed, Durability, OffsetAndMetadata, PartitionKey


class OnePosition(ABC):
    """Commits and fetches one position of a store."""

    @property
    @abstractmethod
    def _open_core(self) -> StoreCore:
        """The core of the open store; raises ClosedError."""

    @overload
    def commit_one(
        self,
        group: str,
        topic: str,
        partition: SupportsIndex,
        offset: Committed,
        metadata: str = "",
        leader_epoch: int = -1,
        *,
        monotonic: bool = False,
        durability: Durability | None = None,
    ) -> int: ...
    @overload
    def commit_one(
        self,
        group: str,
        topic: PartitionKey,
        offset: Committed,
        /,
        *,
        metadata: str = "",
        leader_epoch: int = -1,
        monotonic: bool = False,
        durability: Durability | None = None,
    ) -> int: ...
    @overload
    def commit_one(
        self,
        group: str,
        topic: PartitionKey,
        *,
        offset: Committed,
        metadata: str = "",
        leader_epoch: int = -1,
        monotonic: bool = False,
        durability: Durability | None = None,
    ) -> int: ...
    def commit_one(
        self,
        group: str,
        topic: Any,
        partition: Any = None,
        offset: Any = None,
        metadata: str = "",
        leader_epoch: int = -1,
        *,
        monotonic: bool = False,
        durability: Durability | None = None,
    ) -> int:
        """Commits one position, the fast path: no containers; raises as `commit`.

        `commit_one(group, "orders", 0, 42)`, or `commit_one(group, key, 42)` with a key as in
        `commit`, which costs as much as `commit`.  An OffsetAndMetadata may stand for the offset.

        Args:
            group: the consumer group.
            topic: the topic, not empty; or a key, and then the offset follows.
            partition: its partition, from 0.
            offset: the next offset that the group will read, from 0.
            metadata: free text, at most 4096 UTF-16 units unless the store was configured
                otherwise.
            leader_epoch: epoch of the last record read, -1 for unknown.
            monotonic: nothing is written if the offset would go back; RewindError.
            durability: overrides the store's for this call.

        Returns:
            The log offset of its record, an int: `commit` returns a Position, of which this is the
                `log_offset`.
        """
        return self._open_core.commit_one(
            group,
            topic,
            partition,
            offset,
            metadata,
            leader_epoch,
            monotonic=monotonic,
            durability=durability,
        )

    @overload
    def fetch_one(self, group: str, topic: str, partition: SupportsIndex) -> OffsetAndMetadata | None: ...
    @overload
    def fetch_one(self, group: str, topic: PartitionKey) -> OffsetAndMetadata | None: ...
    def fetch_one(self, group: str, topic: Any, partition: Any = None) -> OffsetAndMetadata | None:
        """Returns one committed position, None where there is none; a key may stand for both."""
        return self._open_core.fetch_one(group, topic, partition)
