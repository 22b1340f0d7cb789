"""The lag of groups: the committed offsets compared with the ends of the logs that they read, now and over time.

The ends are rows of (topic, partition, log_end_offset), and of log_start_offset and timestamp (ms since 1970) if these
are known.  The module `lag_ends` gets them from several kinds of sources.
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

#: The columns of the view "records" that `committed_at` needs.
COLUMNS = [*POSITION, "offset", "kind", "value", "timestamp", "outcome", "marker_offset", "log_offset"]

#: The most moments in one call.
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
    """Returns the rows of a directory's view "records", with the columns that `committed_at` needs."""
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
    """Returns the missing and damaged parts of the log that `run` reads; see `completeness.problems_of`."""
    view, columns = ("records", ",".join(COLUMNS)) if is_over_time else ("offsets", None)
    return problems_of(spark, path, view, permissive=permissive, partitions=partitions, columns=columns)


# ------------------------------------------------------------------------------------------------------------ how far


def _told(joined: DataFrame) -> DataFrame:
    # Computes the lag, and the columns that explain it, from `committed`, `log_start_offset` and `log_end_offset`.
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
        ends: the ends of logs.  For each topic partition, the row with the latest time is used.  If no row has a time,
            the highest end is used.

    Columns: group, topic, partition, committed, log_start_offset, log_end_offset, end_timestamp, lag, beyond_end, lost,
    problem, log_partition.  `lag` is the number of records left to read.  It is never below 0, and null if the end is
    not known.  `beyond_end` is the distance by which a position is above the end, for example because the topic was
    created again.  `lost` is the number of records that were deleted before the group read them; `lag` includes them,
    as it does in Kafka's own tools.  A negative offset is not a position, and has no lag.  `problem` names the one of
    these cases that applies, or is null.
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
    """Returns the sums of `lag` or `lag_over_time` by group and topic, and by time if there is a column `time`.

    Columns: time (if the table has it), group, topic, partitions, lag, most, beyond_end, lost, without_end.  `most` is
    the largest lag of one partition.  `beyond_end`, `lost` and `without_end` are numbers of partitions.
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
    """Returns times, in ms since 1970, as a DataFrame with the column `time`.

    Raises:
        InvalidArgumentError: `times` is empty, or has more than MOMENTS_MAX times.
    """
    if not times:
        raise InvalidArgumentError("the list of times is empty; give at least one")
    if len(times) > MOMENTS_MAX:
        raise InvalidArgumentError(f"the list has {len(times):,} points in time; the limit is {MOMENTS_MAX:,}")
    return spark.createDataFrame([(time,) for time in sorted(set(times))], "time bigint")


def every(first: int, last: int, step_ms: int) -> list[int]:
    """Returns the multiples of a step, from the first one that is >= `first` to the first one that is >= `last`.

    Raises:
        InvalidArgumentError: the step is not positive, or there are more than MOMENTS_MAX multiples.
    """
    if step_ms <= 0:
        raise InvalidArgumentError(f"the step must be positive, not {step_ms} ms")
    begin, end = -(-first // step_ms), -(-last // step_ms)
    if end - begin >= MOMENTS_MAX:
        raise InvalidArgumentError(
            f"a step of {step_ms} ms gives {end - begin + 1:,} points in time; the limit is {MOMENTS_MAX:,}"
        )
    return [number * step_ms for number in range(begin, end + 1)]


def effect_times(records: DataFrame) -> DataFrame:
    """Returns the offset commits that took effect, each with the time at which it took effect, `effect_time`.

    `effect_time` is the highest timestamp in the log partition up to the log offset at which the commit took effect.
    Everywhere in offsetlog, the state at a time is that of the longest prefix of the log without a later timestamp, and
    a transaction takes effect when it ends.

    Args:
        records: rows of the view "records" of whole log partitions.
    """
    so_far = Window.partitionBy("log_partition").orderBy("log_offset").rowsBetween(Window.unboundedPreceding, 0)
    clock = records.select("log_partition", "log_offset", fn.max("timestamp").over(so_far).alias("effect_time"))
    effects = with_effects(commit_records(records).drop("value")).where(fn.col("effective_at").isNotNull())
    return effects.join(clock.withColumnRenamed("log_offset", "effective_at"), ["log_partition", "effective_at"])


def committed_at(records: DataFrame, times: DataFrame) -> DataFrame:
    """Returns the positions committed at each of the times: time, POSITION, committed.  Leaves out deleted positions.

    Args:
        records: rows of the view "records" of whole log partitions.
        times: a DataFrame with the column `time`, as `moments` returns it.
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
            # Sorted after all commits of the same time.
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
    """Returns the last known end of each topic partition at each of the times; ignores rows of `ends` without a time.

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
    """Returns the lag as of each of the times: the columns of `lag`, after the column `time`.

    Args:
        records: rows of the view "records" of whole log partitions.
        ends: samples with their `timestamp`.  For each time, the last sample taken at or before it is used.
        times: a DataFrame with the column `time`, as `moments` returns it.
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
    """Returns the lag of all committed positions of a directory, at present or over time.

    Args:
        spark: the session.
        path: a log directory.
        ends: the ends of the logs, as the functions of `lag_ends` return them.
        partitions: log partitions, such as "0,3-5"; None for all.
        times: the times at which to compute the lag, in ms since 1970.  If `times` and `step_ms` are None, the present
            lag is computed.
        step_ms: adds a time every `step_ms` milliseconds, from the first sample of the ends to the last; None adds
            none.
        permissive: whether to continue if a part of the log is missing or damaged; `problems` returns these parts.
        reported: the result of `problems`.  If the query then finds another missing or damaged part, it fails.

    Raises:
        InvalidArgumentError: `times` or `step_ms` is given, and no sample has a timestamp; or a time is later than the
            clock of this machine and later than every sample.
    """
    if times is None and step_ms is None:
        offsets = read_view(spark, path, "offsets", permissive=permissive, reported=reported, partitions=partitions)
        return lag(offsets, ends)
    (span,) = _ends(ends).agg(fn.min("timestamp").alias("first"), fn.max("timestamp").alias("last")).collect()
    if span["first"] is None:
        raise InvalidArgumentError("lag over time needs log end offsets with timestamps, but no sample has a timestamp")
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
    """Returns the topics and partitions that have a committed offset."""
    offsets = read_view(spark, path, "offsets", permissive=permissive, partitions=partitions)
    found = offsets.select(*_TOPIC_PARTITION).distinct().collect()
    return sorted((row["topic"], row["partition"]) for row in found)
