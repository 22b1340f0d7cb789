"""The space that a clean would free: live and dead records and bytes, by log partition and by group.

In one task for each log partition, the engine's own cleaner decides which records a clean would remove, as if no
history were kept:

* Only the last record of each key stays.
* The records of an aborted transaction are removed.
* A tombstone, or the marker of a transaction, is only removed when the delete horizon of its batch has passed.  An
  earlier clean has set this horizon to the time of that clean plus `delete_retention_ms`.

The numbers of records are exact, and so is the number of bytes of a log partition that a clean frees.  The bytes of a
batch are divided among its records in proportion to their sizes.  Batches without records, and files other than the log
files, are not counted.
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
    """The tables: `partitions` has a row for each log partition, `groups` has a row for each group in each of them.

    `incomplete` lists the missing and damaged parts of the log.
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
    """Computes and returns rows of `clean_surveying.COLUMNS`, one row for each group of each log partition.

    Args:
        spark: the session.
        path: a log directory or the directory of a partition, as executors reach it.
        partitions: the log partitions to report, such as "0,3-5"; None for all.
        roll: whether the report assumes that the active segments are closed first.
        now_ms: the time of the clean, in milliseconds since 1970; None for now.
        permissive: whether to leave out damaged parts.  If not, the task fails at the first damage.

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

    Columns: log_partition, log_end, end; segments, batches, records, bytes; live_records, live_bytes, dead_records,
    dead_bytes; superseded, aborted, expired_tombstone, expired_marker, keyless; tombstone, marker; records_after,
    freed_records, freed_bytes, bytes_after.  A clean covers the records below `end`.  Markers count as live.  The
    columns from `superseded` to `keyless` count the records that are removed, by the reason.  `tombstone` and `marker`
    count the records that stay until their delete horizon has passed.
    """
    return _tabulated(surveyed, "log_partition", "log_end", "end", "segments", "batches")


def groups_of(surveyed: DataFrame) -> DataFrame:
    """Returns one row for each group of a log partition, which covers its positions and the group's own records.

    Columns: log_partition, group, and the columns of `partitions_of` from `records` on.  `group` is null for markers
    and for records that cannot be decoded.
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
    """Returns how much a clean of a directory would free; arguments and errors are those of `surveys`.

    Also raises CorruptionError if parts of the log are missing.  With `permissive`, the report lists them instead.
    """
    incomplete = problems_of(spark, path, "records", permissive=permissive, partitions=partitions)
    surveyed = surveys(spark, path, partitions=partitions, roll=roll, now_ms=now_ms, permissive=permissive)
    return CompactReport(partitions_of(surveyed), groups_of(surveyed), incomplete)
