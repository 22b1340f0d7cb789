from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra offsetlog[spark] is not installed")

from tests.spark_cluster.driver import Driver
from tests.spark_cluster.standalone import WORKERS, StandaloneCluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="package")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """One cluster for all tests of this folder."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    made = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


@pytest.fixture
def cluster(running_cluster: StandaloneCluster) -> StandaloneCluster:
    """The cluster with all its workers, also after a test that killed one."""
    running_cluster.start_missing_workers()
    return running_cluster


@pytest.fixture(scope="module")
def running_driver(
    running_cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """One application for the tests of a file; it takes all cores of the cluster."""
    running_cluster.start_missing_workers()
    made = Driver(running_cluster.url, str(tmp_path_factory.mktemp("driver")))
    yield made
    made.close()


@pytest.fixture
def driver(cluster: StandaloneCluster, running_driver: Driver) -> Driver:
    """That application, on all workers."""
    running_driver.wait_for_executors(WORKERS)
    return running_driver
