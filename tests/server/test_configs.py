"""The settings of topics: their table, what they refuse, and what a restart keeps."""

from __future__ import annotations

import time

import pytest

from offsetlog.errors import ConfigError
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsRequestTopicConfig,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsRequestResourceConfig,
    ProduceRequest,
    ProduceRequestTopicData,
    ProduceRequestTopicDataPartitionData,
)
from offsetlog.topics import configs
from offsetlog.topics.settings import AppendRules, TopicLogSettings

from .batches import produced_batch
from .running import Client, RunningServer
from .topic_requests import create

TOPIC, BROKER = 2, 4


def describe(client: Client, kind: int, name: str):
    return client.ask(DescribeConfigsRequest((DescribeConfigsRequestResource(kind, name, None),)), 4).results[0]


def alter(client: Client, *changes: tuple[str, int, str | None], kind: int = TOPIC, name: str = "orders") -> int:
    given = tuple(IncrementalAlterConfigsRequestResourceConfig(*each) for each in changes)
    request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsRequestResource(kind, name, given),))
    return client.ask(request, 1).responses[0].error_code


def test_defaults_can_be_and_are_those_of_the_log():
    for name, config in configs.TOPIC_CONFIGS.items():
        configs.check(name, config.default)
        assert config.documentation
    assert TopicLogSettings().of(configs.effective({})) == TopicLogSettings()
    assert AppendRules.of(configs.effective({}), TopicLogSettings()) == AppendRules()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nothing", "1"),
        ("retention.ms", "abc"),
        ("retention.ms", "1.5"),
        ("retention.ms", "-2"),
        ("retention.ms", str(2**63)),
        ("retention.ms", "1" * 5000),
        ("retention.ms", ""),
        ("retention.ms", "1_000"),
        ("retention.ms", "1 000"),
        ("retention.ms", "\u00a05"),
        ("retention.ms", "\u0663"),
        ("retention.ms", "0x10"),
        ("retention.ms", "1e3"),
        ("retention.ms", "--1"),
        ("segment.index.bytes", "63"),
        ("segment.bytes", str(2**31)),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "0_1"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "."),
        ("preallocate", "yes"),
        ("message.timestamp.type", "createtime"),
        ("cleanup.policy", "compact,other"),
    ],
)
def test_values_that_cannot_be_are_refused(name, value):
    with pytest.raises(ConfigError):
        configs.check(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "+5"),
        ("retention.ms", " 5\t"),
        ("retention.ms", "-1"),
        ("retention.ms", "0" * 50 + "7"),
        ("segment.index.bytes", "64"),
        ("min.cleanable.dirty.ratio", ".5"),
        ("min.cleanable.dirty.ratio", "1."),
        ("min.cleanable.dirty.ratio", "1e-3"),
    ],
)
def test_values_that_kafka_takes_are_taken(name, value):
    configs.check(name, value)


def test_a_log_can_be_made_with_the_smallest_values(tmp_path):
    smallest = {
        name: str(int(config.smallest))
        for name, config in configs.TOPIC_CONFIGS.items()
        if config.kind in (configs.Kind.INT, configs.Kind.LONG) and config.is_used
    }
    smallest["max.message.bytes"] = smallest["message.timestamp.before.max.ms"] = str(2**31 - 1)
    now = int(time.time() * 1000)
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        given = tuple(CreateTopicsRequestTopicConfig(*each) for each in smallest.items())
        client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1, configs=given),), 1000), 7)
        data = ProduceRequestTopicDataPartitionData(0, produced_batch(1, timestamp=now - 1000))
        request = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=(ProduceRequestTopicData("orders", partition_data=(data,)),)
        )
        for number in range(20):
            answer = client.ask(request, 9).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (0, number)


def test_the_settings_of_the_positions_are_those_of_kafka_and_are_kept(tmp_path):
    own = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
    for changed in ({}, {"retention.ms": "5", "segment.bytes": "2000000"}):
        with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
            described = describe(client, TOPIC, "__consumer_offsets").configs
            assert {each.name: each.value for each in described if each.config_source == 1} == own
            changes = [(name, 0, value) for name, value in changed.items()]
            assert not changes or alter(client, *changes, name="__consumer_offsets") == 0
        own |= changed
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        described = describe(client, TOPIC, "__consumer_offsets").configs
        assert {each.name: each.value for each in described if each.config_source == 1} == own


def test_changes_are_kept_and_all_or_none_of_a_topic(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),), 1000), 7)
        assert alter(client, ("retention.ms", 0, "5"), ("cleanup.policy", 2, "compact")) == 0
        assert alter(client, ("retention.ms", 0, "6"), ("nothing", 0, "1")) == 40
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        found = {each.name: each.value for each in describe(client, TOPIC, "orders").configs}
        assert (found["retention.ms"], found["cleanup.policy"]) == ("5", "delete,compact")
        assert found.keys() == configs.TOPIC_CONFIGS.keys()


@pytest.mark.parametrize("unknown", [0, 1, 3, 77])
def test_a_type_that_is_not_known_is_an_error_of_the_whole_request(client, unknown):
    create(client)
    named = [(TOPIC, "orders"), (BROKER, "0"), (unknown, "x")]
    asked = tuple(DescribeConfigsRequestResource(*each, None) for each in named)
    results = client.ask(DescribeConfigsRequest(asked), 4).results
    assert [(each.resource_type, each.resource_name) for each in results] == named
    assert {each.error_code for each in results} == {42}
    assert not any(each.configs for each in results)


@pytest.mark.parametrize("every", [None, ()])
def test_all_settings_are_described_where_none_is_named(client, every):
    create(client)
    asked = DescribeConfigsRequestResource(TOPIC, "orders", every)
    (result,) = client.ask(DescribeConfigsRequest((asked,)), 4).results
    assert {each.name for each in result.configs} == configs.TOPIC_CONFIGS.keys()


def test_topics_with_the_same_settings_are_described_alike_and_those_with_others_not(client):
    for name, given in (("a", {}), ("b", {"retention_ms": "5"}), ("c", {}), ("d", {"retention_ms": "5"})):
        create(client, name, **given)
    asked = tuple(DescribeConfigsRequestResource(TOPIC, name, None) for name in "abcd")
    results = client.ask(DescribeConfigsRequest(asked), 4).results
    assert [{each.name: each.value for each in one.configs}["retention.ms"] for one in results] == [
        "604800000", "5", "604800000", "5"
    ]


def test_the_node_says_what_it_is_and_takes_no_changes(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        found = {each.name: each for each in describe(client, BROKER, "0").configs}
        assert found["offsets.topic.num.partitions"].value == "50"
        assert all(each.read_only for each in found.values())
        assert describe(client, BROKER, "7").error_code == 42
        assert alter(client, ("num.partitions", 0, "3"), kind=BROKER, name="0") == 42
