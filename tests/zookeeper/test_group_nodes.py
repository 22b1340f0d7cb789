"""Groups are read whole: what is there of each, in their order, also what is empty or may not be read."""

from __future__ import annotations

import pytest

from offsetlog import errors
from offsetlog.zookeeper import group_nodes
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.consumer_offsets import read_offsets
from offsetlog.zookeeper.group_nodes import GroupNodes, read_groups
from offsetlog.zookeeper.operations import Create, SetData
from offsetlog.zookeeper.requests import OP_MULTI_READ

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
    assert "does not permit" in str(a.not_given[0])
    assert (b.topics, b.offsets, [each.node for each in b.not_given]) == ({"t"}, [], ["/consumers/b/offsets/t"])


#: Names of Kafka's groups that no node can have.
IMPOSSIBLE = ["", ".", "..", "a/offsets", "/", "a\udc80b", "a\0b", "\ufffd"]


@pytest.mark.parametrize("in_flight", [1, 64])
def test_a_group_whose_name_no_node_can_have_is_not_there_and_harms_no_other(filled, in_flight):
    session = filled.session_id
    names = ["a", *(name for each in IMPOSSIBLE for name in (each, "b"))]
    found = list(read_groups(filled, names, in_flight))
    assert [each.group for each in found] == names
    assert found[1::2] == [GroupNodes(each, known_zxid=found[1].known_zxid) for each in IMPOSSIBLE]
    assert [len(each.offsets) for each in found[::2]] == [5] + [1] * len(IMPOSSIBLE)
    assert [each.group for each in read_offsets(filled, ["b", *IMPOSSIBLE, "b"], in_flight)] == ["b", "b"]
    assert filled.session_id == session


@pytest.mark.parametrize(("operation", "in_flight"), [(4, 1), (4, 3), (OP_MULTI_READ, 64)])
def test_a_connection_that_breaks_ends_the_reading(ensemble, root, filled, operation, in_flight):
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=8.0)
        with ZooKeeperConnection(settings) as connection:
            assert connection.reads_many()
            proxy.cut_next(operation, Cut.AFTER)
            with pytest.raises(errors.ZooKeeperUnavailableError):
                list(read_groups(connection, ["a", "b"], in_flight))
            proxy.cut_next(OP_SYNC, Cut.BEFORE)
            with pytest.raises(errors.ZooKeeperUnavailableError):
                connection.sync_async().result()
            assert len(list(read_groups(connection, ["a", "b"]))) == 2


def test_servers_that_end_the_connection_over_a_request_of_many_reads_are_asked_one_by_one(ensemble, root, filled):
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=8.0)
        with ZooKeeperConnection(settings) as connection:
            for _ in range(2):
                proxy.cut_next(OP_MULTI_READ, Cut.BEFORE)
                with pytest.raises(errors.ZooKeeperUnavailableError):
                    list(read_groups(connection, ["a", "b"]))
            assert proxy.cuts == 2
            proxy.cut_next(OP_MULTI_READ, Cut.BEFORE)
            assert [len(each.offsets) for each in read_groups(connection, ["a", "b"])] == [5, 1]
            assert proxy.cuts == 2


# --------------------------------------------------------------------------------------------- changed while it is read

TOPICS, PARTITIONS = 3, 6
NODES = [f"/consumers/g/offsets/t{topic}/{partition}" for topic in range(TOPICS) for partition in range(PARTITIONS)]


@pytest.fixture
def one_server(ensemble, root):
    """Two connections to one server: each sees at once what the other was answered."""
    settings = ConnectionSettings(hosts=f"127.0.0.1:{ensemble.ports[0]}{root}", session_timeout=8.0)
    with ZooKeeperConnection(settings) as reading, ZooKeeperConnection(settings) as writing:
        for node in ("", "/g", "/g/offsets", *(f"/g/offsets/t{topic}" for topic in range(TOPICS))):
            writing.create(f"/consumers{node}")
        writing.multi([Create(node, b"0") for node in NODES])
        assert reading.reads_many()
        yield reading, writing


class Meddler:
    """Has somebody commit all positions of the group at once, before some of the requests of a connection.

    The requests before the commit are answered first: the order in which a server meets two connections is not known.
    """

    def __init__(self, reading, writing, monkeypatch):
        self._writing = writing
        self.requests, self.commits, self.before = 0, 0, range(0)
        self.adds_topics = False
        self._asked: list = []
        for name in ("get_async", "listing_async", "children_async", "read_many_async"):
            monkeypatch.setattr(reading, name, self._meddled(getattr(reading, name)))

    def _meddled(self, ask):
        def meddled(*given):
            if self.requests in self.before:
                assert all(answer.wait() for answer in self._asked)
                self._asked.clear()
                self._commit()
            self.requests += 1
            self._asked.append(ask(*given))
            return self._asked[-1]

        return meddled

    def _commit(self):
        self.commits += 1
        new = f"/consumers/g/offsets/u{self.commits}"
        more = [Create(new), Create(f"{new}/0", b"%d" % self.commits)] if self.adds_topics else []
        self._writing.multi([*(SetData(node, b"%d" % self.commits) for node in NODES), *more])


@pytest.mark.parametrize("in_flight", [1, 8, 32, 64])
@pytest.mark.parametrize("adds_topics", [False, True])
def test_a_commit_that_comes_while_a_group_is_read_is_seen_whole_or_not_at_all(
    one_server, monkeypatch, in_flight, adds_topics
):
    reading, writing = one_server
    meddler = Meddler(reading, writing, monkeypatch)
    meddler.adds_topics = adds_topics
    list(read_groups(reading, ["g"], in_flight))
    torn = 0
    for request in range(meddler.requests):
        with monkeypatch.context() as once:
            once.setattr(group_nodes, "PASSES", 1)
            meddler.requests, meddler.before = 0, range(request, request + 1)
            (nodes,) = read_groups(reading, ["g"], in_flight)
            last = meddler.commits
            held = {int(each.data) for each in nodes.offsets if each.topic.startswith("t")}
            torn += len(held) > 1
            # A noticed group may have been whole, and no torn one goes unnoticed.
            assert len(held) == 1 or not nodes.stood_together
        meddler.requests = 0
        (nodes,) = read_groups(reading, ["g"], in_flight)
        assert nodes.stood_together
        assert meddler.commits == last + 1
        held = {each.node: int(each.data) for each in nodes.offsets}
        assert {held[node] for node in NODES} == {meddler.commits} or {held[node] for node in NODES} == {last}
        added = {node: number for node, number in held.items() if node not in NODES}
        newest = held[NODES[0]] if adds_topics else 0
        assert added == {f"/consumers/g/offsets/u{number}/0": number for number in range(1, newest + 1)}
    assert torn > 0


def test_a_group_that_is_changed_before_each_request_is_read_to_an_end(one_server, monkeypatch):
    reading, writing = one_server
    meddler = Meddler(reading, writing, monkeypatch)
    meddler.before = range(10**6)
    (nodes,) = read_groups(reading, ["g"])
    assert not nodes.stood_together
    assert [each.node for each in nodes.offsets] == sorted(NODES)
    meddler.before = range(0)
    (nodes,) = read_groups(reading, ["g"])
    assert nodes.stood_together


def test_a_position_that_goes_while_its_group_is_read_is_noticed(one_server, monkeypatch):
    reading, writing = one_server
    meddler = Meddler(reading, writing, monkeypatch)
    list(read_groups(reading, ["g"], 1))
    # Its topic was listed, and it is the last that is asked for.
    meddler.before = range(meddler.requests - 1, meddler.requests)
    meddler.requests = 0
    meddler._commit = lambda: writing.delete(NODES[-1])
    (nodes,) = read_groups(reading, ["g"], 1)
    assert nodes.stood_together
    assert [each.node for each in nodes.offsets] == NODES[:-1]
