"""Commits that tasks of an event loop await, a thousand at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from benchmarks.engine.manager import PARTITIONS, digest_left, leading
from benchmarks.keys import KeySpace, Shuffled
from benchmarks.machine import file_system
from benchmarks.race import Job, Runner, race
from benchmarks.results import Goal
from benchmarks.workload import Run, workload
from offsetlog.manager.async_manager import AsyncOffsetManager
from offsetlog.manager.interface import Durability
from offsetlog.types import TopicPartition

#: The number of tasks; each awaits one commit after another.
WAITING = 1_000
#: The number of commits in a round, for each durability.
DURABILITIES: dict[Durability, int] = {"process": 200_000, "disk": 50_000, "replicas": 50_000}

Row = tuple[str, dict[TopicPartition, int]]


async def _commit_all(manager: AsyncOffsetManager, rows: list[Row], durability: Durability) -> None:
    left: Iterator[Row] = iter(rows)

    async def take() -> None:
        for group, offsets in left:
            await manager.commit(group, offsets, durability=durability)

    await asyncio.gather(*(take() for _ in range(WAITING)))


def _runner(run: Run, manager: AsyncOffsetManager, keys: KeySpace, durability: Durability) -> Runner:
    shuffled = Shuffled(keys.count, run.seed)
    count = run.size(DURABILITIES[durability], 2_000)

    def prepare(_: int) -> Job:
        rows = [
            (group, {TopicPartition(topic, partition): offset})
            for offset, (group, topic, partition) in enumerate(keys.rows(shuffled.take(count)))
        ]
        return Job(lambda: asyncio.run(_commit_all(manager, rows, durability)), count)

    return Runner(f'"{durability}"', prepare, unit="commits/s")


@workload("manager/async", '>= 500,000/s awaited, of durability "process"')
def awaited(run: Run) -> None:
    """await commit(group, {partition: offset}): 1,000 tasks of one event loop."""
    keys = KeySpace(10, run.size(10, 2), run.size(100, 10))
    run.condition(f"{keys}, shuffled, seed {run.seed}; one offset per commit; {WAITING:,} at once; rounds alternate")
    run.condition(f"{PARTITIONS} log partitions, of one replica; files on {file_system(run.directory)}")
    with leading(run) as disk, leading(run) as replicas, leading(run) as process:
        managers = {"process": process, "disk": disk, "replicas": replicas}
        runners = [_runner(run, AsyncOffsetManager(managers[each]), keys, each) for each in DURABILITIES]
        run.profiled = runners[0]
        run.report.figures += race(run.benchmark, runners, run.rounds)
        for figure, manager in zip(run.report.figures, managers.values(), strict=True):
            figure.digest = digest_left(keys, manager.fetch)
    rate = run.report.figure('"process"').median
    run.report.goals.append(Goal('"process": >= 500,000/s', 500_000, rate))
