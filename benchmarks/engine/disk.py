"""Commits that survive a loss of power, many of which wait for the disk at a time.

In the lines that are judged, the caller commits in waves: it makes N commits, and then waits for their N results.
The other stores commit a wave in one transaction.  In the lines named "sliding", the caller always keeps N commits
outstanding, which is not possible with a transaction.
"""

from __future__ import annotations

import numpy as np

from benchmarks.keys import KeySpace, Shuffled
from benchmarks.machine import file_system
from benchmarks.opening import partitions_of
from benchmarks.peers.contender import Contender
from benchmarks.peers.lmdb_peer import Lmdb
from benchmarks.peers.ours import Ours
from benchmarks.peers.rocksdb_peer import RocksDb
from benchmarks.peers.sqlite_peer import Sqlite
from benchmarks.race import Job, Runner, race
from benchmarks.workload import ON_END, REGISTRY, Run, Workload

#: The number of waiting commits for which there is a goal.
JUDGED = 1_000
#: The goals as multiples of the best other store: for the default store, and for one or fifty log partitions.
WANTED, WANTED_OF_OTHERS = 2.5, 3


def _runner(
    run: Run, keys: KeySpace, contender: Contender, waiting: int, waves: int, *, sliding: bool = False
) -> Runner:
    shuffled = Shuffled(keys.count, run.seed)
    base = 1

    def prepare(number: int) -> Job:
        nonlocal base
        indices = shuffled.take(waiting * waves)
        offsets = np.arange(base, base + len(indices))
        base += len(indices)
        calls = keys.calls(indices, offsets)
        made = [calls[start : start + waiting] for start in range(0, len(calls), waiting)]

        def job() -> None:
            if sliding:
                assert isinstance(contender, Ours)
                contender.commit_sliding(calls, waiting)
            else:
                for wave in made:
                    contender.commit_wave(wave)

        run.committed(contender, indices, offsets)
        return Job(job, len(indices))

    name = f"{contender.name}, sliding" if sliding else contender.name
    return Runner(name, prepare, settle=lambda job: contender.check_durability(), count=contender.count)


def _stores(run: Run) -> list[Ours]:
    return [
        Ours(run.new_directory(), "disk", None, f"offsetlog, default, {run.log_partitions} log partitions"),
        Ours(run.new_directory(), "disk", 1, "offsetlog, 1 log partition"),
        Ours(run.new_directory(), "disk", run.kafka_partitions, f"offsetlog, {run.kafka_partitions} log partitions"),
    ]


def _check_partitions(run: Run, stores: list[Ours]) -> None:
    # A line whose name contains a number of log partitions must have used all of them.
    for ours, wanted in zip(stores, (run.log_partitions, 1, run.kafka_partitions), strict=True):
        used = partitions_of(ours.directory)
        if used != wanted:
            raise AssertionError(f"{run.report.name}: {ours.name}: {used} are used")
        run.report.facts[f"used by {ours.name!r}"] = used


def _measure(run: Run, waiting: int) -> None:
    keys = KeySpace(100, 1, run.size(100, 10))
    waves = run.size(max(5, min(100, 100_000 // waiting)), 2)
    run.condition(f"{keys}, shuffled, seed {run.seed}; {waves} waves per round; files on {file_system(run.directory)}")
    run.condition(
        "offsetlog: commit_async of one offset each, then result() of each; others: the same in a synced transaction; "
        f"sliding: always {waiting:,} outstanding, result() of the oldest before the next commit"
    )
    stores = _stores(run)
    peers = [
        RocksDb(run.new_directory(), sync=True),
        Lmdb(run.new_directory(), sync=True, map_bytes=1 << 30),
        Sqlite(run.new_directory(), sync=True),
    ]
    contenders: list[Contender] = [*stores, *peers]
    with run.filled(keys, *contenders):
        _check_partitions(run, stores)
        runners = [_runner(run, keys, contender, waiting, waves) for contender in contenders]
        run.profiled = runners[0]
        sliding = [_runner(run, keys, ours, waiting, waves, sliding=True) for ours in stores]
        run.report.figures += race(run.benchmark, runners + sliding, run.rounds)
        if waiting == JUDGED:
            run.condition(ON_END)
            for runner, contender in zip(runners, contenders, strict=True):
                run.sustain(runner, contender)
    if waiting == JUDGED:
        best = max((run.report.figure(peer.name) for peer in peers), key=lambda figure: figure.median)
        for ours in stores:
            run.report.goal_ratio(ours.name, best.name, WANTED if ours is stores[0] else WANTED_OF_OTHERS)


def _register(waiting: int) -> None:
    def disk(run: Run) -> None:
        _measure(run, waiting)

    disk.__doc__ = f'Commits that wait for the disk, "disk", {waiting:,} waiting at a time.'
    goals = f">= {WANTED} x the best peer by the default store" if waiting == JUDGED else "how it grows"
    REGISTRY.append(Workload(f"disk/{waiting}", disk, goals, smoke=waiting <= JUDGED))


for _waiting in (1, 10, 100, JUDGED, 10_000):
    _register(_waiting)
