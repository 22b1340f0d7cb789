from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row as SparkRow
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
)

import offsetlog
from offsetlog import errors
from offsetlog.spark.scan.uri_files import file_system_of
from offsetlog.spark.sink.options import OPTIONS, check_schema, checked_options
from offsetlog.spark.sink.staging import (
    REFUSED_SCHEMA,
    SCHEMA,
    StagingPlace,
    check,
    checksum_of,
    read_staged,
    stage,
)
from offsetlog.spark.sink.writer import batch_writer, stream_writer
from tests.spark.sinks import batch_of

SOUND = {
    "group": "g",
    "topic": "t",
    "partition": 0,
    "offset": 1,
    "leader_epoch": 3,
    "metadata": "m",
    "commit_timestamp": 5,
}

WRONG = [
    ({"group": None}, "the group is null"),
    ({"group": "g" * 32_768}, "the group has more than 32767 bytes of UTF-8"),
    ({"group": "__offsetlog_spark-4-0"}, "groups that begin with __offsetlog_spark are reserved for the sink"),
    ({"topic": None}, "the topic is null"),
    ({"topic": ""}, "the topic must not be empty"),
    ({"topic": "é" * 16_384}, "the topic has more than 32767 bytes of UTF-8"),
    ({"partition": None}, "the partition is null"),
    ({"partition": -1}, "the partition is negative"),
    ({"partition": 2**31}, "the partition is above 2147483647"),
    ({"offset": None}, "the offset is null"),
    ({"offset": -1}, "the offset is negative"),
    ({"leader_epoch": -2}, "the leader epoch is below -1"),
    ({"leader_epoch": 2**31}, "the leader epoch is above 2147483647"),
    ({"commit_timestamp": -2}, "the commit timestamp is below -1"),
    ({"metadata": "m" * 4097}, "the metadata has more than 4096 UTF-16 units"),
    ({"metadata": "😀" * 2049}, "the metadata has more than 4096 UTF-16 units"),
    ({"metadata": "m" * 32_768}, "the metadata has more than 32767 bytes of UTF-8"),
]

TYPES = {
    "group": pa.string(),
    "topic": pa.string(),
    "partition": pa.int64(),
    "offset": pa.int64(),
    "leader_epoch": pa.int64(),
    "metadata": pa.string(),
    "commit_timestamp": pa.int64(),
}


def rows_of(*rows: dict[str, object]) -> pa.RecordBatch:
    columns = [pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()]
    return pa.RecordBatch.from_arrays(columns, list(TYPES))


@pytest.mark.parametrize(("change", "reason"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_a_row_that_cannot_be_committed_is_refused(change, reason):
    good, bad = check(rows_of(SOUND, {**SOUND, **change}, SOUND), 4096)
    assert bad.schema == REFUSED_SCHEMA
    assert bad.column("reason").to_pylist() == [reason]
    assert bad.column("has_group").to_pylist() == ["group" not in change]
    assert good.to_pylist() == [SOUND, SOUND]


def test_what_the_store_takes_is_taken():
    most = {
        "group": "",
        "topic": "t" * 32_767,
        "partition": 2**31 - 1,
        "offset": 2**63 - 1,
        "leader_epoch": 2**31 - 1,
        "metadata": "😀" * 2048,
        "commit_timestamp": -1,
    }
    nulls = {**SOUND, "leader_epoch": None, "metadata": None, "commit_timestamp": None}
    good, bad = check(rows_of(most, nulls), 4096)
    assert bad.num_rows == 0
    assert good.to_pylist() == [most, {**SOUND, "leader_epoch": -1, "metadata": "", "commit_timestamp": -1}]


@pytest.mark.parametrize("name", ["group", "topic", "metadata"])
def test_text_that_is_not_utf_8_is_refused(name):
    values = pa.array([b"fine", b"\xed\xa0\x80", None, "\ufffd".encode()], pa.binary())
    columns = {key: pa.array([value] * 4, TYPES[key]) for key, value in SOUND.items()}
    columns[name] = values.view(pa.string())
    good, bad = check(pa.RecordBatch.from_pydict(columns), 4096)
    reasons = bad.column("reason").to_pylist()
    assert reasons[0] == f"the {name} is not UTF-8"
    assert good.column(name).to_pylist() == (["fine", "", "\ufffd"] if name == "metadata" else ["fine", "\ufffd"])


def test_optional_columns_may_be_missing_and_timestamps_are_times():
    good, _ = check(batch_of([("g", "t", 0, 1)]), 4096)
    assert good.schema == SCHEMA
    assert good.to_pylist() == [{**SOUND, "leader_epoch": -1, "metadata": "", "commit_timestamp": -1}]
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    good, _ = check(batch_of([("g", "t", 0, 1)], commit_timestamp=[moment]), 4096)
    assert good.column("commit_timestamp").to_pylist() == [1_767_323_045_678]


names = st.one_of(
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    st.sampled_from(["__offsetlog_spark", "x" * 32_768]),
)
numbers = st.one_of(st.none(), st.integers(-2, 2), st.sampled_from([2**31 - 1, 2**31, 2**63 - 1, -(2**63)]))


rows_drawn = st.fixed_dictionaries({name: names if kind == pa.string() else numbers for name, kind in TYPES.items()})


def test_a_row_is_sound_where_the_store_takes_it(tmp_path):
    with offsetlog.open(tmp_path, partitions=2, durability="process") as store:

        @given(rows_drawn)
        @settings(max_examples=300, deadline=None)
        def judged(row: dict[str, object]) -> None:
            good, bad = check(rows_of(row), 4096)
            if good.num_rows:
                assert store.commit_arrow(good) == 1
            elif not bad.column("reason")[0].as_py().endswith("reserved for the sink"):
                with pytest.raises(errors.InvalidArgumentError):
                    store.commit_arrow(rows_of(row))

        judged()


def test_a_task_stages_one_file_of_its_own(tmp_path):
    place = StagingPlace(str(tmp_path), "q", 3, "run")
    bad = [("g", "t", -1, 1)]
    messages = [stage(place, [batch_of([("g", "t", 0, 1)]), batch_of(bad)], 4096) for _ in range(2)]
    assert len({message.rows.path for message in messages if message.rows}) == 2
    files = sorted(path.name for path in (tmp_path / "q" / "3" / "run").iterdir())
    assert len(files) == 4
    assert not [name for name in files if name.endswith(".partial")]
    file_system, _ = file_system_of(tmp_path)
    for message in messages:
        assert (message.task, message.query, message.folder) == (0, None, str(tmp_path / "q" / "3" / "run"))
        assert message.rows is not None
        assert message.first_refused is not None
        assert checksum_of(file_system, message.rows.path) == (message.rows.size, message.rows.checksum)
        [batch] = read_staged(file_system, message.rows)
        assert batch.column("offset").to_pylist() == [1]
        assert message.first_refused.key() == "group 'g', topic 't', partition -1"


def test_a_task_that_fails_leaves_no_file(tmp_path):
    def rows():
        yield batch_of([("g", "t", 0, 1)])
        raise RuntimeError("the task failed")

    with pytest.raises(RuntimeError, match="the task failed"):
        stage(StagingPlace(str(tmp_path), "q", 0, "run"), rows(), 4096)
    assert not list((tmp_path / "q" / "0" / "run").iterdir())


def test_a_task_without_rows_stages_nothing(tmp_path):
    message = stage(StagingPlace(str(tmp_path / "staging"), "q", 0, "run"), [], 4096)
    assert (message.rows, message.refused, message.folder) == (None, None, None)
    assert not (tmp_path / "staging").exists()


def test_rows_are_taken_where_there_are_no_batches(tmp_path):
    rows = [SparkRow(group="g", topic="t", partition=part, offset=part) for part in range(10_000)]
    message = stage(StagingPlace(tmp_path.as_uri(), "q", 0, "run"), rows, 4096)
    assert message.rows is not None
    assert message.rows.rows == 10_000


def test_a_stream_without_a_name_is_refused(tmp_path):
    with pytest.raises(errors.ConfigError, match="queryId"):
        stage(StagingPlace(str(tmp_path), None, None, None), [batch_of([("g", "t", 0, 1)])], 4096)


def test_a_staging_of_no_known_kind_is_refused():
    with pytest.raises(errors.ConfigError, match="nosuch"):
        file_system_of("nosuch://somewhere/else")


@pytest.mark.parametrize(
    ("given_options", "stream", "message"),
    [
        ({}, False, "the path of the store is missing"),
        ({"path": "hdfs://name/dir"}, False, "directory on the driver's machine"),
        ({"path": "p", "colour": "red"}, False, "'colour' is not an option of a write"),
        ({"path": "p", "checkpointLocation": "c"}, False, "'checkpointlocation' is not an option of a write"),
        ({"path": "p", "mode": "lax"}, False, "mode must be failfast or permissive, not 'lax'"),
        ({"path": "p", "durability": "replicas"}, False, "durability must be disk or process"),
        ({"path": "p", "clean": "maybe"}, False, "clean must be true or false"),
        ({"path": "p", "partitions": "0"}, False, "partitions must be a number from 1 to 100000, not '0'"),
        ({"path": "p", "partitions": "many"}, False, "partitions must be a number"),
        ({"path": "p", "lockTimeoutSeconds": "soon"}, False, "lockTimeoutSeconds must be a number of seconds"),
        ({"path": "p", "queryId": "a/b", "epoch": "1"}, False, "queryId 'a/b'"),
        ({"path": "p", "queryId": "..", "epoch": "1"}, False, "queryId"),
        ({"path": "p", "queryId": "q"}, False, "takes queryId and epoch together"),
        ({"path": "p", "epoch": "1"}, False, "takes queryId and epoch together"),
        ({"path": "p", "epoch": "1"}, True, "a stream counts its own"),
    ],
)
def test_a_wrong_option_is_named(given_options, stream, message):
    with pytest.raises(errors.ConfigError, match=re.escape(message)):
        checked_options(given_options, stream=stream, overwrite=False)


def test_another_number_of_log_partitions_is_refused_before_a_task_runs(tmp_path):
    fields = {"group": StringType(), "topic": StringType(), "partition": IntegerType(), "offset": LongType()}
    columns = StructType([StructField(name, kind) for name, kind in fields.items()])
    offsetlog.open(tmp_path, partitions=4).close()
    for make in (batch_writer, stream_writer):
        with pytest.raises(errors.PartitionCountError, match="partitions=9 was given, but the directory has 4 part"):
            make({"path": str(tmp_path), "partitions": "9"}, columns, overwrite=False)
        make({"path": str(tmp_path), "partitions": "4"}, columns, overwrite=False)
        make({"path": str(tmp_path / "new"), "partitions": "9"}, columns, overwrite=False)


def test_options_are_read_as_spark_gives_them():
    every = {name.lower(): "1" for name in OPTIONS}
    every |= {
        "path": "file:/a%20b c/",
        "clean": "false",
        "mode": "permissive",
        "durability": "process",
        "lockTimeoutSeconds": "0.5",
    }
    chosen = checked_options(every, stream=False, overwrite=False)
    assert (chosen.path, chosen.mode, chosen.query_id, chosen.epoch) == ("/a%20b c", "permissive", "1", 1)
    assert (chosen.partitions, chosen.durability, chosen.lock_timeout_seconds) == (1, "process", 0.5)
    assert chosen.keep_open_seconds == 1
    assert not chosen.clean
    plain = checked_options({"path": "/data/", "checkpointlocation": "c"}, stream=True, overwrite=False)
    assert (plain.path, plain.staging_location, plain.report) == ("/data", "/data/.offsetlog-staging", None)
    assert plain.keep_open_seconds == 10
    with pytest.raises(errors.ConfigError, match="cannot be overwritten"):
        checked_options({"path": "p"}, stream=True, overwrite=True)


KINDS = {
    "string": StringType(),
    "varchar": VarcharType(9),
    "binary": BinaryType(),
    "byte": ByteType(),
    "short": ShortType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampType(),
}


def schema_of(columns: str) -> StructType:
    pairs = [column.split() for column in columns.split(", ")]
    return StructType([StructField(name, KINDS[kind]) for name, kind in pairs])


REQUIRED_COLUMNS = "group string, topic string, partition int, offset long"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("group string, topic string, partition int", "column 'offset' is missing"),
        (f"{REQUIRED_COLUMNS}, lag long", "'lag' is not a column"),
        (f"{REQUIRED_COLUMNS}, metadata binary", "column 'metadata' must be a string, not binary"),
        (f"{REQUIRED_COLUMNS}, commit_timestamp date", "column 'commit_timestamp' must be an integer of millis"),
        (f"{REQUIRED_COLUMNS}, offset long", "column 'offset' appears 2 times"),
        (
            "group string, topic string, partition double, offset long",
            "column 'partition' must be an integer, not double",
        ),
    ],
)
def test_a_wrong_column_is_named(columns, message):
    with pytest.raises(errors.InvalidArgumentError, match=re.escape(message)):
        check_schema(schema_of(columns))


def test_columns_of_other_widths_are_taken():
    check_schema(schema_of("offset short, partition long, topic varchar, group string, leader_epoch byte"))
    check_schema(schema_of(f"{REQUIRED_COLUMNS}, leader_epoch int, metadata string, commit_timestamp timestamp"))


def test_what_an_executor_unpickles_loads_no_store():
    script = (
        "import sys, offsetlog.spark.sink.writer; print([name for name in sys.modules if name == 'offsetlog.store'])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
