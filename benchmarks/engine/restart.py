"""A restart from a snapshot in a new process: the time until the first fetch is answered, and until all is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pytest_benchmark.stats import Stats

import offsetlog
from benchmarks.keys import KeySpace, Shuffled
from benchmarks.opening import BY_HAND, Opened, log_bytes_of, partitions_of
from benchmarks.results import Figure, Goal
from benchmarks.workload import REGISTRY, Run, Workload

FIRST, COMPLETE, LONG = "first fetch", "complete", "complete, 10 x the log"

#: The free memory that is touched before the open; more than the table and the pages of the active segments need.
WARMED_BYTES = 1024 << 20


@dataclass(frozen=True)
class _Written:
    """A directory for a restart.  The last `tail_bytes` of its log were written after the snapshots."""

    path: Path
    digest: str
    log_bytes: int
    tail_bytes: int
    snapshots: int
    snapshot_bytes: int


def _write(run: Run, keys: KeySpace, partitions: int, times: int) -> _Written:
    """Writes a directory: commits every key `times` times, takes snapshots, and then makes single commits."""
    path = run.new_directory()
    expected = np.zeros(keys.count, np.int64)
    tail = run.size(100_000, 100)
    with offsetlog.open(path, partitions, "process", maintenance=BY_HAND) as store:
        for number in range(times):
            expected = np.random.default_rng(run.seed + number).integers(1, 1 << 40, keys.count)
            for indices in keys.chunks():
                store.commit_arrow(keys.columns(indices, expected[indices], dictionary=True))
        reports = store.snapshot()
    before = log_bytes_of(path)
    with offsetlog.open(path, durability="process", maintenance=BY_HAND) as store:
        indices = Shuffled(keys.count, run.seed).take(tail)
        for offset, (group, topic, partition) in enumerate(keys.rows(indices), 1):
            store.commit_one(group, topic, partition, offset)
            expected[indices[offset - 1]] = offset
        found = keys.offsets_of(store.to_arrow())
        if (found != expected).any():
            raise AssertionError(f"{run.report.name}: the positions are not the written ones")
        digest = str(store.digest())
    size = log_bytes_of(path)
    if partitions_of(path) != partitions or len(reports) != partitions:
        raise AssertionError(f"{run.report.name}: {len(reports)} snapshots of {partitions} log partitions")
    return _Written(path, digest, size, size - before, len(reports), sum(report.size for report in reports))


@dataclass
class _Times:
    """The times of restarts in seconds.

    `user` is user time, which excludes the time in which the kernel provides fresh pages.  `bytes_read` is the number
    of bytes that the last restart has read from all files.
    """

    first: Stats = field(default_factory=Stats)
    complete: Stats = field(default_factory=Stats)
    user: Stats = field(default_factory=Stats)
    bytes_read: int = 0


def _restart(run: Run, written: _Written, keys: KeySpace, times: _Times) -> None:
    ((group, topic, partition),) = keys.rows(np.array([keys.count // 2]))
    words = [
        sys.executable,
        "-m",
        "benchmarks.engine.restarting_process",
        str(written.path),
        group,
        topic,
        str(partition),
        str(run.size(WARMED_BYTES, 1 << 20)),
    ]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    if found["digest"] != written.digest:
        raise AssertionError(f"{run.report.name}: a restart found other positions: {found}")
    Opened(**found["opened"]).check_tail(run.report.name, written.snapshots, written.tail_bytes)
    times.first.update(found["first"])
    times.complete.update(found["complete"])
    times.user.update(found["user"])
    times.bytes_read = found["read"]


def _figure(name: str, stats: Stats, digest: str, note: str = "") -> Figure:
    return Figure(
        name, "ms", stats.median * 1e3, stats.max * 1e3, stats.min * 1e3, stats.rounds, digest=digest, note=note
    )


def _user(times: _Times) -> str:
    return f"user time {times.user.median * 1e3:.0f} ms"


def _measure(run: Run, partitions: int, shape: tuple[int, int, int]) -> None:
    keys = KeySpace(*shape)
    short, long = (_write(run, keys, partitions, times) for times in (1, 10))
    run.condition(
        f"{keys} in {partitions} log partition(s), a tail of {run.size(100_000, 100):,} single commits, shuffled"
    )
    run.condition(
        f"logs of {short.log_bytes / 1e9:.2f} and {long.log_bytes / 1e9:.2f} GB, "
        f"snapshots of {short.snapshot_bytes / 1e6:.0f} MB; in the page cache"
    )
    run.condition("each open in a new process that first touches free memory; timed from the call of open(wait=False)")
    _restart(run, short, keys, _Times())  # warms up
    _restart(run, long, keys, _Times())
    once, longer = _Times(), _Times()
    for _ in range(run.rounds):
        _restart(run, short, keys, once)
        _restart(run, long, keys, longer)
    times = long.log_bytes / short.log_bytes
    ratio = (long.log_bytes - long.tail_bytes) / (short.log_bytes - short.tail_bytes)
    if not 9 < ratio < 11:
        raise AssertionError(f"{run.report.name}: the longer log is {ratio:.1f} x the other")
    run.report.facts |= {
        "snapshots used": short.snapshots,
        "bytes of log": short.log_bytes,
        "bytes of log replayed": short.tail_bytes,
        "bytes read of all files, the check of active segments included": once.bytes_read,
        "bytes of the longer log": long.log_bytes,
        "bytes of it replayed": long.tail_bytes,
        "bytes read of all files of it": longer.bytes_read,
    }
    run.report.figures += [
        _figure(FIRST, once.first, short.digest),
        _figure(COMPLETE, once.complete, short.digest, _user(once)),
        _figure(LONG, longer.complete, long.digest, f"{_user(longer)}, {times:.1f} x the bytes"),
    ]
    run.report.goal_size(FIRST, 300)
    run.report.goal_size(COMPLETE, 1000)
    run.report.goals.append(Goal(f"{LONG}: <= 1.2 x", 1.2, run.report.ratio(LONG, COMPLETE), at_most=True))


def _register(name: str, log_partitions: int, shape: tuple[int, int, int]) -> None:
    def restart(run: Run) -> None:
        small = (run.size(shape[0], 10), run.size(shape[1], 2), run.size(shape[2], min(shape[2], 3)))
        _measure(run, run.size(log_partitions, min(log_partitions, 3)), small)

    restart.__doc__ = (
        f"A restart with 10^7 entries in {log_partitions} log partition(s), {shape[2]} partition(s) per topic."
    )
    goals = "the first fetch in < 0.3 s, complete in < 1 s, <= 1.2 x with 10 x the log"
    REGISTRY.append(Workload(f"restart/{name}", restart, goals, smoke=name == "50"))


for _partitions in (1, 50):
    _register(f"{_partitions}", _partitions, (1000, 100, 100))
    _register(f"{_partitions}/one-partition-topics", _partitions, (10_000, 1000, 1))
