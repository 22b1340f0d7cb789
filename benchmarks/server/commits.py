"""Commits over a socket: one at a time, pipelined, from many connections, and of many offsets."""

from __future__ import annotations

from benchmarks.server import frames
from benchmarks.server.contenders import Bare, Ours
from benchmarks.server.wire_race import Asking, Goals, beside_kafka, judge, race
from benchmarks.workload import Run, workload

GROUPS = 100


def _measure(run: Run, asking: Asking, unit: str, goals: Goals) -> None:
    own = [
        Ours(run.new_directory(), "process"),
        Ours(run.new_directory(), "disk"),
        Bare(run.new_directory(), _first_answer(asking.frames)),
    ]
    with beside_kafka(run, own) as contenders:
        race(run, contenders, asking, unit)
    judge(run, goals)


def _first_answer(pairs: bytes) -> bytes:
    start = 4 + int.from_bytes(pairs[:4], "big")
    return pairs[start + 4 : start + 4 + int.from_bytes(pairs[start : start + 4], "big")]


@workload("commit/waiting", ">= 3 x Kafka")
def waiting(run: Run) -> None:
    """One connection that waits for each commit of one offset."""
    _measure(run, Asking(1, 1, frames.commits(GROUPS, 1), 1), "requests/s", Goals(3))


@workload("commit/pipelined", ">= 0.8 M/s and >= 100 x Kafka")
def pipelined(run: Run) -> None:
    """One connection with a hundred outstanding commits of one offset."""
    _measure(run, Asking(1, 100, frames.commits(GROUPS, 1), 1), "requests/s", Goals(100, 800_000))


@workload("commit/connections", ">= 100 k/s and >= 3 x Kafka")
def connections(run: Run) -> None:
    """A hundred connections that each wait for each commit of one offset."""
    _measure(run, Asking(100, 1, frames.commits(GROUPS, 1), 1), "requests/s", Goals(3, 100_000))


@workload("commit/offsets", ">= 3 M offsets/s and >= 10 x Kafka")
def offsets(run: Run) -> None:
    """One connection with ten outstanding commits of a hundred offsets."""
    _measure(run, Asking(1, 10, frames.commits(GROUPS, 100), 100), "offsets/s", Goals(10, 3_000_000))
