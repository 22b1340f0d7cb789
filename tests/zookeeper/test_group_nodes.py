"""Groups are read whole: what is there of each, in their order, also what is empty or may not be read."""

from __future__ import annotations

import pytest

from offsetlog import errors
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.group_nodes import read_groups
from offsetlog.zookeeper.operations import Create, SetData

from .proxy import OP_SYNC, Cut, CuttingProxy


@pytest.fixture
def filled(connection):
    connection.create("/consumers")
    for group in ("a", "b", "bare", "idle"):
        connection.create(f"/consumers/{group}", b"" if group == "a" else b"x")
    for node in ("a/ids", "a/offsets", "b/offsets", "idle/ids", "a/offsets/s", "a/offsets/empty", "b/offsets/t"):
        connection.create(f"/consumers/{node}")
    connection.create("/consumers/a/ids/one", b"{}", ephemeral=True)
    connection.multi(
        [
            *(Create(f"/consumers/a/offsets/s/{number}", b"%d" % number) for number in range(5)),
            Create("/consumers/b/offsets/t/x", b"y"),
            SetData("/consumers/a/offsets/s/3", b"33"),
        ]
    )
    return connection


@pytest.mark.parametrize("in_flight", [1, 2, 64])
def test_groups_come_whole_and_in_order(filled, in_flight):
    names = ["idle", "a", "nobody", "bare", "b"]
    found = list(read_groups(filled, names, in_flight))
    assert [each.group for each in found] == names
    assert [(each.has_group, each.has_offsets, each.has_consumers) for each in found] == [
        (True, False, False),
        (True, True, True),
        (False, False, False),
        (True, False, False),
        (True, True, False),
    ]
    by_name = {each.group: each for each in found}
    assert by_name["a"].topics == {"s", "empty"}
    assert [(each.topic, each.partition, each.data, each.stat.version) for each in by_name["a"].offsets] == [
        ("s", str(number), b"33" if number == 3 else b"%d" % number, int(number == 3)) for number in range(5)
    ]
    assert [(each.partition, each.data) for each in by_name["b"].offsets] == [("x", b"y")]
    assert not any(each.not_given for each in found)


def test_a_node_that_may_not_be_read_does_not_stop_the_others(filled):
    from kazoo.security import make_digest_acl

    nobody = [make_digest_acl("somebody", "secret", all=True)]
    filled._client.set_acls("/consumers/a/offsets/s/2", nobody)
    filled._client.set_acls("/consumers/b/offsets/t", nobody)
    a, b = read_groups(filled, ["a", "b"])
    assert [each.partition for each in a.offsets] == ["0", "1", "3", "4"]
    assert [each.node for each in a.not_given] == ["/consumers/a/offsets/s/2"]
    assert "does not let" in str(a.not_given[0])
    assert (b.topics, b.offsets, [each.node for each in b.not_given]) == ({"t"}, [], ["/consumers/b/offsets/t"])


def test_a_connection_that_breaks_ends_the_reading(ensemble, root, filled):
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=8.0)
        with ZooKeeperConnection(settings) as connection:
            connection.sync_async().result()
            proxy.cut_next(4, Cut.AFTER)
            with pytest.raises(errors.ZooKeeperUnavailableError):
                list(read_groups(connection, ["a", "b"]))
            proxy.cut_next(OP_SYNC, Cut.BEFORE)
            with pytest.raises(errors.ZooKeeperUnavailableError):
                connection.sync_async().result()
            assert len(list(read_groups(connection, ["a", "b"]))) == 2
