"""PySpark looks for top-level packages `pyspark_*` and takes their `DefaultSource`: `spark.read.format("offsetlog")`."""

from offsetlog.spark.source import OffsetlogDataSource as DefaultSource

__all__ = ["DefaultSource"]
