"""The managers on ZooKeeper keep the contract while the leader of the ensemble is killed and started again."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from offsetlog.manager.dual.manager import DualManager
from offsetlog.manager.interface import OffsetManager
from offsetlog.manager.testing.harness import ManagerHarness
from offsetlog.manager.testing.test_contract import *  # noqa: F403
from offsetlog.manager.zookeeper.manager import ZooKeeperManager

from .ensemble import Ensemble, is_possible
from .managers import PATIENCE, DualHarness, ZooKeeperHarness

pytestmark = pytest.mark.ci

#: One of so many calls loses the leader before it.
CALLS_PER_KILL = 60


class Leaderless(ManagerHarness):
    """Before some of the calls of a manager the leader is killed, and started again while the call waits.

    The manager knows that its server is gone before the call begins: a write that was under way then could have any
    outcome, which the contract has no word for.  test_manager_failures.py is about these.
    """

    ensemble: Ensemble | None = None
    hosts = ""
    rng = random.Random()
    kills = 0

    def create(self, directory: Path) -> OffsetManager:
        made: Any = super().create(directory)
        for name in ("commit", "commit_async", "fetch", "delete", "delete_group", "on_topic_deleted"):
            setattr(made, name, self.losing_the_leader(made, getattr(made, name)))
        return made

    def losing_the_leader(self, manager: Any, call: Any) -> Any:
        in_zookeeper = manager.zookeeper if isinstance(manager, DualManager) else manager

        def called(*given: Any, **more: Any) -> Any:
            if self.rng.randrange(CALLS_PER_KILL) == 0 and self.is_alone(in_zookeeper):
                self.kill(in_zookeeper)
            return call(*given, **more)

        return called

    @staticmethod
    def is_alone(manager: ZooKeeperManager) -> bool:
        """Whether nothing is under way that the loss of the server could leave unknown."""
        is_main = threading.current_thread() is threading.main_thread()
        is_leading = manager._started and not manager._stopped and not manager._under_way
        # A call that refuses its arguments has not waited for the servers that were lost before it.
        is_connected = is_leading and manager._session.connection.is_connected
        others = [each for each in threading.enumerate() if each.name.startswith("Thread-") and "(race)" in each.name]
        return is_main and is_connected and not others and asyncio._get_running_loop() is None

    def kill(self, manager: ZooKeeperManager) -> None:
        assert self.ensemble is not None
        connection, gone = manager._session.connection, threading.Event()
        connection.add_state_listener(lambda state: state == "suspended" and gone.set())
        self.ensemble.kill_server(self.ensemble.leader())
        assert gone.wait(PATIENCE)
        for number in range(self.ensemble.size):
            if number not in self.ensemble._processes:
                self.ensemble.start_server(number)
        Leaderless.kills += 1


class LeaderlessZooKeeper(Leaderless, ZooKeeperHarness):
    """The ZooKeeper manager."""


class LeaderlessDual(Leaderless, DualHarness):
    """The dual manager."""


offset_managers = [LeaderlessZooKeeper(), LeaderlessDual()]


@pytest.fixture(scope="module", autouse=True)
def _on_an_ensemble_that_loses_its_leader(tmp_path_factory):
    assert is_possible()
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    with Ensemble(tmp_path_factory.mktemp("failover")) as running:
        for harness in offset_managers:
            harness.ensemble, harness.hosts, harness.rng = running, running.hosts, random.Random(seed)
        yield
    assert Leaderless.kills > 3, "the leader was hardly ever killed"
