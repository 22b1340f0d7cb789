"""Expiry and deleted topics: answered when what they wrote is as durable as a commit, and a partition at a time."""

from __future__ import annotations

import pytest

from offsetlog._native.clocks import ManualClock
from offsetlog.config import MaintenanceConfig
from offsetlog.errors import (
    ArgumentTypeError,
    ClockError,
    ClosedError,
    CommitTimeoutError,
    CoordinatorLoadingError,
    InvalidArgumentError,
    NotCoordinatorError,
    OffsetLogError,
)
from offsetlog.types import TopicPartition
from tests.manager.managers import KEYS, leading, manager_of
from tests.manager.manual_executor import ManualExecutor

EXPIRES = MaintenanceConfig(enabled=False, retention_ms=2_000)
START_MS = 1_700_000_000_000


class Clock:
    """The clocks of a manager, which go together."""

    def __init__(self, executor):
        self.day = ManualClock(START_MS)
        self.executor = executor

    def pass_time(self, seconds):
        self.day.milliseconds += int(seconds * 1000)
        self.executor.pass_time(seconds)


@pytest.fixture
def executor():
    return ManualExecutor()


@pytest.fixture
def clock(executor):
    return Clock(executor)


@pytest.fixture
def manager(tmp_path, executor, clock):
    """Leads four partitions of one of three replicas; each has a group of two topics."""
    settings = {"partitions": 4, "replication_factor": 3, "maintenance": EXPIRES}
    with leading(tmp_path / "data", executor=executor, clock=clock.day, **settings) as manager:
        for group in groups_of(manager):
            manager.commit(group, dict.fromkeys([*KEYS[:3], TopicPartition("other", 0)], 7), durability="process")
        advance(manager)
        yield manager


def groups_of(manager):
    found = {}
    for number in range(1000):
        found.setdefault(manager.partition_for(f"g{number}"), f"g{number}")
    assert len(found) == manager.partitions
    return [found[number] for number in range(manager.partitions)]


def advance(manager, numbers=range(4)):
    for number in numbers:
        manager.advance(number, manager.leader_epoch(number), 1000)


def sweep_of(manager, kind):
    return manager.expire_async() if kind == "expire" else manager.on_topic_deleted_async(["t"])


@pytest.mark.parametrize(("kind", "deleted"), [("expire", 16), ("topics", 12)])
def test_a_sweep_is_answered_when_all_that_it_wrote_is_durable(manager, executor, clock, kind, deleted):
    clock.pass_time(3)
    pending = sweep_of(manager, kind)
    before = [manager.positions(number).log_end for number in range(4)]
    assert len(executor.queue) == 1
    for number in range(4):
        # A partition at a time, and other work in between.
        assert [manager.positions(each).log_end > before[each] for each in range(4)] == [
            each < number for each in range(4)
        ]
        executor.queue.popleft()()
    assert not executor.queue
    advance(manager, [0, 1, 2])
    assert not pending.done()
    advance(manager, [3])
    assert pending.result(0) == deleted
    left = set() if kind == "expire" else {TopicPartition("other", 0)}
    assert all(set(manager.fetch(group)) == left for group in groups_of(manager))


@pytest.mark.parametrize("kind", ["expire", "topics"])
def test_a_call_that_waits_waits_for_what_it_wrote(manager, clock, kind):
    call = manager.expire if kind == "expire" else lambda timeout: manager.on_topic_deleted(["t"], timeout=timeout)
    clock.pass_time(3)
    with pytest.raises(CommitTimeoutError) as caught:
        call(timeout=0)
    assert caught.value.__notes__ == [f"{16 if kind == 'expire' else 12} positions were deleted"]
    advance(manager)
    assert call(timeout=0) == 0


def test_nothing_to_delete_is_answered_without_a_wait(manager, executor):
    pending = manager.expire_async()
    executor.run()
    assert pending.result(0) == 0
    assert manager.expire(timeout=0) == 0
    assert manager.on_topic_deleted(["nobody's"], timeout=0) == 0


def test_a_manager_that_leads_nothing_is_answered_at_once(tmp_path, executor):
    with leading(tmp_path / "data", executor=executor) as manager:
        assert manager.expire_async().result(0) == 0
        assert manager.on_topic_deleted_async(["t"]).result(0) == 0


def test_a_sweep_times_out_as_a_commit_and_nothing_is_undone(manager, executor):
    pending = manager.on_topic_deleted_async(["t"], timeout=2)
    executor.run()
    executor.pass_time(2.5)
    with pytest.raises(CommitTimeoutError) as caught:
        pending.result(0)
    assert caught.value.__notes__ == ["12 positions were deleted"]
    advance(manager)
    assert all(len(manager.fetch(group)) == 1 for group in groups_of(manager))
    assert all(len(each) == 0 for each in manager._for_watermark)


def test_a_partition_that_is_led_no_more_keeps_the_others_from_nothing(manager, executor):
    pending = manager.on_topic_deleted_async(["t"])
    manager.become_follower(2, 2)
    executor.run()
    advance(manager, [0, 1, 3])
    with pytest.raises(OffsetLogError) as caught:
        pending.result(0)
    assert isinstance(caught.value, NotCoordinatorError)
    assert caught.value.__notes__ == ["9 positions were deleted"]
    assert all(len(manager.fetch(group)) == 1 for number, group in enumerate(groups_of(manager)) if number != 2)


def test_a_clock_that_cannot_be_right_deletes_nothing(manager, clock):
    clock.day.milliseconds += 10 * 86_400_000
    end = [manager.positions(number).log_end for number in range(4)]
    for call in (manager.expire, manager.expire_async):
        with pytest.raises(ClockError):
            call()
    assert end == [manager.positions(number).log_end for number in range(4)]


def test_one_name_is_no_list_of_topics(manager):
    for call in (manager.on_topic_deleted, manager.on_topic_deleted_async):
        with pytest.raises(ArgumentTypeError):
            call("t")
    assert all(len(manager.fetch(group)) == 4 for group in groups_of(manager))


@pytest.mark.parametrize("begun", [0, 2, 4])
def test_stop_answers_a_sweep_wherever_it_is(manager, executor, begun):
    pending = manager.on_topic_deleted_async(["t"])
    for _ in range(begun):
        executor.queue.popleft()()
    manager.stop()
    with pytest.raises((ClosedError, NotCoordinatorError)):
        pending.result(0)
    with pytest.raises(ClosedError):
        manager.on_topic_deleted_async(["t"])


@pytest.mark.parametrize("begun", [0, 1, 3])
def test_an_executor_that_refuses_work_is_in_the_answer(manager, executor, begun, monkeypatch):
    def refuse(work):
        raise MemoryError("no thread")

    if begun == 0:
        monkeypatch.setattr(executor, "submit", refuse)
    pending = manager.on_topic_deleted_async(["t"])
    for number in range(begun):
        if number == begun - 1:
            monkeypatch.setattr(executor, "submit", refuse)
        executor.queue.popleft()()
    advance(manager)
    with pytest.raises(MemoryError, match="no thread") as caught:
        pending.result(0)
    assert caught.value.__notes__ == [f"{3 * begun} positions were deleted"]


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_that_is_none_is_refused_before_anything_is_deleted(manager, clock, timeout):
    clock.pass_time(3)
    end = [manager.positions(number).log_end for number in range(4)]
    for call in (
        lambda: manager.expire(timeout=timeout),
        lambda: manager.expire_async(timeout=timeout),
        lambda: manager.on_topic_deleted(["t"], timeout=timeout),
        lambda: manager.on_topic_deleted_async(["t"], timeout=timeout),
    ):
        with pytest.raises(InvalidArgumentError):
            call()
    assert end == [manager.positions(number).log_end for number in range(4)]


def test_a_partition_that_loads_refuses_to_forget_a_topic(tmp_path, executor):
    path = tmp_path / "loads"
    with leading(path, partitions=2) as manager:
        for group in groups_of(manager):
            manager.commit(group, {TopicPartition("t", 0): 1})
    with manager_of(path, partitions=2, executor=executor) as manager:
        manager.become_leader(0, 2)
        executor.run()
        manager.become_leader(1, 2)
        with pytest.raises(CoordinatorLoadingError) as caught:
            manager.on_topic_deleted(["t"])
        assert caught.value.__notes__ == ["1 positions were deleted"]
        executor.run()
        assert manager.on_topic_deleted(["t"]) == 1


def test_a_leader_without_its_lease_does_not_say_that_nothing_is_left_of_a_topic(manager, clock):
    for number in range(4):
        manager.grant(number, manager.leader_epoch(number), 5.0)
    assert manager.on_topic_deleted(["nobody's"], timeout=0) == 0
    clock.pass_time(5)
    with pytest.raises(NotCoordinatorError, match="lease"):
        manager.on_topic_deleted(["nobody's"], timeout=0)
