"""Versions that clients of Kafka 0.8 send without asking, in plain frames: Kafka 4.3.0 has them no more."""

from __future__ import annotations

import struct

import pytest

from offsetlog import OffsetAndMetadata, TopicPartition
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)

TOPIC = "orders"
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
UNKNOWN_TOPIC_OR_PARTITION, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID = 3, 24, 25


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def exchanged(client, api: int, version: int, body: bytes) -> bytes:
    """Sends a request with the header of those days; returns the body of its answer."""
    frame = struct.pack(">hhi", api, version, 77) + text("old") + body
    client.send(struct.pack(">i", len(frame)) + frame)
    answer = client.receive()
    assert answer is not None
    assert answer[:4] == struct.pack(">i", 77)
    return answer[4:]


def one_topic(partition: bytes, topic: str = TOPIC) -> bytes:
    return struct.pack(">i", 1) + text(topic) + struct.pack(">i", 1) + partition


def committed(error: int, partition: int = 0, topic: str = TOPIC) -> bytes:
    return one_topic(struct.pack(">ih", partition, error), topic)


def fetched(offset: int, metadata: str, error: int, partition: int = 0) -> bytes:
    return one_topic(struct.pack(">iq", partition, offset) + text(metadata) + struct.pack(">h", error))


def commit_0(group: str, offset: int, metadata: str, partition: int = 0, topic: str = TOPIC) -> bytes:
    return text(group) + one_topic(struct.pack(">iq", partition, offset) + text(metadata), topic)


def commit_1(group: str, generation: int, member_id: str, offset: int, timestamp: int) -> bytes:
    position = struct.pack(">iqq", 0, offset, timestamp) + text("")
    return text(group) + struct.pack(">i", generation) + text(member_id) + one_topic(position)


def fetch_0(group: str, partition: int = 0) -> bytes:
    return text(group) + one_topic(struct.pack(">i", partition))


def stored(server, group: str) -> OffsetAndMetadata:
    return server.server.node.manager.fetch(group)[TopicPartition(TOPIC, 0)]


@pytest.fixture
def topic(client):
    asked = CreateTopicsRequest((CreateTopicsRequestTopic(TOPIC, 1, 1),))
    assert client.ask(asked, 7).topics[0].error_code == 0


@pytest.mark.usefixtures("topic")
class TestOffsetCommit:
    def test_version_0_is_a_commit_of_no_member(self, server, client):
        before = server.server.node.groups.now_ms()
        for offset in (5, 6):    # the second one is admitted already
            assert exchanged(client, OFFSET_COMMIT, 0, commit_0("g", offset, "mine")) == committed(0)
            found = stored(server, "g")
            assert found[:3] == (offset, "mine", -1)
            assert found.commit_timestamp >= before
            assert found.expire_timestamp == -1

    @pytest.mark.parametrize("times", [1, 2])
    def test_version_1_brings_its_time(self, server, client, times):
        for number in range(times):
            body = commit_1("g", -1, "", 5 + number, 1_000 + number)
            assert exchanged(client, OFFSET_COMMIT, 1, body) == committed(0)
            assert stored(server, "g")[:4] == (5 + number, "", -1, 1_000 + number)

    @pytest.mark.parametrize("timestamp", [-1, -2**63])
    def test_version_1_without_a_time_is_a_commit_of_now(self, server, client, timestamp):
        before = server.server.node.groups.now_ms()
        body = commit_1("g", -1, "", 5, timestamp)
        assert exchanged(client, OFFSET_COMMIT, 1, body) == committed(0)
        assert stored(server, "g").commit_timestamp >= before

    def test_version_1_is_fenced_by_generation_and_member(self, server, client):
        body = commit_1("g", 3, "nobody", 5, -1)
        refused = int.from_bytes(exchanged(client, OFFSET_COMMIT, 1, body)[-2:], "big")
        assert refused == 22    # there is no such group
        protocol = (JoinGroupRequestProtocol("range", b""),)
        join = JoinGroupRequest("g", 10_000, 60_000, "", None, "consumer", protocol)
        member_id = client.ask(join, 9).member_id
        client.ask(join._replace(member_id=member_id), 9)
        body = commit_1("g", 1, "nobody", 5, -1)
        assert exchanged(client, OFFSET_COMMIT, 1, body) == committed(UNKNOWN_MEMBER_ID)
        assert exchanged(client, OFFSET_COMMIT, 0, commit_0("g", 5, "")) == committed(UNKNOWN_MEMBER_ID)
        assert server.server.node.manager.fetch("g") == {}

    def test_what_is_not_there_is_refused(self, client):
        body = commit_0("g", 5, "", partition=1)
        assert exchanged(client, OFFSET_COMMIT, 0, body) == committed(UNKNOWN_TOPIC_OR_PARTITION, 1)
        body = commit_0("g", 5, "", topic="nobody")
        assert exchanged(client, OFFSET_COMMIT, 0, body) == committed(UNKNOWN_TOPIC_OR_PARTITION, 0, "nobody")


@pytest.mark.usefixtures("topic")
class TestOffsetFetch:
    def test_version_0_answers_what_is_committed(self, client):
        exchanged(client, OFFSET_COMMIT, 0, commit_0("g", 5, "mine"))
        assert exchanged(client, OFFSET_FETCH, 0, fetch_0("g")) == fetched(5, "mine", 0)

    def test_version_0_has_an_error_where_nothing_is_committed_and_version_1_has_none(self, client):
        exchanged(client, OFFSET_COMMIT, 0, commit_0("g", 5, "mine"))
        for group, partition in (("g", 1), ("g", -1), ("another", 0)):
            asked = fetch_0(group, partition)
            nothing = fetched(-1, "", UNKNOWN_TOPIC_OR_PARTITION, partition)
            assert exchanged(client, OFFSET_FETCH, 0, asked) == nothing
            assert exchanged(client, OFFSET_FETCH, 1, asked) == fetched(-1, "", 0, partition)

    def test_version_0_answers_a_committed_minus_one(self, client):
        exchanged(client, OFFSET_COMMIT, 0, commit_0("g", -1, "reset"))
        assert exchanged(client, OFFSET_FETCH, 0, fetch_0("g")) == fetched(-1, "reset", 0)


def test_find_coordinator_0_names_the_server(server, client):
    host, port = server.address
    answer = exchanged(client, FIND_COORDINATOR, 0, text("g"))
    node_id = server.server.node.metadata.node_id
    assert answer == struct.pack(">hi", 0, node_id) + text(host) + struct.pack(">i", port)
