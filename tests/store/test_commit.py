from __future__ import annotations

import pickle
import uuid

import numpy as np
import pyarrow as pa
import pytest

import offsetlog
from offsetlog import OffsetAndMetadata, StoreConfig, TopicPartition, errors


def test_a_commit_is_read_back(store):
    orders = [TopicPartition("orders", number) for number in range(3)]
    position = store.commit("billing", {orders[0]: 42, orders[1]: OffsetAndMetadata(7, "m", leader_epoch=3)})
    assert position == (9, 1)
    found = store.fetch("billing")
    assert list(found) == orders[:2]
    assert found[orders[0]][:3] == (42, "", -1)
    assert found[orders[1]][:3] == (7, "m", 3)
    assert found[orders[0]].commit_timestamp > 1_700_000_000_000
    assert store.fetch("billing", orders) == found
    assert store.fetch("billing", [orders[1]]) == {orders[1]: found[orders[1]]}
    assert store.fetch("nobody") == {}


def test_what_comes_back_is_of_the_named_types(store):
    store.commit_one("g", "t", 0, 1)
    value = store.fetch_one("g", "t", 0)
    assert type(value) is OffsetAndMetadata
    assert value == OffsetAndMetadata(1, "", -1, value.commit_timestamp, -1, None)
    assert repr(value).startswith("OffsetAndMetadata(offset=1, metadata=''")
    ((key, other),) = store.fetch("g").items()
    assert type(key) is TopicPartition
    assert type(other) is OffsetAndMetadata
    assert type(store.commit("g", {key: 2})) is offsetlog.Position


def test_commit_one_returns_the_log_offset_of_its_record(store):
    assert [store.commit_one("g", "t", 0, 5), store.commit_one("g", "t", 0, 6, "meta", 2)] == [0, 1]
    assert store.fetch_one("g", "t", 0)[:3] == (6, "meta", 2)
    assert store.fetch_one("g", "t", 1) is None
    assert store.fetch_one("g", "u", 0) is None


def test_every_field_of_a_position_is_kept(path):
    topic_id = uuid.UUID(int=7)
    with offsetlog.open(path, durability="process", config=StoreConfig(write_offset_value_v4="always")) as store:
        store.commit("g", {TopicPartition("t", 0): OffsetAndMetadata(5, "ü", 3, 1000, -1, topic_id)})
        store.commit("g", {TopicPartition("t", 1): OffsetAndMetadata(5, "x", -1, 1000, 2000)})
        before = store.fetch("g")
        assert before[TopicPartition("t", 0)] == OffsetAndMetadata(5, "ü", 3, 1000, -1, topic_id)
        assert before[TopicPartition("t", 1)] == OffsetAndMetadata(5, "x", -1, 1000, 2000, None)
    with offsetlog.open(path) as store:
        assert store.fetch("g") == before


@pytest.mark.parametrize("group", ["", "plain", "group-é", "組-1", "😀", "x" * 32767, "with\0nul"])
def test_any_text_is_a_group(store, group):
    store.commit_one(group, "t", 0, 1)
    assert store.fetch(group)[TopicPartition("t", 0)].offset == 1
    assert group in store.groups()


@pytest.mark.parametrize("key", [("t", 0), TopicPartition("t", 0)])
@pytest.mark.parametrize("value", [5, (5, "m"), (5, "m", 2), OffsetAndMetadata(5, "m", 2)])
def test_plain_tuples_do_as_well(store, key, value):
    store.commit("g", {key: value})
    assert store.fetch_one("g", "t", 0).offset == 5


def test_numbers_may_be_anything_with_an_index(store):
    numpy = pytest.importorskip("numpy")
    store.commit("g", {TopicPartition("t", numpy.int32(3)): numpy.int64(9)})
    assert store.fetch_one("g", "t", 3).offset == 9
    assert store.commit_one("g", "t", numpy.int16(3), numpy.uint64(2**63 - 1)) == 1


def test_a_mapping_that_is_no_dict_does_as_well(store):
    from types import MappingProxyType

    store.commit("g", MappingProxyType({TopicPartition("t", 0): 1}))
    assert store.fetch_one("g", "t", 0).offset == 1


TEXT = "\ud800"
WRONG = [
    ((1, "t", 0, 1), errors.ArgumentTypeError),
    ((None, "t", 0, 1), errors.ArgumentTypeError),
    ((b"g", "t", 0, 1), errors.ArgumentTypeError),
    ((TEXT, "t", 0, 1), errors.GroupError),
    (("g" * 32768, "t", 0, 1), errors.StringTooLongError),
    (("é" * 16384, "t", 0, 1), errors.StringTooLongError),
    (("g", 1, 0, 1), errors.ArgumentTypeError),
    (("g", "", 0, 1), errors.TopicError),
    (("g", TEXT, 0, 1), errors.TopicError),
    (("g", "t" * 32768, 0, 1), errors.StringTooLongError),
    (("g", "t", "0", 1), errors.ArgumentTypeError),
    (("g", "t", 0.0, 1), errors.ArgumentTypeError),
    (("g", "t", True, 1), errors.ArgumentTypeError),
    (("g", "t", None, 1), errors.ArgumentTypeError),
    (("g", "t", -1, 1), errors.PartitionError),
    (("g", "t", 2**31, 1), errors.PartitionError),
    (("g", "t", 2**70, 1), errors.PartitionError),
    (("g", "t", 0, "1"), errors.ArgumentTypeError),
    (("g", "t", 0, 1.0), errors.ArgumentTypeError),
    (("g", "t", 0, False), errors.ArgumentTypeError),
    (("g", "t", 0, -1), errors.OffsetError),
    (("g", "t", 0, 2**63), errors.OffsetError),
    (("g", "t", 0, -(2**80)), errors.OffsetError),
    (("g", "t", 0, 1, None), errors.ArgumentTypeError),
    (("g", "t", 0, 1, TEXT), errors.InvalidArgumentError),
    (("g", "t", 0, 1, "m" * 4097), errors.MetadataTooLargeError),
    (("g", "t", 0, 1, "😀" * 2049), errors.MetadataTooLargeError),
    (("g", "t", 0, 1, "m" * 40000), errors.StringTooLongError),
    (("g", "t", 0, 1, "", -2), errors.InvalidArgumentError),
    (("g", "t", 0, 1, "", 2**31), errors.InvalidArgumentError),
    (("g", "t", 0, 1, "", "1"), errors.ArgumentTypeError),
]


@pytest.mark.parametrize(("arguments", "kind"), WRONG)
def test_wrong_arguments_change_nothing(store, arguments, kind):
    store.commit_one("g", "t", 0, 77, "before")
    before = store.digest(physical=True)
    group, topic, partition, *value = arguments
    with pytest.raises(kind) as caught:
        store.commit_one(*arguments)
    assert type(caught.value) is kind
    with pytest.raises(kind):
        store.commit(group, {TopicPartition("fine", 0): 1, TopicPartition(topic, partition): tuple(value)})
    assert store.digest(physical=True) == before


@pytest.mark.parametrize("arguments", [case[0] for case in WRONG[:17]])
def test_wrong_names_are_refused_by_reads_too(store, arguments):
    with pytest.raises(errors.InvalidArgumentError):
        store.fetch_one(*arguments[:3])


@pytest.mark.parametrize(
    ("offsets", "kind"),
    [
        ({}, errors.InvalidArgumentError),
        ([], errors.ArgumentTypeError),
        (None, errors.ArgumentTypeError),
        ({"t": 1}, errors.ArgumentTypeError),
        ({("t", 0, 1): 1}, errors.ArgumentTypeError),
        ({("t", 0): None}, errors.ArgumentTypeError),
        ({("t", 0): ()}, errors.ArgumentTypeError),
        ({("t", 0): (1, "", -1, -1, -1, None, 7)}, errors.ArgumentTypeError),
        ({("t", 0): (1, "", -1, -2)}, errors.InvalidArgumentError),
        ({("t", 0): (1, "", -1, -1, -2)}, errors.InvalidArgumentError),
        ({("t", 0): (1, "", -1, -1, -1, "id")}, errors.ArgumentTypeError),
    ],
)
def test_wrong_offsets(store, offsets, kind):
    with pytest.raises(kind):
        store.commit("g", offsets)
    assert store.groups() == []


@pytest.mark.parametrize("durability", ["replicas", "tape", 1, ""])
def test_wrong_durability(store, path, durability):
    with pytest.raises(errors.ConfigError):
        store.commit_one("g", "t", 0, 1, durability=durability)
    with pytest.raises(errors.ConfigError):
        store.commit("g", {("t", 0): 1}, durability=durability)
    assert store.groups() == []


def test_trap_16_metadata_is_limited_in_utf16_units(store):
    store.commit_one("g", "t", 0, 1, "é" * 4096)
    store.commit_one("g", "t", 1, 1, "😀" * 2048)
    assert store.fetch_one("g", "t", 0).metadata == "é" * 4096
    assert store.fetch("g")[TopicPartition("t", 1)].metadata == "😀" * 2048
    with pytest.raises(errors.MetadataTooLargeError, match="at most 4096 UTF-16 units; this one has 4098"):
        store.commit_one("g", "t", 2, 1, "😀" * 2049)


def test_expected_offsets(store):
    key, other, third = (TopicPartition("t", number) for number in range(3))
    store.commit("g", {key: 5}, expected={key: None})
    store.commit("g", {key: 6, other: 1}, expected={key: 5})
    before = store.digest(physical=True)
    with pytest.raises(errors.ExpectedOffsetError) as caught:
        store.commit("g", {other: 2, key: 7}, expected={key: 5})
    found = caught.value
    assert (found.group, found.topic, found.partition, found.expected, found.actual) == ("g", "t", 0, 5, 6)
    assert str(found) == "group 'g' at t:0: expected 5, found 6"
    with pytest.raises(errors.ExpectedOffsetError) as caught:
        store.commit("g", {key: 7}, expected={key: None})
    assert (caught.value.expected, caught.value.actual) == (None, 6)
    with pytest.raises(errors.ExpectedOffsetError) as caught:
        store.commit("g", {third: 7}, expected={third: 0})
    assert (caught.value.expected, caught.value.actual) == (0, None)
    with pytest.raises(errors.InvalidArgumentError):
        store.commit("g", {key: 7}, expected={other: 1})
    with pytest.raises(errors.ArgumentTypeError):
        store.commit("g", {key: 7}, expected={key: "6"})
    assert store.digest(physical=True) == before


def test_expected_offsets_of_many(store):
    keys = [TopicPartition("t", number) for number in range(200)]
    store.commit("g", dict.fromkeys(keys, 1))
    with pytest.raises(errors.ExpectedOffsetError) as caught:
        store.commit("g", dict.fromkeys(keys, 2), expected={keys[150]: 9})
    assert (caught.value.partition, caught.value.actual) == (150, 1)
    store.commit("g", dict.fromkeys(keys, 2), expected=dict.fromkeys(keys, 1))
    assert {value.offset for value in store.fetch("g").values()} == {2}


def test_monotonic_refuses_to_go_back(store):
    key, other = TopicPartition("t", 0), TopicPartition("t", 1)
    store.commit("g", {key: 5}, monotonic=True)
    store.commit("g", {key: 5, other: 1}, monotonic=True)
    before = store.digest(physical=True)
    with pytest.raises(errors.RewindError) as caught:
        store.commit("g", {other: 3, key: 4}, monotonic=True)
    assert (caught.value.partition, caught.value.asked, caught.value.actual) == (0, 4, 5)
    with pytest.raises(errors.InvalidArgumentError):
        store.commit("g", {key: 4}, monotonic=True, expected={key: 5})
    assert store.digest(physical=True) == before
    store.commit("g", {key: 4})
    assert store.fetch_one("g", "t", 0).offset == 4


def test_a_delete_takes_what_was_named(store):
    keys = [TopicPartition("t", number) for number in range(4)]
    store.commit("g", dict.fromkeys(keys, 1))
    store.commit_one("h", "t", 0, 1)
    assert store.delete("g", [keys[1], keys[3], keys[1], TopicPartition("t", 9)]) == 2
    assert list(store.fetch("g")) == [keys[0], keys[2]]
    assert store.delete("g", [keys[1]]) == 0
    assert store.delete("g", []) == 0
    assert store.delete("g") == 2
    assert store.groups() == ["h"]
    assert store.delete("g") == 0
    assert store.delete("never") == 0
    with pytest.raises(errors.ArgumentTypeError):
        store.delete("g", ["t"])


@pytest.mark.parametrize("wrong", ["orders", b"orders", TopicPartition("orders", 0), ("orders", 0), 5, ["orders"]])
def test_partitions_are_a_list(store, wrong):
    store.commit_one("g", "orders", 0, 1)
    for call in (store.fetch, store.delete):
        with pytest.raises(errors.ArgumentTypeError, match=r'\[TopicPartition\("topic", 0\)\]'):
            call("g", wrong)
    assert len(store.fetch("g", {TopicPartition("orders", 0), ("orders", 1)})) == 1
    assert store.delete("g", iter([("orders", 0)])) == 1


@pytest.mark.parametrize("wrong", ["g1", b"g1", None, 5, [5], [None]])
def test_groups_are_a_list(store, wrong):
    with pytest.raises(errors.ArgumentTypeError):
        store.fetch_arrow(wrong)


KEY, OTHER = TopicPartition("orders", 1), TopicPartition("orders", 2)
BAD = TopicPartition("orders", -1)


@pytest.mark.parametrize(
    ("offsets", "more", "kind", "key"),
    [
        ({KEY: 1, OTHER: -1}, {}, errors.OffsetError, OTHER),
        ({OTHER: 2**63, KEY: 1}, {}, errors.OffsetError, OTHER),
        ({KEY: 1, OTHER: "1"}, {}, errors.ArgumentTypeError, OTHER),
        ({KEY: 1, OTHER: (1, "m" * 5000)}, {}, errors.MetadataTooLargeError, OTHER),
        ({KEY: 1, OTHER: (1, "", -2)}, {}, errors.InvalidArgumentError, OTHER),
        ({KEY: 1, OTHER: ()}, {}, errors.ArgumentTypeError, OTHER),
        ({KEY: 1, BAD: 1}, {}, errors.PartitionError, BAD),
        ({KEY: 1, BAD: (1, "m")}, {}, errors.PartitionError, BAD),
        ({KEY: 1, ("", 5): 1}, {}, errors.TopicError, ("", 5)),
        ({KEY: 1, "orders": 1}, {}, errors.ArgumentTypeError, "orders"),
        ({KEY: 1, OTHER: 1}, {"expected": {OTHER: -1}}, errors.OffsetError, OTHER),
        ({KEY: 1, OTHER: 1}, {"expected": {OTHER: "1"}}, errors.ArgumentTypeError, OTHER),
        ({KEY: 1}, {"expected": {OTHER: 1}}, errors.InvalidArgumentError, OTHER),
        ({KEY: 1, OTHER: 1}, {"expected": {OTHER: 5}}, errors.ExpectedOffsetError, OTHER),
        ({KEY: 1, OTHER: 1}, {"expected": {OTHER: 5}, "monotonic": True}, errors.InvalidArgumentError, OTHER),
    ],
)
def test_an_error_names_the_key(store, offsets, more, kind, key):
    before = store.digest(physical=True)
    for call in (store.commit, store.commit_async):
        with pytest.raises(kind) as caught:
            call("billing", offsets, **more)
        assert caught.value.item == key
        topic, partition = key if isinstance(key, tuple) else (key, None)
        assert topic in str(caught.value)
        assert partition is None or f":{partition}: " in str(caught.value) or repr(key) in str(caught.value)
        assert pickle.loads(pickle.dumps(caught.value)).item == key
    assert store.digest(physical=True) == before


def test_an_error_of_a_delete_or_a_transaction_names_the_key(store):
    with pytest.raises(errors.PartitionError, match="orders:-1: the partition must be") as caught:
        store.delete("billing", [KEY, KEY, BAD])
    assert caught.value.item == BAD
    with store.transaction("billing", 7) as transaction:
        with pytest.raises(errors.OffsetError, match="orders:2: the offset must be") as caught:
            transaction.commit({KEY: 1, OTHER: -1})
        assert caught.value.item == OTHER
    with pytest.raises(errors.GroupError) as caught:
        store.commit("\ud800", {KEY: 1})
    assert caught.value.item is None


def test_a_commit_larger_than_a_batch_is_all_or_nothing(path):
    config = StoreConfig(batch_bytes_max=1024)
    offsets = {TopicPartition("topic", number): number for number in range(500)}
    with offsetlog.open(path, durability="process", config=config) as store:
        position = store.commit("g", offsets)
        assert position.log_offset >= 500
        assert {key: value.offset for key, value in store.fetch("g").items()} == offsets
        with pytest.raises(errors.ExpectedOffsetError):
            store.commit("g", dict.fromkeys(offsets, 1), expected={TopicPartition("topic", 499): 0})
        assert {key: value.offset for key, value in store.fetch("g").items()} == offsets
        with pytest.raises(errors.TooLargeError):
            store.delete("g")
        with pytest.raises(errors.TooLargeError):
            store.commit_one("g", "t", 0, 1, "m" * 2000)
        digest = store.digest(physical=True)
        assert store.verify() == []
    with offsetlog.open(path) as store:
        assert store.digest(physical=True) == digest


def test_segments_roll_under_commits(path):
    config = StoreConfig(segment_bytes=64 * 1024)
    with offsetlog.open(path, partitions=1, durability="process", config=config) as store:
        for number in range(5000):
            store.commit_one("g", "t", number % 7, number)
        assert store.verify() == []
        digest = store.digest(physical=True)
    assert len(list((path / "__consumer_offsets-0").glob("*.log"))) > 3
    with offsetlog.open(path) as store:
        assert store.digest(physical=True) == digest


def test_memory_accounts_for_every_component(store):
    empty = store.memory()
    for number in range(2000):
        store.commit_one("g", "t", number, number, f"metadata {number}")
    full = store.memory()
    assert full["total"] > empty["total"]
    parts = sum(size for name, size in full.items() if name not in ("total", "free", "string_bytes"))
    assert full["total"] == parts
    assert full["string_bytes"] >= 2000 * len("metadata 0")


def test_the_digest_is_of_what_is_committed(store, tmp_path):
    for number in range(10):
        store.commit("g", {TopicPartition("t", number): OffsetAndMetadata(number, commit_timestamp=1)})
    with offsetlog.open(tmp_path / "other", partitions=3, durability="process") as other:
        other.commit(
            "g", {TopicPartition("t", n): OffsetAndMetadata(n, commit_timestamp=1) for n in reversed(range(10))}
        )
        assert other.digest() == store.digest()
        assert other.digest(physical=True) != store.digest(physical=True)
        other.commit_one("g", "t", 0, 99)
        assert other.digest() != store.digest()
    assert len(str(store.digest())) == 3 * 32 + 2


def test_a_wrong_durability_is_refused_before_anything_is_written(store):
    store.commit("billing", {TopicPartition("orders", 0): 1})
    before = store.digest()
    rows = pa.table({"group": ["billing"], "topic": ["orders"], "partition": [0], "offset": [2]})
    for call in (
        lambda: store.commit_arrow(rows, durability="bogus"),
        lambda: store.delete("billing", durability="bogus"),
        lambda: store.transaction("billing", 7, durability="bogus"),
    ):
        with pytest.raises(errors.ConfigError, match="bogus"):
            call()
    assert store.digest() == before


def test_memory_tells_of_the_scratch_that_a_commit_leaves(store):
    store.commit_one("billing", "orders", 0, 1)
    assert store.memory()["scratch"] == 0
    names = {"group": ["billing"] * 3000, "topic": ["orders"] * 3000}
    rows = pa.table({**names, "partition": list(range(3000)), "offset": [1] * 3000})
    store.commit_arrow(rows)
    store.commit_arrow(rows)
    memory = store.memory()
    assert memory["scratch"] > 3000 * 64
    assert memory["total"] > memory["scratch"] + memory["cells"]


def test_memory_tells_of_the_scratch_of_large_commits(store):
    store.commit("billing", {TopicPartition("orders", number): 1 for number in range(3)}, monotonic=True)
    few = store.memory()["scratch"]
    store.commit("billing", {TopicPartition("orders", number): 2 for number in range(20)}, monotonic=True)
    memory = store.memory()
    assert 0 < few < memory["scratch"]
    assert memory["total"] > memory["scratch"]


class _Unreadable(dict):
    """A mapping that can be read once."""

    def __iter__(self):
        raise RuntimeError("nobody may look")

    def items(self):
        return list(super().items())


class _Unnamed(tuple):
    __slots__ = ()

    def __getitem__(self, index):
        raise RuntimeError("no name")


def test_an_error_is_reported_though_its_key_cannot_be(store):
    with pytest.raises(errors.OffsetError):
        store.commit("g", _Unreadable({TopicPartition("t", 0): -1}))
    for offset in (-1, (-1, "")):
        with pytest.raises(errors.OffsetError):
            store.commit("g", {_Unnamed(("t", 0)): offset})
    with pytest.raises(errors.PartitionError):
        store.delete("g", [_Unnamed(("t", -1))])
    assert store.groups() == []


@pytest.mark.parametrize("monotonic", ["no", 1, None, np.True_])
def test_monotonic_is_true_or_false_and_nothing_else(store, monotonic):
    calls = [
        lambda: store.commit_one("g", "t", 0, 1, monotonic=monotonic),
        lambda: store.commit_one("g", ("t", 0), 1, monotonic=monotonic),
        lambda: store.commit("g", {("t", 0): 1}, monotonic=monotonic),
        lambda: store.commit_async("g", {("t", 0): 1}, monotonic=monotonic),
    ]
    for call in calls:
        with pytest.raises(errors.ArgumentTypeError, match="monotonic must be True or False, not "):
            call()
    assert store.groups() == []
