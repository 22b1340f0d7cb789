"""The server beside Kafka 4.3.0: recorded requests are answered byte for byte as Kafka answered them.

The recordings mark the parts that may differ: ids that are made up, host and port, texts of errors, and the order of
arrays that Kafka takes from a hash map.  `python -m tests.wire.recordings` makes those that are made here.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache

import pytest

from offsetlog.server.node import TopicDefaults
from tests.coordinator.golden import scenarios
from tests.wire.player import Player, made_topics
from tests.wire.recordings import FILES, SETTINGS, SUFFIX, coordinator_of

from .running import RunningServer

GIVEN = ("find_coordinator", "list_offsets", "membership", "offset_commit", "offset_fetch")
#: Each with the file whose settings the server has, "" for none.
CASES = [
    pytest.param(name if name in SETTINGS else "", case, id=case["name"])
    for name in (*GIVEN, *FILES)
    for case in scenarios(name)
]


@pytest.fixture(scope="module")
def server_for(tmp_path_factory):
    """Starts the server with the settings of a file, once; returns its address and the values of the recordings."""
    with ExitStack() as stack:

        @cache
        def started(name: str) -> tuple[tuple[str, int], dict[str, bytes | None]]:
            topics, coordinator = TopicDefaults(auto_create=False), coordinator_of(SETTINGS.get(name, {}))
            path = tmp_path_factory.mktemp("golden") / "data"
            running = stack.enter_context(RunningServer(path, topics=topics, coordinator=coordinator))
            return running.address, made_topics(running.address, SUFFIX)

        yield started


@pytest.mark.parametrize(("of_file", "case"), CASES)
def test_answers_are_those_of_kafka(server_for, of_file, case):
    player = Player(*server_for(of_file))
    try:
        player.play_all(case)
    finally:
        player.close()
