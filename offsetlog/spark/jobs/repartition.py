"""Copies a log directory to one with another number of partitions of the offsets topic, which Kafka itself cannot do.

Every record goes to the partition of its group, in the order of its old partition.  If a new partition gets records
from several old partitions, they are merged by time, so that the state at every past moment stays the same.
docs/spark.md describes which properties of the log are kept.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from offsetlog._native.codec import partition_for
from offsetlog._native.files import FileLock, FileSystem
from offsetlog.config import PARTITIONS_MAX, StoreConfig
from offsetlog.directory.completeness import LogEnd
from offsetlog.directory.history_floor import read_floor
from offsetlog.directory.log_directory import (
    CLEANER_POINTS,
    META_PROPERTIES,
    TOPIC,
    LogDirectory,
    Properties,
    random_topic_id,
)
from offsetlog.errors import (
    ConfigError,
    CorruptionError,
    InvalidArgumentError,
    PartitionCountError,
    TransactionError,
    UnsupportedVersionError,
)
from offsetlog.spark.jobs import effects
from offsetlog.spark.jobs.columns import survey_of, target_of
from offsetlog.spark.jobs.places import check_rewrite, local_path
from offsetlog.spark.jobs.session import read_view
from offsetlog.spark.jobs.tasks.partition_writing import (
    ENDED,
    FORMAT,
    MARKER,
    OPEN,
    PLAIN,
    REPORT,
    SCHEMA,
    PartitionFiles,
    Settings,
    close_partition,
)
from offsetlog.spark.jobs.tasks.surveying import Survey
from offsetlog.spark.location import AnyPath
from offsetlog.spark.scan.completeness import find_losses
from offsetlog.spark.scan.options import parse
from offsetlog.spark.scan.plan import open_source
from offsetlog.types import Digest
from offsetlog.verify.directory import DirectoryCheck
from offsetlog.verify.findings import Finding, Place

Keep = Literal["history", "state"]

#: offsetlog's own headers: the first stays with its record, the second states a log offset of the old log.
OWN_HEADER = "ol.transaction"
_FLUSHED_HEADER = "ol.flushed"

#: The file that marks a directory as being built, by which a leftover directory is recognized.  It is locked while a
#: job writes the directory.
BUILDING = "repartition.building"
#: The file that lists the missing and damaged parts of the log from which a directory was made.
INCOMPLETE = "repartition.incomplete"

#: The columns of the view "records" that are needed.
RECORD_COLUMNS = (
    *("log_partition", "log_offset", "timestamp", "kind", "key", "value", "group", "header_keys", "control", "outcome"),
    *("marker_offset", "base_offset", "timestamp_type", "transactional", "producer_id", "producer_epoch"),
    *("base_sequence", "batch_leader_epoch", "delete_horizon"),
)


@dataclass(frozen=True, slots=True)
class Repartition:
    """The result of a repartition.

    Attributes:
        target: the new directory.
        before: the number of partition directories that were read.
        after: the number of partition directories that were written.
        records: how many records were written, including the markers of transactions.
        batches: the number of batches that contain these records.
        markers: the number of markers of transactions.  A transaction has one in every new partition that has records
            of it.
        renamed: how many transactions got a new producer id, since they would overlap another transaction of the
            producer.
        digest: the digest of the state, which is the same in the source and in the target.
        incomplete: the missing and damaged parts of the source; always empty without `permissive`.
    """

    target: str
    before: int
    after: int
    records: int
    batches: int
    markers: int
    renamed: int
    digest: Digest
    incomplete: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------- the rows, and their order


def _ordered(records: DataFrame) -> DataFrame:
    # Sorts by the latest time up to each record: the prefix of the merged log up to a moment then consists of the
    # prefixes of the old logs up to that moment.  The frame is a range of values, so that a batch stays together.
    before = Window.partitionBy("log_partition").orderBy("base_offset").rangeBetween(Window.unboundedPreceding, 0)
    return records.withColumn("order_time", fn.max("timestamp").over(before))


def _shaped(rows: DataFrame) -> DataFrame:
    """Converts rows of the view "records", with `target` and `order_time`, to the columns that the writer needs."""
    standing = (
        fn.when(fn.col("control").isNotNull(), MARKER)
        .when(~fn.col("transactional"), PLAIN)
        .when(fn.col("marker_offset").isNotNull(), ENDED)
        .otherwise(OPEN)
    )
    shaped = {
        "own": fn.array_contains(fn.coalesce("header_keys", fn.array().cast("array<string>")), OWN_HEADER),
        "standing": standing,
        "log_append_time": fn.col("timestamp_type") == "LogAppendTime",
        "leader_epoch": fn.col("batch_leader_epoch"),
        "delete_horizon": fn.coalesce("delete_horizon", fn.lit(-1)),
    }
    columns = []
    for each in SCHEMA:
        column = shaped.get(each.name, fn.col(each.name))
        kind = {"int32": "int", "int64": "bigint", "binary": "binary"}[str(each.type)]
        columns.append(column.cast(kind).alias(each.name))
    return rows.select(*columns, "order_time")


def history_rows(records: DataFrame, partitions: int) -> DataFrame:
    """Returns every record of the view "records" with its new partition, `target`.

    The marker of a transaction goes to every new partition that has records of the transaction.  A record of an unknown
    kind has no known group.  The number of its new partition is that of its old partition modulo the new number of
    partitions.
    """
    ordered = _ordered(records.select(*RECORD_COLUMNS))
    elsewhere = fn.col("log_partition") % partitions
    data = ordered.where("control is null").withColumn(
        "target", fn.coalesce(target_of(fn.col("group"), partitions), elsewhere)
    )
    ended = (
        data.where("transactional and marker_offset is not null")
        .select("log_partition", fn.col("marker_offset").alias("log_offset"), "target")
        .distinct()
    )
    markers = ordered.where("control is not null").join(ended, ["log_partition", "log_offset"])
    return _shaped(data.unionByName(markers.select(*data.columns)))


def state_rows(records: DataFrame, offsets: DataFrame, commits: DataFrame, partitions: int) -> DataFrame:
    """Returns the records of the present state: committed and pending positions, groups, and records of unknown kinds.

    The records of committed positions are written outside of transactions.  The arguments `records`, `offsets` and
    `commits` are the views with these names.
    """
    place = ["log_partition", "log_offset"]
    committed = offsets.select(*place).withColumn("counts", fn.lit("committed"))
    held = effects.pending(commits).select(*place).withColumn("counts", fn.lit("held"))
    groups = effects.group_records(records.select("group", "kind", "key", "value", *place)).select(*place)
    unknown = records.where("kind in ('unknown', 'undecodable')").select(*place)
    other = groups.unionByName(unknown).withColumn("counts", fn.lit("other"))
    counting = committed.unionByName(held).unionByName(other)
    live = _ordered(records.select(*RECORD_COLUMNS)).where("control is null").join(counting, place)
    plain = fn.col("counts") != "held"
    values: dict[str, Any] = {"transactional": False, "producer_id": -1, "producer_epoch": -1, "base_sequence": 0}
    for name, value in values.items():
        live = live.withColumn(name, fn.when(plain, fn.lit(value)).otherwise(fn.col(name)))
    target = fn.coalesce(target_of(fn.col("group"), partitions), fn.col("log_partition") % partitions)
    return _shaped(live.withColumn("target", target))


def sorted_rows(rows: DataFrame, partitions: int) -> DataFrame:
    """Distributes the rows among tasks, so that one task gets all rows of a new partition, in order."""
    by_id = getattr(rows, "repartitionById", None)
    spread = by_id(partitions, fn.col("target")) if by_id else rows.repartition(partitions, "target")
    ordered: DataFrame = spread.sortWithinPartitions("target", "order_time", "log_partition", "log_offset")
    return ordered.drop("order_time")


# ------------------------------------------------------------------------------------------------ what cannot be


def survey(spark: SparkSession, directory: LogDirectory, numbers: Iterable[int]) -> tuple[list[Survey], list[Finding]]:
    """Returns the engine's survey of each log partition, and the findings of the checks of the witnesses.

    One task makes the survey of a log partition.

    Args:
        spark: the session.
        directory: the log directory, on a file system that driver and executors share.
        numbers: the numbers of the partitions.
    """
    findings: list[Finding] = []
    # The checkpoints are read before the logs: a running writer may advance them later, for records written later.
    beside = DirectoryCheck(directory.path, directory.fs, findings.append)
    rows = [(number,) for number in sorted(numbers)]
    if not rows:
        _add_losses(directory, findings)
        return [], findings
    tasks = spark.createDataFrame(rows, "number int").repartition(min(len(rows), 1000))
    surveys = tasks.select(survey_of(str(directory.path), fn.col("number")).alias("survey")).collect()
    found = sorted((Survey.from_json(row.survey) for row in surveys), key=lambda each: each.number)
    beside.check_checkpoints({each.number: LogEnd(each.end, each.has_tail) for each in found})
    _add_losses(directory, findings)
    return found, findings


def _add_losses(directory: LogDirectory, findings: list[Finding]) -> None:
    """Adds the losses that `find_losses` returns, except for log partitions of which the checkpoints show a loss."""
    known = {each.log_partition for each in findings if each.severity == "problem"}
    read = parse({"path": str(directory.path), "view": "records"})
    for loss in find_losses(open_source(read), read):
        if loss.log_partition not in known:
            Place(findings.append, loss.log_partition).missing(loss)


def check_surveys(
    surveys: Iterable[Survey], partitions: int, *, permissive: bool = False
) -> dict[int, list[int]]:
    """Returns the producer ids of the open transactions, each with the old partitions where it has an open transaction.

    Raises:
        CorruptionError: a log is damaged, and `permissive` is False.
        TransactionError: open transactions of one producer with different epochs would be merged in one new partition.
    """
    holders: dict[int, list[int]] = {}
    epochs: dict[tuple[int, int], tuple[int, int]] = {}
    for each in surveys:
        if each.damages and not permissive:
            raise CorruptionError(
                f"log partition {each.number} is damaged: {each.damages[0]}; nothing was written; repair the log "
                "partition, or use --permissive to continue without the damaged parts"
            )
        for producer_id, epoch, groups in each.open:
            holders.setdefault(producer_id, []).append(each.number)
            for target in {partition_for(group, partitions) for group in groups}:
                other, other_epoch = epochs.setdefault((target, producer_id), (each.number, epoch))
                if other_epoch != epoch:
                    raise TransactionError(
                        f"producer {producer_id} has two open transactions, with epoch {other_epoch} in log partition "
                        f"{other} and with epoch {epoch} in log partition {each.number}; the copy would merge them in "
                        f"log partition {target}. End both transactions first, through their coordinator or with "
                        "offsetlog abort"
                    )
    return holders


def check_ends(findings: Iterable[Finding]) -> None:
    """Raises CorruptionError if a witness shows a loss, for example the missing end of a log in an incomplete copy."""
    for each in findings:
        if each.severity == "problem":
            place = "" if each.log_partition is None else f"log partition {each.log_partition}: "
            raise CorruptionError(f"{place}{each.reason}; nothing was written", path=each.path)


def check_records(records: DataFrame) -> None:
    """Refuses records that a repartition would lose or put into a wrong partition.

    Raises:
        PartitionCountError: a group has records in two log partitions.  Only one of these can be the right one.
        UnsupportedVersionError: a record has a header that neither offsetlog nor a broker writes.
    """
    known = fn.array(fn.lit(OWN_HEADER), fn.lit(_FLUSHED_HEADER))
    foreign = fn.size(fn.array_except(fn.coalesce("header_keys", known), known)) > 0
    found = (
        records.select("group", "log_partition", "log_offset", foreign.alias("foreign"))
        .groupBy("group")
        .agg(
            fn.min("log_partition").alias("first"),
            fn.max("log_partition").alias("last"),
            fn.min(fn.when(fn.col("foreign"), fn.struct("log_partition", "log_offset"))).alias("foreign"),
        )
        .where("foreign is not null or (group is not null and first <> last)")
        .limit(1)
        .collect()
    )
    for row in found:
        if row.foreign is not None:
            raise UnsupportedVersionError(
                f"a record of log partition {row.foreign.log_partition} has a header that neither offsetlog nor a "
                "broker writes; the copy would not have this header",
                log_offset=row.foreign.log_offset,
            )
        raise PartitionCountError(
            f"the group {row.group!r} has records in log partitions {row['first']} and {row['last']}, but a group "
            "belongs to one: the number of partitions was changed while the log was written"
        )


def floors_of(directory: LogDirectory, surveys: Iterable[Survey]) -> dict[int, int]:
    """Returns for each log partition the log offset below which records were cleaned away; 0 if none were."""
    checkpoints = directory.read_checkpoint(CLEANER_POINTS)
    floors = {}
    for each in surveys:
        noted = read_floor(directory.fs, directory.partition_path(each.number))
        known = max(noted.end, checkpoints.get((TOPIC, each.number), 0), each.last_segment)
        floors[each.number] = min(known, each.end) if each.gaps else 0
    return floors


# ------------------------------------------------------------------------------------------------ the job


def check(source: AnyPath, target: AnyPath, partitions: int, segment_bytes: int | None = None) -> LogDirectory:
    """Checks the arguments of `run` without starting Spark, and returns the source.  Raises the errors of `run`."""
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidArgumentError(f"partitions must be from 1 to {PARTITIONS_MAX}, not {partitions}")
    _segment_bytes(segment_bytes)
    return check_rewrite(source, target)


def _segment_bytes(given: int | None) -> int:
    return (StoreConfig() if given is None else StoreConfig(segment_bytes=given)).segment_bytes


def run(
    spark: SparkSession,
    source: AnyPath,
    target: AnyPath,
    partitions: int,
    *,
    keep: Keep = "history",
    segment_bytes: int | None = None,
    permissive: bool = False,
) -> Repartition:
    """Copies the directory `source` to `target` with another number of partitions; `source` is only read.

    When the call returns, `target` is complete.  If the call fails, there is no `target`.  Another process may write to
    `source` meanwhile, but `target` does not contain these later records.

    Args:
        spark: the session.
        source: a log directory, of offsetlog or of a broker, on a file system that driver and executors share.
        target: the new directory, which must not exist, on a file system that driver and executors share.
        partitions: the number of partitions of `target`.
        keep: "history" keeps every record.  "state" keeps only the records of the present state, as a complete clean
            does.
        segment_bytes: the largest size of a new segment, in bytes; 100 MiB by default.
        permissive: whether to continue if a part of the source is missing or damaged.  The file INCOMPLETE of the
            target then lists these parts.

    Raises:
        ConfigError: `target` exists, or a segment cannot have this size.
        LockedError: another run is building the same target.
        CorruptionError: the source is damaged, or parts of it are missing, and `permissive` is False.
        CorruptionError: the state that was written differs from the state that was read.
        TransactionError, PartitionCountError, UnsupportedVersionError: raised by `check_surveys` and `check_records`.
        InvalidArgumentError: `partitions` is out of range.
        InvalidArgumentError, MissingFileError, StorageError: raised by `places.check_rewrite`.
    """
    old = check(source, target, partitions, segment_bytes)
    new = local_path(target, "target")
    segment_bytes = _segment_bytes(segment_bytes)
    building, lock = _begin(new)
    try:
        found, findings = survey(spark, old, old.partition_numbers())
        incomplete = _incomplete(found, findings) if permissive else ()
        if not permissive:
            check_ends(findings)
        held_open = check_surveys(found, partitions, permissive=permissive)
        topic_id = old.known_topic_id() or random_topic_id()
        settings = Settings(
            str(building), segment_bytes, topic_id.hex(), floors_of(old, found), held_open, keep == "state"
        )
        ends = {str(each.number): each.end for each in found}
        _write(spark, old, ends, partitions, settings, permissive=permissive)
        written = json.loads((building / REPORT).read_text())
        digest = _proved(found, written, building)
        if incomplete:
            (building / INCOMPLETE).write_text("\n".join([*incomplete, ""]), encoding="utf-8")
        _complete(old, LogDirectory(building, FileSystem()), written, partitions, topic_id, segment_bytes)
        _publish(building, new)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    finally:
        lock.close()
    sums = {name: sum(each[name] for each in written) for name in ("records", "batches", "markers", "renamed")}
    return Repartition(str(new), len(found), partitions, **sums, digest=digest, incomplete=incomplete)


def _incomplete(surveys: Iterable[Survey], findings: Iterable[Finding]) -> tuple[str, ...]:
    damages = [f"log partition {each.number}: {damage}" for each in surveys for damage in each.damages]
    problems = [
        f"{'' if each.log_partition is None else f'log partition {each.log_partition}: '}{each.reason} ({each.path})"
        for each in findings
        if each.severity == "problem"
    ]
    return (*damages, *problems)


def _begin(target: Path) -> tuple[Path, FileLock]:
    building = target.with_name(f"{target.name}.partial")
    if building.exists() and not (building / BUILDING).exists():
        raise ConfigError(
            "a file or directory of this name exists that no repartition made; remove it, or choose another target",
            path=building,
        )
    building.mkdir(parents=True, exist_ok=True)
    lock = FileSystem().lock(building / BUILDING)
    for left in building.iterdir():
        if left.is_dir():
            shutil.rmtree(left)
        elif left.name != BUILDING:
            left.unlink()
    return building, lock


def _write(
    spark: SparkSession,
    directory: LogDirectory,
    ends: Mapping[str, int],
    partitions: int,
    settings: Settings,
    *,
    permissive: bool,
) -> None:
    def view(name: str) -> DataFrame:
        # The read is limited by a moment, and not by a range of log offsets.  A transaction that ends meanwhile
        # therefore counts as open, as in the survey.
        given = {"partitions": ",".join(ends), "at": json.dumps(ends)}
        return read_view(spark, directory.path, name, permissive=permissive, **given)

    if not any(ends.values()):
        (Path(settings.folder) / REPORT).write_text("[]")
        return
    records = view("records")
    check_records(records)
    if settings.cleaned:
        rows = state_rows(records, view("offsets"), view("commits"), partitions)
    else:
        rows = history_rows(records, partitions)
    spark.dataSource.register(PartitionFiles)
    writer = sorted_rows(rows, partitions).write.format(FORMAT).mode("append")
    writer.option("settings", settings.to_json()).save()


def _digest(sums: Iterable[tuple[str, str, str]]) -> Digest:
    positions, group_records, pending = 0, 0, 0
    for first, second, third in sums:
        positions += int(first, 16)
        group_records += int(second, 16)
        pending += int(third, 16)
    modulus = 1 << 128
    return Digest(positions % modulus, group_records % modulus, pending % modulus)


def _proved(surveys: Iterable[Survey], written: Iterable[Mapping[str, Any]], building: Path) -> Digest:
    before = _digest(each.digest for each in surveys)
    after = _digest((each["positions"], each["group_records"], each["pending"]) for each in written)
    if before != after:
        raise CorruptionError(
            f"the digest of the written state ({after}) differs from that of the state that was read ({before}); the "
            "written files were removed",
            path=building,
        )
    return before


def _complete(
    old: LogDirectory,
    building: LogDirectory,
    written: list[dict[str, Any]],
    partitions: int,
    topic_id: bytes,
    segment_bytes: int,
) -> None:
    ends = {each["number"]: each["end"] for each in written}
    for number in range(partitions):
        if number not in ends:
            ends[number] = close_partition(building.partition_path(number), number, segment_bytes, topic_id=topic_id)
        building.fs.flush_directory(building.partition_path(number))
    properties = Properties(partitions, topic_id, frozenset(ends))
    building.adopt_checkpoints({}, frozenset(ends))
    building.write_properties(properties)
    building.record_properties(properties)
    cluster = old.path / META_PROPERTIES
    if old.fs.exists(cluster):
        # Lets the new directory replace the old one in its cluster.
        building.fs.replace_file(building.path / META_PROPERTIES, old.fs.read_file(cluster))
    floors = {each["number"]: each["floor"] for each in written if each["floor"] > 0}
    if floors:
        building.write_checkpoint(CLEANER_POINTS, floors)
    building.finish(ends, sound=True)


def _publish(building: Path, target: Path) -> None:
    fs = FileSystem()
    (building / REPORT).unlink()
    fs.flush_directory(building)
    building.rename(target)
    fs.flush_directory(target.parent)
    # The file is removed only after the rename.  If a run is killed before the rename, the next run recognizes the
    # directory as a leftover by this file.
    (target / BUILDING).unlink()
    fs.flush_directory(target)
