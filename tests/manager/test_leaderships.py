"""Changes of leadership that race their own work: elections, resignations, drops, loads that fail."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path

import pytest
from depth import by_depth, first_seed

from offsetlog import opening
from offsetlog.config import MaintenanceConfig
from offsetlog.errors import (
    CapacityError,
    ClosedError,
    FencedLeaderEpochError,
    NotCoordinatorError,
    OffsetLogError,
    StorageError,
)
from offsetlog.manager.interface import PartitionState
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings

from .replicas import KEYS, SMALL_SEGMENTS, Later, partition_of, start

BY_HAND = MaintenanceConfig(enabled=False)


@pytest.fixture
def path(tmp_path) -> Path:
    """A log whose values are 0 to 39, all of them below W."""
    given = {"config": SMALL_SEGMENTS, "maintenance": BY_HAND, "background": False}
    with opening.open_with(tmp_path / "data", 1, "process", **given) as store:
        for number, key in enumerate(KEYS):
            store.commit("g", {key: number})
    return tmp_path / "data"


@pytest.fixture
def executor() -> Later:
    return Later()


class Gate:
    """Has loads wait until the test lets them go on, or fail."""

    def __init__(self, manager: LogManager) -> None:
        self.began = threading.Semaphore(0)
        self.opened = threading.Semaphore(0)
        self.failure: Exception | None = None
        self._load = manager._replicas.load
        manager._replicas.load = self.load

    def load(self, partition) -> None:
        self.began.release()
        assert self.opened.acquire(timeout=30)
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        self._load(partition)


def test_an_election_that_is_repeated_is_the_same_and_older_ones_are_refused(path, executor):
    manager = start(path, executor)
    transition = manager.become_leader(0, 5)
    assert manager.become_leader(0, 5) is transition
    executor.run()
    assert manager.become_leader(0, 5) is transition
    for call in (manager.become_leader, manager.become_follower, manager.resign):
        with pytest.raises(FencedLeaderEpochError):
            call(0, 4)
    assert manager.state(0) is PartitionState.ACTIVE
    # It resigns in its own epoch, and leads in it no more.
    manager.resign(0, 5)
    with pytest.raises(FencedLeaderEpochError):
        manager.become_leader(0, 5)
    assert manager.state(0) is PartitionState.UNLOADED
    manager.stop()


@pytest.mark.parametrize("keep", [True, False])
def test_a_resignation_before_a_load_begins_takes_it_back(path, executor, keep):
    manager = start(path, executor, keep_table=keep)
    elected = manager.become_leader(0, 5)
    resigned = manager.resign(0, 5)
    with pytest.raises(FencedLeaderEpochError):
        elected.result(0)
    executor.run()
    assert resigned.done()
    assert partition_of(manager).role == "unloaded"
    again = manager.become_leader(0, 6)
    executor.run()
    again.result(0)
    assert manager.fetch("g")[KEYS[7]].offset == 7
    manager.stop()


@pytest.mark.parametrize("keep", [True, False])
def test_a_resignation_during_a_load_keeps_or_drops_what_it_finds(path, keep):
    manager = start(path, keep_table=keep)
    gate = Gate(manager)
    manager.become_leader(0, 5)
    assert gate.began.acquire(timeout=30)
    resigned = manager.resign(0, 5)
    with pytest.raises(NotCoordinatorError):
        manager.fetch("g")
    gate.opened.release()
    resigned.result(30)
    until_idle(manager)
    assert partition_of(manager).role == ("follower" if keep else "unloaded")
    manager.stop()


def until_idle(manager: LogManager) -> None:
    slot = manager._leaderships._slots[0]
    done = threading.Event()
    while slot.works:
        manager._executor.submit(done.set)
        done.wait(0.01)


def test_an_election_during_a_load_for_a_follower_needs_no_other(path):
    manager = start(path)
    gate = Gate(manager)
    followed = manager.become_follower(0, 5)
    assert gate.began.acquire(timeout=30)
    elected = manager.become_leader(0, 6)
    assert not elected.done()
    with pytest.raises(FencedLeaderEpochError):
        followed.result(0)
    gate.opened.release()
    elected.result(30)
    assert manager.fetch("g")[KEYS[7]].offset == 7
    assert not gate.began.acquire(blocking=False)
    manager.stop()


def test_a_load_that_fails_for_an_older_change_does_not_fail_a_newer_one(path):
    manager = start(path)
    gate = Gate(manager)
    gate.failure = CapacityError("no memory to begin")
    manager.become_follower(0, 5)
    assert gate.began.acquire(timeout=30)
    elected = manager.become_leader(0, 6)
    gate.opened.release()
    # It did not begin, and another is made for the leader.
    assert gate.began.acquire(timeout=30)
    gate.opened.release()
    elected.result(30)
    assert manager.state(0) is PartitionState.ACTIVE
    manager.stop()


def test_a_load_that_fails_is_no_load_that_goes_on_for_ever(path, executor):
    manager = start(path, executor)
    loads = 0

    def load(partition):
        nonlocal loads
        loads += 1
        raise MemoryError

    manager._replicas.load, kept = load, manager._replicas.load
    transition = manager.become_leader(0, 5)
    executor.run()
    with pytest.raises(MemoryError):
        transition.result(0)
    assert loads == 1
    assert manager.state(0) is PartitionState.FAILED
    manager._replicas.load = kept
    again = manager.become_leader(0, 6)
    executor.run()
    again.result(0)
    manager.stop()


def damage(path: Path) -> None:
    # In a closed segment, which an open after a clean stop does not read.
    given = {"config": SMALL_SEGMENTS, "maintenance": BY_HAND, "background": False}
    with opening.open_with(path, 1, "process", **given) as store:
        for number in range(200):
            store.commit("h", {KEYS[0]: number})
    log, *others = sorted(path.glob("__consumer_offsets-0/*.log"))
    assert others
    content = bytearray(log.read_bytes())
    content[len(content) // 4] ^= 1
    log.write_bytes(content)


def test_a_load_that_found_damage_has_failed_for_who_was_elected_meanwhile(path):
    damage(path)
    manager = start(path)
    gate = Gate(manager)
    manager.become_follower(0, 5)
    assert gate.began.acquire(timeout=30)
    elected = manager.become_leader(0, 6)
    gate.opened.release()
    with pytest.raises(OffsetLogError, match="checksum"):
        elected.result(30)
    assert manager.state(0) is PartitionState.FAILED
    manager.stop()


def test_a_leader_with_a_damaged_log_leads_nothing(path, executor):
    damage(path)
    manager = start(path, executor)
    for epoch in (5, 6):
        transition = manager.become_leader(0, epoch)
        executor.run()
        with pytest.raises(OffsetLogError):
            transition.result(0)
        assert manager.state(0) is PartitionState.FAILED
        # An unreadable position must not look as if it had never been committed.
        with pytest.raises(OffsetLogError):
            manager.fetch("g", KEYS)
    manager.stop()


def test_a_table_that_a_later_role_wants_is_not_dropped(path, executor):
    manager = start(path, executor, keep_table=False, warm_followers=True)
    manager.become_leader(0, 5)
    executor.run()
    manager.resign(0, 5)
    [drop] = executor.work
    followed = manager.become_follower(0, 6)
    drop()
    executor.run()
    assert followed.done()
    assert partition_of(manager).role == "follower"
    manager.stop()


def test_a_drop_that_a_change_overtakes_is_none(path, executor):
    manager = start(path, executor, keep_table=False, warm_followers=True)
    manager.become_leader(0, 5)
    executor.run()
    leaderships = manager._leaderships
    drop = leaderships._drop

    def drop_late(number):
        manager.become_follower(0, 6)
        drop(number)

    leaderships._drop = drop_late
    loads = []
    manager._replicas.load = loads.append
    manager.resign(0, 5)
    executor.work.pop(0)()
    assert partition_of(manager).role == "follower"
    assert loads == []
    assert executor.work == []
    manager.stop()


def test_a_truncation_at_the_end_of_a_load_is_followed_by_another(path, executor):
    manager = start(path, executor)
    load = manager._replicas.load
    cut = []

    def load_and_cut(partition):
        load(partition)
        if not cut:
            cut.append(True)
            manager.truncate_to(0, 5, 20)

    manager._replicas.load = load_and_cut
    followed = manager.become_follower(0, 5)
    executor.run()
    assert followed.done()
    assert partition_of(manager).role == "follower"
    assert manager.positions(0).log_end == 20
    manager.stop()


def test_a_callback_of_a_transition_may_wait_for_who_calls_the_manager(path):
    manager = start(path)
    answered = []

    def change(epoch):
        # On a thread of its own, which the callback waits for, as for one that holds the host's lock.
        other = threading.Thread(target=lambda: answered.append(manager.resign(0, epoch)))
        other.start()
        other.join(30)
        assert not other.is_alive()

    first = manager.become_leader(0, 5)
    first.add_done_callback(lambda _: change(7))
    second = manager.become_follower(0, 6)
    second.add_done_callback(lambda _: change(8))
    done = manager.become_leader(0, 9)
    done.result(30)
    assert len(answered) == 2
    manager.stop()


def test_a_directory_that_is_made_while_another_is_elected_does_not_lead(tmp_path, executor):
    manager = start(tmp_path / "data", executor, replication_factor=1)
    manager.become_leader(0, 5)
    make = manager._owned.make

    def make_late(number):
        made = make(number)
        manager.become_follower(0, 6)
        return made

    manager._owned.make = make_late
    with pytest.raises(NotCoordinatorError):
        manager.commit("g", {KEYS[0]: 1})
    assert not manager.open_core.replica(0).leadership.leads
    assert manager.positions(0).log_end == 0
    manager.stop()


def test_many_first_commits_at_once_make_one_partition(tmp_path):
    manager = start(tmp_path / "data", background=True, replication_factor=1)
    manager.become_leader(0, 5).result(10)
    barrier = threading.Barrier(8)

    def commit(number):
        barrier.wait(10)
        manager.commit("g", {KEYS[number]: number})

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(manager.fetch("g")) == 8
    assert len(manager._owned.all()) == 1
    manager.stop()


@pytest.mark.parametrize("warm", [True, False])
def test_a_follower_that_loads_sends_clients_to_its_leader(path, executor, warm):
    manager = start(path, executor, warm_followers=warm)
    with pytest.raises(NotCoordinatorError):
        manager.fetch("g", KEYS[:1])
    manager.become_follower(0, 5)
    with pytest.raises(NotCoordinatorError):
        manager.fetch("g", KEYS[:1])
    with pytest.raises(NotCoordinatorError):
        manager.commit("g", {KEYS[0]: 1})
    manager.stop()


# ------------------------------------------------------------------------------------- any schedule


class Schedule:
    """Random changes, and their work in a random order."""

    def __init__(self, path: Path, draw: random.Random) -> None:
        self.draw = draw
        self.executor = Later()
        self.manager = start(
            path, self.executor, keep_table=draw.random() < 0.5, warm_followers=draw.random() < 0.5
        )
        self.epoch = self.manager.leader_epoch(0)
        self.transitions: list = []
        self.calls: list[str] = []
        self._load = self.manager._replicas.load
        self.manager._replicas.load = self.load

    def load(self, partition) -> None:
        chance = self.draw.random()
        if chance < 0.15:
            raise StorageError("the disk is busy")
        if chance < 0.3:
            self.change()  # while the load is under way
        self._load(partition)
        if chance > 0.85:
            self.change()  # at its end
        if chance > 0.93:
            self.truncate()

    def truncate(self) -> None:
        end = self.manager.positions(0).log_end
        try:
            self.manager.truncate_to(0, self.manager.leader_epoch(0), max(1, end - self.draw.randrange(4)))
        except OffsetLogError:
            return
        self.calls.append("truncate")

    def change(self) -> None:
        name = self.draw.choice(("become_leader", "become_follower", "resign"))
        self.epoch += self.draw.randrange(3)
        self.calls.append(f"{name} {self.epoch}")
        try:
            self.transitions.append(getattr(self.manager, name)(0, self.epoch))
        except FencedLeaderEpochError:
            self.calls.append("refused")

    def run(self) -> None:
        for _ in range(self.draw.randrange(3, 25)):
            if self.draw.random() < 0.5:
                self.change()
            elif self.draw.random() < 0.2:
                self.truncate()
            elif self.executor.work:
                self.executor.work.pop(self.draw.randrange(len(self.executor.work)))()
        self.settle()

    def settle(self) -> None:
        self.executor.run()
        self.manager.advance(0, self.manager.leader_epoch(0), self.manager.positions(0).log_end)
        self.executor.run()

    def check(self) -> None:
        assert all(each.done() for each in self.transitions), self.calls
        # A load that failed is made up for by the next election, whatever came before.
        self.manager._replicas.load = self._load
        elected = self.manager.become_leader(0, self.manager.leader_epoch(0) + 1)
        self.settle()
        elected.result(0)
        found = self.manager.fetch("g")
        end = self.manager.positions(0).log_end
        assert {key: value.offset for key, value in found.items()} == {
            key: number for number, key in enumerate(KEYS[:end])
        }, self.calls
        self.manager.stop()


def test_every_schedule_ends_with_an_answer_to_everybody(path, tmp_path):
    seed = first_seed()
    for number in range(seed, seed + by_depth(gate=60, long=3000)):
        print(f"OL_SEED={number}")
        shutil.copytree(path, tmp_path / "run")
        schedule = Schedule(tmp_path / "run", random.Random(number))
        schedule.run()
        schedule.check()
        shutil.rmtree(tmp_path / "run")


def test_who_waits_for_a_change_is_answered_when_the_manager_is_abandoned(path, executor):
    manager = start(path, executor)
    transition = manager.become_leader(0, 5)
    assert not transition.done()
    manager.abandon()
    with pytest.raises(ClosedError):
        transition.result(0)


@pytest.mark.parametrize("call", ["become_leader", "become_follower"])
def test_a_change_for_which_there_was_no_thread_can_be_repeated(path, executor, monkeypatch, call):
    manager = start(path, executor)
    former = manager.become_follower(0, 4)

    def refuse(work):
        raise CapacityError("no thread")

    executor.work.clear()
    with monkeypatch.context() as patched:
        patched.setattr(executor, "submit", refuse)
        with pytest.raises(CapacityError):
            getattr(manager, call)(0, 5)
    with pytest.raises(FencedLeaderEpochError):
        former.result(0)  # it gave way
    transition = getattr(manager, call)(0, 5)
    executor.run()
    assert transition.result(0) >= 0
    manager.stop()


class SlowElection:
    """The replica of a log partition whose disk does not answer until the test lets it."""

    def __init__(self, replica) -> None:
        self._replica = replica
        self.began, self.go_on = threading.Event(), threading.Event()

    def become_leader(self, epoch, *, alone):
        self.began.set()
        assert self.go_on.wait(30)
        self._replica.become_leader(epoch, alone=alone)

    def __getattr__(self, name):
        return getattr(self._replica, name)


def test_a_disk_that_is_slow_at_an_election_holds_up_no_other_partition(tmp_path, monkeypatch):
    settings = ManagerSettings(path=tmp_path, partitions=2, replication_factor=2)
    with LogManager(settings, background=False) as manager:
        groups = {manager.partition_for(f"g{number}"): f"g{number}" for number in range(20)}
        for number, group in groups.items():
            manager.become_leader(number, 1).result(10)
            manager.commit(group, {KEYS[0]: 1}, durability="process")
        slow = SlowElection(manager.open_core.replica(0))
        replica = manager._replicas.replica
        monkeypatch.setattr(
            manager._replicas, "replica", lambda number: replica(number) if number else slow
        )
        election = threading.Thread(target=lambda: manager.become_leader(0, 2))
        election.start()
        assert slow.began.wait(10)
        pending = manager.commit_async(groups[1], {KEYS[0]: 2})
        manager.advance(1, 1, manager.positions(1).log_end)
        assert pending.result(10)
        assert manager.become_leader(1, 2).done()
        assert manager.fetch(groups[1])[KEYS[0]].offset == 2
        slow.go_on.set()
        election.join(10)
        assert manager.leader_epoch(0) == 2
