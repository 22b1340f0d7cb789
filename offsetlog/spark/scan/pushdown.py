"""A batch reader that uses Spark's filters.  It needs Spark 4.1 or later."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from offsetlog.spark.scan.batch import BatchReader
from offsetlog.spark.scan.narrowing import bounded, with_values
from offsetlog.spark.scan.options import OFFSET_MAX, RANGED, ReadOptions


class FilteringReader(BatchReader):
    """A batch reader that also uses Spark's filters, if `spark.sql.python.filterPushdown.enabled` is set.

    The filters only reduce the amount that is read.  Spark applies them again to every row.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (PySpark's name)
        """Narrows the options by the filters.  Returns all filters, so that Spark applies them again."""
        for each in filters:
            self._read = narrowed(self._read, each)
        return filters


def narrowed(read: ReadOptions, asked: Filter) -> ReadOptions:
    """Returns narrower options for rows that pass a filter; all of these rows are still read."""
    name = ".".join(getattr(asked, "attribute", ()))
    if isinstance(asked, EqualTo):
        return with_values(read, name, (asked.value,))
    if isinstance(asked, In):
        return with_values(read, name, tuple(asked.value))
    value = getattr(asked, "value", None)
    if name != "log_offset" or read.view not in RANGED or type(value) is not int:
        return read
    if isinstance(asked, GreaterThanOrEqual | GreaterThan):
        least = value + isinstance(asked, GreaterThan)
        return dataclasses.replace(read, starting_offset=bounded(read.starting_offset, least, max, 0))
    if isinstance(asked, LessThan | LessThanOrEqual):
        most = value + isinstance(asked, LessThanOrEqual)
        return dataclasses.replace(read, ending_offset=bounded(read.ending_offset, most, min, OFFSET_MAX))
    return read
