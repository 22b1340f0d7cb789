"""Views read by a cluster are those that this process reads, and the engine's own; streams as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conformance import oracle
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

import offsetlog
from offsetlog import TopicPartition
from offsetlog.spark import read_pruned, used_columns
from offsetlog.spark.scan.options import VIEWS
from tests.spark.reading import rows_of
from tests.spark_cluster.driver import Driver

BROKERS = Path(__file__).parents[1] / "data" / "kafka-4.3.0"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("views") / "log"
    with offsetlog.open(path, 3, durability="process") as store:
        for number in range(600):
            store.commit(f"group-{number % 17}", {TopicPartition(f"topic-{number % 5}", number % 7): number})
            if number % 50 == 0:
                with store.transaction(f"group-{number % 17}", 900) as transaction:
                    transaction.commit({TopicPartition("in a transaction", 0): number})
        store.delete("group-3", [TopicPartition("topic-0", 0)])
    return path


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def view(spark: SparkSession, path: str, **options: Any) -> tuple[list[dict[str, Any]], int]:
    """The rows of a view, and in how many tasks they were read."""
    frame = spark.read.format("offsetlog").options(**options).load(path)
    return [row.asDict(recursive=True) for row in frame.collect()], frame.rdd.getNumPartitions()


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_the_same_on_a_cluster(driver: Driver, log: Path, name: str) -> None:
    for path in (log, BROKERS / "txn" / "log", BROKERS / "groups" / "log"):
        found, _ = driver.run(view, str(path), view=name)
        assert found, path
        # Executors send binary columns as bytearrays.
        found = [{key: bytes(each) if isinstance(each, bytearray) else each for key, each in row.items()}
                 for row in found]  # fmt: skip
        assert ordered(found) == ordered(rows_of(path, view=name)), path


def test_small_splits_are_read_by_both_workers(driver: Driver, log: Path) -> None:
    whole = rows_of(log)
    found, tasks = driver.run(view, str(log), splitBytes=2000, minPartitions=12)
    assert tasks >= 8
    assert ordered(found) == ordered(whole)
    assert len(driver.run(hosts_of_tasks)) == 2


def hosts_of_tasks(spark: SparkSession) -> set[str]:
    """The work directories that tasks run in: one of each worker."""
    rows = spark.sparkContext.parallelize(range(16), 16).map(lambda _: __import__("os").getcwd()).collect()
    return set(rows)


def test_offsets_are_those_of_the_engine(driver: Driver, log: Path) -> None:
    found, _ = driver.run(view, str(log), view="offsets")
    with offsetlog.open(log, read_only=True) as store:
        expected = store.to_arrow().to_pylist()
    names = ("group", "topic", "partition", "offset", "leader_epoch", "metadata")
    assert ordered([{name: row[name] for name in names} for row in found]) == ordered(
        [{name: row[name] for name in names} for row in expected]
    )
    found, _ = driver.run(view, str(BROKERS / "txn" / "log"), view="offsets")
    assert ordered(found) == ordered(oracle.offset_rows(oracle.state_of_data(BROKERS / "txn" / "log")))


def pruned(spark: SparkSession, path: str) -> tuple[list[str], list[Any], list[Any]]:
    """The columns that a query uses, what it gives when only these are read, and when all are."""
    reader = spark.read.format("offsetlog")

    def query(rows: Any) -> Any:
        return rows.where("kind = 'commit'").groupBy("topic").agg(fn.sum("offset").alias("sum"))

    whole = reader.load(path)
    narrow = read_pruned(spark.read.format("offsetlog"), path, query)
    answers = [sorted(tuple(row) for row in frame.collect()) for frame in (narrow, query(whole))]
    return [*used_columns(whole, query)], *answers


def test_a_query_reads_the_columns_that_it_uses(driver: Driver, log: Path) -> None:
    columns, narrow, whole = driver.run(pruned, str(log))
    assert columns == ["topic", "offset", "kind"]
    assert narrow == whole != []


def follow(spark: SparkSession, path: str, output: str) -> None:
    """Writes what is new in a log since the last call to Parquet."""
    stream = spark.readStream.format("offsetlog").option("maxOffsetsPerTrigger", 200).load(path)
    writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{output}.checkpoint")
    query = writer.trigger(availableNow=True).start(output)
    query.awaitTermination()


def read_parquet(spark: SparkSession, path: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.read.parquet(path).collect()]


def test_a_stream_has_every_record_once(driver: Driver, tmp_path: Path) -> None:
    log, output = tmp_path / "log", tmp_path / "output"
    for first in (0, 500):
        with offsetlog.open(log, 2, durability="process") as store:
            for number in range(first, first + 500):
                store.commit(f"group-{number % 11}", {TopicPartition("t", 0): number})
        driver.run(follow, str(log), str(output))
        names = ("group", "offset", "log_partition", "log_offset")
        found = driver.run(read_parquet, str(output))
        assert ordered([{name: row[name] for name in names} for row in found]) == ordered(
            [{name: row[name] for name in names} for row in rows_of(log)]
        )
