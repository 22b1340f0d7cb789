"""Narrows the options of a read by a query's conditions on single columns.  Spark checks every row again."""

from __future__ import annotations

import dataclasses
from typing import Any

from offsetlog.spark.scan.options import OFFSET_MAX, PARTITION_MAX, RANGED, Bound, ReadOptions

#: The replacement character of names that are not UTF-8; such a name cannot be found by its shown text.
_MALFORMED = "\ufffd"


def with_values(read: ReadOptions, name: str, values: tuple[Any, ...]) -> ReadOptions:
    """Returns narrower options for rows whose column `name` has one of the values; all of these rows are still read."""
    numbers = frozenset(value for value in values if type(value) is int)
    if name == "log_partition" and len(numbers) == len(values):
        chosen = numbers if read.filtered_partitions is None else read.filtered_partitions & numbers
        return dataclasses.replace(read, filtered_partitions=chosen)
    if len(values) != 1:
        return read
    value = values[0]
    if name == "log_offset" and numbers and read.view in RANGED:
        least = dataclasses.replace(read, starting_offset=bounded(read.starting_offset, value, max, 0))
        return dataclasses.replace(least, ending_offset=bounded(read.ending_offset, value + 1, min, OFFSET_MAX))
    if name == "partition" and numbers and read.partition < 0 and read.view in ("commits", "history", "offsets"):
        return dataclasses.replace(read, partition=value) if 0 <= value <= PARTITION_MAX else read
    if not isinstance(value, str) or _MALFORMED in value:
        return read
    if name == "group" and read.group is None and read.view != "batches":
        return dataclasses.replace(read, group=value)
    if name == "topic" and read.topic is None and read.view in ("commits", "history", "offsets"):
        return dataclasses.replace(read, topic=value)
    return read


def bounded(bound: Bound | None, value: int, choose: Any, default: int) -> Bound:
    """Returns a bound of log offsets, such as `startingOffset`, narrowed by another value in each log partition.

    Args:
        bound: the bound from an option; None if the option was not given.
        value: the other value, which applies to every log partition.
        choose: the function that returns the narrower of two values: min or max.
        default: the bound to use if the option was not given.
    """
    value = min(max(value, 0), OFFSET_MAX)
    if isinstance(bound, dict):
        # Log partitions that the option does not name stay without a bound.  Spark filters their rows.
        return {number: choose(offset, value) for number, offset in bound.items()}
    return int(choose(default if bound is None else bound, value))
