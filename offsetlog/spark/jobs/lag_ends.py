"""The ends of the logs that groups read: from a file of samples, from a cluster, or from brokers' log directories.

Each function returns rows of topic, partition, log_start_offset, log_end_offset, timestamp.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from offsetlog._native.files import FileSystem, parse_directory_name, parse_offset_checkpoint
from offsetlog._native.scan import next_batch, skim
from offsetlog.directory.completeness import LogEnd, beyond_ends
from offsetlog.directory.log_directory import (
    CLEAN_MARKER,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    TOPIC,
    Checkpoint,
)
from offsetlog.directory.segments import segment_base, segments_of
from offsetlog.errors import (
    CorruptionError,
    DataLossError,
    InvalidArgumentError,
    MissingFileError,
    OffsetLogError,
    StorageError,
    TornTailError,
)
from offsetlog.missing_library import missing_library
from offsetlog.spark.jobs.places import local_path

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("log_start_offset", pa.int64()),
        ("log_end_offset", pa.int64()),
        ("timestamp", pa.int64()),
    ]
)
_NEEDED = ["topic", "partition", "log_end_offset"]
_log = logging.getLogger(__name__)
#: How often a directory is read if something seems to be lost.
LOOKS = 3


def _frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA))


# ------------------------------------------------------------------------------------------------------------- samples


def of_samples(spark: SparkSession, path: str) -> DataFrame:
    """Returns samples from files: .csv (with a header), .json (one object per line), or otherwise Parquet.

    The ending of the path decides the format.  `timestamp` may be a number (ms since 1970) or a timestamp.  The columns
    `timestamp` and `log_start_offset` are optional.

    Raises:
        InvalidArgumentError: the column topic, partition or log_end_offset is missing, or a partition or an offset is
            not a number.
    """
    lower = path.lower().rstrip("/")
    # Values are read as text, so that the topic 007 does not become a number.  A line that cannot be read is an error;
    # it is not skipped.
    if lower.endswith((".csv", ".csv.gz")):
        found = spark.read.csv(path, header=True, mode="FAILFAST")
    elif lower.endswith((".json", ".jsonl", ".json.gz", ".jsonl.gz")):
        found = spark.read.json(path, primitivesAsString=True, mode="FAILFAST")
    else:
        found = spark.read.parquet(path)
    missing = [name for name in _NEEDED if name not in found.columns]
    if missing:
        raise InvalidArgumentError(f"the samples of log end offsets lack the columns {', '.join(missing)}", path=path)
    for name in ("log_start_offset", "timestamp"):
        if name not in found.columns:
            found = found.withColumn(name, fn.lit(None).cast("bigint"))
    for name in SCHEMA.names[1:]:
        _check_numbers(found, name, path)
    found = found.withColumn("timestamp", _in_ms(dict(found.dtypes)["timestamp"]))
    types = {"topic": "string", "partition": "int"}
    return found.select(*(fn.col(name).cast(types.get(name, "bigint")).alias(name) for name in SCHEMA.names))


def _check_numbers(found: DataFrame, name: str, path: str) -> None:
    """Raises InvalidArgumentError that shows the row if a text in a column is not a number.  Ignores `timestamp`."""
    if dict(found.dtypes)[name] != "string" or name == "timestamp":
        return
    kind = "int" if name == "partition" else "bigint"
    bad = found.where(fn.col(name).isNotNull() & fn.col(name).try_cast(kind).isNull()).limit(1).collect()
    for row in bad:
        texts = ", ".join(f"{key} {value!r}" for key, value in row.asDict().items() if value is not None)
        raise InvalidArgumentError(f"{name} {row[name]!r} is not a number; the row contains {texts}", path=path)


def _in_ms(kind: str) -> Column:
    at = fn.col("timestamp")
    of_time = fn.unix_millis(at.cast("timestamp"))
    if kind == "string":
        return fn.when(at.rlike(r"^\s*-?\d+\s*$"), at.cast("bigint")).otherwise(of_time)
    return of_time if kind.startswith(("timestamp", "date")) else at.cast("bigint")


# -------------------------------------------------------------------------------------------------------------- brokers


def of_broker(
    spark: SparkSession,
    keys: Iterable[tuple[str, int]],
    config: Mapping[str, str],
    *,
    timeout: float = 30.0,
) -> DataFrame:
    """Asks a cluster for the present ends of topic partitions.  Leaves out partitions that the cluster does not know.

    Args:
        spark: the session.
        keys: topics and partitions.
        config: the settings of confluent-kafka's client, with bootstrap.servers.
        timeout: how long the cluster may take for each of the two requests, in seconds.

    Raises:
        ConfigError: confluent-kafka is not installed.
        StorageError: the cluster does not answer.
    """
    try:
        from confluent_kafka import KafkaException, TopicPartition, admin
    except ModuleNotFoundError:
        raise missing_library("a request to a Kafka cluster", "confluent_kafka") from None
    # The package declares only some of its types.
    kafka: Any = admin
    client = kafka.AdminClient({"log_level": 0, **config})
    asked = sorted(set(keys))

    def answers(spec: Any) -> dict[tuple[str, int], int]:
        found = {}
        requests = {TopicPartition(topic, partition): spec for topic, partition in asked}
        for key, future in client.list_offsets(requests, request_timeout=timeout).items():
            try:
                found[key.topic, key.partition] = future.result().offset
            except KafkaException as failure:
                error = failure.args[0]
                if error.name() not in (
                    "UNKNOWN_TOPIC_OR_PART",
                    "UNKNOWN_TOPIC_OR_PARTITION",
                    "_UNKNOWN_PARTITION",
                    "_NOENT",
                ):
                    raise StorageError(
                        f"the cluster at {config.get('bootstrap.servers')} did not return the log end "
                        f"offsets: {error.str()}; check that a broker listens there"
                    ) from None
        return found

    ends = answers(kafka.OffsetSpec.latest()) if asked else {}
    starts = answers(kafka.OffsetSpec.earliest()) if asked else {}
    now = time.time_ns() // 1_000_000
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "log_start_offset": starts.get((topic, partition)),
            "log_end_offset": end,
            "timestamp": now,
        }
        for (topic, partition), end in ends.items()
    ]
    return _frame(spark, rows)


# ---------------------------------------------------------------------------------------------------------- directories


def _end_of(segment: Path) -> tuple[LogEnd, OffsetLogError | None]:
    """Returns the end of a log, read from its newest segment, and the first damage that is not an unfinished tail."""
    position, offset, damage = 0, segment_base(segment), None
    while True:
        found = skim(segment, position=position, next_offset=offset)
        if found.damage is not None:
            # A writer may have filled these bytes after they were read.
            offset = max(offset, found.next_offset)
            found = skim(segment, position=found.position, next_offset=offset)
        position, offset = found.position, max(offset, found.next_offset)
        if found.damage is None:
            return LogEnd(offset), damage
        follows = next_batch(segment, position, offset)
        if follows is None:
            is_tail = isinstance(found.damage, TornTailError) or not any(_length_at(segment, position))
            return LogEnd(offset, has_tail=True), damage if is_tail else damage or found.damage
        damage, position = damage or found.damage, follows


def _length_at(segment: Path, position: int) -> bytes:
    """Returns the length field of the batch at a position, as bytes.  A writer fills in this field last."""
    with segment.open("rb") as file:
        file.seek(position + 8)
        return file.read(4)


class _Directory:
    """A log directory of a broker.  Its checkpoints are read when the object is made, before the logs are listed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_clean = (path / CLEAN_MARKER).exists()
        self._fs = FileSystem()
        self._starts = self._checkpoint(LOG_STARTS)
        self._reached = {name: self._checkpoint(name) for name in (RECOVERY_POINTS, HIGH_WATERMARKS)}

    def _checkpoint(self, name: str) -> Checkpoint:
        try:
            return parse_offset_checkpoint(self._fs.read_file(self.path / name))
        except (MissingFileError, CorruptionError):
            return {}

    def logs(self) -> list[tuple[str, int, Path]]:
        """Returns topic, partition and directory of each log."""
        found = []
        for name in sorted(self._fs.list(self.path)):
            parsed = parse_directory_name(name)
            if parsed is not None and parsed[2] == 0 and (self.path / name).is_dir():
                found.append((parsed[0], parsed[1], self.path / name))
        return found

    def ends(self, topic: str, partition: int, directory: Path) -> tuple[tuple[int, int] | None, OffsetLogError | None]:
        """Returns a log's first offset and end (None without a segment), and an error if the end may be wrong."""
        segments = segments_of(directory)
        if not segments:
            return None, None
        end, damage = _end_of(segments[-1])
        start = max(segment_base(segments[0]), self._starts.get((topic, partition), 0))
        for each in beyond_ends(self._reached, {partition: end}, is_clean=self.is_clean, topic=topic):
            if damage is None and not each.is_of_crash:
                damage = DataLossError(
                    f"the log of {topic}-{partition} ends at offset {end.offset}, but {each.name} says "
                    f"that it reaches offset {each.offset}",
                    path=directory,
                    lost_from=end.offset,
                    lost_below=each.offset,
                )
        return (start, end.offset), damage


def _ends_in(path: Path) -> list[tuple[str, int, int, int, OffsetLogError | None]]:
    """Returns for each log its topic, partition, first offset and end, and an error if the end may be wrong."""
    found: list[tuple[str, int, int, int, OffsetLogError | None]] = []
    for _ in range(LOOKS):
        # A running broker may change a log after its checkpoint was read; only a real loss is seen at every attempt.
        directory, found = _Directory(path), []
        for topic, partition, place in directory.logs():
            ends, damage = directory.ends(topic, partition, place)
            if ends is not None:
                found.append((topic, partition, *ends, damage))
        if not any(damage is not None for *_, damage in found):
            break
    return found


def of_directories(
    spark: SparkSession,
    directories: Iterable[str | os.PathLike[str]],
    *,
    permissive: bool = False,
    problems: list[str] | None = None,
) -> DataFrame:
    """Returns the ends of all partitions in brokers' log directories, from the batch headers of the newest segments.

    The driver reads the directories, so they must be on its machine.  Brokers may write to them meanwhile.  If several
    directories hold the same partition, as those of replicas do, the result has a row for each, and `lag` uses the
    highest end.

    Args:
        spark: the session.
        directories: log directories of brokers, on this machine.
        permissive: whether to accept the end of a log that is damaged or that ends below a checkpoint.
        problems: a list to which a line is added for each log that was accepted in this way.

    Raises:
        MissingFileError: a directory does not exist.
        DataLossError: a log ends below its recovery point or high watermark, and `permissive` is False.
        StorageError, CorruptionError: a log cannot be read; or it is damaged, and `permissive` is False.
    """
    # All ends get the same time, so that `lag` uses the highest end of the replicas, and not the end that was read
    # last.
    rows, now = [], time.time_ns() // 1_000_000
    for directory in (local_path(each, "log directory of a broker") for each in directories):
        if not directory.is_dir():
            raise MissingFileError("the directory does not exist", path=directory)
        for *row, damage in _ends_in(directory):
            if damage is not None and not permissive:
                raise damage
            if damage is not None and problems is not None:
                problems.append(str(damage))
            rows.append(dict(zip(SCHEMA.names, [*row, now], strict=True)))
    if all(row["topic"] == TOPIC for row in rows):
        _log.warning(
            "the given directories hold no topic but __consumer_offsets, so the log end of every other topic is "
            "unknown; give the log.dirs of your brokers"
        )
    return _frame(spark, rows)
