"""A consumer in a process of its own, for a soak: it prints each commit that was answered.

python -m tests.server.soak_member KIND ADDRESS GROUP, with KIND confluent, kafka-python or aiokafka.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException
from kafka import KafkaConsumer
from kafka.errors import KafkaError

TOPIC = "soaked"
RETRY_SECONDS = 0.2

Report = Callable[[int, int], None]


def run_confluent(address: str, group: str, report: Report) -> None:
    settings = {
        "bootstrap.servers": address,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6000,
        "log_level": 0,
        "reconnect.backoff.max.ms": 500,
    }
    consumer = Consumer(settings, logger=None)
    consumer.subscribe([TOPIC])
    while True:
        message = consumer.poll(0.5)
        if message is None or message.error() is not None:
            continue
        try:
            for each in consumer.commit(message=message, asynchronous=False):
                if each.error is None:
                    report(each.partition, each.offset)
        except KafkaException:
            continue    # the server is away, or the group rebalances: it was not answered


def _kafka_python(address: str, group: str) -> KafkaConsumer:
    # The constructor connects, and the server may be away.
    while True:
        try:
            return KafkaConsumer(
                TOPIC,
                bootstrap_servers=address,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                session_timeout_ms=6000,
                heartbeat_interval_ms=1000,
            )
        except KafkaError:
            time.sleep(RETRY_SECONDS)


def run_kafka_python(address: str, group: str, report: Report) -> None:
    consumer = _kafka_python(address, group)
    while True:
        try:
            if consumer.poll(timeout_ms=500, max_records=5):
                places = {key: consumer.position(key) for key in consumer.assignment()}
                consumer.commit()
                for key, offset in places.items():
                    report(key.partition, offset)
        except KafkaError:
            continue


def run_aiokafka(address: str, group: str, report: Report) -> None:
    asyncio.run(_consume(address, group, report))


async def _aiokafka(address: str, group: str) -> AIOKafkaConsumer:
    # `start` connects, and the server may be away.
    while True:
        consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=address,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=1000,
        )
        try:
            await consumer.start()
        except AioKafkaError:
            await consumer.stop()
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return consumer


async def _consume(address: str, group: str, report: Report) -> None:
    consumer = await _aiokafka(address, group)
    while True:
        try:
            found = await consumer.getmany(timeout_ms=500, max_records=5)
            places = {key: records[-1].offset + 1 for key, records in found.items() if records}
            if places:
                await consumer.commit(places)
                for key, offset in places.items():
                    report(key.partition, offset)
        except AioKafkaError:
            continue


RUN = {"confluent": run_confluent, "kafka-python": run_kafka_python, "aiokafka": run_aiokafka}


def main() -> None:
    kind, address, group = sys.argv[1:]
    run = RUN[kind]

    def report(partition: int, offset: int) -> None:
        print(partition, offset, flush=True)

    run(address, group, report)


if __name__ == "__main__":
    main()
