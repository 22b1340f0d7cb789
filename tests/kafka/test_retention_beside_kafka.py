"""Topics whose old segments are deleted, beside Kafka 4.3.0: the same records, and the same log starts after a sweep.

Records carry times of the past, so that nothing waits for them to become old.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest
from broker import KafkaBroker, copy_template
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from server.batches import produced_batch
from server.running import Client, RunningServer

from offsetlog.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsRequestTopic,
    ListOffsetsRequestTopicPartition,
    ProduceRequest,
    ProduceRequestTopicData,
    ProduceRequestTopicDataPartitionData,
)

NOW = int(time.time() * 1000)
HOUR = 3600 * 1000
DAY = 24 * HOUR
EARLIEST, LATEST = -2, -1
SETTINGS = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "200"}


class Case(NamedTuple):
    """A topic with its settings, the ages of its records in ms, each of a batch, and its log start after a sweep."""

    configs: dict[str, str]
    ages_ms: tuple[int, ...]
    start: int
    value_bytes: int = 10


#: A segment for each record.
SHORT = {"segment.ms": "1000"}
#: Two records of such values fit a segment of 1 MiB.
TWO_FIT = 400_000

CASES = {
    "old": Case({**SHORT, "retention.ms": str(2 * DAY)}, (9 * DAY, 5 * DAY, 3 * DAY, DAY, 0), 3),
    "all-old": Case({**SHORT, "retention.ms": str(2 * DAY)}, (9 * DAY, 5 * DAY, 3 * DAY), 3),
    "one-old-segment": Case({"retention.ms": str(2 * DAY)}, (5 * DAY, 4 * DAY, 3 * DAY), 3),
    "one-young-record": Case({"retention.ms": str(2 * DAY)}, (5 * DAY, 4 * DAY, 0), 0),
    "young-before-old": Case({"segment.ms": str(HOUR), "retention.ms": str(DAY)}, (0, 5 * DAY, 3 * DAY), 0),
    "too-many-bytes": Case(
        {"segment.bytes": str(1 << 20), "retention.ms": "-1", "retention.bytes": str(1 << 20)}, (HOUR,) * 9, 6, TWO_FIT
    ),
    "no-bytes": Case({**SHORT, "retention.ms": "-1", "retention.bytes": "0"}, (5 * HOUR, 3 * HOUR, HOUR), 3),
    "bytes-and-age": Case(
        {"segment.bytes": str(1 << 20), "retention.ms": str(DAY), "retention.bytes": str(3 << 20)},
        (2 * DAY,) * 4 + (HOUR,) * 6, 4, TWO_FIT,
    ),
    "kept": Case({**SHORT, "retention.ms": "-1"}, (9 * DAY, 5 * DAY, 0), 0),
    "compacted": Case(
        {**SHORT, "retention.ms": str(DAY), "cleanup.policy": "compact", "min.compaction.lag.ms": str(99 * DAY)},
        (9 * DAY, 5 * DAY, 0), 0,
    ),
}


def produce(client: Client, topic: str, case: Case) -> None:
    for age_ms in case.ages_ms:
        records = produced_batch(1, timestamp=NOW - age_ms, value=bytes(case.value_bytes))
        data = ProduceRequestTopicDataPartitionData(0, records)
        request = ProduceRequest(None, -1, 5000, (ProduceRequestTopicData(topic, partition_data=(data,)),))
        assert client.ask(request, 9).responses[0].partition_responses[0].error_code == 0


def offset_at(client: Client, topic: str, timestamp: int) -> tuple[int, int]:
    partition = ListOffsetsRequestTopicPartition(0, timestamp=timestamp)
    request = ListOffsetsRequest(-1, topics=(ListOffsetsRequestTopic(topic, (partition,)),))
    found = client.ask(request, 7).topics[0].partitions[0]
    return found.error_code, found.offset


def until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


#: While records are produced.  Kafka 4.3.0 takes its directory offline where a sweep deletes a segment that was just
#: rolled: the flush of its producers' snapshot, which goes on in the background, then finds no file.
KEEPS_ALL = {"retention.ms": "-1", "retention.bytes": "-1"}


def set_retention(admin: AdminClient) -> None:
    """Gives each topic the retention of its case."""
    resources = []
    for name, case in CASES.items():
        configs = [
            ConfigEntry(key, case.configs[key], incremental_operation=AlterConfigOpType.SET)
            for key in KEEPS_ALL.keys() & case.configs.keys()
        ]
        resources.append(ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=configs))
    for altered in admin.incremental_alter_configs(resources).values():
        altered.result(30)


def offsets_after_sweeps(address: tuple[str, int]) -> dict[str, tuple[int, int]]:
    """Log starts and ends, by topic: of a sweep, and of later ones by which nothing more may go."""
    admin = AdminClient({"bootstrap.servers": "{}:{}".format(*address)})
    topics = [NewTopic(name, 1, 1, config={**case.configs, **KEEPS_ALL}) for name, case in CASES.items()]
    # Swept after all the others, as often as it is filled again.
    topics.append(NewTopic("zz-witness", 1, 1, config={**SHORT, "retention.ms": str(DAY)}))
    for made in admin.create_topics(topics).values():
        made.result(30)
    with Client(address) as client:
        for name, case in CASES.items():
            until(lambda name=name: offset_at(client, name, LATEST)[0] == 0)
            produce(client, name, case)
        set_retention(admin)
        for name, case in CASES.items():
            until(lambda name=name, case=case: offset_at(client, name, EARLIEST)[1] >= case.start)
        # One record at a time: only a sweep closes its segment.
        witness = Case({}, (3 * DAY,), 0)
        until(lambda: offset_at(client, "zz-witness", LATEST)[0] == 0)
        for again in (1, 2, 3):
            produce(client, "zz-witness", witness)
            until(lambda again=again: offset_at(client, "zz-witness", EARLIEST)[1] == again)
        return {name: (offset_at(client, name, EARLIEST)[1], offset_at(client, name, LATEST)[1]) for name in CASES}


@pytest.fixture(scope="module")
def both(kafka_packages, kafka_template, tmp_path_factory):
    log_dir = copy_template(kafka_template(4), tmp_path_factory.mktemp("kafka") / "data")
    work_dir = tmp_path_factory.mktemp("work")
    with KafkaBroker(kafka_packages, log_dir, work_dir, settings=SETTINGS) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        theirs = offsets_after_sweeps((host, int(port)))
    with RunningServer(tmp_path_factory.mktemp("ours") / "data", retention_check_ms=200) as running:
        return theirs, offsets_after_sweeps(running.address)


@pytest.mark.parametrize("name", CASES)
def test_log_starts_are_those_of_kafka(both, name):
    theirs, ours = both
    assert theirs[name] == (CASES[name].start, len(CASES[name].ages_ms))
    assert ours[name] == theirs[name]


def test_kafka_serves_a_log_whose_start_was_deleted_here(kafka_template, kafka_broker, tmp_path):
    log_dir = copy_template(kafka_template(4), tmp_path / "data")
    case = CASES["old"]
    with kafka_broker(log_dir) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topic = NewTopic("shared", 1, 1, config={**SHORT, "retention.ms": "-1"})
        admin.create_topics([topic])["shared"].result(30)
        host, _, port = broker.bootstrap.rpartition(":")
        with Client((host, int(port))) as client:
            until(lambda: offset_at(client, "shared", LATEST)[0] == 0)
            produce(client, "shared", case)
    # The settings of the topic stay with Kafka's metadata: here it has the defaults.
    with RunningServer(log_dir, partitions=4) as running, Client(running.address) as client:
        running._run(running.server.topic_sweep.run())
        assert offset_at(client, "shared", EARLIEST) == (0, 1)
    with kafka_broker(log_dir) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with Client((host, int(port))) as client:
            until(lambda: offset_at(client, "shared", EARLIEST) == (0, 1))
            assert offset_at(client, "shared", LATEST) == (0, len(case.ages_ms))
