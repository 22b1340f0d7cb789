"""The table of committed positions as of a moment, for whoever reads Parquet, Delta or Iceberg."""

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

#: Beside the files of a Parquet table; what begins so is no data to Spark, nor to others that read such tables.
NOTE = "_snapshot.json"

#: A class of each format's package, and what has to be given to Spark for it.
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
    """The contents of a snapshot, and the notes beside it.

    Attributes:
        source: the log directory.
        at: the moment, as it was asked for; None for all that was there.
        taken_at: when, in UTC.
        format: of the table.
        rows: how many positions.
        positions: the digest of all of them (docs/digest.md, logical), read back from the table, 32 digits.
        log_partitions: the same by log partition.
        incomplete: losses and damage in the log, and so in the table; only with `permissive`.
        doubts: the witnesses of the log that are missing or damaged: less can be known to be missing.
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
    """Raises ConfigError unless Spark has the package that a format needs, and InvalidArgumentError for no format."""
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
        raise ConfigError(f"Spark has no package for {table_format}: give it {settings}") from None


def noted(table: DataFrame) -> tuple[int, str, dict[str, str]]:
    """Returns how many positions a table holds, and their digest: of all, and by log partition."""
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
    # A group stands in one log partition: a reader of one group opens one folder, and in it finds it sorted.
    return offsets.repartition("log_partition").sortWithinPartitions("log_partition", "group", "topic", "partition")


def _write_parquet(offsets: DataFrame, target: str, mode: str) -> None:
    # All of it is replaced, whatever the session says: leftovers of another log partition would be taken for ours.
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
    # Delta's SQL takes only whole paths, unlike its reader and writer.
    found = Location.of(target).here
    return target if found is None else str(found)


def _write_note(spark: SparkSession, target: str, snapshot: Snapshot) -> None:
    """Notes with the table what it is; of a directory of Parquet it says as well that all of it is there."""
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
        target: a directory that Spark can write to; for Iceberg the name of a table with its catalog.
        at: the moment, as the source's option `at` takes it; None for all that is there.
        table_format: "parquet", "delta" or "iceberg"; the last two need their Spark package.
        overwrite: whether a table that is there is replaced.
        permissive: goes on where something is missing or damaged, and notes it with the table.

    Raises:
        ConfigError: the format's package, or that of the target's file system, is missing, or there is something at a
            `target` of this machine;
            of other places and of Iceberg's tables Spark says so.
        InvalidArgumentError: `target` is in the log, or it or what holds it would be replaced.
        MissingFileError: there is no log at `path`.
        CorruptionError: the log is damaged, or not whole (DataLossError, PossibleLossError); not with `permissive`.
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
        # Without a file a directory of Parquet has no columns, and nobody can read it.
        offsets.limit(0).coalesce(1).write.mode("append").parquet(target)
    taken_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    snapshot = Snapshot(shown(os.fspath(path)), at, taken_at, table_format, rows, positions, parts, incomplete, doubts)
    _write_note(spark, target, snapshot)
    return snapshot
