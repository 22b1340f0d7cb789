"""Provides the core of a manager with the replicated partitions of one directory."""

from __future__ import annotations

import threading
from collections.abc import Callable

from offsetlog._native.partition import Partition
from offsetlog.lifecycle.open_partitions import OpenPartitions


class ReplicaPartitions:
    """Gives the core the open partitions, and creates a partition when it is first written.

    If this process leads the partition, the first write is a commit.  If this process follows, the
    first write is the first batch of the leader.  The class is thread-safe.

    Args:
        owned: the owner of the partitions, which opens and closes them.
        check_leads: called with the number of a partition that is not open; raises
            NotCoordinatorError unless this process leads the partition.
        made: called with a new partition before any caller gets it; gives the partition its role.
    """

    def __init__(
        self,
        owned: OpenPartitions,
        check_leads: Callable[[int], None],
        made: Callable[[Partition], None],
    ) -> None:
        self._owned = owned
        self._check_leads = check_leads
        self._made = made
        #: Held while a partition is created and gets its role, so that no other caller gets it
        #: earlier.
        self._making = threading.Lock()

    def all(self) -> list[Partition]:
        """Returns the open partitions by number."""
        return self._owned.all()

    def loading(self, wait: bool = True) -> list[int]:
        """Returns an empty list: while a replica is being loaded, calls to it raise an error."""
        return []

    def loaded(self, number: int) -> Partition | None:
        """Returns an open partition, or None if this process leads it and it has no directory yet.

        Raises:
            NotCoordinatorError: another process leads the partition.
            DataLossError, StorageError: the directory of the partition is missing, or the disk
                cannot read the partition.
            CoordinatorLoadingError, PartitionFailedError: the partition failed; see
                OpenPartitions.get.
        """
        if self._owned.failure_of(number) is not None:
            self._check_leads(number)
        with self._making:
            partition = self._owned.get(number)
        if partition is None:
            self._check_leads(number)
        return partition

    def make(self, number: int) -> Partition:
        """Returns a partition that this process leads, and creates its directory if it is missing.

        Raises:
            NotCoordinatorError: another process leads the partition.
            StorageError, ReadOnlyError, CapacityError, ClosedError.
        """
        self._check_leads(number)
        return self.make_replica(number)

    def make_replica(self, number: int) -> Partition:
        """Returns a partition like `make`, but even if another process leads the partition."""
        with self._making:
            found = self._owned.get(number)
            if found is None:
                found = self._owned.make(number)
            # A partition that was created earlier may have got no role at that time.
            self._made(found)
        return found
