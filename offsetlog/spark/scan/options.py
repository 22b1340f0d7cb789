"""The options of a reader as typed values.  A wrong option is refused, and named, before a file is opened."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Literal

from pyspark import SparkContext

from offsetlog import moments
from offsetlog.errors import ConfigError, InvalidArgumentError
from offsetlog.spark.scan.hadoop_settings import HadoopSettings, is_setting

VIEWS = ("commits", "history", "offsets", "groups", "records", "batches")
#: The views of a stream: those of single records, since a stream yields each record once.
STREAM_VIEWS = ("commits", "records")
#: Views of single records, for which a range of log offsets can be given.
RANGED = frozenset({"commits", "history", "records", "batches"})
#: Views of keys, which can be limited to a group, topic and partition.
KEYED = frozenset({"commits", "history", "offsets", "records"})

SPLIT_BYTES = 128 * 2**20
#: The largest `minPartitions`.
PIECES_MAX = 1_000_000
OFFSET_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1
#: Options that Spark adds if a table is created with the source.  Spark passes the options of the statement itself as
#: `option.NAME`.
_OF_A_TABLE = frozenset({"location", "owner"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER = r"\s*-?\d{1,19}\s*"
#: The values in `startingOffsets` for the first and for the next log offset of a partition, as in Spark's Kafka source.
EARLIEST, LATEST = -2, -1

BATCH_NAMES = (
    "path", "view", "at", "partitions", "startingOffset", "endingOffset", "columns", "group", "topic", "partition",
    "splitBytes", "minPartitions", "buckets", "mode", "pushdown",
)  # fmt: skip
STREAM_NAMES = (
    "path", "view", "partitions", "columns", "group", "topic", "partition", "splitBytes", "mode",
    "startingOffsets", "maxOffsetsPerTrigger", "failOnDataLoss", "isolationLevel",
)  # fmt: skip

#: A log offset for all log partitions, or one for each of some log partitions.
Bound = int | dict[int, int]


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment that `at` names.

    Attributes:
        timestamp: the time in milliseconds since 1970; None if `at` gives log offsets.
        offsets: pairs of a log partition and its log offset.  If the log partition is None, the log must have only one.
    """

    timestamp: int | None = None
    offsets: tuple[tuple[int | None, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a batch read or a stream.

    Attributes:
        path: the path or URI of a log directory, a partition directory or a segment.
        view: one of VIEWS.
        at: the moment whose state is read; None for the present state.
        partitions: the log partitions to read; None for all.
        filtered_partitions: the log partitions that pass Spark's filters, which may include some that do not exist;
            None if no filter restricts them.
        starting_offset: the first log offset to read: one number for all log partitions, or a number for each of some.
        ending_offset: the log offset after the last one to read, in the same form.
        columns: the columns of the view to read; None for all.
        group: the only group to read; None for all.
        topic: the only topic to read; None for all.
        partition: the only partition of topics to read; -1 for all.
        split_bytes: the approximate number of bytes of the log that one split has.
        partitions_min: the least number of pieces into which the read is divided; with 0, the source chooses it.
        default_parallelism: the default parallelism of the cluster; 0 if it is not known.
        buckets: for the view `history`, the number of buckets of the keys of a partition; with 0, the source chooses
            it.
        permissive: whether each problem, such as damage, becomes a row.  If not, it is an error.
        pushdown: whether Spark's filters are used.
        starting_offsets: for a stream: "earliest", "latest", or the log offset for each log partition, which may be
            EARLIEST or LATEST.
        offsets_per_trigger: for a stream: the largest number of log offsets in a batch; 0 for no limit.
        fail_on_data_loss: for a stream: whether it fails if records have been removed before it read them.
        committed_only: for a stream: whether it waits until transactions have ended, and leaves out aborted records
            except tombstones.
        hadoop: Hadoop's settings for the file system of the path; they may be secrets and are not shown.
    """

    path: str
    view: str = "commits"
    at: Moment | None = None
    partitions: frozenset[int] | None = None
    filtered_partitions: frozenset[int] | None = None
    starting_offset: Bound | None = None
    ending_offset: Bound | None = None
    columns: tuple[str, ...] | None = None
    group: str | None = None
    topic: str | None = None
    partition: int = -1
    split_bytes: int = SPLIT_BYTES
    partitions_min: int = 0
    default_parallelism: int = 0
    buckets: int = 0
    permissive: bool = False
    pushdown: bool = False
    starting_offsets: dict[int, int] | Literal["earliest", "latest"] = "earliest"
    offsets_per_trigger: int = 0
    fail_on_data_loss: bool = True
    committed_only: bool = False
    hadoop: HadoopSettings = field(default_factory=HadoopSettings, repr=False)


def parse(options: Mapping[str, str], *, streaming: bool | None = False) -> ReadOptions:
    """Parses the options of a reader.

    Args:
        options: the options from Spark, which include Hadoop's settings of file systems (`fs.s3a.*`, `fs.azure.*`).
            Their names are case-insensitive.
        streaming: whether the options are for a stream.  None accepts the options of batch reads and of streams, if
            only the columns are needed.

    Raises:
        ConfigError: an option is unknown, has an invalid value, or contradicts another option.
    """
    names = {True: STREAM_NAMES, False: BATCH_NAMES, None: tuple(dict.fromkeys((*BATCH_NAMES, *STREAM_NAMES)))}
    given = _known({name: value for name, value in options.items() if not is_setting(name)}, names[streaming])
    if not given.get("path"):
        raise ConfigError('the path is missing; set it to the log directory, as in load("/var/kafka-logs")')
    view = _choice(given, "view", VIEWS, "commits")
    if streaming and view not in STREAM_VIEWS:
        raise ConfigError(f"view={view!r} is only for a batch; the views of a stream are {', '.join(STREAM_VIEWS)}")
    read = ReadOptions(
        path=given["path"],
        view=view,
        at=None if "at" not in given else parse_moment(given["at"]),
        partitions=None if "partitions" not in given else parse_partitions(given["partitions"]),
        starting_offset=_bound(given, "startingOffset"),
        ending_offset=_bound(given, "endingOffset"),
        columns=_columns(given),
        group=given.get("group"),
        topic=given.get("topic"),
        partition=_number(given, "partition", -1, 0, PARTITION_MAX),
        split_bytes=parse_size("splitBytes", given["splitBytes"]) if "splitBytes" in given else SPLIT_BYTES,
        partitions_min=_number(given, "minPartitions", 0, 1, PIECES_MAX),
        buckets=_number(given, "buckets", 0, 1, 4096),
        permissive=_choice(given, "mode", ("failfast", "permissive"), "failfast") == "permissive",
        pushdown=_flag(given, "pushdown", default=False),
        starting_offsets=_starting_offsets(given),
        offsets_per_trigger=_number(given, "maxOffsetsPerTrigger", 0, 1, OFFSET_MAX),
        fail_on_data_loss=_flag(given, "failOnDataLoss", default=True),
        committed_only=_choice(given, "isolationLevel", ("read_uncommitted", "read_committed"), "read_uncommitted")
        == "read_committed",
        hadoop=HadoopSettings.of(options),
    )
    _check_fits_view(read, given)
    _check_range(read, given)
    return read


def _known(options: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    by_lower = {name.lower(): name for name in names}
    given = {}
    if any(name.lower() in _OF_A_TABLE or name.lower().startswith("option.") for name in options):
        raise ConfigError("a log cannot be a table of the catalog; use CREATE TEMPORARY VIEW ... USING offsetlog")
    for name, value in options.items():
        known = by_lower.get(name.lower())
        if known is None:
            if name.lower() == "paths":
                raise ConfigError("more than one path was given; read each path by itself and unite the DataFrames")
            elsewhere = _elsewhere(name.lower(), names)
            meant = "" if elsewhere else _meant(name.lower(), by_lower)
            raise ConfigError(f"the option {name!r} is not known{elsewhere}; the options are {', '.join(names)}{meant}")
        if not isinstance(value, str):
            raise ConfigError(f"{known}={value!r}: the value must be a string")
        given[known] = value
    return given


def _meant(lower: str, by_lower: Mapping[str, str]) -> str:
    close = get_close_matches(lower, by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""


def _elsewhere(lower: str, names: tuple[str, ...]) -> str:
    """Returns the part of a message that says that an option is only for a stream, or only for a batch."""
    if names is BATCH_NAMES and lower in (name.lower() for name in STREAM_NAMES):
        return " for a batch, only for a stream"
    if names is STREAM_NAMES and lower in (name.lower() for name in BATCH_NAMES):
        return " for a stream, only for a batch"
    return ""


def _check_fits_view(read: ReadOptions, given: Mapping[str, str]) -> None:
    for name in ("startingOffset", "endingOffset"):
        if name in given and read.view not in RANGED:
            raise ConfigError(
                f"{name}={given[name]!r} is only for {_list(RANGED)}, not for view={read.view}; use the option 'at' "
                "for this view"
            )
    for name in ("topic", "partition"):
        if name in given and read.view not in KEYED:
            raise ConfigError(f"{name}={given[name]!r} is only for {_list(KEYED)}, not for view={read.view}")
    if "group" in given and read.view == "batches":
        raise ConfigError(f"group={given['group']!r}: view=batches reads only batch headers, which contain no groups")
    if "buckets" in given and read.view not in ("offsets", "groups", "history"):
        raise ConfigError(
            f"buckets={given['buckets']!r} is only for view=offsets|groups|history, not for view={read.view}"
        )


def _check_range(read: ReadOptions, given: Mapping[str, str]) -> None:
    bounds = (read.starting_offset, read.ending_offset)
    if None in bounds:
        return
    # A bound that is a single number applies to every partition.  -1 stands for all partitions that no bound names.
    for number in {-1, *(named for bound in bounds if isinstance(bound, dict) for named in bound)}:
        first, until = bound_of(bounds[0], number, 0), bound_of(bounds[1], number, OFFSET_MAX)
        if first > until:
            raise ConfigError(f"startingOffset={given['startingOffset']!r} is above {until}, the endingOffset")


def _list(views: frozenset[str]) -> str:
    return "view=" + "|".join(view for view in VIEWS if view in views)


# --------------------------------------------------------------------------------------------------------------- values


def parse_moment(text: str) -> Moment | None:
    """Parses `at`: a moment as in a command, any number of milliseconds, or JSON.  Returns None for "now".

    Raises:
        ConfigError: the text has none of these forms.
    """
    if text.lstrip().startswith("{"):
        return Moment(offsets=tuple(_offsets_by_partition("at", text).items()))
    if _is_number_of_ms(text):
        return Moment(timestamp=_within("at", text, int(text), -(2**63), OFFSET_MAX))
    try:
        moment = moments.parse_moment(text, "at")
    except InvalidArgumentError as failure:
        raise ConfigError(f'{failure}, or {{"0": offset}} for each log partition') from None
    if moment is None:
        return None
    if isinstance(moment, int):
        return Moment(offsets=((None, _within("at", text, moment, 0, OFFSET_MAX)),))
    return Moment(timestamp=(moment - _EPOCH) // timedelta(milliseconds=1))


def _is_number_of_ms(text: str) -> bool:
    # -5 is a time before 1970, but -0 means now, as in every other place.
    return re.fullmatch(_INTEGER, text) is not None and text.strip() != "-0"


def fixed_moment(text: str | None) -> str | None:
    """Returns a value of `at` that means the same moment whenever it is evaluated, so that a job can read it twice.

    Raises:
        ConfigError: raised by `parse_moment`.
    """
    if text is None or parse_moment(text) is None:
        return None
    if moments.is_relative(text) and not _is_number_of_ms(text):
        return moments.parse_time(text).isoformat(timespec="milliseconds")
    return text


def parse_partitions(text: str) -> frozenset[int]:
    """Parses a list of log partitions such as "0,3-5"; raises ConfigError."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,10})\s*(?:-\s*(\d{1,10})\s*)?", part)
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else -1
        if last < first or last > PARTITION_MAX or last - first > 1_000_000:
            raise ConfigError(
                f"partitions={text!r}: {part!r} is not a log partition or a range; write the list as 0,3-5"
            )
        found.update(range(first, last + 1))
    return frozenset(found)


def parse_size(name: str, text: str) -> int:
    """Parses a number of bytes such as "1048576", "64m" or "64 MiB"; raises ConfigError."""
    match = re.fullmatch(r"\s*(\d{1,18})\s*(?:([kmg])(?:i?b)?|b)?\s*", text.lower())
    size = int(match[1]) << {"k": 10, "m": 20, "g": 30}.get(match[2] or "", 0) if match else 0
    if not 1 <= size <= OFFSET_MAX:
        raise ConfigError(f"{name}={text!r} must be a number of bytes above 0, such as 67108864 or 64m")
    return size


def _offsets_by_partition(name: str, text: str, least: int = 0) -> dict[int, int]:
    try:
        given = json.loads(text)
        # The offset that a stream reports can be given back to it.
        if isinstance(given, dict) and {"__consumer_offsets"} <= set(given) <= {"__consumer_offsets", "begun"}:
            given = given["__consumer_offsets"]
        found = {int(partition): offset for partition, offset in given.items()}
    except (ValueError, AttributeError):
        raise ConfigError(
            f'{name}={text!r} must be JSON with a log offset for each log partition, such as {{"0": 123}}'
        ) from None
    for partition, offset in found.items():
        if type(offset) is not int or not least <= offset <= OFFSET_MAX or not 0 <= partition <= PARTITION_MAX:
            raise ConfigError(f"{name}={text!r}: {partition}: {offset!r} must be a log partition and a log offset")
    return found


def _bound(given: Mapping[str, str], name: str) -> Bound | None:
    text = given.get(name)
    if text is None:
        return None
    if text.lstrip().startswith("{"):
        return _offsets_by_partition(name, text)
    if not re.fullmatch(_INTEGER, text):
        raise ConfigError(
            f'{name}={text!r} must be a number, or JSON with a log offset for each log partition, such as {{"0": 123}}'
        )
    return _number(given, name, 0, 0, OFFSET_MAX)


def _starting_offsets(given: Mapping[str, str]) -> dict[int, int] | Literal["earliest", "latest"]:
    text = given.get("startingOffsets", "earliest")
    if text.lstrip().startswith("{"):
        return _offsets_by_partition("startingOffsets", text, EARLIEST)
    return "latest" if _choice(given, "startingOffsets", ("earliest", "latest"), "earliest") == "latest" else "earliest"


def _columns(given: Mapping[str, str]) -> tuple[str, ...] | None:
    if "columns" not in given:
        return None
    names = tuple(name.strip() for name in given["columns"].split(","))
    if not all(names) or len(set(names)) != len(names):
        raise ConfigError(
            f"columns={given['columns']!r} must be a list of columns, each named once, such as group,topic,offset"
        )
    return names


def _within(name: str, text: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ConfigError(f"{name}={text!r} must be from {least} to {most}")
    return value


def _number(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not re.fullmatch(_INTEGER, text):
        raise ConfigError(f"{name}={text!r} is not a number")
    return _within(name, text, int(text), least, most)


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    text = given.get(name, default)
    if text.lower() not in choices:
        raise ConfigError(f"{name}={text!r} is not known; it must be one of {', '.join(choices)}")
    return text.lower()


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    return _choice(given, name, ("true", "false"), str(default).lower()) == "true"


# -------------------------------------------------------------------------------------------------------- by partition


def bound_of(bound: Bound | None, number: int, default: int) -> int:
    """Returns the log offset that a bound has for a log partition."""
    if bound is None or (isinstance(bound, dict) and number not in bound):
        return default
    return bound[number] if isinstance(bound, dict) else bound


def moment_of(moment: Moment, number: int, partitions: int) -> int | None:
    """Returns the log offset that a moment has for a log partition; None if the moment has none for it.

    Raises:
        ConfigError: the moment is a single log offset, but there are several log partitions.
    """
    for named, offset in moment.offsets:
        if named is None and partitions != 1:
            raise ConfigError(
                f'at="offset:{offset}" needs a log with one log partition, but this log has {partitions}; give a log '
                'offset for each log partition, such as {"0": 123}'
            )
        if named is None or named == number:
            return offset
    return None


def parallelism(read: ReadOptions) -> int:
    """Returns the number of tasks that the cluster runs at once: its default parallelism, if that is known.

    Spark plans a Python source in a process without a SparkContext, so `offsetlog.spark.register` passes the default
    parallelism to the source.  If `register` was not called, the result is the number of cores of the machine that
    plans.
    """
    if read.default_parallelism:
        return read.default_parallelism
    context = SparkContext._active_spark_context
    return max(context.defaultParallelism, 1) if context is not None else os.cpu_count() or 1
