"""The replicas that a manager's core uses, and their change when a log is opened again."""

from __future__ import annotations

from collections.abc import Callable

from offsetlog._native.manager_core import ManagerCore
from offsetlog._native.partition import Partition
from offsetlog._native.replica import Replica
from offsetlog.errors import OffsetLogError
from offsetlog.lifecycle.open_partitions import OpenPartitions


class ReplicasInUse:
    """The calls that the leaderships make to partitions. Safe to call from any thread.

    Args:
        core: uses them.
        owned: opens and closes them.
        gave_up: called with a partition that failed and takes no more calls, before its log is
            opened again: ends what waits for it, or works on it.
    """

    def __init__(
        self, core: ManagerCore, owned: OpenPartitions, gave_up: Callable[[int], None]
    ) -> None:
        self._core = core
        self._owned = owned
        self._gave_up = gave_up

    def replica(self, number: int) -> Replica | None:
        """Returns the replica that is in use, None where no log is open; raises ClosedError."""
        return self._core.replica(number)

    def use(self, replica: Replica) -> None:
        """Has a replica used from now on.  Raises CapacityError, ClosedError."""
        self._core.set_replica(replica.partition.number, replica)
        self._core.core.attach(replica.partition)

    def failure_of(self, number: int) -> OffsetLogError | None:
        """Returns why a log that is there is not open; see OpenPartitions.failure_of."""
        return self._owned.failure_of(number)

    def set_aside(self, number: int) -> None:
        """Has everybody wait for a log that will be opened again; see OpenPartitions.set_aside."""
        self._owned.set_aside(number)

    def open_again(self, number: int) -> Replica:
        """Opens a log that failed, for nobody's use yet; see OpenPartitions.open_again."""
        return Replica(self._owned.open_again(number, self._release))

    def _release(self, failed: Partition) -> None:
        # Nobody begins anything on it any more; what goes on ends with its failure.
        self._core.detach(failed.number)
        self._gave_up(failed.number)

    def load(self, partition: Partition) -> None:
        """Loads a table; see OpenPartitions.load."""
        self._owned.load(partition)
