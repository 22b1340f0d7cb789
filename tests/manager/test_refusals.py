"""Refusals say what is wrong, where, and what to do: of the log manager and of the base class."""

from __future__ import annotations

import pytest

from offsetlog.errors import (
    ClosedError,
    FencedLeaderEpochError,
    LockedError,
    NotCoordinatorError,
    PartitionError,
)
from offsetlog.manager.base import BaseOffsetManager
from offsetlog.types import TopicPartition
from tests.manager.managers import manager_of

KEY = TopicPartition("t", 0)


@pytest.fixture(params=["log", "base"])
def manager(request, tmp_path):
    made = manager_of(tmp_path) if request.param == "log" else BaseOffsetManager(partitions=1)
    yield made
    made.stop()


CALLS = {
    "commit": lambda manager: manager.commit("g", {KEY: 1}),
    "commit_async": lambda manager: manager.commit_async("g", {KEY: 1}),
    "fetch": lambda manager: manager.fetch("g"),
    "become_leader": lambda manager: manager.become_leader(0, 1),
    "partitions": lambda manager: manager.partitions,
    "watch": lambda manager: manager.watch(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_manager_that_does_not_run_says_which(manager, call):
    with pytest.raises(ClosedError, match=r"the manager is not started; start\(\) it"):
        call(manager)
    manager.start()
    manager.stop()
    with pytest.raises(ClosedError, match="the manager was stopped; create a new one"):
        call(manager)


def test_an_epoch_that_is_too_old_is_refused_with_the_newest_one(manager):
    manager.start()
    manager.become_leader(0, 5).result(10)
    manager.resign(0, 5)
    with pytest.raises(FencedLeaderEpochError, match="log partition 0: leader epoch 5 is not above 5"):
        manager.become_leader(0, 5)
    with pytest.raises(FencedLeaderEpochError, match="leader epoch 4 is below 5, the newest"):
        manager.become_follower(0, 4)


@pytest.mark.parametrize("number", ["0", 0.0, True, None])
def test_a_log_partition_that_is_no_int_is_refused_with_what_it_is(manager, number):
    manager.start()
    with pytest.raises(PartitionError) as refused:
        manager.state(number)
    assert str(refused.value) == f"a log partition must be an int from 0 to 0, not {number!r}"


@pytest.mark.parametrize("number", [1, -1])
def test_a_log_partition_that_is_not_there_is_refused(manager, number):
    manager.start()
    with pytest.raises(PartitionError, match=f"log partition {number} does not exist: the highest is 0"):
        manager.state(number)


def test_a_log_manager_shows_its_directory_and_whether_it_runs(tmp_path):
    manager = manager_of(tmp_path)
    assert repr(manager) == f"<LogManager {tmp_path} not started>"
    with manager:
        assert repr(manager) == f"<LogManager {tmp_path} started>"
    assert repr(manager) == f"<LogManager {tmp_path} stopped>"


def test_a_directory_of_another_process_is_refused_with_what_to_do(tmp_path):
    with manager_of(tmp_path), pytest.raises(LockedError) as caught:
        manager_of(tmp_path).start()
    assert "; stop that process first: only one process may use a directory" in str(caught.value)
    assert "read_only" not in str(caught.value)


def test_what_a_log_partition_refuses_names_its_directory(tmp_path):
    with manager_of(tmp_path) as manager:
        manager.become_leader(0, 1).result(10)
        manager.commit("g", {KEY: 1})
        manager.resign(0, 1)
        with pytest.raises(NotCoordinatorError, match=r"does not lead .*\(.*/__consumer_offsets-0\)"):
            manager.commit("g", {KEY: 1})
        with pytest.raises(FencedLeaderEpochError) as caught:
            manager.append_as_follower(0, 0, b"")
        assert caught.value.path == str(tmp_path / "__consumer_offsets-0")
