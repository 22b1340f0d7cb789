"""Requests about ordinary topics, as tests make them: of a topic "orders" unless they say otherwise."""

from __future__ import annotations

import time

from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsRequestTopicConfig,
    DeleteTopicsRequest,
    FetchRequest,
    FetchRequestTopic,
    FetchRequestTopicPartition,
    ListOffsetsRequest,
    ListOffsetsRequestTopic,
    ListOffsetsRequestTopicPartition,
    ProduceRequest,
    ProduceRequestTopicData,
    ProduceRequestTopicDataPartitionData,
)

from .running import Client

PRODUCE, FETCH, LIST_OFFSETS = 9, 12, 11
NOW = int(time.time() * 1000)


def create(client: Client, name: str = "orders", partitions: int = 1, **configs: str) -> None:
    given = tuple(
        CreateTopicsRequestTopicConfig(key.replace("_", "."), value) for key, value in configs.items()
    )
    topic = CreateTopicsRequestTopic(name, partitions, 1, configs=given)
    answer = client.ask(CreateTopicsRequest((topic,), timeout_ms=1000), 7)
    assert answer.topics[0].error_code == 0


def produce_request(records, *, topic="orders", partition=0, acks=-1, timeout_ms=5000, **more):
    data = ProduceRequestTopicDataPartitionData(partition, records)
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=(ProduceRequestTopicData(topic, partition_data=(data,)),), **more
    )


def produce(client: Client, records, version: int = PRODUCE, **more):
    answer = client.ask(produce_request(records, **more), version)
    return answer.responses[0].partition_responses[0]


def fetch_request(offset, *, topic="orders", partition=0, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20,
                  partition_max_bytes=1 << 20, isolation_level=0, epoch=-1, fetched_epoch=-1):
    asked = FetchRequestTopicPartition(
        partition, epoch, offset, last_fetched_epoch=fetched_epoch, partition_max_bytes=partition_max_bytes
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, isolation_level=isolation_level,
        topics=(FetchRequestTopic(topic, partitions=(asked,)),),
    )


def fetch(client: Client, offset, version: int = FETCH, **more):
    answer = client.ask(fetch_request(offset, **more), version)
    assert answer.error_code == answer.session_id == 0
    return answer.responses[0].partitions[0]


def list_offset(client: Client, timestamp: int, version: int = LIST_OFFSETS, partition: int = 0):
    asked = ListOffsetsRequestTopicPartition(partition, timestamp=timestamp)
    request = ListOffsetsRequest(-1, topics=(ListOffsetsRequestTopic("orders", (asked,)),))
    return client.ask(request, version).topics[0].partitions[0]


def delete(client: Client, name: str = "orders") -> int:
    return client.ask(DeleteTopicsRequest(topic_names=(name,), timeout_ms=1000), 5).responses[0].error_code


def watchers(server) -> int:
    return sum(len(each._watchers) for each in server.server._topics._partitions.values())


def until(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
