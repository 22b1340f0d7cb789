"""One-offset commits that survive the end of the process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.keys import KeySpace, Row, Shuffled
from benchmarks.peers.contender import Contender
from benchmarks.peers.lmdb_peer import Lmdb
from benchmarks.peers.ours import Ours
from benchmarks.race import Job, Runner, race, sustain
from benchmarks.results import Figure
from benchmarks.workload import ON_END, Run, workload

Commit = Callable[[list[Row], int], None]


def _runner(
    run: Run, keys: KeySpace, contender: Contender, count: int, commit: Commit | None = None, note: str = ""
) -> Runner:
    # Every contender gets the same keys in the same shuffled order.
    shuffled = Shuffled(keys.count, run.seed)
    use = commit if commit is not None else contender.commit_each
    base = 1

    def prepare(number: int) -> Job:
        nonlocal base
        indices = shuffled.take(count)
        rows, first = keys.rows(indices), base
        base += count

        def job() -> None:
            use(rows, first)

        run.committed(contender, indices, np.arange(first, first + count))
        return Job(job, count)

    return Runner(contender.name, prepare, note=note, count=contender.count)


def _measure(run: Run, keys: KeySpace, goal_rate: float, goal_ratio: float | None) -> None:
    count = run.size(1_000_000, 2_000)
    peer_count = run.size(200_000, 1_000)
    run.condition(f"{keys}, shuffled, seed {run.seed}; names of 20 and 15 bytes, no metadata")
    run.condition("each row: for group, topic, partition in rows: commit(...); the offset counts up; rounds alternate")
    run.condition(ON_END)
    bare = run.bare().append(keys, count, run.rounds, run.seed)
    ours = Ours(run.new_directory(), "process")
    peer = Lmdb(run.new_directory(), sync=False)
    with run.filled(keys, ours, peer):
        run.condition(str(ours))
        first = _runner(run, keys, ours, count)
        one = _runner(run, keys, peer, peer_count, note="one transaction a row")
        run.profiled = first
        run.report.figures += race(run.benchmark, [first, one], run.rounds)
        run.sustain(first, ours)
        run.sustain(one, peer)
        run.report.figures.append(_in_one_transaction(run, keys, peer, count))
    run.report.figures.append(bare)
    run.report.figures.append(_loop_alone(run, keys, count))
    run.report.goal_rate(ours.name, goal_rate)
    if goal_ratio is not None:
        run.report.goal_ratio(ours.name, peer.name, goal_ratio)


def _in_one_transaction(run: Run, keys: KeySpace, peer: Lmdb, count: int) -> Figure:
    note = "all rows of a round in one transaction: nothing is committed before its end"
    runner = _runner(run, keys, peer, count, peer.commit_each_in_one, note)
    figure = sustain(runner, min(run.seconds, 2.0), jobs=1)
    figure.name = f"{peer.name}, one transaction"
    return figure


def _loop_alone(run: Run, keys: KeySpace, count: int) -> Figure:
    rows = keys.rows(Shuffled(keys.count, run.seed).take(count))

    def job() -> None:
        for _offset, (_group, _topic, _partition) in enumerate(rows, 1):
            pass

    return sustain(Runner("the caller's loop alone", lambda number: Job(job, count)), min(run.seconds, 1.0), jobs=1)


@workload("commit_one/1e4", ">= 4 M/s and >= 5 x LMDB")
def commit_one_hot(run: Run) -> None:
    """One-offset commits from Python, "process", 10^4 hot keys."""
    _measure(run, KeySpace(10, run.size(10, 2), run.size(100, 10)), 4e6, 5)


@workload("commit_one/1e5", ">= 4 M/s and >= 5 x LMDB")
def commit_one_warm(run: Run) -> None:
    """One-offset commits from Python, "process", 10^5 hot keys."""
    _measure(run, KeySpace(run.size(100, 10), run.size(10, 4), run.size(100, 10)), 4e6, 5)


@workload("commit_one/1e7", ">= 1.3 M/s, beside a bare C loop; the ratio to 10^4 keys")
def commit_one_cold(run: Run) -> None:
    """One-offset commits from Python, "process", 10^7 shuffled keys."""
    _measure(run, KeySpace(run.size(1000, 10), run.size(100, 10), run.size(100, 10)), 1.3e6, None)
