"""PySpark registers the class `DefaultSource` of each top-level package `pyspark_*`; this one is "offsetlog"."""

from offsetlog.spark.source import OffsetlogDataSource as DefaultSource

__all__ = ["DefaultSource"]
