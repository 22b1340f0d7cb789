"""The effect that a clean on another core has on commits: on their rate and on the time of the slowest ones."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from pytest_benchmark.stats import Stats

from benchmarks.engine.cleaner_log import DirtyLog, dirty_log
from benchmarks.keys import Shuffled, digest_of
from benchmarks.results import Figure
from benchmarks.workload import Run, workload
from offsetlog import OffsetStore
from offsetlog.types import CleaningReport

#: The number of commits after which a loop checks whether the clean has ended.
CHUNK = 1_000

ALONE, MEANWHILE = "commits alone", "commits while a clean runs"

GoesOn = Callable[[], bool]


class Committing:
    """Commits to the keys of a log in a shuffled order, repeatedly; `expected` has the offsets at the end."""

    def __init__(self, log: DirtyLog, count: int, seed: int) -> None:
        self.indices = Shuffled(log.keys.count, seed).take(count)
        self.rows = log.keys.rows(self.indices)
        self.expected = log.offsets.copy()
        self._next_offset = log.commits + 1
        self._chunks = 0

    def _chunk(self) -> tuple[int, slice]:
        start = self._chunks * CHUNK % len(self.rows)
        self._chunks += 1
        chosen = slice(start, min(start + CHUNK, len(self.rows)))
        base = self._next_offset
        self._next_offset += chosen.stop - chosen.start
        self.expected[self.indices[chosen]] = np.arange(base, self._next_offset)
        return base, chosen

    def rate(self, store: OffsetStore, goes_on: GoesOn) -> tuple[int, float]:
        """Commits until `goes_on` returns False; returns the number of commits and the seconds that they took."""
        commit, done, seconds = store.commit_one, 0, 0.0
        while done == 0 or goes_on():
            base, chosen = self._chunk()
            rows = self.rows[chosen]
            started = time.perf_counter()
            for offset, (group, topic, partition) in enumerate(rows, base):
                commit(group, topic, partition, offset)
            seconds += time.perf_counter() - started
            done += len(rows)
        return done, seconds

    def latencies(self, store: OffsetStore, goes_on: GoesOn) -> list[int]:
        """Commits until `goes_on` returns False; returns the nanoseconds that each commit took."""
        commit, clock = store.commit_one, time.perf_counter_ns
        found: list[int] = []
        keep = found.append
        while not found or goes_on():
            base, chosen = self._chunk()
            for offset, (group, topic, partition) in enumerate(self.rows[chosen], base):
                started = clock()
                commit(group, topic, partition, offset)
                keep(clock() - started)
        return found


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Binds this thread to a core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def cleaning(store: OffsetStore, core: int) -> Iterator[GoesOn]:
    """Cleans in a thread on one core; yields a function that returns whether the clean is still running."""
    reports: list[CleaningReport] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            # The threads that the clean starts run on this core too.
            with pinned(core):
                reports.extend(store.compact(roll=False))
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=work, name="cleaning")
    thread.start()
    try:
        yield thread.is_alive
    finally:
        thread.join()
    if failures:
        raise failures[0]
    if not (reports[0].cleaned and reports[0].complete):
        raise AssertionError(f"not everything was cleaned: {reports[0]}")


def for_seconds(seconds: float) -> GoesOn:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() < end


class Found:
    """The measurements of all rounds, with and without a clean: seconds per commit, and the times of single commits."""

    def __init__(self) -> None:
        self.seconds = {ALONE: Stats(), MEANWHILE: Stats()}
        self.nanoseconds: dict[str, list[int]] = {ALONE: [], MEANWHILE: []}
        self.commits = {ALONE: 0, MEANWHILE: 0}

    def measure_rate(self, committing: Committing, store: OffsetStore, core: int) -> None:
        """Measures the rate of commits while a clean runs, and then for the same time without a clean."""
        committing.rate(store, for_seconds(0))
        started = time.perf_counter()
        with cleaning(store, core) as goes_on:
            self._keep(MEANWHILE, committing.rate(store, goes_on))
        elapsed = time.perf_counter() - started
        self._keep(ALONE, committing.rate(store, for_seconds(elapsed)))

    def _keep(self, name: str, measured: tuple[int, float]) -> None:
        done, seconds = measured
        self.seconds[name].update(seconds / done)
        self.commits[name] = done

    def measure_latencies(self, committing: Committing, store: OffsetStore, core: int) -> None:
        """Measures the time of each commit while a clean runs, and then for the same time without a clean."""
        committing.latencies(store, for_seconds(0))
        started = time.perf_counter()
        with cleaning(store, core) as goes_on:
            self.nanoseconds[MEANWHILE] += committing.latencies(store, goes_on)
        elapsed = time.perf_counter() - started
        self.nanoseconds[ALONE] += committing.latencies(store, for_seconds(elapsed))

    def figures(self, digest: str) -> list[Figure]:
        found = []
        for name in (MEANWHILE, ALONE):
            figure = Figure.of_rounds(name, "offsets/s", self.seconds[name], 1)
            figure.operations, figure.digest = self.commits[name], digest
            found.append(figure)
        for name in (MEANWHILE, ALONE):
            times = np.array(self.nanoseconds[name]) / 1000
            p50, p99, p999, worst = (float(np.percentile(times, share)) for share in (50, 99, 99.9, 100))
            note = f"p50 {p50:.2f}, p99 {p99:.2f}, worst {worst:,.0f}"
            label = f"p99.9 of one, {name.removeprefix('commits ')}"
            found.append(Figure(label, "us", p999, p50, worst, operations=len(times), digest=digest, note=note))
        return found


@workload("clean/commits", ">= 80 % of the rate of commits while a clean runs on another core")
def commits_meanwhile(run: Run) -> None:
    """One-offset commits into the log that is cleaned on another core: their rate, and the p99.9 latency of one."""
    log = dirty_log(run)
    cores = sorted(os.sched_getaffinity(0))
    run.condition(
        f"commits on core {cores[0]}, the clean on core {cores[-1]}; {CHUNK:,} commits between two checks of the clean"
    )
    run.condition("alone: after each clean, for the same time; single commits are timed in separate rounds")
    found = Found()
    digest = ""
    for number in range(2 * run.rounds):
        path = log.copy(run.new_directory())
        committing = Committing(log, min(log.keys.count, run.size(400_000, 2_000)), run.seed + number)
        with log.open(path) as store, pinned(cores[0]):
            measure = found.measure_rate if number % 2 == 0 else found.measure_latencies
            measure(committing, store, cores[-1])
            held = log.keys.offsets_of(store.to_arrow())
        if (held != committing.expected).any():
            raise AssertionError(f"{run.report.name}: the positions are not the committed ones")
        digest = digest_of(held)
        run.drop(path)
    run.report.figures += found.figures(digest)
    run.report.goal_ratio(MEANWHILE, ALONE, 0.8)
