"""The cases of tests/wire beside Kafka 4.3.0: it answers as it was recorded, and the server answers the same."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest
from broker import KafkaBroker, copy_template, make_template

from offsetlog.server.node import TopicDefaults
from tests.coordinator.golden import scenarios
from tests.server.running import RunningServer
from tests.wire.player import Player, made_topics
from tests.wire.recordings import FILES, SETTINGS, coordinator_of, record

Served = tuple[tuple[str, int], dict[str, bytes | None]]


@pytest.fixture(scope="module")
def broker_for(kafka_packages, tmp_path_factory):
    """Starts the broker with the settings of a file, once; its address and the values of the recordings."""
    template = make_template(kafka_packages, 4, tmp_path_factory.mktemp("template"))
    with ExitStack() as stack:

        @cache
        def started(name: str) -> Served:
            log_dir = copy_template(template, tmp_path_factory.mktemp("kafka") / "data")
            settings = SETTINGS.get(name, {})
            broker = KafkaBroker(kafka_packages, log_dir, tmp_path_factory.mktemp("work"), settings=settings)
            stack.enter_context(broker)
            broker.wait_until_loaded(4)
            host, _, port = broker.bootstrap.rpartition(":")
            address = (host, int(port))
            return address, made_topics(address, secrets.token_hex(4).encode())

        yield started


@pytest.fixture(scope="module")
def server_for(tmp_path_factory):
    """The same of the server."""
    with ExitStack() as stack:

        @cache
        def started(name: str) -> Served:
            topics, coordinator = TopicDefaults(auto_create=False), coordinator_of(SETTINGS.get(name, {}))
            path = tmp_path_factory.mktemp("ours") / "data"
            running = stack.enter_context(RunningServer(path, topics=topics, coordinator=coordinator))
            return running.address, made_topics(running.address, secrets.token_hex(4).encode())

        yield started


def steps_of(cases: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each step by its case, its place and its name."""
    for case in cases:
        for number, step in enumerate(case["steps"], 1):
            yield f"{case['name']}, step {number}, {step['name']}", step


@pytest.mark.parametrize("name", FILES)
def test_kafka_and_the_server_answer_the_same(broker_for, server_for, name):
    of_file = name if name in SETTINGS else ""
    cases = record(*broker_for(of_file), name)
    for case in cases:
        player = Player(*server_for(of_file))
        try:
            player.play_all(case)
        finally:
            player.close()
    now, then = (dict(steps_of(each)) for each in (cases, scenarios(name)))
    assert now.keys() == then.keys()
    changed = [title for title, step in now.items() if step != then[title]]
    assert not changed, "the recordings are not those of this Kafka: record again"
