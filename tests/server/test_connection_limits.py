"""What clients can hold of a server: connections, memory, time; and that the others are served meanwhile."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

import pytest

from offsetlog._native.frame_stream import SLOW_READER
from offsetlog.errors import ConfigError
from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    DescribeClusterResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from offsetlog.server.connection_limits import ConnectionLimits, OpenConnections, RequestMemory
from offsetlog.server.handlers import HANDLERS

from .running import SECONDS, Client, RunningServer

ASK = ApiVersionsRequest("test", "1.0")
#: About 200 KB, and so is its answer.
LARGE = MetadataRequest(
    topics=tuple(MetadataRequestTopic(name=f"{number:0200}") for number in range(1000)),
    allow_auto_topic_creation=False,
)
LARGE_FRAME = encode_request(LARGE, 9, 1)


def serving(tmp_path, **limits) -> RunningServer:
    return RunningServer(tmp_path / "data", limits=ConnectionLimits(**limits))


def assert_serves(server) -> None:
    with Client(server.address) as other:
        assert other.ask(ASK, 3).error_code == 0


def wait_until(is_so) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


# ----------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("name", ConnectionLimits.__slots__)
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_that_lets_nothing_through_is_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        ConnectionLimits(**{name: value})


# ------------------------------------------------------------------------------------------------- memory


def test_memory_is_given_in_the_order_of_the_asking():
    memory = RequestMemory(100)
    given = []
    assert memory.take(60, lambda: given.append("never"))
    # It is let in while anything is left.
    assert memory.take(70, lambda: given.append("never"))
    assert memory.left == -30
    first, second, third = (lambda name=name: given.append(name) for name in ("first", "second", "third"))
    assert not memory.take(50, first)
    assert not memory.take(1, second)
    assert not memory.take(1, third)
    memory.give_back(30)
    assert given == []
    memory.leave(second)
    memory.give_back(40)
    assert given == ["first"]
    memory.give_back(60)
    assert given == ["first", "third"]
    memory.give_back(50 + 1)
    assert memory.left == 100


def test_one_that_comes_later_does_not_overtake():
    memory = RequestMemory(10)
    assert memory.take(20, lambda: None)
    assert not memory.take(20, lambda: None)
    memory.give_back(20)
    assert memory.left == -10
    assert not memory.take(1, lambda: None)


def test_requests_that_find_no_memory_wait_for_it(tmp_path):
    with serving(tmp_path, queued_request_bytes_max=len(LARGE_FRAME) // 2) as server:
        memory = server.server._connections.memory
        with Client(server.address) as first, Client(server.address) as second:
            first.send(LARGE_FRAME[:100_000])
            wait_until(lambda: memory.left < 0)
            second.send(LARGE_FRAME)
            second.socket.settimeout(0.3)
            with pytest.raises(TimeoutError):
                second.receive()
            # Small ones need none.
            assert_serves(server)
            first.send(LARGE_FRAME[100_000:])
            second.socket.settimeout(SECONDS)
            for each in (first, second):
                assert len(decode_response(MetadataResponse, 9, each.receive())[1].topics) == 1000
        wait_until(lambda: memory.left == len(LARGE_FRAME) // 2)


def test_clients_that_leave_give_back_what_they_had_or_are_given(tmp_path):
    with serving(tmp_path, queued_request_bytes_max=1) as server:
        memory = server.server._connections.memory
        with Client(server.address) as third:
            with Client(server.address) as first:
                first.send(LARGE_FRAME[:100])
                wait_until(lambda: memory.left < 0)
                with Client(server.address) as second:
                    second.send(LARGE_FRAME[:100])
                    wait_until(lambda: len(memory._waiting) == 1)
                    third.send(LARGE_FRAME)
                    wait_until(lambda: len(memory._waiting) == 2)
                # Those in line are not read from, so that nobody sees that the second has left: its turn passes.
            assert third.receive() is not None
        wait_until(lambda: memory.left == 1)


# -------------------------------------------------------------------------------------------- connections


class _Nobody:
    def is_idle(self, since):
        return False

    def end(self, reason):
        raise AssertionError(reason)

    def close(self):
        pass


def test_connections_are_counted_by_host():
    connections = OpenConnections(ConnectionLimits(connections_max=3, connections_per_host_max=2))
    one, two, three, four = (_Nobody() for _ in range(4))
    assert connections.admit(one, "a")
    assert connections.admit(two, "a")
    assert not connections.admit(three, "a")
    assert connections.admit(three, "b")
    assert not connections.admit(four, "b")
    connections.remove(four)
    connections.remove(one)
    connections.remove(one)
    assert len(connections) == 2
    assert connections.admit(four, "a")


def test_one_connection_too_many_is_closed_and_a_later_one_served(tmp_path, caplog):
    with serving(tmp_path, connections_max=2) as server:
        with Client(server.address) as first, Client(server.address) as second:
            assert first.ask(ASK, 3).error_code == second.ask(ASK, 3).error_code == 0
            with Client(server.address) as third:
                assert third.receive() is None
            assert first.ask(ASK, 3).error_code == 0
        wait_until(lambda: len(server.server._connections) == 0)
        assert_serves(server)
    assert "127.0.0.1: refused: there are 2 connections in all" in caplog.text


def test_hundreds_of_connections_are_served(tmp_path):
    with serving(tmp_path) as server:
        clients = [Client(server.address) for _ in range(400)]
        try:
            for each in clients:
                each.send(encode_request(ASK, 3, 1))
            assert all(each.receive() is not None for each in clients)
        finally:
            for each in clients:
                each.socket.close()
        assert_serves(server)


# --------------------------------------------------------------------------------------------------- time


def test_idle_connections_are_closed_and_those_that_wait_for_an_answer_are_not(tmp_path):
    join = JoinGroupRequest("g", 60_000, 60_000, "", None, "consumer", (JoinGroupRequestProtocol("range", b""),))
    with serving(tmp_path, idle_seconds=0.5) as server, Client(server.address) as idle:
        with Client(server.address) as leader, Client(server.address) as waiting:
            member_id = leader.ask(join, 9).member_id
            assert leader.ask(join._replace(member_id=member_id), 9).error_code == 0
            other_id = waiting.ask(join, 9).member_id
            waiting.send(encode_request(join._replace(member_id=other_id), 9, 1))
            assert idle.receive() is None
            waiting.socket.settimeout(1)
            with pytest.raises(TimeoutError):
                waiting.receive()
        assert_serves(server)


def test_a_client_that_sends_a_byte_now_and_then_is_idle(tmp_path):
    with serving(tmp_path, idle_seconds=0.5) as server, Client(server.address) as dripping:
        frame = encode_request(ASK, 3, 1)
        dripping.socket.settimeout(0.05)
        end = time.monotonic() + SECONDS
        for byte in frame * 1000:
            assert time.monotonic() < end
            try:
                dripping.send(bytes([byte]))
                if dripping.socket.recv(1) == b"":
                    break
            except TimeoutError:
                frame = frame[:-1]
            except (ConnectionResetError, BrokenPipeError):
                break
        assert_serves(server)


# ----------------------------------------------------------------------------------------------- requests


def test_a_client_that_does_not_read_is_not_read_from(tmp_path):
    with serving(tmp_path) as server:
        with Client(server.address) as slow:
            slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
            slow.socket.settimeout(0.5)
            sent = 0
            # Its answers are as long as its requests: what neither side's buffers hold is not taken.
            for _ in range(200):
                try:
                    slow.send(LARGE_FRAME)
                except TimeoutError:
                    break
                sent += 1
            assert sent < 200
            assert_serves(server)
            (connection,) = [each for each in server.server._connections._open if each.held & SLOW_READER]
            assert len(connection.received) < 1 << 20
            slow.socket.settimeout(SECONDS)
            for _ in range(sent):
                assert len(decode_response(MetadataResponse, 9, slow.receive())[1].topics) == 1000
        assert_serves(server)


def test_more_requests_than_may_be_in_flight_are_answered_all_and_in_order(tmp_path, monkeypatch):
    unanswered = []
    monkeypatch.setitem(HANDLERS, 60, lambda _, exchange: unanswered.append(exchange))
    with serving(tmp_path, requests_in_flight_max=3) as server, Client(server.address) as client:
        client.send(encode_request(DescribeClusterRequest(), 0, 0))
        client.send(b"".join(encode_request(ASK, 3, number) for number in range(1, 100)))
        (held,) = held_connections(server)
        assert len(held.places) == 3
        server.loop.call_soon_threadsafe(unanswered[0].reply, DescribeClusterResponse())
        assert correlation_ids(client, 100) == list(range(100))


def held_connections(server) -> list:
    def held() -> list:
        return [each for each in server.server._connections._open if each.held]

    wait_until(held)
    return held()


def correlation_ids(client, count: int) -> list[int]:
    return [int.from_bytes(client.receive()[:4], "big") for _ in range(count)]


def test_a_request_that_waits_for_others_holds_those_after_it(tmp_path):
    join = JoinGroupRequest("g", 60_000, 60_000, "", None, "consumer", (JoinGroupRequestProtocol("range", b""),))
    with serving(tmp_path) as server, Client(server.address) as client, Client(server.address) as second:
        member_id = client.ask(join, 9).member_id
        client.ask(join._replace(member_id=member_id), 9)
        other_id = second.ask(join, 9).member_id
        second.send(encode_request(join._replace(member_id=other_id), 9, 0))
        second.send(b"".join(encode_request(ASK, 3, number) for number in range(1, 100)))
        (held,) = held_connections(server)
        assert len(held.places) == 1
        client.ask(join._replace(member_id=member_id), 9)
        assert correlation_ids(second, 100) == list(range(100))


def test_what_is_read_ahead_while_a_request_waits_is_bounded(tmp_path, monkeypatch):
    unanswered = []

    def wait(_, exchange) -> None:
        exchange.wait()
        unanswered.append(exchange)

    monkeypatch.setitem(HANDLERS, 60, wait)
    with serving(tmp_path) as server, Client(server.address) as client:
        client.send(encode_request(DescribeClusterRequest(), 0, 0))
        (held,) = held_connections(server)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
        client.socket.settimeout(0.5)
        sent = b"".join(encode_request(ASK, 3, number) for number in range(1, 1000)) * 1000
        at = 0
        with suppress(TimeoutError):
            while at < len(sent):
                at += client.socket.send(sent[at : at + 65_536])
        assert len(held.received) < 1 << 20
        assert at < len(sent)
        assert_serves(server)
        server.loop.call_soon_threadsafe(unanswered[0].reply, DescribeClusterResponse())
        client.socket.settimeout(SECONDS)
        assert correlation_ids(client, 1000) == list(range(1000))
