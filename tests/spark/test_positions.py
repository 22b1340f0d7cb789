"""The offsets of Spark's sources as positions, and the way back to `startingOffsets`."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import offsetlog
from offsetlog import OffsetAndMetadata, TopicPartition, errors
from offsetlog.spark import positions, source_topic, starting_offsets
from offsetlog.spark.positions import SourceOffset, merged, position_metadata, read_source_offset

FILES = "FileStreamSource[file:/data/in]"
PYTHON = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithAdmissionControl@6edb6635"


@pytest.fixture
def store(tmp_path):
    with offsetlog.open(tmp_path / "data", partitions=2, durability="process") as opened:
        yield opened


# ------------------------------------------------------------------------------------------------------ source offsets


@pytest.mark.parametrize(
    ("text", "shape", "found"),
    [
        ('{"orders":{"1":9,"0":7},"a b":{"12":0}}', "topics", {("orders", 0): 7, ("orders", 1): 9, ("a b", 12): 0}),
        ('{"orders": {"0": -1, "1": 5}}', "topics", {("orders", 1): 5}),
        ('{"__consumer_offsets":{"0":123}}', "topics", {("__consumer_offsets", 0): 123}),
        ('{"logOffset":4}', "files", {("here", 0): 5}),
        ('{"logOffset":-1}', "files", {("here", 0): 0}),
        ("17", "counter", {("here", 0): 17}),
        ("-1", "counter", {}),
        ('{"offset":5,"timestamp":1000}', "counter", {("here", 0): 5}),
        (str(2**63 - 1), "counter", {("here", 0): 2**63 - 1}),
        ('{"sourceVersion":1,"reservoirId":"x","reservoirVersion":5,"index":-1}', "unknown", {}),
        ('"text"', "unknown", {}),
        ("[1]", "unknown", {}),
        ("true", "unknown", {}),
        ("1.5", "unknown", {}),
        ("{}", "nothing", {}),
        *[(text, "nothing", {}) for text in (None, "", "-", "None", "null")],
    ],
)
def test_each_shape_is_known_by_its_text(text, shape, found):
    assert read_source_offset(text, "here") == SourceOffset(
        shape, {TopicPartition(*key): n for key, n in found.items()}
    )


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "nonsense",
        '{"orders":{"0":1,"0":2}}',
        '{"orders":{"0":"1"}}',
        '{"orders":{"0":true}}',
        '{"orders":{"0":1.5}}',
        '{"orders":{"0":null}}',
        '{"orders":{"zero":1}}',
        '{"orders":{"-1":1}}',
        '{"orders":{"٣":1}}',
        '{"orders":{"2147483648":1}}',
        '{"orders":{"0":9223372036854775808}}',
        '{"":{"0":1}}',
        json.dumps({"t" * 250: {"0": 1}}),
        "9223372036854775808",
        "9" * 5000,
        "[" * 100_000,
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_offset_is_corrupt(text):
    with pytest.raises(errors.CorruptionError):
        read_source_offset(text, "here")


def test_an_offset_is_bounded(monkeypatch):
    monkeypatch.setattr(positions, "TEXT_CHARACTERS_MAX", 100)
    with pytest.raises(errors.LimitError, match="101 characters"):
        read_source_offset(" " * 100 + "1", "here")
    monkeypatch.setattr(positions, "PARTITIONS_MAX", 2)
    with pytest.raises(errors.LimitError, match="3 partitions"):
        read_source_offset('{"a":{"0":1,"1":1},"b":{"0":1}}', "here")


@given(st.text(max_size=60))
def test_no_text_does_more_than_fail(text):
    try:
        found = read_source_offset(text, "here")
    except errors.CorruptionError:
        return
    assert all(0 <= offset < 2**63 for offset in found.positions.values())


def test_the_smallest_offset_of_several_sources_counts():
    a, b = TopicPartition("orders", 0), TopicPartition("orders", 1)
    assert merged([{a: 5, b: 6}, {}, {a: 3}]) == {a: 3, b: 6}


@pytest.mark.parametrize(
    ("description", "topic"),
    [
        (FILES, "FileStreamSource_file_data_in"),
        (PYTHON, PYTHON.partition("@")[0]),
        ("RateStreamV2[rowsPerSecond=5, numPartitions=default", "RateStreamV2_rowsPerSecond_5_numPartitions_default"),
        ("FileStreamSource[s3a://bucket/é/x@20]", "FileStreamSource_s3a_bucket_x"),
        ("", "source"),
        ("..", "source"),
        ("[]", "source"),
    ],
)
def test_a_source_without_topics_gets_a_readable_one(description, topic):
    assert source_topic(description) == topic


@given(st.text(max_size=600))
def test_the_topic_of_a_source_is_legal(description):
    topic = source_topic(description)
    assert re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic)
    assert topic not in {".", ".."}


def test_long_descriptions_stay_apart():
    names = {source_topic(f"FileStreamSource[file:/{'x' * 300}/{number}]") for number in range(50)}
    assert len(names) == 50


def test_the_metadata_of_a_position_is_bounded():
    assert position_metadata("orders to lake", "7-8", 3) == '{"query":"orders to lake","id":"7-8","batch":3}'
    assert position_metadata(None, None, 3) == '{"batch":3}'
    metadata = json.loads(position_metadata("\udcff" + "é" * 5000, "7", 2**62))
    assert len(metadata["query"]) == positions.NAME_CHARACTERS_MAX


def test_spark_is_known_by_its_description():
    assert positions.is_kafka_source("KafkaV2[Subscribe[orders]]")
    assert positions.is_kafka_source("KafkaSourceV1[Subscribe[orders]]")
    assert not positions.is_kafka_source(FILES)
    assert not positions.is_kafka_source("KafkaLike")


# ------------------------------------------------------------------------------------------------------ the way back


def test_committed_positions_come_back_as_starting_offsets(store):
    store.commit("g", {TopicPartition("orders", 0): 5, TopicPartition("orders", 2): OffsetAndMetadata(7, "why")})
    store.commit("g", {TopicPartition("bills", 0): 1})
    assert starting_offsets(store, "g") == '{"bills":{"0":1},"orders":{"0":5,"1":-2,"2":7}}'
    assert starting_offsets(store, "g", "orders", "latest") == '{"orders":{"0":5,"1":-1,"2":7}}'
    counted = starting_offsets(store, "g", ["orders"], partitions={"orders": 5, "more": 1})
    assert json.loads(counted) == {"orders": {"0": 5, "1": -2, "2": 7, "3": -2, "4": -2}}
    assert starting_offsets(store, "g", "orders", partitions={"orders": [2, 0]}) == '{"orders":{"0":5,"2":7}}'
    assert starting_offsets(store, "new", ["orders"], partitions={"orders": 2}) == '{"orders":{"0":-2,"1":-2}}'


def test_what_is_missing_can_be_an_error(store):
    store.commit("g", {TopicPartition("orders", 1): 5})
    with pytest.raises(errors.StateError, match="no position for orders:0") as caught:
        starting_offsets(store, "g", missing="error")
    assert caught.value.item == TopicPartition("orders", 0)
    with pytest.raises(errors.StateError, match="list them in `topics`"):
        starting_offsets(store, "nobody")
    with pytest.raises(errors.TopicError, match="'bills'"):
        starting_offsets(store, "g", ["bills"])


def test_a_path_is_read_and_not_locked(store, tmp_path):
    store.commit("g", {TopicPartition("orders", 0): 5})
    assert starting_offsets(tmp_path / "data", "g") == '{"orders":{"0":5}}'
    with pytest.raises(errors.MissingFileError):
        starting_offsets(str(tmp_path / "nothing"), "g")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"missing": "never"}, errors.ConfigError),
        ({"topics": []}, errors.ConfigError),
        ({"topics": [7]}, errors.ArgumentTypeError),
        ({"topics": [""]}, errors.TopicError),
        ({"partitions": {"orders": 0}}, errors.TopicError),
        ({"partitions": {"orders": "3"}}, errors.ArgumentTypeError),
        ({"partitions": {"orders": True}}, errors.ArgumentTypeError),
        ({"partitions": {"orders": None}}, errors.ArgumentTypeError),
        ({"partitions": {"orders": [-1]}}, errors.ConfigError),
        ({"partitions": {"orders": 10**30}}, errors.ConfigError),
        ({"partitions": ["orders"]}, errors.ArgumentTypeError),
        ({"partitions": "some/path"}, errors.ConfigError),
        ({"store": 7}, errors.ArgumentTypeError),
        ({"store": ""}, errors.ArgumentTypeError),
        ({"store": {}}, errors.ConfigError),
        ({"store": {"bootstrap.servers": "127.0.0.1:1", "no.such.setting": 1}}, errors.ConfigError),
    ],
)
def test_arguments_are_checked(store, arguments, kind):
    store.commit("g", {TopicPartition("orders", 0): 5})
    with pytest.raises(kind):
        starting_offsets(**{"store": store, "group": "g", **arguments})


def test_a_far_partition_is_not_filled_up(store):
    store.commit("g", {TopicPartition("orders", 2**31 - 1): 5})
    with pytest.raises(errors.ConfigError, match="partitions="):
        starting_offsets(store, "g")


def test_the_names_of_the_package_load_what_they_need():
    program = """
import sys
import offsetlog.spark as package
assert "offsetlog.store" not in sys.modules and "pyspark" not in sys.modules
assert package.read_checkpoint and package.import_checkpoint and package.starting_offsets
assert "pyspark" not in sys.modules and "confluent_kafka" not in sys.modules
assert package.OffsetCommitListener and "confluent_kafka" not in sys.modules
assert set(package.__all__) <= set(dir(package))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
