"""The memory of Python workers beside executors of 512 MiB."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from depth import by_depth, first_seed
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from benchmarks.spark.log import Shape, write_log
from benchmarks.spark.session import WORKER_MIB_MAX, peak_mib_of
from tests.spark_cluster.driver import Driver
from tests.spark_cluster.standalone import WORKERS, StandaloneCluster

#: Records over a tenth as many keys, in one log partition.
RECORDS = by_depth(gate=500_000, long=10_000_000)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("memory") / "log"
    seed = first_seed()
    print(f"OL_SEED={seed}")
    write_log(path, Shape(RECORDS, RECORDS // 10, 1), seed)
    yield path
    # pytest keeps directories of several runs, and this one is large.
    shutil.rmtree(path)


def summed(spark: SparkSession, log: str) -> tuple[int, int]:
    rows = spark.read.format("offsetlog").option("view", "offsets").load(log)
    found = rows.agg(fn.count("group"), fn.countDistinct("group", "topic", "partition"), fn.sum("offset")).first()
    assert found is not None
    assert found[0] == found[1]
    return found[0], found[2]


def test_the_state_of_a_large_partition_fits_a_worker(cluster: StandaloneCluster, driver: Driver, log: Path) -> None:
    before = cluster.executors()
    assert len(before) == WORKERS
    count, _ = driver.run(summed, str(log))
    assert count == RECORDS // 10
    # None ran out of memory and was started again.
    assert cluster.executors() == before
    assert peak_mib_of(cluster.executor_pids()) <= WORKER_MIB_MAX
