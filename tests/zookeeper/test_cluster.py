"""The client of Kafka's directories on a real ensemble: conditional writes, elections, the id of the cluster."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from offsetlog import errors
from offsetlog.types import TopicPartition
from offsetlog.zookeeper.cluster import ClusterClient, ControllerEpoch
from offsetlog.zookeeper.cluster_records import (
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    Assignment,
    PartitionState,
    TopicRecord,
    state_node,
)
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection

from .proxy import OP_MULTI, Cut, CuttingProxy


@pytest.fixture
def cluster(connection):
    made = ClusterClient(connection)
    made.make_directories()
    return made


def topic_record(partitions: int = 3) -> TopicRecord:
    return TopicRecord(topic="orders", partitions={number: Assignment((1, 2)) for number in range(partitions)})


def state_of(epoch: ControllerEpoch, **changes: object) -> PartitionState:
    return replace(PartitionState(leader=1, leader_epoch=0, isr=(1, 2), controller_epoch=epoch.value), **changes)


@pytest.fixture
def elected(cluster):
    """A controller, and a topic of three partitions with their states."""
    epoch = cluster.elect_controller(1)
    cluster.create_topic(topic_record())
    cluster.create_partition_states("orders", {number: state_of(epoch) for number in range(3)}, epoch)
    return epoch


def test_no_controller_is_elected_with_an_epoch_that_nobody_can_read(cluster, connection):
    connection.create(CONTROLLER_EPOCH, b"%d" % (2**31 - 1))
    with pytest.raises(errors.CorruptionError, match="the highest that Kafka can read; no controller can be elected"):
        cluster.elect_controller(1)
    assert cluster.controller() is None
    assert cluster.controller_epoch() == (2**31 - 1, 0)


def test_an_empty_cluster_has_nothing(connection):
    cluster = ClusterClient(connection)
    for _ in range(2):
        assert (cluster.broker_ids(), cluster.brokers(), cluster.broker(1)) == ([], {}, None)
        assert (cluster.topics(), cluster.topic("t"), cluster.topic_records(["t"])) == ([], None, {})
        assert (cluster.partition_state("t", 0), cluster.partition_states([("t", 0)])) == (None, {})
        assert (cluster.controller(), cluster.controller_epoch(), cluster.cluster_id()) == (None, None, None)
        cluster.make_directories()


def test_topics_and_states_are_written_by_version(cluster, elected):
    assert cluster.topics() == ["orders"]
    record, version = cluster.topic("orders")
    assert (record, version) == (topic_record(), 0)
    assert cluster.topic_records(["none", "orders"]) == {"orders": (record, 0)}
    more = replace(record, partitions={**record.partitions, 3: Assignment((2, 1), (2,))})
    assert cluster.set_topic(more, 0, elected) == 1
    with pytest.raises(errors.NodeVersionError):
        cluster.set_topic(record, 0, elected)
    assert cluster.topic("orders") == (more, 1)
    with pytest.raises(errors.NodeExistsError):
        cluster.create_topic(record)

    keys = [TopicPartition("orders", number) for number in range(5)]
    assert cluster.partition_states(keys) == {key: (state_of(elected), 0) for key in keys[:3]}
    other = state_of(elected, leader=2, leader_epoch=1, isr=(2,))
    assert cluster.set_partition_state("orders", 1, other, 0, elected) == 1
    with pytest.raises(errors.NodeVersionError) as caught:
        cluster.set_partition_state("orders", 1, state_of(elected), 0, elected)
    assert caught.value.node == state_node("orders", 1)
    assert cluster.partition_state("orders", 1) == (other, 1)
    with pytest.raises(errors.NoNodeError):
        cluster.set_partition_state("orders", 4, other, 0, elected)


def test_states_of_new_partitions_are_made_all_or_none(cluster, elected):
    states = {number: state_of(elected) for number in (4, 2, 5)}
    with pytest.raises(errors.NodeExistsError) as caught:
        cluster.create_partition_states("orders", states, elected)
    assert caught.value.node == state_node("orders", 2)
    assert cluster.partition_states([("orders", 4), ("orders", 5)]) == {}
    del states[2]
    cluster.create_partition_states("orders", states, elected)
    assert len(cluster.partition_states(("orders", number) for number in range(6))) == 5
    with pytest.raises(errors.NoNodeError):
        cluster.create_partition_states("none", {0: state_of(elected)}, elected)


def test_no_states_are_made_of_none_whoever_is_the_controller(cluster, connection, elected):
    connection.set_data("/controller_epoch", b"7")
    for topic in ("orders", "nothing"):
        cluster.create_partition_states(topic, {}, elected)
    assert cluster.topics() == ["orders"]


def test_the_writes_of_an_older_controller_are_refused(ensemble, hosts, cluster, elected):
    assert cluster.controller().broker_id == 1
    assert elected == cluster.controller_epoch() == (1, 1)
    with ZooKeeperConnection(ConnectionSettings(hosts=hosts)) as connection:
        other = ClusterClient(connection)
        other.sync()
        with pytest.raises(errors.ControllerMovedError, match="broker 1 is the controller") as caught:
            other.elect_controller(2)
        assert (caught.value.controller_id, caught.value.epoch, caught.value.error_code) == (1, 1, 11)
        cluster.resign_controller(elected)
        newer = other.elect_controller(2)
        assert newer == (2, 2)
        # The former one still believes that it is in office.
        for write in (
            lambda: cluster.set_partition_state("orders", 0, state_of(elected, leader=2), 0, elected),
            lambda: cluster.create_partition_states("orders", {7: state_of(elected)}, elected),
            lambda: cluster.set_topic(topic_record(4), 0, elected),
            lambda: cluster.resign_controller(elected),
        ):
            with pytest.raises(errors.ControllerMovedError, match="broker 2 is the controller") as caught:
                write()
            assert (caught.value.controller_id, caught.value.epoch) == (2, 2)
        # A leader that was made by the former one, and knows of the newer.
        with pytest.raises(errors.ControllerMovedError):
            cluster.set_partition_state("orders", 0, state_of(elected), 0, newer)
        with pytest.raises(errors.InvalidArgumentError):
            cluster.set_partition_state("orders", 0, state_of(newer), 0, elected)
        assert cluster.partition_state("orders", 0) == (state_of(elected), 0)
        assert other.set_partition_state("orders", 0, state_of(newer), 0, newer) == 1
    # Its session is over, and so is its office; its epoch stays.
    cluster.sync()
    assert cluster.controller() is None
    assert cluster.elect_controller(1) == (3, 3)


@pytest.mark.parametrize("moment", list(Cut))
def test_an_election_whose_answer_is_lost_is_looked_up(ensemble, root, connection, moment):
    cluster = ClusterClient(connection)
    cluster.make_directories()
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=8.0)
        with ZooKeeperConnection(settings) as cut:
            other = ClusterClient(cut)
            other.resign_controller(other.elect_controller(3))
            proxy.cut_next(OP_MULTI, moment)
            if moment is Cut.AFTER:
                assert other.elect_controller(3) == (2, 2)
            else:
                with pytest.raises(errors.UnknownOutcomeError):
                    other.elect_controller(3)
                assert other.controller() is None
                assert other.elect_controller(3) == (2, 2)
            assert proxy.cuts == 1
            cluster.sync()
            assert cluster.controller().broker_id == 3


def test_an_election_of_which_nobody_says_anything_stays_unknown(ensemble, root, monkeypatch):
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=8.0)
        with ZooKeeperConnection(settings) as connection:
            cluster = ClusterClient(connection)
            former = cluster.elect_controller(3)
            cluster.resign_controller(former)

            def unavailable() -> None:
                raise errors.ZooKeeperUnavailableError("nobody answers")

            monkeypatch.setattr(cluster, "sync", unavailable)
            proxy.cut_next(OP_MULTI, Cut.AFTER)
            with pytest.raises(errors.UnknownOutcomeError):
                cluster.elect_controller(3)
            # A refusal is certain, and keeps its type.
            with pytest.raises(errors.ControllerMovedError) as caught:
                cluster.resign_controller(former)
            assert (caught.value.controller_id, caught.value.epoch) == (None, None)


def test_many_candidates_elect_one_each_time(hosts):
    # Each candidate has a session of its own, since ephemeral nodes belong to one.
    connections = [ZooKeeperConnection(ConnectionSettings(hosts=hosts)) for _ in range(4)]
    rounds = 5
    barrier = threading.Barrier(4)

    def stand(number: int) -> list[ControllerEpoch]:
        candidate, won = ClusterClient(connections[number]), []
        for _ in range(rounds):
            barrier.wait()
            try:
                epoch = candidate.elect_controller(number)
            except errors.ControllerMovedError:
                epoch = None
            barrier.wait()
            if epoch is not None:
                won.append(epoch)
                candidate.resign_controller(epoch)
            barrier.wait()
            candidate.sync()
        return won

    try:
        for each in connections:
            each.start()
        with ThreadPoolExecutor(4) as pool:
            won = [epoch for each in pool.map(stand, range(4)) for epoch in each]
    finally:
        for each in connections:
            each.close()
    assert sorted(won) == [(number, number) for number in range(1, rounds + 1)]


def test_all_that_race_for_the_id_of_a_cluster_agree_and_it_stays(hosts):
    connections = [ZooKeeperConnection(ConnectionSettings(hosts=hosts)) for _ in range(4)]
    barrier = threading.Barrier(4)

    def ask(connection: ZooKeeperConnection) -> str:
        barrier.wait()
        return ClusterClient(connection).ensure_cluster_id()

    try:
        for each in connections:
            each.start()
        with ThreadPoolExecutor(4) as pool:
            found = set(pool.map(ask, connections))
        assert len(found) == 1
        assert connections[0].get(CLUSTER_ID).stat.version == 0
        assert {ClusterClient(each).ensure_cluster_id() for each in connections} == found
    finally:
        for each in connections:
            each.close()


@pytest.mark.parametrize("moment", list(Cut))
def test_the_id_of_a_cluster_is_made_through_a_broken_connection(ensemble, root, moment):
    with CuttingProxy(ensemble.ports[0]) as proxy:
        settings = ConnectionSettings(hosts=f"127.0.0.1:{proxy.port}{root}", session_timeout=8.0)
        with ZooKeeperConnection(settings) as connection:
            cluster = ClusterClient(connection)
            proxy.cut_next(OP_MULTI, moment, after=1)
            found = cluster.ensure_cluster_id()
            assert (proxy.cuts, cluster.cluster_id()) == (1, found)


def test_a_node_that_holds_something_else_is_named(cluster, connection, elected):
    for node, call in {
        "/brokers/ids/5": cluster.brokers,
        "/brokers/topics/odd": lambda: cluster.topic("odd"),
        CLUSTER_ID: cluster.ensure_cluster_id,
    }.items():
        if node == CLUSTER_ID:
            connection.create("/cluster")
        connection.create(node, b"odd")
        with pytest.raises(errors.CorruptionError) as caught:
            call()
        assert caught.value.path == node
    connection.delete("/brokers/ids/5")
    connection.create("/brokers/ids/x")
    with pytest.raises(errors.CorruptionError) as caught:
        cluster.broker_ids()
    assert caught.value.path == "/brokers/ids/x"
    for node, call in {CONTROLLER: cluster.controller, CONTROLLER_EPOCH: cluster.controller_epoch}.items():
        connection.set_data(node, b"-1")
        with pytest.raises(errors.CorruptionError) as caught:
            call()
        assert caught.value.path == node


def test_names_that_no_node_can_have_are_refused(cluster):
    for call in (cluster.topic, cluster.watch_topic, lambda topic: cluster.topic_records([topic])):
        with pytest.raises(errors.TopicError):
            call("a/b")
    with pytest.raises(errors.InvalidArgumentError):
        cluster.broker(-1)
