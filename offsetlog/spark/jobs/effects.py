"""Which records of offset commits counted, from when on, and what they weigh: columns that several jobs add.

A position is (log partition, group, topic, partition): log offsets compare only within one partition of the log.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

#: What a position is, in the views of commits.
POSITION = ["log_partition", "group", "topic", "partition"]


def with_effects(commits: DataFrame) -> DataFrame:
    """Returns commits with `effective_at`, the log offset from which on each counted, null where it never did.

    That is its own offset for what is no part of a transaction and for every tombstone, else the end of its
    transaction; unless something newer of the same position came before that end, or the transaction was aborted or is
    open.  The same as `HistoryEntry.effective_at`.  Commits that have the column already are returned as they are.

    Args:
        commits: rows of the view "commits", of whole positions: kind, outcome, marker_offset, log_offset and POSITION.
    """
    if "effective_at" in commits.columns:
        return commits
    ends = (
        fn.when((fn.col("kind") == "delete") | (fn.col("outcome") == "plain"), fn.col("log_offset"))
        .when(fn.col("outcome") == "committed", fn.col("marker_offset"))
        .cast("bigint")
    )
    # Told from the end: of a frame that begins at its row Spark goes through all of it again for every row.
    following = Window.partitionBy(*POSITION).orderBy(fn.desc("log_offset")).rowsBetween(Window.unboundedPreceding, -1)
    newer = fn.min("_ends").over(following)
    overtaken = fn.coalesce(newer <= fn.col("_ends"), fn.lit(False))
    return (
        commits.withColumn("_ends", ends).withColumn("effective_at", fn.when(~overtaken, fn.col("_ends"))).drop("_ends")
    )


def when(timestamp: str = "timestamp", commit_timestamp: str = "commit_timestamp") -> Column:
    """Returns when a record was written, in ms since 1970: the record's time, else the commit's own, else null."""
    return fn.coalesce(
        fn.when(fn.col(timestamp) >= 0, fn.col(timestamp)),
        fn.when(fn.col(commit_timestamp) >= 0, fn.col(commit_timestamp)),
    )


def payload_bytes() -> Column:
    """Returns about how many bytes key and value of a commit have, from the columns of the view "commits".

    The key is exact.  Of the value the version is not told: it is taken for version 1 with an expire time, for 4 with
    a topic id, else for 3, which is what brokers write since Kafka 2.1; others are up to 4 bytes off.
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
