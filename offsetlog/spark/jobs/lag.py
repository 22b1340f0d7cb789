"""The lag of groups: committed offsets against the ends of the logs they read, now and over time.

The ends are rows of (topic, partition, log_end_offset) with log_start_offset and timestamp (ms since 1970) where they
are known; `lag_ends` has several ways to get them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from offsetlog.clock import future_error, is_ahead
from offsetlog.errors import InvalidArgumentError
from offsetlog.spark.jobs.completeness import problems_of
from offsetlog.spark.jobs.effects import POSITION, commit_records, with_effects
from offsetlog.spark.jobs.session import read_view

#: Columns of the view "records", for `committed_at`.
COLUMNS = [*POSITION, "offset", "kind", "value", "timestamp", "outcome", "marker_offset", "log_offset"]

#: Moments that may be asked for at once.
MOMENTS_MAX = 100_000

_TOPIC_PARTITION = ["topic", "partition"]


def read(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    partitions: str | None = None,
    permissive: bool = False,
    reported: Sequence[str] | None = None,
) -> DataFrame:
    """Returns what `committed_at` needs of the view "records" of a directory."""
    given = {"partitions": partitions, "columns": ",".join(COLUMNS)}
    return read_view(spark, path, "records", permissive=permissive, reported=reported, **given).select(*COLUMNS)


def problems(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    partitions: str | None = None,
    is_over_time: bool,
    permissive: bool,
) -> tuple[str, ...]:
    """Returns what is missing or damaged in what `run` reads; raises as `completeness.problems_of`."""
    view, columns = ("records", ",".join(COLUMNS)) if is_over_time else ("offsets", None)
    return problems_of(spark, path, view, permissive=permissive, partitions=partitions, columns=columns)


# ------------------------------------------------------------------------------------------------------------ how far


def _told(joined: DataFrame) -> DataFrame:
    # `committed`, `log_start_offset` and `log_end_offset` become the lag and what is to be known of it.
    committed, start, end = fn.col("committed"), fn.col("log_start_offset"), fn.col("log_end_offset")
    zero = fn.lit(0).cast("bigint")
    problem = (
        fn.when(committed < 0, "negative offset")
        .when(end.isNull(), "no end offset")
        .when(committed > end, "beyond the end")
        .when(committed < start, "below the start")
    )
    return (
        joined.withColumn("lag", fn.when(end.isNotNull() & (committed >= 0), fn.greatest(end - committed, zero)))
        .withColumn("beyond_end", fn.when(end.isNotNull() & (committed >= 0), fn.greatest(committed - end, zero)))
        .withColumn("lost", fn.when(start.isNotNull() & (committed >= 0), fn.greatest(start - committed, zero)))
        .withColumn("problem", problem)
    )


def _ends(ends: DataFrame) -> DataFrame:
    for name in ("log_start_offset", "timestamp"):
        if name not in ends.columns:
            ends = ends.withColumn(name, fn.lit(None).cast("bigint"))
    return ends.select(
        "topic",
        fn.col("partition").cast("int").alias("partition"),
        *(fn.col(name).cast("bigint").alias(name) for name in ("log_start_offset", "log_end_offset", "timestamp")),
    )


def lag(offsets: DataFrame, ends: DataFrame) -> DataFrame:
    """Returns the lag of every position.

    Args:
        offsets: rows of the view "offsets".
        ends: of each topic partition the youngest row counts, or the highest end where no time is known.

    Columns: group, topic, partition, committed, log_start_offset, log_end_offset, end_timestamp, lag, beyond_end, lost,
    problem, log_partition.  `lag` is what is left to read, never below 0, null where no end is known; `beyond_end` is
    by how much a position is above the end, as after a topic was created again; `lost` how many records were deleted
    before the group read them, which `lag` counts as Kafka's own tools do.  A negative offset is none, and has no lag.
    `problem` says which of these is so, or null.
    """
    latest = (
        _ends(ends)
        .groupBy(*_TOPIC_PARTITION)
        .agg(fn.max(fn.struct("timestamp", "log_end_offset", "log_start_offset")).alias("_end"))
    )
    joined = offsets.select(*POSITION, fn.col("offset").alias("committed")).join(latest, _TOPIC_PARTITION, "left")
    return _told(
        joined.select(
            "group",
            *_TOPIC_PARTITION,
            "committed",
            "_end.log_start_offset",
            "_end.log_end_offset",
            fn.col("_end.timestamp").alias("end_timestamp"),
            "log_partition",
        )
    )


def by_topic(table: DataFrame) -> DataFrame:
    """Returns the sums of `lag` or `lag_over_time` by group and topic (and time).

    Columns: time where the table has it, group, topic, partitions, lag, most (the largest of one partition), beyond_end
    and lost (partitions), without_end (partitions).
    """
    times = ["time"] if "time" in table.columns else []
    return table.groupBy(*times, "group", "topic").agg(
        fn.count("*").alias("partitions"),
        fn.sum("lag").alias("lag"),
        fn.max("lag").alias("most"),
        fn.count_if(fn.col("beyond_end") > 0).alias("beyond_end"),
        fn.count_if(fn.col("lost") > 0).alias("lost"),
        fn.count_if(fn.col("log_end_offset").isNull()).alias("without_end"),
    )


# ----------------------------------------------------------------------------------------------------------- over time


def moments(spark: SparkSession, times: list[int]) -> DataFrame:
    """Returns times, in ms since 1970, as the column `time`.

    Raises:
        InvalidArgumentError: there are none, or more than MOMENTS_MAX.
    """
    if not times:
        raise InvalidArgumentError("no moment is asked for")
    if len(times) > MOMENTS_MAX:
        raise InvalidArgumentError(f"{len(times):,} moments are asked for, at most {MOMENTS_MAX:,} can be")
    return spark.createDataFrame([(time,) for time in sorted(set(times))], "time bigint")


def every(first: int, last: int, step_ms: int) -> list[int]:
    """Returns the multiples of a step from the first at or above `first` to the first at or above `last`.

    Raises:
        InvalidArgumentError: the step is not positive, or there are more than MOMENTS_MAX.
    """
    if step_ms <= 0:
        raise InvalidArgumentError(f"{step_ms} ms is no step")
    begin, end = -(-first // step_ms), -(-last // step_ms)
    if end - begin >= MOMENTS_MAX:
        raise InvalidArgumentError(f"{end - begin + 1:,} moments are asked for, at most {MOMENTS_MAX:,} can be")
    return [number * step_ms for number in range(begin, end + 1)]


def effect_times(records: DataFrame) -> DataFrame:
    """Returns the records of offset commits in effect, with the time from which on they counted, `effect_time`.

    That is the highest timestamp of the log partition up to there: a time stands for the longest prefix of the log
    whose timestamps are all at or before it, as everywhere in offsetlog, and a transaction counts from its end on.

    Args:
        records: rows of the view "records" of whole log partitions.
    """
    so_far = Window.partitionBy("log_partition").orderBy("log_offset").rowsBetween(Window.unboundedPreceding, 0)
    clock = records.select("log_partition", "log_offset", fn.max("timestamp").over(so_far).alias("effect_time"))
    effects = with_effects(commit_records(records).drop("value")).where(fn.col("effective_at").isNotNull())
    return effects.join(clock.withColumnRenamed("log_offset", "effective_at"), ["log_partition", "effective_at"])


def committed_at(records: DataFrame, times: DataFrame) -> DataFrame:
    """Returns what was committed at each of some times: time, POSITION, committed; what was deleted is left out.

    Args:
        records: rows of the view "records" of whole log partitions.
        times: the column `time`, as `moments` makes it.
    """
    events = effect_times(records).select(
        *POSITION,
        fn.col("effect_time").alias("time"),
        fn.struct("kind", "offset").alias("said"),
        fn.col("effective_at").alias("order"),
        "log_offset",
    )
    asked = (
        events.select(*POSITION)
        .distinct()
        .crossJoin(fn.broadcast(times))
        .select(
            *POSITION,
            "time",
            fn.lit(None).cast("struct<kind string, offset bigint>").alias("said"),
            # After everything of its time.
            fn.lit(2**63 - 1).alias("order"),
            fn.lit(0).cast("bigint").alias("log_offset"),
        )
    )
    so_far = Window.partitionBy(*POSITION).orderBy("time", "order", "log_offset")
    last = fn.last("said", ignorenulls=True).over(so_far.rowsBetween(Window.unboundedPreceding, 0))
    return (
        events.unionByName(asked)
        .withColumn("last", last)
        .where(fn.col("said").isNull() & (fn.col("last.kind") == "commit"))
        .select("time", *POSITION, fn.col("last.offset").alias("committed"))
    )


def ends_at(ends: DataFrame, times: DataFrame) -> DataFrame:
    """Returns of each topic partition the last known end at each of some times; rows without a time know nothing.

    Columns: time, topic, partition, log_start_offset, log_end_offset, end_timestamp.
    """
    known = _ends(ends).where(fn.col("timestamp").isNotNull())
    value = fn.struct("log_start_offset", "log_end_offset", "timestamp")
    events = known.select(
        *_TOPIC_PARTITION, fn.col("timestamp").alias("time"), value.alias("end"), fn.lit(0).alias("order")
    )
    asked = (
        known.select(*_TOPIC_PARTITION)
        .distinct()
        .crossJoin(fn.broadcast(times))
        .select(*_TOPIC_PARTITION, "time", _none_like(events, "end"), fn.lit(1).alias("order"))
    )
    so_far = Window.partitionBy(*_TOPIC_PARTITION).orderBy("time", "order", fn.col("end.log_end_offset"))
    last = fn.last("end", ignorenulls=True).over(so_far.rowsBetween(Window.unboundedPreceding, 0))
    return (
        events.unionByName(asked)
        .withColumn("last", last)
        .where((fn.col("order") == 1) & fn.col("last").isNotNull())
        .select(
            "time",
            *_TOPIC_PARTITION,
            "last.log_start_offset",
            "last.log_end_offset",
            fn.col("last.timestamp").alias("end_timestamp"),
        )
    )


def _none_like(table: DataFrame, name: str) -> Column:
    return fn.lit(None).cast(table.schema[name].dataType).alias(name)


def lag_over_time(records: DataFrame, ends: DataFrame, times: DataFrame) -> DataFrame:
    """Returns `lag` at each of some times, with the column `time` before the others.

    Args:
        records: rows of the view "records" of whole log partitions.
        ends: samples with their `timestamp`; at a time the last one counts that is not younger.
        times: the column `time`, as `moments` makes it.
    """
    joined = committed_at(records, times).join(ends_at(ends, times), ["time", *_TOPIC_PARTITION], "left")
    return _told(
        joined.select(
            "time",
            "group",
            *_TOPIC_PARTITION,
            "committed",
            "log_start_offset",
            "log_end_offset",
            "end_timestamp",
            "log_partition",
        )
    )


def run(
    spark: SparkSession,
    path: str | os.PathLike[str],
    ends: DataFrame,
    *,
    partitions: str | None = None,
    times: list[int] | None = None,
    step_ms: int | None = None,
    permissive: bool = False,
    reported: Sequence[str] | None = None,
) -> DataFrame:
    """Returns the lag of everything that is committed in a directory: now, or over time.

    Args:
        spark: the session.
        path: a log directory.
        ends: the ends of the logs, as `lag_ends` gives them.
        partitions: log partitions, as "0,3-5"; None for all.
        times: at these, in ms since 1970.
        step_ms: or at the multiples of this, from the first sample of an end to the last.
        permissive: goes on where something is missing or damaged; `problems` says what is.
        reported: the result of `problems`; anything else that is missing or damaged is an error then.

    Raises:
        InvalidArgumentError: lag over time is asked for, and no sample carries a time; a time lies in the future, by
            this machine's clock and by the samples'.
    """
    if times is None and step_ms is None:
        offsets = read_view(spark, path, "offsets", permissive=permissive, reported=reported, partitions=partitions)
        return lag(offsets, ends)
    (span,) = _ends(ends).agg(fn.min("timestamp").alias("first"), fn.max("timestamp").alias("last")).collect()
    if span["first"] is None:
        raise InvalidArgumentError("over time the ends of logs are needed with their timestamps")
    asked = list(times or [])
    for time in asked:
        if is_ahead(time) and time > span["last"]:
            raise future_error("at", time)
    if step_ms is not None:
        asked += every(span["first"], span["last"], step_ms)
    records = read(spark, path, partitions=partitions, permissive=permissive, reported=reported)
    return lag_over_time(records, ends, moments(spark, asked))


def keys(
    spark: SparkSession, path: str | os.PathLike[str], *, partitions: str | None = None, permissive: bool = False
) -> list[tuple[str, int]]:
    """Returns the topics and partitions that something is committed for."""
    offsets = read_view(spark, path, "offsets", permissive=permissive, partitions=partitions)
    found = offsets.select(*_TOPIC_PARTITION).distinct().collect()
    return sorted((row["topic"], row["partition"]) for row in found)
