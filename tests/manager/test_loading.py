"""Commits that race a load which finds older values: the newest one wins, in memory and after a reload."""

from __future__ import annotations

import random
import threading

import pytest

import offsetlog
from offsetlog.config import MaintenanceConfig
from offsetlog.errors import CoordinatorLoadingError, NotCoordinatorError
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings
from offsetlog.types import TopicPartition
from tests.depth import by_depth, first_seed

BY_HAND = MaintenanceConfig(enabled=False)
KEYS = [TopicPartition("t", number) for number in range(40)]


def manager_of(path, *, accept=True, **more):
    settings = ManagerSettings(
        path=path, partitions=1, durability="process", accept_while_loading=accept, maintenance=BY_HAND, **more
    )
    return LogManager(settings)


def test_the_newest_commit_wins_whatever_the_schedule(tmp_path):
    seed = first_seed()
    draw = random.Random(seed)
    print(f"seed {seed}")
    with offsetlog.open(tmp_path, 1, "process", maintenance=BY_HAND) as store:
        for value in range(300):
            store.commit("g", dict.fromkeys(draw.sample(KEYS, 5), value))
        newest = {key: found.offset for key, found in store.fetch("g").items()}
    epoch = 10
    for schedule in range(by_depth(gate=120, long=1000)):
        with manager_of(tmp_path) as manager:
            epoch += 1
            committed = {}

            def commit(manager=manager, committed=committed, schedule=schedule):
                for number, key in enumerate(draw.sample(KEYS, 8)):
                    value = 1_000_000 + 100 * schedule + number
                    manager.commit("g", {key: value})
                    committed[key] = value

            transition = manager.become_leader(0, epoch)
            racer = threading.Thread(target=commit)
            racer.start()
            transition.result(30)
            racer.join()
            newest.update(committed)
            assert {key: found.offset for key, found in manager.fetch("g").items()} == newest
    with offsetlog.open(tmp_path, read_only=True) as store:
        assert {key: found.offset for key, found in store.fetch("g").items()} == newest


def test_a_fetch_before_the_first_commit_answers_nothing_and_makes_no_directory(tmp_path):
    with manager_of(tmp_path) as manager:
        with pytest.raises(NotCoordinatorError):
            manager.fetch("g", KEYS[:1])
        manager.become_leader(0, 1).result(5)
        assert manager.fetch("g", KEYS[:1])[KEYS[0]].offset == -1
        assert not (tmp_path / "__consumer_offsets-0").exists()
        manager.commit("g", {KEYS[0]: 7})
        assert (tmp_path / "__consumer_offsets-0").exists()
        assert manager.fetch("g", KEYS[:1])[KEYS[0]].offset == 7


class Later:
    """An executor whose work runs when the test says so."""

    def __init__(self):
        self.work = []

    def now(self):
        return 0.0

    def submit(self, work):
        self.work.append(work)

    def call_later(self, seconds, work):
        return self

    def cancel(self):
        pass

    def stop(self):
        self.work.clear()

    def run(self):
        while self.work:
            self.work.pop(0)()


@pytest.mark.parametrize("accept", [True, False])
def test_while_a_partition_loads(tmp_path, accept):
    with offsetlog.open(tmp_path, 1, "process", maintenance=BY_HAND) as store:
        store.commit("g", {KEYS[0]: 1, KEYS[1]: 2})
    executor = Later()
    settings = ManagerSettings(path=tmp_path, partitions=1, accept_while_loading=accept, maintenance=BY_HAND)
    manager = LogManager(settings, executor=executor, background=False)
    manager.start()
    transition = manager.become_leader(0, 5)
    with pytest.raises(CoordinatorLoadingError) as caught:
        manager.fetch("g")
    assert (caught.value.error_code, caught.value.retriable) == (14, True)
    if accept:
        manager.commit("g", {KEYS[0]: 9}, durability="process")
    else:
        with pytest.raises(CoordinatorLoadingError):
            manager.commit("g", {KEYS[0]: 9}, durability="process")
    with pytest.raises(CoordinatorLoadingError):
        manager.commit("g", {KEYS[0]: 9}, expected={KEYS[0]: 1}, durability="process")
    assert not transition.done()
    executor.run()
    assert transition.done()
    assert manager.fetch("g")[KEYS[0]].offset == (9 if accept else 1)
    assert manager.fetch("g")[KEYS[1]].offset == 2
    manager.stop()


def test_a_load_for_an_older_role_answers_nobody(tmp_path):
    with offsetlog.open(tmp_path, 1, "process", maintenance=BY_HAND) as store:
        store.commit("g", {KEYS[0]: 1})
    executor = Later()
    settings = ManagerSettings(path=tmp_path, partitions=1, replication_factor=3, maintenance=BY_HAND)
    manager = LogManager(settings, executor=executor, background=False)
    manager.start()
    first = manager.become_leader(0, 5)
    second = manager.become_follower(0, 6)
    with pytest.raises(offsetlog.errors.FencedLeaderEpochError):
        first.result(0)
    executor.run()
    assert second.done()
    with pytest.raises(NotCoordinatorError):
        manager.fetch("g")
    manager.stop()


def test_first_commits_of_two_threads_find_one_partition_that_leads(tmp_path):
    with manager_of(tmp_path) as manager:
        manager.become_leader(0, 1)
        failures = []

        def commit():
            try:
                manager.commit("g", {KEYS[1]: 1})
            except BaseException as raised:
                failures.append(raised)

        second = threading.Thread(target=commit)
        owned = manager.open_partitions
        makes = owned.make

        def make(number):
            # The directory is there, and the partition has no role yet: the second commit waits for that.
            partition = makes(number)
            second.start()
            second.join(0.1)
            return partition

        owned.make = make
        manager.commit("g", {KEYS[0]: 0})
        second.join()
        assert not failures
        assert {key: each.offset for key, each in manager.fetch("g").items()} == {KEYS[0]: 0, KEYS[1]: 1}


def test_a_first_commit_that_races_a_new_leader_leaves_no_second_leader(tmp_path):
    refused = 0
    for round_ in range(by_depth(gate=60, long=600)):
        with manager_of(tmp_path / str(round_), replication_factor=3) as manager:
            manager.become_leader(0, 1)
            begun = threading.Barrier(2)

            def follow(manager=manager, begun=begun):
                begun.wait()
                manager.become_follower(0, 2)

            thread = threading.Thread(target=follow)
            thread.start()
            begun.wait()
            try:
                manager.commit("g", {KEYS[0]: 1})
            except NotCoordinatorError:
                refused += 1
            thread.join()
            assert manager.leader_epoch(0) == 2
            with pytest.raises(NotCoordinatorError):
                manager.commit("g", {KEYS[0]: 2})
    print(f"{refused} first commits were refused")
