"""Loads of a directory that was written before, on one core."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import offsetlog
from benchmarks.keys import KeySpace, Numbers, Shuffled, digest_of
from benchmarks.opening import BY_HAND, Opened, log_bytes_of, segments_of
from benchmarks.peers.ours import Ours
from benchmarks.race import Job, Runner, race
from benchmarks.workload import Run, one_core, workload

#: The rate of Kafka 4.3.0 on this kind of machine, in records per second.
KAFKA = 910_000


def _load(run: Run, keys: KeySpace, path: Path, expected: Numbers, per_batch: str) -> None:
    segments, size = segments_of(path), log_bytes_of(path)
    run.condition(
        f"{keys} in one log partition, {per_batch}; {size / 1e9:.2f} GB, {len(segments)} segments, closed cleanly"
    )
    run.condition("no snapshot: each round reads all of the log, which is in the page cache")
    opened: list[offsetlog.OffsetStore] = []
    digests: set[str] = set()

    def settle(job: Job) -> None:
        with opened.pop() as store:
            Opened.of(store).check_whole_log(run.report.name, size)
            digests.add(str(store.digest()))

    def prepare(number: int) -> Job:
        return Job(lambda: opened.append(offsetlog.open(path, maintenance=BY_HAND)), keys.count)

    with one_core() as core:
        run.condition(f"on core {core}; a first load in this process, not counted, warms memory and pages")
        runner = Runner("offsetlog.open", prepare, unit="records/s", settle=settle)
        run.profiled = runner
        (figure,) = race(run.benchmark, [runner], run.rounds)
        run.profile()
        bare, total = run.bare().load(keys, segments, run.rounds)
    figure.note = f"{figure.median / keys.count * size / 1e9:.2f} GB/s; Kafka 4.3.0: {KAFKA:,}"
    with offsetlog.open(path, read_only=True) as store:
        found = keys.offsets_of(store.to_arrow())
        digests.add(str(store.digest()))
    if (found != expected).any() or int(expected.sum()) != total or len(digests) != 1:
        raise AssertionError(f"{run.report.name}: the loaded positions are not the written ones")
    figure.digest = bare.digest = digest_of(found)
    run.report.facts |= {"bytes of log": size, "bytes of log read": size, "snapshots used": 0}
    run.report.figures += [figure, bare]
    run.report.goal_rate(figure.name, 20e6)


@workload("load/dense", ">= 20 M records/s")
def load_dense(run: Run) -> None:
    """Load of 10^7 records on one core, dense: batches of whole groups in order, from columnar commits."""
    keys = KeySpace(run.size(1000, 10), run.size(100, 2), 100)
    path = run.new_directory()
    ours = Ours(path, "process", 1)
    expected = np.random.default_rng(run.seed).integers(1, 1 << 40, keys.count)
    ours.fill(keys, expected)
    ours.close()
    _load(run, keys, path, expected, "whole groups in order")


@workload("load/random", ">= 20 M records/s")
def load_random(run: Run) -> None:
    """Load of 10^7 records on one core, random: single commits in a shuffled order, one record per batch."""
    keys = KeySpace(run.size(1000, 10), run.size(100, 2), 100)
    path = run.new_directory()
    ours = Ours(path, "process", 1)
    expected = np.zeros(keys.count, np.int64)
    shuffled = Shuffled(keys.count, run.seed)
    for base in range(1, keys.count, 500_000):
        indices = shuffled.take(min(500_000, keys.count + 1 - base))
        ours.commit_each(keys.rows(indices), base)
        expected[indices] = np.arange(base, base + len(indices))
    ours.close()
    _load(run, keys, path, expected, f"one record per batch, shuffled, seed {run.seed}")
