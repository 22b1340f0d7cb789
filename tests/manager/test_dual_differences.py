"""The differences that the dual manager knows: bounded, true beside commits, and complete by `catch_up_all`."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from offsetlog import errors
from offsetlog.config import MaintenanceConfig
from offsetlog.manager.dual.catching_up import UNANSWERED_MAX
from offsetlog.manager.dual.differences import Difference, Differences
from offsetlog.manager.dual.manager import DualManager
from offsetlog.manager.interface import PartitionState
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings
from offsetlog.manager.transition import PartitionTransition
from offsetlog.types import OffsetAndMetadata, TopicPartition

from .dual_storages import GROUP, KEYS, PATIENCE, Crash, Kept, Site, ZooKeeper, offsets_in
from .manual_executor import ManualExecutor

# -------------------------------------------------------------------------------------------------------------- bounded


def value(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset)


def test_what_is_known_of_zookeeper_is_bounded():
    differences = Differences(known_max=10)
    for number in range(1000):
        differences.note(f"group-{number}", KEYS[:1], {}, {KEYS[0]: value(number)})
        # The first one is asked for all the time.
        assert differences.last_in_zookeeper("group-0", KEYS[:1]) == {KEYS[0]: 0}
    known = [number for number in range(1000) if differences.last_in_zookeeper(f"group-{number}", KEYS[:1])]
    assert known == [0, *range(991, 1000)]
    differences.forget(lambda group: group == "group-999")
    differences.note_equal("one more", {KEYS[0]: 1})
    assert differences.last_in_zookeeper("group-991", KEYS[:1]) == {KEYS[0]: 991}


def test_one_group_with_many_positions_is_bounded_too():
    differences = Differences(known_max=10)
    keys = [TopicPartition("t", number) for number in range(1000)]
    for key in keys:
        differences.note_equal(GROUP, {key: 1})
    known = [key for key in keys if differences.last_in_zookeeper(GROUP, [key])]
    assert len(known) <= 10
    assert known[-1] == keys[-1]
    differences.note_equal(GROUP, dict.fromkeys(keys, 2))
    assert differences.last_in_zookeeper(GROUP, keys) == dict.fromkeys(keys, 2)


def test_differences_beyond_the_bound_are_counted():
    differences = Differences(listed_max=3)
    keys = [TopicPartition("t", number) for number in range(5)]
    differences.note(GROUP, keys, {key: value(2) for key in keys}, {key: value(1) for key in keys})
    assert [each.partition for each in differences.listed()] == [0, 1, 2]
    assert differences.counters().unlisted == 2
    differences.note_equal(GROUP, {keys[0]: 2})
    differences.note_lagging("other", {keys[4]: 9})
    assert [each[:3] for each in differences.listed()] == [("g", "t", 1), ("g", "t", 2), ("other", "t", 4)]
    for group in (GROUP, "other"):
        differences.forget_positions(group, keys)
    assert (differences.listed(), differences._listed_count, differences._known_count) == ([], 0, 0)


def test_fetches_of_groups_that_are_nowhere_leave_a_bounded_rest(monkeypatch):
    monkeypatch.setattr("offsetlog.manager.dual.differences.KNOWN_MAX", 50)
    site = Site()
    with site.start() as manager:
        manager._differences._known_max = 50
        for number in range(300):
            manager.fetch(f"console-{number}", KEYS[:1])
        assert manager._differences._known_count == 50
        assert manager._both.looks.count == 0


def test_groups_that_are_nowhere_are_not_kept():
    with Site().start() as manager:
        for number in range(300):
            assert manager.fetch(f"console-{number}") == {}
            assert manager.compare(f"console-{number}") == []
            assert manager.catch_up(f"console-{number}") == 0
        assert manager._differences._in_zookeeper == {}


def test_a_group_whose_positions_are_gone_is_not_kept():
    differences = Differences()
    differences.note(GROUP, KEYS[:2], {}, {KEYS[0]: value(1)})
    differences.forget_positions(GROUP, KEYS[:1])
    assert (list(differences._in_zookeeper), differences._known_count) == ([GROUP], 1)
    differences.forget_positions(GROUP, KEYS)
    assert (differences._in_zookeeper, differences._known_count, differences.listed()) == ({}, 0, [])


# ------------------------------------------------------------------------------------------------- true beside commits


def interposed(monkeypatch: pytest.MonkeyPatch, storage: Any, call: Any) -> None:
    """Has a call made between the read of the log and that of ZooKeeper, the first time."""
    fetch, calls = storage.fetch, [call]

    def fetch_after(*given: Any) -> Any:
        while calls:
            calls.pop()()
        return fetch(*given)

    monkeypatch.setattr(storage, "fetch", fetch_after)


def test_a_whole_commit_between_the_reads_is_no_difference(monkeypatch):
    site = Site({KEYS[0]: 1}, {KEYS[0]: 1})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        interposed(monkeypatch, manager.zookeeper, lambda: manager.commit(GROUP, {KEYS[0]: 5}))
        assert manager.fetch(GROUP)[KEYS[0]].offset == 5
        assert manager.differences() == []
        assert (manager.counters().zookeeper_larger, manager.counters().log_larger) == (0, 0)


def test_a_rewind_of_another_group_has_a_fetch_read_once(monkeypatch):
    site = Site({KEYS[0]: 1}, {KEYS[0]: 1})
    with site.start() as manager:
        manager.commit("other", {KEYS[0]: 5})
        reads = []
        interposed(monkeypatch, manager.zookeeper, lambda: manager.commit("other", {KEYS[0]: 2}))
        read = manager.zookeeper.read
        monkeypatch.setattr(manager.zookeeper, "read", lambda group: (reads.append(group), read(group))[1])
        assert manager.fetch(GROUP)[KEYS[0]].offset == 1
        assert reads.count(GROUP) == 1
        # One of the same group has it read again, in its turn.
        interposed(monkeypatch, manager.zookeeper, lambda: manager.commit(GROUP, {KEYS[0]: 0}))
        assert manager.fetch(GROUP)[KEYS[0]].offset == 0


def test_a_read_of_a_former_leadership_says_nothing_about_the_next(monkeypatch):
    site = Site({KEYS[0]: 2}, {KEYS[0]: 1})
    with site.start() as manager:
        partition = manager.partition_for(GROUP)

        def lead_again() -> None:
            manager.resign(partition, 1)
            manager.become_leader(partition, 2)

        interposed(monkeypatch, manager.zookeeper, lead_again)
        manager.fetch(GROUP)
        assert manager.differences() == []


@pytest.mark.parametrize("call", ["fetch", "compare", "catch_up", "catch_up_all"])
def test_positions_that_are_gone_in_both_differ_no_more(call):
    site = Site({KEYS[0]: 5})
    with site.start() as manager:
        manager.fetch(GROUP)
        assert manager.differences() == [Difference(GROUP, "t", 0, 5, None)]
        manager.log.delete(GROUP, KEYS)  # it has expired
        getattr(manager, call)(*[] if call == "catch_up_all" else [GROUP])
        assert manager.differences() == []


# ------------------------------------------------------------------------------------------------------------- catch up


def test_catch_up_all_goes_through_both_storages_and_on_after_a_failure(monkeypatch):
    site = Site()
    with site.start() as manager:
        names = {number: [f"{kind}-{number}" for kind in ("log", "zookeeper", "bad")] for number in range(20)}
        for number, (in_log, in_zookeeper, bad) in names.items():
            manager.log.commit(in_log, {KEYS[0]: number})
            manager.zookeeper.commit(in_zookeeper, {KEYS[0]: number})
            manager.zookeeper.commit(bad, {KEYS[0]: number})
        read = manager.zookeeper.read

        def refuse(group: str) -> Any:
            if group.startswith("bad"):
                raise errors.CorruptionError(f"the node of {group} holds no offset")
            return read(group)

        monkeypatch.setattr(manager.zookeeper, "read", refuse)
        manager.resign(1, 2)
        not_led = {group for groups in names.values() for group in groups if manager.partition_for(group) == 1}
        # A group that another process leads, one of the log among them, is not named by this log.
        manager.log.groups = lambda: [group for group in manager.log.kept if group not in {GROUP, *not_led}]
        done = manager.catch_up_all()
        led = {group for groups in names.values() for group in groups} - not_led
        assert not_led
        assert {group: type(failure) for group, failure in done.failures.items()} == {
            **{group: errors.CorruptionError for group in led if group.startswith("bad")},
            **{group: errors.NotCoordinatorError for group in not_led if not group.startswith("log")},
        }
        assert list(done.failures) == sorted(done.failures)
        good = {group for group in led if not group.startswith("bad")}
        assert (done.raised, done.differences, done.is_equal) == (len(good), [], False)
        assert {number: type(failure) for number, failure in done.partitions.items()} == {1: errors.NotCoordinatorError}
        for group in good:
            assert site.stored(group) == ({KEYS[0]: int(group.split("-")[1])},) * 2
        monkeypatch.undo()
        manager.become_leader(1, 3)
        assert manager.catch_up_all().is_equal
        assert manager.catch_up_all().raised == 0


def test_catch_up_all_does_not_try_every_group_of_an_outage(monkeypatch):
    site = Site()
    with site.start() as manager:
        groups = [f"group-{number:02}" for number in range(20)]
        for group in groups:
            manager.log.commit(group, {KEYS[0]: 1})
        asked = []

        def away(group: str) -> Any:
            asked.append(group)
            raise errors.ZooKeeperUnavailableError("away")

        monkeypatch.setattr(manager.zookeeper, "read", away)
        done = manager.catch_up_all()
        assert list(done.failures) == groups
        assert asked == groups[:UNANSWERED_MAX]


def test_catch_up_all_is_not_equal_while_a_log_partition_is_loaded(tmp_path):
    kept: Kept = {}
    executor = ManualExecutor()

    def start(**more: Any) -> DualManager:
        settings = ManagerSettings(path=tmp_path, partitions=2, maintenance=MaintenanceConfig(enabled=False))
        return DualManager(LogManager(settings, **more), ZooKeeper(kept, Crash()), commit_timeout=PATIENCE)

    with start() as manager:
        for partition in range(2):
            manager.become_leader(partition, 1).result(PATIENCE)
        manager.fetch(GROUP, KEYS)
        manager.zookeeper.is_away = True
        manager.commit(GROUP, {KEYS[0]: 9})
    assert kept == {}
    with start(executor=executor) as manager:
        given = [manager.become_leader(partition, 2) for partition in range(2)]
        done = manager.catch_up_all()
        # Nothing differs, and nothing fails: no storage names the group.
        assert (done.raised, done.differences, done.failures) == (0, [], {})
        assert list(done.partitions) == [manager.partition_for(GROUP)]
        assert type(done.partitions[manager.partition_for(GROUP)]) is errors.CoordinatorLoadingError
        assert not done.is_equal
        executor.run()
        for each in given:
            each.result(PATIENCE)
        assert manager.catch_up_all() == (1, [], {}, {})
        assert offsets_in(kept) == {KEYS[0]: 9}


@pytest.mark.parametrize(
    ("state", "error"),
    [(PartitionState.FAILED, errors.PartitionFailedError), (PartitionState.FOLLOWER, errors.NotCoordinatorError)],
)
@pytest.mark.parametrize("is_later", [False, True])
def test_catch_up_all_names_partitions_whose_groups_are_not_known(monkeypatch, state, error, is_later):
    error = error if is_later else errors.CoordinatorLoadingError  # it is led again, and may have been loaded too late
    site = Site()
    with site.start() as manager:
        assert manager.catch_up_all().is_equal
        state_of, states = manager.log.state, [] if is_later else [state]
        groups = manager.log.groups

        def listed() -> Any:
            states[:] = [state] if is_later else []
            return groups()

        monkeypatch.setattr(manager.log, "groups", listed)
        monkeypatch.setattr(
            manager.log, "state", lambda number: states[0] if number == 1 and states else state_of(number)
        )
        done = manager.catch_up_all()
        assert {number: type(failure) for number, failure in done.partitions.items()} == {1: error}
        assert (done.differences, done.failures, done.is_equal) == ([], {}, False)


def test_catch_up_all_names_a_partition_that_was_led_again_while_groups_were_listed(monkeypatch):
    site = Site({KEYS[0]: 9})
    with site.start() as manager:
        partition, groups = manager.partition_for(GROUP), manager.log.groups

        def listed() -> Any:
            manager.resign(partition, 1)
            found = [group for group in groups() if manager.partition_for(group) != partition]
            manager.become_leader(partition, 2)
            return found

        monkeypatch.setattr(manager.log, "groups", listed)
        done = manager.catch_up_all()
        assert (done.raised, done.differences, done.failures) == (0, [], {})
        assert list(done.partitions) == [partition]
        assert type(done.partitions[partition]) is errors.CoordinatorLoadingError
        assert not done.is_equal
        monkeypatch.undo()
        assert manager.catch_up_all() == (1, [], {}, {})


def test_catch_up_all_names_a_partition_that_is_given_up_while_groups_are_caught_up(monkeypatch):
    site = Site({KEYS[0]: 9})
    with site.start() as manager:
        partition = manager.partition_for(GROUP)
        interposed(monkeypatch, manager.zookeeper, lambda: manager.resign(1 - partition, 1))
        done = manager.catch_up_all()
        assert (done.raised, done.differences, done.failures) == (1, [], {})
        assert {number: type(each) for number, each in done.partitions.items()} == {
            1 - partition: errors.NotCoordinatorError
        }


def test_what_another_client_moves_is_looked_at_again(monkeypatch):
    site = Site({KEYS[0]: 5, KEYS[1]: 5}, {KEYS[0]: 1, KEYS[1]: 1})
    with site.start() as manager:
        commit = manager.zookeeper.commit
        moved = []

        def move(*given: Any, **more: Any) -> Any:
            if not moved:
                moved.append(True)
                commit(GROUP, {KEYS[0]: 9})
            return commit(*given, **more)

        monkeypatch.setattr(manager.zookeeper, "commit", move)
        assert manager.catch_up(GROUP) == 2
    assert site.stored() == ({KEYS[0]: 9, KEYS[1]: 5},) * 2


def test_differences_are_empty_after_a_start_whatever_differs():
    site = Site({KEYS[0]: 49}, {KEYS[0]: 2})
    with site.start() as manager:
        assert manager.differences() == []
        assert manager.compare(GROUP) == [Difference(GROUP, "t", 0, 49, 2)]
        assert manager.differences() == manager.compare(GROUP)
        assert manager.catch_up_all() == (1, [], {}, {})


# ------------------------------------------------------------------------------------------------------------ hand-over


@pytest.mark.parametrize("call", ["resign", "become_follower"])
def test_a_change_of_leadership_ends_once_it_has_in_both(monkeypatch, call):
    site = Site()
    with site.start() as manager:
        of_zookeeper = PartitionTransition(0, 1, lambda: 0.5)
        monkeypatch.setattr(manager.zookeeper, call, lambda *_: of_zookeeper)
        given_up = getattr(manager, call)(0, 1)
        assert (given_up.done(), given_up.partition, given_up.epoch) == (False, 0, 1)
        assert getattr(manager, call)(0, 1) is given_up
        of_zookeeper.succeed(0)
        assert given_up.result(PATIENCE) == 0


@pytest.mark.parametrize("call", ["resign", "become_follower"])
@pytest.mark.parametrize("asked", ["catch_up", "rewind", "late"])
def test_a_change_of_leadership_waits_for_what_has_begun(monkeypatch, call, asked):
    """It has read the log, and sent nothing to ZooKeeper; it must not come there once this process leads again."""
    site = Site({KEYS[0]: 90}, {KEYS[0]: 80 if asked == "catch_up" else 90})
    with site.start() as manager, ThreadPoolExecutor(1) as thread:
        partition, zookeeper = manager.partition_for(GROUP), manager.zookeeper
        has_read, may_go_on = threading.Event(), threading.Event()
        if asked == "late":
            manager.fetch(GROUP, KEYS)
            zookeeper.is_away = True
            manager.commit(GROUP, {KEYS[0]: 95})
            zookeeper.is_away = False
        name = "commit_async" if asked == "late" else "commit"
        write = getattr(zookeeper, name)

        def written(*given: Any, **more: Any) -> Any:
            has_read.set()
            assert may_go_on.wait(PATIENCE)
            return write(*given, **more)

        monkeypatch.setattr(zookeeper, name, written)
        made = thread.submit(
            {
                "catch_up": lambda: manager.catch_up(GROUP),
                "rewind": lambda: manager.commit(GROUP, {KEYS[0]: 50}),
                "late": site.pass_time,
            }[asked]
        )
        assert has_read.wait(PATIENCE)
        try:
            given_up = getattr(manager, call)(partition, 1)
            assert not given_up.done()
        finally:
            may_go_on.set()
        assert given_up.result(PATIENCE) == 0
        assert made.exception(PATIENCE) is None or isinstance(made.exception(), errors.NotCoordinatorError)
        assert (site.stored()[1], manager._turns.groups()) == ({KEYS[0]: 80 if asked == "catch_up" else 90}, [])


def test_a_later_change_takes_the_place_of_one_under_way(monkeypatch):
    site = Site()
    with site.start() as manager:
        of_zookeeper = PartitionTransition(0, 1, lambda: 0.5)
        with monkeypatch.context() as patched:
            patched.setattr(manager.zookeeper, "resign", lambda *_: of_zookeeper)
            given_up = manager.resign(0, 1)
        manager.become_leader(0, 2).result(PATIENCE)
        with pytest.raises(errors.FencedLeaderEpochError):
            given_up.result(0)
        of_zookeeper.succeed(0)


def test_a_change_that_fails_in_one_of_both_fails(monkeypatch):
    site = Site()
    with site.start() as manager:
        of_zookeeper = PartitionTransition(0, 1, lambda: 0.5)
        monkeypatch.setattr(manager.zookeeper, "resign", lambda *_: of_zookeeper)
        given_up = manager.resign(0, 1)
        of_zookeeper.fail(errors.ClosedError("stopped"))
        with pytest.raises(errors.ClosedError):
            given_up.result(0)
