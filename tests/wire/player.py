"""Plays recorded cases on a server, and compares its answers with the recorded ones."""

from __future__ import annotations

import time
from typing import Any

from offsetlog.protocol import APIS
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
)
from tests.coordinator.golden import assert_matches, render
from tests.server.running import Client

from .ordered import ordered

#: The topics that every case finds, by the name that the recordings have for them.
TOPICS = {"a": 8, "b": 1, "c": 1}
BY_NAME = {api.name: api for api in APIS.values()}
DEADLINE_SECONDS = 30


def made_topics(address: tuple[str, int], suffix: bytes) -> dict[str, bytes | None]:
    """Makes the topics of the cases; the values that the recordings put in.

    They are the run's suffix, the address, the node's id, and the topics' ids.
    """
    names = {f"T{suffix.decode()}{key}": partitions for key, partitions in TOPICS.items()}
    deadline = time.monotonic() + DEADLINE_SECONDS
    with Client(address) as client:
        asked = tuple(CreateTopicsRequestTopic(name, count, 1) for name, count in names.items())
        made = client.ask(CreateTopicsRequest(asked, 10_000), 7)
        assert {each.error_code for each in made.topics} == {0}, made
        topics = tuple(MetadataRequestTopic(name=name) for name in names)
        while True:
            answer = client.ask(MetadataRequest(topics, allow_auto_topic_creation=False), 12)
            if all(each.error_code == 0 and each.partitions for each in answer.topics):
                break
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)
    host, port = address
    node = answer.brokers[0].node_id.to_bytes(4, "big")
    ids = {f"T_{each.name[-1]}": each.topic_id for each in answer.topics}
    return {"S": suffix, "H": host.encode(), "PORT": port.to_bytes(4, "big"), "N": node, **ids}


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
            if "arrays" in step:
                got = ordered(BY_NAME[step["api"]], step["version"], got, step["arrays"], self.values["S"] or b"")
            try:
                return assert_matches(step["recv"], got, self.values)
            except AssertionError:
                # Some answers come only when the server has got on: they are asked for again.
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
                client.send(len(frame).to_bytes(4, "big") + frame)

    def play_all(self, case: dict[str, Any]) -> None:
        """Plays a case; an answer that differs is reported with its step."""
        for number, step in enumerate(case["steps"], 1):
            try:
                self.play(step)
            except AssertionError as failure:
                raise AssertionError(f"step {number}, {step['name']}: {failure}") from failure

    def close(self) -> None:
        for client in self.clients.values():
            client.close()
