"""Imports the offsets that consumers kept in ZooKeeper, or that a file lists, into a log directory.

The rules of the import are those of offsetlog/migration/rules.py.  This module expresses them for columns.  One table
of test cases tests both modules.
"""

from __future__ import annotations

import csv
import functools
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

import offsetlog
from offsetlog._native.files import FileSystem
from offsetlog.config import MaintenanceConfig
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.errors import InvalidArgumentError, OffsetLogError
from offsetlog.migration import rules
from offsetlog.migration.directory_place import losses_of, lost_partitions
from offsetlog.spark.jobs.places import check_file, store_path
from offsetlog.spark.jobs.tasks.zookeeper import FORMAT, ZooKeeperOffsets
from offsetlog.zookeeper.consumer_offsets import CONSUMERS

#: The columns that a dump may have: names, or a node's path and value as ZooKeeper's own tools print them.
DUMP_NAMES = ("group", "topic", "partition", "offset", "path", "value", "moment")
#: A heading has at least all columns of one of these.
_HEADINGS = (("group", "topic", "partition", "offset"), ("path", "value"))

#: A function that is called before positions are moved back.  It gets the number of rows by action, as in
#: `Migration.committed`, and rows that move back: group, topic, partition, current and offset.  If it raises, the
#: migration ends and nothing was written.
Agree = Callable[[dict[str, int], list[dict[str, str | int]]], None]


@dataclass(frozen=True, slots=True)
class Migration:
    """The result of a migration.  After a dry run, it is the plan of the migration.

    Attributes:
        committed: the number of committed rows by action: "new", "forward", and, with `overwrite`, "back".
        kept: the number of rows that were not committed, by reason.  "same": the directory has the same offset.
            "lower": the offset of the row is lower than that in the directory.  "lost": records of the group's log
            partition are missing, so nothing can be committed to it.
        refused: the number of refused rows.
        examples: some of the refused rows, each with group, topic, partition and offset as in the source, and with the
            reason.  Rows of a dump also have the file and the line.
        dry_run: whether nothing was written.
        incomplete: the missing and damaged parts of the directory; always empty without `permissive`.
        unknown: the groups that were given to `run` and have no row.
    """

    committed: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    examples: list[dict[str, str | int | None]] = field(default_factory=list)
    dry_run: bool = False
    incomplete: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def from_zookeeper(
    spark: SparkSession,
    hosts: str,
    *,
    root: str = "",
    groups: Sequence[str] | None = None,
    tasks: int = 4,
    in_flight: int = 64,
) -> DataFrame:
    """Returns the offsets in ZooKeeper as rows of text: group, topic, partition, offset, moment.

    Args:
        spark: the session.
        hosts: the servers, in the form of ZooKeeper's clients: "host:port,host:port".
        root: the root of the Kafka cluster in ZooKeeper, such as "/kafka"; "" for none.
        groups: the groups to read; None for all.
        tasks: the number of tasks; each reads through one connection.
        in_flight: the approximate number of requests that each task has in flight.
    """
    spark.dataSource.register(ZooKeeperOffsets)
    reader = spark.read.format(FORMAT).option("hosts", hosts).option("root", root)
    if groups is not None:
        reader = reader.option("groups", json.dumps(list(groups)))
    return reader.option("tasks", str(tasks)).option("inFlight", str(in_flight)).load()


def from_dump(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    """Returns the offsets in a dump, in the form of `from_zookeeper`, with two more columns, `file` and `line`.

    A dump is a file of JSON lines, or a CSV file with a heading.  A line has the fields group, topic, partition and
    offset; or it has the fields path and value, and path ends with "/consumers/GROUP/offsets/TOPIC/PARTITION".  Lines
    with another path are ignored, and so are other fields.  A file is a CSV file if its name ends in .csv (or in
    .csv.gz and the like).  In a CSV file, quotes within quotes are doubled.  The column `file` contains the name of the
    file as in a URI.

    Raises:
        InvalidArgumentError: the heading of a CSV file names none of the fields above, or names one more than once.
        MissingFileError: the file does not exist.
    """
    check_file(path)
    text = os.fspath(path)
    lines = _numbered(spark, text)
    rows = _of_csv(lines, text) if re.search(r"\.csv(\.\w+)?$", text) else _of_json(lines)
    pattern = f"{CONSUMERS}/([^/]+)/offsets/([^/]+)/([^/]+)$"

    def part(number: int) -> Column:
        return fn.regexp_extract("path", pattern, number)

    by_path = fn.col("path").isNotNull()
    named = {"group": part(1), "topic": part(2), "partition": part(3), "offset": fn.col("value")}
    columns = [fn.when(by_path, column).otherwise(fn.col(name)).alias(name) for name, column in named.items()]
    wanted = rows.where(~by_path | fn.col("path").rlike(pattern))
    return wanted.select(*columns, fn.expr("try_cast(moment as bigint)").alias("moment"), "file", "line")


def _numbered(spark: SparkSession, path: str) -> DataFrame:
    # A large file is read in blocks.  The number of a line is its number in its block, plus the number of lines in the
    # blocks before it.
    found = spark.read.text(path).select(
        fn.col("value").alias("text"),
        fn.col("_metadata.file_path").alias("address"),
        fn.col("_metadata.file_name").alias("file"),
        fn.col("_metadata.file_block_start").alias("block"),
        fn.monotonically_increasing_id().alias("place"),
    )
    above = Window.partitionBy("address").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    blocks = found.groupBy("address", "block").agg(fn.min("place").alias("first"), fn.count("*").alias("lines"))
    blocks = blocks.withColumn("above", fn.coalesce(fn.sum("lines").over(above), fn.lit(0)))
    line = fn.col("place") - fn.col("first") + fn.col("above") + 1
    return found.join(fn.broadcast(blocks), ["address", "block"]).select("text", "file", line.alias("line"))


def _of_json(lines: DataFrame) -> DataFrame:
    # A value that is not a string is taken as it is written.
    schema = ", ".join(f"{name} string" for name in DUMP_NAMES)
    rows = lines.where(fn.trim("text") != "").withColumn("row", fn.from_json("text", schema))
    return rows.select("row.*", "file", "line")


def _of_csv(lines: DataFrame, path: str) -> DataFrame:
    first = lines.where("line = 1").orderBy("file").first()
    heading = [] if first is None else next(csv.reader([first.text.removeprefix("\ufeff")]), [])
    names = [name.strip().lower() for name in heading]
    wanted = [name for name in DUMP_NAMES if name in names]
    is_complete = any(set(needed) <= set(wanted) for needed in _HEADINGS)
    if not is_complete or any(names.count(name) > 1 for name in wanted):
        raise InvalidArgumentError(
            f"the heading {','.join(heading)!r} must have the columns group, topic, partition and offset, or the "
            "columns path and value, each once",
            path=path,
        )
    schema = ", ".join(f"field{number} string" for number in range(len(names)))
    rows = lines.where((fn.col("line") > 1) & (fn.trim("text") != ""))
    rows = rows.withColumn("row", fn.from_csv("text", schema, {"escape": '"'}))
    fields = {name: fn.col(f"row.field{names.index(name)}") for name in wanted}
    none = fn.lit(None).cast("string")
    return rows.select(*[fields.get(name, none).alias(name) for name in DUMP_NAMES], "file", "line")


def checked(rows: DataFrame) -> DataFrame:
    """Adds the columns `number` (the partition), `committed` (the offset) and `reason` to rows of text.

    `reason` is null for a valid row; otherwise it says why the row is refused.  The rules are those of
    `rules.sort_rows`.  If a position appears in several rows with different offsets, all of these rows are refused.
    """
    names = ("group", "topic", "partition", "offset")
    reason = (
        fn.when(fn.coalesce(*names).isNull(), rules.NO_ROW)
        .when(fn.coalesce(fn.col("group"), fn.lit("")) == "", rules.NO_GROUP)
        .when(fn.coalesce(fn.col("topic"), fn.lit("")) == "", rules.NO_TOPIC)
        .when(fn.octet_length("group") > rules.NAME_BYTES_MAX, rules.GROUP_TOO_LONG)
        .when(fn.octet_length("topic") > rules.NAME_BYTES_MAX, rules.TOPIC_TOO_LONG)
        .when(fn.col("number").isNull(), rules.NO_PARTITION)
        .when(fn.col("committed").isNull(), rules.NO_OFFSET)
    )
    numbered = (
        rows.withColumn("number", _number("partition", rules.PARTITION_TEXT, "int"))
        .withColumn("committed", _number("offset", rules.OFFSET_TEXT, "bigint"))
        .withColumn("reason", reason)
    )
    same = Window.partitionBy("group", "topic", "number")
    # A row that is refused for another reason does not contradict other rows.
    sound = fn.when(fn.col("reason").isNull(), fn.col("committed"))
    twice = fn.col("reason").isNull() & (fn.min(sound).over(same) != fn.max(sound).over(same))
    return numbered.withColumn("reason", fn.when(twice, rules.CONTRADICTED).otherwise(fn.col("reason")))


def _number(name: str, form: str, kind: str) -> Column:
    # Java's $ also matches before a final line feed, which a cast would drop.
    return fn.when(fn.col(name).rlike(rf"\A(?:{form})\z"), fn.expr(f"try_cast({name} as {kind})"))


def compared(rows: DataFrame, offsets: DataFrame | None, *, overwrite: bool = False) -> DataFrame:
    """Returns one row for each valid position of `checked`, with the directory's offset and an `action`.

    The rules for the action are those of `rules.action_of`.

    Args:
        rows: the rows of `checked` whose `reason` is null.
        offsets: the view "offsets" of the directory; None for a new one.
        overwrite: whether positions may be moved back.
    """
    good = rows.select("group", "topic", fn.col("number").alias("partition"), fn.col("committed").alias("offset"))
    good = good.dropDuplicates(["group", "topic", "partition"])
    if offsets is None:
        return good.withColumn("current", fn.lit(None).cast("bigint")).withColumn("action", fn.lit(rules.NEW))
    now = offsets.select("group", "topic", "partition", fn.col("offset").alias("current"))
    action = (
        fn.when(fn.col("current").isNull(), rules.NEW)
        .when(fn.col("current") == fn.col("offset"), rules.SAME)
        .when(fn.col("current") < fn.col("offset"), rules.FORWARD)
        .otherwise(rules.BACK if overwrite else rules.LOWER)
    )
    return good.join(now, ["group", "topic", "partition"], "left").withColumn("action", action)


def marked_lost(chosen: DataFrame, lost_groups: Sequence[str]) -> DataFrame:
    """Sets the action of a row to "lost" if its group cannot be written because its log partition has losses.

    If a commit of several groups contained such a group, the whole commit would fail.
    """
    if not lost_groups:
        return chosen
    lost = chosen.sparkSession.createDataFrame([(group,) for group in lost_groups], "group string")
    marked = chosen.join(fn.broadcast(lost.withColumn("_lost", fn.lit(True))), "group", "left")
    is_lost = fn.col("_lost") & fn.col("action").isin(*rules.WRITTEN)
    return marked.withColumn("action", fn.when(is_lost, rules.LOST).otherwise(fn.col("action"))).drop("_lost")


#: The most rows that one task gets; with names of 100 bytes, these are about 15 MB.
_ROWS_OF_A_TASK = 65_536
#: The columns of a directory's positions from which the action for a row is decided.
_OFFSETS = pa.schema(
    [("group", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
)


def run(
    spark: SparkSession,
    rows: DataFrame,
    target: str | os.PathLike[str],
    *,
    partitions: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    examples: int = 20,
    agree: Agree | None = None,
    permissive: bool = False,
    lock_timeout: float = 0.0,
    groups: Sequence[str] = (),
) -> Migration:
    """Commits rows of `from_zookeeper` or `from_dump` into a log directory, each group completely or not at all.

    A position in the directory moves back only with `overwrite`.  The commit time of each position is the present time,
    so that no retention deletes it at once.  The job holds the lock of the directory while it compares and commits
    positions.

    Args:
        spark: the session.
        rows: the rows to commit.
        target: a log directory on this machine.  If it does not exist, it is created.
        partitions: the number of partitions of the offsets topic, for a directory that is new (4 by default) or that
            was written by Kafka.
        overwrite: whether positions may be moved back.
        dry_run: whether to only report the plan, without taking the lock or writing anything.
        examples: the largest number of refused rows to report, and of rows that move back to pass to `agree`.
        agree: a function that is called before positions are moved back, and raises if they must not be.  None moves
            them without asking.
        permissive: whether to continue if a part of the directory is missing.  Nothing is committed to a log partition
            with losses, since its lost positions would look like new ones.
        lock_timeout: how many seconds to wait for a process that has the directory open for writing.
        groups: the groups that were requested.  `unknown` of the result lists those without rows.

    Raises:
        DataLossError, PossibleLossError: a part of the directory is missing, and `permissive` is False.
        LockedError, PartitionCountError, StorageError, CorruptionError: raised by `offsetlog.open` or `commit_arrow`.
    """
    path = store_path(target)
    incomplete: tuple[str, ...] = ()
    known = checked(rows).cache()
    try:
        refused = known.where("reason is not null")
        places = [name for name in ("file", "line") if name in known.columns]
        shown = (*places, "group", "topic", "partition", "offset", "reason")
        shown_rows = [
            {name: unquote(row[name]) if name == "file" else row[name] for name in shown}
            for row in refused.orderBy(*places, "group", "topic", "partition", "offset").limit(examples).collect()
        ]
        count = refused.count()
        unknown = _without_rows(known, groups)
        good = known.where("reason is null")
        if dry_run:
            store = offsetlog.open(path, partitions, read_only=True) if _is_log(path) else None
        else:
            # The store is opened without maintenance, since the log must only be cleaned with the settings of its
            # owner.
            quiet = MaintenanceConfig(enabled=False)
            store = offsetlog.open(path, partitions, maintenance=quiet, lock_timeout=lock_timeout, create="anywhere")
        if store is None:
            committed, kept = _counted(compared(good, None))
        else:
            with store:
                losses = losses_of(store, permissive=permissive)
                incomplete = tuple(str(each) for each in losses)
                chosen = compared(good, _offsets_of(spark, store, good), overwrite=overwrite)
                chosen = marked_lost(chosen, _lost_groups(chosen, store, losses))
                committed, kept = _counted(chosen)
                if agree is not None and rules.BACK in committed and not dry_run:
                    agree(committed, _moving_back(chosen, examples))
                if committed and not dry_run:
                    _commit(chosen, store)
    finally:
        known.unpersist()
    return Migration(committed, kept, count, shown_rows, dry_run, incomplete, unknown)


def _without_rows(rows: DataFrame, groups: Sequence[str]) -> tuple[str, ...]:
    if not groups:
        return ()
    named = rows.where(fn.col("group").isin(list(groups))).select("group").distinct().collect()
    return tuple(sorted(set(groups) - {row["group"] for row in named}))


def _lost_groups(chosen: DataFrame, store: offsetlog.OffsetStore, losses: Sequence[OffsetLogError]) -> list[str]:
    numbers = lost_partitions(losses)
    if not numbers:
        return []
    number_of = store._open_core.number_of
    groups = [row["group"] for row in chosen.select("group").distinct().collect()]
    return [group for group in groups if number_of(group) in numbers]


def _is_log(path: Path) -> bool:
    """Returns whether a path is a log directory, even if each of its log partitions is missing."""
    directory = LogDirectory(path, FileSystem())
    return path.is_dir() and (any(path.glob("__consumer_offsets-*")) or directory.read_properties() is not None)


def _offsets_of(spark: SparkSession, store: offsetlog.OffsetStore, wanted: DataFrame) -> DataFrame:
    # Read under the store's lock, so that no position moves between this read and the commit.
    table = store.to_arrow().select(["group", "topic", "partition", "offset"]).cast(_OFFSETS)
    groups = [row["group"] for row in wanted.select("group").distinct().toLocalIterator()]
    table = table.filter(pc.is_in(table["group"], value_set=pa.array(groups, pa.string())))
    return _in_pieces(spark, table)


def _in_pieces(spark: SparkSession, table: pa.Table) -> DataFrame:
    # Spark launches a task together with its rows.  The launch of a task with tens of megabytes does not reach a small
    # executor, and Spark waits for it forever.  Each DataFrame here becomes as many tasks as the cluster has cores.
    step = _ROWS_OF_A_TASK * spark.sparkContext.defaultParallelism
    pieces = [spark.createDataFrame(table.slice(start, step)) for start in range(0, max(table.num_rows, 1), step)]
    return functools.reduce(DataFrame.union, pieces)


def _counted(chosen: DataFrame) -> tuple[dict[str, int], dict[str, int]]:
    counts = {row["action"]: row["count"] for row in chosen.groupBy("action").count().collect()}
    committed, kept = (
        {each: counts[each] for each in names if each in counts} for names in (rules.WRITTEN, rules.KEPT)
    )
    return committed, kept


def _moving_back(chosen: DataFrame, most: int) -> list[dict[str, str | int]]:
    rows = chosen.where(fn.col("action") == rules.BACK).orderBy("group", "topic", "partition").limit(most).collect()
    return [{name: row[name] for name in ("group", "topic", "partition", "current", "offset")} for row in rows]


def _commit(chosen: DataFrame, store: offsetlog.OffsetStore) -> None:
    rows = chosen.where(fn.col("action").isin(*rules.WRITTEN))
    # All rows are committed in one call, which checks every value before it writes the first row.
    table = rows.select("group", "topic", "partition", "offset").orderBy("group", "topic", "partition").toArrow()
    store.commit_arrow(table, durability="disk")
