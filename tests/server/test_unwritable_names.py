"""Ids near the longest that a field holds, and failures in the turn of somebody else: only their client meets them."""

from __future__ import annotations

import struct

import pytest

from offsetlog.coordinator.coordinator import CoordinatorConfig
from offsetlog.errors import TooLargeError
from offsetlog.protocol import decode_response, encode_request, encode_response
from offsetlog.protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from offsetlog.server import connection

from .running import Client, RunningServer
from .topic_requests import create

LONGEST = 2**15 - 1
UNKNOWN_SERVER_ERROR = -1
MARK = b"a name to replace"
#: As many bytes as a name may have, none of which is UTF-8: as text they are three times as many.
NO_UTF8 = b"\xff" * LONGEST


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = CoordinatorConfig(initial_rebalance_delay=200)
    with RunningServer(tmp_path_factory.mktemp("log"), coordinator=settings) as running:
        yield running


@pytest.fixture
def client(server):
    with Client(server.address) as found:
        yield found


def join(group: str, instance: str | None = None) -> JoinGroupRequest:
    offered = (JoinGroupRequestProtocol("range", b"r"),)
    return JoinGroupRequest(group, 10_000, 10_000, "", instance, "consumer", offered)


def joined(client: Client, version: int) -> JoinGroupResponse | None:
    frame = client.receive()
    return None if frame is None else decode_response(JoinGroupResponse, version, frame)[1]


def assert_served(server: RunningServer, group: str) -> None:
    """A rebalance that ends by a timer, as it does where no exception has left one."""
    with Client(server.address) as other:
        assert other.ask(join(group), 3).error_code == 0


def with_name(message: object, version: int, name: bytes) -> bytes:
    """The frame of a request, with a name of these bytes, at least 2**14, in place of MARK."""
    frame = encode_request(message, version, 7, "test")[4:]
    assert frame.count(MARK) == 1
    at = frame.index(MARK)
    if frame[at - 1] == len(MARK):
        before, size = frame[: at - 2], struct.pack(">h", len(name))
    else:  # the compact form of flexible versions
        count = len(name) + 1
        before, size = frame[: at - 1], bytes((count & 127 | 128, count >> 7 & 127 | 128, count >> 14))
    frame = before + size + name + frame[at + len(MARK):]
    return struct.pack(">i", len(frame)) + frame


@pytest.mark.parametrize("version", [3, 5, 6, 9])
def test_a_member_id_that_no_answer_could_hold_is_refused_as_kafka_does(server, client, version):
    client.send(encode_request(join("long client"), version, 7, "x" * (LONGEST - 36)))
    assert joined(client, version).error_code == UNKNOWN_SERVER_ERROR
    assert_served(server, f"beside a client id, {version}")


@pytest.mark.parametrize("version", [5, 7])
def test_so_is_that_of_a_static_member(server, client, version):
    assert client.ask(join("long instance", "y" * (LONGEST - 36)), version).error_code == UNKNOWN_SERVER_ERROR
    assert_served(server, f"beside an instance id, {version}")


def test_the_longest_member_id_joins_and_syncs(client):
    name = "z" * (LONGEST - 37)
    found = client.ask(join("longest", name), 5)
    assert (found.error_code, len(found.member_id)) == (0, LONGEST)
    assert client.ask(SyncGroupRequest("longest", 1, found.member_id, name), 3).error_code == 0


@pytest.mark.parametrize(
    ("request_of", "version", "answer", "error"),
    [
        (join(MARK.decode()), 3, JoinGroupResponse, -1),
        (join(MARK.decode()), 5, JoinGroupResponse, -1),
        (SyncGroupRequest(MARK.decode(), 1, "m"), 3, SyncGroupResponse, 25),
        (HeartbeatRequest(MARK.decode(), 1, "m"), 3, HeartbeatResponse, 25),
        (LeaveGroupRequest(MARK.decode(), "m"), 2, LeaveGroupResponse, 25),
        (OffsetDeleteRequest(MARK.decode(), ()), 0, OffsetDeleteResponse, 69),
        # Their answers name the group, which none can: Kafka gives none.
        (DescribeGroupsRequest((MARK.decode(),)), 3, None, None),
        (DeleteGroupsRequest((MARK.decode(),)), 1, None, None),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_group_whose_name_no_record_can_hold_is_not_there(
    server, client, caplog, request_of, version, answer, error
):
    client.send(with_name(request_of, version, NO_UTF8))
    frame = client.receive()
    if answer is None:
        assert frame is None
    else:
        assert decode_response(answer, version, frame)[1].error_code == error
    assert not [each for each in caplog.records if each.exc_info]
    assert not server.server._groups._replies


@pytest.fixture(scope="module")
def topic(server):
    with Client(server.address) as client:
        create(client, "orders", 2)
    return "orders"


def commit(topic: str, generation: int, member: str) -> OffsetCommitRequest:
    numbers = tuple(OffsetCommitRequestTopicPartition(each, 1) for each in range(2))
    topics = (OffsetCommitRequestTopic(topic, partitions=numbers),)
    return OffsetCommitRequest(MARK.decode(), generation, member, topics=topics)


@pytest.mark.parametrize(
    ("generation", "member", "error"),
    [(-1, "", UNKNOWN_SERVER_ERROR), (-1, "m", UNKNOWN_SERVER_ERROR), (1, "m", 22)],
)
@pytest.mark.parametrize("version", [3, 7])
def test_its_positions_cannot_be_committed(client, caplog, topic, version, generation, member, error):
    for _ in range(2):
        client.send(with_name(commit(topic, generation, member), version, NO_UTF8))
        answer = decode_response(OffsetCommitResponse, version, client.receive())[1]
        assert [(each.name, list(each.partitions)) for each in answer.topics] == [
            (topic, [(0, error), (1, error)])
        ]
    assert not [each for each in caplog.records if each.exc_info]


@pytest.mark.parametrize(("version", "stable"), [(1, False), (5, False), (7, False), (7, True)])
def test_it_has_no_positions(client, caplog, topic, version, stable):
    asked = (OffsetFetchRequestTopic(topic, (0, 1)),)
    request = OffsetFetchRequest(MARK.decode(), asked, require_stable=stable)
    client.send(with_name(request, version, NO_UTF8))
    answer = decode_response(OffsetFetchResponse, version, client.receive())[1]
    assert answer.error_code == 0
    (found,) = answer.topics
    assert [(each.committed_offset, each.error_code) for each in found.partitions] == [(-1, 0)] * 2
    assert not [each for each in caplog.records if each.exc_info]


def test_nor_has_it_any_where_all_are_asked_for(client, topic):
    client.send(with_name(OffsetFetchRequest(MARK.decode(), None), 5, NO_UTF8))
    answer = decode_response(OffsetFetchResponse, 5, client.receive())[1]
    assert (answer.error_code, list(answer.topics)) == (0, [])


def test_an_answer_about_positions_that_would_name_it_is_not_given(server, client, caplog, topic):
    numbers = (OffsetFetchRequestGroupTopic(topic, partition_indexes=(0,)),)
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(MARK.decode(), topics=numbers),), require_stable=True)
    client.send(with_name(asked, 8, NO_UTF8))
    assert client.receive() is None
    assert not [each for each in caplog.records if each.exc_info]
    assert_served(server, "after positions")


@pytest.mark.parametrize("version", [5, 7])
def test_nor_is_one_that_would_name_such_a_topic(server, client, caplog, version):
    asked = (OffsetFetchRequestTopic(MARK.decode(), (0,)),)
    client.send(with_name(OffsetFetchRequest("of a topic", asked), version, NO_UTF8))
    assert client.receive() is None
    assert not [each for each in caplog.records if each.exc_info]
    assert_served(server, f"after a topic, {version}")


def test_an_answer_that_cannot_be_written_ends_its_connection_alone(server, client, monkeypatch):
    def refusing(message, version, correlation_id):
        if isinstance(message, JoinGroupResponse) and message.member_id.startswith("odd"):
            raise TooLargeError("the answer is longer than the format allows")
        return encode_response(message, version, correlation_id)

    monkeypatch.setattr(connection, "encode_response", refusing)
    with Client(server.address) as odd:
        odd.send(encode_request(join("odd group"), 3, 7, "odd"))
        client.send(encode_request(join("even group"), 3, 7, "even"))
        assert joined(client, 3).error_code == 0
        assert odd.receive() is None
    assert_served(server, "after it")


def test_a_request_that_fails_leaves_nothing(server, client, monkeypatch):
    groups = server.server._groups

    def fail(request, call, now):
        raise RuntimeError("a failure that nobody has thought of")

    with monkeypatch.context() as patch:
        patch.setattr(groups.coordinator, "join", fail)
        client.send(encode_request(join("failing"), 3, 7, "test"))
        assert client.receive() is None
    assert not groups._replies
    assert_served(server, "after a failure")
