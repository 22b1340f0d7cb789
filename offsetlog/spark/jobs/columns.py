"""offsetlog's own functions on columns.  PySpark 4.1 and later call them with Arrow columns, 4.0 with single rows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as fn

from offsetlog.spark.jobs.tasks import hashing, surveying, targets


def _by_row(function: Any, kind: str) -> Any:
    return fn.udf(function, kind, useArrow=False)


def target_of(group: Column, count: int) -> Column:
    """Returns the number of a group's log partition if there are `count` of them; null for a null group."""
    arrow_udf: Any = getattr(fn, "arrow_udf", None)
    function = arrow_udf(targets.partitions_of, "int") if arrow_udf else _by_row(targets.partition_of, "int")
    found: Column = function(group, fn.lit(count))
    return found


def _hashing(function: Any) -> Any:
    arrow_udf: Any = getattr(fn, "arrow_udf", None)
    if arrow_udf:
        return arrow_udf(function, hashing.SPARK_LIMBS)
    return _by_row(hashing.by_row(function), hashing.SPARK_LIMBS)


def position_hash(*, pending: bool, physical: bool) -> Column:
    """Returns the hash of a row of the view "offsets" (with `pending`: "commits"), as four numbers (LIMBS)."""
    names = ("group", "topic", "partition", "offset", "leader_epoch", "metadata", "commit_timestamp")
    none = fn.lit(-1).cast("bigint")
    found: Column = _hashing(hashing.position_hashes)(
        *[fn.col(name) for name in (*names, "expire_timestamp", "topic_id")],
        fn.col("producer_id") if pending else none,
        fn.col("log_offset") if physical else none,
    )
    return found


def group_record_hash(*, physical: bool) -> Column:
    """Returns the hash of a row of the view "records" that is a group's own record, as four numbers (LIMBS)."""
    none = fn.lit(-1).cast("bigint")
    found: Column = _hashing(hashing.group_record_hashes)(
        fn.col("key"), fn.col("value"), fn.col("timestamp"), fn.col("log_offset") if physical else none
    )
    return found


def survey_of(folder: str, number: Column) -> Column:
    """Returns the engine's survey of a log partition as JSON; see the module `surveying`."""
    found: Column = _by_row(surveying.survey_json, "string")(fn.lit(folder), number)
    return found
