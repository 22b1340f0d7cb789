"""A driver in a process of its own, since a process has one Spark at most.

It calls a function of a module with its SparkSession first, and sends back the result.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from tests.spark.process_trees import family_of, kill, wait_for_end
from tests.spark_cluster.standalone import SETTINGS

T = TypeVar("T")


class DriverError(Exception):
    """A function of a driver raised something; the text has its type and all that it says."""


class Driver:
    """A driver of an application on a cluster; close it, whatever happens."""

    def __init__(self, url: str, scratch: str, *, registered: bool = True) -> None:
        """Starts the process, and in it the session; `registered`: with the data source planned for the session."""
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, mp_context=context)
        try:
            self._pid = self._pool.submit(_start, url, scratch, registered).result()
        except BaseException:
            self._pool.shutdown()
            raise

    def start(self, function: Callable[..., T], *arguments: Any, **named: Any) -> Future[T]:
        """Has the driver call a function."""
        return self._pool.submit(_call, function, arguments, named)

    def run(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Returns what a function returns; raises DriverError where it raises."""
        return self.start(function, *arguments, **named).result()

    def wait_for_executors(self, count: int, seconds: float = 120) -> None:
        """Waits until the application has so many; raises AssertionError where it does not get them."""
        deadline = time.monotonic() + seconds
        while (found := self.run(_executor_count)) != count:
            assert time.monotonic() < deadline, f"{found} executors, not {count}"
            time.sleep(0.05)

    def close(self) -> None:
        """Ends the application and its processes."""
        family = family_of(self._pid)
        try:
            self._pool.submit(_stop).result(60)
        finally:
            kill(family)
            self._pool.shutdown()
            wait_for_end(family)


def _start(url: str, scratch: str, registered: bool) -> int:
    from offsetlog.spark import register
    from tests.spark.conftest import session

    given = {"spark.sql.warehouse.dir": f"{scratch}/warehouse", "spark.local.dir": f"{scratch}/local"}
    started = session(master=url, **SETTINGS, **given)
    if registered:
        register(started)
    return os.getpid()


def _call(function: Callable[..., T], arguments: tuple[Any, ...], named: dict[str, Any]) -> T:
    try:
        return function(_session(), *arguments, **named)
    except AssertionError:
        raise
    except Exception as failure:
        # Those of Spark hold objects of the JVM, which cannot be sent.
        raise DriverError(f"{type(failure).__name__}: {failure}") from None


def _executor_count(spark: SparkSession) -> int:
    # The driver is one of those that hold blocks.
    context: Any = spark.sparkContext._jsc
    return int(context.sc().getExecutorMemoryStatus().size()) - 1


def _stop() -> None:
    _session().stop()


def _session() -> SparkSession:
    found = SparkSession.getActiveSession()
    assert found is not None
    return found
