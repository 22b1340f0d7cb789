"""The calls of a store that concern one position.  The position is named by topic and partition, or by a key."""

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
        """The core of the open store.  Raises ClosedError if the store is closed."""

    @property
    @abstractmethod
    def _timeline(self) -> Timeline:
        """The object that reads the store's history.  Raises ClosedError if the store is closed."""

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
        """Commits one position.  Raises the errors of `commit`.

        The call is `commit_one(group, "orders", 0, 42)`, or `commit_one(group, key, 42)` with a key such as a
        TopicPartition.  The first form is the fastest way to commit one position; the second takes as long as `commit`.
        The offset may be an OffsetAndMetadata.

        Args:
            group: the consumer group.
            topic: the topic, which must not be empty; or a key, after which the offset is passed.
            partition: the partition, at least 0.
            offset: the next offset that the group will read, at least 0.
            metadata: free text, at most 4096 UTF-16 units unless the store was configured
                otherwise.
            leader_epoch: the leader epoch of the last record that was read; -1 if it is unknown.
            monotonic: if it is true and the offset is lower than the committed offset, the call raises RewindError and
                writes nothing.
            durability: the durability of this call, instead of the store's.

        Returns:
            The log offset of the record, as an int.  It is the `log_offset` of the Position that `commit` would return.
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
        """Returns one committed position, or None if there is none.  Accepts a key, or a topic and a partition."""
        return self._open_core.fetch_one(group, topic, partition)

    @overload
    def history(self, group: str, topic: str, partition: SupportsIndex) -> History: ...
    @overload
    def history(self, group: str, topic: PartitionKey) -> History: ...
    def history(self, group: str, topic: Any, partition: Any = None) -> History:
        """Returns the records of one position, oldest first, and the log offset from which on no record is missing.

        If the group or the topic does not exist, there are no records.  See `fetch_one` for the arguments.

        Raises:
            InvalidArgumentError, StateError, StorageError: see `offsetlog.errors`.
        """
        return self._timeline.history(group, topic, partition)
