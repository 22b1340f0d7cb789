"""Things that a request names twice are answered as by Kafka 4.3.0, and done at most once."""

from __future__ import annotations

import pytest

from offsetlog import error_codes
from offsetlog.protocol.messages import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeGroupsRequest,
    FetchRequest,
    FetchRequestTopic,
    FetchRequestTopicPartition,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsRequestResourceConfig,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    ListOffsetsRequest,
    ListOffsetsRequestTopic,
    ListOffsetsRequestTopicPartition,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    ProduceRequest,
    ProduceRequestTopicData,
    ProduceRequestTopicDataPartitionData,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from offsetlog.server.handlers import groups, offsets

from .batches import produced_batch
from .running import Client
from .test_life import commit, member_of
from .topic_requests import FETCH, LIST_OFFSETS, NOW, PRODUCE, create, list_offset, produce

UNKNOWN, REFUSED = error_codes.UNKNOWN_TOPIC_OR_PARTITION.code, error_codes.INVALID_REQUEST.code


@pytest.fixture(autouse=True)
def topics(client):
    for name in ("orders", "other"):
        create(client, name, 3)


# ------------------------------------------------------------------------------------------ producing


def produced(client: Client, *topics: tuple[str, list[tuple[int, int]]]):
    """Sends a batch of so many records to each of the partitions; the answers by topic."""
    data = tuple(
        ProduceRequestTopicData(
            name,
            partition_data=tuple(
                ProduceRequestTopicDataPartitionData(number, produced_batch(count, timestamp=NOW))
                for number, count in partitions
            ),
        )
        for name, partitions in topics
    )
    answer = client.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data), PRODUCE)
    return [
        (topic.name, [(each.index_, each.error_code, each.base_offset) for each in topic.partition_responses])
        for topic in answer.responses
    ]


def ends(client: Client) -> list[int]:
    return [list_offset(client, -1, partition=number).offset for number in range(3)]


def test_the_last_batch_for_a_partition_is_appended(client):
    assert produced(client, ("orders", [(0, 1), (0, 3), (1, 2)])) == [("orders", [(0, 0, 0), (1, 0, 0)])]
    assert ends(client) == [3, 2, 0]
    sent = produced(client, ("orders", [(0, 1), (1, 1)]), ("other", [(0, 1)]), ("orders", [(0, 5), (2, 2)]))
    assert sent == [("orders", [(0, 0, 3), (1, 0, 2), (2, 0, 0)]), ("other", [(0, 0, 0)])]
    assert ends(client) == [8, 3, 2]
    sent = produced(client, ("orders", [(9, 1), (9, 1), (0, 1)]), ("nobody", [(0, 1), (0, 1)]))
    assert sent == [("orders", [(9, UNKNOWN, -1), (0, 0, 8)]), ("nobody", [(0, UNKNOWN, -1)])]


# -------------------------------------------------------------------------------------------- reading


def fetched(client: Client, *topics: tuple[str, list[tuple[int, int]]]):
    """Fetches partitions from offsets; by topic numbers, errors and the offset of the first batch read."""
    asked = tuple(
        FetchRequestTopic(
            name,
            partitions=tuple(
                FetchRequestTopicPartition(number, -1, offset, last_fetched_epoch=-1, partition_max_bytes=1 << 20)
                for number, offset in partitions
            ),
        )
        for name, partitions in topics
    )
    answer = client.ask(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=asked), FETCH)
    return [
        (
            topic.topic,
            [
                (each.partition_index, each.error_code, int.from_bytes((each.records or bytes(8))[:8], "big"))
                for each in topic.partitions
            ],
        )
        for topic in answer.responses
    ]


def test_a_fetch_reads_a_partition_once_from_where_it_said_last(client):
    for _ in range(2):
        produce(client, produced_batch(3, timestamp=NOW))
    assert fetched(client, ("orders", [(0, 0), (1, 0), (0, 3)])) == [("orders", [(0, 0, 3), (1, 0, 0)])]
    assert fetched(client, ("orders", [(0, 3), (0, 0)])) == [("orders", [(0, 0, 0)])]
    twice = fetched(client, ("orders", [(9, 0), (9, 0), (0, 3)]), ("nobody", [(0, 0), (0, 0)]))
    assert twice == [("orders", [(9, UNKNOWN, 0), (0, 0, 3)]), ("nobody", [(0, UNKNOWN, 0)])]
    assert fetched(client, ("orders", [(1, 0)]), ("other", [(0, 0)]), ("orders", [(1, 0), (0, 3)])) == [
        ("orders", [(1, 0, 0), (0, 0, 3)]),
        ("other", [(0, 0, 0)]),
    ]


@pytest.mark.parametrize("version", [1, 4, 7, LIST_OFFSETS])
@pytest.mark.parametrize("timestamp", [-1, NOW], ids=["latest", "time"])
def test_offsets_of_a_partition_that_is_named_twice_are_refused(client, version, timestamp):
    def listed(*topics: tuple[str, list[int]]):
        asked = tuple(
            ListOffsetsRequestTopic(
                name, tuple(ListOffsetsRequestTopicPartition(each, timestamp=timestamp) for each in numbers)
            )
            for name, numbers in topics
        )
        answer = client.ask(ListOffsetsRequest(-1, topics=asked), version)
        return [
            (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
            for topic in answer.topics
        ]

    assert listed(("orders", [0, 1, 0, 0])) == [("orders", [(0, REFUSED), (1, 0)])]
    assert listed(("orders", [9, 9, 0])) == [("orders", [(9, REFUSED), (0, 0)])]
    assert listed(("orders", [0]), ("nobody", [1, 1, 2]), ("orders", [1, 0, 2])) == [
        ("orders", [(0, REFUSED), (1, 0), (2, 0)]),
        ("nobody", [(1, REFUSED), (2, UNKNOWN)]),
    ]


# ------------------------------------------------------------------------------------------- deleting


NO_ID = bytes(16)


def test_a_topic_that_is_named_twice_is_not_deleted(client, server):
    metadata = server.server.node.metadata
    ids = {each: metadata.topic(each).topic_id for each in ("orders", "other")}

    def deleted(*topics: tuple[str | None, bytes]):
        asked = tuple(DeleteTopicsRequestTopic(*each) for each in topics)
        answer = client.ask(DeleteTopicsRequest(topics=asked, timeout_ms=1000), 6)
        return [(each.name, each.topic_id, each.error_code) for each in answer.responses]

    by_name, by_id = ("orders", NO_ID), (None, ids["orders"])
    both = ("orders", ids["orders"], REFUSED)
    assert deleted(by_name, by_id) == deleted(by_id, by_name) == [both]
    assert deleted(by_name, by_name) == [(*by_name, REFUSED)]
    assert deleted(by_id, by_id) == [(*by_id, REFUSED)]
    assert deleted(by_id, by_id, by_name) == [(*by_id, REFUSED), both]
    assert deleted(("orders", ids["orders"])) == [both]
    assert metadata.topic("orders") is not None
    # A name that is given twice counts as none: the id alone is left.
    assert deleted(by_name, by_id, by_name) == [(*by_name, REFUSED), ("orders", ids["orders"], 0)]
    assert deleted(by_name, by_id, ("other", NO_ID)) == [
        (*by_name, UNKNOWN),
        (*by_id, error_codes.UNKNOWN_TOPIC_ID.code),
        ("other", ids["other"], 0),
    ]


# ------------------------------------------------------------------------------------------- settings


def test_settings_of_a_resource_that_is_named_twice_are_not_changed(client, server):
    def altered(*resources: tuple[int, str, str]):
        asked = tuple(
            IncrementalAlterConfigsRequestResource(
                kind, name, (IncrementalAlterConfigsRequestResourceConfig("retention.ms", 0, value),)
            )
            for kind, name, value in resources
        )
        answer = client.ask(IncrementalAlterConfigsRequest(asked), 1)
        return [each.error_code for each in answer.responses]

    assert altered((2, "orders", "100000"), (2, "orders", "200000"), (2, "other", "5000")) == [REFUSED, REFUSED, 0]
    assert altered((2, "orders", "x"), (2, "orders", "x")) == [REFUSED, REFUSED]
    assert altered((2, "nobody", "1"), (2, "nobody", "1")) == [REFUSED, REFUSED]
    metadata = server.server.node.metadata
    assert dict(metadata.topic("orders").configs) == {}
    assert dict(metadata.topic("other").configs) == {"retention.ms": "5000"}
    assert altered((2, "orders", "300000"), (77, "orders", "1"), (77, "orders", "1")) == [0, REFUSED, REFUSED]


def test_settings_that_are_asked_for_twice_are_described_once(client):
    asked = DescribeConfigsRequestResource(2, "orders", ("retention.ms",))
    other = asked._replace(configuration_keys=("segment.ms", "nothing"))
    answer = client.ask(DescribeConfigsRequest((asked, other, asked) * 2000), 4)
    found = [(each.resource_name, [entry.name for entry in each.configs]) for each in answer.results]
    assert found == [("orders", ["retention.ms"]), ("orders", ["segment.ms"])]


# ------------------------------------------------------------------------------------------ positions


def test_a_topic_that_a_commit_names_twice_is_answered_twice_where_none_is_refused(client, server):
    ids = {each: server.server.node.metadata.topic(each).topic_id for each in ("orders", "other")}
    ids["nobody"] = b"n" * 16
    names = {value: name for name, value in ids.items()}

    def commit(*topics: tuple[str, list[int]], version: int = 8, generation: int = -1, metadata: str = ""):
        asked = tuple(
            OffsetCommitRequestTopic(
                name,
                ids[name],
                tuple(
                    OffsetCommitRequestTopicPartition(each, 1, -1, committed_metadata=metadata if at == 0 else "")
                    for each in numbers
                ),
            )
            for at, (name, numbers) in enumerate(topics)
        )
        member = "" if generation < 0 else "nobody"
        answer = client.ask(OffsetCommitRequest("g", generation, member, None, topics=asked), version)
        return [
            (topic.name or names[topic.topic_id], [tuple(each) for each in topic.partitions])
            for topic in answer.topics
        ]

    assert commit(("orders", [0]), ("orders", [1])) == [("orders", [(0, 0)]), ("orders", [(1, 0)])]
    assert commit(("orders", [0]), ("orders", [1]), version=10) == [("orders", [(0, 0)]), ("orders", [(1, 0)])]
    assert commit(("orders", [0, 0])) == [("orders", [(0, 0), (0, 0)])]
    assert commit(("nobody", [0]), ("orders", [0]), ("other", [0]), ("orders", [1])) == [
        ("nobody", [(0, UNKNOWN)]),
        ("orders", [(0, 0), (1, 0)]),
        ("other", [(0, 0)]),
    ]
    assert commit(("other", [0]), ("orders", [0]), ("orders", [9, 1]), ("orders", [2])) == [
        ("orders", [(9, UNKNOWN), (0, 0), (1, 0), (2, 0)]),
        ("other", [(0, 0)]),
    ]
    assert commit(("orders", [0]), ("orders", [1]), generation=5) == [("orders", [(0, 25)]), ("orders", [(1, 25)])]
    assert commit(("orders", [0]), ("nobody", [1]), ("orders", [1]), generation=5) == [
        ("nobody", [(1, UNKNOWN)]),
        ("orders", [(0, 25), (1, 25)]),
    ]
    large = error_codes.OFFSET_METADATA_TOO_LARGE.code
    assert commit(("orders", [0]), ("orders", [1]), metadata="x" * 5000) == [
        ("orders", [(0, large)]),
        ("orders", [(1, 0)]),
    ]
    assert commit(("nobody", []), ("orders", [0])) == [("nobody", []), ("orders", [(0, 0)])]
    assert commit(("orders", [])) == []


# -------------------------------------------------------------------------------------------- reading


def all_of(*groups: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(each, topics=None) for each in groups))


def counted(monkeypatch, owner: object, name: str) -> list:
    """The arguments of each call of a method from now on."""
    calls: list = []
    method = getattr(owner, name)

    def call(*given):
        calls.append(given)
        return method(*given)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_all_positions_of_a_group_are_read_once_and_answered_each_time(server, client, monkeypatch):
    commit(client, "g", "orders", 7)
    commit(client, "g", "other", 8)
    reads = counted(monkeypatch, server.server.node.manager, "fetch")
    asked = all_of(*["g"] * 50, "empty")
    answers = client.ask(asked._replace(require_stable=True), 9).groups
    assert len(reads) == 2
    assert [each.group_id for each in answers] == ["g"] * 50 + ["empty"]
    offsets_of = {
        topic.name: [each.committed_offset for each in topic.partitions] for topic in answers[0].topics
    }
    assert offsets_of == {"orders": [7], "other": [8]}
    assert len(set(answers[:50])) == 1


def test_groups_beyond_what_one_answer_has_are_to_be_asked_for_again(server, client, monkeypatch):
    for group in ("a", "b", "c"):
        commit(client, group, "orders", 7)
        commit(client, group, "other", 8)
    monkeypatch.setattr(offsets, "POSITIONS_MAX", 3)
    reads = counted(monkeypatch, server.server.node.manager, "fetch")
    loading = error_codes.COORDINATOR_LOAD_IN_PROGRESS.code

    answers = client.ask(all_of("a", "a", "b", "c", "none", "a"), 9).groups
    assert [(each.error_code, len(each.topics)) for each in answers] == [(0, 2), (0, 2), *[(loading, 0)] * 4]
    assert len(reads) == 1

    # A client that asks for the others again gets them all, however many positions one has.
    monkeypatch.setattr(offsets, "POSITIONS_MAX", 1)
    left, found = ["a", "b", "c", "none"], []
    while left:
        answers = client.ask(all_of(*left), 9).groups
        assert answers[0].error_code == 0
        found += [each.group_id for each in answers if not each.error_code]
        left = [each.group_id for each in answers if each.error_code]
    assert found == ["a", "b", "c", "none"]


def described(client: Client, *groups: str) -> list[tuple[str, int, int]]:
    """Group, error and number of members of each answer."""
    answer = client.ask(DescribeGroupsRequest(groups=groups), 4)
    return [(each.group_id, each.error_code, len(each.members)) for each in answer.groups]


def test_a_group_is_described_once_and_answered_each_time(client, monkeypatch):
    member_of(client, "g")
    calls = counted(monkeypatch, groups, "_described")
    assert described(client, *["g"] * 50, "none") == [("g", 0, 1)] * 50 + [("none", 0, 0)]
    assert len(calls) == 2


def test_groups_beyond_what_one_description_has_are_to_be_asked_for_again(client, monkeypatch):
    for group in ("a", "b"):
        member_of(client, group)
    loading = error_codes.COORDINATOR_LOAD_IN_PROGRESS.code
    monkeypatch.setattr(groups, "DESCRIBED_BYTES_MAX", groups.MEMBER_BYTES)
    calls = counted(monkeypatch, groups, "_described")
    left, found = ["a", "a", "b", "none"], []
    assert described(client, *left) == [("a", 0, 1), *((name, loading, 0) for name in left[1:])]
    assert len(calls) == 1
    while left:
        answers = described(client, *left)
        assert answers[0][1] == 0
        found += [name for name, error, _ in answers if not error]
        left = [name for name, error, _ in answers if error]
    assert found == ["a", "a", "b", "none"]


@pytest.mark.parametrize("field", ["metadata", "assignment"])
def test_what_members_bring_counts_in_descriptions(client, monkeypatch, field):
    large = bytes(100_000)
    protocol = JoinGroupRequestProtocol("range", large if field == "metadata" else b"")
    join = JoinGroupRequest("g", 10_000, 60_000, "", None, "consumer", (protocol,))
    member_id = client.ask(join, 3).member_id
    assigned = SyncGroupRequestAssignment(member_id, large if field == "assignment" else b"")
    assert client.ask(SyncGroupRequest("g", 1, member_id, assignments=(assigned,)), 3).error_code == 0
    monkeypatch.setattr(groups, "DESCRIBED_BYTES_MAX", 200_000)
    assert [error for _, error, _ in described(client, *["g"] * 4)] == [0, 0, 14, 14]
