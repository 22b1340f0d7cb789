"""Ordinary topics over a restart and after a delete, and which directories are topics."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

import pytest

from offsetlog import error_codes
from offsetlog._native.files import format_uuid
from offsetlog.errors import StorageError
from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    FetchResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsRequestResourceConfig,
    InitProducerIdRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from offsetlog.server.handlers.fetch import WITH_TOPIC_IDS
from offsetlog.server.metadata_store import FileMetadataStore

from .batches import produced_batch
from .running import Client, RunningServer
from .topic_requests import (
    FETCH,
    NOW,
    create,
    delete,
    fetch,
    fetch_request,
    list_offset,
    produce,
    until,
    watchers,
)


@pytest.fixture(params=["process", "disk"])
def durability(request):
    return request.param


def test_a_restart_keeps_topics_and_records(tmp_path, durability):
    for number in range(3):
        with RunningServer(tmp_path / "data", durability=durability) as running, Client(running.address) as client:
            if number == 0:
                create(client, partitions=3)
            assert produce(client, produced_batch(1, timestamp=NOW), partition=1).base_offset == number
            assert fetch(client, 0, partition=1).high_watermark == number + 1
            assert list_offset(client, -1).offset == 0
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
        assert not (tmp_path / "data" / "orders-0").exists()  # nothing was appended to it


def test_the_recovery_points_of_topics_are_kept(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client)
        produce(client, produced_batch(4, timestamp=NOW))
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert "orders 0 4" in (tmp_path / "data" / name).read_text().splitlines()


def test_deleted_topics_are_gone(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client)
        produce(client, produced_batch(1, timestamp=NOW))
        assert client.ask(DeleteTopicsRequest(topic_names=("orders",), timeout_ms=1000), 5).responses[0].error_code == 0
        assert produce(client, produced_batch(1, timestamp=NOW)).error_code == 3
        create(client)
        assert produce(client, produced_batch(2, timestamp=NOW)).base_offset == 0
        assert fetch(client, 0).high_watermark == 2
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        assert fetch(client, 0).high_watermark == 2
        assert not [name for name in os.listdir(tmp_path / "data") if name.endswith("-delete")]


def test_directories_of_deleted_topics_go_at_once_or_with_the_next_start(tmp_path, monkeypatch):
    data = tmp_path / "data"
    with RunningServer(data) as running, Client(running.address) as client:
        create(client, partitions=3)
        for number in range(3):
            produce(client, produced_batch(1, timestamp=NOW), partition=number)
        assert delete(client) == 0
        until(lambda: not [name for name in os.listdir(data) if "orders" in name])
        create(client)
        produce(client, produced_batch(1, timestamp=NOW))
        # As if the process ended between the renaming and the removal.
        monkeypatch.setattr(running.server._topics._deleted, "remove", lambda _: None)
        assert delete(client) == 0
        (left,) = [name for name in os.listdir(data) if "orders" in name]
        assert left.endswith("-delete")
    with RunningServer(data):
        assert not (data / left).exists()


def test_a_delete_that_failed_can_be_repeated(client, server, monkeypatch):
    create(client, partitions=3)
    for number in range(3):
        produce(client, produced_batch(1, timestamp=NOW), partition=number)
    deleted = server.server._topics._deleted
    rename = deleted.rename

    def fail_once(topic, number, topic_id):
        monkeypatch.setattr(deleted, "rename", rename)
        raise StorageError("the disk has failed")

    monkeypatch.setattr(deleted, "rename", fail_once)
    assert delete(client) == error_codes.KAFKA_STORAGE_ERROR.code
    assert delete(client) == 0
    create(client, partitions=3)
    assert [fetch(client, 0, partition=number).high_watermark for number in range(3)] == [0, 0, 0]


def test_topics_that_could_not_be_written_are_refused_and_not_there(client, monkeypatch):
    create(client)

    def fail(*_):
        raise StorageError("the disk has failed")

    new = CreateTopicsRequestTopic("new", 1, 1)
    asked = MetadataRequest((MetadataRequestTopic(name="new"),))
    grown = CreatePartitionsRequest((CreatePartitionsRequestTopic("orders", 5, None),))
    with monkeypatch.context() as failing:
        failing.setattr(FileMetadataStore, "_write", fail)
        refused = error_codes.KAFKA_STORAGE_ERROR.code
        assert client.ask(CreateTopicsRequest((new,)), 7).topics[0].error_code == refused
        assert client.ask(asked, 12).topics[0].error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
        assert client.ask(grown, 3).results[0].error_code == refused
        assert client.ask(InitProducerIdRequest(None, 1000), 4).error_code != 0
        assert delete(client) == refused
    assert len(client.ask(MetadataRequest((MetadataRequestTopic(name="orders"),)), 12).topics[0].partitions) == 1
    assert produce(client, produced_batch(1, timestamp=NOW)).base_offset == 0
    assert client.ask(CreateTopicsRequest((new,)), 7).topics[0].error_code == 0
    assert client.ask(grown, 3).results[0].error_code == 0


def test_the_checkpoint_of_a_deleted_topic_does_not_come_back(client, server, tmp_path, monkeypatch):
    create(client)
    produce(client, produced_batch(4, timestamp=NOW))
    topics = server.server._topics
    write, is_writing, may_write = topics._directory.write_entries, threading.Event(), threading.Event()

    def write_later(name, entries):
        is_writing.set()
        assert may_write.wait(20)
        write(name, entries)

    monkeypatch.setattr(topics._directory, "write_entries", write_later)
    thread = threading.Thread(target=topics.write_checkpoints)
    thread.start()
    assert is_writing.wait(20)
    client.send(encode_request(DeleteTopicsRequest(topic_names=("orders",), timeout_ms=1000), 5, 7, None))
    client.socket.settimeout(0.3)
    with suppress(TimeoutError):  # it waits for the checkpoint
        client.receive()
    may_write.set()
    thread.join()
    until(lambda: not topics._partitions)
    checkpoint = tmp_path / "data" / "recovery-point-offset-checkpoint"
    until(lambda: "orders" not in checkpoint.read_text())


def test_settings_reach_the_logs_that_are_made_after_their_change(client, server):
    create(client, partitions=2)
    assert fetch(client, 0, partition=1).high_watermark == 0
    asked = []
    options_of = server.server._topics._options_of
    server.server._topics._options_of = lambda name: asked.append(options_of(name)) or asked[-1]
    produce(client, produced_batch(1, timestamp=NOW), partition=0)
    change = IncrementalAlterConfigsRequestResourceConfig("segment.bytes", 0, "2000000")
    resource = IncrementalAlterConfigsRequestResource(2, "orders", (change,))
    assert client.ask(IncrementalAlterConfigsRequest((resource,)), 1).responses[0].error_code == 0
    produce(client, produced_batch(1, timestamp=NOW), partition=1)
    assert [each.settings.segment_bytes for each in asked] == [1 << 30, 2_000_000, 2_000_000]


@pytest.mark.parametrize("count", [0, 1], ids=["empty", "above 0"])
@pytest.mark.parametrize("version", [4, FETCH, WITH_TOPIC_IDS, 18])
def test_who_waits_for_a_topic_that_is_deleted_is_answered(client, server, count, version):
    create(client)
    for _ in range(count):
        produce(client, produced_batch(1, timestamp=NOW))
    request = fetch_request(count, max_wait_ms=60_000)
    if version >= WITH_TOPIC_IDS:
        topic_id = client.ask(MetadataRequest((MetadataRequestTopic(name="orders"),)), 12).topics[0].topic_id
        request = request._replace(topics=(request.topics[0]._replace(topic="", topic_id=topic_id),))
    with Client(server.address) as other:
        other.send(encode_request(request, version, 7, None))
        until(lambda: watchers(server) == 1)
        assert delete(client) == 0
        answer = decode_response(FetchResponse, version, other.receive())[1].responses[0].partitions[0]
    assert (answer.error_code, answer.high_watermark) == (error_codes.UNKNOWN_TOPIC_OR_PARTITION.code, -1)
    assert (answer.records, answer.aborted_transactions) == (b"", None)


def test_directories_of_topics_that_a_broker_made_are_found(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, partitions=2)
        produce(client, produced_batch(5, timestamp=NOW), partition=1)
        asked = MetadataRequest((MetadataRequestTopic(name="orders"),))
        before = client.ask(asked, 12).topics[0]
    (tmp_path / "data" / "offsetlog-metadata.json").unlink()
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        after = client.ask(asked, 12).topics[0]
        assert (after.topic_id, len(after.partitions)) == (before.topic_id, 2)
        assert fetch(client, 0, partition=1).high_watermark == 5


def test_directories_that_only_look_like_partitions_are_passed_over_and_reported(tmp_path, caplog):
    data = tmp_path / "data"
    with RunningServer(data) as running, Client(running.address) as client:
        create(client, partitions=2)
        produce(client, produced_batch(1, timestamp=NOW))
    for name in ("backup-20261125", "notes-3", "orders-7"):
        (data / name).mkdir()
        (data / name / "notes.txt").write_text("mine")
    (data / "huge-100000").mkdir()
    (data / "huge-100000" / "00000000000000000000.log").touch()
    (data / "found-2").mkdir()
    (data / "found-2" / "00000000000000000000.log").touch()
    with RunningServer(data) as running, Client(running.address) as client:
        topics = {each.name: len(each.partitions) for each in client.ask(MetadataRequest(None), 12).topics}
        assert topics == {"__consumer_offsets": 50, "orders": 2, "found": 3}
        assert fetch(client, 0).high_watermark == 1
    for name in ("backup-20261125", "notes-3", "orders-7", "huge-100000"):
        assert f"{name}: ignored: " in caplog.text
    assert os.listdir(data / "notes-3") == ["notes.txt"]


def test_a_directory_of_somebody_else_takes_no_records_and_outlives_a_topic_of_its_name(tmp_path, caplog):
    data = tmp_path / "data"
    for number in range(2):
        (data / f"photos-{number}").mkdir(parents=True)
        (data / f"photos-{number}" / "holiday.jpg").write_bytes(b"mine")
    (data / "photos-2").mkdir()
    (data / "photos-2" / "partition.metadata.tmp").touch()  # of a crash while it was made
    with RunningServer(data) as running, Client(running.address) as client:
        create(client, "photos", 4)
        assert fetch(client, 0, topic="photos").error_code == 0
        refused = error_codes.KAFKA_STORAGE_ERROR.code
        assert produce(client, produced_batch(1, timestamp=NOW), topic="photos", partition=1).error_code == refused
        for number in (2, 3):
            sent = produce(client, produced_batch(1, timestamp=NOW), topic="photos", partition=number)
            assert sent.error_code == 0
        assert delete(client, "photos") == 0
        until(lambda: sorted(each for each in os.listdir(data) if "photos" in each) == ["photos-0", "photos-1"])
    for number in range(2):
        assert os.listdir(data / f"photos-{number}") == ["holiday.jpg"]
    assert "photos-1: the log could not be opened" in caplog.text
    assert "move it out of the log directory" in caplog.text


def test_a_partition_of_another_topic_outlives_one_of_its_name(tmp_path):
    data = tmp_path / "data"
    with RunningServer(data) as running, Client(running.address) as client:
        create(client, partitions=2)
        # A copy of a partition that somebody has put there while it runs.
        (data / "orders-1").mkdir()
        metadata = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
        (data / "orders-1" / "partition.metadata").write_text(metadata)
        for number, error in ((0, 0), (1, error_codes.KAFKA_STORAGE_ERROR.code)):
            assert produce(client, produced_batch(1, timestamp=NOW), partition=number).error_code == error
        assert delete(client) == 0
        until(lambda: [each for each in os.listdir(data) if "orders" in each] == ["orders-1"])
    assert (data / "orders-1" / "partition.metadata").read_text() == metadata


def test_what_a_failed_making_has_left_goes_with_its_topic(tmp_path, monkeypatch):
    data = tmp_path / "data"
    with RunningServer(data) as running, Client(running.address) as client:
        create(client)
        topic_id = client.ask(MetadataRequest((MetadataRequestTopic(name="orders"),)), 12).topics[0].topic_id

        def fail(*_):
            (data / "orders-0").mkdir()
            text = f"version: 0\ntopic_id: {format_uuid(topic_id)}\n"
            (data / "orders-0" / "partition.metadata").write_text(text)
            raise StorageError("the disk is full")

        monkeypatch.setattr(running.server._topics, "_open", fail)
        assert produce(client, produced_batch(1, timestamp=NOW)).error_code == error_codes.KAFKA_STORAGE_ERROR.code
        assert delete(client) == 0
        until(lambda: not [each for each in os.listdir(data) if "orders" in each])


def test_a_damaged_log_refuses_its_clients_and_no_others(tmp_path, caplog):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, partitions=2)
        for number in range(2):
            produce(client, produced_batch(5, timestamp=NOW), partition=number)
    metadata = tmp_path / "data" / "orders-0" / "partition.metadata"
    metadata.write_text(metadata.read_text().replace("topic_id: ", "topic_id: AAAA")[:35] + "\n")
    log = tmp_path / "data" / "orders-0" / "00000000000000000000.log"
    log.unlink()
    log.mkdir()
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        assert fetch(client, 0, partition=0).error_code == error_codes.KAFKA_STORAGE_ERROR.code
        assert produce(client, produced_batch(1, timestamp=NOW), partition=0).error_code == 56
        assert list_offset(client, -1).error_code == 56
        assert fetch(client, 0, partition=1).high_watermark == 5
    assert "orders-0: the log could not be opened" in caplog.text
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
