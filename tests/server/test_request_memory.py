"""The memory of a server that answered requests, waiting ones, and unread answers hold."""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc

import pytest

from offsetlog._native.frame_stream import ANSWERS_AHEAD_BYTES
from offsetlog.protocol import encode_request
from offsetlog.protocol.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FetchRequest,
    FetchRequestTopic,
    FetchRequestTopicPartition,
    FetchResponse,
    FetchResponseResponse,
    FetchResponseResponsePartition,
    FindCoordinatorRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    ProduceRequest,
    ProduceRequestTopicData,
    ProduceRequestTopicDataPartitionData,
)
from offsetlog.server import connection
from offsetlog.server.connection_limits import ConnectionLimits
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers import HANDLERS
from offsetlog.server.unread_answers import UnreadAnswers
from offsetlog.topics.flushing import Flushing

from .batches import produced_batch
from .running import Client, RunningServer
from .test_connection_limits import held_connections, wait_until

MIB = 1 << 20


def produce(records: bytes, acks: int = -1) -> ProduceRequest:
    data = ProduceRequestTopicDataPartitionData(0, records)
    topic = ProduceRequestTopicData("orders", partition_data=(data,))
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=(topic,))


def megabyte() -> bytes:
    return produced_batch(10, timestamp=int(time.time() * 1000), value=bytes(100_000))


def make_topic(client: Client) -> None:
    client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 1, 1),), 1000), 7)


@pytest.fixture
def no_collector():
    """Only what nothing refers to is freed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def exchanges() -> int:
    return sum(type(each) is Exchange for each in gc.get_objects())


def test_an_answered_request_is_freed_without_the_collector_of_cycles(tmp_path, no_collector):
    partition = FetchRequestTopicPartition(0, -1, 0, partition_max_bytes=MIB)
    topic = FetchRequestTopic("orders", partitions=(partition,))
    fetch = FetchRequest(max_wait_ms=10, min_bytes=1, session_epoch=-1, topics=(topic,))
    with RunningServer(tmp_path / "data") as server, Client(server.address) as client:
        make_topic(client)
        for _ in range(20):
            client.ask(DescribeClusterRequest(), 0)
            # One that waits for its time to end.
            client.ask(fetch, 11)
            assert client.ask(produce(b""), 9).responses[0].partition_responses[0].error_code
        wait_until(lambda: exchanges() == 0)


def test_requests_of_a_connection_that_ends_are_freed(tmp_path, no_collector):
    with RunningServer(tmp_path / "data") as server:
        for _ in range(10):
            with Client(server.address) as client:
                client.send(encode_request(DescribeClusterRequest(), 0, 1) * 20)
        wait_until(lambda: exchanges() == 0)


def test_a_produce_that_waits_for_the_flush_does_not_keep_its_records(tmp_path, monkeypatch):
    may_flush = threading.Event()
    may_flush.set()
    flush = Flushing._flush

    def flush_later(self, *given):
        may_flush.wait()
        return flush(self, *given)

    monkeypatch.setattr(Flushing, "_flush", flush_later)
    with RunningServer(tmp_path / "data", durability="disk") as server, Client(server.address) as client:
        try:
            make_topic(client)
            # The first one opens the log, and holds those after it.
            assert client.ask(produce(megabyte()), 9).responses[0].partition_responses[0].error_code == 0
            may_flush.clear()
            request = encode_request(produce(megabyte()), 9, 1)
            (connection,) = server.server._connections._open
            tracemalloc.start()
            for _ in range(30):
                client.send(request)
            wait_until(lambda: connection.in_flight == 30)
            held, _ = tracemalloc.get_traced_memory()
            assert held < 10 * MIB
        finally:
            tracemalloc.stop()
            may_flush.set()
        assert all(client.receive() is not None for _ in range(30))


def test_an_answer_that_is_too_long_is_not_written_and_ends_its_connection_alone(tmp_path, monkeypatch, caplog):
    part = FetchResponseResponsePartition(0, records=bytes(MIB))
    answer = FetchResponse(responses=(FetchResponseResponse("orders", partitions=(part,) * 600),))
    monkeypatch.setitem(HANDLERS, 1, lambda _, exchange: exchange.reply(answer))
    with RunningServer(tmp_path / "data") as server:
        with Client(server.address) as client:
            client.send(encode_request(FetchRequest(), 4, 1))
            assert client.receive() is None
        with Client(server.address) as other:
            assert other.ask(ApiVersionsRequest("test", "1.0"), 3).error_code == 0
    assert "cannot encode the answer: the message may need up to 629" in caplog.text


@pytest.mark.parametrize(("version", "entries"), [(1, 10), (9, 12)])
def test_an_offset_fetch_of_too_many_positions_ends_its_connection(tmp_path, monkeypatch, version, entries):
    monkeypatch.setattr(connection, "ENTRIES_MAX", entries)

    def asked(count: int) -> OffsetFetchRequest:
        topics = [(name, tuple(range(count))) for name in ("orders", "others")]
        if version == 1:
            return OffsetFetchRequest("g", tuple(OffsetFetchRequestTopic(*each) for each in topics))
        groups = tuple(
            OffsetFetchRequestGroup("g", topics=(OffsetFetchRequestGroupTopic(name, partition_indexes=numbers),))
            for name, numbers in topics
        )
        return OffsetFetchRequest(groups=groups)

    with RunningServer(tmp_path / "data") as server, Client(server.address) as client:
        # Handlers answer it: the native front answers less than 64 MiB, and no groups together.
        server.server.node.front.is_off = True
        assert client.ask(asked(4), version)
        client.send(encode_request(asked(5), version, 1))
        assert client.receive() is None


def test_a_request_of_too_many_names_ends_its_connection_and_no_other(tmp_path, caplog):
    caplog.set_level("INFO")
    names = tuple(f"n{number:x}" for number in range(connection.ENTRIES_MAX + 1))
    with RunningServer(tmp_path / "data") as server, Client(server.address) as other:
        with Client(server.address) as client:
            assert len(client.ask(FindCoordinatorRequest(coordinator_keys=names[1:]), 4).coordinators) == len(names) - 1
            client.send(encode_request(FindCoordinatorRequest(coordinator_keys=names), 4, 1))
            assert client.receive() is None
        assert other.ask(ApiVersionsRequest("test", "1.0"), 3).error_code == 0
    assert "API 10: the request has 100001 entries; the limit is 100000" in caplog.text


class _Reader:
    def __init__(self, ended: list) -> None:
        self._ended = ended

    def end(self, reason: str) -> None:
        self._ended.append(self)


def test_the_connection_ends_whose_answers_have_waited_the_longest():
    ended: list[_Reader] = []
    answers = UnreadAnswers(100)
    first, second, third = (_Reader(ended) for _ in range(3))
    answers.hold(first, 150)  # alone it may have more
    assert ended == []
    answers.hold(second, 20)
    assert (ended, answers.size) == ([first], 20)
    answers.hold(third, 70)
    answers.hold(second, 30)
    assert (ended, answers.size) == ([first], 100)
    # It has read, and ceased again.
    answers.release(second)
    answers.hold(second, 31)
    assert (ended, answers.size) == ([first, third], 31)
    answers.release(second)
    answers.release(second)
    assert answers.size == 0


def test_answers_that_nobody_reads_are_bounded(tmp_path):
    partition = FetchRequestTopicPartition(0, -1, 0, partition_max_bytes=50 * MIB)
    topic = FetchRequestTopic("orders", partitions=(partition,))
    fetch = FetchRequest(max_wait_ms=0, max_bytes=50 * MIB, session_epoch=-1, topics=(topic,))
    limits = ConnectionLimits(unread_answer_bytes_max=30 * MIB)
    with RunningServer(tmp_path / "data", limits=limits) as server, Client(server.address) as client:
        make_topic(client)
        for _ in range(20):
            assert client.ask(produce(megabyte(), acks=1), 9).responses[0].partition_responses[0].error_code == 0
        connections = server.server._connections
        slow = [Client(server.address) for _ in range(4)]
        try:
            for number, each in enumerate(slow):
                each.send(encode_request(fetch, 11, 1))
                # The one before ends as soon as both have what their clients do not read.
                wait_until(lambda number=number: connections.unread.size > 0 and len(connections) == 5 - number)
            assert connections.unread.size < 30 * MIB
            # The one that began to wait last is served when it reads.
            assert len(slow[-1].receive()) > 19 * MIB
            assert len(client.ask(fetch, 11).responses[0].partitions[0].records) > 19 * MIB
        finally:
            for each in slow:
                each.close()


def test_answers_that_wait_for_one_before_them_are_bounded(tmp_path, monkeypatch):
    first, long = [], DescribeClusterResponse(error_message="x" * 30_000)

    def answer(_, exchange):
        if first:
            exchange.reply(long)
        else:
            first.append(exchange)

    monkeypatch.setitem(HANDLERS, 60, answer)
    with RunningServer(tmp_path / "data") as server, Client(server.address) as client:
        count = 4 * ANSWERS_AHEAD_BYTES // 30_000
        client.send(b"".join(encode_request(DescribeClusterRequest(), 0, number) for number in range(count)))
        (connection,) = held_connections(server)
        assert len(connection.places) <= ANSWERS_AHEAD_BYTES // 30_000 + 2
        server.loop.call_soon_threadsafe(first[0].reply, long)
        for number in range(count):
            assert client.receive()[:4] == number.to_bytes(4, "big")
