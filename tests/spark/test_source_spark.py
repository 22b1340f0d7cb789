"""The batch source as Spark runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conformance import checks
from conformance.scenarios import REPOSITORY, SCENARIOS, Scenario
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from offsetlog.spark import OffsetlogDataSource
from offsetlog.spark.scan.options import VIEWS

from .reading import Row, rows_of

BY_NAME = {each.name: each for each in SCENARIOS}


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(OffsetlogDataSource)
    return spark


def load(source: SparkSession, path: Path, **options: Any) -> DataFrame:
    return source.read.format("offsetlog").options(**options).load(str(path))


def plain(frame: DataFrame) -> list[Row]:
    rows: list[Row] = frame.toArrow().to_pylist()
    return sorted(rows, key=repr)


def expected(path: Path, **options: Any) -> list[Row]:
    return sorted(rows_of(path, **options), key=repr)


# The one Spark session of the gate: every view of the source goes through it.
@pytest.mark.gate
@pytest.mark.parametrize("name", ["kafka-4.3.0/txn", "kafka-4.3.0/groups"])
def test_every_view_through_spark(source: SparkSession, name: str) -> None:
    scenario: Scenario = BY_NAME[name]
    for view in VIEWS:
        found = plain(load(source, scenario.log, view=view))
        assert found == expected(scenario.log, view=view)
        if view == "offsets":
            checks.check_offsets(
                sorted(found, key=lambda row: (row["group"], row["topic"], row["partition"])), scenario
            )


def test_queries_over_it(source: SparkSession) -> None:
    log = BY_NAME["kafka-4.3.0/txn"].log
    rows = expected(log)
    frame = load(source, log, mode="permissive", splitBytes=20_000)
    assert frame.columns[-1] == "problem"
    frame.createOrReplaceTempView("rows")
    (count, groups, problems) = source.sql("select count(*), count(distinct `group`), count(problem) from rows").first()
    assert (count, groups, problems) == (len(rows), len({row["group"] for row in rows}), 0)
    schema = StructType().add("offset", LongType()).add("group", StringType())
    narrow = source.read.format("offsetlog").schema(schema).load(str(log))
    assert plain(narrow) == sorted(({"offset": row["offset"], "group": row["group"]} for row in rows), key=repr)


def test_filters_that_spark_pushes_down(source: SparkSession) -> None:
    log = BY_NAME["kafka-4.3.0/txn"].log
    rows = expected(log)
    group, number = rows[0]["group"], rows[0]["log_partition"]
    source.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = load(source, log, pushdown="true")
        some = frame.where((frame["group"] == group) & (frame["log_offset"] >= 3) & (frame["log_offset"] < 40))
        assert plain(some) == [row for row in rows if row["group"] == group and 3 <= row["log_offset"] < 40]
        other = frame.where(frame["log_partition"].isin(number, 77) & (frame["offset"] > 5))
        assert plain(other) == [row for row in rows if row["log_partition"] == number and (row["offset"] or 0) > 5]
        assert plain(frame.where(frame["log_partition"] == 77)) == []
    finally:
        source.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_what_is_wrong_is_reported_by_spark(source: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="'veiw' is not known"):
        load(source, tmp_path, veiw="records")
    with pytest.raises(PySparkException, match=r"holds no partition of __consumer_offsets; the driver plans.* \("):
        load(source, tmp_path).collect()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"at": "3"}, "ConfigError: the option 'at' is not known for a stream, only for a batch"),
        (
            {"view": "offsets"},
            "ConfigError: view='offsets' is only for a batch; the views of a stream are commits, records",
        ),
    ],
)
def test_what_is_wrong_with_a_stream_is_reported_last(
    source: SparkSession, tmp_path: Path, given: dict[str, str], message: str
) -> None:
    reading = source.readStream.format("offsetlog").options(**given).load(str(tmp_path))
    query = reading.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(PySparkException) as caught:
        query.awaitTermination()
    (last, *_) = [line for line in reversed(str(caught.value).splitlines()) if "Error: " in line]
    assert message in last


# ----------------------------------------------------------------------------------------------------- other processes


def run(program: str, *paths: Path) -> str:
    search = os.pathsep.join([*(str(path) for path in paths), str(REPOSITORY)])
    environment = {
        **os.environ,
        "PYTHONPATH": search,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_what_executors_import_loads_no_store() -> None:
    printed = run(
        "import sys, offsetlog.spark.scan.batch, offsetlog.spark.scan.pushdown, offsetlog.spark.source\n"
        "print(sorted(name for name in sys.modules if name.startswith('offsetlog.')))"
    )
    assert "offsetlog.spark.scan.batch" in printed
    for name in (
        "offsetlog.store",
        "offsetlog.directory.log_directory",
        "offsetlog.directory.reading",
        "offsetlog.spark.sink",
        "offsetlog._native.store_core",
    ):
        assert repr(name) not in printed


@pytest.mark.ci  # a session of its own; wheel-test runs it, too
def test_spark_finds_it_without_a_hint() -> None:
    log = BY_NAME["kafka-4.3.0/txn"].log
    printed = run(
        "from pyspark.sql import SparkSession\n"
        "spark = (SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        ".config('spark.driver.memory', '512m').config('spark.driver.bindAddress', '127.0.0.1').getOrCreate())\n"
        f"print('found', spark.read.format('offsetlog').option('view', 'offsets').load({str(log)!r}).count())",
        REPOSITORY / "offsetlog" / "spark" / "discovery",
    )
    assert printed.splitlines()[-1] == f"found {len(rows_of(log, view='offsets'))}"
