"""What was committed, how often, by whom, and what looks wrong: everything from the view "commits" of a directory."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from offsetlog.spark.jobs.session import read_view


def read(spark: SparkSession, path: str, *, partitions: str | None = None) -> DataFrame:
    """Returns the view "commits" of a directory.

    Args:
        spark: the session.
        path: a log directory.
        partitions: log partitions, as "0,3-5"; None for all.
    """
    return read_view(spark, path, "commits", partitions=partitions)


def groups(commits: DataFrame) -> DataFrame:
    """Returns commits and deletes of each group."""
    return commits.groupBy("group").agg(
        fn.count_if(fn.col("kind") == "commit").alias("commits"),
        fn.count_if(fn.col("kind") == "delete").alias("deletes"),
    )
