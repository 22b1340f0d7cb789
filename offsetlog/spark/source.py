"""The data source: `spark.read.format("offsetlog")`, `spark.readStream`, and the corresponding writes.

This module only chooses readers and writers; they are in `offsetlog.spark.scan` and `offsetlog.spark.sink`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource

from offsetlog.errors import ConfigError
from offsetlog.spark.machine import is_one_machine
from offsetlog.spark.scan.batch import BatchReader, make_reader
from offsetlog.spark.scan.hadoop_settings import HadoopSettings, is_setting
from offsetlog.spark.scan.options import parse
from offsetlog.spark.scan.stream import RefusedStreamReader, StreamReader, make_stream_reader
from offsetlog.spark.scan.views import full_schema, spark_schema
from offsetlog.spark.session_settings import default_parallelism_of, hadoop_settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class OffsetlogDataSource(DataSource):
    """Logs of committed positions, of Kafka or of offsetlog, as DataFrames; see docs/spark.md.

    Attributes:
        default_parallelism: the default parallelism of the cluster; 0 if `register` did not set it.
        one_machine: False if `register` found that executors may be on other machines than the driver.
        hadoop: the session's Hadoop settings for file systems; empty if `register` did not set them.
    """

    default_parallelism = 0
    one_machine = True
    hadoop = HadoopSettings()

    @classmethod
    def name(cls) -> str:
        """Returns "offsetlog"."""
        return "offsetlog"

    @property
    def _given(self) -> dict[str, str]:
        """The options, and the session's settings unless an option overrides them."""
        given = {name: value for name, value in self.options.items() if is_setting(name)}
        others = {name: value for name, value in self.options.items() if not is_setting(name)}
        return {**others, **self.hadoop, **HadoopSettings.of(given)}

    def schema(self) -> str:
        """Returns the columns of the requested view; raises ConfigError."""
        return spark_schema(full_schema(parse(self._given, streaming=None)))

    def reader(self, schema: Any) -> BatchReader:
        """Returns the reader of a batch; raises ConfigError."""
        read = replace(parse(self._given), default_parallelism=self.default_parallelism)
        return make_reader(read, schema)

    def streamReader(self, schema: Any) -> StreamReader | RefusedStreamReader:  # noqa: N802  (PySpark's name)
        """Returns the reader of a stream; if the options are wrong, a reader that raises ConfigError when it starts."""
        try:
            read = replace(parse(self._given, streaming=True), default_parallelism=self.default_parallelism)
            return make_stream_reader(read, schema)
        except ConfigError as refusal:
            # If this method raises, PySpark closes a reader that it never got, and reports that UnboundLocalError last.
            return RefusedStreamReader(refusal)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Returns the writer of a batch; raises as `offsetlog.spark.sink.writer.batch_writer`."""
        # Executors that only read must not load the sink.
        return import_module("offsetlog.spark.sink.writer").batch_writer(
            self._given, schema, overwrite, self.one_machine
        )

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802  (PySpark's name)
        """Returns the writer of a stream; raises as `offsetlog.spark.sink.writer.stream_writer`."""
        return import_module("offsetlog.spark.sink.writer").stream_writer(
            self._given, schema, overwrite, self.one_machine
        )


def register(spark: SparkSession) -> None:
    """Registers this data source as `format("offsetlog")` of a session, with facts about the session.

    The facts are the default parallelism, by which reads are planned; whether executors may be on other machines, so
    that a write must name its staging location; and the present Hadoop settings for `s3a://` and `abfss://`.  Spark
    plans a Python source in a process that knows nothing of the session, so the class carries these facts.  Register
    again if the settings change, or if executors are added or removed.  A session of Spark Connect does not provide the
    facts.  Reads are then planned by the cores of the planning machine, settings have to be options of the read, and
    tasks refuse a staging location that they do not share with the driver.

    Raises:
        ConfigError: as `check_planner`.
    """
    parallelism, settings, is_local = default_parallelism_of(spark), hadoop_settings_of(spark), True
    context = getattr(spark, "sparkContext", None)
    if context is not None:
        check_planner(context.pythonExec)
        is_local = is_one_machine(context.master)

    class PlannedDataSource(OffsetlogDataSource):
        # Spark sends a class that is not in a module by value, with the settings in it.
        __doc__ = OffsetlogDataSource.__doc__
        default_parallelism = parallelism
        one_machine = is_local
        hadoop = settings

    try:
        spark.dataSource.register(PlannedDataSource)
    except AnalysisException as failure:
        # PySpark 4.0 refuses a name that it has already found by itself; later versions replace the class.
        if failure.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def check_planner(python: str) -> None:
    """Refuses a Python for the workers that does not exist on the driver: Spark also plans with it, on the driver.

    Args:
        python: the program in `PYSPARK_PYTHON`; a name without a slash, which the system's path resolves, is not
            checked.

    Raises:
        ConfigError: the path does not lead to a program that can be run.
    """
    if "/" not in python or os.access(python, os.X_OK):
        return
    way = "install it there, or name a Python that both have"
    if not os.path.isabs(python):
        way = f"unpack the workers' archive so that {os.path.abspath(python)} exists, or start in another directory"
    raise ConfigError(
        f"PYSPARK_PYTHON is {python}, which does not exist on the driver, where Spark plans with it: {way}"
    )
