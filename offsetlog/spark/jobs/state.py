"""The state that a log leads to, from its records: which of them count now (docs/format/loading.md §6.4)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

#: Kinds of the view "records" that are no record of a group.
NOT_OF_A_GROUP = ("offset_commit", "marker", "unknown", "undecodable")

_KEY = ("log_partition", "group", "topic", "partition")


def pending(commits: DataFrame) -> DataFrame:
    """Returns the rows of the view "commits" that open transactions hold: what their COMMIT would bring.

    Of each producer and position the latest value; a tombstone erases what stands before it, in whatever transaction
    it is itself.
    """
    latest = (
        commits.where("kind = 'commit' and outcome = 'open'")
        .groupBy(*_KEY, "producer_id")
        .agg(fn.max_by(fn.struct(*commits.columns), "log_offset").alias("latest"))
        .select("latest.*")
    )
    erased = commits.where("kind = 'delete'").groupBy(*_KEY).agg(fn.max("log_offset").alias("erased_at"))
    return (
        latest.join(erased, list(_KEY), "left")
        .where("erased_at is null or erased_at < log_offset")
        .select(*commits.columns)
    )


def group_records(records: DataFrame) -> DataFrame:
    """Returns the rows of the view "records" that groups consist of: the latest of each key, unless a tombstone."""
    return (
        records.where(~fn.col("kind").isin(*NOT_OF_A_GROUP) & fn.col("group").isNotNull())
        .groupBy("log_partition", "key")
        .agg(fn.max_by(fn.struct(*[name for name in records.columns if name != "key"]), "log_offset").alias("latest"))
        .select("key", "latest.*")
        .where("value is not null")
        .select(*records.columns)
    )
