"""Fetches of committed positions."""

from __future__ import annotations

import pyarrow as pa

from benchmarks.keys import KeySpace, Shuffled, digest_of
from benchmarks.peers.contender import Contender
from benchmarks.peers.lmdb_peer import Lmdb
from benchmarks.peers.ours import Ours
from benchmarks.peers.rocksdb_peer import RocksDb
from benchmarks.race import Job, Runner, race
from benchmarks.workload import Run, workload


def _runner(run: Run, keys: KeySpace, contender: Contender, count: int) -> Runner:
    shuffled = Shuffled(keys.count, run.seed)

    def prepare(number: int) -> Job:
        indices = shuffled.take(count)
        rows = keys.rows(indices)
        expected = int(run.expected(contender)[indices].sum())

        def job() -> None:
            if contender.fetch_each(rows) != expected:
                raise AssertionError(f"{contender.name} read offsets that were not committed")

        return Job(job, count)

    return Runner(contender.name, prepare)


@workload("fetch_one/1e5", ">= 3 M/s")
def fetch_one(run: Run) -> None:
    """fetch_one of 10^5 keys, one after the other; every result is read."""
    keys = KeySpace(run.size(100, 5), run.size(10, 2), run.size(100, 10))
    run.condition(f"{keys}, shuffled, seed {run.seed}; the caller adds up the offsets")
    run.condition("LMDB: get inside one reading transaction, zero-copy; RocksDB: get; packing and unpacking included")
    bare = run.bare().fetch(keys, run.size(1_000_000, 1_000), run.rounds, run.seed)
    ours = Ours(run.new_directory(), "process")
    peers: list[Contender] = [Lmdb(run.new_directory(), sync=False), RocksDb(run.new_directory(), sync=False)]
    with run.filled(keys, ours, *peers):
        run.condition(str(ours))
        runners = [_runner(run, keys, contender, run.size(300_000, 500)) for contender in (ours, *peers)]
        run.profiled = runners[0]
        run.report.figures += race(run.benchmark, runners, run.rounds)
        for runner, contender in zip(runners, (ours, *peers), strict=True):
            run.sustain(runner, contender)
    run.report.figures.append(bare)
    run.report.goal_rate(ours.name, 3e6)


@workload("fetch_arrow", ">= 15 M/s")
def fetch_arrow(run: Run) -> None:
    """Columnar fetch: fetch_arrow of all groups, and to_arrow."""
    keys = KeySpace(run.size(100, 5), run.size(100, 2), 100)
    run.condition(f"{keys}; LMDB: a cursor over all entries into lists, then Arrow arrays")
    ours = Ours(run.new_directory(), "process")
    peer = Lmdb(run.new_directory(), sync=False)
    tables: dict[str, pa.Table] = {}
    with run.filled(keys, ours, peer):
        run.condition(str(ours))
        names = keys.group_names
        times = run.size(5, 1)
        runners = [
            _columnar("offsetlog.fetch_arrow", lambda: ours.store.fetch_arrow(names), keys, times, tables),
            _columnar("offsetlog.to_arrow", ours.store.to_arrow, keys, times, tables),
            _columnar(peer.name, lambda: _lmdb_table(peer), keys, 1, tables),
        ]
        run.profiled = runners[0]
        run.report.figures += race(run.benchmark, runners, run.rounds)
        run.sustain(runners[0], ours)
        for figure in run.report.figures:
            # The sustained figure measures the same call as the rounds.
            table = next(tables[name] for name in tables if figure.name.startswith(name))
            found = keys.offsets_of(table)
            if (found != run.expected(ours)).any():
                raise AssertionError(f"{figure.name} returned offsets that were not committed")
            figure.digest = digest_of(found)
    run.report.goal_rate("offsetlog.fetch_arrow", 15e6)
    run.report.goal_rate("offsetlog.to_arrow", 15e6)


def _columnar(name: str, read: object, keys: KeySpace, times: int, tables: dict[str, pa.Table]) -> Runner:
    assert callable(read)

    def job() -> None:
        for _ in range(times):
            tables[name] = read()
        if tables[name].num_rows != keys.count:
            raise AssertionError(f"{name} returned {tables[name].num_rows:,} rows, not {keys.count:,}")

    return Runner(name, lambda number: Job(job, keys.count * times))


def _lmdb_table(peer: Lmdb) -> pa.Table:
    groups, topics, partitions, offsets = [], [], [], []
    with peer.environment.begin() as transaction:
        for key, value in transaction.cursor():
            group, topic, partition = key.split(b"\0", 2)
            groups.append(group)
            topics.append(topic)
            partitions.append(int.from_bytes(partition, "big"))
            offsets.append(int.from_bytes(value[:8], "little"))
    names = ["group", "topic", "partition", "offset"]
    numbers = [pa.array(partitions, pa.int32()), pa.array(offsets, pa.int64())]
    return pa.table([pa.array(groups, pa.string()), pa.array(topics, pa.string()), *numbers], names)
