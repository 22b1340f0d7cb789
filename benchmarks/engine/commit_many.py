"""Calls that commit many offsets, from dictionaries and from columns."""

from __future__ import annotations

import numpy as np

from benchmarks.keys import KeySpace, Shuffled
from benchmarks.peers.contender import Contender
from benchmarks.peers.lmdb_peer import Lmdb
from benchmarks.peers.ours import Ours
from benchmarks.race import Job, Runner, race
from benchmarks.workload import ON_END, Run, workload

#: LMDB with one transaction per dict of `commit_dict`, and with one per record batch of `commit_arrow`.
PEERS = ("LMDB, a dict of 100 at a time", "LMDB, a batch at a time")


class _Pairs:
    """Returns pairs of group and topic in a shuffled order, each with a base offset; equal seeds give equal pairs."""

    def __init__(self, run: Run, keys: KeySpace, contender: Contender) -> None:
        self.run, self.keys, self.contender = run, keys, contender
        self.shuffled = Shuffled(keys.groups * keys.topics, run.seed)
        self.base = 1

    def take(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        pairs = self.shuffled.take(count)
        bases = np.arange(self.base, self.base + count)
        self.base += count
        indices, offsets = self.rows(pairs, bases)
        self.run.committed(self.contender, indices, offsets)
        return pairs, bases

    def rows(self, pairs: np.ndarray, bases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        partitions = np.arange(self.keys.partitions)
        indices = (pairs[:, None] * self.keys.partitions + partitions).ravel()
        return indices, (bases[:, None] + partitions).ravel()


def _of_calls(run: Run, keys: KeySpace, contender: Contender, calls: int) -> Runner:
    pairs = _Pairs(run, keys, contender)

    def prepare(number: int) -> Job:
        made = keys.calls_of_pairs(*pairs.take(calls))
        return Job(lambda: contender.commit_calls(made), calls * keys.partitions)

    return Runner(contender.name, prepare, count=contender.count)


def _of_columns(
    run: Run, keys: KeySpace, contender: Contender, batches: int, pairs_each: int, *, dictionary: bool
) -> Runner:
    pairs = _Pairs(run, keys, contender)

    def prepare(number: int) -> Job:
        taken = [pairs.rows(*pairs.take(pairs_each)) for _ in range(batches)]
        made = [keys.columns(*rows, dictionary=dictionary) for rows in taken]
        return Job(lambda: contender.commit_columns(made), batches * pairs_each * keys.partitions)

    return Runner(contender.name, prepare, count=contender.count)


def _keys(run: Run) -> KeySpace:
    return KeySpace(run.size(100, 5), run.size(10, 4), 100)


@workload("commit_dict", ">= 6 M offsets/s and >= 4 x LMDB")
def commit_dict(run: Run) -> None:
    """Commits of 100 offsets from a dict {TopicPartition: int}, "process"."""
    keys = _keys(run)
    run.condition(f"{keys}, calls shuffled, seed {run.seed}; a call is one group and one topic's 100 partitions")
    run.condition(f"LMDB: one transaction per call; rounds alternate; {ON_END}")
    ours = Ours(run.new_directory(), "process")
    peer = Lmdb(run.new_directory(), sync=False)
    bare = run.bare().append(keys, run.size(1_000_000, 1_000), run.rounds, run.seed)
    bare.note += ", one batch per offset"
    with run.filled(keys, ours, peer):
        run.condition(str(ours))
        first = _of_calls(run, keys, ours, run.size(10_000, 20))
        other = _of_calls(run, keys, peer, run.size(2_000, 20))
        run.profiled = first
        run.report.figures += race(run.benchmark, [first, other], run.rounds)
        run.sustain(first, ours)
        run.sustain(other, peer)
    run.report.figures.append(bare)
    run.report.goal_rate(ours.name, 6e6)
    run.report.goal_ratio(ours.name, peer.name, 4)


@workload("commit_arrow", ">= 20 M offsets/s in a burst and >= 12 x LMDB")
def commit_arrow(run: Run) -> None:
    """Columnar commits: commit_arrow of record batches of 100 groups x 100 partitions, "process"."""
    keys = _keys(run)
    pairs_each = run.size(100, 5)
    rows = pairs_each * keys.partitions
    run.condition(
        f"{keys}, pairs shuffled, seed {run.seed}; a batch: {pairs_each} pairs of group and topic, {rows:,} rows"
    )
    run.condition(f"LMDB: one transaction per dict of 100, and one per batch of the same columns; {ON_END}")
    _columns_race(run, keys, pairs_each)
    run.report.goal_rate("offsetlog, strings", 20e6)
    best = max((run.report.figure(name) for name in PEERS), key=lambda figure: figure.median)
    run.report.goal_ratio("offsetlog, strings", best.name, 12)


def _columns_race(run: Run, keys: KeySpace, pairs_each: int) -> None:
    batches, peer_batches = run.size(200, 4), run.size(20, 2)
    names = ("offsetlog, strings", "offsetlog, dictionaries")
    stores = [Ours(run.new_directory(), "process", name=name) for name in names]
    peers = [Lmdb(run.new_directory(), sync=False) for _ in range(2)]
    for peer, name in zip(peers, PEERS, strict=True):
        peer.name = name
    with run.filled(keys, *stores, *peers):
        run.condition(str(stores[0]))
        runners = [
            _of_columns(run, keys, stores[0], batches, pairs_each, dictionary=False),
            _of_columns(run, keys, stores[1], batches, pairs_each, dictionary=True),
            _of_calls(run, keys, peers[0], run.size(2_000, 20)),
            _of_columns(run, keys, peers[1], peer_batches, pairs_each, dictionary=False),
        ]
        run.profiled = runners[0]
        run.report.figures += race(run.benchmark, runners, run.rounds)
        for runner, contender in zip(runners, (*stores, *peers), strict=True):
            run.sustain(runner, contender)
