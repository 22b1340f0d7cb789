"""A store on the driver's machine, into which a cluster writes; and the progress of queries, beside it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

import offsetlog
from offsetlog import TopicPartition
from offsetlog.spark import OffsetCommitListener
from offsetlog.spark.sink.writer import commit_batch
from tests.spark.reading import rows_of
from tests.spark.sink_epochs import check
from tests.spark.sink_stream import write_source
from tests.spark.sinks import COLUMNS, commits_of, positions
from tests.spark_cluster.driver import Driver, DriverError

ROWS = 1000
KEYS = {(f"g{number % 13}", "t", number): number for number in range(ROWS)}
EPOCHS = 4


def write(spark: SparkSession, store: str, staging: str, bad: int = -1) -> None:
    rows = spark.range(0, ROWS, 1, 6).selectExpr(
        "concat('g', id % 13) as group",
        "'t' as topic",
        "cast(id as int) as partition",
        f"if(id = {bad}, -5, id) as offset",
    )
    rows.write.format("offsetlog").mode("append").options(stagingLocation=staging, partitions="4").save(store)


def test_a_batch_commits_every_row_once(driver: Driver, tmp_path: Path) -> None:
    store, staging = tmp_path / "store", tmp_path / "staging"
    driver.run(write, str(store), str(staging))
    assert positions(store) == KEYS
    assert set(commits_of(store, KEYS).values()) == {1}
    assert [each for each in staging.rglob("*") if each.is_file()] == []


def test_a_refused_row_of_a_task_reaches_the_user(driver: Driver, tmp_path: Path) -> None:
    with pytest.raises(DriverError, match=r"InvalidArgumentError: .*partition 777: the offset is negative"):
        driver.run(write, str(tmp_path / "store"), str(tmp_path / "staging"), bad=777)
    assert not (tmp_path / "store").exists() or positions(tmp_path / "store") == {}


def stream(spark: SparkSession, directory: str, *, by_function: bool) -> None:
    spark.conf.set("spark.sql.streaming.fileSource.log.compactInterval", "1000000")
    rows = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", "1").json(f"{directory}/source")
    rows = rows.repartition(3, "group", "partition")
    writer = rows.writeStream.trigger(availableNow=True).option("checkpointLocation", f"{directory}/checkpoint")
    given = {"partitions": "4", "stagingLocation": f"{directory}/staging"}
    if by_function:
        query = writer.foreachBatch(
            lambda batch, number: commit_batch(batch, number, f"{directory}/store", "query", **given)
        ).start()
    else:
        query = writer.format("offsetlog").options(**given).start(f"{directory}/store")
    query.awaitTermination()


@pytest.mark.parametrize("by_function", [False, True], ids=["writeStream", "foreachBatch"])
def test_a_stream_commits_every_epoch_once(driver: Driver, tmp_path: Path, by_function: bool) -> None:
    for first in (0, EPOCHS):
        write_source(tmp_path / "source", first, EPOCHS)
        driver.run(stream, str(tmp_path), by_function=by_function)
    check(tmp_path, 2 * EPOCHS)
    assert [each for each in (tmp_path / "staging").rglob("*") if each.is_file()] == []


class Ended(StreamingQueryListener):
    """Says when Spark has reported the end of a query: to those that were added before it, too."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  (Spark's name)
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.event.set()


def copy_with_listener(spark: SparkSession, log: str, store: str, directory: str) -> bool:
    """Copies a log into a store with a stream, whose progress a listener commits to the same store."""
    listener = OffsetCommitListener(Path(store), "progress-of-{query}", interval_seconds=0.0)
    ended = Ended()
    for each in (listener, ended):
        spark.streams.addListener(each)
    try:
        rows = spark.readStream.format("offsetlog").option("maxOffsetsPerTrigger", "150").load(log)
        rows = rows.where("kind = 'commit'").select("group", "topic", "partition", "offset")
        writer = rows.writeStream.format("offsetlog").queryName("copy").trigger(availableNow=True)
        given = {"stagingLocation": f"{directory}/staging", "checkpointLocation": f"{directory}/checkpoint"}
        writer.options(**given, partitions="2").start(store).awaitTermination()
        # Spark reports a batch some moments after it is done, and the end of the query after all of them.
        return ended.event.wait(120) and listener.close(60)
    finally:
        for each in (listener, ended):
            spark.streams.removeListener(each)
        listener.close(60)


def test_a_listener_commits_how_far_a_query_is(driver: Driver, tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "copy"
    with offsetlog.open(log, 2, durability="process") as store:
        for number in range(600):
            store.commit(f"g{number % 13}", {TopicPartition("t", number % 3): number})
    assert driver.run(copy_with_listener, str(log), str(copy), str(tmp_path))
    ends = {f"__consumer_offsets-{number}": end for number, end in ends_of(log).items()}
    found, wanted = positions(copy), positions(log)
    progress = {key: offset for key, offset in found.items() if key[0] == "progress-of-copy"}
    assert {f"{topic}-{partition}": offset for (_, topic, partition), offset in progress.items()} == ends
    assert {key: offset for key, offset in found.items() if key not in progress} == wanted


def ends_of(log: Path) -> dict[int, int]:
    """The log offset after the last record of each log partition."""
    ends: dict[int, int] = {}
    for row in rows_of(log, view="batches", columns="log_partition,last_offset"):
        ends[row["log_partition"]] = max(ends.get(row["log_partition"], 0), row["last_offset"] + 1)
    return ends
