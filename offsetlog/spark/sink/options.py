"""The options and the columns of a write.  They are checked before a task starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from pyspark.sql.types import (
    ByteType,
    CharType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from offsetlog.errors import ConfigError, InvalidArgumentError
from offsetlog.spark.location import Location
from offsetlog.spark.machine import refusal, this_machine
from offsetlog.spark.scan.hadoop_settings import HadoopSettings, is_setting
from offsetlog.spark.sink.staging import OPTIONAL, QUERY_ID, REQUIRED, StagingPlace

STAGING_NAME = ".offsetlog-staging"

#: The names of the options as users write them; Spark passes them in lower case.
OPTIONS = (
    "path",
    "mode",
    "queryId",
    "epoch",
    "partitions",
    "durability",
    "lockTimeoutSeconds",
    "keepOpenSeconds",
    "stagingLocation",
    "report",
    "clean",
)
#: Options that Spark itself may add for a stream.
_SPARKS_OWN = {"checkpointlocation", "queryname"}

_TEXT = (StringType, CharType, VarcharType)
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_TYPES: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "group": (_TEXT, "a string"),
    "topic": (_TEXT, "a string"),
    "partition": (_INTEGERS, "an integer"),
    "offset": (_INTEGERS, "an integer"),
    "leader_epoch": (_INTEGERS, "an integer"),
    "metadata": (_TEXT, "a string"),
    "commit_timestamp": ((*_INTEGERS, TimestampType, TimestampNTZType), "an integer of milliseconds, or a timestamp"),
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write.

    Attributes:
        path: the path of the store's directory, on the driver's machine.
        mode: "failfast": a refused row fails the whole write.  "permissive": the group of a refused row is left out.
        query_id: the name under which the epochs of a query are recorded.  None means Spark's own id for a stream; for
            a batch write, it means that nothing is recorded.
        epoch: the epoch of a batch write that may be tried again; None for another batch write, and for a stream.
        partitions: the number of log partitions of a new store; None for the default.
        durability: the failure that the commits survive.
        lock_timeout_seconds: how long the driver waits for a store that another process has open.
        keep_open_seconds: how long the store stays open after a write.  The default is 0 for a batch write without an
            epoch, since no other write need follow it.
        staging_location: a directory or URI that driver and executors share.
        report: the directory for reports of refused rows.  None means the store's directory in mode "permissive", and
            no report in mode "failfast".
        clean: whether, after publishing, the driver cleans the logs and writes the snapshots that are due.
        machine: the driver's machine (`this_machine`) if the staging directory is the default one; a task on another
            machine then refuses to stage.  None if `stagingLocation` was given.
        hadoop: Hadoop's settings for the file system of the staging directory; they may be secrets and are not shown.
    """

    path: str
    mode: Literal["failfast", "permissive"]
    query_id: str | None
    epoch: int | None
    partitions: int | None
    durability: Literal["disk", "process"]
    lock_timeout_seconds: float
    keep_open_seconds: float
    staging_location: str
    report: str | None
    clean: bool
    machine: str | None
    hadoop: HadoopSettings = field(default_factory=HadoopSettings, repr=False)

    def place(self, job: str | None) -> StagingPlace:
        """Returns where the tasks stage their rows.  `job` is the name of a batch write; it is None for a stream."""
        if job is None:
            return StagingPlace(self.staging_location, self.query_id, None, None, self.machine, self.hadoop)
        return StagingPlace(
            self.staging_location, self.query_id or job, self.epoch or 0, job, self.machine, self.hadoop
        )


def checked_options(
    options: Mapping[str, str], *, stream: bool, overwrite: bool, one_machine: bool = True
) -> SinkOptions:
    """Checks the options of a write on the driver.  Raises ConfigError that names the wrong option.

    Args:
        options: the options from Spark.
        stream: whether the write is a stream.
        overwrite: whether the write would replace the store.  Such a write is refused.
        one_machine: whether all executors are on the driver's machine, as far as the driver knows.  If not, the option
            `stagingLocation` must be given.
    """
    if overwrite:
        raise ConfigError(
            "a store cannot be overwritten: use mode('append'), or outputMode('append') in a stream. For another "
            "output mode, use foreachBatch with offsetlog.spark.sink.writer.commit_batch"
        )
    given = {name.lower(): value for name, value in options.items() if not is_setting(name)}
    known = {name.lower() for name in OPTIONS}
    for name in given:
        if name not in known and not (stream and name in _SPARKS_OWN):
            raise ConfigError(f"{name!r} is not an option of a write; the options are {', '.join(OPTIONS)}")
    path = _store_path(given.get("path"))
    query_id = given.get("queryid")
    if query_id is not None and (not QUERY_ID.fullmatch(query_id) or query_id.strip(".") == ""):
        raise ConfigError(
            f"queryId {query_id!r} must be 1 to 200 ASCII letters, digits, '.', '_' or '-', and not only dots"
        )
    report = given.get("report")
    epoch = _number(given, "epoch", 0, 2**62)
    if stream and epoch is not None:
        raise ConfigError("epoch is only for batch writes; a stream counts its own epochs")
    if not stream and (query_id is None) != (epoch is None):
        raise ConfigError(
            "a batch write takes queryId and epoch together or not at all; queryId and epoch identify the write, so "
            "that a repeated write is skipped"
        )
    staging = given.get("staginglocation")
    if not staging and not one_machine:
        raise ConfigError(refusal(default_staging(path)))
    return SinkOptions(
        path=path,
        mode=cast("Literal['failfast', 'permissive']", _choice(given, "mode", ("failfast", "permissive"))),
        query_id=query_id,
        epoch=epoch,
        partitions=_number(given, "partitions", 1, 100_000),
        durability=cast("Literal['disk', 'process']", _choice(given, "durability", ("disk", "process"))),
        lock_timeout_seconds=_seconds(given, "lockTimeoutSeconds", "60"),
        # The process that publishes a single write may be killed together with its session as soon as the write
        # returns.
        keep_open_seconds=_seconds(given, "keepOpenSeconds", "10" if stream or epoch is not None else "0"),
        staging_location=staging or default_staging(path),
        report=_on_the_driver("report", report, "a report is written by the driver") if report else None,
        clean=_choice(given, "clean", ("true", "false")) == "true",
        machine=None if staging else this_machine(),
        hadoop=HadoopSettings.of(options),
    )


def default_staging(path: str) -> str:
    """Returns the default staging directory of a write, which is in the store's directory."""
    return f"{path.rstrip('/')}/{STAGING_NAME}"


def _store_path(path: str | None) -> str:
    if not path:
        raise ConfigError("the path of the store is missing; set the path with save(path) or option('path', ...)")
    return _on_the_driver("path", path, "a store is opened by the driver")


def _on_the_driver(name: str, path: str, why: str) -> str:
    location = Location.of(path)
    if location.path is None:
        raise ConfigError(f"{name} {str(location)!r} must be a directory on the driver's machine: {why}")
    return location.path


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = given.get(name, choices[0])
    if value not in choices:
        raise ConfigError(f"{name} must be {' or '.join(choices)}, not {value!r}")
    return value


def _number(given: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,20}", value) or not least <= int(value) <= most:
        raise ConfigError(f"{name} must be a number from {least} to {most}, not {value!r}")
    return int(value)


def _seconds(given: Mapping[str, str], name: str, default: str) -> float:
    value = given.get(name.lower(), default)
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
        raise ConfigError(f"{name} must be a number of seconds, not {value!r}")
    return float(value)


def check_schema(schema: StructType) -> None:
    """Raises InvalidArgumentError if a DataFrame has wrong columns; it names the wrong column and the possible ones."""
    known = f"the columns are {', '.join(REQUIRED)} (required), {', '.join(OPTIONAL)}"
    names = schema.fieldNames()
    for column in schema.fields:
        if column.name not in _TYPES:
            raise InvalidArgumentError(f"{column.name!r} is not a column of a commit; {known}")
        if names.count(column.name) > 1:
            raise InvalidArgumentError(f"column {column.name!r} appears {names.count(column.name)} times")
        types, meant = _TYPES[column.name]
        if not isinstance(column.dataType, types):
            raise InvalidArgumentError(f"column {column.name!r} must be {meant}, not {column.dataType.simpleString()}")
    for name in REQUIRED:
        if name not in names:
            raise InvalidArgumentError(f"column {name!r} is missing; {known}")
