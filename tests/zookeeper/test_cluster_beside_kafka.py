"""Kafka 3.9 and the client on one ensemble: they agree on ids, states, the controller and the id of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from confluent_kafka.admin import AdminClient

from offsetlog import errors
from offsetlog.zookeeper.cluster import ClusterClient
from offsetlog.zookeeper.cluster_records import (
    CLUSTER_ID,
    CONTROLLER,
    NO_LEADER,
    Assignment,
    BrokerRecord,
    ControllerRecord,
    Endpoint,
    PartitionState,
    TopicRecord,
    broker_node,
    cluster_id_json,
    state_node,
    topic_node,
)
from offsetlog.zookeeper.registration import BrokerRegistration
from offsetlog.zookeeper.watches import Watch

from .ensemble import PATIENCE
from .kafka_broker import KafkaBroker

pytestmark = pytest.mark.ci

T = TypeVar("T")
OURS = BrokerRecord(broker_id=7, endpoints=(Endpoint.parse("PLAINTEXT://127.0.0.1:19"),), rack="r7")


@pytest.fixture
def cluster(connection):
    made = ClusterClient(connection)
    made.make_directories()
    return made


def seen(watch: Watch[T], wanted: Callable[[T], object]) -> T:
    """Waits for a state that is wanted."""
    with watch:
        while not wanted(state := watch.next(PATIENCE)):
            continue
    return state


def is_led(topic: object) -> bool:
    return topic is not None and len(topic.partitions) == 30 and all(p.leader == 1 for p in topic.partitions.values())


def metadata_of(broker: KafkaBroker, wanted: Callable[[object], object]) -> object:
    """Asks the broker for its metadata until they are as wanted: nobody says when it has heard of its controller."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    for _ in range(200):
        found = admin.list_topics(timeout=PATIENCE)
        if wanted(found):
            return found
        admin.poll(0.1)
    raise AssertionError(f"{found.brokers} {found.topics} {broker.output()}")


def test_kafka_and_the_client_agree(connection, cluster, hosts, tmp_path):
    cluster_id = cluster.ensure_cluster_id()
    with (
        BrokerRegistration(connection, OURS) as registration,
        KafkaBroker(tmp_path / "kafka", 1, hosts, broker_rack="r1") as kafka,
    ):
        assert seen(cluster.watch_broker_ids(), lambda ids: 1 in ids) == [1, 7]
        first = cluster.broker(1)
        assert (first.record.address, first.record.rack, first.record.version) == (kafka.address, "r1", 5)
        assert first.epoch > registration.epoch
        assert connection.get(broker_node(1)).data == first.record.to_json()

        # The id that the client made is that of Kafka.
        assert kafka.meta_properties()["cluster.id"] == cluster_id
        assert connection.get(CLUSTER_ID).data == cluster_id_json(cluster_id)

        controller = seen(cluster.watch_controller(), lambda found: found is not None)
        assert (controller.broker_id, controller.version, controller.kraft_epoch) == (1, 2, -1)
        assert connection.get(CONTROLLER).data == controller.to_json()
        epoch = cluster.controller_epoch()
        assert epoch == (1, 1)

        # A topic of the client's: Kafka's controller gives it an id, and decides who leads.
        partitions = {number: Assignment((1,)) for number in range(30)}
        cluster.create_topic(TopicRecord(topic="ours", partitions=partitions))
        record, _ = seen(cluster.watch_topic("ours"), lambda found: found.value.topic_id is not None)
        assert record.partitions == partitions
        assert connection.get(topic_node("ours")).data == record.to_json()
        for number in partitions:
            seen(cluster.watch_partition_state("ours", number), lambda found: found is not None)
        found = metadata_of(kafka, lambda found: is_led(found.topics.get("ours")) and set(found.brokers) == {1, 7})
        assert str(found.brokers[7]) == "127.0.0.1:19/7"
        assert (found.cluster_id, found.controller_id) == (cluster_id, 1)
        states = cluster.partition_states(("ours", number) for number in range(30))
        assert len(states) == 30
        for (_, number), (state, version) in states.items():
            answered = found.topics["ours"].partitions[number]
            assert (state.leader, list(state.isr)) == (answered.leader, answered.isrs) == (1, [1])
            assert (state.controller_epoch, state.leader_epoch, version) == (1, 0, 0)
            assert connection.get(state_node("ours", number)).data == state.to_json()

        # Ids are taken, whoever has them.
        with pytest.raises(errors.BrokerIdTakenError, match=f"taken by {kafka.address}") as caught:
            BrokerRegistration(connection, BrokerRecord(broker_id=1, endpoints=OURS.endpoints)).start()
        assert (caught.value.session, caught.value.holder) == (first.session, kafka.address)
        with pytest.raises(errors.ControllerMovedError, match="broker 1 is the controller"):
            cluster.elect_controller(7)
        with KafkaBroker(tmp_path / "second", 7, hosts) as second:
            assert second.wait() != 0
        assert cluster.broker(7).epoch == registration.epoch

        kafka.stop()
        assert seen(cluster.watch_broker_ids(), lambda ids: 1 not in ids) == [7]
        assert seen(cluster.watch_controller(), lambda found: found is None) is None


def test_kafka_takes_over_from_a_controller_of_the_client_and_goes_on_with_its_states(
    connection, cluster, hosts, tmp_path
):
    former = cluster.elect_controller(7)
    topic = TopicRecord(topic="t", partitions={0: Assignment((1,)), 1: Assignment((1,))})
    cluster.create_topic(topic)
    offline = PartitionState(leader=NO_LEADER, leader_epoch=4, isr=(1,), controller_epoch=1)
    led = PartitionState(leader=1, leader_epoch=9, isr=(1,), controller_epoch=1)
    cluster.create_partition_states("t", {0: offline, 1: led}, former)
    with BrokerRegistration(connection, OURS), KafkaBroker(tmp_path / "kafka", 1, hosts):
        seen(cluster.watch_broker_ids(), lambda ids: 1 in ids)
        # Kafka sees that there is a controller, and stands by.
        assert isinstance(cluster.controller(), ControllerRecord)
        assert cluster.controller().broker_id == 7
        assert cluster.set_partition_state("t", 1, led, 0, former) == 1

        cluster.resign_controller(former)
        assert seen(cluster.watch_controller(), lambda found: found is not None).broker_id == 1
        state, version = seen(cluster.watch_partition_state("t", 0), lambda found: found.value.leader != NO_LEADER)
        assert state == PartitionState(leader=1, leader_epoch=5, isr=(1,), controller_epoch=2)
        assert connection.get(state_node("t", 0)).data == state.to_json()
        newer = cluster.controller_epoch()
        assert newer == (2, 2)
        for number in (0, 1):
            with pytest.raises(errors.ControllerMovedError, match="broker 1 is the controller"):
                cluster.set_partition_state("t", number, led, -1, former)
        # As a leader does it, which Kafka's controller made.
        assert cluster.set_partition_state("t", 0, state, version, newer) == version + 1
