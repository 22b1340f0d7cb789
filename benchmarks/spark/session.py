"""Makes the Spark session of the measurements, with two cores and a driver of 1 GiB; measures its workers' memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from offsetlog.spark.source import register

WORKER_MIB_MAX = 512
#: The JVM reader that `make jvm` builds.
JAR = Path(__file__).parents[2] / "build" / "jvm" / "offsetlog-spark.jar"


@contextmanager
def spark_session(scratch: Path, *, jar: bool = False) -> Iterator[SparkSession]:
    """Yields a session with local[2] and -Xmx1g; with `jar`, the JVM reader takes the place of the Python source."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    builder = SparkSession.builder.master("local[2]").appName("offsetlog benchmarks")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.ui.showConsoleProgress": "false",
        **({"spark.jars": str(JAR)} if jar else {}),
    }.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    register(made)
    try:
        yield made
    finally:
        made.stop()
        _end_jvm()


def _end_jvm() -> None:
    """Ends the JVM and waits until it has removed its scratch files.  The next session starts with fresh memory."""
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)
    SparkContext._gateway = SparkContext._jvm = None


def to_noop(frame: DataFrame) -> None:
    """Runs a query to its end and discards the rows."""
    frame.write.format("noop").mode("overwrite").save()


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found += [int(entry.name), *_children(int(entry.name))]
    return found


def worker_peak_mib() -> float:
    """Returns the largest resident set, in MiB, that a Python worker of this process's Spark has had."""
    return peak_mib_of(_children(os.getpid()))


def peak_mib_of(processes: Iterable[int]) -> float:
    """Returns the largest resident set, in MiB, that a Python worker among the processes has had."""
    peak = 0
    for process in processes:
        try:
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            status: dict[str, Any] = dict(
                line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines() if ":" in line
            )
        except OSError:
            continue
        if (
            (b"pyspark" in command or b"block_worker" in command)
            and b"java" not in command.split(b"\0")[0]
            and "VmHWM" in status
        ):
            peak = max(peak, int(status["VmHWM"].split()[0]))
    if peak == 0:
        raise AssertionError("no Python worker is left whose memory could be measured")
    return peak / 1024
