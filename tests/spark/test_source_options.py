"""Options of a reader: what they mean, and what is refused by name."""

from __future__ import annotations

import itertools
import shutil
import struct
from pathlib import Path

import pytest
from conformance.scenarios import SCENARIOS
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

import offsetlog
from offsetlog import errors
from offsetlog.spark.scan import options
from offsetlog.spark.scan.files import numbers_text
from offsetlog.spark.scan.options import Moment, parse
from offsetlog.spark.scan.views import asked_schema, full_schema, spark_schema
from offsetlog.spark.source import OffsetlogDataSource

from .reading import rows_of, splits_of

LOG = next(each.log for each in SCENARIOS if each.name == "kafka-4.3.0/txn")


def test_names_do_not_depend_on_case() -> None:
    read = parse(
        {"PATH": "/x", "View": "records", "splitbytes": "64m", "startingoffset": '{"3": 7}', "pushDown": "TRUE"}
    )
    assert (read.path, read.view, read.split_bytes, read.starting_offset) == ("/x", "records", 64 << 20, {3: 7})
    assert read.pushdown
    assert not read.permissive


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02T03:04:05.678Z", Moment(1767323045678)),
        ("2026-01-02T04:04:05.678+01:00", Moment(1767323045678)),
        ("2026-01-02T03:04:05", Moment(1767323045000)),
        ("2026-01-02", Moment(1767312000000)),
        ("1767323045678", Moment(1767323045678)),
        ("-5", Moment(-5)),
        ("offset:17", Moment(offsets=((None, 17),))),
        ('{"0": 1, "49": 2}', Moment(offsets=((0, 1), (49, 2)))),
    ],
)
def test_moments(text: str, moment: Moment) -> None:
    assert options.parse_moment(text) == moment


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "path is missing"),
        ({"path": "/x", "paths": "[]"}, "more than one path"),
        ({"path": "/x", "veiw": "records"}, "'veiw' is not known; the options are path, view"),
        ({"path": "/x", "startingOffsets": "earliest"}, "'startingOffsets' is not known for a batch, only for a"),
        (
            {"location": "file:/x", "option.view": "offsets"},
            "cannot be a table of the catalog; use CREATE TEMPORARY VIEW",
        ),
        ({"path": "/x", "startingOffset": "10", "endingOffset": "5"}, "startingOffset='10' is above 5"),
        ({"path": "/x", "startingOffset": '{"3": 10}', "endingOffset": "5"}, "is above 5, the endingOffset"),
        ({"path": "/x", "view": "rows"}, "view='rows' is not known; it must be one of commits"),
        (
            {"path": "/x", "mode": "dropMalformed"},
            "mode='dropMalformed' is not known; it must be one of failfast, permissive",
        ),
        ({"path": "/x", "at": "yesterday"}, "at='yesterday' is not a moment"),
        ({"path": "/x", "at": "offset:-1"}, "at='offset:-1'"),
        ({"path": "/x", "at": '{"0": "x"}'}, "must be a log partition and a log offset"),
        ({"path": "/x", "at": '{"0":'}, "must be JSON"),
        ({"path": "/x", "partitions": "0,x"}, "partitions='0,x': 'x' is not a log partition"),
        ({"path": "/x", "partitions": "5-3"}, "partitions='5-3'"),
        ({"path": "/x", "partitions": ""}, "partitions=''"),
        ({"path": "/x", "startingOffset": "first"}, "startingOffset='first' must be a number, or JSON"),
        ({"path": "/x", "endingOffset": "-1"}, "endingOffset='-1' must be from 0"),
        ({"path": "/x", "splitBytes": "0"}, "splitBytes='0' must be a number of bytes above 0"),
        ({"path": "/x", "splitBytes": "64q"}, "splitBytes='64q'"),
        ({"path": "/x", "buckets": "0", "view": "offsets"}, "buckets='0' must be from 1"),
        ({"path": "/x", "minPartitions": "0"}, "minPartitions='0' must be from 1"),
        ({"path": "/x", "buckets": "2"}, "buckets='2' is only for view=offsets|groups|history, not for view=commits"),
        ({"path": "/x", "columns": "a,,b"}, "columns='a,,b' must be a list of columns"),
        ({"path": "/x", "columns": "group,group"}, "must be a list of columns, each named once"),
        ({"path": "/x", "partition": "3000000000"}, "partition='3000000000' must be from 0"),
        ({"path": "/x", "pushdown": "yes"}, "pushdown='yes' is not known; it must be one of true, false"),
        ({"path": "/x", "view": "offsets", "startingOffset": "1"}, "not for view=offsets; use the option 'at'"),
        ({"path": "/x", "view": "batches", "group": "g"}, "headers, which contain no groups"),
        ({"path": "/x", "view": "groups", "topic": "t"}, "not for view=groups"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        parse(given)
    assert message in str(caught.value)


def test_what_a_stream_is_asked_for() -> None:
    read = parse(
        {"path": "/x", "startingOffsets": '{"__consumer_offsets": {"0": 5}}', "maxOffsetsPerTrigger": "9"},
        streaming=True,
    )
    assert (read.starting_offsets, read.offsets_per_trigger, read.fail_on_data_loss) == ({0: 5}, 9, True)
    read = parse(
        {"path": "/x", "startingOffsets": "LATEST", "failOnDataLoss": "false", "isolationLevel": "read_committed"},
        streaming=True,
    )
    assert (read.starting_offsets, read.fail_on_data_loss, read.committed_only) == ("latest", False, True)
    read = parse({"path": "/x", "startingOffsets": '{"0": -2, "1": -1}'}, streaming=True)
    assert read.starting_offsets == {0: -2, 1: -1}
    with pytest.raises(errors.ConfigError, match="-3 must be a log partition and a log offset"):
        parse({"path": "/x", "startingOffsets": '{"0": -3}'}, streaming=True)
    with pytest.raises(errors.ConfigError, match="'endingOffset' is not known for a stream, only for a batch;"):
        parse({"path": "/x", "endingOffset": "5"}, streaming=True)
    for given in ({"at": "5"}, {"startingOffsets": "soon"}, {"isolationLevel": "snapshot"}, {"view": "groups"}):
        with pytest.raises(errors.ConfigError, match=next(iter(given))):
            parse({"path": "/x", **given}, streaming=True)


# -------------------------------------------------------------------------------------------------------------- columns


def test_columns_of_the_views_are_the_documented_ones() -> None:
    position = (
        "`group` string, `topic` string, `partition` int, `offset` bigint, `leader_epoch` int, `metadata` string, "
        "`commit_timestamp` bigint, `expire_timestamp` bigint, `topic_id` string"
    )
    commits = (
        f"{position}, `kind` string, `timestamp` bigint, `outcome` string, `marker_offset` bigint, "
        "`producer_id` bigint, `producer_epoch` int, `log_partition` int, `log_offset` bigint"
    )
    expected = {
        "commits": commits,
        "history": f"{commits}, `effective_at` bigint",
        "offsets": f"{position}, `log_partition` int, `log_offset` bigint",
        "groups": "`group` string, `type` string, `state` string, `protocol_type` string, `protocol` string, "
        "`generation` int, `members` array<struct<member_id:string,group_instance_id:string,client_id:string,"
        "client_host:string>>, `simple` boolean, `log_partition` int",
    }
    for view, schema in expected.items():
        assert OffsetlogDataSource({"path": "/x", "view": view}).schema() == schema
        assert (
            OffsetlogDataSource({"path": "/x", "view": view, "mode": "permissive"}).schema()
            == f"{schema}, `problem` string"
        )
    assert (
        spark_schema(full_schema(parse({"path": "/x", "columns": "offset, group"})))
        == "`offset` bigint, `group` string"
    )
    with pytest.raises(errors.ConfigError, match="has no column 'color'; it has group, topic"):
        full_schema(parse({"path": "/x", "columns": "color"}))


def test_a_schema_of_the_caller_chooses_columns() -> None:
    read = parse({"path": "/x"})
    asked = StructType().add("offset", LongType()).add("partition", IntegerType())
    assert asked_schema(read, asked).names == ["offset", "partition"]
    refusal = "'offset' has the type string in the schema, but the type bigint in view=commits"
    with pytest.raises(errors.ConfigError, match=refusal):
        asked_schema(read, StructType().add("offset", StringType()))
    with pytest.raises(errors.ConfigError, match="has no column 'color'"):
        asked_schema(read, StructType().add("color", StringType()))


# ------------------------------------------------------------------------------------------------------- what is read


def test_a_partition_and_a_segment_are_read_by_themselves() -> None:
    every = rows_of(LOG, view="records")
    number, segment = every[0]["log_partition"], every[0]["segment"]
    directory = LOG / f"__consumer_offsets-{number}"
    mine = [row for row in every if row["log_partition"] == number]
    assert rows_of(directory, view="records") == mine
    assert rows_of(f"file://{directory}", view="records", splitBytes=200) == mine
    assert rows_of(directory / segment, view="records") == [row for row in mine if row["segment"] == segment]
    assert rows_of(LOG, view="records", partitions=f"{number}") == mine
    for view in ("offsets", "history"):
        found = rows_of(directory / segment, view=view, minPartitions=3)
        assert {row["log_partition"] for row in found} == {number}


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "00000000000000000000.log").touch()
    (tmp_path / "note.txt").write_text("no segment of a log at all, only words that somebody wrote down")
    for name, kind, message in (
        ("nowhere", errors.MissingFileError, "does not exist"),
        ("empty", errors.MissingFileError, "no partition of __consumer_offsets"),
        ("orders-0", errors.InvalidArgumentError, "a partition of the topic 'orders'"),
    ):
        with pytest.raises(kind, match=message) as caught:
            rows_of(tmp_path / name)
        assert caught.value.path == str(tmp_path / name)
    for view in ("commits", "offsets"):
        with pytest.raises(errors.CorruptionError) as damage:
            rows_of(tmp_path / "note.txt", view=view)
        assert (damage.value.path, damage.value.position) == (str(tmp_path / "note.txt"), 0)
    for path in ("gopher://somewhere/x", "s3://"):
        with pytest.raises((errors.ConfigError, errors.StorageError), match=r"gopher|s3"):
            rows_of(path)
    with pytest.raises(errors.MissingFileError, match="does not hold log partition 77"):
        rows_of(LOG, partitions="77")


def test_a_file_beside_a_segment_is_no_segment(tmp_path: Path) -> None:
    entries = b"".join(struct.pack(">ii", 40 * each, 1000 * each) for each in range(1, 14))
    for name, content in (
        ("00000000000000000000.index", entries),
        ("00000000000000000001.index", bytes(104)),
        ("00000000000000000002.index", b""),
        ("00000000000000000000.timeindex", struct.pack(">qi", 1_700_000_000_000, 5)),
        ("00000000000000000000.snapshot", bytes(10)),
        ("leader-epoch-checkpoint", b"0\n1\n0 0\n"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        for view, mode in itertools.product(options.VIEWS, ("failfast", "permissive")):
            with pytest.raises(errors.CorruptionError, match=r"not a log segment.*named like 0{20}\.log") as caught:
                rows_of(path, view=view, mode=mode)
            assert (caught.value.path, caught.value.position) == (str(path), 0)
    # A segment without a batch is one, and so is a copy by another name.
    (tmp_path / "00000000000000000000.log").touch()
    assert rows_of(tmp_path / "00000000000000000000.log") == []
    shutil.copy(max(LOG.rglob("*.log"), key=lambda path: path.stat().st_size), tmp_path / "copy.bin")
    assert rows_of(tmp_path / "copy.bin", view="records")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffset": "latest"}, "must be a number, or JSON with a log offset for each log partition"),
        ({"startingoffsets": "earliest"}, "startingOffset"),
        ({"colums": "offset"}, "did you mean columns"),
        ({"owner": "me"}, "cannot be a table of the catalog"),
        ({"location": "/x"}, "cannot be a table of the catalog"),
    ],
)
def test_an_option_that_is_wrong_says_what_is_meant(given: dict[str, str], message: str) -> None:
    with pytest.raises(errors.ConfigError, match=message):
        parse({"path": "/log", **given})


def test_a_log_partition_that_is_not_there_is_no_matter_of_a_cluster() -> None:
    with pytest.raises(errors.MissingFileError) as caught:
        rows_of(LOG, partitions="77")
    numbers = [int(path.name.rpartition("-")[2]) for path in LOG.glob("__consumer_offsets-*")]
    held = numbers_text(numbers)
    assert str(caught.value) == f"the directory does not hold log partition 77; it holds {held} ({LOG})"
    assert numbers_text([7, 0, 2, 1]) == "0-2,7"
    assert numbers_text(range(0, 100, 2)) == "0,2,4,6,8,10,12,14,16,18,..."
    assert numbers_text([]) == "none"


def test_a_log_without_a_record(tmp_path: Path) -> None:
    offsetlog.open(tmp_path / "data", partitions=3).close()
    assert splits_of(tmp_path / "data") == []
    for view in options.VIEWS:
        assert rows_of(tmp_path / "data", view=view) == []
