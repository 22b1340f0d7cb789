"""The calls that a test of a manager provides to the contract suite."""

from __future__ import annotations

from pathlib import Path

from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.manager.testing.group_records import member_batch
from offsetlog.types import TopicPartition


class ManagerHarness:
    """Makes managers of one kind for the tests.  Only `create` has no default.

    A test makes several managers, each on a directory, and one again on the same directory, where
    it finds what was committed.  A harness keeps no state of a test.

    Attributes:
        name: stands in the names of the tests.
        capabilities: those that the managers must declare.
        patience: seconds after which an answer that does not come fails a test.
    """

    name: str = "manager"
    capabilities: frozenset[Capability] = frozenset()
    patience: float = 15.0

    def create(self, directory: Path) -> OffsetManager:
        """Makes a manager that keeps everything in a directory; it is not started.

        Its commits are answered without help of the tests, and its topic has two partitions or
        more.  The directory may not exist yet.
        """
        raise NotImplementedError

    def create_replica(self, directory: Path) -> OffsetManager:
        """Makes a manager whose W only the tests move; needed with REPLICATION."""
        raise NotImplementedError(f"{type(self).__name__} has no create_replica")

    def create_limited(self, directory: Path, commits_per_second: int) -> OffsetManager | None:
        """Makes a manager that admits so many positions a second of every group and client.

        None for managers without quotas, whose `throttle` must be 0.0 always.
        """
        return None

    def create_expiring(self, directory: Path) -> OffsetManager | None:
        """Makes a manager in which a position expires a day after its commit timestamp.

        None for managers in which nothing expires, whose `expire` must be 0 always.
        """
        return None

    def keeps_group(self, group: str) -> bool:
        """Whether a group can have this name here; a commit of one that cannot raises GroupError."""
        return True

    def lead(self, manager: OffsetManager, partition: int, epoch: int) -> None:
        """Has a manager of `create` lead a partition, and waits until it answers."""
        manager.become_leader(partition, epoch).result(self.patience)

    def abandon(self, manager: OffsetManager) -> None:
        """Ends a manager as the end of its process would; the default can only stop it."""
        manager.stop()

    def set_generation(
        self, manager: OffsetManager, group: str, generation: int, members: int
    ) -> None:
        """Brings a group into a generation with so many members, as its coordinator would.

        The manager leads the group's partition before and afterwards.  Needed with GENERATIONS; the
        default needs REPLICATION as well: it has the group's record appended as from a leader.
        """
        partition = manager.partition_for(group)
        epoch = manager.leader_epoch(partition) + 1
        manager.become_follower(partition, epoch).result(self.patience)
        end = manager.positions(partition).log_end
        batch = member_batch(end, epoch, group, generation, members)
        manager.append_as_follower(partition, epoch, batch)
        self.lead(manager, partition, epoch + 1)

    def history(self, directory: Path, group: str, key: TopicPartition) -> list[int]:
        """Returns the offsets that were committed for a key, oldest first; needed with HISTORY.

        The manager of the directory is stopped.
        """
        raise NotImplementedError(f"{type(self).__name__} has no history")
