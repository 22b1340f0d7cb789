from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pyspark = pytest.importorskip("pyspark", reason="the extra offsetlog[spark] is not installed")

from pyspark.sql import SparkSession  # noqa: E402  (only where it is there)

#: The JVM reader, where the tests are to run with it: `make test-jvm`.
JAR = os.environ.get("OFFSETLOG_SPARK_JAR", "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


def session(*, master: str = "local[2]", **settings: str) -> SparkSession:
    """A Spark of this process, small and quiet; workers run this interpreter."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("offsetlog tests")
    given = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        **settings,
    }
    if JAR:
        given["spark.jars"] = JAR
    for name, value in given.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark for all tests, its warehouse and scratch in a directory of their own; the data source is registered."""
    scratch = tmp_path_factory.mktemp("spark")
    made = session(**{"spark.sql.warehouse.dir": str(scratch / "warehouse"), "spark.local.dir": str(scratch / "local")})
    yield made
    made.stop()
