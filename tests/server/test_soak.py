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
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

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
KINDS = {"soak-a": "confluent", "soak-b": "kafka-python", "soak-c": "aiokafka"}
GROUPS = tuple(KINDS)
PLAIN = tuple(f"plain-{number}" for number in range(3))
MEMBERS = 2
PIPELINE = 50
#: A subscription of version 0 to nothing.
NO_TOPICS = b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"
#: A group that commits once, for a second.
OLD = "old"
OLD_MS = 1000
#: In a soak of this length enough is written for a clean.
CLEAN_SECONDS = 120
#: For so much of the soak the server is stopped and killed; for the rest clients alone are.
STOPS_SHARE = 0.6
OPEN_FILES_MORE = 20
RSS_MORE_KIB = 64 * 1024
WAIT_SECONDS = 120

PROPERTIES = """
offsets.topic.segment.bytes=1048576
offsets.retention.check.interval.ms=500
group.initial.rebalance.delay.ms=100
"""


CLEANED = "offsetlog_maintenance_events_total cleaned"
EXPIRED = "offsetlog_expired_positions_total"


class Level(NamedTuple):
    """The resources that a server holds."""

    connections: float
    admissions: float
    timers: float
    memory_kib: int
    files: int


class ServerProcess:
    """The command, started again on the same port and directory whenever it was stopped.

    Attributes:
        past: what was counted before it was last started.
    """

    def __init__(self, path: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = free.getsockname()
        config = path / "server.properties"
        config.write_text(PROPERTIES)
        self.command = [
            sys.executable, "-m", "offsetlog", "serve", str(path / "data"),
            "--listen", "{}:{}".format(*self.address), "--durability", "disk", "--config", str(config),
            "--metrics", "127.0.0.1:0",
        ]
        self.past: Counter[str] = Counter()
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert re.match("offsetlog listens on ", line), line
        line = self.process.stdout.readline()
        self.metrics_url = re.search(r"http://\S+/metrics", line)[0]

    def samples(self) -> dict[str, float]:
        """Its metrics: sums over all labels but `event`, which is appended to the name."""
        with urllib.request.urlopen(self.metrics_url, timeout=30) as answer:
            text = answer.read().decode()
        found: Counter[str] = Counter()
        for family in text_string_to_metric_families(text):
            for each in family.samples:
                found[" ".join([each.name, *filter(None, [each.labels.get("event")])])] += each.value
        return found

    def counted(self, name: str) -> float:
        """A counter, over all its starts."""
        return self.past[name] + self.samples().get(name, 0)

    def stop(self, sent: int) -> int:
        samples = self.samples()
        self.past.update({name: samples.get(name, 0) for name in (CLEANED, EXPIRED)})
        self.process.send_signal(sent)
        code = self.process.wait(60)
        self.process.stdout.close()
        return code

    def level(self) -> Level:
        samples = self.samples()
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return Level(
            samples["offsetlog_connections"],
            samples["offsetlog_admissions"],
            samples["offsetlog_group_timers"],
            int(re.search(r"VmRSS:\s+(\d+)", status)[1]),
            len(os.listdir(f"/proc/{self.process.pid}/fd")),
        )


class Answered:
    """The highest position whose commit was answered, by group and partition; from any thread."""

    def __init__(self) -> None:
        self.highest: dict[tuple[str, int], int] = defaultdict(lambda: -1)
        self._lock = threading.Lock()

    def add(self, group: str, partition: int, offset: int) -> None:
        with self._lock:
            self.highest[group, partition] = max(self.highest[group, partition], offset)

    def groups(self) -> set[str]:
        """The groups with an answered commit."""
        with self._lock:
            return {group for group, _ in self.highest}


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
    # Above all that an earlier run may have written.
    offset = max(0, answered.highest[group, 0]) + PIPELINE
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


class Clients:
    """Members of groups in processes of their own, and threads that commit and produce, until `close`."""

    def __init__(self, server: ServerProcess, answered: Answered) -> None:
        self._answered = answered
        self._server = server
        self._stop = threading.Event()
        self.members = [self._member(group) for group in GROUPS for _ in range(MEMBERS)]
        self._threads = [
            threading.Thread(target=commit_pipelined, args=(server.address, group, answered, self._stop))
            for group in PLAIN
        ]
        self._threads.append(threading.Thread(target=produce, args=(server.address, self._stop)))
        for thread in self._threads:
            thread.start()

    def _member(self, group: str) -> tuple[str, Member]:
        return group, Member(KINDS[group], self._server.address, group, self._answered)

    def kill_one(self, draw: random.Random) -> None:
        """Kills a member, and begins another in its group."""
        number = draw.randrange(len(self.members))
        group, member = self.members[number]
        member.kill()
        self.members[number] = self._member(group)

    def close(self) -> None:
        self._stop.set()
        for _, member in self.members:
            member.kill()
        for thread in self._threads:
            thread.join(120)


def disturb(
    server: ServerProcess, clients: Clients, deeds: tuple[str, ...], draw: random.Random, end: float
) -> dict[str, list[int]]:
    """Does one of the deeds after the other until the end; returns generations that were seen, by group."""
    generations: dict[str, list[int]] = defaultdict(list)
    while time.monotonic() < end:
        time.sleep(draw.uniform(0.5, 2.0))    # a pace, nothing is waited for
        deed = draw.choice(deeds)
        if deed == "member":
            clients.kill_one(draw)
        elif deed == "join":
            group = draw.choice(GROUPS)
            until_led(server.address, [group])
            with Client(server.address) as client:
                generations[group].append(join_and_leave(client, group))
        else:
            if deed == "stop":
                assert server.stop(signal.SIGTERM) == 0
            else:
                server.stop(signal.SIGKILL)
            server.start()
    return generations


def until(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    """Waits until it is so; fails with `what` after a long time."""
    end = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < end, what()
        time.sleep(0.1)


def until_led(address: tuple[str, int], groups: list[str]) -> None:
    def is_led() -> bool:
        try:
            with Client(address) as client:
                for group in groups:
                    committed(client, group)
        except (AssertionError, OSError):
            return False
        return True

    until(is_led, lambda: f"the groups {groups} are not led")


def level_at_rest(server: ServerProcess) -> Level:
    """Its resources when all clients have gone, and the sessions of those that were killed have ended."""

    def is_at_rest() -> bool:
        level = server.level()
        # Groups without members stay admitted.
        return level.connections == level.timers == 0 and level.admissions <= len(PLAIN)

    until(is_at_rest, server.level)
    return server.level()


def run_clients(
    server: ServerProcess, answered: Answered, deeds: tuple[str, ...], draw: random.Random, seconds: float
) -> tuple[dict[str, list[int]], Level]:
    """Runs clients beside the deeds; returns generations, and what the server holds after that."""
    clients = Clients(server, answered)
    try:
        generations = disturb(server, clients, deeds, draw, time.monotonic() + seconds)
        # On a busy machine, a member may be killed before it has read its first message.
        until(lambda: answered.groups() >= {*GROUPS, *PLAIN}, lambda: f"no commit but of {answered.groups()}")
    finally:
        clients.close()
    return generations, level_at_rest(server)


def test_a_soak(tmp_path):
    seed = first_seed(14)
    print("seed", seed)
    draw = random.Random(seed)
    server = ServerProcess(tmp_path)
    answered = Answered()
    seconds = soak_seconds()
    try:
        with Client(server.address) as client:
            topic = CreateTopicsRequestTopic(TOPIC, PARTITIONS, 1)
            assert client.ask(CreateTopicsRequest((topic,)), 7).topics[0].error_code == 0
            client.ask(commit_of(OLD, 0, 1)._replace(retention_time_ms=OLD_MS), 4)
        deeds = ("member", "member", "join", "stop", "kill")
        generations, _ = run_clients(server, answered, deeds, draw, seconds * STOPS_SHARE)
        # From here on it is one process: what it holds has to come back to where it was.
        calm = ("member", "member", "join")
        halves = [run_clients(server, answered, calm, draw, seconds * (1 - STOPS_SHARE) / 2) for _ in range(2)]
        for more, _ in halves:
            for group, seen in more.items():
                generations[group].extend(seen)
        levels = [level for _, level in halves]
        print("answered", dict(answered.highest))
        print("generations", dict(generations))
        print("levels", *levels, sep="\n  ")
        check_at_end(server, answered, generations)
        check_levels(*levels)
        check_maintenance(server)
    finally:
        server.process.kill()
        server.process.wait(60)
        server.process.stdout.close()


def check_at_end(server: ServerProcess, answered: Answered, generations: dict[str, list[int]]) -> None:
    groups = [*PLAIN, *GROUPS]
    until_led(server.address, groups)
    with Client(server.address) as client:
        for group in groups:
            found = committed(client, group)
            for (name, partition), offset in answered.highest.items():
                assert name != group or found.get(partition, -1) >= offset, (group, partition)
        assert answered.groups() == set(groups)
        # No group is stuck: a member that comes is let in at once, in a newer generation each time.
        for group in GROUPS:
            seen = generations[group] + [join_and_leave(client, group) for _ in range(20)]
            assert seen == sorted(set(seen))


def check_levels(before: Level, after: Level) -> None:
    assert after.files <= before.files + OPEN_FILES_MORE
    assert after.memory_kib <= before.memory_kib + RSS_MORE_KIB


def check_maintenance(server: ServerProcess) -> None:
    """An expiry has taken place, and a clean in a soak that is long enough for it; both are waited for."""
    print("cleaned", server.counted(CLEANED), "expired", server.counted(EXPIRED))
    if soak_seconds() >= CLEAN_SECONDS:
        until(lambda: server.counted(CLEANED) > 0, server.samples)
    until(lambda: server.counted(EXPIRED) > 0, server.samples)
    with Client(server.address) as client:
        assert committed(client, OLD) == {}
