"""Measures the sink's work on the driver: the commit of rows that tasks have staged.  No Spark runs."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pytest_benchmark.stats import Stats

import offsetlog
from benchmarks.keys import KeySpace
from benchmarks.race import Job, Runner, race
from benchmarks.results import Figure
from benchmarks.workload import Run, workload
from offsetlog.spark import held_stores
from offsetlog.spark.sink.options import checked_options
from offsetlog.spark.sink.staging import RESERVED_PREFIX, StagedMessage, StagingPlace, stage
from offsetlog.spark.sink.writer import BatchWriter

METADATA_UNITS_MAX = 4096
TASKS = 4
ROWS_A_BATCH = 65_536
FIRST, NEXT = "the first epoch, which opens the store", "an epoch"


class _Query:
    """The epochs of one query, which are staged and published in the same way as by Spark."""

    def __init__(self, path: Path, log_partitions: int, **options: str) -> None:
        self._path = path
        self._options = {"partitions": str(log_partitions), **options}
        self.epoch = -1

    def staged(self, batches: list[pa.RecordBatch]) -> tuple[BatchWriter, list[StagedMessage]]:
        """Stages the next epoch, whose batches are divided among its tasks in turn."""
        self.epoch += 1
        given = {"path": str(self._path), "queryId": "q", "epoch": str(self.epoch), **self._options}
        writer = BatchWriter(checked_options(given, stream=False, overwrite=False))
        place = StagingPlace(f"{self._path}/.offsetlog-staging", "q", self.epoch, writer._job)
        messages = [stage(place, batches[task::TASKS], METADATA_UNITS_MAX) for task in range(TASKS)]
        for task, message in enumerate(messages):
            message.task = task
        return writer, messages


def _check(run: Run, path: Path, keys: KeySpace, expected: np.ndarray) -> str:
    with offsetlog.open(path, read_only=True) as store:
        found = store.to_arrow()
        # The columns become strings, because a dictionary would keep the names of rows that are filtered out.
        for name in ("group", "topic"):
            strings = found.column(name).cast(pa.string())
            found = found.set_column(found.column_names.index(name), name, strings)
        ours = pc.invert(pc.starts_with(found.column("group"), RESERVED_PREFIX))
        if (keys.offsets_of(found.filter(ours)) != expected).any():
            raise AssertionError(f"{run.report.name}: the positions are not the published ones")
        return str(store.digest())


def _epochs(run: Run, log_partitions: int) -> None:
    keys = KeySpace(run.size(300, 10), 100, run.size(100, 2))
    path = run.new_directory()
    with offsetlog.open(path, log_partitions) as store:
        expected = np.random.default_rng(run.seed).integers(1, 1 << 40, keys.count)
        for indices in keys.chunks():
            store.commit_arrow(keys.columns(indices, expected[indices], dictionary=True))
    run.condition(f"{keys} in {log_partitions} log partitions, committed before by a store that was closed")
    run.condition(f"each epoch commits 10 staged rows of {TASKS} tasks, durability disk; the staging is not measured")
    query, draw = _Query(path, log_partitions), np.random.default_rng(run.seed + 1)
    first, later = Stats(), Stats()
    for number in range(1 + run.size(50, 5)):
        indices = draw.choice(keys.count, 10, replace=False)
        expected[indices] = number
        writer, messages = query.staged([keys.columns(indices, expected[indices], dictionary=False)])
        begun = time.perf_counter()
        published = writer.publish(messages)
        (later if number else first).update(time.perf_counter() - begun)
        if published.rows != 10:
            raise AssertionError(f"{run.report.name}: 10 rows were expected, but the writer published {published}")
    held_stores.let_go(path)
    digest = _check(run, path, keys, expected)
    for name, stats in ((FIRST, first), (NEXT, later)):
        times = (stats.median * 1e3, stats.max * 1e3, stats.min * 1e3)
        run.report.figures.append(Figure(name, "ms", *times, stats.rounds, digest=digest))
    run.report.goal_size(NEXT, 150)
    run.report.goal_size(FIRST, 450)


@workload("epoch/4", "an epoch of 10 rows in < 150 ms")
def epoch_4(run: Run) -> None:
    """Commits epochs of 10 rows to a store with 3 M positions in 4 log partitions.  No Spark runs."""
    _epochs(run, 4)


@workload("epoch/50", "an epoch of 10 rows in < 150 ms")
def epoch_50(run: Run) -> None:
    """Commits epochs of 10 rows to a store with 3 M positions in 50 log partitions.  No Spark runs."""
    _epochs(run, run.size(50, 3))


@workload("publish", ">= 1 M rows/s")
def publish(run: Run) -> None:
    """Commits epochs of 2 M rows from staged files.  An epoch has every key once."""
    keys = KeySpace(run.size(200, 10), 100, run.size(100, 2))
    path = run.new_directory()
    query, draw = _Query(path, 4, clean="false"), np.random.default_rng(run.seed)
    state = {"expected": np.zeros(keys.count, np.int64)}
    run.condition(f"{keys} in 4 log partitions, in {TASKS} tasks and batches of {ROWS_A_BATCH:,} rows, whole groups")
    run.condition("durability disk; without cleaning and snapshots, which are due now and then")

    def prepare(number: int) -> Job:
        expected = state["expected"] = draw.integers(1, 1 << 40, keys.count)
        batches = [
            keys.columns(indices, expected[indices], dictionary=False) for indices in keys.chunks(ROWS_A_BATCH)
        ]
        writer, messages = query.staged(batches)
        return Job(lambda: writer.publish(messages), keys.count)

    run.report.figures += race(run.benchmark, [Runner("publish", prepare, unit="rows/s")], run.rounds)
    held_stores.let_go(path)
    run.report.figures[0].digest = _check(run, path, keys, state["expected"])
    run.report.goal_rate("publish", 1e6)
