"""The share of a server that clients can hold: connections, memory, time; the others are served meanwhile."""

from __future__ import annotations

import math
import resource
import socket
import time
from contextlib import ExitStack, suppress

import pytest

from offsetlog._native.frame_stream import NEXT_TURN, SLOW_READER
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
from offsetlog.server.connection_limits import (
    ADVANCE_BYTES,
    ConnectionLimits,
    OpenConnections,
    RequestMemory,
)
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


class _Request:
    """Is let in when there is memory.  It began at 0."""

    def __init__(self, log: list, name: str) -> None:
        self._log, self._name = log, name
        self.now = self._since = 0.0

    def began(self, now: float) -> None:
        self._since = now

    def read_on(self) -> None:
        self._log.append(self._name)
        self.began(self.now)

    def end(self, reason: str) -> None:
        self._log.append(f"{self._name} ends: {reason}")

    def is_slow(self, since: float) -> bool:
        return self._since < since


def requests_of(count: int) -> tuple[list, list[_Request]]:
    let_in: list[str] = []
    return let_in, [_Request(let_in, str(number)) for number in range(count)]


def test_memory_is_taken_for_what_has_arrived_and_given_in_order():
    memory = RequestMemory(10 * ADVANCE_BYTES)
    let_in, (first, second, third, fourth) = requests_of(4)
    assert memory.arrived(first, 4)
    assert memory.arrived(second, 4 * ADVANCE_BYTES)
    assert memory.left == 6 * ADVANCE_BYTES - 4
    # It is let in while anything is left.
    assert not memory.arrived(third, 7 * ADVANCE_BYTES)
    assert not memory.arrived(fourth, 1)
    assert memory.left == -ADVANCE_BYTES - 5
    # The one that began first is read on.
    assert memory.arrived(first, ADVANCE_BYTES)
    assert not memory.arrived(second, 5 * ADVANCE_BYTES)
    assert let_in == []
    memory.release(first)
    # And so is its successor, which waits after others.
    assert let_in == ["1"]
    assert memory.arrived(second, 5 * ADVANCE_BYTES)
    memory.release(second)
    assert let_in == ["1", "2", "3"]
    assert memory.arrived(fourth, 2)
    memory.release(fourth)
    memory.release(third)
    memory.release(third)
    assert memory.left == 10 * ADVANCE_BYTES


def test_only_as_many_are_let_in_as_there_is_memory_for():
    memory = RequestMemory(ADVANCE_BYTES)
    let_in, (first, *others) = requests_of(10)
    assert memory.arrived(first, 2 * ADVANCE_BYTES)
    assert not any(memory.arrived(each, 10) for each in others)
    memory.release(first)
    assert let_in == ["1"]
    memory.release(others[8])
    memory.release(others[0])
    assert let_in == ["1", "2"]


def test_slow_requests_end_the_oldest_first_until_none_waits():
    memory = RequestMemory(3 * ADVANCE_BYTES)
    ended, (first, second, third, fourth) = requests_of(4)
    for each in (first, second, third):
        assert memory.arrived(each, ADVANCE_BYTES - 1)
    memory.end_slow(100, 1)
    assert not memory.arrived(fourth, ADVANCE_BYTES)
    memory.end_slow(1, 1)
    assert ended == []
    memory.end_slow(1.5, 1)
    assert ended == ["0 ends: its request was incomplete after 1 s while other requests waited for memory", "3"]


def test_a_request_that_had_to_wait_has_its_time_when_it_is_let_in():
    memory = RequestMemory(10)
    log, requests = requests_of(3)
    first, second, third = requests
    assert memory.arrived(first, 9)
    assert not memory.arrived(second, 9)
    assert not memory.arrived(third, 1)

    def logged(now: float) -> list[str]:
        for each in requests:
            each.now = now
        log.clear()
        memory.end_slow(now, 30)
        return log

    slow = "its request was incomplete after 30 s while other requests waited for memory"
    assert logged(30) == []
    # The second is let in, and leaves no memory for the third.
    assert logged(31) == [f"0 ends: {slow}", "1"]
    assert logged(60) == []
    assert logged(61.5) == [f"1 ends: {slow}", "2"]
    assert logged(200) == []
    assert memory.left == 10 - 1 - ADVANCE_BYTES


def test_a_request_does_not_wait_for_hundreds_that_stall_one_after_the_other():
    memory = RequestMemory(10)
    log, (*stalled, late) = requests_of(100)
    assert memory.arrived(stalled[0], 10)
    assert not any(memory.arrived(each, ADVANCE_BYTES) for each in stalled[1:])

    def look(*moments: float) -> None:
        for now in moments:
            for each in (*stalled, late):
                each.now = now
            memory.end_slow(now, 30)

    look(10, 20, 30, 40, 50)
    late.began(50)
    assert not memory.arrived(late, 1)
    look(60, 70)
    assert sum("its request waited for memory for more than 60 s" in each for each in log) == 97
    look(80)
    assert log[-1] == "99"


def test_requests_that_find_no_memory_wait_for_it(tmp_path):
    limit = len(LARGE_FRAME) // 2
    with serving(tmp_path, queued_request_bytes_max=limit) as server:
        memory = server.server._connections.memory
        with Client(server.address) as first, Client(server.address) as second:
            first.send(LARGE_FRAME[:150_000])
            wait_until(lambda: memory.left < 0)
            second.send(LARGE_FRAME[:100_000])
            wait_until(lambda: memory._waiting)
            second.send(LARGE_FRAME[100_000:])
            second.socket.settimeout(0.3)
            with pytest.raises(TimeoutError):
                second.receive()
            # Small ones need none.
            assert_serves(server)
            first.send(LARGE_FRAME[150_000:])
            second.socket.settimeout(SECONDS)
            for each in (first, second):
                assert len(decode_response(MetadataResponse, 9, each.receive())[1].topics) == 1000
        wait_until(lambda: memory.left == limit)


def test_sizes_that_are_announced_take_no_memory(tmp_path):
    with serving(tmp_path, queued_request_bytes_max=1 << 20) as server:
        stalled = [Client(server.address) for _ in range(20)]
        try:
            for each in stalled:
                each.send((100 << 20).to_bytes(4, "big"))
            wait_until(lambda: len(server.server._connections.memory._taken) == 20)
            with Client(server.address) as other:
                assert len(other.ask(LARGE, 9).topics) == 1000
        finally:
            for each in stalled:
                each.close()


def test_requests_that_stall_end_while_others_wait_for_their_memory(tmp_path):
    limits = {"queued_request_bytes_max": 1000, "request_seconds": 0.4}
    with serving(tmp_path, **limits) as server, Client(server.address) as stalled:
        stalled.send(LARGE_FRAME[:100_000])
        memory = server.server._connections.memory
        wait_until(lambda: memory._taken)
        with Client(server.address) as other:
            other.send(LARGE_FRAME[:100])
            # It waits, and may be let in already.
            wait_until(lambda: memory._waiting or len(server.server._connections) == 1)
            other.send(LARGE_FRAME[100:])
            assert len(decode_response(MetadataResponse, 9, other.receive())[1].topics) == 1000
        assert stalled.receive() is None
        wait_until(lambda: memory.left == 1000)


def test_a_request_that_waits_for_a_stalled_one_is_read_when_that_ends(tmp_path):
    with serving(tmp_path, queued_request_bytes_max=1000) as server, ExitStack() as opened:
        stalled, *waiting = (opened.enter_context(Client(server.address)) for _ in range(3))
        connections = server.server._connections
        stalled.send(LARGE_FRAME[:100_000])
        for number, each in enumerate(waiting, 1):
            wait_until(lambda number=number: len(connections.memory._taken) == number)
            each.send(LARGE_FRAME[:100])
        wait_until(lambda: len(connections.memory._waiting) == 2)
        assert not any(each.is_idle(math.inf) for each in connections.memory._waiting)
        for each in waiting:
            each.send(LARGE_FRAME[100:])

        def end_slow() -> None:
            for each in connections._open:
                each._arriving_since -= 1.1 * connections.limits.request_seconds
            connections.end_idle(time.perf_counter())

        server.loop.call_soon_threadsafe(end_slow)
        for each in waiting:
            assert len(decode_response(MetadataResponse, 9, each.receive())[1].topics) == 1000
        assert stalled.receive() is None


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
                    third.send(LARGE_FRAME[:100])
                    wait_until(lambda: len(memory._waiting) == 2)
                    third.send(LARGE_FRAME[100:])
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
    assert "127.0.0.1: connection refused: already 2 connections in total" in caplog.text


def test_connections_leave_files_for_the_logs(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    with serving(tmp_path) as server:
        assert server.server._connections.connections_max == 504
    assert "accepting at most 504 connections instead of max.connections=20000" in caplog.text
    caplog.clear()
    with serving(tmp_path, connections_max=504) as server:
        assert server.server._connections.connections_max == 504
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    with serving(tmp_path) as server:
        assert server.server._connections.connections_max == 20_000
    assert caplog.text == ""


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
        # Not for the rest of a turn, which ends by itself.
        return [each for each in server.server._connections._open if each.held & ~NEXT_TURN]

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
