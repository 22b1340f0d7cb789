"""A disk that is slow holds up the client that needs it, and no other."""

from __future__ import annotations

import threading

import pytest

from offsetlog import error_codes
from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    FetchRequest,
    FetchRequestTopic,
    FetchRequestTopicPartition,
    FetchResponse,
    InitProducerIdRequest,
    MetadataRequest,
    MetadataRequestTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochRequestTopicPartition,
    ProduceResponse,
)
from offsetlog.server.handlers.fetch import _Fetch
from offsetlog.server.metadata_store import FileMetadataStore
from offsetlog.server.partition_logs import PositionsLog
from offsetlog.topics.deletion import DeletedDirectories
from offsetlog.topics.partition_log import PartitionLog
from offsetlog.topics.topic_logs import TopicLogs

from .batches import produced_batch, read_records
from .running import SECONDS, Client, RunningServer
from .topic_requests import (
    FETCH,
    NOW,
    create,
    delete,
    fetch,
    fetch_request,
    list_offset,
    produce,
    produce_request,
    until,
)


class Slow:
    """A method that waits on its thread until it may go on.

    Args:
        monkeypatch: of the test.
        owner, name: the method.
        only: whether a call with these arguments waits; None: each does.
    """

    def __init__(self, monkeypatch, owner, name, only=None):
        self.is_waiting = threading.Event()
        self.may_go_on = threading.Event()
        self.threads = []
        method = getattr(owner, name)

        def wait_and_call(*args, **more):
            self.threads.append(threading.current_thread().name)
            if only is None or only(*args):
                self.is_waiting.set()
                assert self.may_go_on.wait(SECONDS)
            return method(*args, **more)

        monkeypatch.setattr(owner, name, wait_and_call)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.may_go_on.set()


def send(client: Client, message, version: int, correlation_id: int = 7) -> None:
    client.send(encode_request(message, version, correlation_id, "test"))


def correlation_id(client: Client) -> int:
    frame = client.receive()
    assert frame is not None
    return int.from_bytes(frame[:4], "big")


@pytest.fixture
def restarted(tmp_path):
    """A server with records of an earlier run, in two partitions."""
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, partitions=3)
        for partition in range(2):
            for _ in range(3):
                produce(client, produced_batch(1, timestamp=NOW), partition=partition)
    with RunningServer(tmp_path / "data") as running:
        yield running


def test_a_cold_read_holds_up_no_other_client(restarted, monkeypatch):
    with (
        Slow(monkeypatch, PartitionLog, "read", lambda log, offset, *_: (log.number, offset) == (0, 0)) as slow,
        Client(restarted.address) as reader,
        Client(restarted.address) as other,
    ):
        # In one write: what follows the fetch on its connection is answered after it.
        reader.send(
            encode_request(fetch_request(0), FETCH, 1, None)
            + encode_request(ApiVersionsRequest("a", "1"), 3, 2, None)
            + encode_request(fetch_request(0, partition=1), FETCH, 3, None)
        )
        assert slow.is_waiting.wait(SECONDS)
        assert fetch(other, 0, partition=1).high_watermark == 3
        assert produce(other, produced_batch(1, timestamp=NOW)).base_offset == 3
        assert fetch(other, 4, partition=0).high_watermark == 4  # nothing is to be read there
        slow.may_go_on.set()
        assert [correlation_id(reader) for _ in range(3)] == [1, 2, 3]
    assert "server" not in slow.threads[:1]


def test_what_was_just_appended_is_read_at_once(server, client, monkeypatch):
    create(client)
    with Slow(monkeypatch, PartitionLog, "read", lambda *_: False) as slow:
        for number in range(3):
            produce(client, produced_batch(1, timestamp=NOW))
            assert fetch(client, number).high_watermark == number + 1
        assert set(slow.threads) == {"server"}


def test_what_was_appended_long_ago_is_not_taken_for_warm(server, client, monkeypatch):
    monkeypatch.setattr("offsetlog.topics.partition_log.WARM_BYTES", 1000)
    create(client)
    for _ in range(10):
        produce(client, produced_batch(1, timestamp=NOW, value=bytes(400)))
    with Slow(monkeypatch, PartitionLog, "read", lambda *_: False) as slow:
        fetch(client, 0)
        fetch(client, 9)
        assert [each == "server" for each in slow.threads] == [False, True]


def test_a_cold_read_of_positions_holds_up_no_other_client(server, client, monkeypatch):
    metadata = client.ask(MetadataRequest((MetadataRequestTopic(name="__consumer_offsets"),)), 12)
    assert len(metadata.topics[0].partitions) == 50
    monkeypatch.setattr(PositionsLog, "watermark", 1)
    asked = FetchRequestTopicPartition(3, -1, 0, partition_max_bytes=1 << 20)
    request = FetchRequest(topics=(FetchRequestTopic("__consumer_offsets", partitions=(asked,)),))
    with Slow(monkeypatch, PositionsLog, "read") as slow, Client(server.address) as reader:
        send(reader, request, FETCH)
        assert slow.is_waiting.wait(SECONDS)
        create(client)
        assert produce(client, produced_batch(1, timestamp=NOW)).base_offset == 0
        slow.may_go_on.set()
        assert correlation_id(reader) == 7


@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_happens_during_a_first_cold_look_ends_the_wait(restarted, monkeypatch, is_deleted):
    with (
        # Called when the log was read.
        Slow(monkeypatch, _Fetch, "_aborted", lambda *_: threading.current_thread().name != "server") as slow,
        Client(restarted.address) as reader,
        Client(restarted.address) as other,
    ):
        send(reader, fetch_request(3, max_wait_ms=3_600_000), FETCH)
        assert slow.is_waiting.wait(SECONDS)
        if is_deleted:
            assert delete(other) == 0
        else:
            assert produce(other, produced_batch(1, timestamp=NOW)).base_offset == 3
        slow.may_go_on.set()
        frame = reader.receive()
        assert frame is not None
        answer = decode_response(FetchResponse, FETCH, frame)[1].responses[0].partitions[0]
    if is_deleted:
        assert answer.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
    else:
        assert (answer.error_code, answer.high_watermark) == (0, 4)
        assert answer.records


def test_batches_that_are_inflated_for_their_keys_hold_up_no_other_client(server, client, monkeypatch):
    create(client, partitions=3, cleanup_policy="compact")
    plain, packed = (produced_batch(2, timestamp=NOW, codec=codec) for codec in (0, 4))
    for partition in range(3):
        produce(client, plain, partition=partition)
    with (
        Slow(monkeypatch, PartitionLog, "append", lambda _, records, *__: records == packed) as slow,
        Client(server.address) as first,
        Client(server.address) as second,
    ):
        for number, sender in enumerate((first, second)):
            send(sender, produce_request(packed, partition=number), 9, 1)
            send(sender, ApiVersionsRequest("a", "1"), 3, 2)
            assert slow.is_waiting.wait(SECONDS)
        assert produce(client, plain).base_offset == 2
        # They are inflated one after the other, however many clients send them.
        assert len(set(slow.threads) - {"server"}) == 1
        slow.may_go_on.set()
        assert [correlation_id(each) for each in (first, second) for _ in range(2)] == [1, 2, 1, 2]
    assert [list_offset(client, -1, partition=each).offset for each in range(3)] == [6, 4, 2]
    assert read_records(fetch(client, 0).records)[1] == 6


def test_a_topic_that_is_deleted_while_a_batch_is_inflated_takes_none_of_it(server, client, monkeypatch):
    create(client, cleanup_policy="compact")
    produce(client, produced_batch(1, timestamp=NOW))
    with Slow(monkeypatch, PartitionLog, "append") as slow, Client(server.address) as sender:
        send(sender, produce_request(produced_batch(1, timestamp=NOW, codec=4)), 9)
        assert slow.is_waiting.wait(SECONDS)
        assert delete(client) == 0
        slow.may_go_on.set()
        frame = sender.receive()
    assert frame is not None
    answer = decode_response(ProduceResponse, 9, frame)[1].responses[0].partition_responses[0]
    assert answer.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION.code


@pytest.mark.parametrize("restart", [False, True])
def test_a_log_that_opens_slowly_holds_up_no_other_client(tmp_path, monkeypatch, restart):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client, partitions=2)
        if restart:
            produce(client, produced_batch(1, timestamp=NOW))
        else:
            _open_slowly(running, monkeypatch, 0)
    if restart:
        with RunningServer(tmp_path / "data") as running:
            _open_slowly(running, monkeypatch, 1)


def _open_slowly(running: RunningServer, monkeypatch, before: int) -> None:
    with (
        Slow(monkeypatch, TopicLogs, "_open", lambda _, key, *__: key == ("orders", 0)) as slow,
        Client(running.address) as first,
        Client(running.address) as second,
        Client(running.address) as other,
    ):
        for client in (first, second):
            send(client, produce_request(produced_batch(1, timestamp=NOW)), 9, 1)
            send(client, ApiVersionsRequest("a", "1"), 3, 2)
        assert slow.is_waiting.wait(SECONDS)
        assert produce(other, produced_batch(1, timestamp=NOW), partition=1).base_offset == 0
        slow.may_go_on.set()
        assert [correlation_id(each) for each in (first, second) for _ in range(2)] == [1, 2, 1, 2]
        # It was opened once, for both.
        assert len(slow.threads) == 2
        assert "server" not in slow.threads
        assert fetch(other, 0).high_watermark == 2 + before


def test_a_slow_file_of_topics_holds_up_no_other_client(server, client, monkeypatch):
    create(client)
    made = CreateTopicsRequest((CreateTopicsRequestTopic("new", 3, 1),), timeout_ms=1000)
    asked = MetadataRequest((MetadataRequestTopic(name="new"),))
    with (
        Slow(monkeypatch, FileMetadataStore, "_write") as slow,
        Client(server.address) as maker,
        Client(server.address) as rival,
        Client(server.address) as consumer,
        Client(server.address) as producer,
    ):
        send(maker, made, 7)
        assert slow.is_waiting.wait(SECONDS)
        send(rival, made, 7)
        send(consumer, asked, 12)
        send(producer, InitProducerIdRequest(None, 1000), 4)
        assert produce(client, produced_batch(1, timestamp=NOW)).base_offset == 0
        # It is not seen before it is durable.
        unseen = client.ask(asked._replace(allow_auto_topic_creation=False), 12).topics[0]
        assert unseen.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
        slow.may_go_on.set()
        for each in (maker, rival, consumer, producer):
            assert correlation_id(each) == 7
        assert client.ask(made, 7).topics[0].error_code == error_codes.TOPIC_ALREADY_EXISTS.code
        assert len(client.ask(asked, 12).topics[0].partitions) == 3
    assert "server" not in slow.threads


def test_a_slow_delete_holds_up_no_other_client_and_takes_no_records(server, client, monkeypatch, tmp_path):
    create(client, partitions=2)
    create(client, "other")
    produce(client, produced_batch(1, timestamp=NOW))
    produce(client, produced_batch(1, timestamp=NOW), topic="other")
    with Slow(monkeypatch, DeletedDirectories, "rename") as slow, Client(server.address) as deleter:
        send(deleter, DeleteTopicsRequest(topic_names=("orders",), timeout_ms=1000), 5)
        assert slow.is_waiting.wait(SECONDS)
        assert produce(client, produced_batch(1, timestamp=NOW), topic="other").base_offset == 1
        for partition in range(2):
            refused = produce(client, produced_batch(1, timestamp=NOW), partition=partition)
            assert refused.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
            assert fetch(client, 0, partition=partition).error_code == refused.error_code
            for time_ms in (-1, -2, NOW):
                assert list_offset(client, time_ms, partition=partition).error_code == refused.error_code
            epoch = OffsetForLeaderEpochRequestTopicPartition(partition, -1, 0)
            asked = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderEpochRequestTopic("orders", (epoch,)),))
            assert client.ask(asked, 4).topics[0].partitions[0].error_code == refused.error_code
        slow.may_go_on.set()
        assert correlation_id(deleter) == 7
    assert not list((tmp_path / "data").glob("orders-?"))
    create(client)
    assert produce(client, produced_batch(1, timestamp=NOW)).base_offset == 0


def test_a_stop_answers_a_read_that_is_under_way(tmp_path, monkeypatch):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client)
        produce(client, produced_batch(1, timestamp=NOW))
    running = RunningServer(tmp_path / "data")
    with Slow(monkeypatch, PartitionLog, "read") as slow, Client(running.address) as client:
        send(client, fetch_request(0), FETCH)
        assert slow.is_waiting.wait(SECONDS)
        stop = threading.Thread(target=running.stop)
        stop.start()
        slow.may_go_on.set()
        assert correlation_id(client) == 7
        assert client.receive() is None
        stop.join(SECONDS)
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_client_that_goes_away_in_a_cold_read_leaves_nothing(restarted, monkeypatch):
    with Slow(monkeypatch, PartitionLog, "read") as slow:
        with Client(restarted.address) as client:
            send(client, fetch_request(0, min_bytes=1 << 30, max_wait_ms=3_600_000), FETCH)
            assert slow.is_waiting.wait(SECONDS)
        slow.may_go_on.set()
    with Client(restarted.address) as client:
        assert fetch(client, 0).high_watermark == 3
        logs = restarted.server.node.topics._partitions.values()
        # A log that had to be opened first is released after the answer.
        until(lambda: not any(each._pins for each in logs))
