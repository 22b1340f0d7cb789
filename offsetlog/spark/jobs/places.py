"""Checks the paths of a job before Spark starts, so that a wrong path is reported at once."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, get_args

from offsetlog._native.files import FileSystem
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.directory.reading import find_partitions
from offsetlog.errors import ConfigError, InvalidArgumentError, MissingFileError
from offsetlog.spark.location import AnyPath, Location

#: The names that the directory of a Spark table can contain, even if the table is incomplete: notes, checksums, files,
#: and a folder for each value of a column.
_OF_A_TABLE = re.compile(r"_.*|\..*\.crc|part-.*|[^=]+=.*")

#: The formats of a snapshot.
TableFormat = Literal["parquet", "delta", "iceberg"]
TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)


def local_path(path: AnyPath, what: str) -> Path:
    """Returns a path on the file system that driver and executors share.

    Raises:
        InvalidArgumentError: the path is a URI of another file system.
    """
    found = Location.of(path).here
    if found is None:
        raise InvalidArgumentError(f"the {what} must be a directory that driver and executors share, not {path}")
    return found


def check_table_format(table_format: str) -> None:
    """Raises InvalidArgumentError if a snapshot cannot be written in this format."""
    if table_format not in TABLE_FORMATS:
        raise InvalidArgumentError(
            f"{table_format!r} is not a table format; the formats are {', '.join(TABLE_FORMATS)}"
        )


def check_log(path: AnyPath) -> None:
    """Raises the errors of `find_partitions` if a local path is not a log.  A URI is only checked when it is read."""
    found = Location.of(path).here
    if found is not None:
        find_partitions(found)


def log_directory(path: AnyPath, what: str) -> LogDirectory:
    """Returns a whole log directory on a shared file system.

    Raises:
        MissingFileError: there is no directory, or it holds nothing of the offsets topic.
        InvalidArgumentError: the path is a part of a log directory, or a URI of another file system.
        StorageError: the directory cannot be read.
    """
    directory = LogDirectory(local_path(path, what), FileSystem())
    if directory.exists():
        directory.check_is_none_of_its_parts()
    find_partitions(directory.path)
    return directory


def store_path(path: AnyPath) -> Path:
    """Returns the path of a store that exists or can be created.

    Raises:
        InvalidArgumentError: the path is a file, a part of a log directory, or a URI of another file system.
    """
    found = Location.of(path).here
    if found is None:
        raise InvalidArgumentError(f"the target must be a directory on this machine, not {path}")
    LogDirectory(found, FileSystem()).check_is_none_of_its_parts()
    return found


def check_file(path: AnyPath) -> None:
    """Raises MissingFileError if a path on this machine does not exist; does not check a path with a pattern."""
    found = Location.of(path).here
    if found is not None and not found.exists() and not re.search(r"[*?\[{]", str(found)):
        raise MissingFileError("the file or directory does not exist", path=path)


def check_apart(target: AnyPath, *logs: AnyPath) -> None:
    """Refuses a target if writing to it would change or replace a log.

    Raises:
        InvalidArgumentError: the target is one of the logs, is inside a log, or contains a log.
    """
    new = Location.of(target).parts
    for log in logs:
        old = Location.of(log).parts
        if new[: len(old)] == old or old[: len(new)] == new:
            raise InvalidArgumentError(
                f"the output must be outside the log {os.fspath(log)}, and must not contain this log", path=target
            )


def check_new(target: AnyPath, way_on: str = "") -> None:
    """Raises ConfigError if a path on this machine exists; `way_on` is appended to the message."""
    found = Location.of(target).here
    if found is not None and os.path.lexists(found):
        raise ConfigError(f"a file or directory of this name exists already{way_on}", path=target)


def check_replaceable(target: AnyPath) -> None:
    """Raises ConfigError if a path on this machine exists and is no table, since Spark would remove all files in it."""
    found = Location.of(target).here
    if found is None or not os.path.lexists(found):
        return
    if not found.is_dir():
        raise ConfigError("the output is not the directory of a table, so it cannot be replaced", path=target)
    foreign = min((each.name for each in found.iterdir() if not _OF_A_TABLE.fullmatch(each.name)), default=None)
    if foreign is not None:
        raise ConfigError(
            f"the directory holds {foreign!r}, which is not part of a table, so the directory cannot be replaced",
            path=target,
        )


def check_target(target: AnyPath, *logs: AnyPath, overwrite: bool) -> None:
    """Calls `check_apart`, and then `check_replaceable` if `overwrite` is set, and `check_new` otherwise."""
    check_apart(target, *logs)
    if overwrite:
        check_replaceable(target)
    else:
        check_new(target, "; --overwrite replaces it")


def check_vacant(directory: AnyPath, overwrite: bool) -> None:
    """Raises ConfigError if the directory for tables is on this machine and is not empty.

    With `overwrite` the directory need not be empty, but it must be a directory.
    """
    found = Location.of(directory).here
    if found is None or not found.exists():
        return
    if not found.is_dir():
        raise ConfigError("the output must be a directory, but this is not a directory", path=directory)
    if not overwrite and any(found.iterdir()):
        raise ConfigError("the directory is not empty; --overwrite replaces the tables in it", path=directory)


def check_paths(log: AnyPath, tables: AnyPath | None, overwrite: bool, *others: AnyPath) -> None:
    """Checks the log that a job reads, and the directory, if any, to which it writes tables.

    Raises:
        MissingFileError, StorageError: there is no log, or it cannot be read.
        InvalidArgumentError: the tables would be written into the log, or into another directory that the job reads.
        ConfigError: raised by `check_vacant`.
    """
    check_log(log)
    if tables is not None:
        check_apart(tables, log, *others)
        check_vacant(tables, overwrite)


def check_rewrite(source: AnyPath, target: AnyPath) -> LogDirectory:
    """Checks the paths of a repartition, and returns the source as a log directory.

    Raises the errors of `log_directory`, `check_new` and `check_apart`.
    """
    directory = log_directory(source, "source")
    check_new(local_path(target, "target"))
    check_apart(target, source)
    return directory
