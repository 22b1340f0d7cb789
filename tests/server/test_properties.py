"""The file of `offsetlog serve --config`: what it sets, what it refuses, and what comes before it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsetlog import error_codes
from offsetlog.cli.app import run
from offsetlog.errors import ConfigError
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    MetadataRequest,
    MetadataRequestTopic,
)
from offsetlog.server.configuration import settings_of
from offsetlog.server.properties import FILE_BYTES_MAX, PROPERTIES, Given, read_properties
from offsetlog.server.server import ServerSettings

from .batches import produced_batch
from .running import Client, RunningServer
from .topic_requests import NOW, create, produce

#: One value of each property that is not its default.
OTHER = {
    "log.dirs": "elsewhere",
    "listeners": "PLAINTEXT://[::1]:0",
    "metrics.listener": "http://localhost:0",
    "advertised.listeners": "PLAINTEXT://broker.example:1",
    "offsets.commit.durability": "process",
    "log.cleanup.policy": "compact, delete",
    "log.cleaner.min.cleanable.ratio": "0.25",
}


def made(text: str, tmp_path: Path, encoding: str = "utf-8") -> Path:
    file = tmp_path / "server.properties"
    file.write_bytes(text.encode(encoding))
    return file


def settings(text: str, tmp_path: Path, **more) -> ServerSettings:
    return settings_of(read_properties(made(text, tmp_path)), tmp_path / "data", **more)


def plain(whole: ServerSettings) -> ServerSettings:
    return replace(whole, properties={})


#: Its default is for a new directory; any other one has its own number.
COUNT = "offsets.topic.num.partitions"


@pytest.mark.parametrize("name", [name for name, each in PROPERTIES.items() if each.default and name != COUNT])
def test_a_default_is_what_holds_without_it(tmp_path, name):
    given = settings(f"{name}={PROPERTIES[name].default}", tmp_path)
    assert plain(given) == settings("", tmp_path)


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_value_changes_the_settings(name):
    found = PROPERTIES[name]
    number = max(found.smallest, min(found.largest, 7000))
    other = {"true": "false"}.get(found.default) or OTHER.get(name) or str(number)
    before = {"log.dirs": Given("data", "a test")}
    without = settings_of(before)
    assert plain(settings_of({**before, name: Given(other, "a test")})) != plain(without)


def test_values_reach_the_part_that_they_are_for(tmp_path):
    text = """
        # A comment, and Java's other forms.
        listeners = PLAINTEXT://localhost:19092
        connections.max.idle.ms: 1500
        offsets.commit.timeout.ms 250
        group.max.size=\\
            12
        offsets.retention.minutes=2
        auto.create.topics.enable=FALSE
    """
    found = settings(text, tmp_path)
    assert (found.host, found.port) == ("localhost", 19092)
    assert found.limits.idle_seconds == 1.5
    assert (found.manager.commit_timeout, found.coordinator.commit_timeout) == (0.25, 250)
    assert found.coordinator.max_size == 12
    assert found.manager.maintenance.retention_ms == 120_000
    assert found.topics.auto_create is False
    assert found.manager.path == tmp_path / "data"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\ngroup.max.sise=1", r":3: group\.max\.sise is not a property .* mean group\.max\.size\?"),
        ("broker.rack=a", r":1: broker\.rack is not a property of this server"),
        ("num.partitions=0", r":1: num\.partitions must be a whole number from 1 to 9999, not '0'"),
        ("a\\\nb=1\nnum.partitions=x", r":1: ab is not a property"),
        (
            "process.roles=broker\nnum.partitions=1\nbroker.rack=a\n=1\n",
            r":1: process\.roles is not a property of this server, nor are broker\.rack \(line 3\), '' \(line 4\)",
        ),
        (
            "\n".join(f"a{number}=1" for number in range(30)),
            r":1: a0 is not .*, nor are a1 \(line 2\), .*, a20 \(line 21\) and 9 more \(docs",
        ),
        ("# one\\\nnum.partitions=1_0", r":2: num\.partitions must be .*, not '1_0'"),
        ("num.partitions=", r":1: num\.partitions must be .*, not ''"),
        ("log.cleaner.enable=yes", r":1: log\.cleaner\.enable must be true or false, not 'yes'"),
        ("offsets.commit.durability=replicas", "must be process or disk, not 'replicas'"),
        ("listeners=SSL://h:1", r"listeners must be PLAINTEXT://HOST:PORT, not 'SSL://h:1'"),
        ("listeners=PLAINTEXT://a:1,PLAINTEXT://b:2", "listeners must be"),
        ("listeners=PLAINTEXT://a:65536", "listeners must be"),
        ("advertised.listeners=PLAINTEXT://:1", r":1: advertised\.listeners must name one host"),
        ("advertised.listeners=PLAINTEXT://[::]:1", r":1: advertised\.listeners must name one host"),
        ("metrics.listener=PLAINTEXT://a:1", "metrics.listener must be http://HOST:PORT"),
        ("metrics.listener=http://:1", ":1: listening on .* needs --allow-any-host"),
        ("log.cleanup.policy=compacted", r"policy must be delete, compact, or both, .* comma, not 'compacted'"),
        ("log.cleaner.min.cleanable.ratio=1.5", r"ratio must be a number from 0 to 1, not '1\.5'"),
        ("log.cleaner.min.cleanable.ratio=nan", r"ratio must be a number from 0 to 1, not 'nan'"),
        ("log.dirs=/a,/b", "log.dirs must be one directory"),
        ("num.partitions=1\r\nnum.partitions=2", r":2: num\.partitions is already given on line 1"),
        ("group.max.session.timeout.ms=1", r":1: group\.min\.session\.timeout\.ms \(6000\) must not be greater than"),
        ("node.id=\\u12", ":1: "),
        ("listeners=PLAINTEXT://:9092", r":1: listening on 0\.0\.0\.0 needs --allow-any-host"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as raised:
        settings(text, tmp_path)
    assert "server.properties:" in str(raised.value)


def test_a_file_of_something_else_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=":2: the line is not UTF-8"):
        read_properties(made("\nlog.dirs=/\u00e4", tmp_path, "latin-1"))
    with pytest.raises(ConfigError, match="not a file of properties"):
        read_properties(made("#" * (FILE_BYTES_MAX + 1), tmp_path))
    with pytest.raises(FileNotFoundError):
        read_properties(tmp_path / "nothing")


def test_off_loopback_with_leave(tmp_path):
    found = settings("listeners=PLAINTEXT://:0", tmp_path, allow_any_host=True)
    assert (found.host, found.port) == ("0.0.0.0", 0)


def test_options_come_before_the_file(tmp_path, capsys):
    # The file alone would not do: each of its values is refused further on.
    file = made("listeners=PLAINTEXT://:9092\nlog.dirs=/dev/null/a\n", tmp_path)
    assert run(["serve", str(tmp_path / "data"), "--config", str(file)]) == 2
    assert f"{file}:1: listening on " in capsys.readouterr().err
    listen = ["--listen", "127.0.0.1:0"]
    assert run(["serve", "--config", str(file), *listen]) == 2
    assert "/dev/null/a" in capsys.readouterr().err
    assert run(["serve", "--config", str(file), *listen, "--partitions", "0"]) == 2
    assert "--partitions: offsets.topic.num.partitions must be a whole number from 1" in capsys.readouterr().err
    assert run(["serve", *listen]) == 2
    assert "no log directory is given" in capsys.readouterr().err


def test_the_server_acts_on_them_and_says_so(tmp_path):
    lines = ("auto.create.topics.enable=false", "log.segment.bytes=2097152", "max.connections=9")
    found = settings("\n".join(lines), tmp_path)
    parts = {"limits": found.limits, "topics": found.topics, "topic_logs": found.topic_logs}
    running = RunningServer(tmp_path / "data", partitions=3, properties=found.properties, **parts)
    with running, Client(running.address) as client:
        asked = MetadataRequest((MetadataRequestTopic(name="new"),), allow_auto_topic_creation=True)
        assert client.ask(asked, 12).topics[0].error_code == 3
        described = client.ask(DescribeConfigsRequest((DescribeConfigsRequestResource(4, "0", None),)), 4)
        configs = {each.name: each for each in described.results[0].configs}
        assert (configs["max.connections"].value, configs["max.connections"].config_source) == ("9", 4)
        assert configs["auto.create.topics.enable"].value == "false"
        assert configs["log.segment.bytes"].value == "2097152"
        client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),)), 7)
        described = client.ask(DescribeConfigsRequest((DescribeConfigsRequestResource(2, "orders", None),)), 4)
        (of_topic,) = described.results
        entries = {each.name: each for each in of_topic.configs}
        assert (entries["segment.bytes"].value, entries["segment.bytes"].config_source) == ("2097152", 4)
        assert (entries["segment.ms"].value, entries["segment.ms"].config_source) == ("604800000", 5)


def test_the_policy_of_topics_without_one_is_that_of_the_node(tmp_path):
    found = settings("log.cleanup.policy=compact", tmp_path)
    running = RunningServer(tmp_path / "data", properties=found.properties, topic_logs=found.topic_logs)
    with running, Client(running.address) as client:
        create(client)
        create(client, "kept", cleanup_policy="delete")
        for codec in (0, 4):
            batch = produced_batch(1, timestamp=NOW, key=None, codec=codec)
            assert produce(client, batch).error_code == error_codes.INVALID_RECORD.code
            assert produce(client, batch, topic="kept").error_code == 0
        described = client.ask(DescribeConfigsRequest((DescribeConfigsRequestResource(2, "orders", None),)), 4)
        policy = next(each for each in described.results[0].configs if each.name == "cleanup.policy")
        assert (policy.value, policy.config_source) == ("compact", 4)


@pytest.mark.parametrize(
    ("text", "retention_ms"),
    [
        ("log.retention.hours=2", 7_200_000),
        ("log.retention.minutes=3", 180_000),
        ("log.retention.minutes=3\nlog.retention.hours=2", 180_000),
        ("log.retention.ms=4\nlog.retention.minutes=3\nlog.retention.hours=2", 4),
        ("log.retention.hours=-1", -1),
        ("log.retention.ms=-1\nlog.retention.minutes=3", -1),
    ],
)
def test_of_retentions_the_finest_counts(tmp_path, text, retention_ms):
    assert settings(text, tmp_path).topic_logs.retention_ms == retention_ms
