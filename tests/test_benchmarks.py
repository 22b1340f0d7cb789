"""The benchmarks run, and what they measured was right; how fast it was is not looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = [
    pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="the benchmarks are not beside the tests"),
]

# These figures are of something that keeps no offsets.
STATELESS = ("bare C loop", "the caller's loop", "store.memory()")


def run_benchmarks(path: Path, *words: str, suite: str = "engine") -> dict:
    words = (sys.executable, "-m", "benchmarks", suite, "--smoke", "--directory", str(path), *words)
    found = path / "found.json"
    # The benchmarks run a pytest of their own, which must not take itself for a worker of this one.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    words = (*words, "--json", str(found))
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, env=outside)
    assert run.returncode == 0, run.stdout + run.stderr
    left = [entry.name for entry in path.iterdir() if entry != found]
    assert not left
    return json.loads(found.read_text())


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    return run_benchmarks(tmp_path_factory.mktemp("smoke"))


def figures_of(found: dict, name: str) -> list[dict]:
    (workload,) = (each for each in found["workloads"] if each["name"] == name)
    return workload["figures"]


@pytest.mark.ci
def test_every_kind_of_workload_runs(smoke):
    kinds = {workload["name"].split("/")[0] for workload in smoke["workloads"]}
    assert kinds == {
        "clean",
        "commit_one",
        "commit_dict",
        "commit_arrow",
        "disk",
        "load",
        "fetch_one",
        "fetch_arrow",
        "memory",
        "restart",
    }
    assert not smoke["failures"]


@pytest.mark.ci
def test_a_report_names_machine_seed_and_table(smoke):
    assert {"cpu", "cores", "memory", "kernel", "python", "compiler", "software"} <= smoke["machine"].keys()
    assert smoke["options"]["seed"] == 1
    for workload in smoke["workloads"]:
        text = " ".join(workload["conditions"])
        assert "keys" in text
        assert "log partition" in text or workload["name"].startswith("disk")


@pytest.mark.ci
def test_every_figure_has_the_digest_of_what_was_left(smoke):
    without = [
        (workload["name"], figure["name"])
        for workload in smoke["workloads"]
        for figure in workload["figures"]
        if figure["digest"] is None and not figure["name"].startswith(STATELESS)
    ]
    assert not without


@pytest.mark.ci
@pytest.mark.parametrize("name", ["commit_dict", "disk/1", "disk/100", "fetch_one/1e5", "fetch_arrow", "load/random"])
def test_contenders_that_did_the_same_left_the_same(smoke, name):
    digests = {figure["digest"] for figure in figures_of(smoke, name) if figure["digest"]}
    assert len(digests) == 1


@pytest.mark.ci
def test_the_seed_decides_the_workload(smoke, tmp_path):
    same, other = tmp_path / "same", tmp_path / "other"
    same.mkdir()
    other.mkdir()
    before = figures_of(smoke, "load/random")[0]["digest"]
    assert figures_of(run_benchmarks(same, "--only", "load/random"), "load/random")[0]["digest"] == before
    found = run_benchmarks(other, "--only", "load/random", "--seed", "2")
    assert figures_of(found, "load/random")[0]["digest"] != before


@pytest.mark.ci
def test_a_wrong_result_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.keys import KeySpace
    from benchmarks.peers.sqlite_peer import Sqlite
    from benchmarks.workload import Options, Run, Workload

    class Forgetful(Sqlite):
        def commit_each(self, rows, base):
            super().commit_each(rows[:-1], base)

    keys = KeySpace(2, 3, 4)
    run = Run(Options(smoke=True), Workload("wrong", lambda run: None, ""), None, tmp_path)
    contender = Forgetful(run.new_directory(), sync=False)
    indices = [1, 5, 7]

    def measure() -> None:
        with run.filled(keys, contender):
            contender.commit_each(keys.rows(indices), 100)
            run.committed(contender, indices, [100, 101, 102])

    with pytest.raises(AssertionError, match="wrong for 1 of 24 keys"):
        measure()


@pytest.mark.ci
def test_an_unknown_workload_is_one_line():
    words = [sys.executable, "-m", "benchmarks", "engine", "--only", "nonsense"]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "error"})
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1


@pytest.mark.long
@pytest.mark.spark
def test_the_data_source_is_measured_beside_its_peers(tmp_path):
    pytest.importorskip("pyspark", reason="the extra offsetlog[spark] is not installed")
    found = run_benchmarks(tmp_path, "--only", "commits", "--only", "offsets/50", suite="spark")
    assert not found["failures"]
    for columns in ("commits/17", "commits/8"):
        names = [figure["name"] for figure in figures_of(found, columns)]
        assert names == ["offsetlog", "one prebuilt batch", "Parquet"]
    assert [figure["name"] for figure in figures_of(found, "offsets/50")] == ["offsetlog", "groupBy over Parquet"]
    for each in found["workloads"]:
        # What a worker needs does not depend on how much there is to read.
        (peak,) = [goal for goal in each["goals"] if goal["text"].startswith("largest Python worker")]
        assert peak["actual"] > 20
        assert peak["met"]
