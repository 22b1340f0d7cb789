"""A log that the workers see and the driver does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from offsetlog.spark import read_on_executors
from offsetlog.spark.scan.options import VIEWS
from tests.spark.missing_parts import build, remove_the_directory
from tests.spark.reading import rows_of
from tests.spark_cluster.driver import Driver, DriverError
from tests.spark_cluster.standalone import StandaloneCluster
from tests.spark_cluster.test_cluster_views import ordered, view


@pytest.fixture(scope="module")
def logs(running_cluster: StandaloneCluster) -> tuple[Path, Path]:
    """A log as this process sees it, and as the workers do."""
    if running_cluster.hidden is None:
        pytest.skip("this machine lets nobody mount a directory in a namespace of its own (unshare --mount)")
    build(running_cluster.shown / "log", "closed")
    return running_cluster.shown / "log", running_cluster.hidden / "log"


def on_executors(spark: SparkSession, path: str, **options: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in read_on_executors(spark, path, **options).collect()]


@pytest.mark.parametrize("name", VIEWS)
def test_an_executor_plans_what_the_driver_cannot(driver: Driver, logs: tuple[Path, Path], name: str) -> None:
    shown, hidden = logs
    found = driver.run(on_executors, str(hidden), view=name, splitBytes=4000, minPartitions=8)
    found = [{key: bytes(each) if isinstance(each, bytearray) else each for key, each in row.items()}
             for row in found]  # fmt: skip
    assert ordered(found) == ordered(rows_of(shown, view=name)) != []


def test_the_source_says_that_the_driver_plans(driver: Driver, logs: tuple[Path, Path]) -> None:
    shown, hidden = logs
    with pytest.raises(DriverError, match=r"MissingFileError: .*the driver plans a read.*read_on_executors"):
        driver.run(view, str(hidden))
    # A log that the driver sees and no executor does fails in a task, with its name.
    gone = shown.with_name("of the driver")
    assert driver.run(view, str(shown))[0] != []
    with pytest.raises(DriverError, match="MissingFileError"):
        driver.run(on_executors, str(gone))


def test_an_executor_finds_what_is_missing(driver: Driver, running_cluster: StandaloneCluster, logs: Any) -> None:
    log = build(running_cluster.shown / "without", "closed")
    remove_the_directory(log)
    with pytest.raises(DriverError, match=r"^DataLossError: .*log partition 0"):
        driver.run(on_executors, str(logs[1].with_name("without")))


def test_a_job_says_that_the_driver_plans(cluster: StandaloneCluster, logs: tuple[Path, Path], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "offsetlog", "spark", "snapshot", logs[1], tmp_path / "out", "--master", cluster.url],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "the driver plans a read" in done.stderr
    assert str(logs[1]) in done.stderr
