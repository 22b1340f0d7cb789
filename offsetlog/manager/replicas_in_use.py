"""The replicas that a manager's core uses.  When a log is opened again, its replica is replaced."""

from __future__ import annotations

from collections.abc import Callable

from offsetlog._native.manager_core import ManagerCore
from offsetlog._native.partition import Partition
from offsetlog._native.replica import Replica
from offsetlog.errors import OffsetLogError
from offsetlog.lifecycle.open_partitions import OpenPartitions


class ReplicasInUse:
    """The calls that Leaderships makes to partitions.  Thread-safe.

    Args:
        core: the core, which uses the replicas.
        owned: the owner, which opens and closes the replicas.
        gave_up: ends the calls and the work that wait for a failed partition.  It is called with
            the number of the partition, when the partition accepts no more calls, and before its
            log is opened again.
    """

    def __init__(
        self, core: ManagerCore, owned: OpenPartitions, gave_up: Callable[[int], None]
    ) -> None:
        self._core = core
        self._owned = owned
        self._gave_up = gave_up

    def replica(self, number: int) -> Replica | None:
        """Returns the replica in use, or None if no log is open; raises ClosedError."""
        return self._core.replica(number)

    def use(self, replica: Replica) -> None:
        """Puts a replica to use, in place of the former one.  Raises CapacityError, ClosedError."""
        self._core.set_replica(replica.partition.number, replica)
        self._core.core.attach(replica.partition)

    def failure_of(self, number: int) -> OffsetLogError | None:
        """Returns the error that keeps an existing log closed; see OpenPartitions.failure_of."""
        return self._owned.failure_of(number)

    def set_aside(self, number: int) -> None:
        """Takes a failed log out of use, to open it again later; see OpenPartitions.set_aside."""
        self._owned.set_aside(number)

    def open_again(self, number: int) -> Replica:
        """Opens a failed log again without putting it to use yet; see OpenPartitions.open_again."""
        return Replica(self._owned.open_again(number, self._release))

    def _release(self, failed: Partition) -> None:
        # No caller begins a call on the failed log any more; running calls end with its failure.
        self._core.detach(failed.number)
        self._gave_up(failed.number)

    def load(self, partition: Partition) -> None:
        """Loads a table; see OpenPartitions.load."""
        self._owned.load(partition)
