"""A server under clients of several kinds, which are killed, as it is itself: nothing is lost or stuck."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

from offsetlog.protocol import encode_request
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    SyncGroupRequest,
)
from tests.depth import first_seed, soak_seconds

from .running import Client
from .soak_member import TOPIC

pytestmark = pytest.mark.ci

ROOT = Path(__file__).parents[2]
PARTITIONS = 4
GROUPS = ("soak-a", "soak-b")
PIPELINE = 50
#: A subscription of version 0 to nothing.
NO_TOPICS = b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"
#: A group that commits once, and what expires in a soak of this length.
OLD = "old"
OLD_SECONDS = 600
OPEN_FILES_MORE = 20
RSS_MORE_KIB = 64 * 1024

PROPERTIES = """
offsets.topic.segment.bytes=1048576
offsets.retention.minutes=5
offsets.retention.check.interval.ms=500
group.initial.rebalance.delay.ms=100
"""


class ServerProcess:
    """The command, started again on the same port and directory whenever it was stopped."""

    def __init__(self, path: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = free.getsockname()
        config = path / "server.properties"
        config.write_text(PROPERTIES)
        self.command = [
            sys.executable, "-m", "offsetlog", "serve", str(path / "data"),
            "--listen", "{}:{}".format(*self.address), "--durability", "disk", "--config", str(config),
        ]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert re.match("offsetlog listens on ", line), line

    def stop(self, sent: int) -> int:
        self.process.send_signal(sent)
        code = self.process.wait(60)
        self.process.stdout.close()
        return code

    def size(self) -> tuple[int, int]:
        """Its memory in KiB, and how many files it has open."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]), len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Answered:
    """The highest position whose commit was answered, by group and partition; from any thread."""

    def __init__(self) -> None:
        self.highest: dict[tuple[str, int], int] = defaultdict(lambda: -1)
        self._lock = threading.Lock()

    def add(self, group: str, partition: int, offset: int) -> None:
        with self._lock:
            self.highest[group, partition] = max(self.highest[group, partition], offset)


class Member:
    """A consumer's process, and the thread that reads what it reports."""

    def __init__(self, kind: str, address: tuple[str, int], group: str, answered: Answered) -> None:
        command = [sys.executable, "-m", "tests.server.soak_member", kind, "{}:{}".format(*address), group]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._read, args=(group, answered))
        self._thread.start()

    def _read(self, group: str, answered: Answered) -> None:
        for line in self.process.stdout:
            if line.endswith("\n"):    # a kill can cut the last one
                answered.add(group, *map(int, line.split()))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)
        self._thread.join()
        self.process.stdout.close()


def commit_of(group: str, partition: int, offset: int) -> OffsetCommitRequest:
    place = OffsetCommitRequestTopicPartition(partition, offset, -1, committed_metadata="m")
    return OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(TOPIC, partitions=(place,)),))


def committed(client: Client, group: str) -> dict[int, int]:
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=None),))
    (found,) = client.ask(asked, 9).groups
    assert found.error_code == 0
    return {
        each.partition_index: each.committed_offset for topic in found.topics for each in topic.partitions
    }


def commit_pipelined(address, group: str, answered: Answered, stop: threading.Event) -> None:
    """Commits growing offsets, many at a time; begins again with a new connection after each failure."""
    offset = 0
    while not stop.is_set():
        try:
            with Client(address) as client:
                while not stop.is_set():
                    frames = [
                        encode_request(commit_of(group, 0, offset + each), 7, each, "pipelined")
                        for each in range(PIPELINE)
                    ]
                    client.send(b"".join(frames))
                    for _ in frames:
                        frame = client.receive()
                        if frame is None:
                            raise ConnectionError("closed")
                        # The error of the one partition ends an answer of this version.
                        if frame[-2:] == b"\0\0":
                            answered.add(group, 0, offset)
                        offset += 1
        except OSError:
            offset += PIPELINE    # some of these may have been written
            stop.wait(0.05)


def join_and_leave(client: Client, group: str) -> int:
    """Joins a group as a new member within the others' timeouts, leaves, and returns the generation."""
    protocols = tuple(JoinGroupRequestProtocol(name, NO_TOPICS) for name in ("range", "roundrobin"))
    join = JoinGroupRequest(group, 6000, 10_000, "", None, "consumer", protocols)
    given = client.ask(join, 4).member_id
    joined = client.ask(join._replace(member_id=given), 4)
    assert joined.error_code == 0
    client.ask(SyncGroupRequest(group, joined.generation_id, given), 2)
    left = client.ask(LeaveGroupRequest(group, members=(LeaveGroupRequestMember(given),)), 3)
    assert left.error_code == 0
    return joined.generation_id


def produce(address: tuple[str, int], stop: threading.Event) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": "{}:{}".format(*address), "log_level": 0})
    number = 0
    while not stop.wait(0.02):
        producer.produce(TOPIC, b"x", partition=number % PARTITIONS)
        producer.poll(0)
        number += 1
    producer.purge()


def disturb(
    server: ServerProcess, members: list, answered: Answered, draw: random.Random, end: float
) -> dict[str, list[int]]:
    """Kills members and stops the server until the end; returns generations that were seen, by group."""
    generations: dict[str, list[int]] = defaultdict(list)
    while time.monotonic() < end:
        time.sleep(draw.uniform(0.5, 2.0))    # a pace, nothing is waited for
        deed = draw.choice(("member", "member", "join", "stop", "kill"))
        if deed == "member":
            number = draw.randrange(len(members))
            kind, group, member = members[number]
            member.kill()
            members[number] = (kind, group, Member(kind, server.address, group, answered))
        elif deed == "join":
            group = draw.choice(GROUPS)
            until_led(server.address, [group])
            with Client(server.address) as client:
                generations[group].append(join_and_leave(client, group))
        elif deed == "stop":
            assert server.stop(signal.SIGTERM) == 0
            server.start()
        else:
            server.stop(signal.SIGKILL)
            server.start()
    return generations


def until_led(address: tuple[str, int], groups: list[str]) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            with Client(address) as client:
                for group in groups:
                    committed(client, group)
            return
        except (AssertionError, OSError):
            assert time.monotonic() < end
            time.sleep(0.05)


def test_a_soak(tmp_path):
    seed = first_seed(14)
    print("seed", seed)
    draw = random.Random(seed)
    server = ServerProcess(tmp_path)
    answered = Answered()
    stop = threading.Event()
    members = []
    plain = [f"plain-{number}" for number in range(3)]
    threads = [
        threading.Thread(target=commit_pipelined, args=(server.address, group, answered, stop)) for group in plain
    ]
    threads.append(threading.Thread(target=produce, args=(server.address, stop)))
    try:
        with Client(server.address) as client:
            topic = CreateTopicsRequestTopic(TOPIC, PARTITIONS, 1)
            assert client.ask(CreateTopicsRequest((topic,)), 7).topics[0].error_code == 0
            client.ask(commit_of(OLD, 0, 1), 7)
        for thread in threads:
            thread.start()
        for group, kind in zip(GROUPS, ("confluent", "kafka-python"), strict=True):
            members += [
                (kind, group, Member(kind, server.address, group, answered)) for _ in range(2)
            ]
        generations = disturb(server, members, answered, draw, time.monotonic() + soak_seconds())
    finally:
        stop.set()
        for _, _, member in members:
            member.kill()
        for thread in threads:
            if thread.ident is not None:
                thread.join(120)
    print("answered", dict(answered.highest))
    print("generations", dict(generations))
    try:
        check_at_end(server, answered, [*plain, *GROUPS], generations)
    finally:
        server.stop(signal.SIGKILL)


def check_at_end(
    server: ServerProcess, answered: Answered, groups: list[str], generations: dict[str, list[int]]
) -> None:
    until_led(server.address, groups)
    with Client(server.address) as client:
        for group in groups:
            found = committed(client, group)
            for (name, partition), offset in answered.highest.items():
                assert name != group or found.get(partition, -1) >= offset, (group, partition)
        assert {name for name, _ in answered.highest} == set(groups)
        if soak_seconds() >= OLD_SECONDS:
            assert committed(client, OLD) == {}
        for group in GROUPS:
            seen = [*generations[group], join_and_leave(client, group)]
            memory, files = server.size()
            seen += [join_and_leave(client, group) for _ in range(20)]
            assert seen == sorted(set(seen))
            more_memory, more_files = server.size()
            assert more_files <= files + OPEN_FILES_MORE
            assert more_memory <= memory + RSS_MORE_KIB
