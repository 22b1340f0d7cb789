"""Commits that survive the loss of power, many waiting at a time.

In waves of so many, all committed and then all collected, as a peer does in a transaction of as many: these lines are
judged. And sliding, so many outstanding all the time, which a transaction cannot do: for comparison.
"""

from __future__ import annotations

import numpy as np

from benchmarks.keys import KeySpace, Shuffled
from benchmarks.machine import file_system
from benchmarks.peers.contender import Contender
from benchmarks.peers.lmdb_peer import Lmdb
from benchmarks.peers.ours import Ours
from benchmarks.peers.rocksdb_peer import RocksDb
from benchmarks.peers.sqlite_peer import Sqlite
from benchmarks.race import Job, Runner, race, sustain
from benchmarks.workload import REGISTRY, Run, Workload


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

    return Runner(f"{contender.name}, sliding" if sliding else contender.name, prepare)


def _measure(run: Run, waiting: int) -> None:
    keys = KeySpace(100, 1, run.size(100, 10))
    waves = run.size(max(5, min(100, 100_000 // waiting)), 2)
    run.condition(f"{keys}, shuffled, seed {run.seed}; {waves} waves a round; files on {file_system(run.directory)}")
    run.condition(
        "ours: commit_async of one offset each, then result() of each; peers: the same in one synced transaction; "
        "sliding: so many outstanding all the time, the oldest collected before the next is committed"
    )
    contenders: list[Contender] = [
        Ours(run.new_directory(), "disk", 1, "offsetlog, 1 log partition"),
        Ours(run.new_directory(), "disk", run.log_partitions, f"offsetlog, {run.log_partitions} log partitions"),
        RocksDb(run.new_directory(), sync=True),
        Lmdb(run.new_directory(), sync=True, map_bytes=1 << 30),
        Sqlite(run.new_directory(), sync=True),
    ]
    with run.filled(keys, *contenders):
        runners = [_runner(run, keys, contender, waiting, waves) for contender in contenders]
        run.profiled = runners[0]
        runners += [_runner(run, keys, contender, waiting, waves, sliding=True) for contender in contenders[:2]]
        run.report.figures += race(run.benchmark, runners, run.rounds)
        if waiting == 1_000:
            run.report.figures += [sustain(runner, run.seconds) for runner in runners[:2]]
    if waiting == 1_000:
        best = max(run.report.figures[2:5], key=lambda figure: figure.median)
        for ours in contenders[:2]:
            run.report.goal_ratio(ours.name, best.name, 3)


def _register(waiting: int) -> None:
    def disk(run: Run) -> None:
        _measure(run, min(waiting, run.size(waiting, 100)))

    disk.__doc__ = f'Commits that wait for the disk, "disk", {waiting:,} waiting at a time.'
    goals = ">= 3 x the best peer" if waiting == 1_000 else "how it grows"
    REGISTRY.append(Workload(f"disk/{waiting}", disk, goals, smoke=waiting <= 100))


for _waiting in (1, 10, 100, 1_000, 10_000):
    _register(_waiting)
