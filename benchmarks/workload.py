"""The input of a workload, and the registry of all of them."""

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
    """A function with a docstring, whose first line is the title of the report.

    Attributes:
        name: for --only.
        goals: its goals.
        smoke: whether --smoke runs it; the sizes of one kind are the same thing there.
    """

    name: str
    function: Function
    goals: str
    smoke: bool = True


#: The condition of sustained figures.
ON_END = "on end: the same five jobs again and again, with maintenance (every 2 s); bursts without"

REGISTRY: list[Workload] = []


def workload(name: str, goals: str) -> Callable[[Function], Function]:
    """Registers a function as a workload."""

    def register(function: Function) -> Function:
        REGISTRY.append(Workload(name, function, goals))
        return function

    return register


class Run:
    """One workload under way: its options, its directory, its report."""

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
        """Those of a new store of which nothing is said."""
        return PARTITIONS_DEFAULT

    @property
    def kafka_partitions(self) -> int:
        """Those of a broker of which nothing is said; making fifty directories would be most of a smoke run."""
        return self.size(KAFKA_PARTITIONS_DEFAULT, 5)

    @property
    def seconds(self) -> float:
        """How long a sustained run takes at least."""
        return 0.05 if self.options.smoke else self.options.seconds

    def condition(self, text: str) -> None:
        """A line that stands above the figures."""
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
        """Where --profile asks for it: profiles the chosen runner while its store is still open."""
        if self.options.profile and self.profiled is not None:
            self.report.profile = profile(self.profiled, max(self.seconds / 2, 0.5))

    def sustain(self, runner: Runner, contender: Contender) -> None:
        """Adds the figure of a sustained run, beside which the store does what it does by itself from then on."""
        contender.maintain()
        figure = sustain(runner, self.seconds)
        figure.note = "; ".join(text for text in (figure.note, contender.maintained()) if text)
        self.report.figures.append(figure)

    # -------------------------------------------------------------------------------------------- what must be there

    @contextmanager
    def filled(self, keys: KeySpace, *contenders: Contender) -> Iterator[None]:
        """Contenders that hold an offset of every key; at the end each is compared with the offsets it was given."""
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
        """Records the offsets that a contender was given, in this order."""
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
    """Binds this thread, and those that it starts meanwhile, to one core; yields the core."""
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
