"""PySpark registers `DefaultSource` of every top-level package `pyspark_*`: `spark.read.format("offsetlog")`."""

from offsetlog.spark.source import OffsetlogDataSource as DefaultSource

__all__ = ["DefaultSource"]
