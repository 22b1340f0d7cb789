"""ZooKeeper managers of the tests of this folder, and how the contract suite makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import offsetlog
from offsetlog.config import MaintenanceConfig
from offsetlog.errors import NodeExistsError
from offsetlog.manager.dual.manager import DualManager
from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings
from offsetlog.manager.testing.harness import ManagerHarness
from offsetlog.manager.zookeeper.manager import ZooKeeperManager
from offsetlog.manager.zookeeper.settings import ZooKeeperSettings
from offsetlog.types import TopicPartition
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.consumer_offsets import is_node_name

PATIENCE = 60.0


def manager_of(hosts: str, *, connection: dict[str, Any] | None = None, clock: Any = None, **more: Any) -> Any:
    """A manager that is not started; `more` are fields of ZooKeeperSettings."""
    reached = ConnectionSettings(hosts=hosts, **{"session_timeout": 8.0, **(connection or {})})
    settings = ZooKeeperSettings(connection=reached, **{"partitions": 3, "commit_timeout": PATIENCE, **more})
    return ZooKeeperManager(settings) if clock is None else ZooKeeperManager(settings, clock=clock)


@contextmanager
def leading(hosts: str, **more: Any) -> Iterator[ZooKeeperManager]:
    """One that leads everything; it is stopped at the end."""
    with manager_of(hosts, **more) as manager:
        for partition in range(manager.partitions):
            manager.become_leader(partition, 1)
        yield manager


class ZooKeeperHarness(ManagerHarness):
    """Makes managers on an ensemble that a fixture starts: for each directory a root of its own.

    Attributes:
        hosts: the servers.
    """

    name = "zookeeper"
    capabilities = frozenset({Capability.CONDITIONS})
    patience = PATIENCE
    hosts = ""

    def root(self, directory: Path) -> str:
        """Makes the root of a directory where it is not there, and returns it."""
        name = "/" + "-".join(directory.parts[-3:])
        with ZooKeeperConnection(ConnectionSettings(hosts=self.hosts)) as connection, suppress(NodeExistsError):
            connection.create(name)
        return name

    def create(self, directory: Path) -> OffsetManager:
        made: OffsetManager = manager_of(self.hosts + self.root(directory))
        return made

    def keeps_group(self, group: str) -> bool:
        return is_node_name(group)


def dual_of(directory: Path, hosts: str, **more: Any) -> DualManager:
    """A dual manager that is not started; `more` are for `manager_of`."""
    log = LogManager(ManagerSettings(path=directory, partitions=3, maintenance=MaintenanceConfig(enabled=False)))
    return DualManager(log, manager_of(hosts, **more), commit_timeout=more.get("commit_timeout", PATIENCE))


@contextmanager
def leading_both(directory: Path, hosts: str, **more: Any) -> Iterator[DualManager]:
    """A dual manager that leads everything; it is stopped at the end."""
    with dual_of(directory, hosts, **more) as manager:
        for partition in range(manager.partitions):
            manager.become_leader(partition, manager.leader_epoch(partition) + 1).result(PATIENCE)
        yield manager


class DualHarness(ZooKeeperHarness):
    """Makes dual managers, each with its log in the directory."""

    name = "dual"
    capabilities = frozenset({Capability.METADATA, Capability.EPOCHS, Capability.TIMESTAMPS, Capability.HISTORY})

    def create(self, directory: Path) -> OffsetManager:
        made: OffsetManager = dual_of(directory, self.hosts + self.root(directory))
        return made

    def history(self, directory: Path, group: str, key: TopicPartition) -> list[int]:
        with offsetlog.open(directory, read_only=True) as store:
            return [each.value.offset for each in store.history(group, *key)]
