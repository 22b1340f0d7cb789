"""The replicated partitions of one directory, as the core asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from offsetlog._native.partition import Partition
from offsetlog.lifecycle.open_partitions import OpenPartitions


class ReplicaPartitions:
    """Gives the core its partitions: those that are open, and with the first write a new one.

    A partition is made where this process leads it, by its first commit, and where it follows, by the first batch that
    the leader sends.  Safe to call from any thread.

    Args:
        owned: the owner, who opens and closes them.
        check_leads: raises what a caller of a partition gets that is not open, where this process does not lead it.
        made: called with a partition that is in use by nobody, before its caller has it; gives it its role.
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
        #: Held while a partition is made, until it has its role: nobody else has it before.
        self._making = threading.Lock()

    def all(self) -> list[Partition]:
        """Returns the partitions that are open, by number."""
        return self._owned.all()

    def loading(self, wait: bool = True) -> list[int]:
        """Returns nothing: a replica that loads answers so by itself."""
        return []

    def loaded(self, number: int) -> Partition | None:
        """Returns a partition that is open, None where this process leads one that has no directory yet.

        Raises:
            NotCoordinatorError: another process leads it.
            DataLossError, StorageError: its directory is missing, or the disk cannot read it.
            CoordinatorLoadingError, PartitionFailedError: it failed; see OpenPartitions.get.
        """
        if self._owned.failure_of(number) is not None:
            self._check_leads(number)
        with self._making:
            partition = self._owned.get(number)
        if partition is None:
            self._check_leads(number)
        return partition

    def make(self, number: int) -> Partition:
        """Returns a partition that this process leads, and makes its directory where it is missing.

        Raises:
            NotCoordinatorError: another process leads it.
            StorageError, ReadOnlyError, CapacityError, ClosedError.
        """
        self._check_leads(number)
        return self.make_replica(number)

    def make_replica(self, number: int) -> Partition:
        """The same, whoever leads it."""
        with self._making:
            found = self._owned.get(number)
            if found is None:
                found = self._owned.make(number)
            # Also one that was made before, and got no role then.
            self._made(found)
        return found
