"""Logs of topics are opened when they are first used, and closed when there are too many."""

from __future__ import annotations

import json
import random
import resource
import shutil

import pytest

from offsetlog import error_codes
from offsetlog.errors import CorruptionError, StorageError
from offsetlog.protocol import encode_request
from offsetlog.protocol.messages import (
    InitProducerIdRequest,
    MetadataRequest,
    MetadataRequestTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochRequestTopicPartition,
)
from offsetlog.topics.clean_stop import FILE
from offsetlog.topics.open_files import OPEN_LOGS_MAX, OPEN_LOGS_MIN, open_logs_max
from offsetlog.topics.topic_logs import TopicLogs
from tests.depth import by_depth, first_seed

from .batches import produced_batch
from .running import Client, RunningServer
from .topic_requests import FETCH, NOW, create, delete, fetch, fetch_request, list_offset, produce, until, watchers

PARTITIONS = 6


def open_count(running: RunningServer) -> int:
    return running.server.node.topics.open_count


def batch(count: int = 1) -> bytes:
    return produced_batch(count, timestamp=NOW)


def epochs(client: Client) -> list[int]:
    asked = MetadataRequest((MetadataRequestTopic(name="orders"),))
    return [each.leader_epoch for each in client.ask(asked, 12).topics[0].partitions]


@pytest.fixture
def data(tmp_path):
    """A directory that was stopped cleanly, with a topic that has a record in each partition but the last."""
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, partitions=PARTITIONS)
        for number in range(PARTITIONS - 1):
            produce(client, batch(number + 1), partition=number)
    return tmp_path / "data"


def test_a_clean_start_opens_no_log_until_it_is_used(data):
    for count in range(1, 4):
        with RunningServer(data) as running, Client(running.address) as client:
            assert epochs(client) == [0] * PARTITIONS
            assert open_count(running) == 0
            assert fetch(client, 0, partition=2).high_watermark == count + 2
            assert open_count(running) == 1
            assert produce(client, batch(), partition=2).base_offset == count + 2
            assert open_count(running) == 1
        assert (data / ".kafka_cleanshutdown").exists()
        points = (data / "recovery-point-offset-checkpoint").read_text().splitlines()
        assert "orders 4 5" in points  # it was not opened
        assert f"orders 2 {count + 3}" in points


def _latest(client: Client, number: int) -> int:
    return list_offset(client, -1, partition=number).offset


def _by_time(client: Client, number: int) -> int:
    assert list_offset(client, NOW, partition=number).offset == 0
    return number + 1


def _epoch_end(client: Client, number: int) -> int:
    asked = OffsetForLeaderEpochRequestTopicPartition(number, -1, 0)
    request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderEpochRequestTopic("orders", (asked,)),))
    return client.ask(request, 4).topics[0].partitions[0].end_offset


def _appended(client: Client, number: int) -> int:
    return produce(client, batch(), partition=number).base_offset


@pytest.mark.parametrize("first_use", [_latest, _by_time, _epoch_end, _appended], ids=lambda each: each.__name__)
def test_every_request_opens_the_logs_that_it_needs(data, first_use):
    with RunningServer(data) as running, Client(running.address) as client:
        assert first_use(client, 3) == 4
        assert open_count(running) == 1


def test_a_start_after_a_crash_opens_and_recovers_every_log(data):
    (data / ".kafka_cleanshutdown").unlink()
    with RunningServer(data) as running, Client(running.address) as client:
        assert open_count(running) == PARTITIONS - 1
        assert epochs(client) == [1] * (PARTITIONS - 1) + [0]
    with RunningServer(data) as running, Client(running.address) as client:
        assert epochs(client) == [1] * (PARTITIONS - 1) + [0]
        assert open_count(running) == 0
        assert produce(client, batch(), partition=1).base_offset == 2
        assert epochs(client) == [1] * (PARTITIONS - 1) + [0]


def test_a_crash_leaves_what_was_not_opened_as_it_was(data, tmp_path):
    with RunningServer(data) as running, Client(running.address) as client:
        produce(client, batch(), partition=1)
        shutil.copytree(data, tmp_path / "crashed")  # as the kernel has it
    with RunningServer(tmp_path / "crashed") as running, Client(running.address) as client:
        assert [fetch(client, 0, partition=number).high_watermark for number in range(3)] == [1, 3, 3]


@pytest.mark.parametrize("harm", ["missing", "damaged", "stale", "other topic"])
def test_a_log_that_the_stop_does_not_describe_is_opened_by_the_start(data, harm):
    file = data / FILE
    if harm == "missing":
        file.unlink()
    elif harm == "damaged":
        file.write_bytes(file.read_bytes()[:-5])
    elif harm == "stale":
        # As after a run of Kafka, which has appended to one partition.
        point = data / "recovery-point-offset-checkpoint"
        point.write_text(point.read_text().replace("orders 2 3", "orders 2 2"))
    else:
        text = file.read_text()
        topic_id = json.loads(text)["content"]["topics"][0][1]
        file.write_text(text.replace(topic_id, "AAAAAAAAAAAAAAAAAAAABw"))
    with RunningServer(data) as running, Client(running.address) as client:
        assert open_count(running) == (1 if harm == "stale" else PARTITIONS - 1)
        assert fetch(client, 0, partition=2).high_watermark == 3


def test_producer_ids_of_logs_that_are_not_open_are_not_given_again(data):
    with RunningServer(data) as running, Client(running.address) as client:
        produce(client, produced_batch(1, timestamp=NOW, producer=(5_000_000, 0, 0)))
    (data / "offsetlog-metadata.json").unlink()
    for _ in range(2):
        with RunningServer(data) as running, Client(running.address) as client:
            assert open_count(running) == 0
            assert client.ask(InitProducerIdRequest(None, 1000), 4).producer_id > 5_000_000


def test_a_topic_whose_logs_are_not_open_is_deleted(data):
    with RunningServer(data) as running, Client(running.address) as client:
        assert delete(client) == 0
        until(lambda: not list(data.glob("*orders*")))
        create(client, partitions=2)
        assert produce(client, batch()).base_offset == 0
    with RunningServer(data) as running, Client(running.address) as client:
        assert fetch(client, 0).high_watermark == 1


def test_a_log_that_could_not_be_opened_for_now_is_opened_by_a_later_request(data, monkeypatch, caplog):
    open_log = TopicLogs._open

    def fail(*_):
        raise StorageError("too many open files")

    with RunningServer(data) as running, Client(running.address) as client:
        monkeypatch.setattr(TopicLogs, "_open", fail)
        assert fetch(client, 0, partition=2).error_code == error_codes.KAFKA_STORAGE_ERROR.code
        assert produce(client, batch(), partition=2).error_code == error_codes.KAFKA_STORAGE_ERROR.code
        assert produce(client, batch(), partition=PARTITIONS - 1).error_code == error_codes.KAFKA_STORAGE_ERROR.code
        assert list_offset(client, -1, partition=2).error_code == error_codes.KAFKA_STORAGE_ERROR.code
        monkeypatch.setattr(TopicLogs, "_open", open_log)
        assert fetch(client, 0, partition=2).high_watermark == 3
        assert produce(client, batch(), partition=PARTITIONS - 1).base_offset == 0
    assert "orders-2: the log could not be opened: too many open files" in caplog.text


def test_a_damaged_log_is_tried_once(data, monkeypatch):
    tried = []

    def fail(_, key, *__):
        tried.append(key)
        raise CorruptionError("it is of another topic")

    monkeypatch.setattr(TopicLogs, "_open", fail)
    with RunningServer(data) as running, Client(running.address) as client:
        for _ in range(3):
            assert fetch(client, 0).error_code == error_codes.KAFKA_STORAGE_ERROR.code
    assert tried == [("orders", 0)]
    assert not (data / ".kafka_cleanshutdown").exists()


# ------------------------------------------------------------------------------------------ the bound


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_no_more_logs_are_open_than_may_be(tmp_path, durability):
    seed = first_seed()
    draw = random.Random(seed)
    ends = [0] * 12
    for _ in range(2):
        settings = {"durability": durability, "open_logs_max": 3}
        with RunningServer(tmp_path / "data", **settings) as running, Client(running.address) as client:
            if not any(ends):
                create(client, partitions=len(ends))
            for _ in range(by_depth(gate=60, long=1000)):
                number = draw.randrange(len(ends))
                if draw.random() < 0.5:
                    assert produce(client, batch(), partition=number).base_offset == ends[number], f"OL_SEED={seed}"
                    ends[number] += 1
                else:
                    found = fetch(client, 0, partition=number)
                    assert (found.error_code, found.high_watermark) == (0, ends[number]), f"OL_SEED={seed}"
                assert open_count(running) <= 4
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_recovery_leaves_no_more_logs_open_than_may_be(data):
    (data / ".kafka_cleanshutdown").unlink()
    with RunningServer(data, open_logs_max=2) as running, Client(running.address) as client:
        assert open_count(running) == 2
        assert [fetch(client, 0, partition=number).high_watermark for number in range(5)] == [1, 2, 3, 4, 5]
        assert epochs(client) == [1] * (PARTITIONS - 1) + [0]


def test_a_log_that_somebody_waits_for_stays_open(data):
    with (
        RunningServer(data, open_logs_max=1) as running,
        Client(running.address) as client,
        Client(running.address) as waiting,
    ):
        waiting.send(encode_request(fetch_request(1, max_wait_ms=3_600_000), FETCH, 7, None))
        until(lambda: watchers(running) == 1)
        for _ in range(3):
            for number in range(1, 5):
                assert fetch(client, 0, partition=number).high_watermark == number + 1
        produce(client, batch())
        assert waiting.receive() is not None


def test_one_request_may_need_more_logs_than_may_be_open(data):
    with RunningServer(data, open_logs_max=1) as running, Client(running.address) as client:
        asked = fetch_request(0)
        (topic,) = asked.topics
        every = tuple(topic.partitions[0]._replace(partition=number) for number in range(PARTITIONS))
        answer = client.ask(asked._replace(topics=(topic._replace(partitions=every),)), FETCH)
        found = [each.high_watermark for each in answer.responses[0].partitions]
        assert found == [1, 2, 3, 4, 5, 0]


def test_old_segments_of_logs_that_are_not_open_are_deleted(tmp_path):
    old = NOW - 30 * 24 * 3600 * 1000
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, partitions=2)
        for number in range(2):
            produce(client, produced_batch(3, timestamp=old), partition=number)
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        running._run(running.server.topic_sweep.run())
        until(lambda: open_count(running) == 0)
        assert list_offset(client, -2, partition=1).offset == 3
        assert "orders 0 3" in (tmp_path / "data" / "log-start-offset-checkpoint").read_text().splitlines()


def test_the_bound_comes_from_the_limit_of_open_files(monkeypatch):
    unlimited = resource.RLIM_INFINITY
    limits = ((1024, 64), (20, OPEN_LOGS_MIN), (1 << 20, OPEN_LOGS_MAX), (unlimited, OPEN_LOGS_MAX))
    for files, most in limits:
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, resource.RLIM_INFINITY))
        assert open_logs_max() == most
