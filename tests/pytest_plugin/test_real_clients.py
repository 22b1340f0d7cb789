"""Clients that others wrote meet the moments that the plugin gives: they survive, or say so."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from offsetlog.types import TopicPartition

GROUP = "billing"
DAY = 24 * 3600


@pytest.fixture
def server(offsetlog_server):
    offsetlog_server.create_topic("orders", 2)
    return offsetlog_server


def produce(server, count: int) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce("orders", b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0


class Reader:
    """A consumer of confluent-kafka in a group, and the rebalances that it has seen."""

    def __init__(self, server) -> None:
        self.assigned = 0
        self.lost = 0
        self.consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap_servers,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 30_000,
                "heartbeat.interval.ms": 100,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "log_level": 0,
            }
        )
        self.consumer.subscribe(["orders"], on_assign=self._on_assign, on_lost=self._on_lost)

    def _on_assign(self, consumer, partitions) -> None:
        self.assigned += 1

    def _on_lost(self, consumer, partitions) -> None:
        self.lost += 1

    def read(self, count: int) -> list[bytes]:
        """The next so many records."""
        found: list[bytes] = []
        until(lambda: len(found) == count, lambda: found.extend(self._values(count - len(found))))
        return found

    def _values(self, most: int) -> list[bytes]:
        messages = self.consumer.consume(most, 0.1)
        assert [each.error() for each in messages if each.error() is not None] == []
        return [each.value() for each in messages]

    def until(self, condition) -> None:
        """Polls until something is so; nothing may come meanwhile."""
        until(condition, lambda: self.consumer.poll(0.05))

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)


def until(condition, step, seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        step()


@contextmanager
def new_reader(server):
    made = Reader(server)
    try:
        yield made
    finally:
        made.consumer.close()


@pytest.fixture
def reader(server):
    with new_reader(server) as made:
        yield made


def values(polled: dict) -> list[bytes]:
    """Returns the values of a poll of kafka-python."""
    return [each.value for records in polled.values() for each in records]


def offsets(server) -> dict[int, int]:
    return {key.partition: position.offset for key, position in server.committed(GROUP).items()}


# ------------------------------------------------------------------------------------------ confluent


def test_a_consumer_survives_a_coordinator_that_loads(server):
    produce(server, 10)
    # Before the consumer is there: it could join while something is produced.
    with server.faults.loading(GROUP) as loading, new_reader(server) as reader:
        reader.until(lambda: loading.hits >= 2)
        assert not reader.assigned
        loading.release()
        assert len(reader.read(10)) == 10
        reader.commit()
    assert offsets(server) == {0: 5, 1: 5}


def test_a_consumer_survives_a_coordinator_that_moves(server, reader):
    produce(server, 10)
    assert len(reader.read(10)) == 10
    with server.faults.coordinator_moved(GROUP, find_coordinator=True) as moved:
        reader.until(lambda: moved.hits >= 3)
    reader.commit()
    assert offsets(server) == {0: 5, 1: 5}
    # It came back in time: its session has gone on.
    assert reader.lost == 0
    assert server.groups()[GROUP].state == "Stable"


def test_a_commit_of_an_old_generation_is_refused(server, reader):
    produce(server, 4)
    reader.read(4)
    refused = server.faults.error("ILLEGAL_GENERATION", group=GROUP)
    with pytest.raises(KafkaException) as failure:
        reader.commit()
    assert failure.value.args[0].code() == KafkaError.ILLEGAL_GENERATION
    assert refused.hits == 1
    assert offsets(server) == {}


def test_a_session_ends_and_the_consumer_comes_back(server, reader):
    produce(server, 4)
    assert len(reader.read(4)) == 4
    reader.commit()
    server.advance(31)
    reader.until(lambda: reader.lost >= 1 and reader.assigned >= 2)
    produce(server, 4)
    # From where it had committed, and nothing twice.
    assert len(reader.read(4)) == 4
    reader.commit()
    assert offsets(server) == {0: 4, 1: 4}


def test_positions_expire(server):
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap_servers, "group.id": GROUP, "log_level": 0}
    )
    try:
        place = ConfluentPartition("orders", 0, 42)
        consumer.commit(offsets=[place], asynchronous=False)
        server.advance(7 * DAY - 60)
        assert consumer.committed([place], timeout=10)[0].offset == 42
        server.advance(120)
        assert consumer.committed([place], timeout=10)[0].offset < 0
    finally:
        consumer.close()


# ----------------------------------------------------------------------------- kafka-python, aiokafka


def test_kafka_python(server):
    from kafka import KafkaConsumer
    from kafka.errors import CommitFailedError, UnknownMemberIdError
    from kafka.structs import OffsetAndMetadata
    from kafka.structs import TopicPartition as KafkaPythonPartition

    produce(server, 4)
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=server.bootstrap_servers,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=20,
        # This client may lead its group before it knows the topic, and asks again at this age only.
        metadata_max_age_ms=1000,
    )
    try:
        # If the topic becomes known just while this client assigns nothing, as leader, it never joins again.
        assert consumer.partitions_for_topic("orders")
        read: list = []
        with server.faults.loading(GROUP, times=3) as loading:
            until(lambda: len(read) == 4, lambda: read.extend(values(consumer.poll(100))))
        assert loading.hits == 3
        place = {KafkaPythonPartition("orders", 0): OffsetAndMetadata(1, "", -1)}
        with server.faults.coordinator_moved(GROUP, times=1) as moved:
            consumer.commit(place)
        assert moved.hits == 1
        assert offsets(server) == {0: 1}
        place = {KafkaPythonPartition("orders", 0): OffsetAndMetadata(2, "", -1)}
        refused = server.faults.error("UNKNOWN_MEMBER_ID", group=GROUP)
        with refused, pytest.raises((CommitFailedError, UnknownMemberIdError)):
            consumer.commit(place)
        assert offsets(server) == {0: 1}
    finally:
        consumer.close()


def test_a_commit_whose_answer_is_lost_is_there(server):
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError as KafkaPythonError
    from kafka.structs import OffsetAndMetadata
    from kafka.structs import TopicPartition as KafkaPythonPartition

    consumer = KafkaConsumer(
        bootstrap_servers=server.bootstrap_servers, group_id=GROUP, enable_auto_commit=False
    )
    try:
        place = {KafkaPythonPartition("orders", 0): OffsetAndMetadata(42, "", -1)}
        lost = server.faults.close_connection("OffsetCommit", after_handling=True, times=None)
        with lost, pytest.raises(KafkaPythonError):
            consumer.commit(place, timeout_ms=2000)
        assert lost.hits >= 1
        assert offsets(server) == {0: 42}
    finally:
        consumer.close()


def test_aiokafka(server):
    from aiokafka import AIOKafkaConsumer
    from aiokafka.structs import TopicPartition as AiokafkaPartition

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=server.bootstrap_servers,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            retry_backoff_ms=20,
        )
        with server.faults.loading(GROUP, times=2) as loading:
            await consumer.start()
        try:
            assert loading.hits == 2
            for _ in range(4):
                await asyncio.wait_for(consumer.getone(), 20)
            place = AiokafkaPartition("orders", 0)
            with server.faults.error("NOT_COORDINATOR", times=2) as moved:
                await consumer.commit({place: 1})
            assert moved.hits == 2
            assert offsets(server) == {0: 1}
        finally:
            await consumer.stop()

    produce(server, 4)
    asyncio.run(run())


def test_a_slow_answer_is_waited_for(server):
    place = ConfluentPartition("orders", 0, 42)
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap_servers, "group.id": GROUP, "log_level": 0}
    )
    try:
        with server.faults.slow(20, "OffsetCommit", client_id="rdkafka") as slow:
            committing = threading.Thread(
                target=lambda: consumer.commit(offsets=[place], asynchronous=False)
            )
            committing.start()
            slow.wait()
            assert server.committed(GROUP) == {}
            server.advance(20)
            committing.join(40)
            assert not committing.is_alive()
        assert server.committed(GROUP)[TopicPartition("orders", 0)].offset == 42
    finally:
        consumer.close()
