"""The table of a moment as Parquet, and what stands beside it."""

from __future__ import annotations

import json
import shutil
import time
from datetime import UTC, datetime

import pyarrow.parquet
import pytest

import offsetlog
from offsetlog import TopicPartition
from offsetlog.errors import ConfigError, InvalidArgumentError
from offsetlog.spark.jobs import snapshot
from offsetlog.spark.jobs.session import write_tables
from offsetlog.spark.source import register

pytestmark = pytest.mark.spark


def test_the_table_as_of_a_moment(spark, tmp_path):
    register(spark)
    with offsetlog.open(tmp_path / "data", 4) as store:
        for number in range(12):
            store.commit(f"group-{number}", {TopicPartition("orders", 0): number, TopicPartition("orders", 1): 7})
        digest = store.digest()
        rows = store.to_arrow().num_rows
        time.sleep(0.01)
        moment = datetime.now(UTC).isoformat()
        time.sleep(0.01)
        store.commit("group-1", {TopicPartition("orders", 0): 1000})
    made = snapshot.run(spark, tmp_path / "data", str(tmp_path / "table"), at=moment)

    assert made.rows == rows == 24
    assert made.positions == f"{digest.positions:032x}"
    assert sum(int(each, 16) for each in made.log_partitions.values()) % (1 << 128) == digest.positions
    noted = json.loads((tmp_path / "table" / snapshot.NOTE).read_text())
    assert noted["at"] == moment
    assert noted["positions"] == made.positions
    assert noted["source"] == str(tmp_path / "data")
    # For any reader of Parquet, the note is no part of it.
    table = pyarrow.parquet.read_table(tmp_path / "table").to_pylist()
    assert sorted((row["group"], row["partition"], row["offset"]) for row in table) == sorted(
        (f"group-{number}", *place) for number in range(12) for place in ((0, number), (1, 7))
    )
    with pytest.raises(ConfigError, match="already"):
        snapshot.run(spark, tmp_path / "data", str(tmp_path / "table"))


def test_a_format_that_spark_has_no_package_for(spark, tmp_path):
    with pytest.raises(ConfigError, match=r"lacks the package for delta.*io\.delta:delta-spark"):
        snapshot.run(spark, tmp_path, str(tmp_path / "table"), table_format="delta")
    with pytest.raises(ConfigError, match=r"lacks the package for iceberg.*iceberg-spark-runtime"):
        snapshot.run(spark, tmp_path, "local.offsets", table_format="iceberg")
    with pytest.raises(InvalidArgumentError, match="parquet, delta, iceberg"):
        snapshot.check_format(spark, "csv")


@pytest.fixture
def data(tmp_path):
    with offsetlog.open(tmp_path / "data" / "log", 2) as store:
        store.commit("one", {TopicPartition("orders", 0): 1})
    return tmp_path / "data" / "log"


def files_in(path):
    return sorted(str(each) for each in path.rglob("*"))


def test_a_log_is_never_replaced_by_its_own_table(spark, data):
    register(spark)
    before = files_in(data)
    for target in (data, data.parent, data / "table", f"file:{data}", data / "__consumer_offsets-0"):
        with pytest.raises(InvalidArgumentError, match="must be outside the log"):
            snapshot.run(spark, data, str(target), overwrite=True)
    assert files_in(data) == before


def test_a_moment_in_the_future_replaces_no_table(spark, data, tmp_path):
    register(spark)
    table = tmp_path / "table"
    snapshot.run(spark, data, str(table))
    before = files_in(table)
    with pytest.raises(Exception, match="lies in the future: this machine's clock says"):
        snapshot.run(spark, data, str(table), at="2162-03-01T02:30", overwrite=True)
    assert files_in(table) == before


def test_a_directory_that_is_no_table_is_not_replaced(spark, data, tmp_path):
    register(spark)
    table = tmp_path / "table"

    def snapshotted():
        return snapshot.run(spark, data, str(table), overwrite=True)

    for name in ("letters", "part", "x"):
        (table / name).mkdir(parents=True)
        (table / name / "letter").touch()
        with pytest.raises(ConfigError, match=f"the directory holds '{name}', which is not part of a table"):
            snapshotted()
        assert (table / name / "letter").exists()
        shutil.rmtree(table / name)
    assert snapshotted().rows == 1
    # The remains of a job that was killed are replaced.
    (table / "_SUCCESS").unlink()
    (table / "_temporary").mkdir()
    (table / "log_partition=7").mkdir()
    assert snapshotted().rows == 1
    assert not (table / "log_partition=7").exists()
    shutil.rmtree(table)
    table.touch()
    with pytest.raises(ConfigError, match="not the directory of a table"):
        snapshotted()


def test_tables_replace_nothing_else(spark, tmp_path):
    rows = spark.createDataFrame([(1,)], "number int")
    tables = {"groups": rows, "totals": rows}
    write_tables(tables, str(tmp_path), overwrite=True)
    write_tables(tables, str(tmp_path), overwrite=True)
    (tmp_path / "totals" / "letter").touch()
    before = files_in(tmp_path)
    with pytest.raises(ConfigError, match="the directory holds 'letter'"):
        write_tables(tables, str(tmp_path), overwrite=True)
    assert files_in(tmp_path) == before


def test_a_table_of_nothing_can_be_read(spark, data, tmp_path):
    register(spark)
    made = snapshot.run(spark, data, str(tmp_path / "table"), at="2020-01-01T00:00")
    assert (made.rows, made.log_partitions) == (0, {})
    assert (tmp_path / "table" / snapshot.NOTE).exists()
    found = spark.read.parquet(str(tmp_path / "table"))
    assert found.count() == 0
    assert {"group", "offset", "log_partition"} <= set(found.columns)


def test_a_table_that_is_there_is_replaced_as_a_whole(spark, data, tmp_path):
    register(spark)
    table = str(tmp_path / "table")
    with offsetlog.open(tmp_path / "other", 3) as store:
        for number in range(10):
            store.commit(f"other-{number}", {TopicPartition("orders", 0): 1})
    snapshot.run(spark, tmp_path / "other", table)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        made = snapshot.run(spark, data, table, overwrite=True)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert made.rows == 1
    assert [row.group for row in spark.read.parquet(table).collect()] == ["one"]
