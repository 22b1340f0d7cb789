"""Measures reads of every commit of a log: with all columns, and with only the columns of the position itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks.race import Job, Runner, race
from benchmarks.results import Goal
from benchmarks.spark.log import Shape, write_log
from benchmarks.spark.session import JAR, WORKER_MIB_MAX, spark_session, to_noop, worker_peak_mib
from benchmarks.workload import Run, workload
from offsetlog._native.scan import SegmentScan
from offsetlog.spark.scan.views import columns_of, spark_schema
from offsetlog.spark.source import OffsetlogDataSource

ROWS = 65_536
JVM = "offsetlog, JVM reader"

#: The columns of the position itself, without those about its record.
POSITION = ("group", "topic", "partition", "offset", "leader_epoch", "metadata", "commit_timestamp", "log_offset")


class PrebuiltReader(DataSourceReader):
    """Yields one prebuilt batch repeatedly, which shows the least cost of a Python data source."""

    def __init__(self, options: Any) -> None:
        self._options = dict(options)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(int(self._options["tasks"]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        with pa.memory_map(self._options["path"]) as source:
            batch = pa.ipc.open_file(source).get_batch(0)
        rows, tasks = int(self._options["rows"]), int(self._options["tasks"])
        left = rows // tasks + (partition.value < rows % tasks)
        while left > 0:
            yield batch if left >= batch.num_rows else batch.slice(0, left)
            left -= batch.num_rows


class Prebuilt(DataSource):
    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> str:
        return spark_schema(_schema(self.options["columns"].split(",")))

    def reader(self, schema: Any) -> PrebuiltReader:
        return PrebuiltReader(self.options)


class PythonSource(OffsetlogDataSource):
    """The Python source under another name: if the JVM reader is on the class path, "offsetlog" means that reader."""

    @classmethod
    def name(cls) -> str:
        return "offsetlog_python"


def _schema(columns: Sequence[str]) -> Any:
    every = columns_of("commits")
    return pa.schema([every.field(name) for name in columns])


def _write_batch(segment: Any, columns: Sequence[str], path: Any) -> None:
    with SegmentScan(segment, "commits", columns) as scan:
        batch = scan.read(ROWS)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _measure(run: Run, columns: Sequence[str]) -> None:
    shape = Shape(run.size(8_000_000, 20_000), run.size(100_000, 10_000), run.log_partitions)
    path, scratch = run.new_directory(), run.new_directory()
    size = write_log(path, shape, run.seed)
    run.condition(f"{shape}, {size / 1e6:,.0f} MB; local[2], driver -Xmx1g; {len(columns)} columns; in the page cache")
    _write_batch(next(path.glob("*/00000000000000000000.log")), columns, scratch / "batch.arrow")
    with spark_session(scratch, jar=JAR.exists()) as spark:
        spark.dataSource.register(Prebuilt)
        spark.dataSource.register(PythonSource)
        asked = ",".join(columns)
        ours = spark.read.format("offsetlog_python").option("columns", asked).load(str(path))
        ours.write.parquet(str(scratch / "parquet"))
        prebuilt = {"rows": shape.records, "tasks": ours.rdd.getNumPartitions(), "columns": asked}
        lines = {
            "offsetlog": ours,
            "one prebuilt batch": spark.read.format("prebuilt").options(**prebuilt).load(str(scratch / "batch.arrow")),
            "Parquet": spark.read.parquet(str(scratch / "parquet")),
        }
        if JAR.exists():
            lines[JVM] = spark.read.format("offsetlog").load(str(path)).select(*columns)
        for name, frame in lines.items():
            if frame.count() != shape.records:
                raise AssertionError(f"{name} has a wrong number of rows; {shape} were written")
        run.report.facts |= {"records": shape.records, "log partitions": shape.log_partitions}
        runners = [
            Runner(name, lambda number, frame=frame: Job(lambda: to_noop(frame), shape.records), "rows/s")
            for name, frame in lines.items()
        ]
        run.report.figures += race(run.benchmark, runners, run.rounds)
        peak = worker_peak_mib()
    run.report.goal_ratio("offsetlog", "one prebuilt batch", 0.8)
    run.report.goal_ratio("offsetlog", "Parquet", 1)
    _judge(run, peak)


def _judge(run: Run, peak: float) -> None:
    if JAR.exists():
        run.report.goal_ratio(JVM, "Parquet", 0.8)
    run.report.goals.append(Goal(f"largest Python worker: <= {WORKER_MIB_MAX} MiB", WORKER_MIB_MAX, peak, at_most=True))


GOALS = ">= 80 % of a source of one prebuilt batch, not slower than Parquet, no worker above 512 MiB"


@workload("commits/17", GOALS)
def commits_17(run: Run) -> None:
    """view=commits, all 17 columns, to noop."""
    _measure(run, columns_of("commits").names)


@workload("commits/8", GOALS)
def commits_8(run: Run) -> None:
    """view=commits, the eight columns of a position, to noop."""
    _measure(run, POSITION)


@workload("commits/sum", "the JVM reader >= 0.8 x Parquet, where it was built (make jvm)")
def commits_sum(run: Run) -> None:
    """Computes sum(offset) over view=commits.  Only the Python source has the option columns=offset."""
    shape = Shape(run.size(8_000_000, 20_000), run.size(100_000, 10_000), run.log_partitions)
    path, scratch = run.new_directory(), run.new_directory()
    size = write_log(path, shape, run.seed)
    run.condition(f"{shape}, {size / 1e6:,.0f} MB; local[2], driver -Xmx1g; in the page cache")
    with spark_session(scratch, jar=JAR.exists()) as spark:
        spark.dataSource.register(PythonSource)
        python = spark.read.format("offsetlog_python")
        python.load(str(path)).write.parquet(str(scratch / "parquet"))
        frames = {
            "offsetlog": python.option("columns", "offset").load(str(path)),
            "Parquet": spark.read.parquet(str(scratch / "parquet")),
        }
        if JAR.exists():
            frames[JVM] = spark.read.format("offsetlog").load(str(path))
        expected = shape.records * (shape.records - 1) // 2

        def add(rows: DataFrame) -> None:
            if rows.agg(fn.sum("offset")).first()[0] != expected:
                raise AssertionError("the sum of the offsets differs from the sum that was written")

        runners = [
            Runner(name, lambda number, frame=frame: Job(lambda: add(frame), shape.records), "rows/s")
            for name, frame in frames.items()
        ]
        run.report.figures += race(run.benchmark, runners, run.rounds)
        peak = worker_peak_mib()
    _judge(run, peak)
