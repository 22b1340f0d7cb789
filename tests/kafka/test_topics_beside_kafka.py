"""Ordinary topics beside Kafka 4.3.0: the same requests, the same answers; and each reads what the other wrote."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from broker import CLEAN_MARKER, KafkaBroker, copy_template, make_template
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.record.util import calc_crc32c
from server.batches import produced_batch
from server.running import Client, RunningServer

from offsetlog.protocol import APIS, decode_response, encode_request
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsRequestTopicConfig,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    FetchRequest,
    FetchRequestTopic,
    FetchRequestTopicPartition,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsRequestResourceConfig,
    InitProducerIdRequest,
    ListOffsetsRequest,
    ListOffsetsRequestTopic,
    ListOffsetsRequestTopicPartition,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochRequestTopicPartition,
    ProduceRequest,
    ProduceRequestTopicData,
    ProduceRequestTopicDataPartitionData,
)
from offsetlog.topics.configs import TOPIC_CONFIGS

NOW = int(time.time() * 1000)
HOUR = 3600 * 1000
COORDINATOR_LOAD_IN_PROGRESS = 14
TOPIC, COMPACTED, STAMPED, SMALL = "plain", "compacted", "stamped", "small"
CONFIGS = {
    TOPIC: {},
    COMPACTED: {"cleanup.policy": "compact"},
    STAMPED: {"message.timestamp.type": "LogAppendTime"},
    SMALL: {"max.message.bytes": "200"},
}


class Step(NamedTuple):
    """One request; `ignored` are the fields of its answer that may differ."""

    name: str
    version: int
    message: Any
    ignored: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------- requests


def produce(name: str, records: bytes | None, *, version: int = 9, topic: str = TOPIC, partition: int = 0,
            acks: int = -1, ignored: tuple[str, ...] = (), transactional_id: str | None = None) -> Step:
    data = ProduceRequestTopicDataPartitionData(partition, records)
    request = ProduceRequest(transactional_id, acks, 5000, (ProduceRequestTopicData(topic, partition_data=(data,)),))
    # Their words differ, and Kafka does not name the record that made a batch invalid in all cases.
    return Step(name, version, request, ("error_message", "batch_index_error_message", *ignored))


def fetch(name: str, offset: int, *, version: int = 12, topic: str = TOPIC, partition: int = 0, epoch: int = -1,
          fetched_epoch: int = -1, isolation: int = 0, max_wait_ms: int = 0, ignored: tuple[str, ...] = (),
          session: tuple[int, int] = (0, -1), partition_max_bytes: int = 1 << 20, max_bytes: int = 1 << 20,
          min_bytes: int = 1) -> Step:
    asked = FetchRequestTopicPartition(partition, epoch, offset, fetched_epoch, partition_max_bytes=partition_max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, isolation_level=isolation,
        session_id=session[0], session_epoch=session[1], topics=(FetchRequestTopic(topic, partitions=(asked,)),),
    )
    return Step(name, version, request, ignored)


def offset_at(name: str, timestamp: int, *, version: int = 11, topic: str = TOPIC, partition: int = 0,
              epoch: int = -1, isolation: int = 0, ignored: tuple[str, ...] = ()) -> Step:
    asked = ListOffsetsRequestTopicPartition(partition, epoch, timestamp)
    return Step(
        name, version, ListOffsetsRequest(-1, isolation, (ListOffsetsRequestTopic(topic, (asked,)),), 1000), ignored
    )


def epoch_end(name: str, epoch: int, *, topic: str = TOPIC, partition: int = 0, current: int = -1) -> Step:
    asked = OffsetForLeaderEpochRequestTopicPartition(partition, current, epoch)
    return Step(name, 4, OffsetForLeaderEpochRequest(-1, (OffsetForLeaderEpochRequestTopic(topic, (asked,)),)))


def counted(whole: bytes, count: int) -> bytes:
    """The batch with another record count."""
    changed = bytearray(whole)
    changed[23:27], changed[57:61] = (count - 1).to_bytes(4, "big"), count.to_bytes(4, "big")
    changed[17:21] = calc_crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def batch(count: int = 1, **more: Any) -> bytes:
    return produced_batch(count, **{"timestamp": NOW, **more})


def refused() -> Iterator[Step]:
    whole = batch(2)
    yield produce("empty records", b"")
    yield produce("a cut batch", whole[:-1])
    yield produce("two batches", whole * 2)
    yield produce("a wrong checksum", whole[:-1] + bytes([whole[-1] ^ 1]))
    yield produce("magic 1", whole[:16] + b"\1" + whole[17:])
    yield produce("a base offset", batch(base_offset=3))
    yield produce("a control batch", batch(attributes=0x20))
    yield produce("the future", batch(3, timestamp=NOW + 2 * HOUR))
    yield produce("zstd before its time", batch(codec=4), version=6)
    yield produce("an unknown partition", whole, partition=9)
    yield produce("a negative partition", whole, partition=-1)
    yield produce("an unknown topic", whole, topic="nobody")
    yield produce("a topic of the broker", whole, topic="__consumer_offsets")
    yield produce("wrong acks", whole, acks=3)
    yield produce("no key", batch(3, key=None), topic=COMPACTED)
    yield produce("more records than there are", counted(batch(3), 4))
    yield produce("more records than there can be", counted(batch(3), 2**31 - 1))
    yield produce("more records than there can be, without keys", counted(batch(3, key=None), 2**31 - 1),
                  topic=COMPACTED)
    yield produce("too large", batch(value=bytes(500)), topic=SMALL)
    yield produce("a sequence below 0", batch(producer=(77, 0, -1)))


def written() -> Iterator[Step]:
    for version in range(3, 13):
        yield produce(f"version {version}", batch(2, timestamp=NOW + version), version=version)
    for codec in range(1, 5):
        yield produce(f"codec {codec}", batch(50, timestamp=NOW + 100 * codec, codec=codec))
    yield produce("an append time of the client", batch(attributes=0x08))
    yield produce("acks 1", batch(), acks=1)
    yield produce("a key in a compacted topic", batch(), topic=COMPACTED)
    yield produce("the time of the append", batch(3, timestamp=5), topic=STAMPED, ignored=("log_append_time_ms",))
    yield produce("small", batch(), topic=SMALL)
    yield produce("another partition", batch(4), partition=1)


def idempotent() -> Iterator[Step]:
    def sent(name: str, epoch: int, sequence: int, count: int = 2) -> Step:
        return produce(name, batch(count, producer=(4000, epoch, sequence)), partition=2)

    yield sent("an unknown producer begins anywhere", 3, 10)
    for number in range(6):
        yield sent(f"batch {number}", 3, 12 + 2 * number)
    yield sent("the newest again", 3, 22)
    yield sent("the fifth newest again", 3, 14)
    yield sent("the sixth newest again", 3, 12)
    yield sent("half of one again", 3, 22, 1)
    yield sent("a gap", 3, 30)
    yield sent("an epoch of before", 2, 24)
    yield sent("a new epoch that does not begin at 0", 4, 24)
    yield sent("a new epoch", 4, 0)
    yield sent("its second batch", 4, 2)
    yield sent("the newest of before", 3, 22)


def read() -> Iterator[Step]:
    for version in range(4, 13):
        yield fetch(f"version {version}", 0, version=version)
    yield fetch("the middle of a batch", 3)
    yield fetch("the end", 0, partition=3)
    yield fetch("below the start", -1)
    yield fetch("above the end", 100_000)
    yield fetch("read-committed", 0, isolation=1)
    yield fetch("read-committed at the end", 0, isolation=1, partition=3)
    yield fetch("a limit", 0, partition_max_bytes=400, ignored=("records",))
    yield fetch("more at least than at most", 0, max_wait_ms=60_000, min_bytes=2**31 - 1, max_bytes=400,
                ignored=("records",))
    yield fetch("an unknown partition", 0, partition=9)
    yield fetch("an unknown topic", 0, topic="nobody")
    yield fetch("the current epoch", 0, epoch=0)
    yield fetch("a later epoch", 0, epoch=7)
    yield fetch("its own epoch", 0, fetched_epoch=0)
    yield fetch("an epoch that never was", 0, fetched_epoch=9)
    yield fetch("a session that is not there", 0, session=(77, 2))
    yield fetch("idempotent records", 0, partition=2)
    yield fetch("compressed records", 22)


def listed() -> Iterator[Step]:
    for version in range(1, 12):
        yield offset_at(f"latest, version {version}", -1, version=version)
    yield offset_at("earliest", -2)
    yield offset_at("earliest here", -4)
    yield offset_at("latest in remote storage", -5)
    yield offset_at("newest record", -3)
    yield offset_at("newest record of an empty log", -3, partition=3)
    yield offset_at("latest of an empty log", -1, partition=3)
    yield offset_at("earliest of an empty log", -2, partition=3)
    yield offset_at("a time of an empty log", 0, partition=3)
    yield offset_at("the first of times", 0)
    for later in (0, 3, 4, 5, 120, 449, 450, HOUR):
        yield offset_at(f"time {later}", NOW + later)
    yield offset_at("read-committed", -1, isolation=1)
    for unknown in (-7, -100):
        yield offset_at(f"time {unknown}", unknown)
    yield offset_at("an unknown partition", -1, partition=9)
    yield offset_at("an unknown topic", -1, topic="nobody")
    yield offset_at("a later epoch", -1, epoch=5)
    yield offset_at("a newest record before its version", -3, version=6)
    yield epoch_end("epoch 0", 0)
    yield epoch_end("epoch -1", -1)
    yield epoch_end("epoch 9", 9)
    yield epoch_end("epoch 0 of an empty log", 0, partition=3)
    yield epoch_end("of an unknown partition", 0, partition=9)
    yield epoch_end("with a later epoch", 0, current=9)
    yield Step("a producer id", 4, InitProducerIdRequest(None, 1000), ("producer_id",))


def described(name: str, topic: str, *keys: str) -> Step:
    # Kafka's cluster gives these two in the settings of the tests.
    wanted = keys or tuple(each for each in TOPIC_CONFIGS if each not in ("min.insync.replicas", "segment.index.bytes"))
    request = DescribeConfigsRequest((DescribeConfigsRequestResource(2, topic, wanted),), True, False)
    return Step(f"describe {name}", 4, request, ("error_message",))


def altered(*changes: tuple[str, int, str | None], topic: str = TOPIC, only_checks: bool = False) -> Step:
    given = tuple(IncrementalAlterConfigsRequestResourceConfig(*each) for each in changes)
    request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsRequestResource(2, topic, given),), only_checks)
    return Step(f"alter {changes} of {topic}", 1, request, ("error_message",))


def settings() -> Iterator[Step]:
    yield described("all", TOPIC)
    yield described("one", SMALL, "max.message.bytes", "nothing")
    yield described("of an unknown topic", "nobody")
    yield described("of no topic", "a/b")
    yield described("of the positions", "__consumer_offsets")
    yield altered(("retention.ms", 0, "5"), ("cleanup.policy", 2, "compact"))
    yield altered(("max.message.bytes", 0, "77"), only_checks=True)
    yield described("after changes", TOPIC)
    yield altered(("retention.ms", 1, None), ("cleanup.policy", 3, "compact"))
    yield described("after they were taken back", TOPIC)
    for value in ("abc", "-5", "", None, "1_000", "1 000", "0x10", "1e3", "\u00a05", "+5", " 5\t"):
        yield altered(("retention.ms", 0, value), only_checks=value is not None)
    for value in ("nan", "0_1", ".", "1.", ".5", "1e-3", "+.5 "):
        yield altered(("min.cleanable.dirty.ratio", 0, value), only_checks=True)
    yield altered(("nothing", 0, "5"))
    yield altered(("retention.ms", 2, "7"))
    yield altered(("retention.ms", 0, "1"), ("retention.ms", 0, "2"))
    yield altered(("retention.ms", 0, "1"), topic="nobody")
    yield altered(("cleanup.policy", 0, "other"))
    yield altered(("compression.type", 0, "brotli"))
    yield altered(("min.cleanable.dirty.ratio", 0, "2"))
    yield altered(("unclean.leader.election.enable", 0, "maybe"))
    yield altered(("segment.bytes", 0, "1000"))
    yield altered(("compression.gzip.level", 0, "10"))
    yield altered(("segment.ms", 0, "0"))
    for count in (9_999, 10_000, 2**31 - 1):
        request = CreateTopicsRequest((CreateTopicsRequestTopic("many", count, 1),), 5000, True)
        yield Step(f"create with {count} partitions", 7, request, ("error_message", "topic_id", "configs"))
    for topic, given in (("made", "retention.ms=7"), ("refused", "nothing=7"), ("refused", "retention.ms=abc")):
        key, _, value = given.partition("=")
        config = CreateTopicsRequestTopicConfig(key, value)
        request = CreateTopicsRequest((CreateTopicsRequestTopic(topic, 1, 1, configs=(config,)),), 5000, True)
        yield Step(f"create with {given}", 7, request, ("error_message", "topic_id", "configs"))


STEPS = [*refused(), *written(), *idempotent(), *read(), *listed(), *settings()]


# -------------------------------------------------------------------------------------------- answers


def plain(message: Any, ignored: tuple[str, ...]) -> Any:
    """A message as nested tuples, without the fields that may differ."""
    if isinstance(message, tuple) and hasattr(message, "_fields"):
        return {
            name: ("text" if value else value) if name in ignored and "message" in name else plain(value, ignored)
            for name, value in zip(message._fields, message, strict=True)
            if name not in ignored or "message" in name
        }
    if isinstance(message, tuple | list):
        found = [plain(each, ignored) for each in message]
        # Kafka orders these by a hash map.
        is_unordered = bool(found) and isinstance(found[0], dict) and "config_type" in found[0]
        return sorted(found, key=lambda each: each["name"]) if is_unordered else found
    return message


def differences(theirs: Any, ours: Any, place: str = "answer") -> list[str]:
    """Where two answers differ, one line each."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return [line for name in theirs for line in differences(theirs[name], ours[name], f"{place}.{name}")]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = enumerate(zip(theirs, ours, strict=True))
        return [line for n, (left, right) in pairs for line in differences(left, right, f"{place}[{n}]")]
    return [] if theirs == ours else [f"{place}: Kafka {theirs!r}, here {ours!r}"]


def answers(address: tuple[str, int]) -> list[Any]:
    admin = AdminClient({"bootstrap.servers": "{}:{}".format(*address)})
    made = admin.create_topics([NewTopic(name, 4, 1, config=config) for name, config in CONFIGS.items()])
    for each in made.values():
        each.result(30)
    for name in CONFIGS:
        for number in range(4):
            await_leader(address, offset_at("", -1, topic=name, partition=number))
    return [answer_seen(address, step) for step in STEPS]


def answer_seen(address: tuple[str, int], step: Step) -> Any:
    """The answer, once what the request has changed is seen: Kafka's broker learns it a moment after its controller."""
    if not isinstance(step.message, IncrementalAlterConfigsRequest) or step.message.validate_only:
        return answer(address, step)
    look = described("what changes", step.message.resources[0].resource_name)
    before = answer(address, look)
    found = answer(address, step)
    deadline = time.monotonic() + 5
    # A change that is refused changes nothing.
    is_taken = all(each["error_code"] == 0 for each in found["responses"])
    while is_taken and answer(address, look) == before and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def await_leader(address: tuple[str, int], step: Step) -> None:
    """Waits until a broker leads a partition that it has just made."""
    deadline = time.monotonic() + 30
    while answer(address, step)["topics"][0]["partitions"][0]["error_code"] != 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def answer(address: tuple[str, int], step: Step) -> Any:
    """The answer to one request, on a connection of its own; None where that was closed."""
    with Client(address) as client:
        client.send(encode_request(step.message, step.version, 7, "test"))
        try:
            frame = client.receive()
        except TimeoutError:
            return "nothing"
    if frame is None:
        return None
    api = next(each for each in APIS.values() if each.request is type(step.message))
    found = decode_response(api.response, step.version, frame)[1]
    if getattr(found, "error_code", 0) == COORDINATOR_LOAD_IN_PROGRESS:
        time.sleep(0.1)
        return answer(address, step)
    return plain(found, step.ignored)


@pytest.fixture(scope="module")
def both(kafka_packages, tmp_path_factory) -> tuple[list[Any], list[Any]]:
    template = make_template(kafka_packages, 4, tmp_path_factory.mktemp("template"))
    log_dir = copy_template(template, tmp_path_factory.mktemp("kafka") / "data")
    with KafkaBroker(kafka_packages, log_dir, tmp_path_factory.mktemp("work")) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        theirs = answers((host, int(port)))
    with RunningServer(tmp_path_factory.mktemp("ours") / "data") as running:
        return theirs, answers(running.address)


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[f"{n:03}-{s.name}" for n, s in enumerate(STEPS)])
def test_answers_are_those_of_kafka(both, number):
    theirs, ours = both
    assert not differences(theirs[number], ours[number])


# ------------------------------------------------------------------------------------- one directory


def consumed(bootstrap: str, partitions: int, count: int) -> list[tuple[int, int, bytes]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition("shared", number, 0) for number in range(partitions)])
    found = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.5):
            assert message.error() is None
            found.append((message.partition(), message.offset(), message.value()))
    consumer.close()
    return sorted(found)


def produced(bootstrap: str, first: int, count: int) -> list[tuple[int, int, bytes]]:
    delivered = []

    def keep(error, message) -> None:
        assert error is None
        delivered.append((message.partition(), message.offset(), message.value()))

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4"})
    for number in range(first, first + count):
        producer.produce("shared", b"%d" % number, partition=number % 3, on_delivery=keep)
    assert producer.flush(30) == 0
    return delivered


def test_kafka_and_the_server_take_turns_in_one_directory(kafka_template, kafka_broker, tmp_path):
    log_dir = copy_template(kafka_template(4), tmp_path / "data")
    records: list[tuple[int, int, bytes]] = []
    for turn in range(2):
        with kafka_broker(log_dir) as broker:
            if turn == 0:
                admin = AdminClient({"bootstrap.servers": broker.bootstrap})
                admin.create_topics([NewTopic("shared", 3, 1)])["shared"].result(30)
            assert consumed(broker.bootstrap, 3, len(records)) == sorted(records)
            records += produced(broker.bootstrap, len(records), 300)
        with RunningServer(log_dir, partitions=4) as running:
            bootstrap = "{}:{}".format(*running.address)
            assert consumed(bootstrap, 3, len(records)) == sorted(records)
            records += produced(bootstrap, len(records), 300)
        assert (log_dir / CLEAN_MARKER).exists()
    with kafka_broker(log_dir) as broker:
        assert consumed(broker.bootstrap, 3, len(records)) == sorted(records)
