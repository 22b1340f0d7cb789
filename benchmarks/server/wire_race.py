"""Sends the same requests to each server in turn, with a compiled client that checks every answer."""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Figure
from benchmarks.server.contenders import Contender, Kafka, compiled
from benchmarks.workload import Run


@dataclass(frozen=True)
class Asking:
    """The requests of a race, and the way in which they are sent.

    Attributes:
        connections: the number of connections.
        depth: the number of requests that are outstanding on each connection.
        frames: pairs of a request and its answer.
        offsets: the number of positions in each request.
    """

    connections: int
    depth: int
    frames: bytes
    offsets: int


@dataclass(frozen=True)
class _Round:
    rate: float
    answers: int
    latencies_us: tuple[float, ...]


class WireLoad:
    """The compiled client, with a directory for its files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._program = compiled(directory, "wire_load")

    def round(self, contender: Contender, asking: Asking, seconds: float) -> _Round:
        """Warms up, and then sends requests for the given number of seconds."""
        file = self._directory / "frames"
        file.write_bytes(asking.frames)
        words = [self._program, contender.port, asking.connections, asking.depth, seconds, 1, file]
        # Sanitizers that were preloaded into Python are not for this program.
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        called = [str(word) for word in words]
        run = subprocess.run(called, capture_output=True, text=True, env=environment, check=False)
        if run.returncode != 0:
            raise AssertionError(f"{contender.name}: {run.stderr.strip()}")
        took, answers, *latencies = (float(word) for word in run.stdout.splitlines()[-1].split())
        return _Round(answers * asking.offsets / took, int(answers), tuple(each / 1000 for each in latencies))


#: The server that is compared with Kafka, which does not sync its log.
JUDGED = "offsetlog, process"


@dataclass(frozen=True)
class Goals:
    """The rates that the server JUDGED must reach.

    Attributes:
        kafka: the least multiple of Kafka's rate.
        rate: the least requests or offsets per second; 0 sets no such goal.
    """

    kafka: float
    rate: float = 0


@contextmanager
def beside_kafka(run: Run, own: Iterable[Contender]) -> Iterator[list[Contender]]:
    """Yields our servers, and Kafka's broker if it can run; stops them at the end.  A smoke run is without Kafka."""
    with ExitStack() as opened:
        contenders = [opened.enter_context(closing(each)) for each in own]
        if not run.options.smoke:
            kafka = Kafka.if_there(run.new_directory())
            contenders.extend(opened.enter_context(closing(each)) for each in kafka)
        yield contenders


def judge(run: Run, goals: Goals) -> None:
    """Adds the goals to the report."""
    if goals.rate:
        run.report.goal_rate(JUDGED, goals.rate)
    if any(figure.name == Kafka.name for figure in run.report.figures):
        run.report.goal_ratio(JUDGED, Kafka.name, goals.kafka)


def race(run: Run, contenders: list[Contender], asking: Asking, unit: str) -> None:
    """Adds a figure of each server.  Rounds alternate, so that a change of the machine's speed affects all of them."""
    load = WireLoad(run.new_directory())
    seconds = 0.1 if run.options.smoke else max(1.0, run.seconds / 5)
    rounds: dict[str, list[_Round]] = {contender.name: [] for contender in contenders}
    for number in range(run.rounds + 1):
        for contender in contenders:
            measured = load.round(contender, asking, seconds)
            if number > 0:  # the first round warms up: Java compiles meanwhile
                rounds[contender.name].append(measured)
    run.condition(
        f"connections: {asking.connections}; outstanding requests on each: {asking.depth}; offsets in each request: "
        f"{asking.offsets}; rounds of {seconds:g} s in turn; every answer was checked"
    )
    run.report.figures.extend(_figure(name, unit, measured) for name, measured in rounds.items())


def _figure(name: str, unit: str, rounds: list[_Round]) -> Figure:
    rates = [each.rate for each in rounds]
    columns = zip(*(one.latencies_us for one in rounds), strict=True)
    p50, p99, p999, longest = (statistics.median(each) for each in columns)
    return Figure(
        name,
        unit,
        statistics.median(rates),
        min(rates),
        max(rates),
        rounds=len(rounds),
        operations=int(statistics.median(each.answers for each in rounds)),
        note=f"p50 {p50:,.0f} us, p99 {p99:,.0f}, p99.9 {p999:,.0f}, longest {longest:,.0f}",
    )
