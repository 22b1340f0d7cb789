"""Positions named by one argument: our own TopicPartition, a tuple, and the objects of other clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import aiokafka.structs
import confluent_kafka
import kafka.structs
import pytest

import offsetlog
from offsetlog import OffsetAndMetadata, TopicPartition, errors
from offsetlog.manager.checked_offsets import checked_key, checked_offsets

KINDS: dict[str, Any] = {
    "ours": TopicPartition,
    "tuple": lambda topic, partition: (topic, partition),
    "confluent-kafka": confluent_kafka.TopicPartition,
    "confluent-kafka with an offset": lambda topic, partition: confluent_kafka.TopicPartition(topic, partition, 77),
    "kafka-python": kafka.structs.TopicPartition,
    "aiokafka": aiokafka.structs.TopicPartition,
}
KEY = TopicPartition("orders", 3)


@pytest.fixture
def store(tmp_path) -> Iterator[offsetlog.OffsetStore]:
    with offsetlog.open(tmp_path / "data", durability="process") as opened:
        yield opened


@pytest.fixture(params=KINDS)
def key(request) -> Any:
    return KINDS[request.param]("orders", 3)


def test_one_position(store, key):
    assert store.commit_one("g", key, 42) == 0
    assert store.fetch_one("g", key).offset == store.fetch_one("g", "orders", 3).offset == 42
    store.commit_one("g", key, offset=43, metadata="m", leader_epoch=2)
    assert store.fetch_one("g", key)[:3] == (43, "m", 2)
    with pytest.raises(errors.RewindError) as refused:
        store.commit_one("g", key, 42, monotonic=True)
    assert (refused.value.asked, refused.value.actual) == (42, 43)
    assert store.fetch_one("g", key).offset == 43


def test_every_call_that_takes_keys(store, key):
    assert store.commit("g", {key: 1}).log_offset == 0
    with pytest.raises(errors.ExpectedOffsetError) as refused:
        store.commit("g", {key: 2}, expected={key: 7})
    assert refused.value.actual == 1
    store.commit("g", {key: OffsetAndMetadata(2, "m")}, expected={key: 1})
    store.commit_async("g", {key: 3}, monotonic=True).result()
    with store.transaction("g", 7) as transaction:
        transaction.commit({key: 4})
    assert store.fetch("g", [key])[KEY].offset == 4
    assert list(store.fetch("g", [key], at=3)) == [KEY]
    assert [change.after.offset for change in store.restore("g", 1, [key])] == [1]
    assert store.delete("g", [key]) == 1
    assert [change.after.offset for change in store.undelete("g", [key]).restored] == [1]
    assert checked_key(key) == KEY


@pytest.mark.parametrize(
    "value",
    [OffsetAndMetadata(5, "m", 2), (5, "m", 2), kafka.structs.OffsetAndMetadata(5, "m", 2)],
    ids=["ours", "tuple", "kafka-python"],
)
def test_a_value_with_metadata(store, value):
    store.commit_one("g", "orders", 3, value)
    store.commit_one("g", ("orders", 4), value, monotonic=True)
    assert [store.fetch_one("g", "orders", number)[:3] for number in (3, 4)] == [(5, "m", 2)] * 2
    store.commit("g", {("orders", 5): aiokafka.structs.OffsetAndMetadata(6, "n")})
    assert store.fetch_one("g", ("orders", 5))[:3] == (6, "n", -1)
    with pytest.raises(errors.ArgumentTypeError, match="must not be passed with an OffsetAndMetadata"):
        store.commit_one("g", "orders", 3, value, "other")


def test_monotonic(store):
    store.commit_one("g", "orders", 3, 5, monotonic=True)
    store.commit_one("g", "orders", 3, 5, monotonic=True)
    with pytest.raises(errors.RewindError, match="orders:3") as refused:
        store.commit_one("g", "orders", 3, 4, monotonic=True)
    assert refused.value.item == KEY
    assert store.commit_one("g", "orders", 3, 4) == 2


THEIRS = confluent_kafka.TopicPartition("orders", 3, 77)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda store: store.commit_one("g", THEIRS), r"no offset follows the key .* each, each\.offset\)"),
        (lambda store: store.commit_one("g", THEIRS, THEIRS), r"orders:3: the offset must be an int.*its \.offset"),
        (lambda store: store.commit_one("g", KEY, 3, 42), "orders:3 is passed as one key"),
        (lambda store: store.commit_one("g", KEY, 42, "metadata"), "orders:3 is passed as one key"),
        (lambda store: store.commit_one("g", 5, 3, 42), "the topic must be a str, not int"),
        (lambda store: store.commit_one("g", ("orders",), 42), "a key must be a TopicPartition or a tuple"),
        (lambda store: store.commit_one("g", ("orders", []), 42), "a key must be a TopicPartition or a tuple"),
        (lambda store: store.commit_one("g", "orders", 3), "the offset is missing: pass the next .*an int or an"),
        (lambda store: store.commit_one("g", "orders", 3, "4"), "the offset must be an int, not str"),
        (lambda store: store.commit("g", {KEY: None}), "orders:3: the offset is missing: pass the next offset"),
        (lambda store: checked_offsets({KEY: None}, 100), "the offset is missing: pass the next offset"),
        (lambda store: store.fetch_one("g", KEY, 3), "orders:3 is passed as one key"),
        (lambda store: store.fetch_one("g", b"orders", 3), "the topic must be a str, not bytes"),
        (lambda store: store.fetch_one("g", "orders"), "the partition must be an int.*; name a position by a topic"),
        (
            lambda store: store.commit("g", [THEIRS]),
            r"a mapping, not list; convert .*\{\(each\.topic, each\.partition\): each",
        ),
        (lambda store: store.commit("g", {THEIRS: THEIRS}), r"the offset must be an int.*pass its \.offset"),
        (lambda store: store.commit("g", {"orders": 1}), "a key must be a TopicPartition or a tuple"),
        (lambda store: store.commit("g", {THEIRS: 1, KEY: 2}), "orders:3 appears more than once"),
        (lambda store: store.fetch("g", THEIRS), "must be a list of TopicPartition"),
        (lambda store: store.fetch("g", ["orders"]), "'orders' is not one"),
    ],
)
def test_a_refusal_says_what_to_write(store, call, reason):
    with pytest.raises(errors.InvalidArgumentError, match=reason):
        call(store)
    assert store.groups() == []


def test_a_key_that_is_given_twice_has_its_error(store):
    for call in (store.commit, lambda group, values: store.commit(group, {KEY: 1}, expected=values)):
        with pytest.raises(errors.DuplicateKeyError, match="orders:3 appears more than once") as refused:
            call("g", {THEIRS: 1, KEY: 2})
        assert refused.value.item == KEY


def test_an_error_names_the_key_of_the_other_client(store):
    with pytest.raises(errors.OffsetError, match=r"^orders:3: the offset must be from 0") as refused:
        store.commit("g", {THEIRS: -1001})
    assert refused.value.item is THEIRS
