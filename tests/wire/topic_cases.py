"""Topics that no client makes, a Fetch of a replica, and what a request names more than once."""

from __future__ import annotations

from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    FetchRequest,
    FetchRequestTopic,
    FetchRequestTopicPartition,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsRequestResourceConfig,
    ListOffsetsRequest,
    ListOffsetsRequestTopic,
    ListOffsetsRequestTopicPartition,
    MetadataRequest,
    MetadataRequestTopic,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    ProduceRequest,
    ProduceRequestTopicData,
    ProduceRequestTopicDataPartitionData,
)
from tests.server.batches import produced_batch

from .cluster_cases import NOBODYS_ID, versions
from .recorder import Recorder

TIME_MS = 1_700_000_000_000
TOPIC, BROKER = 2, 4


def made(r: Recorder, key: str, partitions: int = 3) -> str:
    """The name of a topic that is made, and whose partitions have leaders."""
    name = r.topic(key)
    request = CreateTopicsRequest((CreateTopicsRequestTopic(name, partitions, 1),), 10_000)
    r.ask("a topic", request, 4)
    asked = tuple(ListOffsetsRequestTopicPartition(each, timestamp=-1) for each in range(partitions))
    r.ask("until it is led", ListOffsetsRequest(-1, 0, (ListOffsetsRequestTopic(name, asked),)), 7,
          until=lambda answer: not any(each.error_code for each in answer.topics[0].partitions),
          arrays=[{"path": "topics.partitions", "key": "partition_index"}])
    return name


def metadata_of_brokers(r: Recorder) -> None:
    r.begin("cluster-metadata", "the log of the brokers' own metadata, which is no topic")
    name = "__cluster_metadata"
    for version in versions(MetadataRequest):
        asked = MetadataRequest((MetadataRequestTopic(name=name),), allow_auto_topic_creation=True)
        r.ask("it is asked for", asked, version)
    for version in versions(CreateTopicsRequest):
        r.ask("it is made", CreateTopicsRequest((CreateTopicsRequestTopic(name, 1, 1),), 10_000), version)
    for version in range(1, 6):
        r.ask("it is deleted", DeleteTopicsRequest(topic_names=(name,), timeout_ms=10_000), version)


# ---------------------------------------------------------------------------------------- named twice


def commits(r: Recorder) -> None:
    for version in versions(OffsetCommitRequest):
        r.begin(f"commit-named-twice-v{version}", "topics and partitions that a commit names twice")
        ids = {"a": r.topic_id("a"), "b": r.topic_id("b"), "none": NOBODYS_ID}

        def ask(name: str, *topics: tuple[str, tuple[int, ...]], generation: int = -1,
                ids: dict[str, bytes] = ids, version: int = version) -> None:
            asked = tuple(
                OffsetCommitRequestTopic(
                    r.topic(key) if version < 10 else "",
                    ids[key] if version >= 10 else bytes(16),
                    tuple(OffsetCommitRequestTopicPartition(each, 5, committed_metadata="") for each in numbers),
                )
                for key, numbers in topics
            )
            member = "" if generation < 0 else "nobody"
            r.ask(name, OffsetCommitRequest(r.group("twice"), generation, member, None, -1, asked), version)

        ask("a topic", ("a", (0,)), ("a", (1,)))
        ask("a partition", ("a", (0, 0)))
        ask("a partition of a topic that is named twice", ("a", (0,)), ("a", (0,)))
        ask("a topic, and another is not there", ("none", (0,)), ("a", (0,)), ("b", (0,)), ("a", (1,)))
        ask("two topics, one of them not there", ("a", (0,)), ("none", (0,)), ("a", (1,)), ("none", (1,)))
        ask("a topic, and a partition is not there", ("b", (0,)), ("a", (0,)), ("a", (99, 1)), ("a", (2,)))
        ask("a topic, by a member that is not there", ("a", (0,)), ("a", (1,)), generation=5)
        ask("a topic of two, by that member", ("a", (0,)), ("none", (1,)), ("a", (1,)), generation=5)
        ask("a topic without partitions", ("none", ()), ("a", (0,)), ("a", ()))


def listed(r: Recorder) -> None:
    r.begin("list-offsets-named-twice", "partitions that a ListOffsets names twice")
    arrays = [{"path": "topics.partitions", "key": "partition_index"}, {"path": "topics", "key": "name"}]
    for version in versions(ListOffsetsRequest):
        for at in (-1, TIME_MS):

            def ask(name: str, *topics: tuple[str, tuple[int, ...]], at: int = at, version: int = version) -> None:
                asked = tuple(
                    ListOffsetsRequestTopic(
                        r.topic(key), tuple(ListOffsetsRequestTopicPartition(each, timestamp=at) for each in numbers)
                    )
                    for key, numbers in topics
                )
                r.ask(f"{name}, time {at}", ListOffsetsRequest(-1, 0, asked), version, arrays=arrays)

            ask("a partition", ("a", (0, 1, 0, 0)))
            ask("a partition that is not there", ("a", (99, 99, 0)))
            ask("a topic", ("a", (0,)), ("none", (1, 1, 2)), ("a", (1, 0, 2)))


def produced(r: Recorder) -> None:
    r.begin("produce-named-twice", "partitions that a Produce and a Fetch name twice; a replica's Fetch")
    name = made(r, "twice")

    def send(title: str, *topics: tuple[str, tuple[tuple[int, int], ...]]) -> None:
        data = tuple(
            ProduceRequestTopicData(topic, partition_data=tuple(
                ProduceRequestTopicDataPartitionData(number, produced_batch(count, timestamp=TIME_MS))
                for number, count in partitions
            ))
            for topic, partitions in topics
        )
        arrays = [{"path": "responses.partition_responses", "key": "index_"}, {"path": "responses", "key": "name"}]
        r.ask(title, ProduceRequest(None, -1, 10_000, data), 9, arrays=arrays)

    send("a partition", (name, ((0, 1), (0, 3), (1, 2))))
    send("a topic", (name, ((0, 1), (1, 1))), (r.topic("none"), ((0, 1), (0, 1))), (name, ((0, 5), (2, 2))))
    send("a partition that is not there", (name, ((9, 1), (9, 1), (0, 1))))
    for version in (4, 12):
        for title, places in (("a partition", ((0, 0), (1, 0), (0, 3))), ("another order", ((0, 3), (0, 0)))):
            r.ask(title, fetched(name, *places), version)
        for replica in (-2, -1, 0, 5):
            r.ask(f"of replica {replica}", fetched(name, (0, 0))._replace(replica_id=replica), version)


def fetched(topic: str, *places: tuple[int, int]) -> FetchRequest:
    """Asks for partitions from offsets on."""
    partitions = tuple(
        FetchRequestTopicPartition(number, -1, offset, partition_max_bytes=1 << 20) for number, offset in places
    )
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20,
                        topics=(FetchRequestTopic(topic, partitions=partitions),))


def settings(r: Recorder) -> None:
    r.begin("configs-named-twice", "resources that are named twice, and types of resources that nobody knows")
    first, second = made(r, "keeps"), made(r, "other")
    for version in versions(IncrementalAlterConfigsRequest):

        def change(title: str, *resources: tuple[int, str, str], version: int = version) -> None:
            asked = tuple(
                IncrementalAlterConfigsRequestResource(
                    kind, name, (IncrementalAlterConfigsRequestResourceConfig("retention.ms", 0, value),)
                )
                for kind, name, value in resources
            )
            r.ask(title, IncrementalAlterConfigsRequest(asked), version)

        change("a topic", (TOPIC, first, "100000"), (TOPIC, first, "200000"), (TOPIC, second, "5000"))
        change("a value that cannot be", (TOPIC, first, "x"), (TOPIC, first, "x"))
        change("a topic that is not there", (TOPIC, r.topic("none"), "1"), (TOPIC, r.topic("none"), "1"))
        change("a type that is not known", (77, first, "1"), (77, first, "1"), (TOPIC, second, "5000"))
    for version in versions(DescribeConfigsRequest):
        for kind in (0, 1, 77):
            asked = tuple(
                DescribeConfigsRequestResource(each, first, ("retention.ms",)) for each in (TOPIC, kind)
            )
            r.ask(f"type {kind}", DescribeConfigsRequest(asked), version)
        one = (DescribeConfigsRequestResource(TOPIC, first, ("retention.ms",)),)
        r.ask("what was not changed", DescribeConfigsRequest(one), version)


FILES = {"named_twice": (metadata_of_brokers, commits, listed, produced, settings)}
