"""Topics that are compacted, beside Kafka 4.3.0: the same batches, and what a run leaves of them."""

from __future__ import annotations

import random
import time
from typing import NamedTuple

import pytest
from broker import KafkaBroker, copy_template
from confluent_kafka.admin import AdminClient, NewTopic
from server.batches import keyed_batch, read_records
from server.running import Client, RunningServer
from server.topic_requests import fetch, produce
from test_retention_beside_kafka import LATEST, offset_at, until

from offsetlog.topics.compaction import CompactionSettings
from offsetlog.topics.settings import TopicLogSettings

NOW = int(time.time() * 1000)
#: The cleaner looks at once; each batch begins a segment.
SETTINGS = {"log.cleaner.backoff.ms": "200", "log.cleaner.enable": "true"}
EAGER = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}
DAY = 24 * 3600 * 1000

Record = tuple[bytes | None, bytes | None]


class Batch(NamedTuple):
    records: tuple[Record, ...]
    codec: int = 0
    producer: tuple[int, int, int] = (-1, -1, -1)
    age_ms: int = -1        # -1: they are a second apart


def drawn(seed: int, count: int) -> tuple[Batch, ...]:
    draw = random.Random(seed)

    def record() -> Record:
        return b"k%d" % draw.randrange(12), draw.choice([None, b"", draw.randbytes(draw.randrange(60))])

    return tuple(
        Batch(tuple(record() for _ in range(draw.choice([1, 1, 3, 40]))), draw.randrange(5)) for _ in range(count)
    )


def of(*values: bytes | None, **more) -> tuple[Batch, ...]:
    return tuple(Batch(((b"a", value),), **more) for value in values)


CASES: dict[str, tuple[dict[str, str], tuple[Batch, ...]]] = {
    "last-values": ({}, of(b"1", b"2", b"3", b"4")),
    "tombstones": ({}, (*of(b"1", b"2", None), Batch(((b"b", None),)), Batch(((b"c", b"1"),)))),
    # The horizon of the first run has passed with the second.
    "tombstones-of-no-time": ({"delete.retention.ms": "0"}, (*of(b"1", None), Batch(((b"b", b"1"),)))),
    "empty-keys": ({}, (Batch(((b"", b"1"), (b"\0", b"1"))), Batch(((b"", b"2"),)), Batch(((b"z", b"1"),)))),
    "producers": (
        {},
        (
            Batch(((b"a", b"1"),), producer=(5, 0, 0)),
            Batch(((b"a", b"2"),), producer=(5, 0, 1)),
            Batch(((b"a", b"3"),), producer=(6, 0, 0)),
            Batch(((b"a", b"4"), (b"b", b"1")), producer=(6, 0, 1)),
            *of(b"5", b"6", b"7"),
        ),
    ),
    "least-lag": (
        {"min.compaction.lag.ms": str(DAY)},
        (*(Batch(((b"a", b"%d" % age),), age_ms=age * DAY // 2) for age in (9, 8, 7, 1, 0)),),
    ),
    "random-1": ({}, drawn(1, 40)),
    "random-2": ({"segment.ms": "5000"}, drawn(2, 60)),
    "random-3": ({"segment.ms": "20000", "min.cleanable.dirty.ratio": "0.3"}, drawn(3, 80)),
}


def send(client: Client, topic: str, batches: tuple[Batch, ...], now: int = NOW) -> None:
    for index, each in enumerate(batches):
        at = now - (each.age_ms if each.age_ms >= 0 else 1000 * (len(batches) - index))
        batch = keyed_batch(each.records, timestamp=at, codec=each.codec, producer=each.producer)
        assert produce(client, batch, topic=topic).error_code == 0


def headers_and_records(client: Client, topic: str) -> list:
    """The records that a consumer gets, and the fields of each batch on which a reader may depend."""
    found: list = []
    offset, end = 0, offset_at(client, topic, LATEST)[1]
    while offset < end:
        data = fetch(client, offset, topic=topic).records
        while data:
            size = 12 + int.from_bytes(data[8:12], "big")
            records, offset = read_records(data[:size])
            attributes = int.from_bytes(data[21:23], "big")
            # Base and last offset; codec and kinds; the greatest time; producer, epoch and sequence.
            header = data[:8], data[23:27], attributes, data[35:43], data[43:57]
            found.append((header, records))
            data = data[size:]
    return found


def cleaned(client: Client, topic: str) -> bool:
    """Whether the witness has been compacted: its first record was superseded by the second."""
    records, _ = read_records(fetch(client, 0, topic=topic).records)
    return bool(records) and records[0][0] > 0


def after_compaction(address: tuple[str, int]) -> dict[str, list]:
    admin = AdminClient({"bootstrap.servers": "{}:{}".format(*address)})
    topics = [NewTopic(name, 1, 1, config={**EAGER, **configs}) for name, (configs, _) in CASES.items()]
    # A look cleans the dirtiest first, and all that are due before the next one begins to.
    witnesses = [f"zz-{number}" for number in range(4)]
    topics += [NewTopic(name, 1, 1, config=EAGER) for name in witnesses]
    # Nothing is due before all of it was sent, so that runs have the same ends.
    for topic in topics[: len(CASES)]:
        topic.config = {**topic.config, "cleanup.policy": "delete", "retention.ms": "-1"}
    for made in admin.create_topics(topics).values():
        made.result(30)
    with Client(address) as client:
        for name, (_, batches) in CASES.items():
            until(lambda name=name: offset_at(client, name, LATEST)[0] == 0)
            send(client, name, batches)
        alter(admin, CASES)
        for name in witnesses:
            until(lambda name=name: offset_at(client, name, LATEST)[0] == 0)
            send(client, name, of(b"1", b"2", b"3"))
            until(lambda name=name: cleaned(client, name))
        return {name: headers_and_records(client, name) for name in CASES}


def alter(admin: AdminClient, names) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    policy = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resources = [ConfigResource("topic", name, incremental_configs=[policy]) for name in names]
    for altered in admin.incremental_alter_configs(resources).values():
        altered.result(30)


@pytest.fixture(scope="module")
def both(kafka_packages, kafka_template, tmp_path_factory):
    log_dir = copy_template(kafka_template(4), tmp_path_factory.mktemp("kafka") / "data")
    work_dir = tmp_path_factory.mktemp("work")
    with KafkaBroker(kafka_packages, log_dir, work_dir, settings=SETTINGS) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        theirs = after_compaction((host, int(port)))
    soon = CompactionSettings(backoff_ms=200)
    with RunningServer(tmp_path_factory.mktemp("ours") / "data", compaction=soon) as running:
        return theirs, after_compaction(running.address)


@pytest.mark.parametrize("name", CASES)
def test_what_a_consumer_reads_is_that_of_kafka(both, name):
    theirs, ours = (each[name] for each in both)
    assert [records for _, records in ours if records] == [records for _, records in theirs if records]
    assert ours == theirs


def test_keyless_records_are_refused_as_by_kafka(kafka_template, kafka_broker, tmp_path):
    answers = []

    def ask(address: tuple[str, int]) -> None:
        admin = AdminClient({"bootstrap.servers": "{}:{}".format(*address)})
        admin.create_topics([NewTopic("compacted", 1, 1, config=EAGER)])["compacted"].result(30)
        with Client(address) as client:
            until(lambda: offset_at(client, "compacted", LATEST)[0] == 0)
            found = []
            for codec in range(5):
                batch = keyed_batch(((b"a", b"1"), (None, b"2"), (None, b"3")), timestamp=NOW, codec=codec)
                answer = produce(client, batch, topic="compacted")
                found.append((answer.error_code, [each.batch_index for each in answer.record_errors]))
            for codec in range(1, 5):
                cut = keyed_batch(((b"a", b"1"),) * 9, timestamp=NOW, codec=codec, damaged=True)
                found.append(produce(client, cut, topic="compacted").error_code)
            answers.append(found)

    with kafka_broker(copy_template(kafka_template(4), tmp_path / "data")) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        ask((host, int(port)))
    with RunningServer(tmp_path / "ours") as running:
        ask(running.address)
    theirs, ours = answers
    assert ours[:5] == theirs[:5]
    # Kafka answers -1 for a block that it cannot read: docs/server.md.
    assert 0 not in theirs[5:]
    assert ours[5:] == [87] * 4


def test_kafka_serves_and_compacts_on_what_was_compacted_here(kafka_template, kafka_broker, tmp_path):
    log_dir = copy_template(kafka_template(4), tmp_path / "data")
    with kafka_broker(log_dir) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("shared", 1, 1, config=EAGER)])["shared"].result(30)
    here = TopicLogSettings(cleanup_policy="compact", segment_ms=1, min_cleanable_dirty_ratio=0.0)
    batches = drawn(7, 40)
    # The settings of the topic stay with Kafka's metadata: here it has the defaults.
    with RunningServer(log_dir, partitions=4, topic_logs=here) as running, Client(running.address) as client:
        send(client, "shared", batches, NOW - DAY)
        running._run(running.server.topic_compaction.run())
        left = headers_and_records(client, "shared")
        end = offset_at(client, "shared", LATEST)
    assert sum(len(records) for _, records in left) < sum(len(each.records) for each in batches)
    with kafka_broker(log_dir, settings=SETTINGS) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with Client((host, int(port))) as client:
            until(lambda: offset_at(client, "shared", LATEST) == end)
            assert headers_and_records(client, "shared") == left
            send(client, "shared", of(b"1", b"2", b"3"))
            until(lambda: len(headers_and_records(client, "shared")) < len(left) + 3)
    # A gap that Kafka's cleaner left is no loss.
    with RunningServer(log_dir, partitions=4, topic_logs=here) as running, Client(running.address) as client:
        assert running.server.node.topics.get("shared", 0).log.is_writable
        found = [each for _, records in headers_and_records(client, "shared") for each in records]
        assert [value for _, key, value in found if key == b"a"][-1] == b"3"
