"""The bytes of memory per entry."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.keys import KeySpace
from benchmarks.opening import Opened, log_bytes_of, partitions_of
from benchmarks.peers.ours import Ours
from benchmarks.results import Figure
from benchmarks.workload import REGISTRY, Run, Workload

SAMPLE_SECONDS = 0.01

#: The name, topics per group, partitions per topic, and the goal in bytes per entry.
SHAPES = [
    ("dense-100", 1, 100, 40),
    ("dense-50", 2, 50, None),
    ("dense-12", 8, 12, None),
    ("one-partition", 100, 1, 64),
    ("one-partition-one-topic", 1, 1, None),
]


def _rss_anon(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def _measure_process(path: Path, empty: Path, partitions: int) -> tuple[int, int, dict[str, Any]]:
    """Loads the store in a new process; returns its highest RssAnon, its RssAnon before, and its report."""
    words = [sys.executable, "-m", "benchmarks.engine.loading_process", str(path), str(empty), str(partitions)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "empty\n"
        before = _rss_anon(process.pid)
        process.stdin.write("load\n")
        process.stdin.flush()
        highest = before
        while not select.select([process.stdout], [], [], SAMPLE_SECONDS)[0]:
            highest = max(highest, _rss_anon(process.pid))
        highest = max(highest, _rss_anon(process.pid))
        assert process.stdout.readline() == "loaded\n"
        process.stdin.write("tell\n")
        process.stdin.flush()
        found: dict[str, Any] = json.loads(process.stdout.readline())
    return highest, before, found


def _measure(run: Run, shape: tuple[str, int, int, int | None], entries: int) -> None:
    _, topics, partitions, goal = shape
    keys = KeySpace(max(1, entries // (topics * partitions)), topics, partitions)
    path = run.new_directory()
    ours = Ours(path, "process", run.kafka_partitions)
    ours.fill(keys, np.random.default_rng(run.seed).integers(1, 1 << 40, keys.count))
    digest = str(ours.store.digest())
    table = ours.store.to_arrow()
    assert table.num_rows == keys.count
    del table
    ours.close()
    size, used = log_bytes_of(path), partitions_of(path)
    run.condition(f"{keys}; {run.kafka_partitions} log partitions, {used} of them used")
    run.condition("highest RssAnon, every 10 ms, of a fresh process that loads the log, less its RssAnon after import")
    run.condition("and opening an empty store, less the bytes of distinct strings; no snapshot")
    highest, before, found = _measure_process(path, run.new_directory(), run.kafka_partitions)
    account = found.pop("account")
    if found.pop("digest") != digest:
        raise AssertionError(f"{run.report.name}: the process loaded other positions than were written")
    opened = Opened(**found)
    opened.check_whole_log(run.report.name, size)
    run.report.facts |= {"bytes of log": size, "bytes of log read": opened.log_bytes_read, "snapshots used": 0}
    entry = (highest - before - keys.string_bytes) / keys.count
    mean = (account - keys.string_bytes) / keys.count
    run.report.figures = [
        Figure(
            "offsetlog",
            "bytes/entry",
            entry,
            entry,
            entry,
            digest=digest,
            note=f"RssAnon + {(highest - before) / 1e6:.1f} MB",
        ),
        Figure("store.memory()", "bytes/entry", mean, mean, mean, note="its own account, after loading"),
    ]
    if goal is not None:
        run.report.goal_size("offsetlog", goal)


def _register(shape: tuple[str, int, int, int | None], entries: int, label: str) -> None:
    def memory(run: Run) -> None:
        _measure(run, shape, run.size(entries, 2_000))

    name, topics, partitions, goal = shape
    memory.__doc__ = f"Memory of {entries:,} entries: {topics} topic(s) per group, {partitions} partition(s) per topic."
    goals = f"<= {goal} bytes an entry" if goal is not None else "for information"
    REGISTRY.append(Workload(f"memory/{name}/{label}", memory, goals, smoke=label == "1e6"))


for _entries, _label in ((1_000_000, "1e6"), (10_000_000, "1e7")):
    for _shape in SHAPES:
        _register(_shape, _entries, _label)
