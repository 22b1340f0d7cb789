"""The differences that the dual manager knows: bounded, true beside commits, and complete by `catch_up_all`."""

from __future__ import annotations

from typing import Any

import pytest

from offsetlog import errors
from offsetlog.manager.dual.catching_up import UNANSWERED_MAX
from offsetlog.manager.dual.differences import Difference, Differences
from offsetlog.manager.interface import PartitionState
from offsetlog.manager.transition import PartitionTransition
from offsetlog.types import OffsetAndMetadata, TopicPartition

from .dual_storages import GROUP, KEYS, PATIENCE, Site

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
    differences.forget_topics(["t"])
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


@pytest.mark.parametrize("state", [PartitionState.LOADING, PartitionState.FAILED])
@pytest.mark.parametrize("is_over", [False, True])
def test_catch_up_all_is_not_equal_beside_a_log_partition_that_was_not_read(monkeypatch, state, is_over):
    with Site().start() as manager:
        number = manager.partition_for(GROUP)
        real, listed = manager.log.state, manager.log.groups
        states = [state]
        monkeypatch.setattr(manager.log, "state", lambda n: states[-1] if n == number else real(n))

        def groups():
            if is_over:  # it is loaded once its groups are not listed
                states.append(PartitionState.ACTIVE)
            return listed()

        monkeypatch.setattr(manager.log, "groups", groups)
        done = manager.catch_up_all()
        assert list(done.partitions) == [number]
        assert not done.is_equal
        assert f"log partition {number}" in str(done.partitions[number])


def test_catch_up_all_is_not_equal_where_a_leadership_began_once_groups_were_listed(monkeypatch):
    with Site().start() as manager:
        listed = manager.log.groups

        def groups():
            found = listed()
            manager.resign(1, 2)
            manager.become_leader(1, 3)
            return found

        monkeypatch.setattr(manager.log, "groups", groups)
        done = manager.catch_up_all()
        assert list(done.partitions) == [1]
        assert not done.is_equal


def test_names_of_groups_that_are_nowhere_are_not_kept():
    with Site().start() as manager:
        for number in range(50):
            manager.fetch(f"console-{number}")
            manager.compare(f"console-{number}")
        assert not manager._differences._in_zookeeper
