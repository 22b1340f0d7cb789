"""How the contract suite makes log managers, in the shapes that matter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import offsetlog
from offsetlog.config import MaintenanceConfig
from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings, QuotaLimits
from offsetlog.manager.testing.harness import ManagerHarness
from offsetlog.types import TopicPartition

BY_HAND = MaintenanceConfig(enabled=False)
DAY_MS = 86_400_000


class LogHarness(ManagerHarness):
    """A log manager that leads alone."""

    name = "alone"
    capabilities = frozenset(Capability)
    kind: type[LogManager] = LogManager
    settings: dict[str, Any] = {"partitions": 3}  # noqa: RUF012

    def make(self, directory: Path, **more: Any) -> LogManager:
        given = {"maintenance": BY_HAND, **self.settings, **more}
        return self.kind(ManagerSettings(path=directory, **given))

    def create(self, directory: Path) -> OffsetManager:
        return self.make(directory)

    def create_replica(self, directory: Path) -> OffsetManager:
        return self.make(directory, replication_factor=3)

    def create_limited(self, directory: Path, commits_per_second: int) -> OffsetManager:
        limit = float(commits_per_second)
        return self.make(directory, quotas=QuotaLimits(group_commits=limit, client_commits=limit))

    def create_expiring(self, directory: Path) -> OffsetManager:
        by_day = MaintenanceConfig(enabled=False, retention_ms=DAY_MS)
        return self.make(directory, maintenance=by_day)

    def abandon(self, manager: OffsetManager) -> None:
        assert isinstance(manager, LogManager)
        manager.abandon()

    def history(self, directory: Path, group: str, key: TopicPartition) -> list[int]:
        with offsetlog.open(directory, read_only=True) as store:
            return [each.value.offset for each in store.history(group, *key)]


class ReplicatedHarness(LogHarness):
    """A log manager with followers that are always in sync: after each write they move W."""

    name = "replicated"
    settings = {"partitions": 3, "replication_factor": 3, "min_insync_replicas": 2}  # noqa: RUF012

    def make(self, directory: Path, **more: Any) -> LogManager:
        manager = super().make(directory, **more)
        if not self.is_moved_by_the_test(more):
            start = manager.start

            def start_and_follow() -> None:
                start()
                manager.listen_to_writes(lambda number: self.follow(manager, number))

            manager.start = start_and_follow  # type: ignore[method-assign]
        return manager

    @staticmethod
    def is_moved_by_the_test(more: dict[str, Any]) -> bool:
        return "replication_factor" in more

    @staticmethod
    def follow(manager: LogManager, partition: int) -> None:
        end = manager.positions(partition).log_end
        manager.advance(partition, manager.leader_epoch(partition), end)

    def lead(self, manager: OffsetManager, partition: int, epoch: int) -> None:
        assert isinstance(manager, LogManager)
        transition = manager.become_leader(partition, epoch)
        self.follow(manager, partition)
        transition.result(self.patience)


class ColdHarness(ReplicatedHarness):
    """The same without tables of followers, and with commits that are refused while one loads."""

    name = "cold"
    settings = {  # noqa: RUF012
        **ReplicatedHarness.settings,
        "warm_followers": False,
        "keep_table": False,
        "accept_while_loading": False,
    }


SHAPES = [LogHarness(), ReplicatedHarness(), ColdHarness()]
