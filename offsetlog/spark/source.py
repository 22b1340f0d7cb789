"""The data source: `spark.read.format("offsetlog")`, `spark.readStream`, and the ways back.

Only chooses; what reads is in `offsetlog.spark.scan`, what writes in `offsetlog.spark.sink`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pyspark.sql.datasource import DataSource

from offsetlog.errors import ConfigError
from offsetlog.spark.scan.batch import BatchReader, make_reader
from offsetlog.spark.scan.options import parse
from offsetlog.spark.scan.stream import RefusedStreamReader, StreamReader, make_stream_reader
from offsetlog.spark.scan.views import full_schema, spark_schema


class OffsetlogDataSource(DataSource):
    """Logs of committed positions, Kafka's or ours, as DataFrames; see docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        """Returns "offsetlog"."""
        return "offsetlog"

    def schema(self) -> str:
        """Returns the columns of the view that the options name; raises ConfigError."""
        return spark_schema(full_schema(parse(self.options, streaming=None)))

    def reader(self, schema: Any) -> BatchReader:
        """Returns the reader of a batch; raises ConfigError."""
        return make_reader(parse(self.options), schema)

    def streamReader(self, schema: Any) -> StreamReader | RefusedStreamReader:  # noqa: N802  (PySpark's name)
        """Returns the reader of a stream; where the options are wrong, one that raises ConfigError as it begins."""
        try:
            return make_stream_reader(parse(self.options, streaming=True), schema)
        except ConfigError as refusal:
            # PySpark closes a reader that it never got, and tells the UnboundLocalError of that last.
            return RefusedStreamReader(refusal)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Returns the writer of a batch; raises as `offsetlog.spark.sink.writer.batch_writer`."""
        # Executors that only read do not load what writes.
        return import_module("offsetlog.spark.sink.writer").batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802  (PySpark's name)
        """Returns the writer of a stream; raises as `offsetlog.spark.sink.writer.stream_writer`."""
        return import_module("offsetlog.spark.sink.writer").stream_writer(self.options, schema, overwrite)
