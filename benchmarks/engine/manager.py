"""The storage plugin: its commits compared with those of a store, `advance`, watches, and takeovers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa
from pytest_benchmark.stats import Stats

import offsetlog
from benchmarks.keys import KeySpace, Shuffled, digest_of
from benchmarks.opening import BY_HAND
from benchmarks.race import Job, Runner, race
from benchmarks.results import Figure, Goal
from benchmarks.workload import Run, workload
from offsetlog.errors import CoordinatorLoadingError
from offsetlog.manager.interface import PartitionState
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings, QuotaLimits
from offsetlog.types import LogGap, OffsetAndMetadata, PositionChange, TopicPartition

Commit = Callable[[str, dict[TopicPartition, int]], object]
Fetch = Callable[[str, list[TopicPartition]], Mapping[TopicPartition, OffsetAndMetadata]]

#: Limits that the workload never reaches.
UNREACHED = QuotaLimits(group_commits=1e12, group_bytes=1e15, client_commits=1e12, client_bytes=1e15)
PARTITIONS = 4


@contextmanager
def leading(run: Run, *, replicas: int = 1, quotas: QuotaLimits | None = None) -> Iterator[LogManager]:
    settings = ManagerSettings(
        path=run.new_directory(),
        partitions=PARTITIONS,
        replication_factor=replicas,
        durability="process",
        quotas=quotas or QuotaLimits(),
        maintenance=BY_HAND,
    )
    with LogManager(settings) as manager:
        for number in range(PARTITIONS):
            manager.become_leader(number, 1)
        yield manager


def digest_left(keys: KeySpace, fetch: Fetch) -> str:
    """Returns the digest of the committed offsets of all keys; a key without an offset counts as -1."""
    offsets = np.full(keys.count, -1, np.int64)
    by_group: dict[str, list[tuple[int, TopicPartition]]] = {}
    for index, (group, topic, partition) in enumerate(keys.rows(np.arange(keys.count))):
        by_group.setdefault(group, []).append((index, TopicPartition(topic, partition)))
    for group, places in by_group.items():
        found = fetch(group, [key for _, key in places])
        for index, key in places:
            if key in found:
                offsets[index] = found[key].offset
    return digest_of(offsets)


def _left(run: Run, names: Iterable[str], digest: str) -> None:
    for name in names:
        run.report.figure(name).digest = digest


def _runner(run: Run, name: str, keys: KeySpace, count: int, commit: Commit, note: str = "") -> Runner:
    shuffled = Shuffled(keys.count, run.seed)

    def prepare(_: int) -> Job:
        rows = [
            (group, {TopicPartition(topic, partition): offset})
            for offset, (group, topic, partition) in enumerate(keys.rows(shuffled.take(count)))
        ]

        def job() -> None:
            for group, offsets in rows:
                commit(group, offsets)

        return Job(job, count)

    return Runner(name, prepare, unit="commits/s", note=note)


@workload("manager/commit", "<= 1.3 x the time of a bare store, <= 2 x with quotas")
def commit(run: Run) -> None:
    """Commits of one offset, "process", 10^4 keys: through the log manager, and through a store alone."""
    keys = KeySpace(10, run.size(10, 2), run.size(100, 10))
    count = run.size(300_000, 1_000)
    run.condition(f"{keys}, shuffled, seed {run.seed}; one offset per commit; rounds alternate")
    run.condition(f'{PARTITIONS} log partitions, of one replica; durability "process"')
    with (
        offsetlog.open(run.new_directory(), PARTITIONS, "process", maintenance=BY_HAND) as store,
        leading(run) as plain,
        leading(run, quotas=UNREACHED) as limited,
    ):
        bound = limited.commit

        def commit_limited(group: str, offsets: dict[TopicPartition, int]) -> object:
            return bound(group, offsets, client="client")

        runners = [
            _runner(run, "store", keys, count, store.commit),
            _runner(run, "log manager", keys, count, plain.commit),
            _runner(run, "log manager, quotas", keys, count, commit_limited, "limits: group, client; commits, bytes"),
        ]
        run.profiled = runners[1]
        run.report.figures += race(run.benchmark, runners, run.rounds)
        left = {digest_left(keys, fetch) for fetch in (store.fetch, plain.fetch, limited.fetch)}
        if len(left) != 1:
            raise AssertionError("the store and the managers do not hold the same")
        _left(run, (runner.name for runner in runners), left.pop())
    _goal_time(run, "log manager", 1.3)
    _goal_time(run, "log manager, quotas", 2.0)


def _goal_time(run: Run, name: str, wanted: float) -> None:
    times = run.report.ratio("store", name)
    run.report.goals.append(Goal(f"{name}: <= {wanted} x the time of the store", wanted, times, at_most=True))


@workload("manager/advance", "<= 1.5 us for a commit and the move of W over it")
def advance(run: Run) -> None:
    """One-offset commits on a replicated partition, each followed by `advance`, which moves W over it."""
    keys = KeySpace(1, run.size(100, 2), run.size(100, 10))
    count = run.size(300_000, 1_000)
    run.condition(f"{keys}, shuffled, seed {run.seed}; W is moved after each commit; rounds alternate")
    run.condition(f"{PARTITIONS} log partitions, one of which is written to")
    with leading(run, replicas=3) as manager:
        advances, commits = manager.advance, manager.commit
        ((group, _, _),) = keys.rows(Shuffled(keys.count, 1).take(1))
        number = manager.partition_for(group)

        def both(group: str, offsets: dict[TopicPartition, int]) -> object:
            written = commits(group, offsets)
            return advances(number, 1, written.log_offset + 1)

        runner = _runner(run, "commit and advance", keys, count, both)
        run.profiled = runner
        run.report.figures += race(run.benchmark, [runner], run.rounds)
        _left(run, [runner.name], digest_left(keys, manager.fetch))
    taken = 1e6 / run.report.figure("commit and advance").median
    run.report.goals.append(Goal("commit and advance: <= 1.5 us", 1.5, taken, at_most=True))


@workload("manager/watch", ">= 1 M changes/s in Arrow batches")
def watch(run: Run) -> None:
    """A watch from the beginning of the logs that reports every change once, in Arrow batches and as objects."""
    keys = KeySpace(run.size(1000, 10), run.size(10, 2), run.size(100, 10))
    commits, rows = run.size(1000, 10), run.size(1000, 50)
    run.condition(f"{commits} commits of {rows} rows of columns, from {keys}")
    run.condition(f"{PARTITIONS} log partitions, in the page cache")
    with offsetlog.open(run.new_directory(), PARTITIONS, "process", maintenance=BY_HAND) as store:
        shuffled = Shuffled(keys.count, run.seed)
        for value in range(commits):
            names = list(zip(*keys.rows(shuffled.take(rows)), strict=True))
            columns = dict(zip(("group", "topic", "partition"), names, strict=True))
            store.commit_arrow(pa.table(columns | {"offset": [value] * rows}))
        path = store.path
    settings = ManagerSettings(path=path, partitions=PARTITIONS, durability="process", maintenance=BY_HAND)
    with LogManager(settings) as manager:
        for number in range(PARTITIONS):
            manager.become_leader(number, 10).result()
        beginning = dict.fromkeys(range(PARTITIONS), (-1, 0))

        def read(arrow: bool) -> tuple[int, int]:
            found = total = 0
            with manager.watch(from_position=beginning) as changes:
                while items := changes.poll_arrow() if arrow else changes.poll(0, 5000):
                    for item in items:
                        assert not isinstance(item, LogGap)
                        if isinstance(item, PositionChange):
                            assert item.value is not None
                            found, total = found + 1, total + item.value.offset
                        else:
                            found += item.num_rows
                            total += int(item.column("offset").to_numpy().sum())
            return found, total

        expected = commits * rows, rows * commits * (commits - 1) // 2

        def prepare(arrow: bool) -> Callable[[int], Job]:
            def job() -> None:
                if read(arrow) != expected:
                    raise AssertionError("the watch has not reported every change once")

            return lambda _: Job(job, commits * rows)

        runners = [
            Runner("Arrow batches", prepare(True), unit="changes/s"),
            Runner("objects", prepare(False), unit="changes/s"),
        ]
        run.profiled = runners[0]
        run.report.figures += race(run.benchmark, runners, run.rounds)
        _left(run, (runner.name for runner in runners), digest_left(keys, manager.fetch))
    run.report.goal_rate("Arrow batches", 1e6)


# ------------------------------------------------------------------------------------------------------- takeovers


def _first_fetch(manager: LogManager, number: int, epoch: int, group: str, key: TopicPartition) -> float:
    """Makes the replica leader; returns the seconds until a fetch is answered.  W stays at the log end."""
    started = time.perf_counter()
    manager.become_leader(number, epoch)
    while True:
        with suppress(CoordinatorLoadingError):
            found = manager.fetch(group, [key])
            taken = time.perf_counter() - started
            assert found[key].offset >= 0
            return taken
        if manager.state(number) is PartitionState.LOADING:
            manager.advance(number, epoch, manager.positions(number).log_end)


def _figure(name: str, stats: Stats, note: str = "") -> Figure:
    return Figure(name, "ms", stats.median * 1e3, stats.max * 1e3, stats.min * 1e3, stats.rounds, note=note)


@workload("manager/takeover", "first fetch < 50 ms from a hot standby, < 300 ms cold from a snapshot")
def takeover(run: Run) -> None:
    """The time from when a replica of 10^6 positions becomes leader until its first fetch is answered."""
    keys = KeySpace(1, run.size(1000, 10), run.size(1000, 10))
    path = run.new_directory()
    with offsetlog.open(path, 1, "process", maintenance=BY_HAND) as store:
        for indices in keys.chunks():
            store.commit_arrow(keys.columns(indices, indices + 1, dictionary=True))
        store.snapshot()
    ((group, topic, partition),) = keys.rows(Shuffled(keys.count, run.seed).take(1))
    key = TopicPartition(topic, partition)
    run.condition(f"{keys} in one log partition, in the page cache; W is at the log end")
    hot, cold = Stats(), Stats()
    epoch = 100
    for _ in range(run.rounds):
        settings = ManagerSettings(path=path, partitions=1, replication_factor=3, maintenance=BY_HAND)
        with LogManager(settings) as manager:
            epoch += 2
            cold.update(_first_fetch(manager, 0, epoch - 1, group, key))
            manager.become_follower(0, epoch).result(60)
            epoch += 1
            hot.update(_first_fetch(manager, 0, epoch, group, key))
            digest = digest_left(keys, manager.fetch)
    run.report.figures += [_figure("hot standby", hot), _figure("cold, from a snapshot", cold)]
    _left(run, ("hot standby", "cold, from a snapshot"), digest)
    run.report.goals.append(Goal("hot standby: < 50 ms", 50, hot.median * 1e3, at_most=True))
    run.report.goals.append(Goal("cold, from a snapshot: < 300 ms", 300, cold.median * 1e3, at_most=True))
