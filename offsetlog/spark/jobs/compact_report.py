"""The space that a clean would free: live and dead records and bytes, by log partition and by group.

The engine's own cleaner decides, in one task per log partition, as if no history were kept: the last record of each key
stays; records of an aborted transaction are dropped; a tombstone or a transaction's marker is dropped only after the
delete horizon of its batch, which an earlier clean set to its own time plus `delete_retention_ms`.

Records are counted exactly, and so are the bytes of a log partition that a clean frees.  The bytes of a batch are
divided among its records by their sizes.  Batches without records, and files beside the log, are not counted.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from offsetlog.errors import InvalidArgumentError
from offsetlog.spark.jobs.completeness import problems_of
from offsetlog.spark.jobs.tasks.clean_surveying import SPARK_SCHEMA, CleanSurveying
from offsetlog.spark.scan.files import choose, list_partitions, resolve
from offsetlog.spark.scan.options import parse_partitions
from offsetlog.spark.session_settings import hadoop_settings_of

#: The reasons for which a record is dropped.
GOES = ["superseded", "aborted", "expired_tombstone", "expired_marker", "keyless"]

#: More tasks than this cost more than they gain.
TASKS_MAX = 1000


@dataclass(frozen=True)
class CompactReport:
    """The tables: one row for each log partition, and for each group in it.

    `incomplete` lists what is missing or damaged in the log.
    """

    partitions: DataFrame
    groups: DataFrame
    incomplete: tuple[str, ...] = ()

    def tables(self) -> dict[str, DataFrame]:
        """Returns the tables by name."""
        return {"partitions": self.partitions, "groups": self.groups}


def surveys(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    partitions: str | None = None,
    roll: bool = False,
    now_ms: int | None = None,
    permissive: bool = False,
) -> DataFrame:
    """Returns a row of `clean_surveying.COLUMNS` for each group of each log partition; the call computes the rows.

    Args:
        spark: the session.
        path: a log directory or that of a partition, as executors reach it.
        partitions: only these log partitions, such as "0,3-5".
        roll: whether to report as if the active segments were closed first.
        now_ms: the time in milliseconds since 1970, None for now.
        permissive: whether to leave out damaged parts; if not, the task fails there.

    Raises:
        ConfigError, MissingFileError, StorageError: there is no log, or it has none of these log partitions.
        InvalidArgumentError: the path is a single segment.
        PythonException: a task failed; its text contains the CorruptionError, StorageError or CapacityError.
    """
    files, found = resolve(os.fspath(path), hadoop_settings_of(spark))
    wanted = None if partitions is None else parse_partitions(partitions)
    rows = []
    for each in choose(list_partitions(files, found), wanted, found):
        if each.directory is None:
            raise InvalidArgumentError(
                "a single segment cannot be cleaned: give the directory of its partition", path=path
            )
        rows.append((each.number, each.directory))
    if not rows:
        return spark.createDataFrame([], SPARK_SCHEMA)
    moment = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    surveying = CleanSurveying(files.arrow, roll, moment, permissive)
    tasks = spark.createDataFrame(rows, "number int, directory string").repartition(min(len(rows), TASKS_MAX))
    rows_of = fn.udf(surveying, f"array<struct<{SPARK_SCHEMA}>>", useArrow=False)
    # Both tables come from one survey, however often they are read.
    return tasks.select(fn.inline(rows_of("number", "directory"))).localCheckpoint()


def _sums() -> list[Column]:
    def whole(column: Column, name: str) -> Column:
        return fn.round(fn.sum(column)).cast("bigint").alias(name)

    records, live = fn.sum("records"), fn.sum("live_records")
    goes: Column = sum((fn.sum(name) for name in GOES), fn.lit(0))
    return [
        records.alias("records"),
        whole(fn.col("bytes"), "bytes"),
        live.alias("live_records"),
        whole(fn.col("live_bytes"), "live_bytes"),
        (records - live).alias("dead_records"),
        whole(fn.col("bytes") - fn.col("live_bytes"), "dead_bytes"),
        *(fn.sum(name).alias(name) for name in [*GOES, "tombstone", "marker"]),
        (records - goes).alias("records_after"),
        goes.cast("bigint").alias("freed_records"),
        whole(fn.col("freed_bytes"), "freed_bytes"),
    ]


def _tabulated(surveyed: DataFrame, *keys: str) -> DataFrame:
    found = surveyed.groupBy(*keys).agg(*_sums())
    return found.withColumn("bytes_after", fn.col("bytes") - fn.col("freed_bytes"))


def partitions_of(surveyed: DataFrame) -> DataFrame:
    """Returns one row for each log partition that has records, from the result of `surveys`.

    Columns: log_partition, log_end, end (records below it are cleaned); segments, batches, records, bytes;
    live_records, live_bytes, dead_records, dead_bytes (markers count as live); superseded, aborted, expired_tombstone,
    expired_marker, keyless (records that are dropped); tombstone, marker (records that stay until their time);
    records_after, freed_records, freed_bytes, bytes_after.
    """
    return _tabulated(surveyed, "log_partition", "log_end", "end", "segments", "batches")


def groups_of(surveyed: DataFrame) -> DataFrame:
    """Returns one row for each group of a log partition, for its offsets and its own records together.

    Columns: log_partition, group (null for markers and undecodable records), and those of `partitions_of` from
    `records` on.
    """
    return _tabulated(surveyed, "log_partition", "group")


def run(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    partitions: str | None = None,
    roll: bool = False,
    now_ms: int | None = None,
    permissive: bool = False,
) -> CompactReport:
    """Returns what a clean of a directory would free; arguments and errors as for `surveys`.

    Also raises CorruptionError if parts of the log are missing; with `permissive` the report lists them instead.
    """
    incomplete = problems_of(spark, path, "records", permissive=permissive, partitions=partitions)
    surveyed = surveys(spark, path, partitions=partitions, roll=roll, now_ms=now_ms, permissive=permissive)
    return CompactReport(partitions_of(surveyed), groups_of(surveyed), incomplete)
