"""Metadata, DescribeCluster, topics that are made, grown and deleted, and InitProducerId."""

from __future__ import annotations

from collections.abc import Iterator

from offsetlog.protocol import APIS
from offsetlog.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsRequestTopicAssignment,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsRequestTopicAssignment,
    CreateTopicsRequestTopicConfig,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DescribeClusterRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    MetadataRequest,
    MetadataRequestTopic,
)

from .recorder import Recorder

NOBODYS_ID = b"\x11" * 16


def versions(kind: type) -> range:
    """The versions of a request of which clients are advised."""
    api = next(each for each in APIS.values() if each.request is kind)
    return range(api.advertised_from, api.last_version + 1)


# ------------------------------------------------------------------------------------------ metadata


def metadata(r: Recorder) -> None:
    for version in versions(MetadataRequest):
        r.begin(f"metadata-v{version}", "topics by name, all of them, none, and names that are not there")
        named(r, version)
        by_name = {"path": "topics", "key": "name", "prefix": f"T{r.suffix}"}
        # Other cases come and go with topics of theirs: those that every case finds.
        for key in "abc":
            one = {**by_name, "prefix": r.topic(key)}
            r.ask(f"all topics, {key} of them", MetadataRequest(None if version else ()), version, arrays=[one])
        if version >= 1:
            r.ask("no topics", MetadataRequest(()), version)
        if version >= 8:
            operations(r, version)
        if version >= 10:
            by_id(r, version)


def named(r: Recorder, version: int) -> None:
    def ask(name: str, *topics: str, arrays: tuple[dict[str, str], ...] = ()) -> None:
        asked = tuple(MetadataRequestTopic(name=each) for each in topics)
        request = MetadataRequest(asked, allow_auto_topic_creation=version < 4)
        r.ask(name, request, version, arrays=arrays)

    ask("one topic", r.topic("a"))
    ask("two topics", r.topic("b"), r.topic("a"), arrays=({"path": "topics", "key": "name"},))
    ask("the same topic twice", r.topic("b"), r.topic("b"))
    ask("a topic that is not there", r.topic("none"))
    ask("one that is there and one that is not", r.topic("none"), r.topic("b"))
    ask("a name that no topic has", "a/b")
    ask("an empty name", "")
    ask("two dots", "..")
    ask("a name that is too long", "x" * 250)


def operations(r: Recorder, version: int) -> None:
    asked = (MetadataRequestTopic(name=r.topic("b")),)
    is_of_cluster = version <= 10
    r.ask("operations of topics", MetadataRequest(asked, False, False, True), version)
    if is_of_cluster:
        r.ask("operations of the cluster", MetadataRequest(asked, False, True, False), version)
    unknown = (MetadataRequestTopic(name=r.topic("none")),)
    r.ask("operations of no topic", MetadataRequest(unknown, False, False, True), version)


def by_id(r: Recorder, version: int) -> None:
    def ask(name: str, *topics: tuple[bytes, str | None]) -> None:
        asked = tuple(MetadataRequestTopic(*each) for each in topics)
        r.ask(name, MetadataRequest(asked, False), version)

    ask("by id", (r.topic_id("b"), None))
    ask("by an id that nobody has", (NOBODYS_ID, None))
    ask("by the id of none", (bytes(16), None))
    ask("by id and name", (r.topic_id("b"), r.topic("a")))
    ask("one by id, one by name", (r.topic_id("b"), None), (bytes(16), r.topic("a")))


def describe_cluster(r: Recorder) -> None:
    r.begin("describe-cluster", "every version")
    for version in versions(DescribeClusterRequest):
        r.ask("plain", DescribeClusterRequest(), version)
        r.ask("operations", DescribeClusterRequest(True), version)
        if version >= 1:
            for kind in (2, 7):
                r.ask(f"endpoints of type {kind}", DescribeClusterRequest(False, kind), version)
        if version >= 2:
            r.ask("fenced brokers", DescribeClusterRequest(include_fenced_brokers=True), version)


def find_coordinators(r: Recorder) -> None:
    r.begin("find-coordinators", "keys that need a look, every version")
    for version in versions(FindCoordinatorRequest):
        for kind in (0,) if version == 0 else (0, 3, -1):
            keys = ("", "x" * 300, r.group("é"))
            if version >= 4:
                request = FindCoordinatorRequest(key_type=kind, coordinator_keys=(*keys, keys[1]))
                r.ask(f"many keys of type {kind}", request, version)
            for key in () if version >= 4 else keys:
                r.ask(f"{key[:9]!r} of type {kind}", FindCoordinatorRequest(key, kind), version)


# -------------------------------------------------------------------------------------------- topics


def refused_topics(r: Recorder) -> Iterator[tuple[str, CreateTopicsRequestTopic]]:
    new = r.topic("refused")

    def assigned(*nodes: tuple[int, tuple[int, ...]]) -> tuple[CreateTopicsRequestTopicAssignment, ...]:
        return tuple(CreateTopicsRequestTopicAssignment(*each) for each in nodes)

    yield "one that is there", CreateTopicsRequestTopic(r.topic("b"), 1, 1)
    for name in ("", ".", "..", "a/b", "x" * 250, "ä"):
        yield f"named {name[:5]!r}", CreateTopicsRequestTopic(name, 1, 1)
    for partitions in (0, -1, -2):
        yield f"{partitions} partitions and 5 replicas", CreateTopicsRequestTopic(new, partitions, 5)
        if partitions != -1:
            yield f"{partitions} partitions", CreateTopicsRequestTopic(new, partitions, 1)
    for replicas in (0, -2, 3):
        yield f"{replicas} replicas", CreateTopicsRequestTopic(new, 1, replicas)
    own = (r.node,)
    yield "an assignment and a count", CreateTopicsRequestTopic(new, 1, 1, assigned((0, own)))
    yield "an assignment and a count of partitions", CreateTopicsRequestTopic(new, 1, -1, assigned((0, own)))
    yield "an assignment to nobody", CreateTopicsRequestTopic(new, -1, -1, assigned((0, (99,))))
    yield "an assignment without a node", CreateTopicsRequestTopic(new, -1, -1, assigned((0, ())))
    yield "a node twice", CreateTopicsRequestTopic(new, -1, -1, assigned((0, own * 2)))
    yield "an assignment that begins at 1", CreateTopicsRequestTopic(new, -1, -1, assigned((1, own)))
    yield "a partition twice", CreateTopicsRequestTopic(new, -1, -1, assigned((0, own), (0, own)))
    for key, value in (("retention.ms", "x"), ("nothing", "1"), ("retention.ms", None), ("cleanup.policy", "")):
        config = (CreateTopicsRequestTopicConfig(key, value),)
        yield f"{key}={value}", CreateTopicsRequestTopic(new, 1, 1, configs=config)


#: Kafka's settings of topics are compared elsewhere.
SETTINGS = {"path": "topics.configs"}
BY_NAME = {"path": "topics", "key": "name"}


def create_topics(r: Recorder) -> None:
    for version in versions(CreateTopicsRequest):
        r.begin(f"create-topics-v{version}", "topics that are made, and that are refused")
        arrays = [SETTINGS] if version >= 5 else []

        def ask(name: str, *topics: CreateTopicsRequestTopic, validate: bool = False,
                arrays: list[dict[str, str]] = arrays, version: int = version) -> None:
            r.ask(name, CreateTopicsRequest(topics, 10_000, validate), version, arrays=arrays)

        for name, topic in refused_topics(r):
            ask(name, topic)
        ask("none")
        new = CreateTopicsRequestTopic(r.topic(f"new{version}"), 2, 1)
        ask("twice", new, new, CreateTopicsRequestTopic(r.topic(f"once{version}"), 1, 1), arrays=[*arrays, BY_NAME])
        ask("only to be checked", new, validate=True)
        ask("one that is made", new)
        ask("one that is made again", new)
        assigned = tuple(CreateTopicsRequestTopicAssignment(each, (r.node,)) for each in range(3))
        ask("assigned", CreateTopicsRequestTopic(r.topic(f"as{version}"), -1, -1, assigned))
        config = (CreateTopicsRequestTopicConfig("retention.ms", "77"),)
        ask("with a setting", CreateTopicsRequestTopic(r.topic(f"set{version}"), 1, 1, configs=config))
        ask("with a dot", CreateTopicsRequestTopic(r.topic(f"dot.{version}"), 1, 1))
        ask("with an underscore", CreateTopicsRequestTopic(r.topic(f"dot_{version}"), 1, 1))
        if version >= 4:
            ask("as many as usual", CreateTopicsRequestTopic(r.topic(f"usual{version}"), -1, -1))


def create_partitions(r: Recorder) -> None:
    for version in versions(CreatePartitionsRequest):
        r.begin(f"create-partitions-v{version}", "partitions that are added, and that are refused")
        topic = r.topic(f"grows{version}")
        r.ask("a topic", CreateTopicsRequest((CreateTopicsRequestTopic(topic, 2, 1),), 10_000), 4)
        own = CreatePartitionsRequestTopicAssignment((r.node,))

        def ask(name: str, *asked: tuple, validate: bool = False, version: int = version) -> None:
            topics = tuple(CreatePartitionsRequestTopic(*each) for each in asked)
            by_name = [{"path": "results", "key": "name"}]
            r.ask(name, CreatePartitionsRequest(topics, 10_000, validate), version, arrays=by_name)

        ask("none")
        ask("of a topic that is not there", (r.topic("none"), 3, None))
        for count in (2, 1, 0, -1):
            ask(f"{count} partitions", (topic, count, None))
        ask("twice", (topic, 3, None), (topic, 4, None))
        ask("too few assignments", (topic, 4, (own,)))
        ask("too many assignments", (topic, 3, (own, own)))
        ask("an assignment to nobody", (topic, 3, (CreatePartitionsRequestTopicAssignment((99,)),)))
        ask("an assignment without a node", (topic, 3, (CreatePartitionsRequestTopicAssignment(()),)))
        ask("only to be checked", (topic, 3, None), validate=True)
        ask("one more", (topic, 3, None), (r.topic("none"), 2, None))
        ask("one more, assigned", (topic, 4, (own,)))
        request = MetadataRequest((MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
        r.ask("what is there", request, 12, until=lambda answer: len(answer.topics[0].partitions) == 4,
              arrays=[{"path": "topics.partitions"}])


def delete_topics(r: Recorder) -> None:
    for version in versions(DeleteTopicsRequest):
        r.begin(f"delete-topics-v{version}", "topics that are deleted, and that are refused")
        names = [r.topic(f"gone{version}{each}") for each in "xyz"]
        topics = tuple(CreateTopicsRequestTopic(each, 1, 1) for each in names)
        by_name = [BY_NAME, SETTINGS]
        made = r.ask("three topics", CreateTopicsRequest(topics, 10_000), 7, arrays=by_name)
        ids = {each.name: each.topic_id for each in made.topics}

        def ask(name: str, *asked: tuple[str | None, bytes], version: int = version) -> None:
            if version >= 6:
                request = DeleteTopicsRequest(tuple(DeleteTopicsRequestTopic(*each) for each in asked))
            else:
                request = DeleteTopicsRequest(topic_names=tuple(each[0] or "" for each in asked))
            found = [{"path": "responses", "key": "name"}]
            r.ask(name, request._replace(timeout_ms=10_000), version, arrays=found)

        none = bytes(16)
        ask("none")
        ask("one that is not there", (r.topic("none"), none))
        ask("no name", ("", none))
        ask("one", (names[0], none))
        ask("one that is gone", (names[0], none))
        ask("the same twice", (names[1], none), (names[1], none))
        if version >= 6:
            ask("by id", (None, ids[names[2]]))
            ask("by the id of one that is gone", (None, ids[names[2]]))
            ask("by an id that nobody has", (None, NOBODYS_ID))
            ask("neither by id nor by name", (None, none))
            ask("by id and by name", (names[1], ids[names[1]]))


# ------------------------------------------------------------------------------------------ producers


def init_producer_id(r: Recorder) -> None:
    r.begin("init-producer-id", "without a transactional id, every version")
    ready = InitProducerIdRequest(None, 60_000)
    r.ask("until there are ids", ready, 0, until=lambda answer: answer.error_code == 0)
    for version in versions(InitProducerIdRequest):
        for timeout in (60_000, 0, -1, 2**31 - 1):
            r.ask(f"timeout {timeout}", InitProducerIdRequest(None, timeout), version)
        if version >= 3:
            r.ask("an id and an epoch", InitProducerIdRequest(None, 60_000, 5, 1), version)
            r.ask("an id alone", InitProducerIdRequest(None, 60_000, 5, -1), version)
        r.ask("an empty transactional id", InitProducerIdRequest("", 60_000), version)


FILES = {
    "metadata": (metadata, describe_cluster, find_coordinators),
    "topics": (create_topics, create_partitions, delete_topics),
    "producer_id": (init_producer_id,),
}
