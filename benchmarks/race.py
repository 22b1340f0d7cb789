"""Runs contenders in alternating rounds, so that a change of the machine's speed affects all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_benchmark.fixture import BenchmarkFixture
from pytest_benchmark.stats import Stats

from benchmarks.machine import touch_free_memory
from benchmarks.results import Figure

#: Before a round of at least WARMED_OPERATIONS operations, WARMED_BYTES of free memory are touched
#: (`touch_free_memory`).  This is about three times the memory that such a round appends.
WARMED_OPERATIONS = 100_000
WARMED_BYTES = 768 << 20


@dataclass
class Job:
    """The work of one round, which is prepared outside the measured time."""

    run: Callable[[], object]
    operations: int


@dataclass
class Runner:
    """Makes the jobs of one line of a report.

    Attributes:
        prepare: returns the job of a round; called before the round with its number, which is 0 for the warm-up.
        settle: called after each round with its job, outside the measured time.
        count: returns the number of operations that the contender has counted so far; None if it does not count them.
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
    """Compares the number of operations that a contender has counted with the number in its jobs."""

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
    """Runs one warm-up and `rounds` measured rounds of each runner, in turn; returns a figure for each runner.

    Free memory is touched before each large round.  pytest-benchmark measures the first runner.  The other runners run
    in the setup of its rounds, and are measured in the same way.
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
    """Repeats the same few jobs for at least `seconds`; returns the number of operations per second of the whole time.

    The lowest and the highest rate of the figure are those of single jobs.
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
