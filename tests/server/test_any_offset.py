"""Offsets that only clients commit: Kafka checks none of them, and some reset a group with -1 or -2."""

from __future__ import annotations

import random

import pytest

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, TopicPartition
from offsetlog.errors import InvalidArgumentError
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
)

from .running import Client, RunningServer

TOPIC = "orders"
LOWEST, HIGHEST = -(2**63), 2**63 - 1
#: Offset, leader epoch and metadata by partition; all of them are stored as they are.
POSITIONS = [
    (-1, -1, ""),
    (-1, 4, "reset to the end"),
    (-2, -1, "reset to the beginning"),
    (-2, -2, ""),
    (LOWEST, -(2**31), "lowest"),
    (HIGHEST, 2**31 - 1, "highest"),
    (0, 0, ""),
]
BY_HAND = MaintenanceConfig(enabled=False)


def made(client: Client, partitions: int = len(POSITIONS)) -> bytes:
    """Makes the topic; returns its id."""
    asked = CreateTopicsRequest((CreateTopicsRequestTopic(TOPIC, partitions, 1),))
    (topic,) = client.ask(asked, 7).topics
    assert topic.error_code == 0
    return topic.topic_id


def commit(client: Client, positions, group: str = "g", version: int = 9, **more) -> set[int]:
    """Commits {partition: (offset, epoch, metadata)}; returns the error codes."""
    partitions = tuple(
        OffsetCommitRequestTopicPartition(number, offset, epoch, committed_metadata=metadata)
        for number, (offset, epoch, metadata) in positions.items()
    )
    request = OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(TOPIC, partitions=partitions),), **more)
    return {each.error_code for topic in client.ask(request, version).topics for each in topic.partitions}


def found_in(topics) -> dict[int, tuple[int, int, str]]:
    found = {}
    for topic in topics:
        for each in topic.partitions:
            assert each.error_code == 0
            found[each.partition_index] = (each.committed_offset, each.committed_leader_epoch, each.metadata)
    return found


def fetched(client: Client, version: int, topic_id: bytes, numbers, group: str = "g"):
    if version < 8:
        asked = OffsetFetchRequest(group, (OffsetFetchRequestTopic(TOPIC, tuple(numbers)),))
        return found_in(client.ask(asked, version).topics)
    topic = OffsetFetchRequestGroupTopic("" if version >= 10 else TOPIC, topic_id, tuple(numbers))
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=(topic,)),))
    return found_in(client.ask(asked, version).groups[0].topics)


def all_of(client: Client, group: str = "g"):
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=None),))
    (answer,) = client.ask(asked, 9).groups
    assert answer.error_code == 0
    return found_in(answer.topics)


def as_listed(found) -> dict[int, tuple[int, int, str]]:
    """Returns the result of a fetch of the library in the same form."""
    return {key.partition: (value.offset, value.leader_epoch, value.metadata) for key, value in found.items()}


EXPECTED = dict(enumerate(POSITIONS))


def test_every_version_answers_what_was_committed(client):
    topic_id = made(client)
    assert commit(client, EXPECTED) == {0}
    assert all_of(client) == EXPECTED
    for version in range(1, 11):
        found = fetched(client, version, topic_id, EXPECTED)
        # Before version 5 there is no leader epoch.
        assert found == {key: value if version >= 5 else (value[0], -1, value[2]) for key, value in EXPECTED.items()}


def test_the_front_and_the_handler_store_the_same(server, client):
    made(client)
    front = server.server.node.front
    assert commit(client, EXPECTED) == {0}
    before = front.commits
    by_handler = server.server.node.manager.fetch("g")
    assert commit(client, EXPECTED) == {0}
    assert front.commits == before + 1    # the group without members is admitted by its first commit
    by_front = server.server.node.manager.fetch("g")
    unlike = {key: value._replace(commit_timestamp=by_handler[key].commit_timestamp) for key, value in by_front.items()}
    assert unlike == by_handler


def test_a_retention_without_end_is_kept_within_the_times_there_are(server, client):
    made(client)
    manager = server.server.node.manager
    for retention, expires in ((HIGHEST, HIGHEST), (LOWEST, 0)):
        for _ in range(2):
            assert commit(client, {0: (5, -1, "")}, version=3, retention_time_ms=retention) == {0}
            assert manager.fetch("g")[TopicPartition(TOPIC, 0)].expire_timestamp == expires




@pytest.mark.parametrize("step", ["a replay", "a snapshot", "a clean"])
def test_they_stay_as_they_are_through(tmp_path, step):
    with RunningServer(tmp_path / "data", partitions=1) as server, Client(server.address) as client:
        made(client)
        for _ in range(3):
            assert commit(client, dict.fromkeys(EXPECTED, (7, 7, "older"))) == {0}
        assert commit(client, EXPECTED) == {0}
    with offsetlog.open(tmp_path / "data", maintenance=BY_HAND) as store:
        digest = store.digest()
        assert as_listed(store.fetch("g")) == EXPECTED
        if step == "a snapshot":
            assert [each.positions for each in store.snapshot()] == [len(EXPECTED)]
        elif step == "a clean":
            (report,) = store.compact()
            assert report.superseded == 3 * len(EXPECTED)
        assert store.digest() == digest
        assert store.verify() == []
    with offsetlog.open(tmp_path / "data", maintenance=BY_HAND) as store:
        assert store.digest() == digest
        assert as_listed(store.fetch("g")) == EXPECTED
        columns = store.to_arrow().to_pydict()
        assert dict(zip(columns["partition"], columns["offset"], strict=True)) == {
            number: position[0] for number, position in EXPECTED.items()
        }
        past = store.history("g", TOPIC, 0)
        assert past.entries[-1].value.offset == -1
        assert store.verify() == []
    with RunningServer(tmp_path / "data", partitions=1) as server, Client(server.address) as client:
        server._run(server.server._groups.settle())     # it loads
        assert all_of(client) == EXPECTED


def test_any_sequence_of_commits_is_what_a_restart_finds(tmp_path):
    rng = random.Random(20261126)
    offsets = [LOWEST, LOWEST + 1, -5, -2, -1, 0, 1, 2**31, HIGHEST]
    expected: dict[int, tuple[int, int, str]] = {}
    for turn in range(4):
        with RunningServer(tmp_path / "data", partitions=1) as server, Client(server.address) as client:
            if turn == 0:
                made(client, 40)
            while (asked := fetched_or_loading(client)) is None:
                pass
            assert asked == expected
            for _ in range(50):
                given = {
                    number: (rng.choice(offsets), rng.choice([-2, -1, 0, 9]), rng.choice(["", "m"]))
                    for number in rng.sample(range(40), rng.randint(1, 30))
                }
                assert commit(client, given) == {0}
                expected |= given
            assert all_of(client) == expected


def fetched_or_loading(client: Client):
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g", topics=None),))
    (answer,) = client.ask(asked, 9).groups
    return None if answer.error_code == 14 else found_in(answer.topics)


def test_the_calls_of_the_library_take_none_below_0(server, client, tmp_path):
    made(client)
    assert commit(client, {0: (-1, -1, "")}) == {0}
    manager, key = server.server.node.manager, TopicPartition(TOPIC, 0)
    for value in (-1, OffsetAndMetadata(-1), OffsetAndMetadata(1, leader_epoch=-2)):
        for call in (manager.commit, manager.commit_async, manager.fence):
            with pytest.raises(InvalidArgumentError):
                call("g", {key: value})
        with offsetlog.open(tmp_path / "library") as store, pytest.raises(InvalidArgumentError):
            store.commit("g", {key: value})
    assert all_of(client) == {0: (-1, -1, "")}
    # A condition compares with it as with any other.
    manager.commit("g", {key: 0}, monotonic=True)
    assert all_of(client)[0][0] == 0
