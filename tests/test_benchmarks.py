"""The benchmarks run, and what they measured was right; how fast it was is not looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import offsetlog
from offsetlog.config import PARTITIONS_DEFAULT

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
        "manager",
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
@pytest.mark.parametrize("name", ["commit_dict", "disk/1", "disk/1000", "fetch_one/1e5", "fetch_arrow", "load/random"])
def test_contenders_that_did_the_same_left_the_same(smoke, name):
    digests = {figure["digest"] for figure in figures_of(smoke, name) if figure["digest"]}
    assert len(digests) == 1


def facts_of(found: dict, name: str) -> dict[str, int]:
    (workload,) = (each for each in found["workloads"] if each["name"] == name)
    return workload["facts"]


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["load", "memory"])
def test_what_is_measured_as_a_load_reads_the_whole_log(smoke, kind):
    found = [workload["facts"] for workload in smoke["workloads"] if workload["name"].split("/")[0] == kind]
    assert found
    for facts in found:
        assert facts["bytes of log read"] == facts["bytes of log"] > 0
        assert facts["snapshots used"] == 0


@pytest.mark.ci
def test_what_is_measured_as_a_restart_reads_snapshots_and_the_tail(smoke):
    facts = facts_of(smoke, "restart/50")
    assert facts["snapshots used"] == 3
    assert 0 < facts["bytes of log replayed"] < facts["bytes of log"]
    assert 0 < facts["bytes of it replayed"] < facts["bytes of the longer log"]
    assert facts["bytes read of all files, the check of active segments included"] > facts["bytes of log replayed"]
    assert facts["bytes read of all files of it"] > facts["bytes of it replayed"]


@pytest.mark.ci
def test_a_line_named_after_log_partitions_uses_all_of_them(smoke):
    assert [*facts_of(smoke, "disk/1000").values()] == [PARTITIONS_DEFAULT, 1, 5]


@pytest.mark.ci
def test_the_default_store_is_judged_against_peers_of_the_same_batch(smoke):
    (disk,) = (workload for workload in smoke["workloads"] if workload["name"] == "disk/1000")
    ours, *_ = disk["figures"]
    assert ours["name"].startswith("offsetlog, default")
    peers = [figure for figure in disk["figures"] if figure["name"].split(",")[0] in ("RocksDB", "LMDB", "SQLite")]
    assert len(peers) == 6  # three of rounds, three on end
    assert {figure["operations"] for figure in peers} == {ours["operations"]}
    assert disk["goals"][0]["text"].startswith(f"{ours['name']}: >= 2.5 x ")


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


# ------------------------------------------------------------------------------------ what a workload was seen to do


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


@pytest.fixture
def written(tmp_path):
    """A log directory with a snapshot, and a record after it in one of its two log partitions."""
    with offsetlog.open(tmp_path / "log", 2, "process") as store:
        for number in range(20):
            store.commit_one(f"g{number}", "t", 0, number)
        store.snapshot()
        store.commit_one("g0", "t", 0, 100)
    return tmp_path / "log"


def test_a_load_that_uses_a_snapshot_is_no_load(benchmarks, written):
    from benchmarks.opening import BY_HAND, Opened, log_bytes_of

    size = log_bytes_of(written)
    with offsetlog.open(written, maintenance=BY_HAND) as store:
        opened = Opened.of(store)
    assert opened.snapshots == 2
    assert 0 < opened.log_bytes_read < size
    opened.check_tail("restart", 2, opened.log_bytes_read)
    with pytest.raises(AssertionError, match="expected a load of the whole log"):
        opened.check_whole_log("load", size)
    for wrong in (1, 2):
        with pytest.raises(AssertionError, match="not"):
            opened.check_tail("restart", wrong, opened.log_bytes_read + wrong - 1)
    for snapshot in written.glob("*/offsetlog-snapshot.arrow"):
        snapshot.unlink()
    with offsetlog.open(written, maintenance=BY_HAND) as store:
        opened = Opened.of(store)
    opened.check_whole_log("load", size)
    with pytest.raises(AssertionError, match="expected a load of the whole log"):
        opened.check_whole_log("load", size + 1)
    with pytest.raises(AssertionError, match="expected a load of 2 snapshots"):
        opened.check_tail("restart", 2, size)


def test_a_snapshot_that_was_discarded_is_neither(benchmarks, written):
    from benchmarks.opening import BY_HAND, Opened, log_bytes_of

    for snapshot in written.glob("*/offsetlog-snapshot.arrow"):
        snapshot.write_bytes(b"nonsense")
    with offsetlog.open(written, maintenance=BY_HAND) as store:
        opened = Opened.of(store)
    with pytest.raises(AssertionError):
        opened.check_whole_log("load", log_bytes_of(written))


def test_operations_that_were_not_done_are_a_failure(benchmarks):
    from benchmarks.race import Job, Runner, race, sustain

    class Lazy:
        """Does of every job one operation less than it says, once it was asked for three."""

        def __init__(self) -> None:
            self.done = self.jobs = 0

        def work(self) -> None:
            self.jobs += 1
            self.done += 10 - (self.jobs > 3)

    class Pedantic:
        """Calls as the plugin's `benchmark.pedantic` does."""

        stats = None

        def pedantic(self, function, setup, rounds, warmup_rounds) -> None:
            for _ in range(rounds + warmup_rounds):
                words, _ = setup()
                function(*words)

    for names in ("lazy only", "lazy as another"):
        lazy = Lazy()
        runner = Runner("lazy", lambda number, lazy=lazy: Job(lazy.work, 10), count=lambda lazy=lazy: lazy.done)
        other = Runner("diligent", lambda number: Job(lambda: None, 10))
        with pytest.raises(AssertionError, match="lazy did 9 of 10 operations"):
            race(Pedantic(), [runner] if names == "lazy only" else [other, runner], 5)
    lazy = Lazy()
    with pytest.raises(AssertionError, match="lazy did 48 of 50 operations"):
        sustain(Runner("lazy", lambda number: Job(lazy.work, 10), count=lambda: lazy.done), 0.0)


def test_commits_that_are_not_on_disk_are_a_failure(benchmarks, tmp_path):
    from benchmarks.peers.ours import Ours

    ours = Ours(tmp_path, "disk")
    try:
        ours.store.commit_one("g", "t", 0, 1)
        ours.check_durability()
        ours.store.commit_one("g", "t", 0, 2, durability="process")
        with pytest.raises(AssertionError, match="1 records are not on disk"):
            ours.check_durability()
    finally:
        ours.close()


@pytest.mark.ci
def test_a_peer_that_does_not_sync_is_a_failure(benchmarks, tmp_path):
    from benchmarks.peers.lmdb_peer import Lmdb
    from benchmarks.peers.rocksdb_peer import RocksDb
    from benchmarks.peers.sqlite_peer import Sqlite

    def weaken_sqlite(peer: Sqlite) -> None:
        peer.connection.execute("pragma synchronous=normal")

    def weaken_rocksdb(peer: RocksDb) -> None:
        peer.write_options.sync = False

    for kind, weaken in ((Sqlite, weaken_sqlite), (RocksDb, weaken_rocksdb), (Lmdb, None)):
        (tmp_path / kind.__name__).mkdir()
        peer = kind(tmp_path / kind.__name__, sync=weaken is not None)
        try:
            peer.check_durability()
            if weaken is None:
                peer.sync = True  # an environment cannot be changed; this one does not sync
            else:
                weaken(peer)
            with pytest.raises(AssertionError, match=peer.name):
                peer.check_durability()
        finally:
            peer.close()


@pytest.mark.ci
def test_log_partitions_without_a_group_are_a_failure(benchmarks, tmp_path):
    from benchmarks.engine import disk
    from benchmarks.workload import Options, Run, Workload

    run = Run(Options(smoke=True), Workload("few", lambda run: None, ""), None, tmp_path)
    stores = disk._stores(run)
    try:
        for ours in stores:
            ours.store.commit_one("g", "t", 0, 1)
        with pytest.raises(AssertionError, match="default, 4 log partitions: 1 are used"):
            disk._check_partitions(run, stores)
    finally:
        for ours in stores:
            ours.close()


@pytest.mark.ci
def test_an_unknown_workload_is_one_line():
    words = [sys.executable, "-m", "benchmarks", "engine", "--only", "nonsense"]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "error"})
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1


@pytest.mark.ci
def test_the_server_is_measured_and_its_answers_are_compared(tmp_path):
    words = [f"--only={name}" for name in ("commit/pipelined", "fetch/offsets", "idle")]
    found = run_benchmarks(tmp_path, *words, suite="server")
    assert not found["failures"]
    names = [figure["name"] for figure in figures_of(found, "commit/pipelined")]
    assert names == ["offsetlog, process", "offsetlog, disk", "bare C server"]
    assert all(figure["median"] > 0 for name in ("fetch/offsets", "idle") for figure in figures_of(found, name))


@pytest.mark.ci
def test_the_sink_is_measured_and_what_it_published_is_compared(tmp_path):
    pytest.importorskip("pyspark", reason="the extra offsetlog[spark] is not installed")
    found = run_benchmarks(tmp_path, "--only", "epoch/4", "--only", "publish", suite="spark")
    assert not found["failures"]
    first, later = figures_of(found, "epoch/4")
    assert later["rounds"] == 5
    assert first["digest"] == later["digest"]
    (published,) = figures_of(found, "publish")
    assert published["digest"] is not None
    assert published["operations"] == 2000


@pytest.mark.ci
def test_a_migration_is_measured_beside_kazoo_and_what_it_moved_is_compared(tmp_path):
    pytest.importorskip("kazoo", reason="the extra offsetlog[zookeeper] is not installed")
    found = run_benchmarks(tmp_path, suite="zookeeper")
    assert not found["failures"]
    for name in ("migrate/to-zookeeper", "migrate/from-zookeeper", "migrate/from-zookeeper-one-by-one"):
        figures = figures_of(found, name)
        assert [figure["name"] for figure in figures] == [
            "migrate",
            "kazoo alone",
            "migrate, processor",
            "kazoo alone, processor",
        ]
        assert {figure["operations"] for figure in figures} == {400}


@pytest.mark.long
@pytest.mark.spark
def test_the_data_source_is_measured_beside_its_peers(tmp_path):
    pytest.importorskip("pyspark", reason="the extra offsetlog[spark] is not installed")
    found = run_benchmarks(tmp_path, "--only", "commits", "--only", "offsets/50", suite="spark")
    assert not found["failures"]
    # The reader in the JVM is measured only where `make jvm` has made it.
    jvm = ["offsetlog, JVM reader"] if (ROOT / "build/jvm/offsetlog-spark.jar").exists() else []
    peers_of = {"17": ["one prebuilt batch", "Parquet"], "8": ["one prebuilt batch", "Parquet"], "sum": ["Parquet"]}
    for name, peers in peers_of.items():
        assert [figure["name"] for figure in figures_of(found, f"commits/{name}")] == ["offsetlog", *peers, *jvm]
    assert [figure["name"] for figure in figures_of(found, "offsets/50")] == ["offsetlog", "groupBy over Parquet"]
    for each in found["workloads"]:
        # The memory of a worker does not depend on how much there is to read.
        (peak,) = [goal for goal in each["goals"] if goal["text"].startswith("largest Python worker")]
        assert peak["actual"] > 20
        assert peak["met"]
