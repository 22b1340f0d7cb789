"""The server beside Kafka 4.3.0: recorded requests are answered byte for byte as Kafka answered them.

What may differ is marked in the recordings: ids that are made up, host and port, texts of errors.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
)
from tests.coordinator.golden import assert_matches, render, scenarios

from .running import Client, RunningServer

SUFFIX = b"0a1b2c3d"
#: The topics that every case finds, by the name that the recordings have for them.
TOPICS = {"a": 8, "b": 1, "c": 1}
FILES = ("find_coordinator", "list_offsets", "membership", "offset_commit", "offset_fetch")
CASES = [pytest.param(case, id=case["name"]) for name in FILES for case in scenarios(name)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RunningServer(tmp_path_factory.mktemp("golden") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def known(server) -> dict[str, bytes | None]:
    """The values that the recordings put in: the run's suffix, ids of topics, the address."""
    names = {f"T{SUFFIX.decode()}{key}": partitions for key, partitions in TOPICS.items()}
    with Client(server.address) as client:
        asked = tuple(
            CreateTopicsRequestTopic(name, partitions, 1) for name, partitions in names.items()
        )
        made = client.ask(CreateTopicsRequest(asked), 7)
        assert {each.error_code for each in made.topics} == {0}
        topics = tuple(MetadataRequestTopic(name=name) for name in names)
        answer = client.ask(MetadataRequest(topics), 12)
    host, port = server.address
    ids = {f"T_{each.name[-1]}": each.topic_id for each in answer.topics}
    return {"S": SUFFIX, "H": host.encode(), "PORT": port.to_bytes(4, "big"), **ids}


class Player:
    """Plays the steps of a case, each on its connection."""

    def __init__(self, address: tuple[str, int], values: dict[str, bytes | None]) -> None:
        self.address = address
        self.values = dict(values)
        self.clients: dict[int, Client] = {}

    def client(self, step: dict[str, Any]) -> Client:
        number = step.get("conn", 0)
        if number not in self.clients:
            self.clients[number] = Client(self.address)
        return self.clients[number]

    def play(self, step: dict[str, Any]) -> None:
        client = self.client(step)
        if "send" in step:
            frame = render(step["send"], self.values)
            client.send(len(frame).to_bytes(4, "big") + frame)
        if "send_raw" in step:
            client.send(render(step["send_raw"], self.values))
        if "recv" not in step:
            return None
        end = time.monotonic() + step.get("retry", 0)
        while True:
            got = client.receive()
            if step["recv"] == "closed":
                assert got is None
                self.clients.pop(step.get("conn", 0)).close()
                return None
            assert got is not None, "the connection was closed"
            try:
                return assert_matches(step["recv"], got, self.values)
            except AssertionError:
                # Some answers come only when the server has got on: they are asked for again.
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
                client.send(len(frame).to_bytes(4, "big") + frame)

    def close(self) -> None:
        for client in self.clients.values():
            client.close()


@pytest.mark.parametrize("case", CASES)
def test_answers_are_those_of_kafka(server, known, case):
    player = Player(server.address, known)
    try:
        for number, step in enumerate(case["steps"], 1):
            try:
                player.play(step)
            except AssertionError as failure:
                raise AssertionError(f"step {number}, {step['name']}: {failure}") from failure
    finally:
        player.close()
