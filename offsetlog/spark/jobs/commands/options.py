"""What the commands of all jobs take, and how they run a job."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offsetlog import errors
from offsetlog.errors import ConfigError, InvalidArgumentError, OffsetLogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Not a Path: on a cluster it may be the address of a store of objects.
DirectoryPath = Annotated[
    str, typer.Argument(metavar="PATH", help="A log directory, ours or a broker's.", show_default=False)
]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's master; local[*] by default.", show_default=False),
]
DriverMemory = Annotated[
    str | None,
    typer.Option("--driver-memory", metavar="SIZE", help="Of Spark's JVM, as 1g.", show_default=False),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="NAME=VALUE", help="A setting of Spark. Can be given several times.", show_default=False
    ),
]
LogPartitions = Annotated[
    str | None,
    typer.Option("--log-partition", metavar="N,...", help="Only these log partitions, as 0,3-5.", show_default=False),
]
OutputDirectory = Annotated[
    str | None,
    typer.Option("--output", metavar="DIR", help="Write the tables there, as Parquet.", show_default=False),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


def _parsed(settings: list[str] | None) -> dict[str, str]:
    pairs = {}
    for setting in settings or []:
        name, equals, value = setting.partition("=")
        if not name or not equals:
            raise InvalidArgumentError(f"{setting!r} is no setting; one is written NAME=VALUE")
        pairs[name] = value
    return pairs


@contextlib.contextmanager
def spark_for(
    job: str, master: str | None, driver_memory: str | None, settings: list[str] | None
) -> Iterator[SparkSession]:
    """Gives a session for a job, and stops it unless it was there before; Spark's failures become ours.

    Raises:
        ConfigError: PySpark is not installed, or Spark does not start.
        OffsetLogError: as the source raised it on an executor, or with the first line of what Spark says.
    """
    parsed = _parsed(settings)
    try:
        from pyspark.sql import SparkSession as Session

        from offsetlog.spark.jobs.session import session_for
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in ("pyspark", "py4j"):
            raise ConfigError("the jobs need PySpark, which is not installed: pip install 'offsetlog[spark]'") from None
        raise
    was_there = Session.getActiveSession() is not None
    spark = session_for(job, master=master, driver_memory=driver_memory, settings=parsed)
    try:
        with told_plainly():
            yield spark
    finally:
        if not was_there:
            spark.stop()


_OURS = re.compile(r"^(?:[\w.]+: )*offsetlog\.errors\.(\w+): (.*)$", re.MULTILINE)


@contextlib.contextmanager
def told_plainly() -> Iterator[None]:
    """Turns a failure of Spark into one of ours: what an executor raised, or the first line of what Spark says."""
    try:
        yield
    except (OffsetLogError, OSError, KeyboardInterrupt):
        raise
    except Exception as failure:
        if type(failure).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise failure_of(str(failure)) from failure


def failure_of(text: str) -> OffsetLogError:
    """Returns the error that a text of Spark's tells of."""
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind: Any = getattr(errors, name, OffsetLogError)
        if isinstance(kind, type) and issubclass(kind, OffsetLogError):
            return kind(message.strip())
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return OffsetLogError(f"Spark: {first}")
