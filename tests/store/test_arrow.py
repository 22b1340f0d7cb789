from __future__ import annotations

import random

import pyarrow as pa
import pytest

import offsetlog
from offsetlog import OffsetAndMetadata, TopicPartition, errors

STRINGS = [
    pa.string(),
    pa.large_string(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int64(), pa.large_string()),
]
INTEGERS = [pa.int16(), pa.int32(), pa.uint16(), pa.int64(), pa.uint64()]


def batch(rows, *, strings=None, integers=None, **more):
    columns = list(zip(*rows, strict=True))
    arrays = [
        pa.array(columns[0], strings or pa.string()),
        pa.array(columns[1], strings or pa.string()),
        pa.array(columns[2], integers or pa.int32()),
        pa.array(columns[3], integers or pa.int64()),
        *more.values(),
    ]
    return pa.record_batch(arrays, names=["group", "topic", "partition", "offset", *more])


def random_rows(count, seed=1, groups=30):
    draw = random.Random(seed)
    return [
        (f"g{draw.randrange(groups)}", f"t{draw.randrange(3)}", draw.randrange(40), number) for number in range(count)
    ]


def expected_state(rows):
    model = {}
    for group, topic, partition, offset in rows:
        model.setdefault(group, {})[TopicPartition(topic, partition)] = offset
    return model


def actual_state(store):
    return {group: {key: value.offset for key, value in store.fetch(group).items()} for group in store.groups()}


@pytest.mark.parametrize("strings", STRINGS, ids=str)
@pytest.mark.parametrize("integers", INTEGERS, ids=str)
def test_any_strings_and_integers(store, strings, integers):
    rows = random_rows(500)
    assert store.commit_arrow(batch(rows, strings=strings, integers=integers)) == 500
    assert actual_state(store) == expected_state(rows)
    assert store.verify() == []


@pytest.mark.parametrize("seed", range(5))
def test_random_batches_against_dictionaries(store, seed):
    rows = random_rows(20_000, seed, groups=3 if seed == 0 else 2000)
    store.commit_arrow(batch(rows))
    assert actual_state(store) == expected_state(rows)


def test_slices_tables_and_chunks(store):
    rows = random_rows(1000)
    whole = batch(rows)
    parts = [whole.slice(0, 100), whole.slice(100, 333), whole.slice(433, 0), whole.slice(433)]
    store.commit_arrow(pa.Table.from_batches(parts))
    assert actual_state(store) == expected_state(rows)
    encoded = pa.Table.from_batches(parts)
    for number, name in enumerate(("group", "topic")):
        encoded = encoded.set_column(
            number,
            name,
            pa.chunked_array(
                [
                    pa.array(chunk).dictionary_encode()
                    for chunk in (column.to_pylist() for column in encoded.column(name).chunks if len(column))
                ]
            ),
        )
    store.commit_arrow(encoded)
    assert actual_state(store) == expected_state(rows)
    store.commit_arrow(whole.slice(7, 50))
    latest = expected_state(rows)
    for group, topic, partition, offset in rows[7:57]:
        latest[group][TopicPartition(topic, partition)] = offset
    assert actual_state(store) == latest


def test_the_optional_columns(store):
    rows = [("g", "t", number, number) for number in range(4)]
    store.commit_arrow(
        batch(
            rows,
            leader_epoch=pa.array([5, -1, 0, 7], pa.int8()),
            metadata=pa.array(["a", None, "", "ü"]),
            commit_timestamp=pa.array([1000, 2000, 3000, -1]),
        )
    )
    found = list(store.fetch("g").values())
    assert [value[:4] for value in found[:3]] == [(0, "a", 5, 1000), (1, "", -1, 2000), (2, "", 0, 3000)]
    assert found[3][:3] == (3, "ü", 7)
    assert found[3].commit_timestamp > 3000


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        ([1, 2, None], pa.timestamp("s")),
        ([1000, 2000, None], pa.timestamp("ms")),
        ([1000, 2000, None], pa.timestamp("ms", "UTC")),
        ([1_000_000, 2_000_999, None], pa.timestamp("us", "Europe/Berlin")),
        ([1_000_000_000, 2_000_000_001, None], pa.timestamp("ns")),
        ([1000, 2000, None], pa.int64()),
        ([1000, 2000, None], pa.uint16()),
    ],
    ids=str,
)
def test_times_and_nulls(store, times, kind):
    rows = [("g", "t", number, number) for number in range(3)]
    epochs = pa.array([5, None, 0], pa.uint8())
    store.commit_arrow(batch(rows, leader_epoch=epochs, commit_timestamp=pa.array(times, kind)))
    found = list(store.fetch("g").values())
    assert [value.leader_epoch for value in found] == [5, -1, 0]
    assert [value.commit_timestamp for value in found[:2]] == [1000, 2000]
    assert found[2].commit_timestamp > 1_700_000_000_000
    store.commit_arrow(batch(rows, leader_epoch=pa.nulls(3), commit_timestamp=pa.nulls(3)))
    assert [value.leader_epoch for value in store.fetch("g").values()] == [-1, -1, -1]


def test_a_misspelt_column_is_refused(store):
    refused = "unknown column 'meta_data', 'x'; the known ones are group, "
    with pytest.raises(errors.InvalidArgumentError, match=refused):
        store.commit_arrow(batch(GOOD, meta_data=pa.array(["a", "b"]), x=pa.array([1, 2])))
    twice = pa.table([*batch(GOOD).columns, pa.array([1, 2])], names=[*batch(GOOD).schema.names, "offset"])
    with pytest.raises(errors.InvalidArgumentError, match="the column 'offset' appears more than once"):
        store.commit_arrow(twice)
    assert store.groups() == []


def test_of_equal_keys_the_last_wins(store):
    store.commit_arrow(batch([("g", "t", 0, 1), ("h", "t", 0, 5), ("g", "t", 0, 2), ("g", "t", 0, 3)]))
    assert store.fetch_one("g", "t", 0).offset == 3


def test_a_dictionary_may_repeat_a_value(store):
    groups = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["g", "h", "g"]))
    topics = pa.array(["t", "t", "t"])
    store.commit_arrow(
        pa.record_batch(
            [groups, topics, pa.array([0, 0, 0]), pa.array([1, 2, 3])], names=["group", "topic", "partition", "offset"]
        )
    )
    assert actual_state(store) == {"g": {("t", 0): 3}, "h": {("t", 0): 2}}


def test_nothing_is_committed_by_no_rows(store):
    assert store.commit_arrow(batch([("g", "t", 0, 1)]).slice(0, 0)) == 0
    assert store.groups() == []


GOOD = [("g", "t", 0, 1), ("h", "t", 1, 2)]


@pytest.mark.parametrize(
    ("wrong", "kind", "row"),
    [
        (batch([*GOOD, ("g", "t", -1, 1)]), errors.PartitionError, 2),
        (batch([*GOOD, ("g", "t", 1, -1)]), errors.OffsetError, 2),
        (batch([*GOOD, ("g", "", 1, 1)]), errors.TopicError, 2),
        (batch([*GOOD, ("g", "t" * 32768, 1, 1)]), errors.StringTooLongError, 2),
        (batch([*GOOD, ("g" * 32768, "t", 1, 1)]), errors.StringTooLongError, 2),
        (batch(GOOD, metadata=pa.array(["", "m" * 4097])), errors.MetadataTooLargeError, 1),
        (batch(GOOD, leader_epoch=pa.array([-1, -2])), errors.InvalidArgumentError, 1),
        (batch(GOOD, commit_timestamp=pa.array([-2, -1])), errors.InvalidArgumentError, 0),
        (batch(GOOD, commit_timestamp=pa.array([2**62, 0], pa.timestamp("s"))), errors.InvalidArgumentError, None),
        (batch([*GOOD, (None, "t", 1, 1)]), errors.InvalidArgumentError, None),
        (batch([*GOOD, ("g", None, 1, 1)]), errors.InvalidArgumentError, None),
        (batch([*GOOD, ("g", "t", None, 1)]), errors.InvalidArgumentError, None),
        (batch([*GOOD, ("g", "t", 2**31, 1)], integers=pa.int64()), errors.PartitionError, None),
        (batch([*GOOD, ("g", "t", 1, 2**63)], integers=pa.uint64()), errors.OffsetError, None),
        (batch(GOOD).drop_columns(["offset"]), errors.InvalidArgumentError, None),
        (batch(GOOD).set_column(2, "partition", pa.array(["0", "1"])), errors.ArgumentTypeError, None),
        (batch(GOOD).set_column(3, "offset", pa.array([0.5, 1.0])), errors.ArgumentTypeError, None),
        (batch(GOOD).set_column(0, "group", pa.array([b"g", b"h"])), errors.ArgumentTypeError, None),
        ([("g", "t", 0, 1)], errors.ArgumentTypeError, None),
        (None, errors.ArgumentTypeError, None),
    ],
)
def test_wrong_columns_change_nothing(store, wrong, kind, row):
    store.commit_one("g", "t", 0, 77)
    before = store.digest(physical=True)
    with pytest.raises(kind) as caught:
        store.commit_arrow(wrong)
    assert caught.value.item == row
    assert store.digest(physical=True) == before


def test_text_that_is_not_utf8(store):
    raw = pa.array([b"\xed\xa0\x80"]).view(pa.string())
    good = pa.array(["g"])
    numbers = [pa.array([0]), pa.array([0])]
    for columns, kind in (([raw, good], errors.GroupError), ([good, raw], errors.TopicError)):
        with pytest.raises(kind):
            store.commit_arrow(pa.record_batch([*columns, *numbers], names=["group", "topic", "partition", "offset"]))
    assert store.groups() == []


def raw_strings(kind, ends, data=b"abcdef"):
    # An array that no builder of Arrow makes, and that its quick check accepts.
    width = 4 if kind == pa.string() else 8
    buffer = pa.py_buffer(b"".join(end.to_bytes(width, "little", signed=True) for end in ends))
    return pa.Array.from_buffers(kind, len(ends) - 1, [None, buffer, pa.py_buffer(data)])


@pytest.mark.parametrize("name", ["group", "topic", "metadata"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    "ends",
    [
        [0, 5, 3],  # goes backwards
        [0, 2**31 - 1, 6],  # far outside, and back
        [0, 10, 6],  # the bytes of somebody else
        [0, -1, 3],
    ],
    ids=str,
)
def test_malformed_strings_are_refused(store, name, kind, chunked, ends):
    columns = {"group": ["g", "g"], "topic": ["t", "t"], "partition": [0, 1], "offset": [1, 2]}
    array = raw_strings(kind, ends)
    table = pa.table({**columns, name: array})
    if chunked:
        good = pa.table({**columns, name: pa.array(["x", "y"], kind)})
        table = pa.concat_tables([good, table])
    with pytest.raises(errors.InvalidArgumentError, match=name):
        store.commit_arrow(table)
    assert store.groups() == []


def test_malformed_strings_outside_of_a_slice_do_no_harm(store):
    array = raw_strings(pa.string(), [5, 3, 4, 6])
    table = pa.table({"group": array[1:], "topic": ["t", "t"], "partition": [0, 1], "offset": [1, 2]})
    assert store.commit_arrow(table) == 2
    assert store.groups() == ["d", "ef"]
    with pytest.raises(errors.InvalidArgumentError):
        store.commit_arrow(pa.table({"group": array, "topic": ["t"] * 3, "partition": [0] * 3, "offset": [1] * 3}))


def test_metadata_that_no_record_can_hold(store):
    table = pa.table({"group": ["g"], "topic": ["t"], "partition": [0], "offset": [1]})
    for text in ("m" * 40_000, "\U0001f600" * 10_000):
        with pytest.raises(errors.StringTooLongError):
            store.commit_arrow(table.append_column("metadata", pa.array([text])))


WRONG_DICTIONARIES = [
    pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(["a"]), safe=False),
    pa.DictionaryArray.from_arrays(pa.array([0, 2**40], pa.uint64()), pa.array(["a"]), safe=False),
    pa.DictionaryArray.from_arrays(pa.array([0, -1]), pa.array(["a"]), safe=False),
    pa.DictionaryArray.from_arrays(pa.array([0, 1]), raw_strings(pa.string(), [0, 3, 1]), safe=False),
]


@pytest.mark.parametrize("name", ["group", "topic", "metadata"])
@pytest.mark.parametrize("wrong", WRONG_DICTIONARIES, ids=range(len(WRONG_DICTIONARIES)))
def test_malformed_dictionaries_are_refused(store, name, wrong):
    columns = {"group": ["g", "g"], "topic": ["t", "t"], "partition": [0, 1], "offset": [1, 2]}
    good = pa.DictionaryArray.from_arrays(pa.array([0], wrong.type.index_type), pa.array(["b"]))
    for column in (wrong, pa.chunked_array([good, wrong[1:]])):
        with pytest.raises(errors.InvalidArgumentError, match=name):
            store.commit_arrow(pa.table({**columns, name: column}))
    assert store.groups() == []


def test_what_is_no_table_is_refused_as_such(store):
    with pytest.raises(errors.ArgumentTypeError):
        store.commit_arrow(pa.array([1, 2]))


def test_a_column_of_nulls(store):
    columns = {"group": ["g"], "topic": ["t"], "partition": [0], "offset": [1]}
    nulls = pa.nulls(1)
    assert store.commit_arrow(pa.table({**columns, "metadata": nulls, "leader_epoch": nulls})) == 1
    twice = pa.table({**columns, "metadata": nulls})
    assert store.commit_arrow(pa.concat_tables([twice, twice])) == 2
    assert store.fetch_one("g", "t", 0).metadata == ""
    for name in columns:
        with pytest.raises(errors.InvalidArgumentError):
            store.commit_arrow(pa.table({**columns, name: nulls}))


def test_columns_come_back(store):
    store.commit("g", {TopicPartition("t", 1): OffsetAndMetadata(5, "m", 3, 1000, -1), TopicPartition("u", 0): 7})
    store.commit("h", {TopicPartition("t", 2): OffsetAndMetadata(6, "é", -1, 1000, 9000)})
    table = store.to_arrow()
    assert table.column_names == [
        "group", "topic", "partition", "offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp",
        "topic_id", "log_partition", "log_offset",
    ]  # fmt: skip
    table.validate(full=True)
    rows = sorted(table.to_pylist(), key=lambda row: (row["group"], row["topic"]))
    assert rows[0] == {
        "group": "g", "topic": "t", "partition": 1, "offset": 5, "leader_epoch": 3, "metadata": "m",
        "commit_timestamp": 1000, "expire_timestamp": -1, "topic_id": None,
        "log_partition": rows[0]["log_partition"], "log_offset": 0,
    }  # fmt: skip
    assert rows[2]["expire_timestamp"] == 9000
    assert store.fetch_arrow(["g"]).num_rows == 2
    assert store.fetch_arrow(["h", "g", "nobody", "g"]).num_rows == 3
    assert store.fetch_arrow([]).schema == table.schema
    assert store.fetch_arrow(["nobody"]).num_rows == 0


def test_what_was_read_in_columns_can_be_committed_again(store, tmp_path):
    rows = random_rows(5000)
    store.commit_arrow(batch(rows, metadata=pa.array([f"m{number % 7}" for number in range(5000)])))
    with offsetlog.open(tmp_path / "copy", partitions=7, durability="process") as copy:
        copy.commit_arrow(store.to_arrow())
        assert copy.digest() == store.digest()


def test_columns_outlive_the_store(path):
    with offsetlog.open(path, durability="process") as store:
        store.commit_arrow(batch(random_rows(5000)))
        table = store.to_arrow()
        rows = table.to_pylist()
    del store
    assert table.to_pylist() == rows


def test_topic_ids_in_columns(path):
    import uuid

    config = offsetlog.StoreConfig(write_offset_value_v4="always")
    with offsetlog.open(path, durability="process", config=config) as store:
        for number in range(100):
            topic_id = uuid.UUID(int=number) if number % 3 == 0 else None
            store.commit("g", {TopicPartition("t", number): OffsetAndMetadata(number, topic_id=topic_id)})
        rows = store.to_arrow().to_pylist()
        assert {row["partition"]: row["topic_id"] for row in rows} == {
            number: uuid.UUID(int=number).bytes if number % 3 == 0 and number else None for number in range(100)
        }
