"""Each job, started by its command with --master of a cluster, does what it does in local mode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import offsetlog
from offsetlog import TopicPartition
from tests.spark.missing_parts import SMALL, build, remove_a_middle, segments_of
from tests.spark.reading import rows_of
from tests.spark.sinks import positions
from tests.spark_cluster.driver import Driver
from tests.spark_cluster.standalone import SETTINGS, StandaloneCluster

#: A job that hangs ends some time.
JOB_SECONDS = 1200

Outcome = tuple[int, str, str]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A Spark in local mode, to compare with."""
    made = Driver("local[2]", str(tmp_path_factory.mktemp("local")))
    yield made
    made.close()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jobs") / "log"
    with offsetlog.open(path, 2, config=SMALL, durability="process") as store:
        for number in range(500):
            store.commit(f"group-{number % 13}", {TopicPartition(f"topic-{number % 3}", number % 5): number % 400})
            if number % 50 == 0:
                with store.transaction(f"group-{number % 13}", 900) as transaction:
                    transaction.commit({TopicPartition("topic-0", 0): number})
    return path


def run_on_cluster(cluster: StandaloneCluster, *arguments: object, python: str = sys.executable) -> Outcome:
    """Runs a command in a process of its own, as a user does."""
    settings = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    command = [sys.executable, "-m", "offsetlog", "spark", *map(str, arguments), "--master", cluster.url, *settings]
    done = subprocess.run(
        command,
        env={**os.environ, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=JOB_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def run_here(spark: SparkSession, *arguments: object) -> Outcome:
    """Runs a command in the process of a driver, which takes the session that is there."""
    from typer.testing import CliRunner

    from offsetlog.cli.app import application

    done = CliRunner().invoke(application("spark"), ["spark", *map(str, arguments)], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.stdout, done.stderr


def arguments_of(job: str, log: Path, folder: Path) -> list[object]:
    """The arguments of a job that writes to `folder / "out"`, if it writes."""
    folder.mkdir()
    out, ends, dump = folder / "out", folder / "ends.json", folder / "dump.jsonl"
    samples = [{"topic": f"topic-{topic}", "partition": part, "log_end_offset": 5000}
               for topic in range(3) for part in range(5)]  # fmt: skip
    ends.write_text("".join(json.dumps(each) + "\n" for each in samples))
    rows = [{"group": f"new-{number}", "topic": "orders", "partition": number, "offset": 100 + number}
            for number in range(40)]  # fmt: skip
    dump.write_text("".join(json.dumps(each) + "\n" for each in rows))
    chosen: dict[str, list[object]] = {
        "snapshot": [log, out],
        "audit": [log, "--output", out],
        "verify": [log],
        "lag": [log, "--ends", ends, "--output", out],
        "diff": [log, "--at", json.dumps({"0": 100, "1": 100}), "--output", out],
        "compact-report": [log, "--roll", "--groups", "--output", out],
        "repartition": [log, out, "--partitions", 5],
        "migrate": [out, "--dump", dump, "--partitions", 3],
    }
    return [job, *chosen[job], "--format", "json"]


def tables_in(out: Path) -> dict[str, list[str]]:
    """The rows of each table below a directory."""
    found: dict[str, list[str]] = {}
    for each in sorted({path.parent for path in out.rglob("*.parquet")}):
        rows = pq.ParquetDataset(each).read().to_pylist()
        found[str(each.relative_to(out))] = sorted(map(repr, rows))
    return found


def printed(outcome: Outcome, folder: Path) -> list[Any]:
    """The JSON that a command printed, without the name of its directory and the time of day."""
    lines = outcome[1].replace(str(folder), "FOLDER").splitlines()
    found = [json.loads(line) for line in lines] if len(lines) > 1 and lines[0].endswith("}") else json.loads(
        "\n".join(lines) or "null"
    )  # fmt: skip
    found = found if isinstance(found, list) else [found]
    return [{**each, "taken_at": None} if isinstance(each, dict) else each for each in found]


@pytest.mark.parametrize(
    "job", ["snapshot", "audit", "verify", "lag", "diff", "compact-report", "repartition", "migrate"]
)
def test_a_job_does_on_a_cluster_what_it_does_locally(
    cluster: StandaloneCluster, local: Driver, log: Path, tmp_path: Path, job: str
) -> None:
    there = run_on_cluster(cluster, *arguments_of(job, log, tmp_path / "cluster"))
    here = local.run(run_here, *arguments_of(job, log, tmp_path / "local"))
    # A diff that finds something ends with 3.
    assert there[0] == here[0] == (3 if job == "diff" else 0), there[2]
    assert printed(there, tmp_path / "cluster") == printed(here, tmp_path / "local")
    outputs = [tmp_path / each / "out" for each in ("cluster", "local")]
    if job in ("repartition", "migrate"):
        found = [positions(out) for out in outputs]
    else:
        found = [tables_in(out) for out in outputs]
    assert found[0] == found[1]
    assert found[0] or job == "verify"
    if job == "snapshot":
        assert sum(len(rows) for rows in found[0].values()) == len(rows_of(log, view="offsets"))


def test_the_cause_reaches_who_started_a_job(cluster: StandaloneCluster, tmp_path: Path) -> None:
    damaged, lossy = build(tmp_path / "damaged", "closed"), build(tmp_path / "lossy", "closed")
    segment = segments_of(damaged)[1]
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)
    remove_a_middle(lossy)
    for path, words in ((damaged, [segment.name, "byte "]), (lossy, ["--permissive", "__consumer_offsets-0"])):
        code, _, said = run_on_cluster(cluster, "snapshot", path, tmp_path / "out")
        last = said.strip().splitlines()[-1]
        assert code == 2, said
        assert last.startswith("offsetlog: ")
        assert [word for word in words if word not in last] == [], last
        assert not (tmp_path / "out" / "_SUCCESS").exists()


def test_a_python_without_offsetlog_is_named(cluster: StandaloneCluster, log: Path, tmp_path: Path) -> None:
    # It has the same version, so that nothing but the package is missing.
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / "bin" / "python"
    code, _, said = run_on_cluster(cluster, "snapshot", log, tmp_path / "out", python=str(python))
    last = said.strip().splitlines()[-1]
    assert code == 2, said
    assert "ModuleNotFoundError: No module named" in last
