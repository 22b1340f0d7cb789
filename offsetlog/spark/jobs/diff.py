"""The differences between two directories, or between the states of one directory at two times."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from offsetlog.spark.jobs.completeness import problems_of
from offsetlog.spark.jobs.session import read_view
from offsetlog.spark.scan.options import fixed_moment

KEY = ("group", "topic", "partition")
#: The fields that are compared, besides the topic id; times are not (docs/history.md).
COMPARED = ("offset", "leader_epoch", "metadata")
VALUE = (*COMPARED, "commit_timestamp", "expire_timestamp", "topic_id")


def changes(before: DataFrame, after: DataFrame) -> DataFrame:
    """Returns the positions that differ between two states, as `OffsetStore.diff` does.

    Columns: group, topic, partition, change, and each column of VALUE twice, with the prefixes before_ and after_.
    `change` is "added", "removed" or "changed".  The columns of a state are null if that state does not have the
    position.

    Args:
        before: the view "offsets" of the first state, with at least the columns KEY and VALUE.
        after: the view "offsets" of the second state, with the same columns.
    """

    def side(rows: DataFrame, name: str) -> DataFrame:
        # A separate column says whether the state has the position, since any other column may be null.
        keys = [fn.col(each).alias(f"{name}_key_{each}") for each in KEY]
        values = [fn.col(each).alias(f"{name}_{each}") for each in VALUE]
        return rows.select(*keys, *values, fn.lit(True).alias(name))

    left, right = side(before, "before"), side(after, "after")
    same_key = [fn.col(f"before_key_{each}").eqNullSafe(fn.col(f"after_key_{each}")) for each in KEY]
    same_value = [fn.col(f"before_{each}").eqNullSafe(fn.col(f"after_{each}")) for each in COMPARED]
    condition = same_key[0] & same_key[1] & same_key[2]
    change = fn.when(fn.col("before").isNull(), "added").when(fn.col("after").isNull(), "removed").otherwise("changed")
    # Topic ids are compared only if both states have one.
    other_topic = fn.coalesce(fn.col("before_topic_id") != fn.col("after_topic_id"), fn.lit(False))
    is_same = same_value[0] & same_value[1] & same_value[2] & ~other_topic
    return (
        left.join(right, condition, "full_outer")
        .where(fn.col("before").isNull() | fn.col("after").isNull() | ~is_same)
        .select(
            *[fn.coalesce(f"before_key_{each}", f"after_key_{each}").alias(each) for each in KEY],
            change.alias("change"),
            *[f"before_{each}" for each in VALUE],
            *[f"after_{each}" for each in VALUE],
        )
    )


def run(
    spark: SparkSession,
    before: str | os.PathLike[str],
    after: str | os.PathLike[str] | None = None,
    *,
    before_at: str | None = None,
    after_at: str | None = None,
    group: str | None = None,
    permissive: bool = False,
    reported: Sequence[str] | None = None,
) -> DataFrame:
    """Returns the differences between two directories, or between two moments of one directory; see `changes`.

    Args:
        spark: the session.
        before: the log directory of the first state.
        after: the log directory of the second state; None if it is the same as `before`.
        before_at: the moment of the first state, as for the source's option `at`; None for the present state.
        after_at: the moment of the second state, as `before_at`.
        group: the only group to compare; None for all groups.
        permissive: whether to continue if a part of a log is missing or damaged; `problems` returns these parts.
        reported: the result of `problems`.  If the query then finds another missing or damaged part, it fails.
    """
    other = before if after is None else after
    first, second = (
        read_view(spark, path, "offsets", permissive=permissive, reported=reported, at=at, group=group)
        for path, at in ((before, fixed_moment(before_at)), (other, fixed_moment(after_at)))
    )
    return changes(first, second)


def has_group(spark: SparkSession, states: Sequence[tuple[str, str | None]], group: str) -> bool:
    """Returns whether a group has a position in one of the states, or a record of its own in one of the logs now.

    Args:
        spark: the session.
        states: log directories, each with a moment in the form of the source's option `at`; None for the present state.
        group: the group's name.
    """
    for path, at in states:
        if not read_view(spark, path, "offsets", at=at, group=group).isEmpty():
            return True
        if not read_view(spark, path, "groups").where(fn.col("group") == group).isEmpty():
            return True
    return False


def problems(
    spark: SparkSession,
    before: str | os.PathLike[str],
    after: str | os.PathLike[str] | None = None,
    *,
    before_at: str | None = None,
    after_at: str | None = None,
    group: str | None = None,
    permissive: bool,
) -> tuple[str, ...]:
    """Returns the missing and damaged parts of the states that `run` compares; see `completeness.problems_of`."""
    other = before if after is None else after
    first = problems_of(spark, before, "offsets", permissive=permissive, at=before_at, group=group)
    second = problems_of(spark, other, "offsets", permissive=permissive, at=after_at, group=group)
    if after is None:
        return tuple(dict.fromkeys([*first, *second]))
    return (*(f"{os.fspath(before)}: {each}" for each in first), *(f"{os.fspath(after)}: {each}" for each in second))
