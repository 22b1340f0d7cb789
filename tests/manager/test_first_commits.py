"""The directory of a partition appears with its first commit, or its first batch, under any race."""

from __future__ import annotations

import threading

from offsetlog.config import MaintenanceConfig
from offsetlog.errors import FencedLeaderEpochError, NotCoordinatorError
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.replica_partitions import ReplicaPartitions
from offsetlog.manager.settings import ManagerSettings
from offsetlog.types import TopicPartition

KEY = TopicPartition("t", 0)


class Held:
    """Holds who makes a partition between its directory and its role."""

    def __init__(self, manager: LogManager) -> None:
        self.reached, self.released = threading.Event(), threading.Event()
        partitions: ReplicaPartitions = manager._partitions
        made = partitions._made

        def hold(partition: object) -> None:
            self.reached.set()
            assert self.released.wait(30)
            made(partition)

        partitions._made = hold


def started(path, **more):
    by_hand = MaintenanceConfig(enabled=False)
    manager = LogManager(ManagerSettings(path=path, partitions=1, maintenance=by_hand, **more))
    manager.start()
    return manager


def test_two_first_commits_at_once_are_both_accepted(tmp_path):
    manager = started(tmp_path)
    manager.become_leader(0, 1).result(10)
    held, failures = Held(manager), []

    def commit(number: int) -> None:
        try:
            manager.commit("g", {TopicPartition("t", number): 1}, durability="process")
        except NotCoordinatorError as failure:
            failures.append(failure)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(2)]
    threads[0].start()
    assert held.reached.wait(30)
    threads[1].start()
    threads[1].join(0.2)  # without the rule it finds the partition, and does not lead it
    held.released.set()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert len(manager.fetch("g")) == 2
    manager.stop()


def test_a_first_commit_does_not_lead_after_leadership_has_moved(tmp_path):
    manager = started(tmp_path, replication_factor=3)
    manager.become_leader(0, 1).result(10)
    held, answers = Held(manager), []

    def commit() -> None:
        try:
            answers.append(manager.commit("g", {KEY: 1}, durability="process"))
        except (NotCoordinatorError, FencedLeaderEpochError) as failure:
            answers.append(failure)

    thread = threading.Thread(target=commit)
    thread.start()
    assert held.reached.wait(30)
    manager.become_follower(0, 2)
    held.released.set()
    thread.join(30)
    assert isinstance(answers[0], NotCoordinatorError)
    replica = manager.replica(0)
    assert (replica.leadership.epoch, replica.leadership.leads) == (2, False)
    assert manager.positions(0).log_end == 0
    manager.stop()
