"""ListOffsets and OffsetForLeaderEpoch: places in logs by time and epoch, and who waits meanwhile."""

from __future__ import annotations

import threading

import pytest

from offsetlog import error_codes
from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsRequestTopic,
    ListOffsetsRequestTopicPartition,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochRequestTopicPartition,
)
from offsetlog.topics.partition_log import PartitionLog

from .batches import produced_batch
from .running import Client
from .topic_requests import (
    FETCH,
    LIST_OFFSETS,
    NOW,
    create,
    delete,
    fetch,
    fetch_request,
    list_offset,
    produce,
    until,
)


def test_offsets_by_time(client):
    create(client)
    assert list_offset(client, -1).offset == list_offset(client, -2).offset == 0
    assert (list_offset(client, -3).offset, list_offset(client, 0).offset) == (-1, -1)
    for number in range(3):
        produce(client, produced_batch(2, timestamp=NOW + 10 * number))
    assert list_offset(client, -1).offset == 6
    assert list_offset(client, -2).offset == list_offset(client, -4).offset == 0
    assert list_offset(client, -5).offset == list_offset(client, -6).offset == -1
    found = list_offset(client, NOW + 5)
    assert (found.offset, found.timestamp, found.leader_epoch) == (2, NOW + 10, 0)
    assert list_offset(client, NOW + 11).offset == 3
    assert list_offset(client, NOW + 22).offset == -1
    assert list_offset(client, -3).offset == 5
    assert list_offset(client, -3, version=6).error_code == error_codes.UNSUPPORTED_VERSION.code


def test_times_that_no_version_knows_are_refused(client):
    create(client)
    for timestamp in (-7, -8, -(2**63)):
        for version in (1, 11):
            answer = list_offset(client, timestamp, version)
            assert answer.error_code == error_codes.UNSUPPORTED_VERSION.code
            assert (answer.offset, answer.timestamp) == (-1, -1)


@pytest.fixture
def slow_reading(monkeypatch):
    # Questions for times wait: (somebody asks, it may be answered).
    read, asked, may_answer = PartitionLog.record_at_time, threading.Event(), threading.Event()

    def read_later(*arguments):
        asked.set()
        assert may_answer.wait(20)
        return read(*arguments)

    monkeypatch.setattr(PartitionLog, "record_at_time", read_later)
    yield asked, may_answer
    may_answer.set()


def ask_for_time(client: Client, correlation_id: int = 7) -> None:
    asked = ListOffsetsRequestTopicPartition(0, timestamp=NOW)
    request = ListOffsetsRequest(-1, topics=(ListOffsetsRequestTopic("orders", (asked,)),))
    client.send(encode_request(request, LIST_OFFSETS, correlation_id, None))


def time_answer(client: Client):
    frame = client.receive()
    return decode_response(ListOffsetsResponse, LIST_OFFSETS, frame)[1].topics[0].partitions[0]


def test_others_are_served_while_a_time_is_looked_for(client, server, slow_reading):
    asked, may_answer = slow_reading
    create(client)
    produce(client, produced_batch(3, timestamp=NOW))
    with Client(server.address) as other:
        ask_for_time(other, 1)
        other.send(encode_request(fetch_request(0), FETCH, 2, None))
        assert asked.wait(20)
        assert fetch(client, 0).high_watermark == 3
        may_answer.set()
        assert time_answer(other).offset == 0
        assert int.from_bytes(other.receive()[:4], "big") == 2


def test_a_time_is_looked_for_in_a_topic_that_is_deleted_meanwhile(client, server, slow_reading):
    asked, may_answer = slow_reading
    create(client)
    produce(client, produced_batch(3, timestamp=NOW))
    with Client(server.address) as other:
        ask_for_time(other)
        assert asked.wait(20)
        assert delete(client) == 0
        may_answer.set()
        assert time_answer(other).error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION.code


def test_a_client_that_goes_away_while_a_time_is_looked_for_is_no_harm(client, server, slow_reading):
    asked, may_answer = slow_reading
    create(client)
    with Client(server.address) as other:
        ask_for_time(other)
        assert asked.wait(20)
    until(lambda: len(server.server._connections) == 1)
    may_answer.set()
    assert fetch(client, 0).high_watermark == 0


def test_nothing_more_is_read_for_a_client_that_went_away(client, server, monkeypatch):
    numbers, asked, may_answer = [], threading.Event(), threading.Event()

    def read_later(log, *arguments):
        numbers.append(log)
        asked.set()
        assert may_answer.wait(20)

    create(client, partitions=20)
    monkeypatch.setattr(PartitionLog, "record_at_time", read_later)
    with Client(server.address) as other:
        partitions = tuple(ListOffsetsRequestTopicPartition(number, timestamp=NOW) for number in range(20))
        request = ListOffsetsRequest(-1, topics=(ListOffsetsRequestTopic("orders", partitions),))
        other.send(encode_request(request, LIST_OFFSETS, 7, None))
        assert asked.wait(20)
    until(lambda: len(server.server._connections) == 1)
    may_answer.set()
    until(lambda: not server.server._disk._tasks)
    assert len(numbers) == 1


def test_offsets_by_epoch(client):
    create(client)
    produce(client, produced_batch(2, timestamp=NOW))
    for asked, expected in ((0, (0, 0, 2)), (-1, (0, -1, -1))):
        part = OffsetForLeaderEpochRequestTopicPartition(0, -1, asked)
        request = OffsetForLeaderEpochRequest(-1, (OffsetForLeaderEpochRequestTopic("orders", (part,)),))
        found = client.ask(request, 4).topics[0].partitions[0]
        assert (found.error_code, found.leader_epoch, found.end_offset) == expected
