"""Clients that others wrote commit, fetch and describe: confluent-kafka and kafka-python."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaPythonPartition

from .running import RunningServer


@pytest.fixture
def server(tmp_path):
    with RunningServer(tmp_path / "data") as running:
        yield running


@pytest.fixture
def address(server) -> str:
    return "{}:{}".format(*server.address)


def test_confluent_kafka(address):
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(10)
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False})
    try:
        given = [TopicPartition("orders", number, 10 + number, f"m{number}") for number in range(3)]
        committed = consumer.commit(offsets=given, asynchronous=False)
        assert [each.error for each in committed] == [None] * 3
        asked = [TopicPartition("orders", number) for number in range(3)]
        found = consumer.committed(asked, timeout=10)
        assert [each.offset for each in found] == [10, 11, 12]
        assert consumer.list_topics(timeout=10).topics["orders"].partitions.keys() == {0, 1, 2}
        assert consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=10) == (0, 0)
    finally:
        consumer.close()
    moved = ConsumerGroupTopicPartitions("g", [TopicPartition("orders", 1, 5)])
    admin.alter_consumer_group_offsets([moved])["g"].result(10)
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")])["g"].result(10)
    assert {each.partition: each.offset for each in listed.topic_partitions} == {0: 10, 1: 5, 2: 12}


def test_kafka_python(address):
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        admin.create_topics({"orders": {"num_partitions": 2, "replication_factor": 1}})
    finally:
        admin.close()
    consumer = KafkaConsumer(bootstrap_servers=address, group_id="g", enable_auto_commit=False)
    try:
        assert consumer.partitions_for_topic("orders") == {0, 1}
        key = KafkaPythonPartition("orders", 0)
        consumer.assign([key])
        consumer.commit({key: OffsetAndMetadata(42, "by hand", 7)})
        assert consumer.committed(key, metadata=True) == OffsetAndMetadata(42, "by hand", 7)
    finally:
        consumer.close()
