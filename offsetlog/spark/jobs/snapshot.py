"""Writes the committed positions as of a moment to a table in the format Parquet, Delta or Iceberg."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from offsetlog.errors import ConfigError
from offsetlog.spark.jobs.columns import position_hash
from offsetlog.spark.jobs.completeness import doubts_of, problems_of, write_text
from offsetlog.spark.jobs.hadoop_files import check_writable
from offsetlog.spark.jobs.places import TableFormat, check_log, check_table_format, check_target
from offsetlog.spark.jobs.session import read_view
from offsetlog.spark.jobs.tasks.hashing import LIMBS, from_limbs
from offsetlog.spark.location import Location, shown
from offsetlog.spark.scan.options import fixed_moment

#: The note beside the files of a Parquet table; readers of such tables ignore names that begin with "_".
NOTE = "_snapshot.json"

#: For each format a class in its package, and the options of Spark that add the package.
_PACKAGES = {
    "delta": (
        "io.delta.sql.DeltaSparkSessionExtension",
        "--conf spark.jars.packages=io.delta:delta-spark_2.13:VERSION "
        "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
        "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    ),
    "iceberg": (
        "org.apache.iceberg.spark.SparkCatalog",
        "--conf spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-SPARK_2.13:VERSION "
        "--conf spark.sql.catalog.NAME=org.apache.iceberg.spark.SparkCatalog, and what the catalog itself needs",
    ),
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The description of a snapshot, which is stored with its table.

    Attributes:
        source: the log directory.
        at: the moment that was requested; None for the end of the log.
        taken_at: the time when the table was made, in UTC.
        format: the format of the table.
        rows: the number of positions.
        positions: the logical digest of all positions (docs/digest.md), computed from the written table, as 32 digits.
        log_partitions: the digest of each log partition.
        incomplete: the missing and damaged parts of the log, whose positions the table lacks; always empty without
            `permissive`.
        doubts: the missing and damaged witnesses of the log, without which losses may stay undetected.
    """

    source: str
    at: str | None
    taken_at: str
    format: str
    rows: int
    positions: str
    log_partitions: dict[str, str]
    incomplete: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def check_format(spark: SparkSession, table_format: str) -> None:
    """Raises ConfigError if Spark lacks the package of a format, InvalidArgumentError if the format is unknown."""
    check_table_format(table_format)
    if table_format not in _PACKAGES:
        return
    name, settings = _PACKAGES[table_format]
    jvm: Any = spark.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(name)
    except Exception as failure:
        if "ClassNotFoundException" not in str(failure):
            raise
        raise ConfigError(f"Spark lacks the package for {table_format}; add it with {settings}") from None


def noted(table: DataFrame) -> tuple[int, str, dict[str, str]]:
    """Returns the number of positions in a table, their digest, and the digest of each log partition."""
    hashed = table.withColumn("hash", position_hash(pending=False, physical=False))
    sums = [fn.sum(f"hash.{name}").alias(name) for name in LIMBS]
    rows, whole, parts = 0, 0, {}
    for row in hashed.groupBy("log_partition").agg(fn.count("*").alias("rows"), *sums).collect():
        digest = from_limbs((row["a"], row["b"], row["c"], row["d"]))
        rows += row["rows"]
        whole = (whole + digest) % (1 << 128)
        parts[row["log_partition"]] = f"{digest:032x}"
    return rows, f"{whole:032x}", {str(number): parts[number] for number in sorted(parts)}


def _arranged(offsets: DataFrame) -> DataFrame:
    # A group is in one log partition.  To read one group, a reader therefore opens one folder, which is sorted by
    # group.
    return offsets.repartition("log_partition").sortWithinPartitions("log_partition", "group", "topic", "partition")


def _write_parquet(offsets: DataFrame, target: str, mode: str) -> None:
    # The whole table is replaced, whatever the setting of the session is.  Otherwise, log partitions that are left from
    # the old table would seem to be part of the new one.
    writer = offsets.write.mode(mode).partitionBy("log_partition").option("partitionOverwriteMode", "static")
    writer.parquet(target)


def _write_delta(offsets: DataFrame, target: str, mode: str) -> None:
    writer = offsets.write.format("delta").mode(mode).partitionBy("log_partition")
    writer.option("overwriteSchema", "true").save(target)


def _write_iceberg(offsets: DataFrame, target: str, mode: str) -> None:
    writer = offsets.writeTo(target).using("iceberg").partitionedBy(fn.col("log_partition"))
    if mode == "overwrite":
        writer.createOrReplace()
    else:
        writer.create()


_WRITERS: dict[str, Callable[[DataFrame, str, str], None]] = {
    "parquet": _write_parquet,
    "delta": _write_delta,
    "iceberg": _write_iceberg,
}


def _whole(target: str) -> str:
    # Delta's SQL takes only absolute paths, unlike its reader and writer.
    found = Location.of(target).here
    return target if found is None else str(found)


def _write_note(spark: SparkSession, target: str, snapshot: Snapshot) -> None:
    """Stores the description of a snapshot with its table.  In a Parquet directory, it marks the table as complete."""
    text = json.dumps(asdict(snapshot), indent=2)
    if snapshot.format == "parquet":
        write_text(spark, target, NOTE, text + "\n")
        return
    name = target if snapshot.format == "iceberg" else f"delta.`{_whole(target).replace('`', '``')}`"
    value = json.dumps(asdict(snapshot)).replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('offsetlog.snapshot' = '{value}')")


def run(
    spark: SparkSession,
    path: str | os.PathLike[str],
    target: str,
    *,
    at: str | None = None,
    table_format: TableFormat = "parquet",
    overwrite: bool = False,
    permissive: bool = False,
) -> Snapshot:
    """Writes the committed positions of a directory as of a moment.

    Args:
        spark: the session.
        path: a log directory.
        target: a directory that Spark can write to; for Iceberg, the name of a table, with its catalog.
        at: the moment, as for the source's option `at`; None for the end of the log.
        table_format: "parquet", "delta" or "iceberg"; the last two need their Spark package.
        overwrite: whether an existing table is replaced.
        permissive: whether to continue if a part of the log is missing or damaged.  The description of the snapshot
            then lists these parts.

    Raises:
        ConfigError: the package of the format or of the target's file system is missing; or `target` exists on this
            machine.  With `overwrite`, only a `target` that is not a table is refused.  On other file systems, and for
            Iceberg's tables, Spark itself reports that the target exists.
        InvalidArgumentError: `target` is the log, is inside the log, or contains the log.
        MissingFileError: there is no log at `path`.
        CorruptionError: the log is damaged, or a part is missing (DataLossError, PossibleLossError), and `permissive`
            is False.
    """
    check_format(spark, table_format)
    check_log(path)
    if table_format != "iceberg":
        check_target(target, path, overwrite=overwrite)
        check_writable(spark, target)
    at = fixed_moment(at)
    doubts = doubts_of(spark, path, "offsets", at=at)
    incomplete = problems_of(spark, path, "offsets", permissive=permissive, at=at)
    offsets = _arranged(read_view(spark, path, "offsets", permissive=permissive, reported=incomplete, at=at))
    _WRITERS[table_format](offsets, target, "overwrite" if overwrite else "errorifexists")
    if table_format == "iceberg":
        table = spark.table(target)
    elif table_format == "delta":
        table = spark.read.format(table_format).load(target)
    else:
        table = spark.read.schema(offsets.schema).parquet(target)
    rows, positions, parts = noted(table)
    if rows == 0 and table_format == "parquet":
        # A Parquet directory without files has no columns and cannot be read.
        offsets.limit(0).coalesce(1).write.mode("append").parquet(target)
    taken_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    snapshot = Snapshot(shown(os.fspath(path)), at, taken_at, table_format, rows, positions, parts, incomplete, doubts)
    _write_note(spark, target, snapshot)
    return snapshot
