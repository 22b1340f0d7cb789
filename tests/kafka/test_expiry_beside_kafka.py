"""Expiry beside Kafka 4.3.0: copies of one directory, the same retention, the same groups left, the same tombstones.

Old records carry times of the past, so that no test waits for them to age.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from broker import KafkaBroker, copy_template
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_dump import dump_log
from server.running import Client, RunningServer

from offsetlog import MaintenanceConfig, OffsetAndMetadata, TopicPartition
from offsetlog._native.encoding import encode_key
from offsetlog.coordinator.group_record import KEY_TYPE, GroupRecord, MemberRecord
from offsetlog.protocol.messages import (
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

PARTITIONS = 4
NOW = int(time.time() * 1000)
HOUR = 3600 * 1000
DAY = 24 * HOUR
#: Three days ago; the retention is one.
OLD, YOUNG = NOW - 3 * DAY, NOW - HOUR
SETTINGS = {"offsets.retention.minutes": "1440", "offsets.retention.check.interval.ms": "200"}
BY_HAND = MaintenanceConfig(enabled=False, retention_ms=None)
SHORT = MaintenanceConfig(enabled=False, retention_ms=DAY, retention_check_interval_ms=200)
#: A subscription of version 0 to the topic "read".
READ = b"\0\0" + b"\0\0\0\1" + b"\0\4read" + b"\xff\xff\xff\xff"
#: The longest session that is allowed: the member stays.
SESSION_MS = 1_800_000


def position(committed: int, expires: int = -1) -> OffsetAndMetadata:
    return OffsetAndMetadata(42, "", -1, committed, expires)


def stable(protocol_type: str) -> GroupRecord:
    member = MemberRecord("member", None, "client", "/127.0.0.1", SESSION_MS, SESSION_MS, READ, b"")
    return GroupRecord(protocol_type, 3, "range", "member", OLD, (member,))


class Case(NamedTuple):
    """A group: its record, its positions by topic, and the topics that are left; None: the group is gone."""

    record: GroupRecord | None
    positions: dict[str, OffsetAndMetadata]
    left: set[str] | None


CASES = {
    "simple-old": Case(None, {"a": position(OLD), "b": position(OLD)}, None),
    "simple-young": Case(None, {"a": position(YOUNG)}, {"a"}),
    "simple-mixed": Case(None, {"a": position(OLD), "b": position(YOUNG)}, {"b"}),
    "made-and-never-joined": Case(GroupRecord("", 0, None, None, OLD), {"a": position(YOUNG)}, {"a"}),
    "made-and-old": Case(GroupRecord("", 0, None, None, YOUNG), {"a": position(OLD)}, None),
    "empty-old": Case(GroupRecord("consumer", 4, None, None, OLD), {"a": position(YOUNG)}, None),
    "empty-young": Case(GroupRecord("consumer", 4, None, None, YOUNG), {"a": position(OLD)}, {"a"}),
    "empty-without-a-time": Case(
        GroupRecord("consumer", 4, None, None, -1), {"a": position(OLD), "b": position(YOUNG)}, {"b"}
    ),
    "never-had-a-position": Case(GroupRecord("consumer", 2, None, None, NOW), {}, None),
    "own-time-over": Case(None, {"a": position(YOUNG, NOW - 1), "b": position(YOUNG)}, {"b"}),
    "own-time-later": Case(None, {"a": position(OLD, NOW + DAY)}, {"a"}),
    "own-time-of-an-empty-one": Case(
        GroupRecord("consumer", 4, None, None, OLD), {"a": position(OLD, NOW + DAY), "b": position(YOUNG)}, {"a"}
    ),
    "consumers": Case(stable("consumer"), {"read": position(OLD), "a": position(OLD), "b": position(YOUNG)},
                      {"read", "b"}),
    "consumers-own-time": Case(stable("consumer"), {"read": position(OLD, OLD), "a": position(OLD, OLD)}, {"read"}),
    "consumers-of-nothing-else": Case(stable("consumer"), {"a": position(OLD)}, set()),
    "connect": Case(stable("connect"), {"a": position(OLD)}, {"a"}),
}
#: Groups that have no record, for which Kafka writes a tombstone as well.
WITHOUT_RECORD = {name for name, case in CASES.items() if case.record is None and case.left is None}


def fill(log_dir: Path) -> None:
    with RunningServer(log_dir, partitions=PARTITIONS, kept={"maintenance": BY_HAND}) as running:
        log = running.server.node.manager.group_log
        for name, case in CASES.items():
            offsets = {TopicPartition(topic, 0): each for topic, each in case.positions.items()}
            if case.record is None:
                log.commit_async(name, offsets).result(20)
            else:
                record = (encode_key(KEY_TYPE, {"group": name}), case.record.to_value())
                log.write_async(name, [record], offsets=offsets).result(20)


def until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def groups_of(client: Client) -> set[str]:
    answer = client.ask(ListGroupsRequest(), 5)
    assert answer.error_code == 0
    return {each.group_id for each in answer.groups}


def topics_of(client: Client, group: str) -> set[str]:
    (found,) = client.ask(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=None),)), 9).groups
    assert found.error_code == 0
    return {topic.name for topic in found.topics}


def checks_pass(client: Client, turn: int) -> None:
    """Waits until each log partition was checked after now, by groups whose own time is over."""
    names = [f"witness-{turn}-{number}" for number in range(8 * PARTITIONS)]
    row = (OffsetCommitRequestTopicPartition(0, 1, -1),)
    topics = (OffsetCommitRequestTopic("witness", partitions=row),)
    for name in names:
        answer = client.ask(OffsetCommitRequest(name, retention_time_ms=1, topics=topics), 2)
        assert answer.topics[0].partitions[0].error_code == 0
    until(lambda: not groups_of(client) & set(names))


def expired(address: tuple[str, int]) -> dict[str, set[str] | None]:
    """The topics that each group has left, None where the group is gone."""
    admin = AdminClient({"bootstrap.servers": "{}:{}".format(*address)})
    admin.create_topics([NewTopic("witness", 1, 1)])["witness"].result(30)
    gone = {name for name, case in CASES.items() if case.left is None}
    with Client(address) as client:
        until(lambda: not groups_of(client) & gone)
        for turn in (1, 2):
            checks_pass(client, turn)
        left = groups_of(client)
        return {name: topics_of(client, name) if name in left else None for name in CASES}


def tombstones(packages, log_dir: Path) -> dict[str, list[tuple[str, str]]]:
    """The tombstones of each group in the order of the log: the kind of record, and the topic."""
    found = defaultdict(list)
    files = sorted(log_dir.glob("__consumer_offsets-*/*.log"))
    for record in dump_log(packages, files).records:
        if record.value != "<DELETE>" and record.value is not None:
            continue
        assert isinstance(record.key, dict), record
        data = record.key["data"]
        if data["group"] in CASES:
            found[data["group"]].append((str(record.key["type"]), data.get("topic", "")))
    return dict(found)


@pytest.fixture(scope="module")
def both(kafka_packages, kafka_template, tmp_path_factory):
    origin = copy_template(kafka_template(PARTITIONS), tmp_path_factory.mktemp("origin") / "data")
    fill(origin)
    ours, theirs = tmp_path_factory.mktemp("ours") / "data", tmp_path_factory.mktemp("theirs") / "data"
    for copy in (ours, theirs):
        shutil.copytree(origin, copy)
    with KafkaBroker(kafka_packages, theirs, tmp_path_factory.mktemp("work"), settings=SETTINGS) as broker:
        broker.wait_until_loaded(PARTITIONS)
        host, _, port = broker.bootstrap.rpartition(":")
        left_there = expired((host, int(port)))
    with RunningServer(ours, partitions=PARTITIONS, kept={"maintenance": SHORT}) as running:
        left_here = expired(running.address)
    logs = tombstones(kafka_packages, theirs), tombstones(kafka_packages, ours)
    return (left_there, logs[0]), (left_here, logs[1])


@pytest.mark.parametrize("name", CASES)
def test_the_same_is_left_as_in_kafka(both, name):
    (theirs, _), (ours, _) = both
    assert theirs[name] == CASES[name].left
    assert ours[name] == theirs[name]


@pytest.mark.parametrize("name", CASES)
def test_the_tombstones_are_those_of_kafka(both, name):
    (_, theirs), (_, ours) = both
    there, here = theirs.get(name, []), ours.get(name, [])
    if name in WITHOUT_RECORD:
        # Kafka deletes the record of such a group as well, which it does not have.
        assert ("2", "") not in here
        here = [*here, ("2", "")]
    assert sorted(here) == sorted(there)
    # The group goes last, so that no part of the log says that it has nothing and positions at once.
    assert ("2", "") not in there[:-1] + here[:-1]
