"""A member whose connection is lost while it waits: what stays of that, and the join that it sends again."""

from __future__ import annotations

import time

import pytest

from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
)

from .running import SECONDS, Client, RunningServer

JOIN = JoinGroupRequest(
    "g", 30_000, 300_000, "", None, "consumer", (JoinGroupRequestProtocol("range", b"r"),)
)


@pytest.fixture
def server(tmp_path):
    with RunningServer(tmp_path / "data") as running:
        yield running


def until_replies(server: RunningServer, count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while len(server.server._groups._replies) != count:
        assert time.monotonic() < deadline, server.server._groups._replies
        time.sleep(0.002)


def test_a_join_that_is_sent_again_elsewhere(server):
    with Client(server.address) as leader, Client(server.address) as first:
        one = leader.ask(JOIN, 3).member_id
        assert leader.ask(SyncGroupRequest("g", 1, one), 3).error_code == 0
        other = first.ask(JOIN, 5).member_id
        again = encode_request(JOIN._replace(member_id=other), 5, 1, "test")
        first.send(again)
        until_replies(server, 1)
        with Client(server.address) as second:
            second.send(again)
            assert decode_response(JoinGroupResponse, 5, first.receive())[1].error_code == 27
        # The second is gone as well, and nothing is kept of it.
        until_replies(server, 0)
        assert leader.ask(JOIN._replace(member_id=one), 3).generation_id == 2
