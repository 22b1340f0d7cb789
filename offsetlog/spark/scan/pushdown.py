"""A batch reader that takes Spark's filters, which Spark has from 4.1 on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from offsetlog.spark.scan.batch import BatchReader
from offsetlog.spark.scan.options import OFFSET_MAX, PARTITION_MAX, RANGED, Bound, ReadOptions

#: What the views show of names that are not UTF-8; their bytes are others.
_MALFORMED = "\ufffd"


class FilteringReader(BatchReader):
    """Takes Spark's filters as well, where `spark.sql.python.filterPushdown.enabled` is set.

    They only make less to be read: Spark looks at every row again.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (PySpark's name)
        """Narrows the options by the filters; all of them come back."""
        for each in filters:
            self._read = narrowed(self._read, each)
        return filters


def narrowed(read: ReadOptions, asked: Filter) -> ReadOptions:
    """Returns options that read less and still every row for which a filter holds."""
    name = ".".join(getattr(asked, "attribute", ()))
    if isinstance(asked, EqualTo):
        return _with_values(read, name, (asked.value,))
    if isinstance(asked, In):
        return _with_values(read, name, tuple(asked.value))
    value = getattr(asked, "value", None)
    if name != "log_offset" or read.view not in RANGED or type(value) is not int:
        return read
    if isinstance(asked, GreaterThanOrEqual | GreaterThan):
        least = value + isinstance(asked, GreaterThan)
        return dataclasses.replace(read, starting_offset=_bounded(read.starting_offset, least, max, 0))
    if isinstance(asked, LessThan | LessThanOrEqual):
        most = value + isinstance(asked, LessThanOrEqual)
        return dataclasses.replace(read, ending_offset=_bounded(read.ending_offset, most, min, OFFSET_MAX))
    return read


def _with_values(read: ReadOptions, name: str, values: tuple[Any, ...]) -> ReadOptions:
    numbers = frozenset(value for value in values if type(value) is int)
    if name == "log_partition" and len(numbers) == len(values):
        chosen = numbers if read.filtered_partitions is None else read.filtered_partitions & numbers
        return dataclasses.replace(read, filtered_partitions=chosen)
    if len(values) != 1:
        return read
    value = values[0]
    if name == "log_offset" and numbers and read.view in RANGED:
        least = dataclasses.replace(read, starting_offset=_bounded(read.starting_offset, value, max, 0))
        return dataclasses.replace(least, ending_offset=_bounded(read.ending_offset, value + 1, min, OFFSET_MAX))
    if name == "partition" and numbers and read.partition < 0 and read.view in ("commits", "history", "offsets"):
        return dataclasses.replace(read, partition=value) if 0 <= value <= PARTITION_MAX else read
    if not isinstance(value, str) or _MALFORMED in value:
        return read
    if name == "group" and read.group is None and read.view != "batches":
        return dataclasses.replace(read, group=value)
    if name == "topic" and read.topic is None and read.view in ("commits", "history", "offsets"):
        return dataclasses.replace(read, topic=value)
    return read


def _bounded(bound: Bound | None, value: int, choose: Any, default: int) -> Bound:
    value = min(max(value, 0), OFFSET_MAX)
    if isinstance(bound, dict):
        # Partitions that are not named have no bound so far; Spark looks at their rows again.
        return {number: choose(offset, value) for number, offset in bound.items()}
    return int(choose(default if bound is None else bound, value))
