"""Columns and rows that several jobs use: when a record took effect, which records are in effect now, their bytes.

A position is (log partition, group, topic, partition): log offsets compare only within one partition of the log.
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
    """Adds `effective_at`, the log offset at which each commit took effect, null if it never did.

    The rule is in `offsetlog.spark.in_effect`.  Commits that have the column already are returned as they are.

    Args:
        commits: rows of the view "commits", with kind, outcome, marker_offset, log_offset and POSITION; for each
            position in them, all of its rows.
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
    """Returns the pending rows of the view "commits": a COMMIT of their open transaction would bring them into effect.

    The pending rows are the latest ones of each producer and position in open transactions.  A tombstone erases the
    values before it, whatever transaction the tombstone is in.
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
    """Returns the current records of groups in the view "records": the latest of each key, without tombstones."""
    return (
        records.where(~fn.col("kind").isin(*NOT_OF_A_GROUP) & fn.col("group").isNotNull())
        .groupBy("log_partition", "key")
        .agg(fn.max_by(fn.struct(*[name for name in records.columns if name != "key"]), "log_offset").alias("latest"))
        .select("key", "latest.*")
        .where("value is not null")
        .select(*records.columns)
    )


def when(timestamp: str = "timestamp", commit_timestamp: str = "commit_timestamp") -> Column:
    """Returns when a record was written, in ms since 1970: the record's time, or the commit's own, or null."""
    return fn.coalesce(
        fn.when(fn.col(timestamp) >= 0, fn.col(timestamp)),
        fn.when(fn.col(commit_timestamp) >= 0, fn.col(commit_timestamp)),
    )


def payload_bytes() -> Column:
    """Estimates the bytes of a commit's key and value from the columns of the view "commits".

    The size of the key is exact.  The view lacks the version of the value, so it is derived: version 1 if there is an
    expire time, 4 if there is a topic id, otherwise 3, which brokers write since Kafka 2.1.  For values of other
    versions the size is up to 4 bytes off.
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
