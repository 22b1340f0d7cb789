"""Where the logs that groups read end: from a file of samples, from a broker, or from the logs' own directories.

Each way gives rows of topic, partition, log_start_offset, log_end_offset, timestamp.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from offsetlog._native.files import FileSystem, parse_directory_name, parse_offset_checkpoint
from offsetlog._native.scan import skim
from offsetlog.directory.segments import segment_base, segments_of
from offsetlog.errors import (
    ConfigError,
    CorruptionError,
    InvalidArgumentError,
    MissingFileError,
    StorageError,
)
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
_LOG_STARTS = "log-start-offset-checkpoint"


def _frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA))


# ------------------------------------------------------------------------------------------------------------- samples


def of_samples(spark: SparkSession, path: str) -> DataFrame:
    """Returns samples from Parquet, or from .csv (with a header) or .json (one object a line) by the path's ending.

    `timestamp` may be a number, ms since 1970, or a timestamp; it and log_start_offset may be missing.

    Raises:
        InvalidArgumentError: topic, partition or log_end_offset are missing.
    """
    lower = path.lower().rstrip("/")
    # Values are read as text, or the topic 007 would be a number; a line that cannot be read is no sample left out.
    if lower.endswith((".csv", ".csv.gz")):
        found = spark.read.csv(path, header=True, mode="FAILFAST")
    elif lower.endswith((".json", ".jsonl", ".json.gz", ".jsonl.gz")):
        found = spark.read.json(path, primitivesAsString=True, mode="FAILFAST")
    else:
        found = spark.read.parquet(path)
    missing = [name for name in _NEEDED if name not in found.columns]
    if missing:
        raise InvalidArgumentError(f"the ends of logs lack {', '.join(missing)}", path=path)
    for name in ("log_start_offset", "timestamp"):
        if name not in found.columns:
            found = found.withColumn(name, fn.lit(None).cast("bigint"))
    found = found.withColumn("timestamp", _in_ms(dict(found.dtypes)["timestamp"]))
    types = {"topic": "string", "partition": "int"}
    return found.select(*(fn.col(name).cast(types.get(name, "bigint")).alias(name) for name in SCHEMA.names))


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
    """Returns the ends of some topic partitions as a cluster tells them now; those that it does not know are left out.

    Args:
        spark: the session.
        keys: topic and partition.
        config: of confluent-kafka's clients, with bootstrap.servers.
        timeout: in seconds, for each of the two requests.

    Raises:
        ConfigError: confluent-kafka is not installed.
        StorageError: the cluster does not answer.
    """
    try:
        from confluent_kafka import KafkaException, TopicPartition, admin
    except ModuleNotFoundError:
        raise ConfigError("a cluster is asked through confluent-kafka, which is not installed") from None
    # Its types are told by halves.
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
                told = failure.args[0]
                if told.name() not in (
                    "UNKNOWN_TOPIC_OR_PART",
                    "UNKNOWN_TOPIC_OR_PARTITION",
                    "_UNKNOWN_PARTITION",
                    "_NOENT",
                ):
                    raise StorageError(f"the cluster does not tell the end of a log: {told.str()}") from None
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


def _ends_of(segments: tuple[Path, ...]) -> tuple[int, int]:
    """Returns the first offset of a partition's oldest segment, and the end of its newest."""
    first, last = segment_base(segments[0]), segment_base(segments[-1])
    return first, max(last, skim(segments[-1]).next_offset)


def of_directories(spark: SparkSession, directories: Iterable[str | os.PathLike[str]]) -> DataFrame:
    """Returns the ends of all partitions that lie in brokers' log directories, from the headers of the newest segments.

    Read on the driver, which must see the directories; a broker may be writing to them.  Where several directories hold
    a partition, as those of replicas, the highest end counts for `lag`.

    Raises:
        MissingFileError: a directory is not there.
        StorageError, CorruptionError: it cannot be read.
    """
    # One time for all of them: of replicas the highest end counts, and not that of the directory seen last.
    fs, rows, now = FileSystem(), [], time.time_ns() // 1_000_000
    for directory in (local_path(each, "log directory of a broker") for each in directories):
        if not directory.is_dir():
            raise MissingFileError("there is no such directory", path=directory)
        try:
            starts = parse_offset_checkpoint(fs.read_file(directory / _LOG_STARTS))
        except (MissingFileError, CorruptionError):
            starts = {}
        for name in sorted(fs.list(directory)):
            parsed = parse_directory_name(name)
            if parsed is None or parsed[2] != 0 or not (directory / name).is_dir():
                continue
            segments = segments_of(directory / name)
            if not segments:
                continue
            first, end = _ends_of(segments)
            start = max(first, starts.get((parsed[0], parsed[1]), 0))
            row = (parsed[0], parsed[1], start, end, now)
            rows.append(dict(zip(SCHEMA.names, row, strict=True)))
    return _frame(spark, rows)
