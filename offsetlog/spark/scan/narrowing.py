"""Options that read less, by what a query asks of single columns.  Spark looks at every row again."""

from __future__ import annotations

import dataclasses
from typing import Any

from offsetlog.spark.scan.options import OFFSET_MAX, PARTITION_MAX, RANGED, Bound, ReadOptions

#: The mark that the views show in names that are not UTF-8; the bytes of these are others.
_MALFORMED = "\ufffd"


def with_values(read: ReadOptions, name: str, values: tuple[Any, ...]) -> ReadOptions:
    """Returns options that read less and still every row whose column `name` has one of the values."""
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
    """Returns a bound of log offsets with another one, of which `choose` (min or max) takes the narrower.

    Args:
        bound: as an option gave it.
        value: the other, which counts for every log partition.
        choose: min or max.
        default: the bound where there is none.
    """
    value = min(max(value, 0), OFFSET_MAX)
    if isinstance(bound, dict):
        # Partitions that are not named have no bound so far; Spark looks at their rows again.
        return {number: choose(offset, value) for number, offset in bound.items()}
    return int(choose(default if bound is None else bound, value))
