"""Names that topics of clients cannot have, however they are asked for."""

from __future__ import annotations

import pytest

from offsetlog import error_codes
from offsetlog.errors import InvalidArgumentError
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
)
from offsetlog.server.node import TopicDefaults

from .batches import produced_batch
from .running import Client, RunningServer
from .topic_requests import NOW, delete, fetch, produce

CLUSTER_METADATA = "__cluster_metadata"


def asked_for(client: Client, *names: str) -> list[tuple[str, int]]:
    """The names and errors of topics that a client asks for, which may make them."""
    request = MetadataRequest(tuple(MetadataRequestTopic(name=each) for each in names))
    return [(each.name, each.error_code) for each in client.ask(request, 9).topics]


def made(client: Client, name: str, partitions: int = 1) -> int:
    request = CreateTopicsRequest((CreateTopicsRequestTopic(name, partitions, 1),), timeout_ms=1000)
    return client.ask(request, 7).topics[0].error_code


# ---------------------------------------------------------------------------- the brokers' own metadata


@pytest.fixture
def broker_log(tmp_path):
    """The brokers' log of metadata in a log directory that a server has had."""
    with RunningServer(tmp_path / "data"):
        pass
    path = tmp_path / "data" / f"{CLUSTER_METADATA}-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(produced_batch(3, timestamp=NOW))
    (path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    (path / "quorum-state").write_text("{}")
    return path


def contents(path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.iterdir()}


def test_the_metadata_of_brokers_is_no_topic_of_clients(broker_log):
    before = contents(broker_log)
    unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
    with RunningServer(broker_log.parent) as running, Client(running.address) as client:
        for _ in range(2):
            assert asked_for(client, CLUSTER_METADATA) == [(CLUSTER_METADATA, unknown)]
        assert made(client, CLUSTER_METADATA) == error_codes.INVALID_REQUEST.code
        assert produce(client, produced_batch(1, timestamp=NOW), topic=CLUSTER_METADATA).error_code == unknown
        assert fetch(client, 0, topic=CLUSTER_METADATA).error_code == unknown
        assert delete(client, CLUSTER_METADATA) == unknown
        with pytest.raises(InvalidArgumentError, match="not a topic"):
            running.server._topics.get(CLUSTER_METADATA, 0)
    assert contents(broker_log) == before


def test_a_topic_of_their_metadata_that_an_earlier_version_made_is_dropped_and_the_log_stays(broker_log, monkeypatch):
    before = contents(broker_log)
    with monkeypatch.context() as earlier:
        earlier.setattr("offsetlog.server.handlers.topics.CLUSTER_METADATA", "nothing")
        with RunningServer(broker_log.parent) as running, Client(running.address) as client:
            assert made(client, CLUSTER_METADATA) == 0
    assert CLUSTER_METADATA in (broker_log.parent / "offsetlog-metadata.json").read_text()
    with RunningServer(broker_log.parent) as running, Client(running.address) as client:
        names = [each.name for each in client.ask(MetadataRequest(None), 12).topics]
        assert names == ["__consumer_offsets"]
        assert delete(client, CLUSTER_METADATA) == error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
    assert contents(broker_log) == before


# -------------------------------------------------------------------------------- topics made by asking


def test_no_two_topics_are_made_that_have_one_name_in_metrics(server, client):
    unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
    assert asked_for(client, "a.b") == [("a.b", 0)]
    assert asked_for(client, "a_b") == [("a_b", unknown)]
    assert asked_for(client, "c.d", "c_d", "e", "f/g") == [
        ("c.d", 0),
        ("e", 0),
        ("c_d", unknown),
        ("f/g", error_codes.INVALID_TOPIC_EXCEPTION.code),
    ]
    assert delete(client, "a.b") == 0
    assert asked_for(client, "a_b") == [("a_b", 0)]


@pytest.mark.parametrize("name", ["__transaction_state", "__share_group_state"])
def test_topics_of_brokers_are_not_made_by_asking(client, name):
    answer = client.ask(MetadataRequest((MetadataRequestTopic(name=name),)), 9).topics[0]
    assert (answer.error_code, answer.is_internal) == (error_codes.UNKNOWN_TOPIC_OR_PARTITION.code, True)


def test_no_more_partitions_are_made_by_asking_than_by_a_request_for_topics(tmp_path):
    unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
    defaults = TopicDefaults(partitions=4_000)
    with RunningServer(tmp_path / "data", topics=defaults) as running, Client(running.address) as client:
        asked = [f"topic{number}" for number in range(5)]
        for there in (2, 4, 5):
            errors = [error for _, error in asked_for(client, *asked)]
            assert errors == [0] * there + [unknown] * (5 - there)
