"""A coordinator's calls to a manager beyond OffsetManager: group records, and positions as clients send them."""

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
    """The coordinator that runs a manager's groups and writes their fences; called from any thread."""

    def fence_async(
        self,
        group: str,
        offsets: dict[TopicPartition, int | OffsetAndMetadata],
        timeout: float | None,
    ) -> Completion[int]:
        """Ends the group's generation; see OffsetManager.fence_async.  The arguments are already checked."""


class GroupLog:
    """Reads and writes the records of groups; from `LogManager.group_log`.  Thread-safe."""

    def __init__(self, core: ManagerCore, directory: LogDirectory) -> None:
        self._core = core
        self._directory = directory

    @property
    def topic_id(self) -> bytes | None:
        """The 16-byte id of the offsets topic; None if no file of the directory has it yet."""
        return self._directory.known_topic_id()

    def leave_fences_to(self, coordinator: Fences) -> None:
        """Leaves every fence to a coordinator; call it before any partition is led.

        The coordinator knows generations that have no record yet, and the members to refuse.  From then on
        `OffsetManager.fence` waits for the coordinator, so never call it on the coordinator's own thread.
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
        """Writes records and positions of a group in one batch, all or none.

        The result is the number of records and positions.  Positions are checked as by `OffsetManager.commit`.
        Keys and values are encoded as in the log (docs/format/records.md §3.4); None is a tombstone.  The caller must
        write the records in order: this call does not compare them with the group's earlier record.  `timeout` is in
        seconds; None is the configured one.

        Raises:
            NotCoordinatorError, CoordinatorLoadingError, PartitionFailedError, StorageError,
            TooLargeError, NotEnoughReplicasError, GroupError, ClosedError; InvalidArgumentError: no
            record is given, or a position is invalid.
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

        Kafka stores negative offsets and epochs as they are, and clients rely on this: some reset a group by committing
        -1 or -2.  `timeout` is in seconds; None is the configured one.

        Raises:
            NotCoordinatorError, CoordinatorLoadingError, PartitionFailedError, StorageError,
            TooLargeError, ThrottledError, NotEnoughReplicasError, ClosedError; InvalidArgumentError:
            a name or another field of a position is not valid, or no position is given.
        """
        return self._core.commit_any_async(group, offsets, timeout)

    def settled_async(self, group: str) -> Pending[int] | None:
        """Waits until everything written so far in the group's log partition takes effect or is truncated.

        The wait has the configured timeout of commits.  Returns None if there is nothing to wait for, which is always
        the case without other replicas.

        Raises:
            ClosedError.  The result raises NotCoordinatorError, CommitTimeoutError, PartitionFailedError.
        """
        return self._core.park_written(self._core.core.number_of(group))

    def pending(self, group: str) -> set[tuple[str, int]]:
        """Returns the topics and partitions whose positions an open transaction may still change.

        Raises the errors of `records`.
        """
        return fetch_columns.pending_keys(self._core.core, group)

    def records(self, partition: int) -> list[tuple[bytes, bytes]]:
        """Returns the key and value of every record of a group below W, in no particular order.

        Raises:
            NotCoordinatorError, CoordinatorLoadingError, PartitionFailedError, ClosedError.
        """
        replica = self._core.replica(partition)
        if replica is None:
            return []
        return [record[:2] for record in replica.partition.group_records()]

    def groups(self, partition: int) -> dict[str, int]:
        """Returns the groups with a position or a record, and the number of positions of each.

        Raises the errors of `records`.
        """
        replica = self._core.replica(partition)
        return {} if replica is None else replica.partition.groups()

    def has_offsets(self, group: str) -> bool:
        """Returns whether a group has a committed or a pending position.  Raises the errors of `records`."""
        replica = self._core.replica(self._core.core.number_of(group))
        return replica is not None and replica.partition.has_group(group)
