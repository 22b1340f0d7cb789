"""Columns and rows that several jobs use: when a record took effect, which records are in effect, and their bytes.

In this module, a position is (log partition, group, topic, partition), because log offsets can only be compared within
one log partition.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from offsetlog.spark.in_effect import NEVER, counts_from, in_effect_from

#: The key of a position in the views of commits.
POSITION = ["log_partition", "group", "topic", "partition"]

#: Kinds in the view "records" that are not a group's own records.
NOT_OF_A_GROUP = ("offset_commit", "marker", "unknown", "undecodable")


def commit_records(records: DataFrame) -> DataFrame:
    """Returns the rows of the view "records" that commit or delete a position, with `kind` as in the view "commits"."""
    kind = fn.when(fn.col("value").isNull(), "delete").otherwise("commit")
    return records.where(fn.col("kind") == "offset_commit").withColumn("kind", kind)


def with_effects(commits: DataFrame) -> DataFrame:
    """Adds `effective_at`, the log offset at which each commit took effect; it is null if the commit never took effect.

    The rule is in `offsetlog.spark.in_effect`.  If the commits already have this column, they are returned unchanged.

    Args:
        commits: rows of the view "commits", with the columns kind, outcome, marker_offset, log_offset and POSITION.
            For each position, they must include all of its rows.
    """
    if "effective_at" in commits.columns:
        return commits
    counts = counts_from(
        fn.col("kind") == "delete",
        lambda outcome: fn.col("outcome") == outcome,
        fn.col("log_offset"),
        fn.coalesce("marker_offset", fn.lit(NEVER)),
        _choose,
    ).cast("bigint")
    # Sorted from the end: if a frame began at the current row, Spark would read the whole frame for every row.
    following = Window.partitionBy(*POSITION).orderBy(fn.desc("log_offset")).rowsBetween(Window.unboundedPreceding, -1)
    least_of_later = fn.coalesce(fn.min("_counts").over(following), fn.lit(NEVER))
    effective_at = fn.nullif(in_effect_from(fn.col("_counts"), least_of_later, _choose), fn.lit(NEVER))
    return commits.withColumn("_counts", counts).withColumn("effective_at", effective_at).drop("_counts")


def _choose(condition: Column, yes: Column | int, no: Column | int) -> Column:
    return fn.when(condition, yes).otherwise(no)


def pending(commits: DataFrame) -> DataFrame:
    """Returns the pending rows of the view "commits", which a COMMIT of their open transaction would bring into effect.

    For each producer and position, only the latest row in an open transaction is pending.  If a tombstone of the
    position follows this row, the row is not pending, even if the tombstone is in another transaction or in none.
    """
    latest = (
        commits.where("kind = 'commit' and outcome = 'open'")
        .groupBy(*POSITION, "producer_id")
        .agg(fn.max_by(fn.struct(*commits.columns), "log_offset").alias("latest"))
        .select("latest.*")
    )
    erased = commits.where("kind = 'delete'").groupBy(*POSITION).agg(fn.max("log_offset").alias("erased_at"))
    return (
        latest.join(erased, POSITION, "left")
        .where("erased_at is null or erased_at < log_offset")
        .select(*commits.columns)
    )


def group_records(records: DataFrame) -> DataFrame:
    """Returns the latest record of each key of a group's own records in the view "records", except tombstones."""
    return (
        records.where(~fn.col("kind").isin(*NOT_OF_A_GROUP) & fn.col("group").isNotNull())
        .groupBy("log_partition", "key")
        .agg(fn.max_by(fn.struct(*[name for name in records.columns if name != "key"]), "log_offset").alias("latest"))
        .select("key", "latest.*")
        .where("value is not null")
        .select(*records.columns)
    )


def when(timestamp: str = "timestamp", commit_timestamp: str = "commit_timestamp") -> Column:
    """Returns the time of a record, in ms since 1970: its timestamp, or else its commit timestamp, or else null."""
    return fn.coalesce(
        fn.when(fn.col(timestamp) >= 0, fn.col(timestamp)),
        fn.when(fn.col(commit_timestamp) >= 0, fn.col(commit_timestamp)),
    )


def payload_bytes() -> Column:
    """Estimates the bytes of a commit's key and value from the columns of the view "commits".

    The size of the key is exact.  The view does not show the version of the value, so the version is guessed.  It is 1
    if there is an expire time, and 4 if there is a topic id.  Otherwise it is 3, which brokers have written since Kafka
    2.1.  If the version is another one, the size is wrong by up to 4 bytes.
    """
    key = 2 + 2 + fn.octet_length("group") + 2 + fn.octet_length("topic") + 4
    metadata = fn.coalesce(fn.octet_length("metadata"), fn.lit(0))
    value = (
        fn.when(fn.col("kind") == "delete", fn.lit(0))
        .when(fn.col("topic_id").isNotNull(), 2 + 8 + 4 + 1 + metadata + 8 + 1 + 2 + 16)
        .when(fn.col("expire_timestamp") >= 0, 2 + 8 + 2 + metadata + 8 + 8)
        .otherwise(2 + 8 + 4 + 2 + metadata + 8)
    )
    return (key + value).cast("bigint")
