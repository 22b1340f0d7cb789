"""The calls of a store about one position, named by topic and partition or by a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, SupportsIndex, overload

from offsetlog._native.store_core import StoreCore
from offsetlog.history.timeline import Timeline
from offsetlog.types import Committed, Durability, History, OffsetAndMetadata, PartitionKey


class OnePosition(ABC):
    """Commits and reads one position of a store."""

    @property
    @abstractmethod
    def _open_core(self) -> StoreCore:
        """The core of the open store; raises ClosedError if the store is closed."""

    @property
    @abstractmethod
    def _timeline(self) -> Timeline:
        """The past of the store; raises ClosedError."""

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
        """Commits one position by the fast path, without containers; raises the errors of `commit`.

        The call is `commit_one(group, "orders", 0, 42)`, or `commit_one(group, key, 42)` with a key such as a
        TopicPartition.  The second form costs as much as `commit`.  The offset may be an OffsetAndMetadata.

        Args:
            group: the consumer group.
            topic: the topic, not empty; or a key, followed by the offset.
            partition: the partition, from 0.
            offset: the next offset that the group will read, from 0.
            metadata: free text, at most 4096 UTF-16 units unless the store was configured
                otherwise.
            leader_epoch: the epoch of the last record read, -1 for unknown.
            monotonic: if the offset is lower than the committed one, raises RewindError and writes nothing.
            durability: overrides the store's durability for this call.

        Returns:
            The log offset of the record, an int, which is the `log_offset` of the Position that
            `commit` returns.
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
        """Returns one committed position, None if none is committed; accepts a key, or a topic and a partition."""
        return self._open_core.fetch_one(group, topic, partition)

    @overload
    def history(self, group: str, topic: str, partition: SupportsIndex) -> History: ...
    @overload
    def history(self, group: str, topic: PartitionKey) -> History: ...
    def history(self, group: str, topic: Any, partition: Any = None) -> History:
        """Returns the records of one position, oldest first, and the point from which they are complete.

        A group or topic that does not exist has no records.  See `fetch_one` for the arguments.

        Raises:
            InvalidArgumentError, StateError, StorageError: see `offsetlog.errors`.
        """
        return self._timeline.history(group, topic, partition)
