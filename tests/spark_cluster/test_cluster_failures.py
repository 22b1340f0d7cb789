"""A worker is killed while its task is half-way: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import offsetlog
from offsetlog import TopicPartition
from tests.spark.reading import rows_of
from tests.spark.sink_epochs import check
from tests.spark.sink_stream import POSITIONS, write_source
from tests.spark.sinks import COLUMNS, commits_of, positions
from tests.spark_cluster.driver import Driver
from tests.spark_cluster.paused_tasks import kill_one, paused
from tests.spark_cluster.standalone import WORKERS, StandaloneCluster

ROWS = 400
KEYS = [(f"g{number % 13}", "t", number) for number in range(ROWS)]


@pytest.fixture
def pause(tmp_path: Path) -> Path:
    found = tmp_path / "pause"
    found.mkdir()
    return found


def read_slowly(spark: SparkSession, log: str, pause: str) -> list[tuple[str, int, int]]:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "16")
    rows = spark.read.format("offsetlog").options(splitBytes=4000, minPartitions=8).load(log)
    rows = rows.select("group", paused(pause, "offset", 50).alias("offset"), "log_offset")
    return [tuple(row) for row in rows.collect()]


@pytest.mark.parametrize("tasks", [1, WORKERS])
def test_a_query_reads_every_record_once(
    cluster: StandaloneCluster, driver: Driver, tmp_path: Path, pause: Path, tasks: int
) -> None:
    with offsetlog.open(tmp_path / "log", 1, durability="process") as store:
        for number in range(800):
            store.commit(f"g{number % 13}", {TopicPartition("t", 0): number})
    running = driver.start(read_slowly, str(tmp_path / "log"), str(pause))
    kill_one(cluster, pause, running, tasks)
    found = running.result(240)
    assert cluster.worker_count() == WORKERS - 1
    assert sorted(found) == sorted(
        (row["group"], row["offset"], row["log_offset"]) for row in rows_of(tmp_path / "log")
    )


def write_slowly(spark: SparkSession, store: str, staging: str, pause: str) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "4")
    # Every other task waits, so that what the tasks before it staged is there when a worker goes.
    rows = spark.range(0, ROWS, 1, 4).selectExpr(
        "concat('g', id % 13) as group", "'t' as topic", "cast(id as int) as partition", "id as offset"
    )
    rows = rows.withColumn("offset", paused(pause, "offset", ROWS // 2))
    writer = rows.write.format("offsetlog").mode("append").option("partitions", "4")
    writer.option("stagingLocation", staging).option("report", f"{staging}.report").save(store)


def test_a_write_commits_every_row_once(
    cluster: StandaloneCluster, driver: Driver, tmp_path: Path, pause: Path
) -> None:
    store, staging = tmp_path / "store", tmp_path / "staging"
    running = driver.start(write_slowly, str(store), str(staging), str(pause))
    kill_one(cluster, pause, running)
    running.result(240)
    assert cluster.worker_count() == WORKERS - 1
    assert positions(store) == {key: key[2] for key in KEYS}
    assert set(commits_of(store, KEYS).values()) == {1}
    assert [each for each in staging.rglob("*") if each.is_file()] == []


def stream_slowly(spark: SparkSession, directory: str, pause: str) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "4")
    spark.conf.set("spark.sql.streaming.fileSource.log.compactInterval", "1000000")
    rows = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", "1").json(f"{directory}/source")
    rows = rows.repartition(3, "group", "partition")
    rows = rows.withColumn("offset", paused(pause, "offset", POSITIONS, epoch=1))
    writer = rows.writeStream.format("offsetlog").options(
        partitions="4", stagingLocation=f"{directory}/staging", checkpointLocation=f"{directory}/checkpoint"
    )
    writer.trigger(availableNow=True).start(f"{directory}/store").awaitTermination()


def test_a_stream_commits_every_epoch_once(
    cluster: StandaloneCluster, driver: Driver, tmp_path: Path, pause: Path
) -> None:
    write_source(tmp_path / "source", 0, 3)
    running = driver.start(stream_slowly, str(tmp_path), str(pause))
    kill_one(cluster, pause, running)
    running.result(240)
    assert cluster.worker_count() == WORKERS - 1
    check(tmp_path, 3)
    assert [each for each in (tmp_path / "staging").rglob("*") if each.is_file()] == []
    # An application that begins with fewer workers than before goes on from the checkpoint.
    shutil.rmtree(tmp_path / "pause")
    write_source(tmp_path / "source", 3, 1)
    driver.run(stream_slowly, str(tmp_path), str(pause))
    check(tmp_path, 4)
