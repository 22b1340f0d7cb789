"""The managers of a contract test: the harness creates them, and the end of the test stops them."""

from __future__ import annotations

from pathlib import Path

from offsetlog.manager.interface import OffsetManager
from offsetlog.manager.testing.harness import ManagerHarness
from offsetlog.types import TopicPartition

#: Keys that the tests commit.
KEYS = [TopicPartition("orders", number) for number in range(4)]
GROUP = "billing"


class ManagerSite:
    """The managers of one test.  Each has a name and a directory of this name.

    Args:
        harness: creates the managers.
        root: the directory that contains the managers' directories.
    """

    def __init__(self, harness: ManagerHarness, root: Path) -> None:
        self.harness = harness
        self._root = root
        self._managers: dict[str, OffsetManager] = {}
        # A restarted manager may not know in which epochs it led; a broker's controller knows.
        self._epochs: dict[int, int] = {}

    def directory(self, name: str = "first") -> Path:
        """Returns the directory of a manager."""
        return self._root / name

    def keep(self, manager: OffsetManager, name: str = "first") -> OffsetManager:
        """Starts a manager from the harness; stops it at the end of the test."""
        self._managers[name] = manager
        manager.start()
        return manager

    def started(self, name: str = "first") -> OffsetManager:
        """Returns a new manager, which leads no partition."""
        return self.keep(self.harness.create(self.directory(name)), name)

    def leader(self, name: str = "first") -> OffsetManager:
        """Returns a new manager, which leads every partition."""
        return self.leading(self.started(name))

    def leading(self, manager: OffsetManager) -> OffsetManager:
        """Makes a manager lead every partition, each in a new leader epoch."""
        for partition in range(manager.partitions):
            known = max(manager.leader_epoch(partition), self._epochs.get(partition, 0))
            self.harness.lead(manager, partition, known + 1)
        return manager

    def restarted(self, name: str = "first") -> OffsetManager:
        """Stops a manager and returns another one in its directory, which leads every partition."""
        self.stop(name)
        return self.leader(name)

    def restarted_after_a_crash(self, name: str = "first") -> OffsetManager:
        """Does the same as `restarted`, but ends the manager as if its process had crashed."""
        self._remember(name)
        self.harness.abandon(self._managers.pop(name))
        return self.leader(name)

    def _remember(self, name: str) -> None:
        manager = self._managers[name]
        for partition in range(manager.partitions):
            known = self._epochs.get(partition, 0)
            self._epochs[partition] = max(known, manager.leader_epoch(partition))

    def replica(self, name: str) -> OffsetManager:
        """Returns a new manager that leads no partition; the test moves its high watermarks."""
        return self.keep(self.harness.create_replica(self.directory(name)), name)

    def stop(self, name: str = "first") -> None:
        """Stops a manager for good."""
        self._remember(name)
        self._managers.pop(name).stop()

    def close(self) -> None:
        """Stops the remaining managers."""
        while self._managers:
            self._managers.popitem()[1].stop()
