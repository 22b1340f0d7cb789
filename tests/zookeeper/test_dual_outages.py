"""The dual manager while its ZooKeeper is away, slow, or half done; and the way back to ZooKeeper."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from offsetlog import errors
from offsetlog.types import TopicPartition

from .managers import PATIENCE, dual_of, leading, leading_both
from .proxy import CuttingProxy
from .test_dual import KEYS, offsets_of
from .test_manager_handover import SlowServer


def insist(call):
    """Makes a call until ZooKeeper has answered within the short timeouts of these tests; returns its result."""
    while True:
        try:
            return call()
        except errors.OffsetLogError as failure:
            assert failure.retriable  # noqa: PT017


def wait_until_equal(manager, groups) -> None:
    """Waits until ZooKeeper has followed by itself."""
    followed = threading.Event()
    note = manager._differences.note_equal

    def noted(*given, **more) -> None:
        note(*given, **more)
        if not manager.differences():
            followed.set()

    manager._differences.note_equal = noted
    if manager.differences():
        assert followed.wait(PATIENCE)
    for group in groups:
        assert insist(lambda: offsets_of(manager.zookeeper, group)) == offsets_of(manager.log, group)  # noqa: B023


def test_commits_in_an_outage_reach_the_log_at_once_and_zookeeper_afterwards(ensemble, root, tmp_path):
    groups = [f"group-{number}" for number in range(20)]
    with (
        CuttingProxy(ensemble.ports[0]) as proxy,
        leading_both(tmp_path, f"127.0.0.1:{proxy.port}{root}", commit_timeout=0.5) as manager,
    ):
        for group in groups:
            insist(lambda: manager.commit(group, {KEYS[0]: 1}, timeout=PATIENCE))  # noqa: B023
        proxy.refuse(True)
        pending = [manager.commit_async("group-0", {KEYS[0]: offset}, durability="process") for offset in range(2, 200)]
        # Nobody has found out yet that ZooKeeper is away, and the log has the last one.
        assert offsets_of(manager.log, "group-0") == {KEYS[0]: 199}
        for each in pending:
            each.result(PATIENCE)
        manager.commit("group-1", {KEYS[0]: 2})
        while not manager._queue.is_away:
            manager.commit("group-1", {KEYS[0]: 2})
        # From now on nothing is waited for.
        commits = [
            manager.commit_async(group, {KEYS[0]: 300 + at}, durability="process") for at, group in enumerate(groups)
        ]
        done = [each.done() for each in commits]
        assert done == [True] * len(groups)
        assert len(manager.differences()) == len(groups)
        proxy.refuse(False)
        wait_until_equal(manager, groups)
        assert [offsets_of(manager.log, group)[KEYS[0]] for group in groups] == [300 + at for at in range(len(groups))]


def test_a_rewind_meets_what_follows_late(ensemble, root, hosts, tmp_path):
    with (
        CuttingProxy(ensemble.ports[0]) as proxy,
        leading_both(tmp_path, f"127.0.0.1:{proxy.port}{root}", commit_timeout=0.5) as manager,
        leading(hosts) as other,
    ):
        insist(lambda: manager.commit("g", dict.fromkeys(KEYS, 5), timeout=PATIENCE))
        proxy.refuse(True)
        while not manager._queue.is_away:
            manager.commit("g", dict.fromkeys(KEYS, 7))
        proxy.refuse(False)
        insist(lambda: manager.commit("g", {KEYS[0]: 2}, timeout=PATIENCE))
        wait_until_equal(manager, ["g"])
        assert offsets_of(other) == offsets_of(manager) == {**dict.fromkeys(KEYS, 7), KEYS[0]: 2}


@pytest.mark.parametrize("call", ["resign", "become_follower"])
def test_a_partition_is_given_up_once_nothing_is_on_its_way_to_zookeeper(hosts, tmp_path, monkeypatch, call):
    with leading_both(tmp_path, hosts) as manager, leading(hosts) as other:
        manager.commit("g", {KEYS[0]: 1})
        partition = manager.partition_for("g")
        server = SlowServer(manager.zookeeper, monkeypatch)
        sent, waiting = (manager.commit_async("g", {KEYS[0]: offset}, durability="process") for offset in (50, 51))
        given_up = getattr(manager, call)(partition, manager.leader_epoch(partition))
        assert not given_up.done()
        # The log has both, and the one that waited does not come to ZooKeeper any more.
        waiting.result(PATIENCE)
        server.carry_out()
        given_up.result(PATIENCE)
        sent.result(PATIENCE)
        assert offsets_of(other) == {KEYS[0]: 50}


@contextmanager
def leading_some(directory: Path, hosts: str, partitions: set[int]):
    with dual_of(directory, hosts) as manager:
        for partition in partitions:
            manager.become_leader(partition, manager.leader_epoch(partition) + 1).result(PATIENCE)
        yield manager


def test_the_way_back_to_zookeeper_with_two_brokers_a_restart_and_a_bad_node(hosts, connection, tmp_path):
    groups = [f"group-{number}" for number in range(12)]
    with (
        leading_some(tmp_path / "one", hosts, {0, 1}) as one,
        leading_some(tmp_path / "two", hosts, {2}) as two,
        leading(hosts) as old,
    ):
        led_by = {group: two if two.partition_for(group) == 2 else one for group in groups}
        assert set(led_by.values()) == {one, two}
        for at, (group, manager) in enumerate(led_by.items()):
            # The log is ahead of ZooKeeper, as after an outage that a crash ended.
            manager.commit(group, dict.fromkeys(KEYS, at))
            manager.log.commit(group, {KEYS[0]: 100 + at})
            old.commit(f"idle-{at}", {KEYS[0]: at})
            new = one if one.partition_for(f"new-{at}") != 2 else two
            new.log.commit(f"new-{at}", {KEYS[0]: at})
    with leading_some(tmp_path / "one", hosts, {0, 1}) as one, leading_some(tmp_path / "two", hosts, {2}) as two:
        # The differences that were seen before the restart are not known any more.
        assert one.differences() == two.differences() == []
        bad = next(group for group in groups if one.partition_for(group) != 2)
        node = f"/consumers/{bad}/offsets/orders/1"
        connection.set_data(node, b"nonsense")
        in_zookeeper = {*groups, *(f"idle-{at}" for at in range(len(groups)))}
        new = {f"new-{at}" for at in range(len(groups))}
        by_one, by_two = one.catch_up_all(), two.catch_up_all()
        led_by_two = {group for group in in_zookeeper if one.partition_for(group) == 2}
        new_of_two = {group for group in new if one.partition_for(group) == 2}
        assert new_of_two
        assert {group: type(each) for group, each in by_one.failures.items()} == {
            **dict.fromkeys(led_by_two, errors.NotCoordinatorError),
            bad: errors.CorruptionError,
        }
        assert by_one.failures[bad].path == node
        # The groups that only its log had have come to ZooKeeper.
        assert set(by_two.failures) == (in_zookeeper - led_by_two) | (new - new_of_two)
        assert (by_one.differences, by_two.differences) == ([], [])
        # The bad node is mended by hand, and nothing is left to do but its group.
        connection.set_data(node, b"%d" % groups.index(bad))
        again = one.catch_up_all()
        assert (set(again.failures), again.raised) == (led_by_two | new_of_two, 1)
    with leading(hosts) as manager:
        for at, group in enumerate(groups):
            assert offsets_of(manager, group) == {**dict.fromkeys(KEYS, at), KEYS[0]: 100 + at}
            assert offsets_of(manager, f"new-{at}") == {KEYS[0]: at}


def test_a_position_that_was_never_fetched_waits_for_no_dead_zookeeper(ensemble, root, tmp_path):
    with (
        CuttingProxy(ensemble.ports[0]) as proxy,
        leading_both(tmp_path, f"127.0.0.1:{proxy.port}{root}", commit_timeout=0.5) as manager,
    ):
        insist(lambda: manager.commit("g", {KEYS[0]: 1}, timeout=PATIENCE))
        proxy.refuse(True)
        while not manager._queue.is_away:
            manager.commit("g", {KEYS[0]: 2})
        key = TopicPartition("new", 0)
        with pytest.raises(errors.ZooKeeperUnavailableError, match="nothing was written"):
            manager.commit("g", {key: 1})
        assert key not in offsets_of(manager.log)
