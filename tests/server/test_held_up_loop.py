"""An event loop that was held up ends no session of a member whose heartbeat has arrived in time."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import pytest

from offsetlog.coordinator.coordinator import CoordinatorConfig
from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
)
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers import HANDLERS
from offsetlog.server.node import NodeState

from .running import Client, RunningServer

SESSION_MS = 1500
DESCRIBE_CLUSTER = 60
JOIN = JoinGroupRequest(
    "g", SESSION_MS, 300_000, "", None, "consumer", (JoinGroupRequestProtocol("range", b"r"),)
)


@pytest.fixture
def server(tmp_path):
    config = CoordinatorConfig(min_session_timeout=SESSION_MS, initial_rebalance_delay=0)
    with RunningServer(tmp_path / "data", coordinator=config) as running:
        yield running


@pytest.mark.parametrize("others_join", [False, True])
@pytest.mark.parametrize("sends", [True, False])
def test_a_heartbeat_counts_that_arrived_while_the_loop_was_held_up(server, monkeypatch, sends, others_join):
    is_held, may_go_on = threading.Event(), threading.Event()

    def hold(_: NodeState, exchange: Exchange) -> None:
        is_held.set()
        assert may_go_on.wait(60)
        exchange.reply(DescribeClusterResponse())

    # In the middle of a turn, among the reads, after which timers come.
    monkeypatch.setitem(HANDLERS, DESCRIBE_CLUSTER, hold)

    with ExitStack() as opened:
        client, other, third = (opened.enter_context(Client(server.address)) for _ in range(3))
        assert third.ask(FindCoordinatorRequest("x"), 0).error_code == 0
        member_id = client.ask(JOIN, 3).member_id
        assert client.ask(SyncGroupRequest("g", 1, member_id), 3).error_code == 0
        other.send(encode_request(DescribeClusterRequest(), 0, 1))
        assert is_held.wait(60)
        heartbeat = HeartbeatRequest("g", 1, member_id)
        if others_join:
            third.send(encode_request(JOIN._replace(group_id="another"), 3, 1))
        if sends:
            # It is read a turn of the loop after what comes on open ones.
            client = opened.enter_context(Client(server.address))
            client.send(encode_request(heartbeat, 3, 1))
        time.sleep(1.5 * SESSION_MS / 1000)    # the session is over meanwhile
        may_go_on.set()
        assert other.receive() is not None
        if sends:
            assert decode_response(HeartbeatResponse, 3, client.receive())[1].error_code == 0
            assert other.ask(heartbeat, 3).error_code == 0
            return
        deadline = time.monotonic() + 60
        while server.server._groups.coordinator.group("g").members:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert other.ask(heartbeat, 3).error_code == 25
