"""A Python source whose offsets have the shape of Kafka's."""

from __future__ import annotations

import sys

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

# Spark's workers cannot import the tests: what stands here goes to them whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class ShapedReader(DataSourceStreamReader):
    """One row for each batch, and the offsets {"orders": {"0": 7, "1": 9}}."""

    def initialOffset(self):  # noqa: N802  (the names are Spark's)
        return {"orders": {"0": 0, "1": 0}}

    def latestOffset(self, start=None, limit=None):  # noqa: N802
        return {"orders": {"0": 7, "1": 9}}

    def partitions(self, start, end):
        return [InputPartition(0)]

    def read(self, partition):
        yield ("row",)


class ShapedSource(DataSource):
    @classmethod
    def name(cls):
        return "shaped"

    def schema(self):
        return "value string"

    def streamReader(self, schema):  # noqa: N802
        return ShapedReader()
