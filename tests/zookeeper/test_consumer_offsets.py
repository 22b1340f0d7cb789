"""The offsets of old consumers: where they stand, what is no offset, and what real consumers left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offsetlog import TopicPartition, errors
from offsetlog.zookeeper.connection import NodeStat
from offsetlog.zookeeper.consumer_offsets import (
    OffsetNode,
    check_group,
    check_topic,
    data_of,
    groups_in,
    is_node_name,
    offset_in,
    offset_node,
    read_offsets,
    text_of,
)
from offsetlog.zookeeper.operations import Create

DATA = Path(__file__).parents[1] / "data"
STAT = NodeStat(0, 0, 0, 0, 0)


def create_all(connection, node: str, data: bytes = b"") -> None:
    parts = node.strip("/").split("/")
    for count in range(1, len(parts) + 1):
        try:
            connection.create("/" + "/".join(parts[:count]), data if count == len(parts) else b"")
        except errors.NodeExistsError:
            continue


@pytest.mark.parametrize("offset", [0, 1, 41, 2**31, 2**63 - 1])
def test_an_offset_is_its_decimal_number(offset):
    assert data_of(offset) == str(offset).encode()
    assert offset_in(data_of(offset), "/n") == offset
    assert offset_in(b"00" + data_of(offset) if offset < 10**16 else data_of(offset), "/n") == offset


@pytest.mark.parametrize(
    "data", [None, b"", b" 1", b"1 ", b"-1", b"+1", b"1.0", b"x", b"1\n", b"\xff", str(2**63).encode(), b"1" * 100_000]
)
def test_what_is_no_offset_is_reported_with_its_node(data):
    with pytest.raises(errors.CorruptionError) as caught:
        offset_in(data, "/consumers/g/offsets/t/0")
    assert caught.value.path == "/consumers/g/offsets/t/0"
    assert len(str(caught.value)) < 300


def test_whatever_a_node_holds_becomes_a_short_text():
    assert [text_of(data) for data in (None, b"", b"41", b"\xff")] == [None, "", "41", "\ufffd"]
    assert text_of(str(2**63 - 1).encode()) == str(2**63 - 1)
    assert text_of(b"1" * 1_000_000) == "1" * 100


@pytest.mark.parametrize("name", ["x", "-1", "1x", "", "01", str(2**31), "1" * 50])
def test_what_is_no_partition_is_reported_with_its_node(name):
    with pytest.raises(errors.CorruptionError) as caught:
        OffsetNode("g", "t", name, b"1", STAT).key()
    assert caught.value.path == f"/consumers/g/offsets/t/{name}"


def test_names_that_no_node_can_have_are_refused():
    for name in ("", ".", "..", "a/b", "a\0", "\x01", "\x7f", "\ue000", "\ufff0", "\U0001f600"):
        assert not is_node_name(name)
        with pytest.raises(errors.GroupError):
            check_group(name)
        with pytest.raises(errors.TopicError):
            check_topic(name)
    for name in ("a", "...", "gr\u00fcn", "a b"):
        assert is_node_name(name)


def test_zookeeper_takes_exactly_those_names(connection):
    for code in [
        *range(1, 0x180),
        0x2028,
        0xD7FF,
        0xE000,
        0xF8FF,
        0xF900,
        0xFFEF,
        0xFFF0,
        0xFFFF,
        0x10000,
        0x1F600,
        0x10FFFF,
    ]:
        name = f"a{chr(code)}b"
        if chr(code) == "/":
            continue
        try:
            connection.create(f"/{name}")
            taken = True
        except errors.ZooKeeperError:
            taken = False
        assert taken == is_node_name(name), hex(code)


def test_offsets_are_read_in_order_with_few_or_many_questions_outstanding(connection):
    with pytest.raises(errors.InvalidArgumentError, match="no node /consumers"):
        groups_in(connection)
    wanted = []
    for group in ("a", "b", "idle", "\u00fc"):
        create_all(connection, f"/consumers/{group}/ids")
        for topic in ("s", "t") if group != "idle" else ():
            create_all(connection, f"/consumers/{group}/offsets/{topic}")
            operations = []
            for partition in range(12):
                node = offset_node(group, TopicPartition(topic, partition))
                operations.append(Create(node, data_of(partition * 7)))
                wanted.append((group, TopicPartition(topic, partition), partition * 7))
            connection.multi(operations)
    groups = groups_in(connection)
    assert groups == ["a", "b", "idle", "\u00fc"]
    for in_flight in (1, 5, 64):
        found = list(read_offsets(connection, [*groups, "nobody"], in_flight))
        assert sorted((each.group, each.key(), each.offset()) for each in found) == sorted(wanted)
        assert all(each.stat.version == 0 and each.stat.modified_ms > 1_600_000_000_000 for each in found)


@pytest.mark.parametrize("release", ["0.8.2.2", "0.9.0.1-lz4", "0.10.2.2-snappy", "1.1.1-lz4"])
def test_real_consumers_nodes_are_their_offsets(connection, release):
    folder = DATA / "kafka-old" / release / "expected"
    lines = (folder / "znodes.tsv").read_text().splitlines()
    for line in lines:
        node, value = line.split("\t", 1)
        text = json.loads(value)
        if node != "/" and not node.startswith("/zookeeper"):
            create_all(connection, node, b"" if text is None else text.encode())
    nodes = {}
    for line in lines:
        node, value = line.split("\t", 1)
        if "/offsets/" in node and node.count("/") == 5:
            _, _, group, _, topic, partition = node.split("/")
            nodes[group, TopicPartition(topic, int(partition))] = int(json.loads(value))
    answered = {}
    for line in (folder / "offsets-zookeeper.tsv").read_text().splitlines():
        group, topic, partition, offset, _ = line.split("\t")
        answered[group, TopicPartition(topic, int(partition))] = int(offset)
    found = {(each.group, each.key()): each.offset() for each in read_offsets(connection, groups_in(connection))}
    assert found == nodes
    # Kafka's own answers, of the groups that it was asked for.
    assert answered
    assert answered.items() <= found.items()
