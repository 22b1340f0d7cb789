"""A SparkSession for a job, and the views of a directory in it."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from offsetlog.errors import ConfigError
from offsetlog.spark.jobs.places import check_replaceable
from offsetlog.spark.session_settings import default_parallelism_of
from offsetlog.spark.source import register

#: Silences the messages of the JVM at its start; failures are raised as exceptions.
QUIET = Path(__file__).with_name("log4j2.properties")

#: The most problems that are listed.  A log that is damaged everywhere has as many problems as batches.
PROBLEMS_MAX = 1000

#: The module of the daemon that forks the Python workers of a local session.
WORKER_DAEMON = "offsetlog.spark.jobs.worker_daemon"

_WORKER_PYTHON = "spark.pyspark.python"

#: How often to look for executors, and the pause in between, in seconds.  If there are none after that, the job itself
#: reports this.
_EXECUTOR_LOOKS_MAX = 60
_EXECUTOR_PAUSE_SECONDS = 0.5


def is_submitted() -> bool:
    """Returns whether spark-submit started this program.  If so, spark-submit decides the master and the settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def session_for(
    job: str,
    *,
    master: str | None = None,
    driver_memory: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Returns the active SparkSession, or a new one, and registers the format "offsetlog" in it.

    Args:
        job: the name of the application.
        master: Spark's master.  None means `local[*]`, or, under spark-submit, the master that spark-submit was given.
        driver_memory: the memory of the JVM, such as "1g".
        settings: more settings of Spark; they override the settings that this function makes.

    A local session listens only on the loopback address, and shows neither progress nor web pages.  Its workers run
    this interpreter.  The workers of a cluster run the interpreter that the setting `spark.pyspark.python` names, or
    else the one that `PYSPARK_PYTHON` names.

    Raises:
        ConfigError: Spark does not start; or `master` names a cluster, and neither the setting nor the variable names
            the interpreter of its workers; or `master` is given under spark-submit.
    """
    builder = SparkSession.builder.appName(f"offsetlog {job}")
    submitted = is_submitted()
    if not submitted:
        master = master or "local[*]"
        builder = builder.master(master)
    elif master is not None:
        raise ConfigError("under spark-submit, --master is an option of spark-submit; give it before the program")
    if not submitted and master is not None:
        _set_worker_python(master, settings or {})
    given = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
    if master is not None and master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        given |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET.as_uri()}",
            # If a task fails in this process, the job fails.  The error is then reported once, and not by every thread.
            "spark.log.level": "FATAL",
            "spark.python.daemon.module": WORKER_DAEMON,
            # Spark's default of 200 is only overhead on two cores; for a large shuffle, raise it with --conf.
            "spark.sql.shuffle.partitions": str(max(4, 2 * (os.cpu_count() or 1))),
        }
    if driver_memory is not None:
        given["spark.driver.memory"] = driver_memory
    for name, value in {**given, **(settings or {})}.items():
        builder = builder.config(name, value)
    is_new = SparkSession.getActiveSession() is None
    try:
        spark = builder.getOrCreate()
    except Exception as failure:
        raise ConfigError(f"Spark does not start: {str(failure).strip().partition(chr(10))[0]}") from failure
    if "spark.log.level" not in (settings or {}):
        # These loggers print each failure of a query as JSON with all Java frames, before it is raised.
        for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(logger).setLevel(logging.CRITICAL)
    if "spark.log.level" not in given | dict(settings or {}):
        spark.sparkContext.setLogLevel("ERROR")
    if is_new:
        _wait_for_executors(spark)
    register(spark)
    return spark


def _wait_for_executors(spark: SparkSession) -> None:
    """Waits until the session of a cluster knows the number of its cores, by which reads are planned.

    A session starts before its executors have registered, and then reports two cores.  Executors register one after
    another, so the wait ends when their number has not changed for a second.  With dynamic allocation, executors start
    only when there are tasks, so this function does not wait.  Each read is then planned for the executors that exist.
    """
    context: Any = spark.sparkContext
    is_dynamic = context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true"
    if context.master.startswith("local") or is_dynamic:
        return
    looks: list[tuple[int, int]] = []
    for _ in range(_EXECUTOR_LOOKS_MAX):
        status: Any = context._jsc.sc().getExecutorMemoryStatus()  # includes the driver
        looks = [*looks[-2:], (status.size() - 1, default_parallelism_of(spark))]
        if len(looks) == 3 and looks[0] == looks[1] == looks[2] and looks[0][0] > 0:
            return
        time.sleep(_EXECUTOR_PAUSE_SECONDS)


def _set_worker_python(master: str, settings: Mapping[str, str]) -> None:
    """Sets the Python of a cluster's workers in the environment, since PySpark takes it only from there.

    The setting `spark.pyspark.python` in `settings` comes first, then the environment, and then `spark-defaults.conf`.
    If none of them names a Python, this function raises ConfigError.  The workers would otherwise run their `python3`,
    which most likely has no offsetlog.
    """
    if master.startswith("local"):
        return
    python = settings.get(_WORKER_PYTHON) or os.environ.get("PYSPARK_PYTHON") or _default_setting(_WORKER_PYTHON)
    if not python:
        raise ConfigError(
            f"--master {master}: the workers need a Python that has offsetlog, but its path is not set; give the path "
            f"on the workers with PYSPARK_PYTHON=PATH or --conf {_WORKER_PYTHON}=PATH"
        )
    os.environ["PYSPARK_PYTHON"] = python


def _default_setting(name: str) -> str | None:
    """Returns a setting from `spark-defaults.conf`, or None."""
    directory = os.environ.get("SPARK_CONF_DIR") or os.path.join(_find_spark_home(), "conf")
    try:
        lines = Path(directory, "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    pairs = [re.split(r"\s*[=:\s]\s*", line.strip(), maxsplit=1) for line in lines]
    return next((pair[1] for pair in reversed(pairs) if pair[0] == name and len(pair) == 2), None)


def read_view(
    spark: SparkSession,
    path: str | os.PathLike[str],
    view: str,
    *,
    permissive: bool = False,
    reported: Sequence[str] | None = None,
    **options: object,
) -> DataFrame:
    """Returns a view of a log directory.

    Args:
        spark: the session.
        path: the directory, as the executors reach it.
        view: "commits", "history", "offsets", "groups", "records" or "batches".
        permissive: whether to leave out missing and damaged parts (`completeness.problems_of` returns them).
        reported: with `permissive`, the problems that the caller reports.  If the query meets another problem, it
            fails.  None accepts all problems.
        options: the options of the source.  An option whose value is None is left out.
    """
    if not permissive:
        return view_of(spark, path, view, **options)
    found = view_of(spark, path, view, mode="permissive", **options)
    is_right = fn.col("problem").isNull()
    if reported is not None and len(reported) < PROBLEMS_MAX:
        is_right = fn.when(is_right, True).when(_is_among(reported), False).otherwise(_unreported())
    return found.where(is_right).drop("problem")


def _is_among(reported: Sequence[str]) -> Column:
    if not reported:
        return fn.lit(False)
    # The text of a reported problem begins with the log partition.
    texts = fn.array(*[fn.lit(each) for each in reported])
    return fn.exists(texts, lambda text: text.endswith(fn.col("problem")))


def _unreported() -> Column:
    # Formatted like an error of a worker, so that a command raises the error itself.
    text = fn.concat(
        fn.lit("\noffsetlog.errors."),
        fn.col("problem"),
        fn.lit(
            "; this problem appeared after the check of the log, so the result would not list it; run the job again"
        ),
    )
    return fn.raise_error(text).cast("boolean")


def view_of(spark: SparkSession, path: str | os.PathLike[str], view: str, **options: object) -> DataFrame:
    """Returns a view as the source returns it.  With mode="permissive", each problem is a row of its own."""
    if not str(spark.sparkContext.master).startswith("local"):
        register(spark)  # executors come and go, and the read is planned for the present number of cores
    reader = spark.read.format("offsetlog").option("view", view)
    for name, value in options.items():
        if value is not None:
            reader = reader.option(name, str(value))
    return reader.load(os.fspath(path))


def write_tables(tables: Mapping[str, DataFrame], directory: str, *, overwrite: bool = False) -> None:
    """Writes tables as Parquet, each to a directory that has the name of the table.

    Args:
        tables: the tables by name.
        directory: the directory, as a path or URI that Spark can write to.
        overwrite: whether existing tables are replaced.  If not, Spark refuses to write a table that exists.

    Raises:
        ConfigError: a directory that would be replaced is not that of a table.  Nothing was written.
    """
    if overwrite:
        for name in tables:
            check_replaceable(f"{directory.rstrip('/')}/{name}")
    for name, table in tables.items():
        table.write.mode("overwrite" if overwrite else "errorifexists").parquet(f"{directory.rstrip('/')}/{name}")
