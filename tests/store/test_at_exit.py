"""A program that ends without closing its store: it ends soon, and the store is as after a close."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import offsetlog
from offsetlog import MaintenanceConfig
from offsetlog.directory.log_directory import CLEAN_MARKER

BEGIN = """
import os, sys, threading, time
import offsetlog
from offsetlog import MaintenanceConfig

def opened(**settings):
    return offsetlog.open(sys.argv[1], 1, "process", maintenance=MaintenanceConfig(**settings))
"""


def run(path: Path, program: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    source = Path(offsetlog.__file__).parents[1]
    return subprocess.run(
        [sys.executable, *options, "-c", BEGIN + textwrap.dedent(program), str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(source), **environment},
        check=False,
    )


def reopened(path: Path):
    return offsetlog.open(path, maintenance=MaintenanceConfig(enabled=False))


def test_while_maintenance_cleans(path):
    ended = run(
        path,
        """
        store = opened(interval_ms=20, idle_roll_ms=0, cleaner_bytes_per_second=500_000, snapshots=False)
        for number in range(30_000):
            store.commit_one("g", "t", number % 5, number)
        while store.maintenance.status().cleaning is None:
            time.sleep(0.01)
        """,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (path / CLEAN_MARKER).exists()
    with reopened(path) as store:
        assert store.fetch_one("g", "t", 4).offset == 29_999
        assert store.verify() == []


def test_with_a_snapshot_due(path):
    ended = run(
        path,
        """
        store = opened(snapshot_tail_bytes=4096)
        for number in range(2000):
            store.commit_one("g", "t", number, number)
        """,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (path / CLEAN_MARKER).exists()
    with reopened(path) as store:
        assert store.recoveries()[0]["snapshot"] == 2000


def test_it_is_reported_as_of_any_forgotten_store(path):
    ended = run(path, "store = opened()", "-W", "always")
    assert ended.returncode == 0
    assert "ResourceWarning: the store in" in ended.stderr


def test_every_store_is_closed_though_one_fails(path):
    ended = run(
        path,
        """
        from offsetlog.lifecycle.close import StoreCloser
        stores = [offsetlog.open(f"{sys.argv[1]}/{name}", 1, "process") for name in "abc"]
        for store in stores:
            store.commit_one("g", "t", 0, 1)
        """,
        "-W",
        "error::ResourceWarning",
    )
    assert "ResourceWarning" in ended.stderr
    assert all((path / name / CLEAN_MARKER).exists() for name in "abc")


def test_threads_that_outlive_the_main_one_commit_to_their_end(path):
    ended = run(
        path,
        """
        store = opened()
        def work():
            threading.main_thread().join()
            time.sleep(0.2)
            store.commit_one("g", "t", 0, 7)
        threading.Thread(target=work).start()
        """,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    with reopened(path) as store:
        assert store.fetch_one("g", "t", 0).offset == 7


def test_a_handler_at_exit_still_finds_it_open(path):
    ended = run(
        path,
        """
        import atexit
        store = opened()
        atexit.register(lambda: store.commit_one("g", "t", 0, 7))
        """,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    with reopened(path) as store:
        assert store.fetch_one("g", "t", 0).offset == 7


def test_a_child_that_ends_leaves_the_parents_store_alone(path):
    ended = run(
        path,
        """
        store = opened(interval_ms=20, idle_roll_ms=0, cleaner_bytes_per_second=300_000, snapshots=False)
        for number in range(30_000):
            store.commit_one("g", "t", number % 5, number)
        while store.maintenance.status().cleaning is None:
            time.sleep(0.01)
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert not os.path.exists(f"{sys.argv[1]}/.kafka_cleanshutdown")
        store.commit_one("g", "t", 0, 30_000)
        """,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    with reopened(path) as store:
        assert store.fetch_one("g", "t", 0).offset == 30_000


def test_long_calls_of_daemon_threads_are_stopped(path):
    ended = run(
        path,
        """
        store = opened(enabled=False)
        for number in range(3000):
            store.commit_one("g", "t", number % 5, number)
        def work(call):
            try:
                while True:
                    call()
            except offsetlog.errors.ClosedError:
                pass
        for call in (store.verify, store.snapshot, store.compact):
            threading.Thread(target=work, args=(call,), daemon=True).start()
        time.sleep(0.3)
        """,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (path / CLEAN_MARKER).exists()
