"""The paths that a job is given: a wrong one is reported before Spark starts."""

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

#: Names in a directory that Spark wrote a table to, whole or not: notes, checksums, files, folders of a column.
_OF_A_TABLE = re.compile(r"_.*|\..*\.crc|part-.*|[^=]+=.*")

#: The formats of a snapshot.
TableFormat = Literal["parquet", "delta", "iceberg"]
TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)


def local_path(path: AnyPath, what: str) -> Path:
    """Returns a path of the file system that driver and executors share.

    Raises:
        InvalidArgumentError: it is the address of something else.
    """
    found = Location.of(path).here
    if found is None:
        raise InvalidArgumentError(f"the {what} must be a directory that driver and executors share, not {path}")
    return found


def check_table_format(table_format: str) -> None:
    """Raises InvalidArgumentError where a snapshot cannot be written as that."""
    if table_format not in TABLE_FORMATS:
        raise InvalidArgumentError(f"{table_format!r} is no format of tables; there are {', '.join(TABLE_FORMATS)}")


def check_log(path: AnyPath) -> None:
    """Raises, as `find_partitions`, where a path is no log; addresses are inspected when they are read."""
    found = Location.of(path).here
    if found is not None:
        find_partitions(found)


def log_directory(path: AnyPath, what: str) -> LogDirectory:
    """Returns a whole log directory on a shared file system.

    Raises:
        MissingFileError: there is nothing, or nothing of the offsets topic.
        InvalidArgumentError: it is a part of one, or the address of something else.
        StorageError: it cannot be read.
    """
    directory = LogDirectory(local_path(path, what), FileSystem())
    if directory.exists():
        directory.check_is_none_of_its_parts()
    find_partitions(directory.path)
    return directory


def store_path(path: AnyPath) -> Path:
    """Returns where a store is, or is to be made.

    Raises:
        InvalidArgumentError: it is a file, a part of a log directory, or the address of something else.
    """
    found = Location.of(path).here
    if found is None:
        raise InvalidArgumentError(f"the target must be a directory of this machine, not {path}")
    LogDirectory(found, FileSystem()).check_is_none_of_its_parts()
    return found


def check_file(path: AnyPath) -> None:
    """Raises MissingFileError where there is nothing at a path of this machine; a pattern is left to Spark."""
    found = Location.of(path).here
    if found is not None and not found.exists() and not re.search(r"[*?\[{]", str(found)):
        raise MissingFileError("there is no such file or directory", path=path)


def check_apart(target: AnyPath, *logs: AnyPath) -> None:
    """Refuses to write into a log, or to replace it, or what holds it.

    Raises:
        InvalidArgumentError: the target is one of the logs, in one, or above one.
    """
    new = Location.of(target).parts
    for log in logs:
        old = Location.of(log).parts
        if new[: len(old)] == old or old[: len(new)] == new:
            raise InvalidArgumentError(f"the output must lie apart from the log {os.fspath(log)}", path=target)


def check_new(target: AnyPath, way_on: str = "") -> None:
    """Raises ConfigError where there is something at a path of this machine; `way_on` ends the sentence."""
    found = Location.of(target).here
    if found is not None and os.path.lexists(found):
        raise ConfigError(f"there is something already{way_on}", path=target)


def check_replaceable(target: AnyPath) -> None:
    """Raises ConfigError where what is at a path of this machine is no table: Spark would remove all of it."""
    found = Location.of(target).here
    if found is None or not os.path.lexists(found):
        return
    if not found.is_dir():
        raise ConfigError("it is no directory of a table, and is not replaced by one", path=target)
    foreign = min((each.name for each in found.iterdir() if not _OF_A_TABLE.fullmatch(each.name)), default=None)
    if foreign is not None:
        raise ConfigError(f"there is {foreign!r} in it, which is of no table: it is not replaced by one", path=target)


def check_target(target: AnyPath, *logs: AnyPath, overwrite: bool) -> None:
    """Refuses what cannot be written, as `check_apart`, and as `check_new`, or `check_replaceable` to overwrite it."""
    check_apart(target, *logs)
    if overwrite:
        check_replaceable(target)
    else:
        check_new(target, "; --overwrite replaces it")


def check_vacant(directory: AnyPath, overwrite: bool) -> None:
    """Raises ConfigError where a directory of this machine, to which tables are to be written, holds something.

    So it does where it is none, even if it may be replaced.
    """
    found = Location.of(directory).here
    if found is None or not found.exists():
        return
    if not found.is_dir():
        raise ConfigError("it is no directory", path=directory)
    if not overwrite and any(found.iterdir()):
        raise ConfigError("there is something already; --overwrite replaces it", path=directory)


def check_paths(log: AnyPath, tables: AnyPath | None, overwrite: bool, *others: AnyPath) -> None:
    """Looks at the log that a job reads, and at the directory that it is to write tables to, if any.

    Raises:
        MissingFileError, StorageError: the log is none, or cannot be read.
        InvalidArgumentError: the tables would be written into the log, or into one of the others that are read.
        ConfigError: as `check_vacant`.
    """
    check_log(log)
    if tables is not None:
        check_apart(tables, log, *others)
        check_vacant(tables, overwrite)


def check_rewrite(source: AnyPath, target: AnyPath) -> LogDirectory:
    """Returns the log directory that is rewritten to a new place.

    Raises as `log_directory`, `check_new` and `check_apart`.
    """
    directory = log_directory(source, "source")
    check_new(local_path(target, "target"))
    check_apart(target, source)
    return directory
