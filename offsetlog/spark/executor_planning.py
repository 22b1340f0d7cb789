"""Plans reads of a log that the executors see and the driver does not: one task on an executor plans each read."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as fn

from offsetlog.errors import ConfigError, OffsetLogError
from offsetlog.spark.scan.batch import Planned, PlannedReader, PlanOnExecutor
from offsetlog.spark.scan.completeness import warn_of
from offsetlog.spark.scan.hadoop_settings import HadoopSettings
from offsetlog.spark.scan.options import parse
from offsetlog.spark.scan.plan import Task
from offsetlog.spark.scan.views import asked_schema
from offsetlog.spark.session_settings import default_parallelism_of, hadoop_settings_of
from offsetlog.spark.source import OffsetlogDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAME = "offsetlog_planned"
#: This lock is held from the registration of a source until the load that uses it, so that no other registration
#: happens in between.
_REGISTERING = threading.Lock()


def read_on_executors(spark: SparkSession, path: str | os.PathLike[str], **options: object) -> DataFrame:
    """Returns a view of a log that only the executors see, as `spark.read.format("offsetlog")` does for other logs.

    During this call, one task on some executor plans the read; all executors must see the same log at the path.  Each
    run of the DataFrame reads the log as it was planned.  A witness is a file that shows whether the log is complete.
    If a witness is missing or damaged, the driver logs a warning.

    >>> offsets = read_on_executors(spark, "/var/kafka-logs", view="offsets")  # doctest: +SKIP

    Args:
        spark: the session.
        path: the path of the log, as the executors reach it.
        options: the options of the source, except `pushdown`.  An option whose value is None is left out.

    Raises:
        ConfigError: an option is unknown or invalid, or the option is `pushdown`, which needs a plan on the driver.
        MissingFileError, InvalidArgumentError, StorageError: the executor that planned the read does not see the log.
        DataLossError, PossibleLossError, CorruptionError: a part of the log is missing or damaged, with mode=failfast.
        PythonException: the task failed for another reason, e.g. because its Python has no offsetlog.

    Can be called from any thread that may use the session.
    """
    given = {name: str(value) for name, value in options.items() if value is not None}
    settings = hadoop_settings_of(spark)
    asked = parse({**settings, **given, "path": os.fspath(path)})
    read = replace(asked, default_parallelism=default_parallelism_of(spark))
    if read.pushdown:
        raise ConfigError(
            "leave out pushdown=true, because the executor that plans the read does not know Spark's filters; to read "
            "less, give the options group, topic, partition or partitions"
        )
    planning = fn.udf(PlanOnExecutor(read), "binary", useArrow=False)
    (row,) = spark.range(0, 1, 1, 1).select(planning().alias("planned")).collect()
    planned: Planned = pickle.loads(row["planned"])
    warn_of(planned.doubts)
    if isinstance(planned.tasks, OffsetLogError):
        raise planned.tasks
    with _REGISTERING:
        spark.dataSource.register(_source_of(planned.tasks, settings))
        return spark.read.format(_NAME).options(**given).load(os.fspath(path))


def _source_of(tasks: Sequence[Task], settings: HadoopSettings) -> type[OffsetlogDataSource]:
    planned = tuple(tasks)

    class PlannedDataSource(OffsetlogDataSource):
        # Since this class is not in a module, Spark sends it to other processes by value, and the tasks with it.
        __doc__ = OffsetlogDataSource.__doc__
        hadoop = settings

        @classmethod
        def name(cls) -> str:
            return _NAME

        def reader(self, schema: Any) -> PlannedReader:
            read = parse(self._given)
            return PlannedReader(read, asked_schema(read, schema), planned)

    return PlannedDataSource
