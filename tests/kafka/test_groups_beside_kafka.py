"""One directory with groups, of which the server and Kafka 4.3.0 say the same, in turns; members stay."""

from __future__ import annotations

import time
from typing import Any

import pytest
from broker import copy_template
from confluent_kafka.admin import AdminClient, NewTopic
from server.batches import produced_batch
from server.running import Client, RunningServer
from test_topics_beside_kafka import Step, answer, differences, offset_at, produce

from offsetlog.protocol.messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    ListGroupsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

PARTITIONS = 4
TOPIC = "orders"
#: The longest that is allowed: no member leaves by itself.
SESSION_MS = 1_800_000
GROUPS = ("plain", "consumers", "static", "connect")
MEMBER_ID_REQUIRED = 79
NOW = int(time.time() * 1000)


def commit(group: str, offsets: dict[int, int], generation: int = -1, member: str = "",
           instance: str | None = None) -> OffsetCommitRequest:
    rows = tuple(
        OffsetCommitRequestTopicPartition(each, at, 0, committed_metadata=f"at {at}") for each, at in offsets.items()
    )
    topics = (OffsetCommitRequestTopic(TOPIC, partitions=rows),)
    return OffsetCommitRequest(group, generation, member, instance, -1, topics)


def enter(client: Client, group: str, protocol_type: str, instance: str | None = None) -> str:
    """Makes a group of one member, which has its assignment; the member id."""
    offered = (JoinGroupRequestProtocol("range", b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"),)
    member = ""
    while True:
        request = JoinGroupRequest(group, SESSION_MS, SESSION_MS, member, instance, protocol_type, offered)
        joined = client.ask(request, 9)
        member = joined.member_id
        if joined.error_code != MEMBER_ID_REQUIRED:
            break
    assert joined.error_code == 0
    given = (SyncGroupRequestAssignment(member, b"all of it"),)
    assert client.ask(SyncGroupRequest(group, 1, member, instance, protocol_type, "range", given), 5).error_code == 0
    return member


def accepted(client: Client, request: OffsetCommitRequest) -> None:
    topics = client.ask(request, 9).topics
    assert {each.error_code for topic in topics for each in topic.partitions} == {0}


def id_of_topic(address: tuple[str, int]) -> bytes:
    request = MetadataRequest((MetadataRequestTopic(name=TOPIC),), allow_auto_topic_creation=False)
    with Client(address) as client:
        return client.ask(request, 12).topics[0].topic_id


def by_id(topic_id: bytes) -> list[Step]:
    """Fetches of version 10: of topics by their ids, of one that is not there, and of all."""
    numbers = tuple(range(4))
    known, unknown = (
        OffsetFetchRequestGroupTopic(topic_id=each, partition_indexes=numbers) for each in (topic_id, b"\x11" * 16)
    )
    found = []
    for group in (*GROUPS, "nobody"):
        for what, topics in (("all", None), ("one", (known,)), ("both", (unknown, known)), ("none", ())):
            asked = (OffsetFetchRequestGroup(group, None, -1, topics),)
            for stable in (False, True):
                request = OffsetFetchRequest(groups=asked, require_stable=stable)
                found.append(Step(f"{group}, version 10, {what}, {stable}", 10, request))
    every = tuple(OffsetFetchRequestGroup(group, None, -1, (known,)) for group in GROUPS)
    return [*found, Step("all groups, version 10", 10, OffsetFetchRequest(groups=every))]


def questions(topic_id: bytes) -> list[Step]:
    numbers = tuple(range(4))
    found = [Step("groups", 5, ListGroupsRequest())]
    for group in (*GROUPS, "nobody"):
        described = DescribeGroupsRequest((group,))
        found += [Step(f"describe {group}, {version}", version, described) for version in range(7)]
        one = (OffsetFetchRequestTopic(TOPIC, numbers),)
        for version in range(1, 8):
            found.append(Step(f"{group}, version {version}", version, OffsetFetchRequest(group, one)))
            if version >= 2:
                found.append(Step(f"all of {group}, version {version}", version, OffsetFetchRequest(group, None)))
        for version in (8, 9):
            for topics in (None, (OffsetFetchRequestGroupTopic(TOPIC, partition_indexes=numbers),)):
                asked = (OffsetFetchRequestGroup(group, None, -1, topics),)
                for stable in (False, True):
                    request = OffsetFetchRequest(groups=asked, require_stable=stable)
                    found.append(Step(f"{group}, version {version}, {topics}, {stable}", version, request))
    for time_of in (-1, -2, -3, NOW):
        found += [offset_at("", time_of, topic=TOPIC, partition=each, ignored=("leader_epoch",)) for each in range(3)]
    return found + by_id(topic_id)


def in_order(value: Any) -> Any:
    """Groups, topics and partitions in order: Kafka takes theirs from hash maps."""
    if isinstance(value, dict):
        return {name: in_order(each) for name, each in value.items()}
    return sorted(map(in_order, value), key=repr) if isinstance(value, list) else value


def answers(address: tuple[str, int]) -> list[Any]:
    return [in_order(answer(address, step)) for step in questions(id_of_topic(address))]


def assert_alike(before: list[Any], after: list[Any]) -> None:
    for step, left, right in zip(questions(bytes(16)), before, after, strict=True):
        assert not differences(left, right), step.name


@pytest.fixture
def log_dir(kafka_template, kafka_broker, tmp_path):
    """A directory of Kafka's with an ordinary topic."""
    found = copy_template(kafka_template(PARTITIONS), tmp_path / "data")
    with kafka_broker(found) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(30)
        broker.wait_until_loaded(PARTITIONS)
    return found


def test_groups_go_on_in_kafka_and_back(log_dir, kafka_broker):
    members: dict[str, tuple[str, str | None]] = {}
    with RunningServer(log_dir, partitions=PARTITIONS) as running:
        with Client(running.address) as client:
            for group, kind, instance in (
                ("consumers", "consumer", None), ("static", "consumer", "inst"), ("connect", "connect", None)
            ):
                members[group] = enter(client, group, kind, instance), instance
                accepted(client, commit(group, {0: 3, 2: 5}, 1, *members[group]))
            accepted(client, commit("plain", {0: 1, 1: 2}))
        assert answer(running.address, produce("", produced_batch(5, timestamp=NOW), topic=TOPIC)) is not None
        ours = answers(running.address)
    assert {each["group_id"] for each in ours[0]["groups"]} == set(GROUPS)
    with kafka_broker(log_dir) as broker:
        broker.wait_until_loaded(PARTITIONS)
        host, _, port = broker.bootstrap.rpartition(":")
        address = (host, int(port))
        assert_alike(answers(address), ours)
        with Client(address) as client:
            for group, (member, instance) in members.items():
                assert client.ask(HeartbeatRequest(group, 1, member, instance), 4).error_code == 0
                accepted(client, commit(group, {0: 7, 1: 8}, 1, member, instance))
            accepted(client, commit("plain", {2: 9}))
            enter(client, "of-kafka", "consumer")
        theirs = answers(address)
    with RunningServer(log_dir, partitions=PARTITIONS) as running:
        assert_alike(theirs, answers(running.address))
        with Client(running.address) as client:
            for group, (member, instance) in members.items():
                assert client.ask(HeartbeatRequest(group, 1, member, instance), 4).error_code == 0
                accepted(client, commit(group, {0: 11}, 1, member, instance))
