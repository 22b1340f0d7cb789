"""Joins, syncs, heartbeats and leaves, answered byte for byte as Kafka 4.3.0 answered them."""

from __future__ import annotations

from typing import Any

import pytest

from offsetlog.coordinator.call import Call
from offsetlog.protocol import decode_request, encode_response
from offsetlog.protocol.messages import OffsetCommitRequest

from .driver import HANDLERS, Driver
from .golden import assert_matches, render, scenarios

CASES = [pytest.param(case, id=case["name"]) for case in scenarios("membership")]


class Player:
    """Plays one case: what is sent on a connection is answered there in order."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.values: dict[str, bytes | None] = {"S": b"0a1b2c3d"}
        self.sent: dict[int, list[tuple[Call, int]]] = {}
        self.commits: dict[Call, Any] = {}

    def send(self, frame: bytes, connection: int) -> None:
        request = decode_request(frame)
        message = request.message
        if type(message) in HANDLERS:
            call = self.driver.send(message, request.api_version, request.client_id)
        elif isinstance(message, OffsetCommitRequest):
            call = self.commit(message, request.api_version)
        else:
            return
        self.sent.setdefault(connection, []).append((call, request.correlation_id))

    def commit(self, message: OffsetCommitRequest, version: int) -> Call:
        call = Call(version)
        refusal = self.driver.coordinator.commit_refusal(message, version, self.driver.now)
        self.commits[call] = 0 if refusal is None else refusal.code
        return call

    def play(self, step: dict[str, Any]) -> None:
        connection = step.get("conn", 0)
        if "send" in step:
            self.send(render(step["send"], self.values), connection)
        if "recv" not in step or not self.sent.get(connection):
            return
        call, correlation_id = self.sent[connection].pop(0)
        if call in self.commits:
            partitions = step["decoded"]["Topics"][0]["Partitions"]
            assert [self.commits[call]] == [each["ErrorCode"] for each in partitions]
            return
        answer = self.driver.answers[call]
        frame = encode_response(answer, call.version, correlation_id)
        assert_matches(step["recv"], frame[4:], self.values)


@pytest.mark.parametrize("case", CASES)
def test_answers_are_those_of_kafka(case):
    player = Player()
    answered = 0
    for number, step in enumerate(case["steps"], 1):
        try:
            player.play(step)
        except (AssertionError, KeyError) as failure:
            raise AssertionError(f"step {number}, {step['name']}: {failure}") from failure
        answered += "recv" in step
    assert answered > 2
