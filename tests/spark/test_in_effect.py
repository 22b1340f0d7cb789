"""Which commit is the position, and from when on: one rule, and everyone who needs it agrees with the engine."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import offsetlog
from offsetlog import HistoryEntry, MaintenanceConfig, OffsetAndMetadata, OffsetStore, StoreConfig, TopicPartition
from offsetlog.spark.in_effect import NEVER, counts_from, in_effect_from, is_undone
from offsetlog.spark.jobs import audit, effects, lag, verify
from offsetlog.spark.scan.history import NEEDED, effective_offsets
from offsetlog.spark.scan.options import parse
from offsetlog.spark.scan.stream import StreamReader
from offsetlog.spark.scan.views import full_schema
from offsetlog.spark.source import register

from .frames import frame, tuples_of
from .reading import Row, rows_of

PACKAGE = Path(__file__).parent.parent.parent / "offsetlog"
KEYS = [TopicPartition("t", number) for number in range(3)]
GROUPS = "ab"
BY_HAND = MaintenanceConfig(enabled=False)
SEEDS = range(3)


# ---------------------------------------------------------------------------------------------------- logs, and a model


def written(path: Path, seed: int, steps: int = 250) -> OffsetStore:
    """A store that stays open: commits, deletions and transactions that overlap; some are open at its end."""
    draw = random.Random(seed)
    store = offsetlog.open(path, partitions=2, durability="process", maintenance=BY_HAND, config=StoreConfig())
    waiting: dict[tuple[str, int], offsetlog.Transaction] = {}
    for step in range(steps):
        group, key = draw.choice(GROUPS), draw.choice(KEYS)
        value = {key: OffsetAndMetadata(draw.randrange(1000))}
        choice = draw.randrange(10)
        if choice < 4:
            store.commit(group, value)
        elif choice == 4:
            store.delete(group, [key])
        elif choice < 8 or not waiting:
            name = (group, draw.randrange(3))
            if name not in waiting:
                waiting[name] = store.transaction(group, 100 * (1 + GROUPS.index(group)) + name[1]).__enter__()
            waiting[name].commit(value)
        else:
            transaction = waiting.pop(draw.choice(sorted(waiting)))
            transaction.abort() if draw.random() < 0.3 else transaction.__exit__(None, None, None)
        if step == steps // 2:
            store.flush()
    store.flush()
    return store


def entries_of(store: OffsetStore) -> list[tuple[str, int, HistoryEntry]]:
    return [
        (group, key.partition, entry)
        for group in GROUPS
        for key in KEYS
        for entry in store.history(group, key.topic, key.partition)
    ]


def histories(store: OffsetStore) -> dict[tuple[str, int, int], int | None]:
    """(group, partition, log offset) -> from when on it was the position, as the engine says."""
    return {(group, partition, entry.log_offset): entry.effective_at for group, partition, entry in entries_of(store)}


def random_rows(seed: int, count: int) -> list[Row]:
    """Commits of two positions, in the order of a log, with every outcome; a transaction ends where it may."""
    draw = random.Random(seed)
    rows: list[Row] = []
    running: dict[int, list[Row]] = {}
    for offset in range(count):
        row: Row = {"group": "g", "topic": "t", "partition": draw.randrange(2), "log_offset": offset}
        row |= {"kind": "commit", "outcome": "plain", "marker_offset": None, "offset": offset}
        choice = draw.randrange(10)
        if choice < 2 and running:
            _, ended = running.popitem()
            outcome = draw.choice(["committed", "committed", "aborted"])
            for each in ended:
                each.update(outcome=outcome, marker_offset=offset)
            continue
        if choice < 4:
            row["kind"] = "delete"
        if choice in (3, 4, 5, 6):
            row["outcome"] = "open"
            running.setdefault(draw.randrange(3), []).append(row)
        rows.append(row)
    return rows


def replayed(rows: list[Row]) -> dict[int, int | None]:
    """The answer of the rule, found by applying the log one offset after the other, as a broker does."""
    found: dict[int, int | None] = {row["log_offset"]: None for row in rows}
    end = max(row["log_offset"] for row in rows) + 100
    newest: dict[int, int] = {}
    for at in range(end):
        of_marker = [row for row in rows if row["outcome"] == "committed" and row["marker_offset"] == at]
        now = [
            row
            for row in rows
            if row["log_offset"] == at and (row["kind"] == "delete" or row["outcome"] == "plain")
        ]
        ending: dict[int, Row] = {}
        for row in of_marker:
            if row["kind"] != "delete":
                ending[row["partition"]] = row  # of several in one transaction the last
        for row in [*ending.values(), *now]:
            if newest.get(row["partition"], -1) < row["log_offset"]:
                newest[row["partition"]] = row["log_offset"]
                found[row["log_offset"]] = at
    return found


# ------------------------------------------------------------------------------------------------------------- the rule


@pytest.mark.parametrize("seed", range(40))
def test_arrow_columns_are_judged_as_a_broker_applies_them(seed):
    rows = random_rows(seed, 60)
    table = pa.Table.from_pylist(
        [{name: row[name] for name in NEEDED} for row in rows],
        schema=pa.schema(
            [
                *[(name, pa.string()) for name in NEEDED[:2]],
                *[(name, pa.int64()) for name in NEEDED[2:4]],
                *[(name, pa.string()) for name in NEEDED[4:6]],
                (NEEDED[6], pa.int64()),
            ]
        ),
    )
    found = dict(zip(table.column("log_offset").to_pylist(), effective_offsets(table).to_pylist(), strict=True))
    expected = replayed(rows)
    assert found == expected
    assert {when is None for when in expected.values()} == {True, False}


def judged(kind: str, outcome: str, log_offset: int, marker: int, later: int = NEVER) -> int:
    def choose(condition: bool, yes: int, no: int) -> int:
        return yes if condition else no

    counts = counts_from(kind == "delete", lambda name: outcome == name, log_offset, marker, choose)
    return int(in_effect_from(counts, later, choose))


@pytest.mark.parametrize(
    ("kind", "outcome", "later", "when"),
    [
        ("commit", "plain", NEVER, 5),
        ("commit", "plain", 6, 5),
        ("commit", "committed", NEVER, 9),
        ("commit", "committed", 10, 9),
        ("commit", "committed", 8, NEVER),
        ("commit", "committed", 9, NEVER),
        ("commit", "aborted", NEVER, NEVER),
        ("commit", "open", NEVER, NEVER),
        ("delete", "plain", NEVER, 5),
        ("delete", "committed", 8, 5),
        ("delete", "aborted", NEVER, 5),
        ("delete", "open", NEVER, 5),
    ],
)
def test_the_rule(kind, outcome, later, when):
    assert judged(kind, outcome, 5, 9, later) == when


def test_an_abort_undoes_no_tombstone():
    outcomes = ("plain", "committed", "aborted", "open")
    # Numbers stand for columns: ~ of a bool is none.
    undone = [(kind, name) for kind in (0, 1) for name in outcomes if is_undone(kind, lambda asked, n=name: asked == n)]
    assert undone == [(0, "aborted")]


@pytest.mark.source_tree
def test_nobody_else_has_the_rule():
    """No other module for Spark asks for the outcome of a commit that counts."""
    words = re.compile(r"[\"']?outcome[\"']?\)?\s*(==|=|<>|!=)\s*[\"'](plain|committed)[\"']|isin\([^)]*\"committed\"")
    #: It asks who wrote a commit, a member or a transaction, and not whether it counts.
    known = {"jobs/audit.py": 1}
    found: dict[str, int] = {}
    for path in (PACKAGE / "spark").rglob("*.py"):
        hits = len(words.findall(path.read_text()))
        if hits:
            found[str(path.relative_to(PACKAGE / "spark"))] = hits
    assert found == known


# ---------------------------------------------------------------------------------------------------- beside the engine


@pytest.fixture(scope="module", params=SEEDS)
def log(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("effects") / "log"
    store = written(path, request.param)
    yield path, store
    store.close()


def effects_of(rows: list[Row]) -> dict[tuple[str, int, int], int | None]:
    return {(row["group"], row["partition"], row["log_offset"]): row["effective_at"] for row in rows}


def as_rows(table: Any) -> list[Row]:
    return [row.asDict() for row in table.collect()]


def test_the_view_history_agrees_with_the_engine(log):
    path, store = log
    expected = histories(store)
    assert len({when is None for when in expected.values()}) == 2
    for buckets in (1, 3):
        assert effects_of(rows_of(path, view="history", buckets=buckets)) == expected


def test_the_view_offsets_agrees_with_the_rule(log):
    """The engine's state is what is in effect last."""
    path, _ = log
    latest: dict[tuple[str, int], Row] = {}
    for row in rows_of(path, view="history"):
        key, when = (row["group"], row["partition"]), row["effective_at"]
        before = latest.get(key)
        if when is not None and (before is None or when > before["effective_at"]):
            latest[key] = row
    expected = {key: row["offset"] for key, row in latest.items() if row["kind"] == "commit"}
    assert {(row["group"], row["partition"]): row["offset"] for row in rows_of(path, view="offsets")} == expected


def test_a_stream_of_what_is_committed_has_all_that_took_effect(log):
    path, store = log
    options = parse({"path": str(path), "view": "commits", "isolationLevel": "read_committed"}, streaming=True)
    reader = StreamReader(options, full_schema(options))
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    rows = [row for split in reader.partitions(start, end) for batch in reader.read(split) for row in batch.to_pylist()]
    read = {(row["group"], row["partition"], row["log_offset"]) for row in rows}
    until = end["__consumer_offsets"]
    of_partition = {row["group"]: row["log_partition"] for row in rows_of(path, view="history")}
    for (group, partition, offset), when in histories(store).items():
        is_within = offset < until[str(of_partition[group])]
        if when is not None and is_within:
            assert (group, partition, offset) in read
    undone = {
        (row["group"], row["partition"], row["log_offset"])
        for row in rows_of(path)
        if row["kind"] == "commit" and row["outcome"] in ("aborted", "open")
    }
    assert read
    assert undone
    assert not read & undone


def test_the_jobs_agree_with_the_engine(spark, log):
    path, store = log
    register(spark)
    expected = histories(store)
    reader = spark.read.format("offsetlog")
    commits, records = reader.load(str(path)), reader.option("view", "records").load(str(path))
    assert effects_of(as_rows(effects.with_effects(commits))) == expected
    assert effects_of(as_rows(effects.with_effects(effects.commit_records(records)))) == expected
    history = reader.option("view", "history").load(str(path))
    assert effects_of(as_rows(effects.with_effects(history))) == expected


def test_the_audit_agrees_with_the_engine(spark, log):
    path, store = log
    register(spark)
    found = audit.run(spark, str(path), stall_ms=3_600_000)
    try:
        assert effects_of(as_rows(found.commits)) == histories(store)
        without = sum(entry.effective_at is None and entry.kind == "commit" for *_, entry in entries_of(store))
        assert found.totals.collect()[0]["without_effect"] == without > 0
        last = {
            (row["group"], row["partition"]): row["offset"]
            for row in as_rows(found.positions)
            if row["offset"] is not None
        }
        assert last == state_of(store, None)
    finally:
        found.commits.unpersist()


def state_of(store: OffsetStore, at: datetime | None) -> dict[tuple[str, int], int]:
    return {
        (group, key.partition): value.offset
        for group in GROUPS
        for key, value in (store.fetch(group) if at is None else store.fetch(group, at=at)).items()
    }


def test_lag_over_time_agrees_with_the_engine(spark, log):
    path, store = log
    register(spark)
    records = spark.read.format("offsetlog").option("view", "records").load(str(path))
    stamps = sorted({row["timestamp"] for row in rows_of(path, view="records")})
    times = sorted({stamps[0] - 1, *stamps[:: max(1, len(stamps) // 8)], stamps[-1]})
    asked = spark.createDataFrame([(time,) for time in times], "time long")
    found = tuples_of(lag.committed_at(records, asked), "time", "group", "partition", "committed")
    expected = [
        (time, group, partition, offset)
        for time in times
        for (group, partition), offset in state_of(store, datetime.fromtimestamp(time / 1000, UTC)).items()
    ]
    assert found == sorted(expected)
    assert len({row[0] for row in found}) > 1


def test_what_is_pending_is_what_the_engine_holds(spark, log):
    path, store = log
    register(spark)
    store.flush()
    compared = verify.run(spark, path)
    assert all(each.is_equal for each in compared)
    assert any(each.spark.pending for each in compared)


def test_spark_columns_are_judged_as_a_broker_applies_them(spark):
    rows = [{**row, "log_partition": seed} for seed in range(12) for row in random_rows(seed, 60)]
    found = tuples_of(effects.with_effects(frame(spark, rows)), "log_partition", "log_offset", "effective_at")
    expected = {
        (seed, offset): when for seed in range(12) for offset, when in replayed(random_rows(seed, 60)).items()
    }
    assert {(seed, offset): when for seed, offset, when in found} == expected
