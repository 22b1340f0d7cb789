"""The latest position of every key."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from benchmarks.race import Job, Runner, race
from benchmarks.results import Goal
from benchmarks.spark.log import Shape, write_log
from benchmarks.spark.session import WORKER_MIB_MAX, spark_session, to_noop, worker_peak_mib
from benchmarks.workload import Run, workload

KEY = ("group", "topic", "partition")
GOALS = ">= 6 x a groupBy over Parquet, no worker above 512 MiB"
#: A goal from the time when a task read the whole log partition again for each bucket of its keys.
BUCKETS = (2, 16)
VALUE = ("log_offset", "offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id")


def latest(records: DataFrame) -> DataFrame:
    """Returns the newest record of each key, by the fastest query that Spark has for it."""
    newest = records.groupBy(*KEY).agg(fn.max(fn.struct(*VALUE)).alias("newest"))
    return newest.select(*KEY, "newest.*")


def _named(buckets: int) -> str:
    return f"offsetlog, buckets={buckets}"


def _measure(run: Run, log_partitions: int) -> None:
    shape = Shape(run.size(10_000_000, 40_000), run.size(1_000_000, 20_000), log_partitions)
    path, scratch = run.new_directory(), run.new_directory()
    size = write_log(path, shape, run.seed)
    run.condition(f"{shape}, {size / 1e6:,.0f} MB; local[2], driver -Xmx1g; to noop; in the page cache")
    with spark_session(scratch) as spark:
        spark.read.format("offsetlog").load(str(path)).write.parquet(str(scratch / "parquet"))
        records = spark.read.parquet(str(scratch / "parquet")).count()
        source = spark.read.format("offsetlog").option("view", "offsets")
        ours = source.load(str(path))
        frames = {"offsetlog": ours}
        if log_partitions == 1:
            frames |= {_named(buckets): source.option("buckets", buckets).load(str(path)) for buckets in BUCKETS}
        theirs = latest(spark.read.parquet(str(scratch / "parquet")))
        checks = [frame.agg(fn.count("*"), fn.sum("offset"), fn.sum("log_offset")).first() for frame in (ours, theirs)]
        if checks[0] != checks[1]:
            raise AssertionError(f"they do not agree: {checks}")
        if (records, checks[0][0]) != (shape.records, shape.keys):
            raise AssertionError(f"{records:,} records of {checks[0][0]:,} keys were read, but {shape} were written")
        run.report.facts |= {"records": records, "keys": checks[0][0], "log partitions": log_partitions}
        runners = [
            Runner(name, lambda number, frame=frame: Job(lambda: to_noop(frame), shape.records), "records/s")
            for name, frame in {**frames, "groupBy over Parquet": theirs}.items()
        ]
        run.report.figures += race(run.benchmark, runners, run.rounds)
        peak = worker_peak_mib()
    run.report.goal_ratio("offsetlog", "groupBy over Parquet", 6)
    if log_partitions == 1:
        run.report.goal_ratio(_named(16), _named(2), 0.9)
    run.report.goals.append(Goal(f"largest Python worker: <= {WORKER_MIB_MAX} MiB", WORKER_MIB_MAX, peak, at_most=True))


@workload("offsets/50", GOALS)
def offsets_50(run: Run) -> None:
    """view=offsets of 10^7 records over 10^6 keys in 50 log partitions."""
    _measure(run, run.kafka_partitions)


@workload("offsets/1", GOALS + ", 16 buckets >= 0.9 x 2")
def offsets_1(run: Run) -> None:
    """view=offsets of 10^7 records over 10^6 keys in one log partition."""
    _measure(run, 1)
