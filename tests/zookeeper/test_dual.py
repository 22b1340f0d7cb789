"""The dual manager on a log and an ensemble, beside other clients of ZooKeeper."""

from __future__ import annotations

import pytest

from offsetlog import errors
from offsetlog.manager.dual.differences import Difference
from offsetlog.manager.dual.manager import DualManager
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.registry import available_managers, create_manager
from offsetlog.types import OffsetAndMetadata, TopicPartition

from .managers import PATIENCE, leading, leading_both
from .proxy import OP_MULTI, Cut, CuttingProxy
from .test_manager import make
from .test_manager_removal import DAY_MS, Clock

KEYS = [TopicPartition("orders", number) for number in range(4)]


def offsets_of(manager: object, group: str = "g") -> dict[TopicPartition, int]:
    return {key: value.offset for key, value in manager.fetch(group).items()}  # type: ignore[attr-defined]


def test_the_manager_is_chosen_by_its_name(hosts, tmp_path):
    assert available_managers()["dual"] == "offsetlog.manager.dual.manager:create"
    properties = {
        "offset.storage": "dual",
        "dual.commit.enabled": "true",
        "log.dir": str(tmp_path / "log"),
        "zookeeper.connect": hosts,
        "offsets.topic.num.partitions": "4",
    }
    manager = create_manager(properties)
    assert isinstance(manager, DualManager)
    with manager:
        assert (manager.partitions, manager.zookeeper.partitions) == (4, 4)
        manager.become_leader(manager.partition_for("g"), 1).result(PATIENCE)
        given = OffsetAndMetadata(5, "by hand", 3)
        manager.commit("g", {KEYS[0]: given})
        assert manager.fetch("g")[KEYS[0]][:3] == given[:3]
        with leading(hosts) as other:
            assert offsets_of(other) == {KEYS[0]: 5}


def test_what_another_client_commits_is_fetched_and_comes_to_the_log(hosts, tmp_path):
    with leading(hosts) as old, leading_both(tmp_path, hosts) as manager:
        old.commit("g", dict.fromkeys(KEYS, 10))
        old.commit("idle", {KEYS[0]: 3})
        assert offsets_of(manager) == dict.fromkeys(KEYS, 10)
        manager.commit("g", {KEYS[0]: 12})
        old.commit("g", {KEYS[1]: 15})
        assert offsets_of(manager) == {KEYS[0]: 12, KEYS[1]: 15, KEYS[2]: 10, KEYS[3]: 10}
        assert offsets_of(old)[KEYS[0]] == 12
        assert manager.catch_up_all().is_equal
        assert manager.differences() == []
        assert offsets_of(manager.log) == offsets_of(manager)
        assert offsets_of(manager.log, "idle") == {KEYS[0]: 3}


def test_a_rewind_takes_back_what_another_client_committed(hosts, tmp_path):
    with leading(hosts) as old, leading_both(tmp_path, hosts) as manager:
        old.commit("g", dict.fromkeys(KEYS, 10))
        manager.commit("g", {KEYS[0]: 4})
        assert offsets_of(manager) == {**dict.fromkeys(KEYS, 10), KEYS[0]: 4}
        # The other client commits between the look and the write.
        commit = manager.zookeeper.commit
        calls = []

        def interposed(*given, **more):
            calls.append(given)
            if len(calls) == 1:
                old.commit("g", {KEYS[1]: 20})
            return commit(*given, **more)

        manager.zookeeper.commit = interposed
        manager.commit("g", {KEYS[1]: 5})
        assert len(calls) == 2
        assert offsets_of(manager)[KEYS[1]] == offsets_of(old)[KEYS[1]] == 5


def test_a_group_with_consumers_in_zookeeper_is_removed_from_neither(hosts, connection, tmp_path):
    with leading_both(tmp_path, hosts) as manager:
        manager.commit("g", dict.fromkeys(KEYS, 1))
        make(connection, ("/consumers/g/ids/c-1", b""))
        with pytest.raises(errors.GroupNotEmptyError):
            manager.delete_group("g")
        assert offsets_of(manager.log) == offsets_of(manager.zookeeper) == dict.fromkeys(KEYS, 1)
        connection.delete("/consumers/g/ids/c-1")
        assert manager.delete_group("g") >= len(KEYS)
        assert offsets_of(manager.log) == offsets_of(manager.zookeeper) == {}


def test_a_deleted_topic_goes_with_its_nodes_whatever_they_hold(hosts, connection, tmp_path, monkeypatch):
    monkeypatch.setattr("offsetlog.manager.dual.both.DELETED_TOGETHER", 2)
    other = TopicPartition("other", 0)
    with leading_both(tmp_path, hosts) as manager:
        for group in ("g", "bad", "worse"):
            manager.commit(group, {**dict.fromkeys(KEYS, 5), other: 7})
        connection.set_data("/consumers/bad/offsets/orders/1", b"nonsense")
        connection.set_data("/consumers/worse/offsets/other/0", b"nonsense")
        make(connection, ("/consumers/worse/offsets/orders/9", b"11"))
        # The last one is only in ZooKeeper, in a group that cannot be read as a whole.
        assert manager.on_topic_deleted(["orders"]) == 3 * len(KEYS) + 1
        for group in ("g", "bad", "worse"):
            assert offsets_of(manager.log, group) == {other: 7}
            assert connection.children(f"/consumers/{group}/offsets") == ["other"]
        assert manager.differences() == []
        assert manager.on_topic_deleted(["orders"]) == 0


def test_while_zookeeper_is_down_consumers_that_run_go_on(ensemble, root, tmp_path):
    with (
        CuttingProxy(ensemble.ports[0]) as proxy,
        leading_both(tmp_path, f"127.0.0.1:{proxy.port}{root}", commit_timeout=0.5) as manager,
    ):
        manager.commit("g", dict.fromkeys(KEYS, 1))
        proxy.refuse(True)
        manager.commit("g", {KEYS[0]: 2})
        pending = manager.commit_async("g", {KEYS[1]: 3})
        pending.result(PATIENCE)
        assert manager.differences() == [Difference("g", "orders", 0, 2, 1), Difference("g", "orders", 1, 3, 1)]
        with pytest.raises(errors.OffsetLogError) as caught:
            manager.fetch("g")
        assert caught.value.retriable
        for call in (lambda: manager.commit("g", {KEYS[2]: 0}), lambda: manager.delete("g", KEYS)):
            with pytest.raises(errors.OffsetLogError) as caught:
                call()
            assert caught.value.retriable
        assert offsets_of(manager.log) == {KEYS[0]: 2, KEYS[1]: 3, KEYS[2]: 1, KEYS[3]: 1}
        proxy.refuse(False)
        while manager.differences():
            try:
                manager.catch_up("g")
            except errors.OffsetLogError as failure:
                assert failure.retriable  # noqa: PT017
        assert offsets_of(manager.zookeeper) == offsets_of(manager.log)


@pytest.mark.parametrize("moment", list(Cut))
@pytest.mark.parametrize("offset", [0, 9])
def test_a_cut_in_the_middle_leaves_what_a_fetch_answered_or_the_commit(
    ensemble, root, hosts, tmp_path, moment, offset
):
    with CuttingProxy(ensemble.ports[0]) as proxy, leading_both(tmp_path, f"127.0.0.1:{proxy.port}{root}") as manager:
        manager.commit("g", dict.fromkeys(KEYS, 5))
        proxy.cut_next(OP_MULTI, moment)
        try:
            manager.commit("g", dict.fromkeys(KEYS, offset))
        except errors.OffsetLogError as failure:
            assert failure.retriable  # noqa: PT017
            assert offset == 0
        assert proxy.cuts == 1
        found = set(offsets_of(manager).values())
        assert len(found) == 1
        assert found <= {5, offset}
        manager.commit("g", dict.fromkeys(KEYS, offset))
        assert offsets_of(manager) == dict.fromkeys(KEYS, offset)
    with leading(hosts) as other:
        assert offsets_of(other) == dict.fromkeys(KEYS, offset)


def test_the_log_alone_goes_on_where_both_were(hosts, tmp_path):
    with leading_both(tmp_path, hosts) as manager:
        manager.commit("g", dict.fromkeys(KEYS, 5))
        manager.commit("g", {KEYS[0]: 3})
        settings = manager.log.settings
    with LogManager(settings) as log:
        for partition in range(log.partitions):
            log.become_leader(partition, log.leader_epoch(partition) + 1).result(PATIENCE)
        assert offsets_of(log) == {**dict.fromkeys(KEYS, 5), KEYS[0]: 3}


def test_a_bad_node_keeps_no_other_group_from_expiry(hosts, tmp_path, connection):
    clock = Clock()
    with leading_both(tmp_path, hosts, clock=clock, retention_ms=DAY_MS) as manager:
        for group in ("bad", "g", "h"):
            manager.zookeeper.commit(group, {KEYS[0]: 5})
        make(connection, ("/consumers/bad/offsets/orders/1", b"no offset"))
        clock.set_to_age(connection, "/consumers/h/offsets/orders/0", DAY_MS + 1)
        with pytest.raises(errors.CorruptionError) as caught:
            manager.expire()
        assert caught.value.path == "/consumers/bad/offsets/orders/1"
        assert manager.zookeeper.groups() == ["bad"]
        connection.set_data("/consumers/bad/offsets/orders/1", b"7")
        clock.set_to_age(connection, "/consumers/bad/offsets/orders/1", DAY_MS + 1)
        assert manager.expire() == 2
        assert manager.zookeeper.groups() == []
