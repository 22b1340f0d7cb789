"""How jobs treat a log with missing parts: they refuse it or, with `permissive`, mark their output as incomplete."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from offsetlog.errors import ConfigError, OffsetLogError
from offsetlog.spark.jobs.places import check_replaceable
from offsetlog.spark.jobs.session import PROBLEMS_MAX, view_of, write_tables
from offsetlog.spark.location import shown
from offsetlog.spark.scan.completeness import ask, find_losses
from offsetlog.spark.scan.options import ReadOptions, parse
from offsetlog.spark.scan.plan import open_on_driver, problem_of
from offsetlog.spark.session_settings import hadoop_settings_of

#: The file that marks tables that were made from an incomplete log; it has an entry for each table.  Spark ignores
#: files whose names begin with "_".
MARK = "_incomplete.json"


def doubts_of(
    spark: SparkSession, path: str | os.PathLike[str], view: str, **options: object
) -> tuple[str, ...]:
    """Returns the missing and damaged witnesses of a log.  Witnesses are files that show whether the log is complete.

    Without a witness, losses may stay undetected.  The arguments are those of `problems_of`, which returns the losses
    that were detected.

    Raises:
        MissingFileError, StorageError, ConfigError: the log cannot be read, or an option is wrong.
    """
    read = read_options(spark, path, view, options)
    found: list[OffsetLogError] = []
    find_losses(open_on_driver(read), read, found)
    return tuple(sorted(map(problem_of, found)))


def read_options(
    spark: SparkSession, path: str | os.PathLike[str], view: str, options: Mapping[str, object]
) -> ReadOptions:
    """Returns the options of a read of a view, with the session's settings of file systems; None is left out."""
    given = {name: str(value) for name, value in options.items() if value is not None}
    return parse({"path": os.fspath(path), "view": view, **given, **hadoop_settings_of(spark)})


def problems_of(
    spark: SparkSession, path: str | os.PathLike[str], view: str, *, permissive: bool, **options: object
) -> tuple[str, ...]:
    """Returns the missing and damaged parts of a log, as a view shows them.

    With `permissive`, this call reads the log once to find the problems, and returns at most PROBLEMS_MAX of them.
    Without `permissive`, it raises if a part is missing, and does not look for damage: the job itself meets the damage
    when it reads the log.

    Args:
        spark: the session.
        path: the log directory.
        view: the view that the job reads.  Each view has problems of its own, for example a past state that was cleaned
            away.
        permissive: whether the job continues despite problems.
        options: the options of the source that the job uses.  An option whose value is None is left out.

    Raises:
        DataLossError, PossibleLossError, CorruptionError: a part is missing, and `permissive` is False.
        MissingFileError, StorageError, ConfigError: the log cannot be read, or an option is invalid.
    """
    if not permissive:
        read = read_options(spark, path, view, options)
        ask(open_on_driver(read), read)
        return ()
    found = view_of(spark, path, view, **{"mode": "permissive", "columns": "log_partition", **options})
    rows = found.where("problem is not null").limit(PROBLEMS_MAX).collect()
    problems = sorted((row["log_partition"], row["problem"]) for row in rows)
    return tuple(text if number < 0 else f"log partition {number}: {text}" for number, text in problems)


def write_text(spark: SparkSession, directory: str, name: str, text: str) -> None:
    """Writes a file to the directory of a table, on a file system of Spark's; replaces an existing file."""
    path, system = _hadoop_file(spark, directory, name)
    stream = system.create(path, True)
    try:
        stream.write(bytearray(text, "utf-8"))
    finally:
        stream.close()


def _hadoop_file(spark: SparkSession, directory: str, *name: str) -> tuple[Any, Any]:
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(directory, *name)
    return path, path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())


def write_marked(
    spark: SparkSession,
    tables: Mapping[str, DataFrame],
    directory: str,
    *,
    path: str | os.PathLike[str],
    problems: Sequence[str],
    overwrite: bool = False,
) -> None:
    """Writes tables as `session.write_tables` does.  If there are problems, marks the tables as incomplete.

    The mark is a file in the directory.  It names each incomplete table, the log from which it was made, and the
    problems.  It is written before the tables, so that an incomplete table has its mark even after a crash.  Entries
    for tables of other jobs stay in the file.

    Args:
        spark: the session.
        tables: the tables by name.
        directory: the directory, as a path or URI that Spark can write to.
        path: the log from which the tables were made.
        problems: the missing and damaged parts of the log.
        overwrite: whether existing tables are replaced.

    Raises:
        ConfigError: `session.write_tables` refuses the directory; or a table exists already; or the existing mark
            cannot be read.  Nothing was written.
    """
    before = _marks(spark, directory)
    for name in tables:
        if overwrite:
            check_replaceable(f"{directory.rstrip('/')}/{name}")
        else:
            _check_absent(spark, directory, name)
    if problems:
        mine = _mark_of(path, problems)
        _write_marks(spark, directory, {**before, **dict.fromkeys(tables, mine)})
    write_tables(tables, directory, overwrite=overwrite)
    if not problems and not before.keys().isdisjoint(tables):
        _write_marks(spark, directory, {name: each for name, each in before.items() if name not in tables})


def write_marked_table(
    spark: SparkSession,
    table: DataFrame,
    directory: str,
    *,
    path: str | os.PathLike[str],
    problems: Sequence[str],
    overwrite: bool = False,
) -> None:
    """Writes one table to a directory of its own.  If there are problems, adds a mark as `write_marked` does."""
    if not problems:
        # When a table is replaced, its mark is removed, too.
        table.write.mode("overwrite" if overwrite else "errorifexists").parquet(directory)
        return
    if overwrite:
        check_replaceable(directory)
        target, system = _hadoop_file(spark, directory)
        if system.exists(target):
            system.delete(target, True)
    else:
        _check_absent(spark, directory)
    write_text(spark, directory, MARK, json.dumps(_mark_of(path, problems), indent=2) + "\n")
    table.write.mode("append").parquet(directory)


def _mark_of(path: str | os.PathLike[str], problems: Sequence[str]) -> dict[str, Any]:
    return {"source": shown(os.fspath(path)), "incomplete": list(problems)}


def _check_absent(spark: SparkSession, directory: str, *name: str) -> None:
    target, system = _hadoop_file(spark, directory, *name)
    if system.exists(target):
        place = "/".join((directory.rstrip("/"), *name))
        raise ConfigError("a file or directory of this name exists already; --overwrite replaces it", path=place)


def _marks(spark: SparkSession, directory: str) -> dict[str, Any]:
    place, system = _hadoop_file(spark, directory, MARK)
    if not system.exists(place):
        return {}
    stream = system.open(place)
    try:
        found = json.loads(bytes(stream.readAllBytes()))
    except ValueError:
        found = None
    finally:
        stream.close()
    if not isinstance(found, dict):
        text = "the file does not list the incomplete tables; remove the file and every table that may be incomplete"
        raise ConfigError(text, path=f"{directory.rstrip('/')}/{MARK}")
    return found


def _write_marks(spark: SparkSession, directory: str, marks: Mapping[str, Any]) -> None:
    if marks:
        write_text(spark, directory, MARK, json.dumps(marks, indent=2) + "\n")
        return
    place, system = _hadoop_file(spark, directory, MARK)
    system.delete(place, False)
