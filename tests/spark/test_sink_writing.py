from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions

import offsetlog
from offsetlog import TopicPartition
from offsetlog.spark import OffsetCommitListener
from offsetlog.spark.sink import epochs
from offsetlog.spark.sink.staging import RESERVED_PREFIX
from offsetlog.spark.sink.writer import commit_batch
from offsetlog.spark.source import OffsetlogDataSource
from tests.spark.sinks import COLUMNS, commits_of, positions

SCHEMA = f"{COLUMNS}, leader_epoch int, metadata string, commit_timestamp timestamp"


@pytest.fixture(scope="module", autouse=True)
def _registered(spark):
    spark.dataSource.register(OffsetlogDataSource)


def rows_of(spark: SparkSession, count: int, first: int = 0):
    """Rows of 50 groups, 10 positions each, and offsets that tell which row it was."""
    return spark.range(first, first + count, numPartitions=3).select(
        functions.concat(functions.lit("g"), (functions.col("id") % 50).cast("string")).alias("group"),
        functions.lit("orders").alias("topic"),
        (functions.col("id") / 50 % 10).cast("int").alias("partition"),
        functions.col("id").alias("offset"),
    )


def expected(count: int) -> dict[tuple[str, str, int], int]:
    return {(f"g{row % 50}", "orders", row // 50 % 10): row for row in range(count)}


def test_a_data_frame_is_committed(spark, tmp_path):
    rows_of(spark, 500).write.format("offsetlog").mode("append").option("partitions", 4).save(str(tmp_path))
    assert positions(tmp_path) == expected(500)
    with offsetlog.open(tmp_path) as store:
        assert store.partitions == 4
        assert store.transactions() == []
        assert store.verify() == []
    assert not (tmp_path / ".offsetlog-staging").exists()
    assert not list(tmp_path.glob("offsetlog-refused-*"))


def test_every_column_is_committed(spark, tmp_path):
    rows = [("g", "t", 1, 5, 3, "by hand", None), ("h", "t", 0, 6, None, None, None)]
    frame = spark.createDataFrame(rows, SCHEMA).withColumn(
        "commit_timestamp", functions.timestamp_millis(functions.lit(1_700_000_000_123))
    )
    frame.select("offset", *[name for name in frame.columns if name != "offset"]).write.format("offsetlog").mode(
        "append"
    ).save(str(tmp_path))
    with offsetlog.open(tmp_path, read_only=True) as store:
        value = store.fetch_one("g", "t", 1)
        assert (value.offset, value.leader_epoch, value.metadata) == (5, 3, "by hand")
        assert value.commit_timestamp == 1_700_000_000_123
        assert store.fetch_one("h", "t", 0)[:3] == (6, "", -1)


def test_a_write_of_an_epoch_is_idempotent(spark, tmp_path):
    for _ in range(2):
        commit_batch(rows_of(spark, 500), 7, str(tmp_path), "nightly", partitions="4", durability="process")
    assert positions(tmp_path) == expected(500)
    assert set(commits_of(tmp_path, list(expected(500))[:40]).values()) == {1}
    with offsetlog.open(tmp_path, read_only=True) as store:
        assert store.fetch_one(epochs.FINISHED, "nightly", 0).offset == 8


def test_refused_rows_fail_the_write(spark, tmp_path):
    bad = rows_of(spark, 500).withColumn(
        "offset", functions.when(functions.col("offset") % 100 == 7, None).otherwise(functions.col("offset"))
    )
    with pytest.raises(PySparkException, match=r"InvalidArgumentError: 5 rows were refused.*the offset is null"):
        bad.write.format("offsetlog").mode("append").save(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_refused_groups_are_left_out_and_reported(spark, tmp_path):
    bad = rows_of(spark, 500).withColumn(
        "topic", functions.when(functions.col("offset") == 7, "").otherwise(functions.col("topic"))
    )
    writing = bad.write.format("offsetlog").mode("append").option("mode", "permissive")
    writing.option("report", str(tmp_path / "reports")).save(str(tmp_path / "store"))
    assert positions(tmp_path / "store") == {key: offset for key, offset in expected(500).items() if key[0] != "g7"}
    [report] = (tmp_path / "reports").iterdir()
    found = json.loads(report.read_text())
    assert (found["committed_rows"], found["refused_rows"], found["left_out_rows"]) == (490, 1, 9)
    assert found["reasons"] == {"the topic must not be empty": 1}
    assert [group["group"] for group in found["groups"]] == ["g7"]


@pytest.mark.parametrize(
    ("options", "mode", "message"),
    [
        ({}, "overwrite", "ConfigError.*cannot be overwritten"),
        ({"colour": "red"}, "append", "ConfigError.*'colour' is not an option of a write"),
        ({"durability": "none"}, "append", "ConfigError.*durability must be disk or process"),
    ],
)
def test_a_wrong_write_is_refused(spark, tmp_path, options, mode, message):
    with pytest.raises(PySparkException, match=message):
        rows_of(spark, 5).write.format("offsetlog").mode(mode).options(**options).save(str(tmp_path))


def test_a_wrong_column_is_refused(spark, tmp_path):
    wrong = rows_of(spark, 5).withColumn("lag", functions.lit(1)).write.format("offsetlog").mode("append")
    with pytest.raises(
        PySparkException, match=r"InvalidArgumentError: 'lag' is not a column of a commit; the columns are"
    ):
        wrong.save(str(tmp_path))


def test_a_store_that_is_open_is_reported(spark, tmp_path):
    writing = rows_of(spark, 5).write.format("offsetlog").mode("append").option("lockTimeoutSeconds", "0.2")
    with (
        offsetlog.open(tmp_path),
        pytest.raises(PySparkException, match="LockedError: another process still has the store open"),
    ):
        writing.save(str(tmp_path))


def test_a_staging_elsewhere_is_used_and_emptied(spark, tmp_path):
    staging = tmp_path / "staging"
    writing = rows_of(spark, 500).write.format("offsetlog").mode("append")
    writing.option("stagingLocation", staging.as_uri()).save(str(tmp_path / "store"))
    assert positions(tmp_path / "store") == expected(500)
    assert list(staging.iterdir()) == []


def stream(spark: SparkSession, source: Path, store: Path, checkpoint: Path, **options: str) -> str:
    """Runs a stream over the files of a directory, one at a time, to their end; returns Spark's id of it."""
    rows = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", "1").json(str(source))
    writing = rows.writeStream.format("offsetlog").option("checkpointLocation", str(checkpoint)).options(**options)
    query = writing.option("partitions", "4").trigger(availableNow=True).start(str(store))
    assert query.awaitTermination(120)
    return str(query.id)


def write_source(directory: Path, name: int, rows: list[tuple[str, str, int, int]]) -> None:
    directory.mkdir(exist_ok=True)
    names = ("group", "topic", "partition", "offset")
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    (directory / f"{name:04d}.json").write_text("\n".join(lines) + "\n")


def test_a_stream_is_committed_epoch_by_epoch(spark, tmp_path):
    source, store, checkpoint = tmp_path / "source", tmp_path / "store", tmp_path / "checkpoint"
    for number in range(2):
        write_source(source, number, [(f"g{group}", "t", 0, 100 * number + group) for group in range(5)])
    query = stream(spark, source, store, checkpoint)
    write_source(source, 2, [("g0", "t", 0, 1_000)])
    assert stream(spark, source, store, checkpoint) == query
    assert positions(store)["g0", "t", 0] == 1_000
    assert set(commits_of(store, [(f"g{group}", "t", 0) for group in range(5)]).values()) == {1}
    with offsetlog.open(store, read_only=True) as opened:
        assert opened.fetch_one(epochs.FINISHED, query, 0).offset == 3
        assert {
            key.topic for group in opened.groups() if group.startswith(RESERVED_PREFIX) for key in opened.fetch(group)
        } == {query}
    # A checkpoint that has lost its last entry does the epoch again, and nothing is committed for it.
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
    stream(spark, source, store, checkpoint)
    assert commits_of(store, [("g0", "t", 0)])["g0", "t", 0, 1_000] == 1
    assert not (store / ".offsetlog-staging").exists()


@pytest.mark.parametrize("first", ["the sink", "the listener"])
def test_a_listener_commits_to_the_store_that_the_sink_writes(spark, tmp_path, first):
    source, store, checkpoint = tmp_path / "source", tmp_path / "store", tmp_path / "checkpoint"
    for number in range(3):
        write_source(source, number, [(f"g{group}", "t", 0, 100 * number + group) for group in range(5)])
    listener = OffsetCommitListener(str(store), "progress", interval_seconds=0, back_off_seconds=(0.01, 0.1))
    if first == "the listener":
        listener._committer.put("earlier", {TopicPartition("t", 0): offsetlog.OffsetAndMetadata(1)})
        assert listener.flush(60)
    spark.streams.addListener(listener)
    try:
        stream(spark, source, store, checkpoint, lockTimeoutSeconds="5")
        end = time.monotonic() + 60
        while read_positions(store, "progress") != [3] and time.monotonic() < end:
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)
    assert listener.close()
    assert listener.failures == ()
    assert read_positions(store, "progress") == [3]
    assert commits_of(store, [("g4", "t", 0)]) == {("g4", "t", 0, offset): 1 for offset in (4, 104, 204)}
    with offsetlog.open(store) as opened:
        assert opened.verify() == []


def read_positions(path: Path, group: str) -> list[int]:
    with offsetlog.open(path, read_only=True) as store:
        return [value.offset for value in store.fetch(group).values()]


def test_what_foreach_batch_gives_is_committed_once(spark, tmp_path):
    source, store, checkpoint = tmp_path / "source", tmp_path / "store", tmp_path / "checkpoint"
    write_source(source, 0, [("g", "t", 0, 1), ("g", "t", 0, 5)])

    def run() -> None:
        rows = spark.readStream.schema(COLUMNS).json(str(source)).groupBy("group", "topic", "partition")
        writing = rows.agg(functions.max("offset").alias("offset")).writeStream.outputMode("update")
        writing = writing.foreachBatch(lambda df, number: commit_batch(df, number, str(store), "totals"))
        query = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    run()
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    run()
    assert commits_of(store, [("g", "t", 0)]) == {("g", "t", 0, 5): 1}


def test_a_stream_that_overwrites_is_refused(spark, tmp_path):
    write_source(tmp_path / "source", 0, [("g", "t", 0, 1)])
    rows = spark.readStream.schema(COLUMNS).json(str(tmp_path / "source")).groupBy("group", "topic", "partition")
    writing = rows.agg(functions.max("offset").alias("offset")).writeStream.format("offsetlog").outputMode("complete")
    query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        query.start(str(tmp_path / "store")).awaitTermination(120)


def test_types_of_batches_are_those_that_are_staged(spark):
    assert spark.createDataFrame([], SCHEMA).toArrow().schema.field("commit_timestamp").type == pa.timestamp(
        "us", "UTC"
    )
