"""What a job does where its log is not whole: it refuses, or with `permissive` goes on and marks what it writes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from offsetlog.spark.jobs.session import PROBLEMS_MAX, view_of
from offsetlog.spark.location import shown
from offsetlog.spark.scan.completeness import ask
from offsetlog.spark.scan.options import parse
from offsetlog.spark.scan.plan import open_on_driver
from offsetlog.spark.session_settings import hadoop_settings_of

#: Beside tables that were made of a log that was not whole; what begins so is no data to Spark.
MARK = "_incomplete.json"


def problems_of(
    spark: SparkSession, path: str | os.PathLike[str], view: str, *, permissive: bool, **options: object
) -> tuple[str, ...]:
    """Returns what is missing or damaged in a log, as a view shows it; without `permissive` nothing may be missing.

    With `permissive` the log is read once for it, and at most PROBLEMS_MAX problems are named.  Without, damage is an
    error of the job that reads.

    Args:
        spark: the session.
        path: the log directory.
        view: the one that the job reads, with the same options: each has problems of its own, as a state that the log
            cannot tell any more.
        permissive: whether the job goes on.
        options: of the source; None leaves one out.

    Raises:
        DataLossError, PossibleLossError, CorruptionError: something is missing, and `permissive` is not set.
        MissingFileError, StorageError, ConfigError: the log cannot be read, or an option is wrong.
    """
    given = {name: str(value) for name, value in options.items() if value is not None}
    if not permissive:
        read = parse({"path": os.fspath(path), "view": view, **given, **hadoop_settings_of(spark)})
        ask(open_on_driver(read), read)
        return ()
    found = view_of(spark, path, view, **{"mode": "permissive", "columns": "log_partition", **given})
    rows = found.where("problem is not null").limit(PROBLEMS_MAX).collect()
    told = sorted((row["log_partition"], row["problem"]) for row in rows)
    return tuple(text if number < 0 else f"log partition {number}: {text}" for number, text in told)


def write_text(spark: SparkSession, directory: str, name: str, text: str) -> None:
    """Writes a file beside the data of a table, wherever Spark can write; one that is there is replaced."""
    path, system = _hadoop_file(spark, directory, name)
    stream = system.create(path, True)
    try:
        stream.write(bytearray(text, "utf-8"))
    finally:
        stream.close()


def _hadoop_file(spark: SparkSession, directory: str, name: str) -> tuple[Any, Any]:
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(directory, name)
    return path, path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())


def mark(spark: SparkSession, directory: str, path: str | os.PathLike[str], problems: Sequence[str]) -> None:
    """Marks a directory of tables as incomplete, or takes the mark of earlier ones away where nothing is missing.

    Args:
        spark: the session.
        directory: where the tables are.
        path: the log that they were made of.
        problems: what is missing or damaged in it.
    """
    if problems:
        text = json.dumps({"source": shown(os.fspath(path)), "incomplete": list(problems)}, indent=2)
        write_text(spark, directory, MARK, text + "\n")
        return
    left, system = _hadoop_file(spark, directory, MARK)
    if system.exists(left):
        system.delete(left, False)
