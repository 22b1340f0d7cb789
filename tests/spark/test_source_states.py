"""The state of a partition, read in runs at a time and joined, is that of a read from its start to its end."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, StoreConfig, TopicPartition, errors
from offsetlog._native.replay import MemoryAccount, Replay
from offsetlog.spark import register, source
from offsetlog.spark.scan import joined_runs, plan, states
from offsetlog.spark.scan.files import Files, list_partitions
from offsetlog.spark.scan.hadoop_settings import HadoopSettings
from offsetlog.spark.scan.joined_runs import JoinedRuns, cut
from offsetlog.spark.scan.options import OFFSET_MAX, parallelism, parse
from offsetlog.spark.scan.plan import tasks_of
from offsetlog.spark.source import OffsetlogDataSource

from .reading import Row, read_splits, rows_of, splits_of

SEED = 11
KEYS = [TopicPartition("t", number) for number in range(5)]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Commits, deletions and transactions that overlap, in segments of 8 KiB; some are open at the end."""
    path, draw = tmp_path_factory.mktemp("log") / "data", random.Random(SEED)
    config = StoreConfig(segment_bytes=8 << 10, index_interval_bytes=512)
    by_hand = MaintenanceConfig(enabled=False)
    store = offsetlog.open(path, partitions=1, durability="process", config=config, maintenance=by_hand)
    waiting: dict[int, Any] = {}
    for step in range(900):
        group, key = draw.choice("abcd"), draw.choice(KEYS)
        choice = draw.randrange(12)
        if choice < 5:
            store.commit(group, {key: OffsetAndMetadata(step, "m" * draw.randrange(60))})
        elif choice < 7:
            store.delete(group, [key])
        elif choice < 10 or not waiting:
            producer = draw.randrange(5)
            if producer not in waiting:
                waiting[producer] = store.transaction(group, 100 + producer).__enter__()
            waiting[producer].commit({key: OffsetAndMetadata(step, "in a transaction")})
        else:
            transaction = waiting.pop(draw.choice(sorted(waiting)))
            transaction.abort() if draw.random() < 0.3 else transaction.__exit__(None, None, None)
    store.flush()
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    store.close()
    return copy


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[JoinedRuns | None]:
    """The result of each attempt to read in runs."""
    seen: list[JoinedRuns | None] = []

    def watch(*arguments: Any) -> JoinedRuns | None:
        seen.append(joined_runs.replay_joined(*arguments))
        return seen[-1]

    monkeypatch.setattr(states, "replay_joined", watch)
    return seen


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def replayed(log: Path, until: int) -> Replay:
    """The state below a log offset, by one replay."""
    replay = Replay()
    for path in sorted(log.glob("*/*.log")):
        assert replay.apply(path, until=until)["damage"] is None or replay.next_offset >= until
    return replay


@pytest.mark.parametrize("runs", [2, 3, 5, 8, 50])
def test_joined_runs_are_the_whole(log: Path, joined: list[JoinedRuns | None], runs: int) -> None:
    end = rows_of(log, view="records")[-1]["log_offset"] + 1
    draw = random.Random(SEED + runs)
    for until in (end, *(draw.randrange(1, end) for _ in range(12))):
        options = {} if until == end else {"at": f"offset:{until}"}
        for view in ("offsets", "groups"):
            found = rows_of(log, view=view, minPartitions=runs, **options)
            made = joined.pop()
            assert in_order(found) == in_order(rows_of(log, view=view, minPartitions=1, **options))
            assert joined.pop() is None
            if until > 200:
                assert made is not None
                whole = replayed(log, until)
                assert made.replay.digest(physical=True) == whole.digest(physical=True)
                # Every batch was applied once.
                assert (made.replay.batches, made.replay.records) == (whole.batches, whole.records)
                assert (made.replay.next_offset, made.replay.records_below) == (whole.next_offset, whole.records_below)


def test_runs_are_of_about_the_same_size(log: Path) -> None:
    listing = list_partitions(Files(), str(log))[0]
    bases = [segment.base_offset for segment in listing.segments]
    places = {(row["segment"], row["position"], row["base_offset"]) for row in rows_of(log, view="batches")}
    for count in (1, 2, 5, 8):
        starts = cut(Files(), listing, OFFSET_MAX, count)
        assert len(starts) == count
        assert (starts[0].index, starts[0].position) == (0, 0)
        for start in starts[1:]:
            assert (listing.segments[start.index].name, start.position, start.offset) in places
        at = [sum(each.size for each in listing.segments[: start.index]) + start.position for start in starts]
        sizes = [after - before for before, after in zip(at, [*at[1:], listing.size], strict=True)]
        assert max(sizes) - min(sizes) < 2048
    assert [start.index for start in cut(Files(), listing, bases[1], 5)] == [0] * 5
    assert cut(Files(), listing, 1, 1) == cut(Files(), listing, OFFSET_MAX, 1)


def test_damage_is_reported_as_by_one_run(log: Path, tmp_path: Path, joined: list[JoinedRuns | None]) -> None:
    copy = Path(shutil.copytree(log, tmp_path / "data"))
    draw, batches = random.Random(SEED), rows_of(log, view="batches")
    for batch in draw.sample(batches, 6):
        path = copy / "__consumer_offsets-0" / batch["segment"]
        sound = path.read_bytes()
        content = bytearray(sound)
        content[batch["position"] + batch["size"] - 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(errors.CorruptionError) as caught:
            rows_of(copy, view="offsets", minPartitions=4)
        assert (caught.value.path, caught.value.position) == (str(path), batch["position"])
        for view in ("offsets", "groups"):
            several, one = (rows_of(copy, view=view, mode="permissive", minPartitions=runs) for runs in (4, 1))
            assert in_order(several) == in_order(one)
            assert sum(row["problem"] is not None for row in several) == 1
        path.write_bytes(sound)
    assert set(joined) == {None}


def test_a_false_border_is_not_believed(
    log: Path, monkeypatch: pytest.MonkeyPatch, joined: list[JoinedRuns | None]
) -> None:
    expected = in_order(rows_of(log, view="offsets", minPartitions=1))
    starts = cut(Files(), list_partitions(Files(), str(log))[0], OFFSET_MAX, 2)
    # A batch that is not where its run begins, and one that says another offset.
    for wrong in (
        joined_runs.Start(starts[1].index, starts[1].position + 1, starts[1].offset),
        joined_runs.Start(starts[1].index, starts[1].position, starts[1].offset - 1),
        joined_runs.Start(starts[1].index, starts[1].position, starts[1].offset + 1),
    ):
        monkeypatch.setattr(joined_runs, "cut", lambda *_, wrong=wrong: [starts[0], wrong])
        assert in_order(rows_of(log, view="offsets", minPartitions=2)) == expected
        assert joined[-1] is None


@pytest.mark.parametrize("view", ["offsets", "groups"])
@pytest.mark.parametrize("runs", [1, 2])
def test_a_state_that_takes_too_much_memory_is_read_in_shares(
    log: Path, monkeypatch: pytest.MonkeyPatch, view: str, runs: int
) -> None:
    expected = in_order(rows_of(log, view=view, minPartitions=1))
    shares, begin = [], states.BucketReader._begin

    def watch(self: states.BucketReader, account: MemoryAccount, **how: Any) -> Replay:
        shares.append((self._split.bucket, self._split.buckets))
        return begin(self, account, **how)

    monkeypatch.setattr(states.BucketReader, "_begin", watch)
    assert in_order(rows_of(log, view=view, minPartitions=runs)) == expected
    assert set(shares) == {(0, 1)}
    full = {(0, 1), (1, 2), (2, 4)}

    def grow(self: states.BucketReader, account: MemoryAccount, **how: Any) -> Replay:
        share = self._split.bucket, self._split.buckets
        shares.append(share)
        return begin(self, MemoryAccount(1) if share in full else account, **how)

    shares.clear()
    monkeypatch.setattr(states.BucketReader, "_begin", grow)
    # Really too large a group is so in each share that has it; here every second share has one.
    monkeypatch.setattr(states, "_has_one_group", lambda replay: False)
    assert in_order(rows_of(log, view=view, minPartitions=runs)) == expected
    assert list(dict.fromkeys(shares)) == [(0, 1), (0, 2), (1, 2), (2, 4), (4, 8), (5, 8), (3, 4)]


def test_a_state_that_no_share_makes_small_enough_is_an_error(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "STATE_BYTES_MAX", 1)
    monkeypatch.setattr(states, "SHARES_MAX", 4)
    with pytest.raises(errors.CapacityError, match="more than 1 bytes"):
        rows_of(log, view="offsets", minPartitions=1)


# ----------------------------------------------------------------------------------------------- memory of several runs


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each of 4,000 positions of one group is committed eight times: each of eight runs has them all."""
    path = tmp_path_factory.mktemp("repeated") / "data"
    by_hand = MaintenanceConfig(enabled=False)
    with offsetlog.open(path, partitions=1, durability="process", maintenance=by_hand) as store:
        for turn in range(8):
            for first in range(0, 4000, 20):
                values = {number: OffsetAndMetadata(turn, f"{number:080}") for number in range(first, first + 20)}
                store.commit("one", {TopicPartition("t", number): value for number, value in values.items()})
    return path


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, bool]]:
    """The share and the kind of each replay that was begun."""
    seen: list[tuple[int, int, bool]] = []
    begin = states.BucketReader._begin

    def watch(self: states.BucketReader, account: MemoryAccount, **how: Any) -> Replay:
        seen.append((self._split.bucket, self._split.buckets, how.get("is_run", False)))
        return begin(self, account, **how)

    monkeypatch.setattr(states.BucketReader, "_begin", watch)
    return seen


@pytest.mark.parametrize("view", ["offsets", "groups"])
@pytest.mark.parametrize("room", [1, 2.5])
def test_fewer_runs_come_before_shares_of_the_keys(
    repeated: Path, monkeypatch: pytest.MonkeyPatch, begun: list[tuple[int, int, bool]], view: str, room: float
) -> None:
    expected = in_order(rows_of(repeated, view=view, minPartitions=1))
    state = replayed(repeated, OFFSET_MAX)
    monkeypatch.setattr(states, "STATE_BYTES_MAX", int(room * state.memory))
    begun.clear()
    assert in_order(rows_of(repeated, view=view, minPartitions=8)) == expected
    assert {(number, count) for number, count, _ in begun} == {(0, 1)}
    # Each time the first run, which is none of its kind, and as many others as begin before there is no room.
    kinds = "".join("r" if is_run else "|" for *_, is_run in begun)
    others = [len(each) for each in kinds.split("|")[1:]]
    # Eight runs, four, two, and one where no two of them have room.
    most = [7, 3, 1, 0] if room == 1 else [7, 3, 1]
    assert len(others) == len(most), kinds
    assert all(found <= limit for found, limit in zip(others, most, strict=True)), kinds
    assert others[-1] == most[-1], kinds


def test_runs_share_what_they_may_take(
    log: Path, monkeypatch: pytest.MonkeyPatch, begun: list[tuple[int, int, bool]]
) -> None:
    accounts: list[MemoryAccount] = []
    make = joined_runs.MemoryAccount
    monkeypatch.setattr(joined_runs, "MemoryAccount", lambda size: accounts.append(make(size)) or accounts[-1])
    rows_of(log, view="offsets", minPartitions=8)
    (account,) = accounts
    assert account.bytes_max == states.STATE_BYTES_MAX
    assert len(begun) == 8


def test_a_group_that_is_too_large_is_not_divided(
    repeated: Path, monkeypatch: pytest.MonkeyPatch, begun: list[tuple[int, int, bool]]
) -> None:
    monkeypatch.setattr(states, "STATE_BYTES_MAX", replayed(repeated, OFFSET_MAX).memory // 2)
    with pytest.raises(errors.CapacityError):
        rows_of(repeated, view="groups", minPartitions=1)
    assert begun == [(0, 1, False)]
    # Its positions can be.
    assert len(rows_of(repeated, view="offsets", minPartitions=1)) == 4000


# ------------------------------------------------------------------------------------------------------------- planning


def test_threads_follow_the_cluster(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(path.stat().st_size for path in log.rglob("*.log"))
    monkeypatch.setattr("offsetlog.spark.scan.plan.parallelism", lambda read: 4)
    assert [split.threads for split in splits_of(log, view="offsets")] == [1]
    monkeypatch.setattr("offsetlog.spark.scan.plan._SPLIT_BYTES_MIN", size // 3)
    assert [split.threads for split in splits_of(log, view="offsets")] == [3]
    monkeypatch.setattr("offsetlog.spark.scan.plan._SPLIT_BYTES_MIN", 1)
    assert [split.threads for split in splits_of(log, view="groups")] == [4]
    assert [split.threads for split in splits_of(log, view="offsets", buckets=16)] == [4]
    other = log / "__consumer_offsets-1"
    try:
        shutil.copytree(log / "__consumer_offsets-0", other)
        assert [split.threads for split in splits_of(log, view="offsets")] == [2, 2]
        assert [split.threads for split in splits_of(log, view="offsets", minPartitions=9)] == [5, 5]
    finally:
        shutil.rmtree(other)


@pytest.mark.parametrize("view", ["commits", "records", "batches", "history"])
def test_a_least_number_of_pieces(log: Path, view: str) -> None:
    assert len(splits_of(log, view=view)) == 1
    whole = in_order(rows_of(log, view=view))
    for least in (2, 7, 20):
        read = parse({"path": str(log), "view": view, "minPartitions": str(least)})
        assert len(tasks_of(splits_of(log, view=view, minPartitions=least), read)) >= least
        assert len(splits_of(log, view=view, minPartitions=least)) >= least
        assert in_order(rows_of(log, view=view, minPartitions=least)) == whole


def test_a_least_number_of_pieces_where_an_index_is_coarse(tmp_path: Path) -> None:
    path = tmp_path / "data"
    off = MaintenanceConfig(enabled=False)
    with offsetlog.open(path, partitions=3, durability="process", maintenance=off) as store:
        for number in range(3000):
            store.commit_one(f"group-{number % 40}", "topic", number % 50, number)
    total = len(rows_of(path, view="batches"))
    for least in (33, 50, 64, 100, 200, 1000, 2_000):
        read = parse({"path": str(path), "minPartitions": str(least)})
        assert len(tasks_of(splits_of(path, minPartitions=least), read)) >= least
    # There are no more pieces than batches, whatever is asked for.
    assert len(splits_of(path, minPartitions=2 * total)) == total
    assert len(rows_of(path, minPartitions=2 * total)) == 3000


@pytest.mark.parametrize(("cores", "expected"), [(None, 6), ("2", 2), ("9", 6), ("0", 6), ("some", 6)])
def test_a_task_takes_no_more_cores_than_its_executor_has(
    monkeypatch: pytest.MonkeyPatch, cores: str | None, expected: int
) -> None:
    properties = {"resource.executor.cores": cores}
    monkeypatch.setattr(joined_runs.os, "sched_getaffinity", lambda pid: set(range(6)))
    assert joined_runs._cpu_count() == 6
    monkeypatch.setattr(joined_runs.TaskContext, "get", lambda: SimpleNamespace(getLocalProperty=properties.get))
    assert joined_runs._cpu_count() == expected


def test_a_history_is_not_read_more_often_than_a_bound(log: Path) -> None:
    assert len(splits_of(log, view="history", minPartitions=5000)) == 64
    assert len(splits_of(log, view="history", buckets=70)) == 70
    assert len(splits_of(log, view="history", minPartitions=5000, buckets=2)) == 2


def test_the_session_gives_its_parallelism_to_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "hadoop_settings_of", lambda _: HadoopSettings())
    registered: list[type[OffsetlogDataSource]] = []
    session: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(defaultParallelism=37, pythonExec="python3", master="yarn"),
        dataSource=SimpleNamespace(register=registered.append),
    )
    register(session)
    sent = cloudpickle.loads(cloudpickle.dumps(registered[0]))
    assert (sent.name(), sent.default_parallelism, sent.__doc__) == ("offsetlog", 37, OffsetlogDataSource.__doc__)
    assert not sent.one_machine
    assert OffsetlogDataSource.default_parallelism == 0
    session.sparkContext.pythonExec = "./none/bin/python"
    with pytest.raises(errors.ConfigError, match="is not a program on the driver, where Spark needs it"):
        register(session)
    # Spark Connect has no context.
    register(SimpleNamespace(dataSource=session.dataSource))
    assert (registered[1].default_parallelism, registered[1].one_machine) == (0, True)


def test_parallelism_without_a_session_is_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    read = parse({"path": "/log"})
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    assert parallelism(read) == 3
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", SimpleNamespace(defaultParallelism=11))
    assert parallelism(read) == 11


# ----------------------------------------------------------------------------------------------- failures of shares


def problems_of(batches: Any) -> list[str]:
    return [row["problem"] for batch in batches for row in batch.to_pylist() if row["problem"] is not None]


def test_files_that_go_between_two_shares_are_a_row(
    repeated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Path(shutil.copytree(repeated, tmp_path / "data"))
    monkeypatch.setattr(states, "STATE_BYTES_MAX", int(0.7 * replayed(log, OFFSET_MAX).memory))
    splits = splits_of(log, view="offsets", mode="permissive", minPartitions=1)
    batches = read_splits(splits, log, view="offsets", mode="permissive")
    first = next(batches)
    shutil.rmtree(log / "__consumer_offsets-0")
    problems = problems_of([first, *batches])
    assert 0 < first.num_rows < 4000
    assert [problem.partition(":")[0] for problem in problems] == ["MissingFileError"]


def test_files_that_go_between_two_buckets_are_a_row(log: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(log, tmp_path / "data"))
    options = {"view": "history", "mode": "permissive", "buckets": 4}
    first, *others = splits_of(copy, **options)
    assert problems_of(read_splits([first], copy, **options)) == []
    shutil.rmtree(copy / "__consumer_offsets-0")
    for split in others:
        (problem,) = problems_of(read_splits([split], copy, **options))
        assert problem.startswith("MissingFileError")


def test_damage_is_one_row_of_all_shares(repeated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Path(shutil.copytree(repeated, tmp_path / "data"))
    batches = rows_of(log, view="batches")
    batch = batches[len(batches) // 2]
    path = log / "__consumer_offsets-0" / batch["segment"]
    content = bytearray(path.read_bytes())
    content[batch["position"] + batch["size"] - 2] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr(states, "STATE_BYTES_MAX", int(0.7 * replayed(repeated, OFFSET_MAX).memory))
    rows = rows_of(log, view="offsets", mode="permissive", minPartitions=1)
    assert len([row for row in rows if row["problem"] is not None]) == 1
    assert len([row for row in rows if row["problem"] is None]) == 4000


@pytest.mark.parametrize("view", ["offsets", "groups", "history"])
@pytest.mark.parametrize("which", [0, 3, -1])
def test_a_segment_that_goes_before_it_is_read(log: Path, tmp_path: Path, view: str, which: int) -> None:
    copy = Path(shutil.copytree(log, tmp_path / "data"))
    splits = splits_of(copy, view=view, minPartitions=2)
    gone = sorted(copy.glob("*/*.log"))[which]
    gone.unlink()
    with pytest.raises(errors.MissingFileError, match="no other segment holds its records") as caught:
        list(read_splits(splits, copy, view=view))
    assert caught.value.path == str(gone)
    for split in splits:
        batches = list(read_splits([split], copy, view=view, mode="permissive"))
        (problem,) = problems_of(batches)
        assert problem.startswith("MissingFileError")
        assert str(gone) in problem
        assert sum(batch.num_rows for batch in batches) > 1


@pytest.mark.parametrize("view", ["offsets", "history"])
def test_segments_that_were_merged_before_they_are_read_are_not_missed(tmp_path: Path, view: str) -> None:
    path = tmp_path / "data"
    config = StoreConfig(segment_bytes=4 << 10, index_interval_bytes=512)
    by_hand = MaintenanceConfig(enabled=False)
    with offsetlog.open(path, partitions=1, durability="process", config=config, maintenance=by_hand) as store:
        for number in range(400):
            store.commit("g", {KEYS[number % 5]: number})
        splits = splits_of(path, view=view)
        before = {each.base_offset for each in splits[0].segments}
        # The second time puts together what the first one made small.
        for turn in range(2):
            store.compact()
            store.commit("later", {KEYS[0]: turn})
        assert len(before - {int(each.stem) for each in path.glob("*/*.log")}) > 2
        rows = [row for batch in read_splits(splits, path, view=view) for row in batch.to_pylist()]
        latest = {row["partition"]: row["offset"] for row in rows if row["group"] == "g"}
        assert latest == {number % 5: number for number in range(395, 400)}


def test_a_bucket_of_a_history_fits_a_worker(log: Path) -> None:
    """All of its records are kept: one of 256 MiB of the log took 950 MiB."""
    read = parse({"path": str(log), "view": "history"})
    for size in (2**26 + 1, 687 << 20, 2**32):
        assert size / plan._bucket_count(size, 1, read) <= 2**26
    assert plan._bucket_count(2**40, 1, read) == plan._BUCKETS_MAX
