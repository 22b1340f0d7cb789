"""Nodes that are made where they lack, by many at a time, and also where the answer is lost."""

from __future__ import annotations

import threading

import pytest

from offsetlog.zookeeper.cluster import ClusterClient
from offsetlog.zookeeper.cluster_records import Assignment, TopicRecord
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.missing_nodes import ensure_root, make_with_parents

from .managers import PATIENCE
from .proxy import OP_MULTI, Cut, CuttingProxy


def test_of_many_that_make_a_root_none_fails(hosts, connection):
    failures: list[BaseException] = []
    barrier = threading.Barrier(6)

    def make() -> None:
        try:
            with ZooKeeperConnection(ConnectionSettings(hosts=f"{hosts}/a/b/c")) as own:
                barrier.wait(PATIENCE)
                ensure_root(own)
                make_with_parents(own, "/d/e")
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert failures == []
    assert connection.children("/a/b/c/d") == ["e"]
    assert connection.children("/") == ["a"]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("moment", list(Cut))
def test_a_root_is_made_also_where_an_answer_is_lost(ensemble, root, connection, moment, number):
    with CuttingProxy(ensemble.ports[0]) as proxy:
        reached = f"127.0.0.1:{proxy.port}{root}/a/b"
        with ZooKeeperConnection(ConnectionSettings(hosts=reached, session_timeout=8.0)) as own:
            # The first node on the way is there: it is that of the test.
            proxy.cut_next(OP_MULTI, moment, after=number)
            ensure_root(own)
            assert proxy.cuts == 1
            assert own.children("/") == []
    assert connection.children("/a") == ["b"]


def test_the_first_write_of_a_cluster_makes_its_root(hosts):
    def cluster_at(name: str) -> tuple[ZooKeeperConnection, ClusterClient]:
        own = ZooKeeperConnection(ConnectionSettings(hosts=f"{hosts}/{name}"))
        return own, ClusterClient(own)

    for name, write in {
        "directories": lambda cluster: cluster.make_directories(),
        "id": lambda cluster: cluster.ensure_cluster_id(),
        "controller": lambda cluster: cluster.elect_controller(1),
        "topic": lambda cluster: cluster.create_topic(TopicRecord(topic="t", partitions={0: Assignment((1,))})),
    }.items():
        own, cluster = cluster_at(name)
        with own:
            assert (cluster.broker_ids(), cluster.topics(), cluster.controller()) == ([], [], None)
            assert own.exists("/") is None
            write(cluster)
            assert own.exists("/") is not None
