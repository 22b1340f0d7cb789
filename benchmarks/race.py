"""Runs contenders side by side, in alternating rounds, so that a drift of the machine affects all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_benchmark.fixture import BenchmarkFixture
from pytest_benchmark.stats import Stats

from benchmarks.machine import touch_free_memory
from benchmarks.results import Figure

#: Rounds of at least so many operations find so much free memory touched just before: about three times what one
#: appends (`touch_free_memory`).
WARMED_OPERATIONS = 100_000
WARMED_BYTES = 768 << 20


@dataclass
class Job:
    """One round's work, prepared outside the measured time."""

    run: Callable[[], object]
    operations: int


@dataclass
class Runner:
    """One line of a report: makes the job of each round.

    Attributes:
        prepare: called before each round with its number, 0 for the warm-up.
        settle: called after each round with its job, outside the measured time.
        count: how many operations were done ever, as whoever does them counts; None where that is not counted.
    """

    name: str
    prepare: Callable[[int], Job]
    unit: str = "offsets/s"
    note: str = ""
    settle: Callable[[Job], None] = lambda job: None
    count: Callable[[], int] | None = None
    stats: Stats = field(default_factory=Stats)
    operations: int = 0


class _Counted:
    """Compares the operations that a runner has counted with those of its jobs."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._before = self._count()

    def _count(self) -> int:
        return self._runner.count() if self._runner.count is not None else 0

    def check(self, operations: int) -> None:
        done = self._count() - self._before
        if self._runner.count is not None and done != operations:
            raise AssertionError(f"{self._runner.name} did {done:,} of {operations:,} operations")


def _warm_pages(job: Job) -> None:
    if job.operations >= WARMED_OPERATIONS:
        touch_free_memory(WARMED_BYTES)


def _timed(job: Job) -> float:
    enabled = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter()
        job.run()
        return time.perf_counter() - start
    finally:
        if enabled:
            gc.enable()


def race(benchmark: BenchmarkFixture, runners: list[Runner], rounds: int) -> list[Figure]:
    """One warm-up and `rounds` measured rounds of each, in turn; before each free memory is touched.

    pytest-benchmark times the first; the others run in its setup, timed alike into the same kind of statistics.
    """
    ours, *others = runners
    number = -1
    job: Job | None = None
    counted: _Counted | None = None

    def settle() -> None:
        nonlocal job
        if job is not None:
            finished, job = job, None
            assert counted is not None
            counted.check(finished.operations)
            ours.settle(finished)

    def setup() -> tuple[tuple[Job], dict[str, object]]:
        nonlocal number, job, counted
        settle()
        number += 1
        for runner in others:
            other = runner.prepare(number)
            _warm_pages(other)
            counted = _Counted(runner)
            seconds = _timed(other)
            counted.check(other.operations)
            if number > 0:
                runner.stats.update(seconds)
                runner.operations = other.operations
            runner.settle(other)
        job = ours.prepare(number)
        _warm_pages(job)
        counted = _Counted(ours)
        return (job,), {}

    benchmark.pedantic(lambda job: job.run(), setup=setup, rounds=rounds, warmup_rounds=1)
    if job is not None:
        ours.operations = job.operations
    settle()
    measured = benchmark.stats
    assert measured is not None
    ours.stats = measured.stats
    return [
        Figure.of_rounds(runner.name, runner.unit, runner.stats, runner.operations, runner.note) for runner in runners
    ]


def sustain(runner: Runner, seconds: float, jobs: int = 5) -> Figure:
    """Runs the same few jobs over and over for at least `seconds`; the figure is all operations by all time.

    The low and the high are those of single jobs.
    """
    prepared = [runner.prepare(number) for number in range(jobs)]
    stats = Stats()
    operations = 0
    counted = _Counted(runner)
    started = time.perf_counter()
    while True:
        for job in prepared:
            stats.update(_timed(job) / job.operations)
            operations += job.operations
        elapsed = time.perf_counter() - started
        if elapsed >= seconds:
            break
    counted.check(operations)
    runner.settle(prepared[-1])
    return Figure(
        f"{runner.name}, {elapsed:.0f} s on end" if seconds >= 1 else f"{runner.name}, on end",
        runner.unit,
        operations / elapsed,
        1 / stats.max,
        1 / stats.min,
        rounds=stats.rounds,
        operations=prepared[0].operations,
        note=runner.note,
    )
