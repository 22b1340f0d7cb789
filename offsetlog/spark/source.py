"""The data source: `spark.read.format("offsetlog")`, `spark.readStream`, and the corresponding writes.

This module only chooses a reader or a writer.  They are defined in `offsetlog.spark.scan` and `offsetlog.spark.sink`.
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
        """The options, together with the session's settings; an option overrides the setting of the same name."""
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
        """Returns the reader of a stream.  If an option is wrong, the reader raises ConfigError when it starts."""
        try:
            read = replace(parse(self._given, streaming=True), default_parallelism=self.default_parallelism)
            return make_stream_reader(read, schema)
        except ConfigError as refusal:
            # If this method raised, PySpark would try to close a reader that it never got, and would report that
            # UnboundLocalError.
            return RefusedStreamReader(refusal)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Returns the writer of a batch; raises the errors of `offsetlog.spark.sink.writer.batch_writer`."""
        # Executors that only read must not load the sink.
        return import_module("offsetlog.spark.sink.writer").batch_writer(
            self._given, schema, overwrite, self.one_machine
        )

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802  (PySpark's name)
        """Returns the writer of a stream; raises the errors of `offsetlog.spark.sink.writer.stream_writer`."""
        return import_module("offsetlog.spark.sink.writer").stream_writer(
            self._given, schema, overwrite, self.one_machine
        )


def register(spark: SparkSession) -> None:
    """Registers this data source as `format("offsetlog")` of a session, with some facts about the session.

    Spark plans a Python source in a process that does not know the session, so the registered class carries these
    facts:

    * the default parallelism, by which reads are planned;
    * whether executors may be on other machines than the driver; if so, a write must name its staging location;
    * the present Hadoop settings for `s3a://` and `abfss://`.

    Call this function again if the settings change, or if executors are added or removed.

    A session of Spark Connect does not provide these facts.  In such a session, reads are planned by the number of
    cores of the machine that plans, and settings must be given as options of the read.  A task of a write refuses to
    stage its rows in the default staging directory if the task runs on another machine than the driver.

    Raises:
        ConfigError: raised by `check_planner`.
    """
    parallelism, settings, is_local = default_parallelism_of(spark), hadoop_settings_of(spark), True
    context = getattr(spark, "sparkContext", None)
    if context is not None:
        check_planner(context.pythonExec)
        is_local = is_one_machine(context.master)

    class PlannedDataSource(OffsetlogDataSource):
        # Since this class is not in a module, Spark sends it to other processes by value, and the settings with it.
        __doc__ = OffsetlogDataSource.__doc__
        default_parallelism = parallelism
        one_machine = is_local
        hadoop = settings

    try:
        spark.dataSource.register(PlannedDataSource)
    except AnalysisException as failure:
        # PySpark 4.0 refuses to register a name that it has already found by itself.  Later versions replace the class.
        if failure.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def check_planner(python: str) -> None:
    """Raises ConfigError if the workers' Python cannot be run on the driver, where Spark plans with it.

    Args:
        python: the program in `PYSPARK_PYTHON`.  A name without a slash is searched on the system's path, and is not
            checked.

    Raises:
        ConfigError: the path does not lead to a program that can be run.
    """
    if "/" not in python or os.access(python, os.X_OK):
        return
    way = "install it on the driver, or name a Python that driver and executors have"
    if not os.path.isabs(python):
        way = f"unpack the workers' archive so that {os.path.abspath(python)} exists, or start in another directory"
    raise ConfigError(
        f"PYSPARK_PYTHON is {python}, which is not a program on the driver, where Spark needs it for planning; {way}"
    )
