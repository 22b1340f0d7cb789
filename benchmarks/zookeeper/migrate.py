"""Compares a migration with kazoo alone, with equally many outstanding requests, on one ensemble of three servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import offsetlog
from benchmarks.opening import BY_HAND
from benchmarks.race import Job, Runner, race
from benchmarks.results import Figure, Goal
from benchmarks.workload import Run, workload
from benchmarks.zookeeper import kazoo_alone
from benchmarks.zookeeper.ensemble import started
from benchmarks.zookeeper.kazoo_alone import Offsets
from offsetlog.migration.directory_place import DirectoryPlace
from offsetlog.migration.migration import Migration
from offsetlog.migration.zookeeper_place import ZooKeeperPlace
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection

OURS, ALONE = "migrate", "kazoo alone"
WANTED = 0.8
PARTITIONS = 20


def _drawn(run: Run) -> Offsets:
    groups, topics = run.size(1000, 10), run.size(5, 2)
    drawn = iter(np.random.default_rng(run.seed).integers(1, 1 << 40, groups * topics * PARTITIONS).tolist())
    return {
        f"group-{group:04d}": {
            f"topic-{topic}": {str(partition): next(drawn) for partition in range(PARTITIONS)}
            for topic in range(topics)
        }
        for group in range(groups)
    }


def _rows(offsets: Offsets) -> list[tuple[str, str, int, int]]:
    return sorted(
        (group, topic, int(partition), offset)
        for group, topics in offsets.items()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    )


def _check(run: Run, found: list[tuple[str, str, int, int]], wanted: list[tuple[str, str, int, int]]) -> None:
    if found != wanted:
        raise AssertionError(f"{run.report.name}: the moved positions are not those of the source")


def _stored(path: Path) -> list[tuple[str, str, int, int]]:
    with offsetlog.open(path, read_only=True) as store:
        table = store.to_arrow()
    names = ("group", "topic", "partition", "offset")
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True))


def _fill(path: Path, rows: list[tuple[str, str, int, int]]) -> None:
    names = ("group", "topic", "partition", "offset")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    with offsetlog.open(path, maintenance=BY_HAND) as store:
        store.commit_arrow(pa.table(columns))


@contextmanager
def _connected(
    run: Run, offsets: Offsets, kind: type[ZooKeeperConnection] = ZooKeeperConnection
) -> Iterator[tuple[str, ZooKeeperConnection]]:
    count = sum(len(partitions) for topics in offsets.values() for partitions in topics.values())
    run.condition(
        f"{count:,} offsets of {len(offsets):,} groups; three servers on this machine, kazoo in this process; "
        f"each contender has at most {kazoo_alone.READS} reads and {kazoo_alone.GROUPS} groups outstanding"
    )
    run.condition(f"keys of {run.log_partitions} log partitions; a commit waits for the disk")
    with (
        started(run.new_directory()) as ensemble,
        kind(ConnectionSettings(hosts=ensemble.hosts, session_timeout=30.0)) as connection,
    ):
        yield ensemble.hosts, connection


class _Timed:
    """The work of one competitor; records the wall time and the processor time of each round but the warm-up."""

    def __init__(self, name: str, work: Callable[[], object], offsets: int) -> None:
        self.name = name
        self._work = work
        self._offsets = offsets
        self._rounds: list[tuple[float, float]] = []

    def job(self, _: int = 0) -> Job:
        return Job(self._run, self._offsets)

    def _run(self) -> None:
        wall, processor = time.perf_counter(), time.process_time()
        self._work()
        self._rounds.append((time.perf_counter() - wall, time.process_time() - processor))

    @property
    def walls(self) -> list[float]:
        return [wall for wall, _ in self._rounds[1:]]

    def processor_time(self) -> Figure:
        spent = [processor / self._offsets * 1e6 for _, processor in self._rounds[1:]]
        extent = (median(spent), min(spent), max(spent))
        return Figure(f"{self.name}, processor", "us/offset", *extent, rounds=len(spent), operations=self._offsets)


def _compete(run: Run, runners: list[Runner], ours: _Timed, alone: _Timed) -> None:
    """Measures the migration and kazoo alone, and compares three figures, because other work may run on the machine.

    * The median time of all rounds.
    * The median ratio of successive rounds, which a short burst of other work does not change.
    * The processor time of this process, which other work hardly changes.
    """
    report = run.report
    report.figures += race(run.benchmark, runners, run.rounds)
    spent, spent_alone = ours.processor_time(), alone.processor_time()
    report.figures += [spent, spent_alone]
    report.goal_ratio(OURS, ALONE, WANTED)
    paired = median(other / own for own, other in zip(ours.walls, alone.walls, strict=True))
    report.goals += [
        Goal(f"{OURS}: >= {WANTED:g} x {ALONE}, round by round", WANTED, paired),
        Goal(
            f"{OURS}: processor time <= {1 / WANTED:g} x {ALONE}",
            1 / WANTED,
            spent.median / spent_alone.median,
            at_most=True,
        ),
    ]


@workload("migrate/to-zookeeper", f">= {WANTED} x kazoo alone")
def to_zookeeper(run: Run) -> None:
    """Migrates a log directory into an empty ZooKeeper; kazoo alone writes the same offsets from memory."""
    offsets = _drawn(run)
    rows = _rows(offsets)
    path = run.new_directory()
    _fill(path, rows)
    with _connected(run, offsets) as (hosts, connection):
        client = kazoo_alone.client_of(hosts)

        def ours() -> None:
            with offsetlog.open(path, read_only=True) as store:
                source = DirectoryPlace(store)
                migration = Migration(source, ZooKeeperPlace(connection), source.groups())
                list(migration.run())
            if migration.report.committed != {"new": len(rows)}:
                raise AssertionError(f"{run.report.name}: {migration.report}")

        def settle(_: Job) -> None:
            _check(run, _rows(kazoo_alone.read(client)), rows)
            kazoo_alone.remove(client, offsets)

        migrate = _Timed(OURS, ours, len(rows))
        alone = _Timed(ALONE, lambda: kazoo_alone.write(client, offsets), len(rows))
        runners = [Runner(each.name, each.job, settle=settle) for each in (migrate, alone)]
        try:
            _compete(run, runners, migrate, alone)
        finally:
            client.stop()
            client.close()


class _OneByOne(ZooKeeperConnection):
    """A connection that sends one request for each read, as servers before 3.6 require."""

    def reads_many(self) -> bool:
        return False


@workload("migrate/from-zookeeper", f">= {WANTED} x kazoo alone")
def from_zookeeper(run: Run) -> None:
    """Migrates ZooKeeper into an empty log directory on the disk; kazoo alone only reads the offsets."""
    _out_of_zookeeper(run, ZooKeeperConnection)


@workload("migrate/from-zookeeper-one-by-one", f">= {WANTED} x kazoo alone")
def from_zookeeper_one_by_one(run: Run) -> None:
    """Migrates from ZooKeeper with one request for each node, as servers before 3.6 require; kazoo alone only reads."""
    _out_of_zookeeper(run, _OneByOne)


def _out_of_zookeeper(run: Run, kind: type[ZooKeeperConnection]) -> None:
    offsets = _drawn(run)
    rows = _rows(offsets)
    with _connected(run, offsets, kind) as (hosts, connection):
        client = kazoo_alone.client_of(hosts)
        kazoo_alone.write(client, offsets)
        paths: list[Path] = []
        read: list[Offsets] = []

        def ours() -> None:
            with offsetlog.open(paths[-1], maintenance=BY_HAND) as store:
                source = ZooKeeperPlace(connection)
                migration = Migration(source, DirectoryPlace(store), source.groups())
                list(migration.run())

        def prepare(number: int) -> Job:
            paths.append(run.new_directory())
            return migrate.job(number)

        def settle_ours(_: Job) -> None:
            _check(run, _stored(paths[-1]), rows)
            run.drop(paths[-1])

        def settle_alone(_: Job) -> None:
            _check(run, _rows(read.pop()), rows)

        migrate = _Timed(OURS, ours, len(rows))
        alone = _Timed(ALONE, lambda: read.append(kazoo_alone.read(client)), len(rows))
        runners = [Runner(OURS, prepare, settle=settle_ours), Runner(ALONE, alone.job, settle=settle_alone)]
        try:
            _compete(run, runners, migrate, alone)
        finally:
            client.stop()
            client.close()
