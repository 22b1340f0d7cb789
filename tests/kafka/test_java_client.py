"""Kafka's own Java client, of 4.3.0, at the server: members of groups, producers, and the Admin client."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_packages import DEADLINE_SECONDS, KafkaPackages, environment
from server.running import RunningServer

PARTITIONS = 4
Records = dict[tuple[int, int], str]


@pytest.fixture
def bootstrap(tmp_path):
    with RunningServer(tmp_path / "data", partitions=4) as running:
        address = "{}:{}".format(*running.address)
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("orders", PARTITIONS, 1)])["orders"].result(30)
        yield address


def read_lines(text: str) -> Records:
    rows = (json.loads(line) for line in text.splitlines())
    return {(row["partition"], row["offset"]): row["value"] for row in rows}


def produce(packages: KafkaPackages, bootstrap: str, codec: str, count: int) -> Records:
    found = read_lines(packages.run("ClientRun", bootstrap, "produce", "orders", codec, str(count)))
    assert len(found) == count
    return found


class JavaMember:
    """A consumer in a process of its own, which says what it reads before it commits it."""

    def __init__(
        self, packages: KafkaPackages, bootstrap: str, seen: Records, assignor: str, instance: str = ""
    ) -> None:
        command = packages.command("ClientRun", bootstrap, "consume", "orders", "fleet", assignor, instance)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )
        self._seen = seen
        self.count = 0
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._seen.update(read_lines(line))
            self.count += 1

    def stop(self) -> None:
        """Ends it as a program does that closes its consumer."""
        assert self._process.stdin is not None
        self._process.stdin.write("stop\n")
        self._process.stdin.flush()
        assert self._process.wait(DEADLINE_SECONDS) == 0
        self._close()

    def kill(self) -> None:
        """Ends it as a machine does that loses its power; harmless when it has ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        self._thread.join()
        for each in (self._process.stdin, self._process.stdout):
            assert each is not None
            each.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def committed(bootstrap: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "fleet"})
    found = consumer.committed([TopicPartition("orders", number) for number in range(PARTITIONS)], timeout=20)
    consumer.close()
    return {each.partition: each.offset for each in found}


def ends(records: Records) -> dict[int, int]:
    return {number: max(at for each, at in records if each == number) + 1 for number in range(PARTITIONS)}


@pytest.mark.parametrize(
    ("assignor", "instances"),
    [("RangeAssignor", ("", "")), ("CooperativeStickyAssignor", ("", "")), ("RangeAssignor", ("one", "two"))],
    ids=["range", "cooperative", "static"],
)
def test_members_come_are_killed_and_leave(kafka_packages, bootstrap, assignor, instances):
    seen: Records = {}
    records = produce(kafka_packages, bootstrap, "none", 40)
    members = [JavaMember(kafka_packages, bootstrap, seen, assignor, instances[0])]
    try:
        until(lambda: seen == records)
        members.append(JavaMember(kafka_packages, bootstrap, seen, assignor, instances[1]))

        def both_read() -> bool:
            records.update(produce(kafka_packages, bootstrap, "lz4", 40))
            until(lambda: seen.keys() >= records.keys())
            return members[1].count > 0

        until(both_read)
        members.pop().kill()
        records.update(produce(kafka_packages, bootstrap, "zstd", 40))
        until(lambda: seen == records)
        members.pop().stop()
    finally:
        for member in members:
            member.kill()
    assert committed(bootstrap) == ends(records)


def test_each_codec(kafka_packages, bootstrap):
    records: Records = {}
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        records.update(produce(kafka_packages, bootstrap, codec, 200))
    assert len(records) == 1000
    seen: Records = {}
    member = JavaMember(kafka_packages, bootstrap, seen, "RangeAssignor")
    try:
        until(lambda: seen.keys() >= records.keys())
        member.stop()
    finally:
        member.kill()
    assert seen == records
    assert committed(bootstrap) == ends(records)


def test_the_admin_client(kafka_packages, bootstrap):
    printed: dict[str, str] = {}
    for line in kafka_packages.run("ClientRun", bootstrap, "admin").splitlines():
        printed.update(json.loads(line))
    assert printed == {
        "partitions": "3",
        "retention.ms": "77000",
        "altered": "{administered-1=5 here, administered-2=6 }",
        "groups": "1",
        "state": "Empty",
        "left": "{administered-1=5 here}",
        "latest": "0",
        "nodes": "1",
        "groups at the end": "0",
        "topics at the end": "1",
    }
