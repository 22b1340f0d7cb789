"""Commits over the wire: one at a time, pipelined, of many connections, of many offsets."""

from __future__ import annotations

from contextlib import ExitStack, closing

from benchmarks.server import frames
from benchmarks.server.contenders import Bare, Contender, Kafka, Ours
from benchmarks.server.wire_race import Asking, race
from benchmarks.workload import Run, workload

GROUPS = 100
#: Kafka does not sync: this one is judged beside it.
JUDGED = "offsetlog, process"


def _measure(run: Run, asking: Asking, unit: str, *, kafka: float, rate: float = 0) -> None:
    with ExitStack() as opened:
        contenders: list[Contender] = [
            Ours(run.new_directory(), "process"),
            Ours(run.new_directory(), "disk"),
            Bare(run.new_directory(), _first_answer(asking.frames)),
        ]
        if not run.options.smoke:
            contenders.extend(Kafka.if_there(run.new_directory()))
        for contender in contenders:
            opened.enter_context(closing(contender))
        race(run, contenders, asking, unit)
    if rate:
        run.report.goal_rate(JUDGED, rate)
    if contenders[-1].name == Kafka.name:
        run.report.goal_ratio(JUDGED, Kafka.name, kafka)


def _first_answer(pairs: bytes) -> bytes:
    start = 4 + int.from_bytes(pairs[:4], "big")
    return pairs[start + 4 : start + 4 + int.from_bytes(pairs[start : start + 4], "big")]


@workload("commit/waiting", ">= 3 x Kafka")
def waiting(run: Run) -> None:
    """One connection that waits for each commit of one offset."""
    _measure(run, Asking(1, 1, frames.commits(GROUPS, 1), 1), "requests/s", kafka=3)


@workload("commit/pipelined", ">= 0.8 M/s and >= 100 x Kafka")
def pipelined(run: Run) -> None:
    """One connection with a hundred commits of one offset on their way."""
    _measure(run, Asking(1, 100, frames.commits(GROUPS, 1), 1), "requests/s", kafka=100, rate=800_000)


@workload("commit/connections", ">= 100 k/s and >= 3 x Kafka")
def connections(run: Run) -> None:
    """A hundred connections that each wait for each commit of one offset."""
    _measure(run, Asking(100, 1, frames.commits(GROUPS, 1), 1), "requests/s", kafka=3, rate=100_000)


@workload("commit/offsets", ">= 3 M offsets/s and >= 10 x Kafka")
def offsets(run: Run) -> None:
    """One connection with ten commits of a hundred offsets on their way."""
    _measure(run, Asking(1, 10, frames.commits(GROUPS, 100), 100), "offsets/s", kafka=10, rate=3_000_000)
