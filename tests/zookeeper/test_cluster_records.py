"""Kafka's nodes: those of every version are read, what is written has Kafka's bytes, and hostile ones are refused."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from offsetlog import errors
from offsetlog.zookeeper.cluster_records import (
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    Assignment,
    BrokerRecord,
    ControllerRecord,
    Endpoint,
    PartitionState,
    TopicRecord,
    broker_node,
    cluster_id_in,
    cluster_id_json,
    controller_epoch_in,
    new_id,
    state_node,
    topic_node,
)
from offsetlog.zookeeper.kafka_json import immutable_map, mutable_map

REPOSITORY = Path(__file__).parent.parent.parent
DATA = REPOSITORY / "tests" / "data" / "kafka-old"
SHARED = Path(os.environ.get("OFFSETLOG_SHARED", REPOSITORY.parent / "shared")) / "data" / "kafka-old"
TREES = sorted(
    {each.parent.parent.name: each for root in (DATA, SHARED) for each in root.glob("*/expected/znodes.tsv")}.values()
)

#: Nodes that Kafka 3.9.1 wrote.
BROKER_39 = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:22047"]'
    b',"jmx_port":-1,"port":22047,"host":"127.0.0.1","version":5,"timestamp":"1795250444824"}'
)
TOPIC_39 = (
    b'{"partitions":{"0":[1],"1":[1],"2":[1],"3":[1]},"topic_id":"1jlxlOlnTny3cBedEtmBHw","adding_replicas":{},'
    b'"removing_replicas":{},"version":3}'
)
STATE_39 = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
CONTROLLER_39 = b'{"version":2,"brokerid":1,"timestamp":"1795250444961","kraftControllerEpoch":-1}'
CLUSTER_39 = b'{"version":"1","id":"_VUH8j-wT8-bu3q0dBUOWw"}'


def nodes_of(tree: Path) -> dict[str, bytes | None]:
    lines = (line.split("\t", 1) for line in tree.read_text().splitlines())
    return {node: None if text == "null" else json.loads(text).encode() for node, text in lines}


def written_again(node: str, data: bytes) -> tuple[int, bytes] | None:
    """The version that is read, and what is written for it; None for a node of another kind."""
    match node.strip("/").split("/"):
        case ["brokers", "ids", number]:
            broker = BrokerRecord.from_json(int(number), data)
            assert (broker.broker_id, broker.jmx_port) == (int(number), -1)
            assert broker.endpoints == (Endpoint("PLAINTEXT", "127.0.0.1", broker.endpoints[0].port, "PLAINTEXT"),)
            assert broker.timestamp_ms > 1_700_000_000_000
            return broker.version, broker.to_json()
        case ["brokers", "topics", topic]:
            record = TopicRecord.from_json(topic, data)
            assert set(record.partitions.values()) == {Assignment((1,))}
            return record.version, record.to_json()
        case ["brokers", "topics", topic, "partitions", number, "state"]:
            state = PartitionState.from_json(topic, int(number), data)
            assert (state.leader, state.isr) == (1, (1,))
            return 1, state.to_json()
        case ["controller"]:
            controller = ControllerRecord.from_json(data)
            assert controller.broker_id == 1
            return controller.version, controller.to_json()
        case ["controller_epoch"]:
            return 0, b"%d" % controller_epoch_in(data)
        case ["cluster", "id"]:
            return 1, cluster_id_json(cluster_id_in(data))
    return None


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.parent.parent.name)
def test_the_nodes_of_every_kafka_are_read_and_written_as_it_wrote_them(tree):
    latest = {"ids": 5, "topics": 3, "controller": 2}
    kinds = set()
    for node, data in nodes_of(tree).items():
        found = None if data is None else written_again(node, data)
        if found is None:
            continue
        version, again = found
        kind = node.strip("/").split("/")[-1 if node.count("/") == 1 else 1]
        is_state = node.endswith("/state")
        kinds.add("state" if is_state else kind)
        if is_state or version == latest.get(kind, version):
            assert again == data, node
        else:
            assert json.loads(again)["version"] == latest[kind]
    assert kinds >= {"ids", "topics", "state", "controller", "controller_epoch"}


def test_what_is_written_has_the_bytes_of_kafka():
    broker = BrokerRecord(
        broker_id=1, endpoints=(Endpoint.parse("PLAINTEXT://127.0.0.1:22047"),), timestamp_ms=1795250444824
    )
    assert broker.to_json() == BROKER_39
    assignments = {partition: Assignment((1,)) for partition in range(4)}
    topic = TopicRecord(topic="t", partitions=assignments, topic_id="1jlxlOlnTny3cBedEtmBHw")
    assert topic.to_json() == TOPIC_39
    assert PartitionState(leader=1, leader_epoch=0, isr=(1,), controller_epoch=1).to_json() == STATE_39
    assert ControllerRecord(broker_id=1, timestamp_ms=1795250444961).to_json() == CONTROLLER_39
    assert cluster_id_json("_VUH8j-wT8-bu3q0dBUOWw") == CLUSTER_39


def test_a_broker_with_all_that_it_can_have_is_read_again():
    endpoints = (
        Endpoint("INTERNAL", "10.0.0.1", 9092, "PLAINTEXT"),
        Endpoint("EXTERNAL", "kafka-1.example", 9093, "SASL_SSL"),
        Endpoint("V6", "fe80::1", 9094, "SSL"),
        Endpoint("ANY", "", 9095, "SSL"),
    )
    assert [str(each) for each in endpoints[2:]] == ["V6://[fe80::1]:9094", "ANY://:9095"]
    given = BrokerRecord(
        broker_id=7,
        endpoints=endpoints,
        rack="ra\u00e7k-1",
        features={"feature": {"min_version": 1, "max_version": 3}},
        jmx_port=9999,
        timestamp_ms=2233345666,
    )
    assert BrokerRecord.from_json(7, given.to_json()) == given
    values = json.loads(given.to_json())
    assert (values["host"], values["port"], values["rack"]) == ("10.0.0.1", 9092, "ra\u00e7k-1")
    without_plaintext = BrokerRecord(broker_id=7, endpoints=endpoints[1:])
    values = json.loads(without_plaintext.to_json())
    assert (values["host"], values["port"]) == (None, -1)
    assert BrokerRecord.from_json(7, without_plaintext.to_json()) == without_plaintext


@pytest.mark.parametrize("version", range(1, 7))
def test_registrations_of_each_version_are_read_whatever_else_they_have(version):
    values = {"version": version, "host": "h", "port": 9092, "jmx_port": 1, "timestamp": "22", "later": {"a": [1]}}
    endpoints = (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),)
    if version >= 2:
        values["endpoints"] = ["PLAINTEXT://h:9092", "SSL://h:9093"]
        endpoints += (Endpoint("SSL", "h", 9093, "SSL"),)
    if version >= 3:
        values["rack"] = "r"
    if version >= 4:
        values["listener_security_protocol_map"] = {"PLAINTEXT": "PLAINTEXT", "SSL": "SASL_SSL"}
        endpoints = (*endpoints[:1], Endpoint("SSL", "h", 9093, "SASL_SSL"))
    if version >= 5:
        values["features"] = {"f": {"min_version": 1}}
    found = BrokerRecord.from_json(3, json.dumps(values).encode())
    assert (found.version, found.endpoints, found.jmx_port, found.timestamp_ms) == (version, endpoints, 1, 22)
    assert (found.rack, bool(found.features)) == ("r" if version >= 3 else None, version >= 5)


def test_reassignments_and_recovering_leaders_are_read_again():
    partitions = {0: Assignment((1, 2, 3), (3,), (1,)), 11: Assignment((2, 1)), 5: Assignment(())}
    topic = TopicRecord(topic="t", partitions=partitions)
    assert TopicRecord.from_json("t", topic.to_json()) == topic
    assert b"topic_id" not in topic.to_json()
    state = PartitionState(leader=-1, leader_epoch=9, isr=(), controller_epoch=4, recovery_state=1)
    assert PartitionState.from_json("t", 0, state.to_json()) == state


def test_the_order_of_fields_is_that_of_scalas_maps():
    # As a map with 14 partitions stands in Kafka 3.9: it has grown once.
    names = [str(number) for number in range(14)]
    assert list(mutable_map((name, 0) for name in names)) == ["11", "12", "13", *names[:11]]
    assert list(immutable_map([("b", 0), ("a", 0)])) == ["b", "a"]
    # Equal hashes of Java, which no floor of a trie tells apart.
    assert set(immutable_map([(name, 0) for name in ("AaAa", "BBBB", "AaBB", "BBAa", "C")])) == {
        "AaAa",
        "BBBB",
        "AaBB",
        "BBAa",
        "C",
    }


READERS = {
    broker_node(1): (BROKER_39, lambda data: BrokerRecord.from_json(1, data)),
    topic_node("t"): (TOPIC_39, lambda data: TopicRecord.from_json("t", data)),
    state_node("t", 2): (STATE_39, lambda data: PartitionState.from_json("t", 2, data)),
    CONTROLLER: (CONTROLLER_39, ControllerRecord.from_json),
    CONTROLLER_EPOCH: (b"12", controller_epoch_in),
    CLUSTER_ID: (CLUSTER_39, cluster_id_in),
}
HOSTILE = [
    None,
    b"",
    b"null",
    b"[]",
    b"{",
    b"\xff\xfe",
    b"[" * 200_000,
    b'{"a":' * 100_000,
    b"9" * 5_000,
    b'{"version":' + b"9" * 5_000 + b"}",
    b'{"version":NaN}',
    b"{}" + b" " * (5 << 20),
    b"-1",
    b"2147483648",
    "١".encode(),
]


@pytest.mark.parametrize("node", READERS)
def test_hostile_bytes_are_an_error_with_the_path_of_the_node(node):
    _, read = READERS[node]
    for data in HOSTILE:
        with pytest.raises(errors.CorruptionError) as caught:
            read(data)
        assert caught.value.path == node
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("node", READERS)
def test_changed_nodes_are_read_or_refused_by_path(node):
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    data, read = READERS[node]
    odd = [None, True, -1, 2**40, 1.5, "x", "", [], [None], ["a"], [-2], {}, {"0": "x"}, {"x": [1]}, {"0": [1, 1]}]
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        cases = [bytes(changed), data[: chance.randrange(len(data))]]
        if data.startswith(b"{"):
            values = json.loads(data)
            values[chance.choice(list(values))] = chance.choice(odd)
            cases.append(json.dumps(values).encode())
        for case in cases:
            failed_at = node
            try:
                read(case)
            except errors.CorruptionError as failure:
                failed_at = failure.path
            assert failed_at == node, case


def test_values_that_no_node_can_have_are_refused():
    endpoint = Endpoint("PLAINTEXT", "h", 1, "PLAINTEXT")
    for broker in (
        {"broker_id": -1, "endpoints": (endpoint,)},
        {"broker_id": 1, "endpoints": ()},
        {"broker_id": 1, "endpoints": (endpoint._replace(host="a b"),)},
        {"broker_id": 1, "endpoints": (endpoint._replace(port=70_000),)},
        {"broker_id": 1, "endpoints": (endpoint,), "rack": "a\nb"},
        {"broker_id": 1, "endpoints": (endpoint,), "rack": "a\udc80"},
    ):
        with pytest.raises(errors.InvalidArgumentError):
            BrokerRecord(**broker)
    for text in ("h:9092", "PLAINTEXT://h", "PLAINTEXT://h:99999", "://h:1", "A://h:1 "):
        with pytest.raises(errors.InvalidArgumentError):
            Endpoint.parse(text)
    with pytest.raises(errors.InvalidArgumentError, match="has no entry for the listener"):
        Endpoint.parse("A://h:1", {"B": "SSL"})
    with pytest.raises(errors.TopicError):
        TopicRecord(topic="a/b", partitions={})
    with pytest.raises(errors.InvalidArgumentError):
        TopicRecord(topic="t", partitions={}, topic_id="short")
    with pytest.raises(errors.InvalidArgumentError):
        PartitionState(leader=-2, leader_epoch=0, isr=(), controller_epoch=0)
    with pytest.raises(errors.UnsupportedVersionError):
        cluster_id_in(b'{"version":"2","id":"_VUH8j-wT8-bu3q0dBUOWw"}')


def test_a_new_id_is_22_characters_without_a_dash_in_front():
    found = {new_id() for _ in range(500)}
    assert len(found) == 500
    assert all(len(each) == 22 and not each.startswith("-") for each in found)
    assert all(cluster_id_in(cluster_id_json(each)) == each for each in found)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("host", {"version": 1, "host": "\ud800", "port": 9092}),
        ("endpoints", {"version": 4, "endpoints": ["PLAINTEXT://\udfff:9092"], "listener_security_protocol_map": {}}),
        ("rack", {"version": 3, "host": "a", "port": 1, "endpoints": ["PLAINTEXT://a:1"], "rack": "r\ud800"}),
    ],
)
def test_half_a_character_that_json_escapes_is_refused_where_it_stands(field, fields):
    data = json.dumps(fields).encode()
    with pytest.raises(errors.CorruptionError, match=f"the field '{field}' has half a surrogate pair") as failed:
        BrokerRecord.from_json(1, data)
    assert failed.value.path == broker_node(1)
    str(failed.value).encode()


def test_half_a_character_is_not_written():
    endpoint = Endpoint("PLAINTEXT", "h", 1, "PLAINTEXT")
    record = BrokerRecord(broker_id=1, endpoints=(endpoint,), features={"f\udc80": {"min_version": 1}})
    with pytest.raises(errors.InvalidArgumentError, match="not UTF-8"):
        record.to_json()
