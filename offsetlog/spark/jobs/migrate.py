"""Brings the offsets that consumers kept in ZooKeeper, or that a file lists, into a log directory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

import offsetlog
from offsetlog.errors import InvalidArgumentError
from offsetlog.spark.jobs.tasks.zookeeper import CONSUMERS, FORMAT, ZooKeeperOffsets

#: What a dump may say: names, or a node's path and its value as ZooKeeper's own tools print them.
DUMP_SCHEMA = "group string, topic string, partition string, offset string, path string, value string, moment bigint"

_NAME_BYTES_MAX = 32767

#: What is done with a row.
ACTIONS = ("new", "forward", "same", "behind", "back")


@dataclass(frozen=True, slots=True)
class Migration:
    """What a migration did, or with a dry run would do.

    Attributes:
        committed: rows by action: "new", "forward", and "back" where going back was asked for.
        kept: rows by the reason why the directory's own position stays: "same", or "behind" what it has.
        refused: how many rows were refused.
        examples: some of these, each with group, topic, partition, offset as they stood and a reason.
        dry_run: whether nothing was written.
    """

    committed: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    examples: list[dict[str, str | None]] = field(default_factory=list)
    dry_run: bool = False


def from_zookeeper(
    spark: SparkSession,
    hosts: str,
    *,
    root: str = "",
    groups: Sequence[str] | None = None,
    tasks: int = 4,
    in_flight: int = 64,
) -> DataFrame:
    """Returns what stands in ZooKeeper, as text: group, topic, partition, offset, moment.

    Args:
        spark: the session.
        hosts: as clients of ZooKeeper take them, "host:port,host:port".
        root: of the Kafka cluster in it, as "/kafka"; "" for none.
        groups: which; None for all.
        tasks: how many read at a time, each through one connection.
        in_flight: about how many questions each has outstanding.
    """
    spark.dataSource.register(ZooKeeperOffsets)
    reader = spark.read.format(FORMAT).option("hosts", hosts).option("root", root)
    if groups is not None:
        reader = reader.option("groups", json.dumps(list(groups)))
    return reader.option("tasks", str(tasks)).option("inFlight", str(in_flight)).load()


def from_dump(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    """Returns what a file lists, as `from_zookeeper` does: JSON lines, or CSV with a heading (a name in .csv).

    A line has group, topic, partition and offset; or path, "/consumers/GROUP/offsets/TOPIC/PARTITION" with whatever
    before it, and value.  Other columns are passed over, and so are paths of other nodes.
    """
    text = os.fspath(path)
    reader = spark.read.schema(DUMP_SCHEMA) if not text.endswith(".csv") else spark.read.option("header", "true")
    rows = reader.csv(text) if text.endswith(".csv") else reader.option("primitivesAsString", "true").json(text)
    for name in ("group", "topic", "partition", "offset", "path", "value", "moment"):
        if name not in rows.columns:
            rows = rows.withColumn(name, fn.lit(None))
    pattern = f"{CONSUMERS}/([^/]+)/offsets/([^/]+)/([^/]+)$"

    def part(number: int) -> Column:
        return fn.regexp_extract(fn.col("path").cast("string"), pattern, number)

    by_path = fn.col("path").isNotNull()
    named = {"group": part(1), "topic": part(2), "partition": part(3), "offset": fn.col("value")}
    columns = [
        fn.when(by_path, column).otherwise(fn.col(name)).cast("string").alias(name)
        for name, column in named.items()
    ]
    wanted = rows.where(~by_path | fn.col("path").cast("string").rlike(pattern))
    return wanted.select(*columns, fn.expr("try_cast(moment as bigint)").alias("moment"))


def checked(rows: DataFrame) -> DataFrame:
    """Returns rows of text with numbers (position, committed) and a `reason`, null for what can be committed.

    A position that stands there more than once with different offsets is refused as a whole: nobody can tell which is
    right.
    """
    name_too_long = f"the {{0}} has more than {_NAME_BYTES_MAX} bytes"
    names = ("group", "topic", "partition", "offset")
    reason = (
        fn.when(fn.coalesce(*names).isNull(), "it is no row of group, topic, partition and offset")
        .when(fn.coalesce(fn.col("group"), fn.lit("")) == "", "there is no group")
        .when(fn.coalesce(fn.col("topic"), fn.lit("")) == "", "there is no topic")
        .when(fn.octet_length("group") > _NAME_BYTES_MAX, name_too_long.format("group"))
        .when(fn.octet_length("topic") > _NAME_BYTES_MAX, name_too_long.format("topic"))
        .when(fn.col("number").isNull(), "the partition is no number that can be")
        .when(fn.col("committed").isNull(), "the offset is no number that can be")
    )
    digits = "^[0-9]{1,19}$"
    numbered = (
        rows.withColumn("number", fn.when(fn.col("partition").rlike(digits), fn.expr("try_cast(partition as int)")))
        .withColumn("committed", fn.when(fn.col("offset").rlike(digits), fn.expr("try_cast(offset as bigint)")))
        .withColumn("reason", reason)
        .dropDuplicates(["group", "topic", "partition", "offset"])
    )
    same = Window.partitionBy("group", "topic", "number")
    twice = fn.col("reason").isNull() & (fn.min("committed").over(same) != fn.max("committed").over(same))
    return numbered.withColumn(
        "reason", fn.when(twice, "the position is there more than once, with other offsets").otherwise(fn.col("reason"))
    )


def compared(rows: DataFrame, offsets: DataFrame | None) -> DataFrame:
    """Returns sound rows of `checked` with an `action`, one of ACTIONS, beside what is committed now.

    Args:
        rows: of which `reason` is null.
        offsets: the view "offsets" of the directory; None for a new one.
    """
    good = rows.select("group", "topic", fn.col("number").alias("partition"), fn.col("committed").alias("offset"))
    good = good.dropDuplicates(["group", "topic", "partition"])
    if offsets is None:
        return good.withColumn("current", fn.lit(None).cast("bigint")).withColumn("action", fn.lit("new"))
    now = offsets.select("group", "topic", "partition", fn.col("offset").alias("current"))
    action = (
        fn.when(fn.col("current").isNull(), "new")
        .when(fn.col("current") == fn.col("offset"), "same")
        .when(fn.col("current") < fn.col("offset"), "forward")
        .otherwise("behind")
    )
    return good.join(now, ["group", "topic", "partition"], "left").withColumn("action", action)


def run(
    spark: SparkSession,
    rows: DataFrame,
    target: str | os.PathLike[str],
    *,
    partitions: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    examples: int = 20,
) -> Migration:
    """Commits rows of `from_zookeeper` or `from_dump` into a log directory, each group whole or not at all.

    A position that the directory has already is never moved back, unless that is asked for.  What is committed is a
    commit of now, so that no retention takes it away at once.  The directory's lock is held meanwhile.

    Args:
        spark: the session.
        rows: what is to be committed.
        target: a log directory on this machine; it is made where there is none.
        partitions: of a new directory (50), or of one of Kafka's, which does not say it.
        overwrite: whether positions are moved back, too.
        dry_run: only tells; takes no lock, and writes nothing.
        examples: how many of the refused rows are told.

    Raises:
        LockedError, PartitionCountError, StorageError, CorruptionError: as `offsetlog.open` and `commit_arrow`.
    """
    path = Path(target).absolute()
    if "://" in os.fspath(target):
        raise InvalidArgumentError(f"the target must be a directory of this machine, not {target}")
    known = checked(rows).cache()
    try:
        refused = known.where("reason is not null")
        told = [
            {name: row[name] for name in ("group", "topic", "partition", "offset", "reason")}
            for row in refused.orderBy("group", "topic", "partition", "offset").limit(examples).collect()
        ]
        count = refused.count()
        good = known.where("reason is null")
        if dry_run:
            store = offsetlog.open(path, partitions, read_only=True) if _is_log(path) else None
        else:
            store = offsetlog.open(path, partitions)
        if store is None:
            committed, kept = _commit(good, None, None, overwrite=overwrite)
        else:
            with store:
                now = _offsets_of(spark, store)
                committed, kept = _commit(good, now, None if dry_run else store, overwrite=overwrite)
    finally:
        known.unpersist()
    return Migration(committed, kept, count, told, dry_run)


def _is_log(path: Path) -> bool:
    return path.is_dir() and any(path.glob("__consumer_offsets-*"))


def _offsets_of(spark: SparkSession, store: offsetlog.OffsetStore) -> DataFrame:
    # Under the store's lock, so that nothing moves between the look and the commit.
    table = store.to_arrow().select(["group", "topic", "partition", "offset"])
    kinds = pa.schema(
        [("group", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
    )
    return spark.createDataFrame(table.cast(kinds))


def _commit(
    good: DataFrame, now: DataFrame | None, store: offsetlog.OffsetStore | None, *, overwrite: bool
) -> tuple[dict[str, int], dict[str, int]]:
    chosen = compared(good, now)
    wanted = ["new", "forward", *(["behind"] if overwrite else [])]
    counts = {row["action"]: row["count"] for row in chosen.groupBy("action").count().collect()}
    if store is not None and any(counts.get(action) for action in wanted):
        rows = chosen.where(fn.col("action").isin(wanted)).select("group", "topic", "partition", "offset")
        # One call: every value is checked before the first row is written.
        store.commit_arrow(rows.orderBy("group", "topic", "partition").toArrow(), durability="disk")
    names = {"behind": "back"} if overwrite else {}
    committed = {names.get(action, action): counts[action] for action in wanted if action in counts}
    return committed, _left(counts, wanted)


def _left(counts: dict[str, int], wanted: Iterable[str]) -> dict[str, int]:
    taken = set(wanted)
    return {action: count for action, count in sorted(counts.items()) if action not in taken}
