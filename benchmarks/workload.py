"""The input of a workload, and the registry of all workloads."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.bare import BareLoop
from benchmarks.keys import KeySpace, Numbers, digest_of
from benchmarks.peers.contender import Contender
from benchmarks.profile import profile
from benchmarks.race import Runner, sustain
from benchmarks.results import Report
from offsetlog.config import KAFKA_PARTITIONS_DEFAULT, PARTITIONS_DEFAULT

Function = Callable[["Run"], None]


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    seed: int = 1
    smoke: bool = False
    seconds: float = 10.0
    rounds: int = 5
    directory: Path = Path(tempfile.gettempdir())
    profile: bool = False


@dataclass(frozen=True)
class Workload:
    """A function that measures something.  The first line of its docstring is the title of its report.

    Attributes:
        name: the name for --only.
        goals: the goals, as --list prints them.
        smoke: whether --smoke runs the workload; workloads that differ only in size need not run there.
    """

    name: str
    function: Function
    goals: str
    smoke: bool = True


#: The condition of sustained figures.
ON_END = "on end: the same five jobs again and again, with maintenance (every 2 s); bursts: without maintenance"

REGISTRY: list[Workload] = []


def workload(name: str, goals: str) -> Callable[[Function], Function]:
    """Registers a function as a workload."""

    def register(function: Function) -> Function:
        REGISTRY.append(Workload(name, function, goals))
        return function

    return register


class Run:
    """One run of a workload: its options, its directory and its report."""

    def __init__(self, options: Options, found: Workload, benchmark: BenchmarkFixture, directory: Path) -> None:
        self.options = options
        self.benchmark = benchmark
        self.directory = directory
        title = (found.function.__doc__ or "").strip().partition("\n")[0].rstrip(".")
        self.report = Report(found.name, title)
        self._expected: dict[str, Numbers] = {}
        self._numbers = iter(range(1_000_000))
        #: The runner that --profile examines.
        self.profiled: Runner | None = None

    @property
    def seed(self) -> int:
        return self.options.seed

    @property
    def rounds(self) -> int:
        return 2 if self.options.smoke else max(5, self.options.rounds)

    def size(self, full: int, smoke: int) -> int:
        return smoke if self.options.smoke else full

    @property
    def log_partitions(self) -> int:
        """The default number of log partitions of a new store."""
        return PARTITIONS_DEFAULT

    @property
    def kafka_partitions(self) -> int:
        """The default number of log partitions of a broker; in a smoke run 5, because 50 would take too long."""
        return self.size(KAFKA_PARTITIONS_DEFAULT, 5)

    @property
    def seconds(self) -> float:
        """The shortest duration of a sustained run."""
        return 0.05 if self.options.smoke else self.options.seconds

    def condition(self, text: str) -> None:
        """Adds a line that the report prints above the figures."""
        self.report.conditions.append(text)

    def new_directory(self) -> Path:
        directory = self.directory / f"{next(self._numbers):02d}"
        directory.mkdir()
        return directory

    def drop(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)

    def bare(self) -> BareLoop:
        return BareLoop(self.new_directory())

    def profile(self) -> None:
        """If --profile was given, profiles the chosen runner, whose store must still be open."""
        if self.options.profile and self.profiled is not None:
            self.report.profile = profile(self.profiled, max(self.seconds / 2, 0.5))

    def sustain(self, runner: Runner, contender: Contender) -> None:
        """Adds the figure of a sustained run, during which the store runs its own maintenance."""
        contender.maintain()
        figure = sustain(runner, self.seconds)
        figure.note = "; ".join(text for text in (figure.note, contender.maintained()) if text)
        self.report.figures.append(figure)

    # -------------------------------------------------------------------------------------------- what must be there

    @contextmanager
    def filled(self, keys: KeySpace, *contenders: Contender) -> Iterator[None]:
        """Commits an offset for every key to each contender; at the end, checks the offsets of each contender."""
        offsets = np.random.default_rng(self.seed).integers(1, 1 << 40, keys.count)
        try:
            for contender in contenders:
                self._expected[contender.name] = offsets.copy()
                contender.fill(keys, offsets)
            yield
            self.profile()
            for contender in contenders:
                self._settle(keys, contender)
        finally:
            for contender in contenders:
                contender.close()

    def committed(self, contender: Contender, indices: Numbers, offsets: Numbers) -> None:
        """Records that these offsets were committed to a contender, in this order."""
        self._expected[contender.name][indices] = offsets

    def expected(self, contender: Contender) -> Numbers:
        return self._expected[contender.name]

    def _settle(self, keys: KeySpace, contender: Contender) -> None:
        found, expected = contender.offsets(keys), self._expected[contender.name]
        wrong = int((found != expected).sum())
        if wrong:
            raise AssertionError(f"{self.report.name}: {contender.name} is wrong for {wrong:,} of {keys.count:,} keys")
        digest = digest_of(found)
        for figure in self.report.figures:
            if figure.name.startswith(contender.name) and figure.digest is None:
                figure.digest = digest


@contextmanager
def one_core() -> Iterator[int]:
    """Binds this thread, and the threads that it starts meanwhile, to one core; yields the number of the core."""
    before = os.sched_getaffinity(0)
    core = max(before)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def stopwatch(report: Report) -> Iterator[None]:
    started = time.perf_counter()
    try:
        yield
    finally:
        report.seconds = time.perf_counter() - started
