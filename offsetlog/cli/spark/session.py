"""Runs the job of a command: starts a Spark session, and turns Spark's failures into errors of offsetlog."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from offsetlog import errors
from offsetlog.cli.output import complain
from offsetlog.cli.spark.options import parse_settings
from offsetlog.errors import CorruptionError, MissingFileError, OffsetLogError
from offsetlog.missing_library import missing_library
from offsetlog.spark.scan.reach import not_on_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def spark_for(
    job: str,
    master: str | None,
    driver_memory: str | None,
    settings: list[str] | None,
    output: str | None = None,
) -> Iterator[SparkSession]:
    """Yields a Spark session for a job, and stops it if it is new; turns Spark's failures into errors of offsetlog.

    `output` is the path that the job writes to, if it writes.

    Raises:
        ConfigError: PySpark is not installed, Spark does not start, or Spark cannot write to a path such as `output`.
        OffsetLogError: the job failed.  If the data source raised an error on an executor, that error is raised here.
            Otherwise the error contains the first line of Spark's message and the exception of the Python worker.
    """
    parsed = parse_settings(settings)
    try:
        from pyspark.sql import SparkSession as Session

        from offsetlog.spark.jobs.hadoop_files import check_writable
        from offsetlog.spark.jobs.session import session_for
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in ("pyspark", "py4j"):
            raise missing_library("a job", "pyspark") from None
        raise
    was_there = Session.getActiveSession() is not None
    spark = session_for(job, master=master, driver_memory=driver_memory, settings=parsed)
    try:
        with own_failures():
            if output is not None:
                check_writable(spark, output)
            yield spark
    finally:
        if not was_there:
            spark.stop()


@contextlib.contextmanager
def checked_on_driver(master: str | None) -> Iterator[None]:
    """Explains the error of a missing log if the job runs on a cluster, where the driver must see the log, too.

    Raises:
        MissingFileError: the driver does not see the log; the message names the ways to read it.  Other errors are not
            changed.
    """
    try:
        yield
    except MissingFileError as failure:
        if master is None or master.startswith("local"):
            raise
        raise not_on_driver(failure) from None


#: How many problems of a log are named; more are only counted.
_PROBLEMS_TOLD = 20


def report_incomplete(problems: Sequence[str]) -> int:
    """Reports on the standard error the problems that make a result incomplete; returns 1 if there are any, else 0."""
    for problem in problems[:_PROBLEMS_TOLD]:
        complain(f"incomplete: {problem}")
    if len(problems) > _PROBLEMS_TOLD:
        complain(f"incomplete: {len(problems) - _PROBLEMS_TOLD} more problems")
    return 1 if problems else 0


_OURS = re.compile(r"^(?:[\w.]+: )*offsetlog\.errors\.(\w+): (.*)$", re.MULTILINE)
#: The first line of a Py4J error, before Java's exception.
_CALL = re.compile(r"An error occurred while calling [\w.$]+\.")
_TRACEBACK = "Traceback (most recent call last):"


@contextlib.contextmanager
def own_failures() -> Iterator[None]:
    """Replaces a failure of Spark by the error of offsetlog that an executor raised.

    If Spark's message contains no such error, the new error has the first line of the message.
    """
    try:
        yield
    except CorruptionError as failure:
        raise _with_way_on(failure) from failure
    except (OffsetLogError, OSError, KeyboardInterrupt):
        raise
    except Exception as failure:
        if type(failure).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raised = failure_of(str(failure))
        raise (_with_way_on(raised) if isinstance(raised, CorruptionError) else raised) from failure


def _with_way_on(failure: CorruptionError) -> OffsetLogError:
    """Adds the advice to use --permissive to the error about a damaged log, unless the error already contains it."""
    if "--permissive" in str(failure):
        return failure
    return type(failure)(
        f"{failure.message}; to skip the damaged part, give --permissive; `offsetlog verify` lists all damage",
        path=failure.path,
        position=failure.position,
        log_offset=failure.log_offset,
    )


def failure_of(text: str) -> OffsetLogError:
    """Makes the error that a message of Spark reports."""
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind: Any = getattr(errors, name, OffsetLogError)
        if isinstance(kind, type) and issubclass(kind, OffsetLogError):
            return kind(message.strip())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = next((line for line in lines if not _CALL.fullmatch(line)), "no reason given").removeprefix(": ")
    parts = ("Spark:", first.removesuffix(_TRACEBACK).strip(), _cause_of(text))
    return OffsetLogError(" ".join(part for part in parts if part))


def _cause_of(text: str) -> str:
    """Returns the exception at the end of the last Python traceback in a text, in one line; "" without a traceback."""
    _, found, after = text.rpartition(_TRACEBACK)
    if not found:
        return ""
    lines = iter(after.splitlines()[1:])
    # The frames are indented; what follows them, up to the JVM's own frames, is the exception.
    message = [next((line for line in lines if line[:1] not in ("", " ", "\t")), "")]
    for line in lines:
        if not line.strip() or line.startswith(("\tat ", "\t...", "Caused by: ", "Driver stacktrace")):
            break
        message.append(line)
    return " ".join(line.strip() for line in message)
