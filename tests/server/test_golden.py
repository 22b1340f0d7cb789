"""The server beside Kafka 4.3.0: recorded requests are answered byte for byte as Kafka answered them.

What may differ is marked in the recordings: ids that are made up, host and port, texts of errors, and the order of
arrays that Kafka takes from a hash map.  `python -m tests.wire.recordings` makes those that are made here.
"""

from __future__ import annotations

import pytest

from offsetlog.server.node import TopicDefaults
from tests.coordinator.golden import scenarios
from tests.wire.player import Player, made_topics
from tests.wire.recordings import FILES, SUFFIX

from .running import RunningServer

GIVEN = ("find_coordinator", "list_offsets", "membership", "offset_commit", "offset_fetch")
CASES = [pytest.param(case, id=case["name"]) for name in (*GIVEN, *FILES) for case in scenarios(name)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    topics = TopicDefaults(auto_create=False)
    with RunningServer(tmp_path_factory.mktemp("golden") / "data", topics=topics) as running:
        yield running


@pytest.fixture(scope="module")
def known(server) -> dict[str, bytes | None]:
    """The values that the recordings put in."""
    return made_topics(server.address, SUFFIX)


@pytest.mark.parametrize("case", CASES)
def test_answers_are_those_of_kafka(server, known, case):
    player = Player(server.address, known)
    try:
        player.play_all(case)
    finally:
        player.close()
