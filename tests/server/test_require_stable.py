"""OffsetFetch with requireStable: positions that an open transaction may still change are refused."""

from __future__ import annotations

import shutil

import pytest
from conformance.kafka_answers import read_stable_offsets
from conformance.scenarios import Scenario, having

import offsetlog
from offsetlog import MaintenanceConfig, TopicPartition
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
)

from .running import Client, RunningServer

LOADING = 14
NAMES = {0: "NONE", 88: "UNSTABLE_OFFSET_COMMIT"}
TOPIC = "orders"
PRODUCER_ID = 7
NOTHING, UNSTABLE = (-1, 0), (-1, 88)
BY_HAND = MaintenanceConfig(enabled=False)


def asked_of(client: Client, group: OffsetFetchRequestGroup, require_stable: bool, version: int = 9):
    while True:
        request = OffsetFetchRequest(groups=(group,), require_stable=require_stable)
        (answer,) = client.ask(request, version).groups
        if answer.error_code != LOADING:
            assert answer.error_code == 0
            return answer.topics


def rows_of(topics) -> dict[tuple[str, int], tuple[int, int, str, str]]:
    return {
        (topic.name, each.partition_index): (
            each.committed_offset, each.committed_leader_epoch, each.metadata, NAMES[each.error_code]
        )
        for topic in topics
        for each in topic.partitions
    }


SCENARIOS = having("offsets-stable.tsv")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.name for each in SCENARIOS])
def test_directories_of_kafka_are_answered_as_kafka_answered(scenario: Scenario, tmp_path):
    path = tmp_path / "data"
    shutil.copytree(scenario.log, path)
    expected: dict[tuple[str, str], dict] = {}
    for row in read_stable_offsets(scenario.expected("offsets-stable.tsv")):
        it = row.committed
        answer = (it.offset, it.leader_epoch, it.metadata, row.error)
        expected.setdefault((it.group, row.asked), {})[it.topic, it.partition] = answer
    partitions = len(list(path.glob("__consumer_offsets-*")))
    with RunningServer(path, partitions=partitions) as server, Client(server.address) as client:
        for group in dict.fromkeys(name for name, _ in expected):
            every = OffsetFetchRequestGroup(group, topics=None)
            assert rows_of(asked_of(client, every, True)) == expected.get((group, "all"), {}), group
            named = expected.get((group, "named"), {})
            numbers: dict[str, list[int]] = {}
            for topic, number in named:
                numbers.setdefault(topic, []).append(number)
            topics = tuple(
                OffsetFetchRequestGroupTopic(topic, partition_indexes=tuple(each)) for topic, each in numbers.items()
            )
            assert rows_of(asked_of(client, OffsetFetchRequestGroup(group, topics=topics), True)) == named, group


@pytest.fixture
def path(tmp_path):
    """A directory with a transaction of group g that nobody has ended."""
    with offsetlog.open(tmp_path / "data", partitions=1, maintenance=BY_HAND) as store:
        store.commit("g", {TopicPartition(TOPIC, 0): 10, TopicPartition(TOPIC, 1): 11})
        store.commit("h", {TopicPartition(TOPIC, 0): 20})
        transaction = store.transaction("g", PRODUCER_ID).__enter__()
        transaction.commit({TopicPartition(TOPIC, 0): 100, TopicPartition(TOPIC, 2): 102})
    return tmp_path / "data"


def found(client: Client, group: str, require_stable: bool, version: int = 9) -> dict[int, tuple[int, int]]:
    """Offset and error of partitions 0 to 3, which are asked for by name, and by id from version 10 on."""
    numbers = (0, 1, 2, 3)
    if version < 8:
        request = OffsetFetchRequest(group, (OffsetFetchRequestTopic(TOPIC, numbers),), require_stable=require_stable)
        answer = client.ask(request, version)
        assert answer.error_code == 0
        (topic,) = answer.topics
    else:
        topic_id = b"\0" * 16
        if version >= 10:
            created = CreateTopicsRequest((CreateTopicsRequestTopic(TOPIC, 4, 1),))
            topic_id = client.ask(created, 7).topics[0].topic_id
        asked = OffsetFetchRequestGroupTopic("" if version >= 10 else TOPIC, topic_id, numbers)
        (topic,) = asked_of(client, OffsetFetchRequestGroup(group, topics=(asked,)), require_stable, version)
    return {each.partition_index: (each.committed_offset, each.error_code) for each in topic.partitions}


def loaded(client: Client) -> None:
    asked_of(client, OffsetFetchRequestGroup("g", topics=None), False)


STABLE = {0: (10, 0), 1: (11, 0), 2: NOTHING, 3: NOTHING}


@pytest.mark.parametrize("version", [7, 8, 9, 10])
def test_what_an_open_transaction_wrote_is_refused_where_it_is_asked_to_be_stable(path, version):
    with RunningServer(path, partitions=1) as server, Client(server.address) as client:
        loaded(client)
        assert found(client, "g", True, version) == {**STABLE, 0: UNSTABLE, 2: UNSTABLE}


def test_without_the_flag_the_last_stable_position_is_answered(path):
    with RunningServer(path, partitions=1) as server, Client(server.address) as client:
        loaded(client)
        for version in (1, 6, 7, 9):
            assert found(client, "g", False, version) == STABLE


def test_a_fetch_of_all_topics_leaves_out_what_is_only_pending(path):
    with RunningServer(path, partitions=1) as server, Client(server.address) as client:
        every = OffsetFetchRequestGroup("g", topics=None)
        assert {key: (row[0], row[3]) for key, row in rows_of(asked_of(client, every, True)).items()} == {
            (TOPIC, 0): (-1, "UNSTABLE_OFFSET_COMMIT"), (TOPIC, 1): (11, "NONE")
        }


def test_the_front_answers_groups_without_a_transaction(path):
    with RunningServer(path, partitions=1) as server, Client(server.address) as client:
        loaded(client)
        front = server.server.node.front
        before = front.fetches
        assert found(client, "h", True) == {0: (20, 0), 1: NOTHING, 2: NOTHING, 3: NOTHING}
        assert front.fetches == before + 1
        found(client, "g", True)
        assert front.fetches == before + 1
        found(client, "g", False)
        assert front.fetches == before + 2


@pytest.mark.parametrize("is_committed", [False, True])
def test_the_end_of_the_transaction_makes_it_stable(path, is_committed):
    with offsetlog.open(path, maintenance=BY_HAND) as store:
        if is_committed:
            store._core.ready(0).end_transaction(PRODUCER_ID, 0, True)
        else:
            assert store.abort_transaction(PRODUCER_ID) == 1
    with RunningServer(path, partitions=1) as server, Client(server.address) as client:
        loaded(client)
        changed = {0: (100, 0), 2: (102, 0)} if is_committed else {}
        assert found(client, "g", True) == STABLE | changed
