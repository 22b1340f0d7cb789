"""The calls of a coordinator to a manager that are not in OffsetManager.

These calls read and write the records of groups, and store positions exactly as clients send them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from offsetlog._native import fetch_columns
from offsetlog._native.completion import Completion
from offsetlog._native.manager_core import ManagerCore
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.manager.interface import Pending, PendingCommit
from offsetlog.types import Committed, Key, OffsetAndMetadata, TopicPartition


class Fences(Protocol):
    """The coordinator that runs the groups of a manager, and that writes their fences.

    Any thread may call it.
    """

    def fence_async(
        self,
        group: str,
        offsets: dict[TopicPartition, int | OffsetAndMetadata],
        timeout: float | None,
    ) -> Completion[int]:
        """Ends the generation of a group; see OffsetManager.fence_async.  The arguments have been checked."""


class GroupLog:
    """Reads and writes the records of groups; see `LogManager.group_log`.  Thread-safe."""

    def __init__(self, core: ManagerCore, directory: LogDirectory) -> None:
        self._core = core
        self._directory = directory

    @property
    def topic_id(self) -> bytes | None:
        """The 16-byte id of the offsets topic, or None if no file of the directory contains it yet."""
        return self._directory.known_topic_id()

    def leave_fences_to(self, coordinator: Fences) -> None:
        """Leaves every fence to a coordinator; call this method before this process leads any partition.

        The coordinator knows generations that are not in the log yet, and the members that a fence must refuse.  After
        this call, `OffsetManager.fence` waits for the coordinator, so never call `fence` on the coordinator's own
        thread.
        """
        self._core.fenced_by = coordinator.fence_async

    def write_async(
        self,
        group: str,
        records: list[tuple[bytes, bytes | None]],
        *,
        offsets: Mapping[Key, Committed] | None = None,
        timeout: float | None = None,
    ) -> Pending[int]:
        """Writes records and positions of a group in one batch, so that all or none of them are stored.

        The result is the number of records and positions.  The positions are checked as in `OffsetManager.commit`.
        Each record is a key and a value, both encoded as in the log (docs/format/records.md §3.4); the value None is a
        tombstone.  The caller must write the records of a group in order, because this call does not compare them with
        the earlier record of the group.  `timeout` is in seconds; None is the configured timeout.

        Raises:
            InvalidArgumentError: no record is given, or a position is invalid.
            NotCoordinatorError, CoordinatorLoadingError, PartitionFailedError, StorageError, TooLargeError,
            NotEnoughReplicasError, GroupError, ClosedError.
        """
        return self._core.write_group_records_async(group, records, offsets, timeout)

    def commit_async(
        self,
        group: str,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        *,
        timeout: float | None = None,
    ) -> PendingCommit:
        """Commits like `OffsetManager.commit_async`, but accepts any offset and leader epoch.

        Kafka stores negative offsets and negative epochs as they are, and clients rely on this: some clients reset a
        group by committing the offset -1 or -2.  `timeout` is in seconds; None is the configured timeout.

        Raises:
            InvalidArgumentError: no position is given, or a name or another field of a position is not valid.
            NotCoordinatorError, CoordinatorLoadingError, PartitionFailedError, StorageError, TooLargeError,
            ThrottledError, NotEnoughReplicasError, ClosedError.
        """
        return self._core.commit_any_async(group, offsets, timeout)

    def settled_async(self, group: str) -> Pending[int] | None:
        """Returns an answer that comes when everything written so far to the group's log takes effect or is truncated.

        The answer comes at the latest when the configured timeout of commits has passed.  The call returns None if
        there is nothing to wait for, which is always so if the partition has only one replica.

        Raises:
            ClosedError: the manager was stopped.
        The answer raises:
            NotCoordinatorError, CommitTimeoutError, PartitionFailedError.
        """
        return self._core.park_written(self._core.core.number_of(group))

    def pending(self, group: str) -> set[tuple[str, int]]:
        """Returns the topics and partitions whose positions an open transaction may still change.

        Raises the errors of `records`.
        """
        return fetch_columns.pending_keys(self._core.core, group)

    def records(self, partition: int) -> list[tuple[bytes, bytes]]:
        """Returns key and value of every group record below a partition's high watermark, in no particular order.

        Raises:
            NotCoordinatorError, CoordinatorLoadingError, PartitionFailedError, ClosedError.
        """
        replica = self._core.replica(partition)
        if replica is None:
            return []
        return [record[:2] for record in replica.partition.group_records()]

    def groups(self, partition: int) -> dict[str, int]:
        """Returns the groups that have a position or a record, with the number of positions of each group.

        Raises the errors of `records`.
        """
        replica = self._core.replica(partition)
        return {} if replica is None else replica.partition.groups()

    def has_offsets(self, group: str) -> bool:
        """Returns whether a group has a committed or a pending position.  Raises the errors of `records`."""
        replica = self._core.replica(self._core.core.number_of(group))
        return replica is not None and replica.partition.has_group(group)
