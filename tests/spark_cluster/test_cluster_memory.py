"""The memory of Python workers beside executors of 512 MiB, and a driver of 1 GiB: of each view, and of each job."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from depth import by_depth, first_seed
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from benchmarks.spark.log import Shape, write_log
from benchmarks.spark.session import WORKER_MIB_MAX, peak_mib_of, to_noop
from offsetlog.spark.scan.options import VIEWS
from tests.spark_cluster.driver import Driver
from tests.spark_cluster.standalone import WORKERS, StandaloneCluster
from tests.spark_cluster.test_cluster_jobs import run_here

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


def read_whole(spark: SparkSession, log: str, view: str) -> None:
    """Every column of every row comes to a worker's end."""
    to_noop(spark.read.format("offsetlog").option("view", view).load(log))


@pytest.fixture
def executors(cluster: StandaloneCluster, driver: Driver) -> Iterator[set[int]]:
    """The executors of the application; none may run out of memory, nor their Python workers take too much."""
    before = cluster.executors()
    assert len(before) == WORKERS
    for pid in cluster.executor_pids():
        # A worker serves one query after another: its peak begins again with each of them.
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")
    yield before
    assert cluster.executors() == before
    assert peak_mib_of(cluster.executor_pids()) <= WORKER_MIB_MAX


@pytest.mark.usefixtures("executors")
def test_the_state_of_a_large_partition_fits_a_worker(driver: Driver, log: Path) -> None:
    count, _ = driver.run(summed, str(log))
    assert count == RECORDS // 10


@pytest.mark.usefixtures("executors")
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_of_a_large_partition_fits_a_worker(driver: Driver, log: Path, view: str) -> None:
    driver.run(read_whole, str(log), view)


def arguments_of(job: str, log: Path, folder: Path) -> list[object]:
    """The arguments of a job over one log partition of ten topics; it writes to `folder / "out"`, if it writes."""
    out, ends, dump = folder / "out", folder / "ends.json", folder / "dump.jsonl"
    samples = [{"topic": f"orders-{topic:02d}", "partition": part, "log_end_offset": 2 * RECORDS}
               for topic in range(10) for part in range(100)]  # fmt: skip
    ends.write_text("".join(json.dumps(each) + "\n" for each in samples))
    dump.write_text(json.dumps({"group": "new", "topic": "orders-00", "partition": 0, "offset": 100}) + "\n")
    chosen: dict[str, list[object]] = {
        "snapshot": [log, out],
        "audit": [log, "--output", out],
        "verify": [log],
        "lag": [log, "--ends", ends, "--output", out],
        "diff": [log, "--at", f"offset:{RECORDS // 2}", "--output", out],
        "compact-report": [log, "--roll", "--groups", "--output", out],
        "repartition": [log, out, "--partitions", 5],
        "migrate": [log, "--dump", dump, "--dry-run"],
    }
    return [job, *chosen[job]]


@pytest.mark.usefixtures("executors")
@pytest.mark.parametrize(
    "job", ["snapshot", "audit", "verify", "lag", "diff", "compact-report", "repartition", "migrate"]
)
def test_every_job_over_a_large_partition_fits_its_workers(driver: Driver, log: Path, tmp_path: Path, job: str) -> None:
    try:
        code, _, said = driver.run(run_here, *arguments_of(job, log, tmp_path))
    finally:
        # pytest keeps directories of several runs, and these are large.
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
    # A diff that finds something ends with 3.
    assert code == (3 if job == "diff" else 0), said
