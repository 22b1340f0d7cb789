"""A connection that asks for much leaves the others their turns of the event loop."""

from __future__ import annotations

import threading
import time
from collections import deque

import pytest

from offsetlog._native import frame_stream
from offsetlog._native.frame_stream import CLOSING, NEXT_TURN, TURN_SECONDS, WAITING, FrameStream
from offsetlog.protocol import encode_request
from offsetlog.protocol.messages import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers import HANDLERS
from offsetlog.server.node import NodeState

from .running import SECONDS, Client, RunningServer

ASK = ApiVersionsRequest("test", "1.0")
API_VERSIONS, DESCRIBE_CLUSTER = 18, 60


class _Loop:
    """Runs what is to be called soon when the test says so."""

    def __init__(self) -> None:
        self._soon: deque = deque()

    def call_soon(self, call, *given) -> None:
        self._soon.append((call, given))

    def turn(self) -> bool:
        """One turn; returns whether there was anything to do."""
        calls, self._soon = self._soon, deque()
        for call, given in calls:
            call(*given)
        return bool(calls)


class _Transport:
    def __init__(self) -> None:
        self.is_reading = True
        self.written = b""

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True

    def write(self, data: bytes) -> None:
        self.written += data


class _Stream(FrameStream):
    """Answers each frame with itself; a handler takes as long as the test says."""

    def __init__(self, monkeypatch, seconds: float, in_flight_max: int = 1000) -> None:
        self.now = 1.0
        monkeypatch.setattr(frame_stream, "perf_counter", lambda: self.now)
        self.turns = _Loop()
        super().__init__(
            None, self.turns, lambda: self.now, request_bytes_max=1000, requests_in_flight_max=in_flight_max
        )
        self.transport = _Transport()
        self.handler_seconds = seconds
        self.handled: list[bytes] = []
        self.then = None

    def handle(self, frame, place) -> None:
        self.handled.append(frame)
        self.now += self.handler_seconds
        self.answered(place, frame)
        if self.then is not None:
            self.then()

    def drained(self) -> None:
        self.transport = None


def frames(count: int) -> bytes:
    return b"".join((1).to_bytes(4, "big") + bytes([number]) for number in range(count))


@pytest.mark.parametrize("in_flight_max", [1, 2, 1000])
def test_frames_after_a_long_turn_wait_for_the_next(monkeypatch, in_flight_max):
    stream = _Stream(monkeypatch, 0.6 * TURN_SECONDS, in_flight_max)
    transport = stream.transport
    stream.data_received(frames(5) + b"\0\0")
    assert len(stream.handled) == 2
    assert stream.held & NEXT_TURN
    assert not transport.is_reading
    assert stream.turns.turn()
    assert len(stream.handled) == 4
    stream.turns.turn()
    assert transport.is_reading
    assert transport.written == bytes(range(5))
    # The part of a frame that was there is taken with its rest.
    stream.data_received(b"\0\1\xff")
    assert transport.written == bytes([*range(5), 0xFF])
    assert not stream.turns.turn()


def test_short_requests_of_one_read_are_handled_in_one_turn(monkeypatch):
    stream = _Stream(monkeypatch, TURN_SECONDS / 200)
    stream.data_received(frames(100))
    assert stream.transport.written == bytes(range(100))
    assert not stream.turns.turn()


def test_what_arrives_meanwhile_comes_after_what_waits(monkeypatch):
    stream = _Stream(monkeypatch, 2 * TURN_SECONDS)
    stream.data_received(frames(3))
    stream.data_received(frames(1))
    assert stream.handled == [b"\0"]
    while stream.turns.turn():
        pass
    assert stream.transport.written == b"\0\1\2\0"


def test_a_connection_that_is_lost_meanwhile_takes_nothing_more(monkeypatch):
    stream = _Stream(monkeypatch, 2 * TURN_SECONDS)
    stream.data_received(frames(3))
    stream.transport = None
    stream.forget()
    assert stream.turns.turn()
    assert not stream.turns.turn()
    assert stream.handled == [b"\0"]


def test_a_connection_that_is_closed_meanwhile_takes_nothing_more(monkeypatch):
    stream = _Stream(monkeypatch, 2 * TURN_SECONDS)
    transport = stream.transport
    stream.data_received(frames(3))
    stream.hold(CLOSING)
    assert stream.turns.turn()
    assert not stream.turns.turn()
    assert transport.written == b"\0"
    assert not transport.is_reading


def test_a_request_that_waits_for_others_has_bytes_read_ahead(monkeypatch):
    # Else nobody would notice that its client is gone.
    stream = _Stream(monkeypatch, 2 * TURN_SECONDS)
    stream.then = lambda: stream.hold(WAITING)
    stream.data_received(frames(3))
    assert stream.held == WAITING
    assert stream.transport.is_reading
    stream.then = None
    stream.release(WAITING)
    while stream.turns.turn():
        pass
    assert stream.transport.written == b"\0\1\2"


def test_another_client_is_answered_between_the_requests_of_one_read(tmp_path, monkeypatch):
    order: list[int] = []
    has_begun, may_go_on = threading.Event(), threading.Event()
    versions = HANDLERS[API_VERSIONS]

    def describe(_: NodeState, exchange: Exchange) -> None:
        has_begun.set()
        assert may_go_on.wait(SECONDS)
        began = time.perf_counter()
        while time.perf_counter() - began < TURN_SECONDS:
            pass
        order.append(DESCRIBE_CLUSTER)
        exchange.reply(DescribeClusterResponse())

    def ask(node: NodeState, exchange: Exchange) -> None:
        order.append(API_VERSIONS)
        versions(node, exchange)

    monkeypatch.setitem(HANDLERS, DESCRIBE_CLUSTER, describe)
    monkeypatch.setitem(HANDLERS, API_VERSIONS, ask)
    with (
        RunningServer(tmp_path / "data") as server,
        Client(server.address) as client,
        Client(server.address) as other,
    ):
        assert other.ask(ASK, 3).error_code == 0
        order.clear()
        client.send(b"".join(encode_request(DescribeClusterRequest(), 0, number) for number in range(20)))
        assert has_begun.wait(SECONDS)
        other.send(encode_request(ASK, 3, 1))
        may_go_on.set()
        assert other.receive() is not None
        answers = [int.from_bytes(client.receive()[:4], "big") for _ in range(20)]
    assert answers == list(range(20))
    assert order.index(API_VERSIONS) < 10
