"""PySpark registers the class `DefaultSource` of every top-level package `pyspark_*`, here as format "offsetlog"."""

from offsetlog.spark.source import OffsetlogDataSource as DefaultSource

__all__ = ["DefaultSource"]
