"""Consumers and producers that others wrote, from end to end: groups that rebalance, and records that add up."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from depth import by_depth, first_seed

from .running import RunningServer

PARTITIONS = 6


@pytest.fixture(params=["process", "disk"])
def server(request, tmp_path):
    with RunningServer(tmp_path / "data", durability=request.param) as running:
        yield running


@pytest.fixture
def address(server) -> str:
    return "{}:{}".format(*server.address)


def create(address: str, topic: str = "orders", partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)


def produce(address: str, count: int, topic: str = "orders", **settings: object) -> dict[tuple[int, int], bytes]:
    """Produces records to all partitions, and returns them by partition and offset."""
    delivered: dict[tuple[int, int], bytes] = {}

    def keep(error, message) -> None:
        assert error is None, error
        delivered[message.partition(), message.offset()] = message.value()

    producer = Producer({"bootstrap.servers": address, "linger.ms": 2, "log_level": 0, **settings})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=keep)
        producer.poll(0)
    assert producer.flush(30) == 0
    assert len(delivered) == count
    return delivered


SETTINGS = {
    "group.id": "fleet",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 300,
    "log_level": 0,
}


class Member:
    """A consumer on a thread of its own, which commits what it has read."""

    def __init__(self, address: str, seen: dict, **settings: object) -> None:
        self.seen = seen
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._consumer = Consumer({"bootstrap.servers": address, **SETTINGS, **settings})
        self._consumer.subscribe(["orders"])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(200, 0.2):
                if message.error() is not None:
                    self.failures.append(str(message.error()))
                    continue
                self.seen[message.partition(), message.offset()] = message.value()
            try:
                self._consumer.commit(asynchronous=False)
            except KafkaException as failure:
                # Nothing to commit, and the commits that a rebalance refuses.
                if failure.args[0].code() not in (
                    KafkaError._NO_OFFSET,
                    KafkaError.REBALANCE_IN_PROGRESS,
                    KafkaError.ILLEGAL_GENERATION,
                    KafkaError.UNKNOWN_MEMBER_ID,
                    KafkaError._ASSIGNMENT_LOST,
                ):
                    self.failures.append(str(failure))
        self._consumer.close()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        assert not self.failures


#: A consumer that says what it reads, before it commits it.
PROGRAM = """
import json, sys
from confluent_kafka import Consumer, KafkaException
consumer = Consumer(json.loads(sys.argv[1]))
consumer.subscribe(["orders"])
while True:
    for message in consumer.consume(200, 0.2):
        print(message.partition(), message.offset(), message.value().decode(), flush=True)
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        pass
"""


class KilledMember:
    """A consumer in a process of its own, which ends as a machine does that loses its power."""

    def __init__(self, address: str, seen: dict) -> None:
        settings = json.dumps({"bootstrap.servers": address, **SETTINGS})
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, settings], stdout=subprocess.PIPE, text=True
        )
        self._seen = seen
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            partition, offset, value = line.split()
            self._seen[int(partition), int(offset)] = value.encode()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


def until(condition, seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def committed(address: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "fleet", "log_level": 0})
    found = consumer.committed([TopicPartition("orders", number) for number in range(PARTITIONS)], timeout=10)
    consumer.close()
    return {each.partition: each.offset for each in found}


def ends(records: dict[tuple[int, int], bytes]) -> dict[int, int]:
    found: dict[int, int] = defaultdict(int)
    for partition, offset in records:
        found[partition] = max(found[partition], offset + 1)
    return dict(found)


# ------------------------------------------------------------------------------------------ confluent


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_what_is_produced(address, strategy):
    create(address)
    seen: dict[tuple[int, int], bytes] = {}
    settings = {"partition.assignment.strategy": strategy}
    members = [Member(address, seen, **settings) for _ in range(2)]
    records = produce(address, 600)
    until(lambda: len(seen) == len(records))
    members.append(Member(address, seen, **settings))
    more = produce(address, 600)
    records.update(more)
    until(lambda: len(seen) == len(records))
    members.pop(0).stop()
    records.update(produce(address, 600))
    until(lambda: len(seen) == len(records))
    for member in members:
        member.stop()
    assert seen == records
    assert committed(address) == ends(records)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_come_back(address, codec):
    create(address)
    records = produce(address, 300, **{"compression.type": codec, "enable.idempotence": True})
    seen: dict[tuple[int, int], bytes] = {}
    member = Member(address, seen)
    until(lambda: len(seen) == len(records))
    member.stop()
    assert seen == records


def test_a_static_member_comes_back_without_a_rebalance(address):
    create(address)
    seen: dict[tuple[int, int], bytes] = {}
    settings = {"group.instance.id": "one"}
    other = Member(address, seen, **{"group.instance.id": "two"})
    member = Member(address, seen, **settings)
    records = produce(address, 60)
    until(lambda: len(seen) == len(records))
    member.stop()
    again = Member(address, seen, **settings)
    records.update(produce(address, 60))
    until(lambda: len(seen) == len(records))
    again.stop()
    other.stop()


@pytest.mark.ci
def test_members_come_and_go(address):
    """Members join, leave and are killed at random; nothing is lost, and at the end all is committed."""
    seed = first_seed()
    print(f"seed {seed}")
    draw = random.Random(seed)
    create(address)
    seen: dict[tuple[int, int], bytes] = {}
    records: dict[tuple[int, int], bytes] = {}
    members: list[Member | KilledMember] = []
    end = time.monotonic() + by_depth(gate=4, long=60)
    while time.monotonic() < end:
        if members and (len(members) >= by_depth(gate=6, long=20) or draw.random() < 0.4):
            members.pop(draw.randrange(len(members))).stop()
        else:
            kind = KilledMember if draw.random() < 0.2 else Member
            members.append(kind(address, seen))
        records.update(produce(address, 60))
        time.sleep(draw.random() * 0.3)
    for member in members:
        member.stop()
    last = Member(address, seen)
    until(lambda: len(seen) == len(records))
    until(lambda: committed(address) == ends(records))
    last.stop()
    assert seen == records


# ----------------------------------------------------------------------------- kafka-python, aiokafka


def test_kafka_python(address):
    from kafka import KafkaConsumer, KafkaProducer

    create(address)
    producer = KafkaProducer(bootstrap_servers=address, acks="all")
    sent = [producer.send("orders", b"%d" % number).get(20) for number in range(50)]
    producer.close()
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=address, group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=10_000
    )
    try:
        found = {}
        for message in consumer:
            found[message.partition, message.offset] = message.value
            if len(found) == len(sent):
                break
        assert {(each.partition, each.offset) for each in sent} == set(found)
        consumer.commit()
    finally:
        consumer.close()


def test_aiokafka(address):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True)
        await producer.start()
        sent = [await producer.send_and_wait("orders", b"%d" % number) for number in range(50)]
        await producer.stop()
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=address, group_id="g", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            found = [await asyncio.wait_for(consumer.getone(), 20) for _ in sent]
            await consumer.commit()
        finally:
            await consumer.stop()
        assert {(each.partition, each.offset) for each in sent} == {(each.partition, each.offset) for each in found}

    create(address)
    asyncio.run(run())
