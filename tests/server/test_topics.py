"""Ordinary topics on the wire: what producers are answered, and what consumers read."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from kafka.record.util import calc_crc32c

from offsetlog import error_codes
from offsetlog._native import topic_log
from offsetlog.errors import PartitionFailedError
from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    FetchRequest,
    FetchRequestForgottenTopicsData,
    FetchRequestReplicaState,
    FetchRequestTopic,
    FetchResponse,
    InitProducerIdRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from offsetlog.server.handlers import produce as produce_handler

from .batches import produced_batch
from .running import Client, RunningServer
from .topic_requests import (
    FETCH,
    NOW,
    PRODUCE,
    create,
    fetch,
    fetch_request,
    list_offset,
    produce,
    produce_request,
    until,
    watchers,
)

WITH_REPLICA_STATE = 15

# -------------------------------------------------------------------------------------------- produce


@pytest.mark.parametrize("version", range(3, 13))
def test_records_come_back_as_they_were_sent(client, version):
    create(client)
    for number in range(3):
        batch = produced_batch(2, timestamp=NOW, value=b"%d" % number)
        answer = produce(client, batch, version)
        assert (answer.error_code, answer.base_offset) == (0, 2 * number)
    found = fetch(client, 0)
    assert found.high_watermark == 6
    # From the attributes on nothing has changed.
    assert len(found.records) == 3 * len(batch)
    assert found.records[2 * len(batch) + 21 :] == batch[21:]
    assert [int.from_bytes(found.records[at * len(batch) :][:8], "big") for at in range(3)] == [0, 2, 4]


def test_acks_are_kept(client):
    create(client)
    batch = produced_batch(1, timestamp=NOW)
    assert produce(client, batch, acks=1).base_offset == 0
    client.send(encode_request(produce_request(batch, acks=0), PRODUCE, 7, None))
    assert produce(client, batch, acks=-1).base_offset == 2
    assert produce(client, batch, acks=2).error_code == error_codes.INVALID_REQUIRED_ACKS.code


def test_who_waits_for_no_answer_loses_the_connection_by_an_error(client):
    create(client)
    client.send(encode_request(produce_request(b"nothing", acks=0), PRODUCE, 7, None))
    assert client.receive() is None


def test_an_answer_waits_for_the_disk(tmp_path):
    with RunningServer(tmp_path / "data", durability="disk") as running, Client(running.address) as client:
        create(client)
        for number in range(5):
            assert produce(client, produced_batch(1, timestamp=NOW)).base_offset == number
            assert fetch(client, 0).high_watermark == number + 1


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, error_codes.INVALID_RECORD),
        (b"", error_codes.INVALID_RECORD),
        (produced_batch(1, timestamp=NOW)[:-1], error_codes.INVALID_RECORD),
        (produced_batch(1, timestamp=NOW)[:-1] + b"x", error_codes.CORRUPT_MESSAGE),
        (produced_batch(1, timestamp=NOW) * 2, error_codes.INVALID_RECORD),
        (produced_batch(1, timestamp=NOW, base_offset=1), error_codes.INVALID_RECORD),
        (produced_batch(1, timestamp=NOW, attributes=0x20), error_codes.INVALID_RECORD),
        (produced_batch(1, timestamp=NOW + 2 * 3600 * 1000), error_codes.INVALID_TIMESTAMP),
        (produced_batch(1, timestamp=NOW, value=bytes(2 << 20)), error_codes.MESSAGE_TOO_LARGE),
        (produced_batch(1, timestamp=NOW, attributes=0x10, producer=(1, 0, 0)), error_codes.INVALID_TXN_STATE),
    ],
    ids=["null", "empty", "cut", "changed", "two", "offset", "marker", "future", "large", "transaction"],
)
def test_bad_batches_are_refused(client, records, error):
    create(client)
    answer = produce(client, records)
    assert answer.error_code == error.code
    assert answer.base_offset == -1
    assert fetch(client, 0).high_watermark == 0


def test_every_refusal_of_a_log_has_its_error():
    assert produce_handler.REFUSALS.keys() == topic_log.REFUSALS
    assert set(produce_handler.BEFORE_THE_LOG) < topic_log.REFUSALS


def test_a_record_count_without_bound_costs_nothing(client):
    create(client, cleanup_policy="compact")
    batch = bytearray(produced_batch(1, timestamp=NOW, key=None))
    batch[23:27] = (2**31 - 2).to_bytes(4, "big")
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    batch[17:21] = calc_crc32c(bytes(batch[21:])).to_bytes(4, "big")
    answer = produce(client, bytes(batch))
    assert (answer.error_code, answer.record_errors) == (error_codes.INVALID_RECORD.code, ())
    assert produce(client, produced_batch(1, timestamp=NOW)).base_offset == 0


def test_partitions_that_are_not_there_are_refused(client):
    create(client)
    batch = produced_batch(1, timestamp=NOW)
    unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
    assert produce(client, batch, partition=1).error_code == unknown
    assert produce(client, batch, partition=-1).error_code == unknown
    assert produce(client, batch, topic="others").error_code == unknown
    internal = error_codes.INVALID_TOPIC_EXCEPTION.code
    assert produce(client, batch, topic="__consumer_offsets").error_code == internal


def test_a_topic_can_have_the_time_of_the_append(client):
    create(client, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    answer = produce(client, produced_batch(3, timestamp=5))
    assert before <= answer.log_append_time_ms <= int(time.time() * 1000)
    assert list_offset(client, answer.log_append_time_ms).timestamp == answer.log_append_time_ms


def test_settings_of_a_topic_are_kept(client):
    create(client, max_message_bytes="100", cleanup_policy="compact")
    assert produce(client, produced_batch(1, timestamp=NOW, value=bytes(200))).error_code == 10
    refused = produce(client, produced_batch(2, timestamp=NOW, key=None))
    assert refused.error_code == error_codes.INVALID_RECORD.code
    assert [each.batch_index for each in refused.record_errors] == [0, 1]
    assert refused.error_message
    assert produce(client, produced_batch(1, timestamp=NOW)).error_code == 0


def test_partitions_are_not_made_without_bound(client):
    many = CreateTopicsRequestTopic("many", 2**31 - 1, 1)
    more = CreateTopicsRequestTopic("more", 5000, 1)
    others = CreateTopicsRequestTopic("others", 5000, 1)
    answer = client.ask(CreateTopicsRequest((many, more, others), 1000), 7)
    assert [each.error_code for each in answer.topics] == [44, 0, 44]
    added = CreatePartitionsRequest((CreatePartitionsRequestTopic("more", 20_000, None),), 1000)
    assert client.ask(added, 3).results[0].error_code == 44


# ---------------------------------------------------------------------------------------- idempotence


def test_what_is_sent_again_is_not_appended_again(client, server):
    create(client)
    first = client.ask(InitProducerIdRequest(None, 1000), 4)
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert client.ask(InitProducerIdRequest(None, 1000), 4).producer_id != first.producer_id
    sent = [produced_batch(2, timestamp=NOW, producer=(first.producer_id, 0, 2 * each)) for each in range(3)]
    for number, batch in enumerate(sent):
        assert produce(client, batch).base_offset == 2 * number
    again = produce(client, sent[1])
    assert (again.error_code, again.base_offset, again.log_append_time_ms) == (0, 2, NOW + 1)
    gap = produce(client, produced_batch(1, timestamp=NOW, producer=(first.producer_id, 0, 9)))
    assert gap.error_code == error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER.code
    assert fetch(client, 0).high_watermark == 6


def test_no_producer_id_is_given_twice(tmp_path):
    seen = set()
    for _ in range(3):
        with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
            seen.update(client.ask(InitProducerIdRequest(None, 1000), 4).producer_id for _ in range(1001))
    assert len(seen) == 3 * 1001


def test_ids_that_clients_made_up_do_not_use_up_those_that_are_given(tmp_path):
    for made_up in (2**62, 2**63 - 1):
        with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
            assert client.ask(MetadataRequest((MetadataRequestTopic(name="orders"),)), 12).topics
            batch = produced_batch(1, timestamp=NOW, producer=(made_up, 0, 0))
            assert produce(client, batch).error_code == 0
        with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
            assert client.ask(InitProducerIdRequest(None, 1000), 4).producer_id < 10_000


def test_transactions_are_refused(client):
    assert client.ask(InitProducerIdRequest("mine", 1000), 4).error_code == error_codes.UNSUPPORTED_VERSION.code


# ---------------------------------------------------------------------------------------------- fetch


def test_a_fetch_waits_for_records(client, server):
    create(client)
    with Client(server.address) as other:
        timer = threading.Timer(0.2, lambda: produce(other, produced_batch(1, timestamp=NOW)))
        timer.start()
        found = fetch(client, 0, max_wait_ms=15000)
        assert found.high_watermark == 1
        assert found.records
        timer.join()


def test_a_fetch_that_waits_ends_in_its_time(client):
    create(client)
    produce(client, produced_batch(1, timestamp=NOW))
    began = time.monotonic()
    found = fetch(client, 0, max_wait_ms=200, min_bytes=10_000)
    assert time.monotonic() - began >= 0.2
    assert found.records


def test_a_fetch_waits_for_as_many_bytes_as_it_asks_for(client, server):
    create(client)
    batch = produced_batch(1, timestamp=NOW)

    def produce_ten() -> None:
        with Client(server.address) as other:
            for _ in range(10):
                produce(other, batch)

    thread = threading.Thread(target=produce_ten)
    thread.start()
    found = fetch(client, 0, max_wait_ms=15000, min_bytes=10 * len(batch))
    thread.join()
    assert len(found.records) == 10 * len(batch)


def test_limits_of_a_fetch(client):
    create(client)
    batch = produced_batch(1, timestamp=NOW, value=bytes(1000))
    for _ in range(10):
        produce(client, batch)
    size = len(batch)
    assert len(fetch(client, 0, partition_max_bytes=3 * size + 5).records) == 3 * size
    assert len(fetch(client, 0, max_bytes=2 * size).records) == 2 * size
    # The first batch comes whatever its size.
    assert len(fetch(client, 4, partition_max_bytes=10).records) == size
    assert len(fetch(client, 4, max_bytes=0).records) == size
    assert fetch(client, 10).records == b""


def test_offsets_outside_the_log_are_refused(client):
    create(client)
    for offset in (-1, 1):
        assert fetch(client, offset).error_code == error_codes.OFFSET_OUT_OF_RANGE.code
    produce(client, produced_batch(3, timestamp=NOW))
    assert fetch(client, 3).error_code == 0
    refused = fetch(client, 4)
    assert refused.error_code == error_codes.OFFSET_OUT_OF_RANGE.code
    assert (refused.high_watermark, refused.log_start_offset, refused.records) == (-1, -1, b"")


def test_replicas_are_refused(client):
    create(client)
    produce(client, produced_batch(3, timestamp=NOW))

    def fetched(replica: int, version: int = FETCH, topic: str = "orders"):
        request = fetch_request(0, topic=topic, max_wait_ms=60_000)._replace(replica_id=replica)
        if version >= WITH_REPLICA_STATE:
            topic_id = client.ask(MetadataRequest((MetadataRequestTopic(name=topic),)), 12).topics[0].topic_id
            topics = (request.topics[0]._replace(topic="", topic_id=topic_id),)
            state = FetchRequestReplicaState(replica)
            request = request._replace(replica_id=-1, replica_state=state, topics=topics)
        answer = client.ask(request, version).responses[0].partitions[0]
        return answer.error_code, answer.high_watermark, bool(answer.records)

    for version in (4, FETCH, WITH_REPLICA_STATE, 18):
        for replica in (0, 1, 5):
            assert fetched(replica, version) == (error_codes.NOT_LEADER_OR_FOLLOWER.code, -1, False)
        for consumer in (-1, -2):
            assert fetched(consumer, version) == (0, 3, True)
    unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION.code
    assert fetched(5, topic="nobody") == (unknown, -1, False)


def test_epochs_of_a_fetch(client):
    create(client)
    produce(client, produced_batch(3, timestamp=NOW))
    assert fetch(client, 0, epoch=0).error_code == 0
    assert fetch(client, 0, epoch=1).error_code == error_codes.UNKNOWN_LEADER_EPOCH.code
    assert fetch(client, 0, fetched_epoch=0).records
    assert fetch(client, 0, fetched_epoch=5).error_code == error_codes.OFFSET_OUT_OF_RANGE.code


def test_a_log_that_was_cut_by_a_crash_is_found_out_by_its_epoch(tmp_path):
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        create(client)
        produce(client, produced_batch(3, timestamp=NOW))
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
    with RunningServer(tmp_path / "data") as running, Client(running.address) as client:
        produce(client, produced_batch(3, timestamp=NOW))
        assert fetch(client, 3, epoch=0).error_code == error_codes.FENCED_LEADER_EPOCH.code
        assert list_offset(client, -1).leader_epoch == 1
        found = fetch(client, 5, fetched_epoch=0)
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 3)
        assert found.records == b""
        asked = MetadataRequest((MetadataRequestTopic(name="orders"),))
        assert client.ask(asked, 12).topics[0].partitions[0].leader_epoch == 1


def _in_version(request: FetchRequest, version: int, topic_id: bytes) -> FetchRequest:
    """The request with ids in place of names where the version has them."""
    if version < 13:
        return request
    return request._replace(
        topics=tuple(each._replace(topic="", topic_id=topic_id) for each in request.topics),
        forgotten_topics_data=tuple(
            each._replace(topic="", topic_id=topic_id) for each in request.forgotten_topics_data
        ),
    )


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_sessions_are_answered_as_by_a_broker_that_can_keep_no_more(client, version):
    create(client, partitions=2)
    produce(client, produced_batch(1, timestamp=NOW))
    topic_id = client.ask(MetadataRequest((MetadataRequestTopic(name="orders"),)), 12).topics[0].topic_id
    first, second = (fetch_request(0, partition=each).topics[0].partitions[0] for each in range(2))
    both = fetch_request(0)._replace(topics=(FetchRequestTopic("orders", partitions=(first, second)),))
    forgotten = (FetchRequestForgottenTopicsData("orders", partitions=(1,)),)
    everything = [
        both._replace(session_id=0, session_epoch=0),     # a client begins a session
        both._replace(session_id=0, session_epoch=-1),    # one that wants none
        both._replace(session_id=7, session_epoch=0),     # it gives up the one that it had, and begins another
        both._replace(session_id=7, session_epoch=-1),    # it gives it up
        both._replace(session_id=0, session_epoch=0, forgotten_topics_data=forgotten),
    ]
    for request in everything:
        answer = client.ask(_in_version(request, version, topic_id), version)
        assert (answer.error_code, answer.session_id) == (0, 0)
        # Every partition is answered, also one without anything new.
        assert [each.partition_index for each in answer.responses[0].partitions] == [0, 1]
        assert [bool(each.records) for each in answer.responses[0].partitions] == [True, False]
    gone_on_with = [
        both._replace(session_id=7, session_epoch=1),
        both._replace(session_id=7, session_epoch=2, topics=()),
        both._replace(session_id=7, session_epoch=2**31 - 1, topics=(), forgotten_topics_data=forgotten),
        both._replace(session_id=0, session_epoch=1),
        both._replace(session_id=-1, session_epoch=-2),
    ]
    for request in gone_on_with:
        # At once, however long the client would wait.
        patient = request._replace(max_wait_ms=3_600_000, min_bytes=1 << 30)
        answer = client.ask(_in_version(patient, version, topic_id), version)
        assert answer.error_code == error_codes.FETCH_SESSION_ID_NOT_FOUND.code
        assert (answer.session_id, answer.responses) == (0, ())
    # A consumer that closes ends its session without a partition.
    closing = both._replace(session_id=7, session_epoch=-1, topics=(), max_wait_ms=3_600_000)
    answer = client.ask(closing, version)
    assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, ())


def test_positions_are_records_like_others(client, server):
    server.server._manager.commit("g", {("orders", 0): 42})
    number = server.server._manager.partition_for("g")
    for isolation_level in (0, 1):
        found = fetch(client, 0, topic="__consumer_offsets", partition=number, isolation_level=isolation_level)
        assert found.high_watermark == 1
        assert b"orders" in found.records
    assert found.aborted_transactions == ()


def test_a_fetch_of_positions_waits(client, server):
    manager = server.server._manager
    number = manager.partition_for("g")
    timer = threading.Timer(0.2, lambda: manager.commit("g", {("orders", 0): 1}))
    timer.start()
    assert fetch(client, 0, topic="__consumer_offsets", partition=number, max_wait_ms=15000).high_watermark == 1
    timer.join()


def test_one_fetch_of_a_connection_waits_and_answers_keep_their_order(client, server):
    create(client, partitions=100)
    for number in range(100):  # each partition has a log
        produce(client, produced_batch(1, timestamp=NOW), partition=number)
    with Client(server.address) as other:
        other.send(b"".join(
            encode_request(fetch_request(1, partition=number, max_wait_ms=3_600_000), FETCH, number, None)
            for number in range(100)
        ))
        for number in range(100):
            until(lambda: watchers(server) == 1)
            produce(client, produced_batch(1, timestamp=NOW), partition=number)
            assert int.from_bytes(other.receive()[:4], "big") == number


def test_a_fetch_asks_for_no_more_than_an_answer_can_have(client):
    create(client)
    batch = produced_batch(1, timestamp=NOW, value=bytes(1000))
    for _ in range(10):
        produce(client, batch)
    size = len(batch)
    waiting = {"max_wait_ms": 3_600_000, "min_bytes": 2**31 - 1}
    assert len(fetch(client, 0, max_bytes=5 * size, **waiting).records) == 5 * size
    # The bytes that are there count, though the last of them are no whole batch.
    assert len(fetch(client, 0, max_bytes=5 * size - 1, **waiting).records) == 4 * size
    limits = {"max_bytes": 5 * size - 1, "partition_max_bytes": 5 * size - 1}
    assert len(fetch(client, 0, **limits, **waiting).records) == 4 * size
    assert fetch(client, 10, max_bytes=0, **waiting).records == b""


def test_positions_are_looked_at_by_one_timer(server):
    log = server.server._node.logs._positions[0]

    async def watch_again_and_again() -> list:
        timers = []
        for _ in range(10):
            log.watch(print)
            timers.append(log._timer)
            log.unwatch(print)
        log.watch(print)
        log.watch(repr)
        log.unwatch(print)
        return [*timers, log._timer]

    timers = asyncio.run_coroutine_threadsafe(watch_again_and_again(), server.loop).result(20)
    assert [each.cancelled() for each in timers] == [True] * (len(timers) - 1) + [False]
    server.loop.call_soon_threadsafe(log.unwatch, repr)


def test_a_fetch_that_waits_for_positions_is_answered_when_their_log_fails(client, server, monkeypatch):
    manager = server.server._manager
    log = server.server._node.logs._positions[0]
    with Client(server.address) as other:
        request = fetch_request(0, topic="__consumer_offsets", max_wait_ms=3_600_000)
        other.send(encode_request(request, FETCH, 7, None))
        until(lambda: log._watchers)

        def fail(*_):
            raise PartitionFailedError("a flush has failed")

        monkeypatch.setattr(manager, "positions", fail)
        answer = decode_response(FetchResponse, FETCH, other.receive())[1].responses[0].partitions[0]
        assert answer.error_code == error_codes.KAFKA_STORAGE_ERROR.code
        until(lambda: log._timer is None)
        # One that comes then is refused at once.
        again = fetch(client, 0, topic="__consumer_offsets", max_wait_ms=3_600_000)
        assert again.error_code == error_codes.KAFKA_STORAGE_ERROR.code


def test_a_client_that_goes_away_leaves_no_fetch(client, server):
    create(client)
    with Client(server.address) as other:
        other.send(encode_request(fetch_request(0, max_wait_ms=3_600_000), FETCH, 7, None))
        until(lambda: watchers(server) == 1)
    until(lambda: watchers(server) == 0)
