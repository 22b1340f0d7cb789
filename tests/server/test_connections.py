"""A connection's handling of frames that are whole, cut, many at a time, or none."""

from __future__ import annotations

import asyncio
import random
import socket
import time

import pytest

from offsetlog.protocol import APIS, decode_response, encode_request
from offsetlog.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from offsetlog.server.handlers import HANDLERS
from tests.depth import by_depth, first_seed
from tests.protocol.drawn_messages import drawn

from .running import Client, RunningServer
from .test_life import commit, made

ASK = ApiVersionsRequest("test", "1.0")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RunningServer(tmp_path_factory.mktemp("connections") / "data") as running:
        yield running


@pytest.fixture
def client(server):
    with Client(server.address) as connected:
        yield connected


def assert_serves(server) -> None:
    with Client(server.address) as other:
        assert other.ask(ASK, 3).error_code == 0


def test_a_frame_that_comes_byte_by_byte_is_answered(client):
    for byte in encode_request(ASK, 3, 5):
        client.send(bytes([byte]))
    frame = client.receive()
    assert decode_response(ApiVersionsResponse, 3, frame)[0] == 5


def test_answers_come_in_the_order_of_the_requests(server, client):
    # The first one waits for a rebalance that only the next connection's request can end.
    join = JoinGroupRequest(
        "order", 10_000, 60_000, "", None, "consumer", (JoinGroupRequestProtocol("range", b""),)
    )
    member_id = client.ask(join, 9).member_id
    client.ask(join._replace(member_id=member_id), 9)
    with Client(server.address) as second:
        other_id = second.ask(join, 9).member_id
        second.send(encode_request(join._replace(member_id=other_id), 9, 1))
        second.send(encode_request(ASK, 3, 2))
        second.send(encode_request(HeartbeatRequest("order", 1, "nobody"), 4, 3))
        time.sleep(0.1)
        client.ask(join._replace(member_id=member_id), 9)
        frames = [second.receive() for _ in range(3)]
    assert [int.from_bytes(frame[:4], "big") for frame in frames] == [1, 2, 3]
    assert decode_response(HeartbeatResponse, 4, frames[2])[1].error_code == 25


def test_many_requests_in_one_piece_are_answered_in_order(client):
    count = 500
    client.send(b"".join(encode_request(ASK, 3, number) for number in range(count)))
    for number in range(count):
        assert decode_response(ApiVersionsResponse, 3, client.receive())[0] == number


def test_an_unknown_version_of_api_versions_gets_the_known_ones(client):
    frame = encode_request(ASK, 4, 9)
    client.send(frame[:6] + (99).to_bytes(2, "big") + frame[8:])
    correlation_id, answer = decode_response(ApiVersionsResponse, 0, client.receive())
    assert (correlation_id, answer.error_code) == (9, 35)
    assert [tuple(each) for each in answer.api_keys] == [(18, 0, 4)]
    # The client asks again on the same connection.
    assert client.ask(ASK, 0).error_code == 0


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 10 + "\u00e9"])
def test_software_names_that_are_none_are_refused(client, name):
    assert client.ask(ApiVersionsRequest(name, "1"), 3).error_code == 42


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x7f\xff\xff\xff", id="a request of 2 GiB"),
        pytest.param(b"\xff\xff\xff\xff", id="a negative size"),
        pytest.param(b"\x00\x00\x00\x00", id="an empty request"),
        pytest.param(b"\x00\x00\x00\x07\x00\x12\x00\x03\x00\x00\x00", id="a cut header"),
        pytest.param(b"\x00\x00\x00\x0a\x00\x04\x00\x00\x00\x00\x00\x01\xff\xff", id="LeaderAndIsr"),
        pytest.param(b"\x00\x00\x00\x0a\x00\x08\x00\x0b\x00\x00\x00\x01\xff\xff", id="OffsetCommit 11"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n", id="a browser"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), id="TLS"),
    ],
)
def test_what_is_no_request_ends_the_connection_and_no_other(server, client, data):
    client.send(data)
    assert client.receive() is None
    assert_serves(server)


@pytest.mark.parametrize("durability", ["process", "disk"])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x7f\xff\xff\xff", id="a request of 2 GiB"),
        pytest.param(b"\x00\x00\x00\x03abc", id="a cut request"),
        pytest.param(b"\x00\x00\x00\x0a\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff", id="an unknown API"),
        pytest.param(b"\x00\x00\x00\x0a\x00\x08\x00\x0b\x00\x00\x00\x01\xff\xff", id="OffsetCommit 11"),
    ],
)
def test_requests_before_one_that_is_refused_are_answered(tmp_path, data, durability):
    with RunningServer(tmp_path / "data", durability) as server:
        with Client(server.address) as client:
            made(client, "orders")
            # The next ones are answered by the native front.
            assert commit(client, "g", "orders", 1) == 0
            position = OffsetCommitRequestTopicPartition(0, 5)
            topic = OffsetCommitRequestTopic("orders", partitions=(position,))
            commits = [
                encode_request(OffsetCommitRequest("g", topics=(topic,)), 8, number, "test") for number in (8, 10)
            ]
            client.send(commits[0] + encode_request(ASK, 3, 9) + commits[1] + data + encode_request(ASK, 3, 11))
            assert [int.from_bytes(client.receive()[:4], "big") for _ in range(3)] == [8, 9, 10]
            assert client.receive() is None
        assert_serves(server)


def test_requests_before_one_whose_handler_fails_are_answered(server, client, monkeypatch):
    def fail(node, exchange):
        raise ValueError("of a test")

    monkeypatch.setitem(HANDLERS, 60, fail)
    client.send(encode_request(ASK, 3, 1) + encode_request(DescribeClusterRequest(), 0, 2))
    assert client.receive()[:4] == (1).to_bytes(4, "big")
    assert client.receive() is None
    assert_serves(server)


def test_a_client_that_leaves_in_the_middle_of_a_frame_leaves_nothing(server, client):
    client.send(encode_request(ASK, 3, 1)[:7])
    client.socket.shutdown(socket.SHUT_WR)
    assert client.receive() is None
    assert_serves(server)


def test_clients_that_leave_with_a_join_parked_are_no_trouble(server):
    join = JoinGroupRequest(
        "leavers", 10_000, 60_000, "", None, "consumer", (JoinGroupRequestProtocol("range", b""),)
    )
    with Client(server.address) as first:
        member_id = first.ask(join, 9).member_id
        first.ask(join._replace(member_id=member_id), 9)
        with Client(server.address) as second:
            other_id = second.ask(join, 9).member_id
            second.send(encode_request(join._replace(member_id=other_id), 9, 1))
        time.sleep(0.1)
        assert first.ask(join._replace(member_id=member_id), 9).generation_id == 2


def test_mutated_requests_are_answered_or_end_their_connection(server, caplog):
    seed = first_seed(15)
    print(f"seed {seed}")
    draw = random.Random(seed)
    served = [api for api in APIS.values() if api.key != 18]
    answered = ended = 0
    for _ in range(by_depth(gate=1000, long=100_000)):
        api = draw.choice(served)
        version = draw.randint(api.first_version, api.last_version)
        frame = bytearray(encode_request(drawn(api.request, version, draw), version, 1))
        for _ in range(draw.randrange(3)):
            frame[draw.randrange(12, len(frame))] = draw.randrange(256)
        # Joins may wait for their group, and a Produce may ask for no answer.
        with Client(server.address) as client:
            client.send(bytes(frame))
            client.socket.settimeout({0: 0.5, 11: 0.02, 14: 0.02}.get(api.key, 10))
            try:
                answer = client.receive()
            except TimeoutError:
                continue
        answered += answer is not None
        ended += answer is None
    assert_serves(server)
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []
    print(f"{answered} answered, {ended} ended")
    assert answered > 200 < ended


def test_metadata_of_all_topics_and_of_none(client):
    everything = client.ask(MetadataRequest(topics=None), 12)
    assert "__consumer_offsets" in {each.name for each in everything.topics}
    assert client.ask(MetadataRequest(topics=()), 12).topics == ()
    assert len(everything.cluster_id) == 22


def test_an_unknown_group_has_no_positions(client):
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("nowhere", topics=None),))
    (group,) = client.ask(asked, 9).groups
    assert (group.group_id, group.topics, group.error_code) == ("nowhere", (), 0)


class _Transport:
    """As one of asyncio, over a socket, with or without TLS."""

    def __init__(self, own: socket.socket, ssl_object: object | None) -> None:
        self._extra = {"socket": own, "peername": ("127.0.0.1", 1), "ssl_object": ssl_object}

    def get_extra_info(self, name: str) -> object:
        return self._extra[name]


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_answers_are_written_to_the_socket_at_once_only_without_tls(server, is_encrypted):
    async def connect(own: socket.socket) -> int:
        connection = server.server.connect()
        connection.connection_made(_Transport(own, object() if is_encrypted else None))
        try:
            return connection.fd
        finally:
            connection.connection_lost(None)

    with socket.socket() as own:
        found = asyncio.run_coroutine_threadsafe(connect(own), server.loop).result(20)
        assert found == (-1 if is_encrypted else own.fileno())
