"""Arguments of calls about positions: integers of any type, and errors that are ours, short, and keep secrets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import aiokafka.structs
import kafka.consumer.fetcher
import numpy
import pyarrow
import pytest

import offsetlog
from offsetlog import OffsetAndMetadata, TopicPartition, errors
from offsetlog._native.codec import partition_for
from offsetlog.manager.checked_offsets import checked_key
from offsetlog.shown_values import shown, shown_key

SECRET = "card 4111"
KEY = TopicPartition("orders", 0)
HUGE = 10**5000


def record_of(kind: Any) -> Any:
    """A record as a client's consumer gives it, with a payload of 100 kB and whatever else it wants."""
    given: dict[str, Any] = dict.fromkeys(inspect.signature(kind).parameters)
    given.update(topic="orders", partition=0, offset=41, value=SECRET.encode() * 10_000)
    return kind(**given)


RECORDS = {
    "kafka-python": record_of(kafka.consumer.fetcher.ConsumerRecord),
    "aiokafka": record_of(aiokafka.structs.ConsumerRecord),
}


@pytest.fixture
def store(tmp_path) -> Iterator[offsetlog.OffsetStore]:
    with offsetlog.open(tmp_path / "data", durability="process") as opened:
        yield opened


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_a_record_of_a_client_names_its_partition(store, record):
    store.commit_one("g", record, record.offset + 1)
    assert store.fetch_one("g", record).offset == 42
    assert list(store.fetch("g", [record])) == [KEY]
    assert store.delete("g", [record]) == 1
    assert checked_key(record) == KEY


LONG = "x" * 50_000


@pytest.mark.parametrize(
    "call",
    [
        lambda store, record: store.commit_one("g", record),
        lambda store, record: store.commit_one("g", record, 1, 2),
        lambda store, record: store.commit_one("g", record, record),
        lambda store, record: store.fetch_one("g", record, 1),
        lambda store, record: store.fetch("g", record),
        lambda store, record: store.fetch("g", [LONG]),
        lambda store, record: store.fetch("g", [(record, 1, 2)]),
        lambda store, record: store.commit_one("g", (record, 1, 2), 1),
        lambda store, record: store.commit("g", {(LONG, 0): 1}),
        lambda store, record: store.commit("g", {(LONG, 0, 0): 1}),
        lambda store, record: store.commit("g", {KEY: 1}, expected={(LONG[:30_000], 0): 1}),
        lambda store, record: store.commit("g", {KEY: 1}, expected={LONG: 1}),
        lambda store, record: checked_key((record, 0, 1)),
        lambda store, record: checked_key(LONG.encode()),
    ],
)
@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_a_message_holds_no_payload_and_is_short(store, record, call):
    with pytest.raises(errors.InvalidArgumentError) as refused:
        call(store, record)
    assert len(str(refused.value)) < 700
    assert SECRET not in str(refused.value)
    assert "ConsumerRecord(" not in str(refused.value)
    assert store.groups() == []


@pytest.mark.parametrize("kind", [numpy.int64, numpy.uint16, numpy.array])
def test_an_integer_of_any_type_is_a_partition(store, kind):
    theirs = SimpleNamespace(topic="orders", partition=kind(0))
    for key in (theirs, ("orders", kind(0))):
        store.commit_one("g", key, kind(7))
        assert store.fetch_one("g", key).offset == 7
        [found] = store.fetch("g", [key])
        assert found == KEY
        assert type(found[1]) is int
        [found] = store.fetch("g", [key], at=1)
        assert type(found[1]) is int
        assert store.delete("g", [key]) == 1
    store.commit("g", {("orders", kind(0)) if kind in (numpy.int64, numpy.uint16) else KEY: kind(8)})
    assert store.fetch_one("g", "orders", kind(0)).offset == 8


@pytest.mark.parametrize("wrong", [True, numpy.bool_(True), "0", 0.0, [0], numpy.array([1, 2])])
def test_what_is_no_integer_is_refused_as_a_partition(store, wrong):
    theirs = SimpleNamespace(topic="orders", partition=wrong)
    for call in (
        lambda: store.commit_one("g", theirs, 1),
        lambda: store.commit_one("g", "orders", wrong, 1),
        lambda: store.fetch_one("g", theirs),
        lambda: store.fetch("g", [theirs]),
        lambda: store.fetch("g", [("orders", wrong)]),
    ):
        with pytest.raises(errors.ArgumentTypeError, match=r"partition must be an int|is not one$|a key must be"):
            call()


class Shifting:
    """Has `items`, of which nothing can be made."""

    def __init__(self, items: Any) -> None:
        self.items = items


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda store: store.delete("g", [("t", [])]), r"\('t', list\) is not one"),
        (lambda store: store.fetch("g", [("t", ([],))]), r"\('t', a tuple of 1\) is not one"),
        (lambda store: store.commit("g", Shifting(5)), "the offsets must be a mapping, not Shifting"),
        (lambda store: store.commit("g", Shifting(lambda: 5)), r"items\(\) of this Shifting returns no pairs: 'int'"),
        (lambda store: store.commit("g", Shifting(lambda: [5])), r"returns no pairs: cannot convert"),
        (lambda store: store.commit("g", Shifting(lambda: [(1, 2, 3)])), r"returns no pairs: .*length 3"),
        (lambda store: store.commit("g", Shifting(lambda: [([], 1)])), r"returns no pairs: unhashable type: 'list'"),
        (lambda store: store.commit("g", {KEY: 1}, expected=Shifting(5)), "must be a mapping, not Shifting"),
    ],
)
def test_a_wrong_type_is_an_error_of_ours(store, call, says):
    with pytest.raises(errors.ArgumentTypeError, match=says):
        call(store)


def test_an_error_of_the_mapping_itself_is_not_changed(store):
    def items() -> Any:
        raise TypeError("the caller's own")

    with pytest.raises(TypeError, match=r"^the caller's own$") as raised:
        store.commit("g", Shifting(items))
    assert not isinstance(raised.value, errors.OffsetLogError)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda store: store.commit_one("g", "t", 0, HUGE), errors.OffsetError),
        (lambda store: store.commit_one("g", "t", -HUGE, 1), errors.PartitionError),
        (lambda store: store.commit_one("g", "t", 0, 1, "", HUGE), errors.InvalidArgumentError),
        (lambda store: store.commit("g", {("t", HUGE): 1}), errors.PartitionError),
        (lambda store: store.commit("g", {("t", 0): (1, "", 0, HUGE)}), errors.InvalidArgumentError),
        (lambda store: store.commit("g", {KEY: 1}, expected={KEY: HUGE}), errors.OffsetError),
        (lambda store: store.commit("g", {KEY: 1}, expected={("t", HUGE): 1}), errors.InvalidArgumentError),
        (lambda store: store.fetch("g", [("t", HUGE)]), errors.PartitionError),
        (lambda store: store.fetch("g", at=HUGE), errors.ConfigError),
        (lambda store: offsetlog.open(store.path, HUGE), errors.ConfigError),
        (lambda store: offsetlog.open(store.path, lock_timeout=HUGE), errors.ConfigError),
        (lambda store: store.compact(ratio=HUGE), errors.ConfigError),
        (lambda store: store.commit_async("g", {KEY: 1}).result(-HUGE), errors.InvalidArgumentError),
        (lambda store: offsetlog.StoreConfig(segment_bytes=HUGE), errors.ConfigError),
        (lambda store: checked_key(("t", HUGE)), errors.PartitionError),
    ],
)
def test_a_number_of_thousands_of_digits_is_refused_by_its_size(store: Any, call: Callable[[Any], Any], error):
    with pytest.raises(error, match=r"a number of 16610 bits"):
        call(store)


@pytest.mark.parametrize("wrong", [-1.0, True, "-1", None])
def test_a_leader_epoch_is_an_int(store, wrong):
    for call in (
        lambda: store.commit_one("g", KEY, 1, leader_epoch=wrong),
        lambda: store.commit_one("g", "orders", 0, 1, leader_epoch=wrong),
    ):
        with pytest.raises(errors.ArgumentTypeError, match="the leader epoch must be an int"):
            call()
    store.commit_one("g", KEY, OffsetAndMetadata(1), leader_epoch=-1)


def test_a_position_may_stand_for_the_expected_offset(store):
    assert store.fetch_one("g", KEY) is None
    store.commit("g", {KEY: 1}, expected={KEY: store.fetch_one("g", KEY)})
    found = store.fetch_one("g", KEY)
    store.commit_async("g", {KEY: OffsetAndMetadata(2, "m")}, expected={KEY: found}).result()
    with pytest.raises(errors.ExpectedOffsetError) as refused:
        store.commit("g", {KEY: 3}, expected={KEY: found})
    assert (refused.value.expected, refused.value.actual) == (1, 2)
    store.commit("g", {KEY: 3}, expected=store.fetch("g"), monotonic=True)
    for wrong in ((), ("1",), "1"):
        with pytest.raises(errors.ArgumentTypeError, match="the expected offset must be an int"):
            store.commit("g", {KEY: 4}, expected={KEY: wrong})


def test_a_read_only_store_refuses_in_the_same_words(store):
    """Whether the log partition of the group is there, or was never made."""
    store.commit_one("g", KEY, 1)
    absent = next(name for name in map(str, range(100)) if not _is_there(store, name))
    with offsetlog.open(store.path, read_only=True) as reader:
        for group in ("g", absent):
            for call in (
                lambda group=group: reader.commit_one(group, KEY, 1),
                lambda group=group: reader.commit(group, {KEY: 1}),
                lambda group=group: reader.commit(group, {KEY: OffsetAndMetadata(1, "m")}),
                lambda group=group: reader.commit_async(group, {KEY: 1}, monotonic=True),
                lambda group=group: reader.delete(group),
                lambda group=group: reader.delete(group, [KEY]),
                lambda group=group: reader.transaction(group, 7),
                lambda group=group: reader.commit_arrow(pyarrow.table({
                    "group": [group], "topic": ["t"], "partition": [0], "offset": [1],
                })),
            ):
                with pytest.raises(errors.ReadOnlyError) as refused:
                    call()
                assert str(refused.value) == "the store is open read-only"


def _is_there(store: offsetlog.OffsetStore, group: str) -> bool:
    return (store.path / f"__consumer_offsets-{partition_for(group, store.partitions)}").exists()


def test_an_empty_text_is_a_group_and_no_topic(store):
    store.commit_one("", KEY, 1)
    assert store.groups() == [""]
    with pytest.raises(errors.TopicError, match="the topic must not be empty"):
        store.commit_one("g", "", 0, 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (10**40 - 1, "9" * 40),
        (10**40, "a number of 133 bits"),
        ("a", "'a'"),
        (None, "None"),
        (b"x" * 400, "b'" + "x" * 298 + "..."),
        (("t", 0), "('t', 0)"),
        ((("t", 0), {}), "(a tuple of 2, dict)"),
        ((1, 2, 3), "a tuple of 3"),
        (SimpleNamespace(password=SECRET), "SimpleNamespace"),
    ],
)
def test_values_as_messages_show_them(value, text):
    assert shown(value) == text


def test_keys_as_messages_show_them():
    assert shown_key("orders", 3) == "orders:3"
    assert shown_key("", None) == "'':None"
    assert shown_key("a\nb", HUGE) == "'a\\nb':a number of 16610 bits"
    assert shown_key("x" * 400, 0) == "x" * 300 + "...:0"
