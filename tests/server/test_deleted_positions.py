"""Positions of deleted topics: they go, and those of a new topic of the same name stay."""

from __future__ import annotations

import threading

import pytest

from offsetlog.errors import StorageError
from offsetlog.manager import sweep
from offsetlog.manager.sweep import Sweep
from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)

from .running import Client
from .topic_requests import create, delete, until

#: In several log partitions, which are swept one after the other.
GROUPS = [f"g{number}" for number in range(8)]
CREATE = CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),), timeout_ms=1000)
ASK = MetadataRequest((MetadataRequestTopic(name="orders"),))


def commit(client: Client, group: str, offset: int, topic: str = "orders") -> int:
    position = OffsetCommitRequestTopicPartition(0, offset, -1, committed_metadata="")
    topics = (OffsetCommitRequestTopic(topic, partitions=(position,)),)
    return client.ask(OffsetCommitRequest(group, -1, "", None, topics=topics), 8).topics[0].partitions[0].error_code


def committed(client: Client, group: str) -> int:
    request = OffsetFetchRequest(group, (OffsetFetchRequestTopic("orders", (0,)),))
    return client.ask(request, 7).topics[0].partitions[0].committed_offset


@pytest.fixture
def gate(monkeypatch):
    """Holds every sweep before its first log partition until it is set."""
    gate = threading.Event()
    step = Sweep._step

    def held(self, partition):
        assert gate.wait(20)
        return step(self, partition)

    monkeypatch.setattr(Sweep, "_step", held)
    yield gate
    gate.set()


@pytest.mark.parametrize(("request_", "version"), [(CREATE, 7), (ASK, 9)], ids=["CreateTopics", "Metadata"])
def test_a_topic_is_made_again_when_the_positions_of_the_one_before_are_gone(client, server, gate, request_, version):
    create(client)
    create(client, "other")
    for group in GROUPS:
        assert commit(client, group, 5) == 0
    assert delete(client) == 0
    with Client(server.address) as maker:
        maker.send(encode_request(request_, version, 7, "test"))
        maker.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            maker.receive()
        # All others are served meanwhile; the topic is not there.
        assert commit(client, "g0", 6) == 3
        assert commit(client, "g0", 6, "other") == 0
        gate.set()
        maker.socket.settimeout(20)
        frame = maker.receive()
        assert decode_response(type(client.ask(request_, version)), version, frame)[1].topics[0].error_code == 0
    for group in GROUPS[:4]:
        assert commit(client, group, 77) == 0
    assert not server.server.node.deleted_positions.is_deleting(["orders"])
    assert [committed(client, group) for group in GROUPS] == [77] * 4 + [-1] * 4


def test_a_topic_that_is_deleted_and_made_again_and_again_keeps_its_positions(client):
    for number in range(30):
        create(client)
        for group in GROUPS:
            assert commit(client, group, number) == 0
        assert [committed(client, group) for group in GROUPS] == [number] * len(GROUPS)
        assert delete(client) == 0


def test_a_sweep_that_fails_is_reported_and_keeps_nobody_waiting(client, server, monkeypatch, caplog):
    def fail(*_):
        raise StorageError("the disk has failed")

    create(client)
    assert commit(client, "g0", 5) == 0
    with monkeypatch.context() as failing:
        failing.setattr(sweep.fetch_columns, "fetch_group", fail)
        assert delete(client) == 0
        until(lambda: not server.server.node.deleted_positions.is_deleting(["orders"]))
        create(client)
        failing.setattr(server.server.node.manager, "on_topic_deleted_async", fail)
        assert delete(client) == 0
    create(client)
    assert caplog.text.count("some positions of deleted topics remain") == 2
