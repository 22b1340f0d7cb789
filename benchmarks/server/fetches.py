"""Fetches of positions over a socket, in the same four ways as commits."""

from __future__ import annotations

from benchmarks.server import frames
from benchmarks.server.commits import GROUPS
from benchmarks.server.contenders import PARTITIONS, Ours
from benchmarks.server.wire_race import Asking, Goals, WireLoad, beside_kafka, judge, race
from benchmarks.workload import Run, workload


def _measure(run: Run, asking: Asking, unit: str, goals: Goals) -> None:
    with beside_kafka(run, [Ours(run.new_directory(), "process")]) as contenders:
        committed = Asking(1, 1, frames.commits(GROUPS, PARTITIONS), PARTITIONS)
        load = WireLoad(run.new_directory())
        for contender in contenders:
            load.round(contender, committed, 2.0)
        race(run, contenders, asking, unit)
    judge(run, goals)


@workload("fetch/waiting", ">= 3 x Kafka")
def waiting(run: Run) -> None:
    """One connection that waits for each fetch of one position."""
    _measure(run, Asking(1, 1, frames.fetches(GROUPS, 1), 1), "requests/s", Goals(3))


@workload("fetch/pipelined", ">= 0.8 M/s and >= 100 x Kafka")
def pipelined(run: Run) -> None:
    """One connection with a hundred outstanding fetches of one position."""
    _measure(run, Asking(1, 100, frames.fetches(GROUPS, 1), 1), "requests/s", Goals(100, 800_000))


@workload("fetch/connections", ">= 100 k/s and >= 3 x Kafka")
def connections(run: Run) -> None:
    """A hundred connections that each wait for each fetch of one position."""
    _measure(run, Asking(100, 1, frames.fetches(GROUPS, 1), 1), "requests/s", Goals(3, 100_000))


@workload("fetch/offsets", ">= 3 M offsets/s and >= 10 x Kafka")
def offsets(run: Run) -> None:
    """One connection with ten outstanding fetches of a hundred positions."""
    _measure(run, Asking(1, 10, frames.fetches(GROUPS, 100), 100), "offsets/s", Goals(10, 3_000_000))
