"""The data source: `spark.read.format("offsetlog")`, `spark.readStream`, and the ways back.

Only chooses; what reads is in `offsetlog.spark.scan`, what writes in `offsetlog.spark.sink`.
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
    """Logs of committed positions, Kafka's or ours, as DataFrames; see docs/spark.md.

    Attributes:
        default_parallelism: of the cluster; 0 where `register` did not set it.
        one_machine: False where `register` found that executors may be on other machines than the driver.
        hadoop: Hadoop's settings of the session for file systems; none where `register` did not set them.
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
        """The options, and the session's settings where no option says otherwise."""
        given = {name: value for name, value in self.options.items() if is_setting(name)}
        others = {name: value for name, value in self.options.items() if not is_setting(name)}
        return {**others, **self.hadoop, **HadoopSettings.of(given)}

    def schema(self) -> str:
        """Returns the columns of the view that the options name; raises ConfigError."""
        return spark_schema(full_schema(parse(self._given, streaming=None)))

    def reader(self, schema: Any) -> BatchReader:
        """Returns the reader of a batch; raises ConfigError."""
        read = replace(parse(self._given), default_parallelism=self.default_parallelism)
        return make_reader(read, schema)

    def streamReader(self, schema: Any) -> StreamReader | RefusedStreamReader:  # noqa: N802  (PySpark's name)
        """Returns the reader of a stream; where the options are wrong, one that raises ConfigError as it begins."""
        try:
            read = replace(parse(self._given, streaming=True), default_parallelism=self.default_parallelism)
            return make_stream_reader(read, schema)
        except ConfigError as refusal:
            # PySpark closes a reader that it never got, and tells the UnboundLocalError of that last.
            return RefusedStreamReader(refusal)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Returns the writer of a batch; raises as `offsetlog.spark.sink.writer.batch_writer`."""
        # Executors that only read do not load what writes.
        return import_module("offsetlog.spark.sink.writer").batch_writer(
            self._given, schema, overwrite, self.one_machine
        )

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802  (PySpark's name)
        """Returns the writer of a stream; raises as `offsetlog.spark.sink.writer.stream_writer`."""
        return import_module("offsetlog.spark.sink.writer").stream_writer(
            self._given, schema, overwrite, self.one_machine
        )


def register(spark: SparkSession) -> None:
    """Makes `format("offsetlog")` of a session this data source, with what the session knows.

    That is its default parallelism, by which reads are planned, whether executors may be on other machines, where a
    write has to name its staging, and Hadoop's settings for `s3a://` and `abfss://` as they are now: register again
    after a change of them, and where executors came, or went.  Spark plans a Python source in a process that knows
    nothing of the session, so that they travel with the class.  A session of Spark Connect does not give them: then the
    cores of the machine that plans count, settings are options of the read, and tasks refuse a staging that they do not
    share with the driver.

    Raises:
        ConfigError: as `check_planner`.
    """
    parallelism, settings, is_local = default_parallelism_of(spark), hadoop_settings_of(spark), True
    context = getattr(spark, "sparkContext", None)
    if context is not None:
        check_planner(context.pythonExec)
        is_local = is_one_machine(context.master)

    class PlannedDataSource(OffsetlogDataSource):
        # A class that no module has is sent by its value, with the settings in it.
        __doc__ = OffsetlogDataSource.__doc__
        default_parallelism = parallelism
        one_machine = is_local
        hadoop = settings

    try:
        spark.dataSource.register(PlannedDataSource)
    except AnalysisException as failure:
        # PySpark 4.0 refuses a name that it found by itself; later ones replace it.
        if failure.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def check_planner(python: str) -> None:
    """Refuses a Python of the workers that the driver does not have: Spark plans with it, on the driver.

    Args:
        python: the program that `PYSPARK_PYTHON` names; one without a slash is looked for on the path by the system.

    Raises:
        ConfigError: there is no such program.
    """
    if "/" not in python or os.access(python, os.X_OK):
        return
    way = "put it there, or name one that both have"
    if not os.path.isabs(python):
        way = f"unpack the archive that the workers get, so that there is {os.path.abspath(python)}, or start elsewhere"
    raise ConfigError(f"PYSPARK_PYTHON is {python}, with which Spark plans on the driver, too, where it is not: {way}")
