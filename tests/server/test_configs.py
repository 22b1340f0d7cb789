"""The settings of topics: their table, what they refuse, and what a restart keeps."""

from __future__ import annotations

import pytest

from offsetlog.errors import ConfigError
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsRequestResourceConfig,
)
from offsetlog.topics import configs
from offsetlog.topics.settings import AppendRules, TopicLogSettings

from .running import Client, RunningServer

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
    assert AppendRules.of(configs.effective({})) == AppendRules()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nothing", "1"),
        ("retention.ms", "abc"),
        ("retention.ms", "1.5"),
        ("retention.ms", "-2"),
        ("retention.ms", str(2**63)),
        ("segment.bytes", str(2**31)),
        ("min.cleanable.dirty.ratio", "nan"),
        ("preallocate", "yes"),
        ("message.timestamp.type", "createtime"),
        ("cleanup.policy", "compact,other"),
    ],
)
def test_values_that_cannot_be_are_refused(name, value):
    with pytest.raises(ConfigError):
        configs.check(name, value)


def test_changes_are_kept_and_all_or_none_of_a_topic(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),), 1000), 7)
        assert alter(client, ("retention.ms", 0, "5"), ("cleanup.policy", 2, "compact")) == 0
        assert alter(client, ("retention.ms", 0, "6"), ("nothing", 0, "1")) == 40
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        found = {each.name: each.value for each in describe(client, TOPIC, "orders").configs}
        assert (found["retention.ms"], found["cleanup.policy"]) == ("5", "delete,compact")
        assert found.keys() == configs.TOPIC_CONFIGS.keys()


def test_the_node_says_what_it_is_and_takes_no_changes(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        found = {each.name: each for each in describe(client, BROKER, "0").configs}
        assert found["offsets.topic.num.partitions"].value == "50"
        assert all(each.read_only for each in found.values())
        assert describe(client, BROKER, "7").error_code == 42
        assert alter(client, ("num.partitions", 0, "3"), kind=BROKER, name="0") == 42
