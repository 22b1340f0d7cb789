"""The interface that tests of a manager implement for the contract suite."""

from __future__ import annotations

from pathlib import Path

from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.manager.testing.group_records import member_batch
from offsetlog.types import TopicPartition


class ManagerHarness:
    """Creates managers of one kind for the tests.  Only `create` has no default.

    A test creates several managers, each in its own directory.  Some tests then create another
    manager in the same directory, and this manager must find the positions that were committed
    before.  A harness must not keep any state of a test.

    Attributes:
        name: a name that appears in the names of the tests.
        capabilities: the capabilities that the managers must declare.
        patience: the seconds to wait for an answer before a test fails.
    """

    name: str = "manager"
    capabilities: frozenset[Capability] = frozenset()
    patience: float = 15.0

    def create(self, directory: Path) -> OffsetManager:
        """Creates a manager that keeps everything in a directory, but does not start it.

        Once the manager leads a partition, it must answer commits without further calls by the
        tests.  Its offsets topic must have at least two partitions.  The directory need not exist.
        """
        raise NotImplementedError

    def create_replica(self, directory: Path) -> OffsetManager:
        """Creates a manager whose high watermark (W) moves only when a test moves it.

        A harness with REPLICATION must define this method.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define the method create_replica(), because its managers declare REPLICATION"
        )

    def create_limited(self, directory: Path, commits_per_second: int) -> OffsetManager | None:
        """Creates a manager in which each group and client has a quota of positions per second.

        If the managers have no quotas, return None; their `throttle` must then always return 0.0.
        """
        return None

    def create_expiring(self, directory: Path) -> OffsetManager | None:
        """Creates a manager in which a position expires a day after its commit timestamp.

        If nothing expires in the managers, return None; their `expire` must then always return 0.
        """
        return None

    def keeps_group(self, group: str) -> bool:
        """Whether a group can have this name.  If it cannot, a commit must raise GroupError."""
        return True

    def lead(self, manager: OffsetManager, partition: int, epoch: int) -> None:
        """Makes a manager from `create` lead a partition, and waits until the partition answers."""
        manager.become_leader(partition, epoch).result(self.patience)

    def abandon(self, manager: OffsetManager) -> None:
        """Ends a manager as if its process had ended.  By default, the manager is only stopped."""
        manager.stop()

    def set_generation(
        self, manager: OffsetManager, group: str, generation: int, members: int
    ) -> None:
        """Makes a group have a generation with a number of members, as its coordinator would.

        The manager leads the group's partition before this call, and must lead it afterwards.  The
        tests call this method if the managers have GENERATIONS.  The default implementation also
        needs REPLICATION, because it appends the group's record as if it came from a leader.
        """
        partition = manager.partition_for(group)
        epoch = manager.leader_epoch(partition) + 1
        manager.become_follower(partition, epoch).result(self.patience)
        end = manager.positions(partition).log_end
        batch = member_batch(end, epoch, group, generation, members)
        manager.append_as_follower(partition, epoch, batch)
        self.lead(manager, partition, epoch + 1)

    def history(self, directory: Path, group: str, key: TopicPartition) -> list[int]:
        """Returns the offsets that were committed for a key, oldest first; required with HISTORY.

        The manager of the directory has been stopped before this call.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define the method history(), because its managers declare HISTORY"
        )
