"""A restart with the default settings after a committing process was killed; it replays the log after the snapshots."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from pytest_benchmark.stats import Stats

import offsetlog
from benchmarks.keys import KeySpace
from benchmarks.opening import log_bytes_of
from benchmarks.results import Figure
from benchmarks.workload import REGISTRY, Run, Workload

OPEN = "open after a kill"
LOAD_SECONDS = 60


def _process(*words: object) -> list[str]:
    return [sys.executable, "-m", "benchmarks.engine.killed_process", *map(str, words)]


def _fill(run: Run, path: Path, keys: KeySpace, log_partitions: int) -> None:
    offsets = np.random.default_rng(run.seed).integers(1, 1 << 40, keys.count)
    with offsetlog.open(path, log_partitions, "process") as store:
        for indices in keys.chunks():
            store.commit_arrow(keys.columns(indices, offsets[indices], dictionary=True))


def _load_and_kill(run: Run, path: Path, keys: KeySpace, seed: int) -> None:
    words = _process("load", path, seed, keys.groups, keys.topics, keys.partitions)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as loading:
        assert loading.stdout is not None
        if loading.stdout.readline() != "loading\n":
            raise AssertionError(f"{run.report.name}: the load did not begin")
        time.sleep(run.size(LOAD_SECONDS, 1))
        loading.kill()


def _restart(run: Run, path: Path) -> dict:
    done = subprocess.run(_process("restart", path), stdout=subprocess.PIPE, text=True, check=False)
    found: dict = json.loads(done.stdout)
    if found["opened"]["discarded"]:
        raise AssertionError(f"{run.report.name}: {found['opened']['discarded']}")
    return found


def _measure(run: Run, log_partitions: int, shape: tuple[int, int, int]) -> None:
    keys, path = KeySpace(*shape), run.new_directory()
    _fill(run, path, keys, log_partitions)
    filled = log_bytes_of(path)
    stats, read, digest = Stats(), [], ""
    for number in range(run.rounds):
        _load_and_kill(run, path, keys, run.seed + number)
        found = _restart(run, path)
        stats.update(found["seconds"])
        read.append(found["opened"]["log_bytes_read"])
        if _restart(run, path)["digest"] != found["digest"]:
            raise AssertionError(f"{run.report.name}: two opens of one directory found different states")
        digest = found["digest"]
    run.condition(f"{keys} in {log_partitions} log partition(s), {filled / 1e6:,.0f} MB of log before the load")
    run.condition(
        f"then {run.rounds} x {run.size(LOAD_SECONDS, 1)} s of shuffled single commits with durability process, a kill "
        "and an open with default settings in a new process that first touches free memory; logs in the page cache"
    )
    run.report.facts |= {
        "snapshots used": found["opened"]["snapshots"],
        "bytes of log": sum(segment.stat().st_size for segment in path.glob("*/*.log")),
        "most bytes of log replayed": max(read),
    }
    times = (stats.median * 1e3, stats.max * 1e3, stats.min * 1e3)
    run.report.figures.append(Figure(OPEN, "ms", *times, stats.rounds, digest=digest))
    run.report.goal_size(OPEN, 300)


def _register(log_partitions: int) -> None:
    def restart(run: Run) -> None:
        shape = (run.size(300, 10), run.size(100, 2), run.size(100, 3))
        _measure(run, run.size(log_partitions, min(log_partitions, 3)), shape)

    restart.__doc__ = f"An open of 3 M entries in {log_partitions} log partitions after a load that was killed."
    goal = "all is loaded in < 300 ms"
    REGISTRY.append(Workload(f"restart/killed-{log_partitions}", restart, goal, smoke=log_partitions == 4))


for _log_partitions in (4, 50):
    _register(_log_partitions)
