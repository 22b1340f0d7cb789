"""The cases of tests/wire beside Kafka 4.3.0: it answers as it was recorded, and the server answers the same."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from broker import KafkaBroker, copy_template, make_template

from offsetlog.server.node import TopicDefaults
from tests.coordinator.golden import scenarios
from tests.server.running import RunningServer
from tests.wire.player import Player, made_topics
from tests.wire.recordings import FILES, record


@pytest.fixture(scope="module")
def kafka(kafka_packages, tmp_path_factory):
    template = make_template(kafka_packages, 4, tmp_path_factory.mktemp("template"))
    log_dir = copy_template(template, tmp_path_factory.mktemp("kafka") / "data")
    with KafkaBroker(kafka_packages, log_dir, tmp_path_factory.mktemp("work")) as broker:
        broker.wait_until_loaded(4)
        host, _, port = broker.bootstrap.rpartition(":")
        address = (host, int(port))
        yield address, made_topics(address, secrets.token_hex(4).encode())


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    topics = TopicDefaults(auto_create=False)
    with RunningServer(tmp_path_factory.mktemp("ours") / "data", topics=topics) as running:
        yield running.address, made_topics(running.address, secrets.token_hex(4).encode())


def steps_of(cases: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each step by its case, its place and its name."""
    for case in cases:
        for number, step in enumerate(case["steps"], 1):
            yield f"{case['name']}, step {number}, {step['name']}", step


@pytest.mark.parametrize("name", FILES)
def test_kafka_and_the_server_answer_the_same(kafka, server, name):
    cases = record(*kafka, name)
    for case in cases:
        player = Player(*server)
        try:
            player.play_all(case)
        finally:
            player.close()
    now, then = (dict(steps_of(each)) for each in (cases, scenarios(name)))
    assert now.keys() == then.keys()
    changed = [title for title, step in now.items() if step != then[title]]
    assert not changed, "the recordings are not those of this Kafka: record again"
