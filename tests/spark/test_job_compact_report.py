"""The predicted effect of a clean, against its effect."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from depth import by_depth

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, StoreConfig, TopicPartition, errors
from offsetlog.spark.jobs import compact_report as job

from . import compact_report_sql as sql
from .frames import RECORDS, frame, tuples_of
from .oracle_rows import record_rows

SMALL = StoreConfig(segment_bytes=8 << 10)
BY_HAND = MaintenanceConfig(enabled=False)
KEYS = [TopicPartition("orders", number) for number in range(6)]


def feed(store: offsetlog.OffsetStore, seed: int, count: int) -> None:
    """Commits, deletions and transactions of four groups."""
    chance = random.Random(seed)
    for number in range(count):
        group = f"group-{chance.randrange(4)}"
        keys = chance.sample(KEYS, chance.randrange(1, 5))
        values = {key: OffsetAndMetadata(number, "m" * chance.randrange(30)) for key in keys}
        action = chance.random()
        if action < 0.08:
            store.delete(group, keys)
        elif action < 0.3:
            try:
                with store.transaction(group, chance.randrange(100, 103)) as transaction:
                    transaction.commit(values)
                    transaction.commit({keys[0]: number + 1})
                    if chance.random() < 0.4:
                        raise KeyError
            except KeyError:
                pass
        else:
            store.commit(group, values)


def active_bases(spark, path: Path):
    bases = [
        (int(folder.name.rpartition("-")[2]), int(max(each.stem for each in folder.glob("*.log"))))
        for folder in path.glob("__consumer_offsets-*")
    ]
    return spark.createDataFrame(bases, "log_partition int, active_base bigint")


#: Whether the active segments are rolled, how a transaction over several segments ends, and a seed.
CLEANS = [(True, None, 1), (False, "open", 1), (False, "commit", 1)]
MORE_CLEANS = [(True, "open", 1), (False, "commit", 3), (False, "commit", 5), (False, "commit", 7)]


@pytest.mark.parametrize(("roll", "long_one", "seed"), CLEANS + by_depth(gate=[], long=MORE_CLEANS))
def test_a_clean_frees_what_was_announced(spark, tmp_path, roll, long_one, seed):
    with offsetlog.open(tmp_path, 2, "process", config=SMALL, maintenance=BY_HAND) as store:
        feed(store, seed, 300)
        pending = store.transaction("group-1", 200)
        if long_one is not None:
            pending.commit(dict.fromkeys(KEYS, 7))
        # Where it ends, the segments in which it began and went on are closed.
        feed(store, seed + 1, 300)
        if long_one == "commit":
            with pending:
                pending.commit({KEYS[0]: 8})
        report = job.run(spark, tmp_path, roll=roll)
        told_rows = {row.log_partition: row for row in report.partitions.collect()}
        size = {number: told_rows[number].bytes for number in told_rows}
        reports = store.compact(roll=roll)
        after = record_rows(tmp_path)
    for found in reports:
        row = told_rows[found.log_partition]
        assert row.bytes == size[found.log_partition]
        kept = sum(each["log_partition"] == found.log_partition for each in after)
        assert row.records_after == kept, row
        if found.cleaned:
            assert row.superseded == found.superseded
            assert row.aborted == found.aborted_dropped
            assert row.expired_tombstone == found.tombstones_dropped == 0
        else:
            assert row.freed_records == 0
        # Batches without a record are not counted.
        freed = found.bytes_before - found.bytes_after
        assert row.freed_bytes <= freed
        assert (freed - row.freed_bytes) % sql.HEADER_BYTES == 0
    assert any(found.cleaned for found in reports)


def test_tombstones_go_in_their_time(spark, tmp_path):
    with offsetlog.open(tmp_path, 1, "process", config=SMALL, maintenance=BY_HAND) as store:
        store.commit("g", dict.fromkeys(KEYS, 1))
        store.delete("g", KEYS[:2])
        with store.transaction("h", 100) as transaction:
            transaction.commit({KEYS[0]: 1})
        store.commit("h", {KEYS[0]: 2})
        with store.transaction("h", 100) as transaction:
            transaction.commit({KEYS[0]: 3})
        found = job.run(spark, tmp_path, roll=True).partitions
        names = ["records", "superseded", "tombstone", "expired_tombstone", "marker", "expired_marker", "records_after"]
        assert tuples_of(found, *names) == [(13, 4, 2, 0, 2, 0, 9)]
        store.compact(delete_retention_ms=0)
        found = job.run(spark, tmp_path, roll=True).partitions
        assert tuples_of(found, *names) == [(9, 0, 0, 2, 2, 0, 7)]
        # Before the time has come nothing goes.
        assert tuples_of(job.run(spark, tmp_path, roll=True, now_ms=1).partitions, "freed_records") == [(0,)]
        (report,) = store.compact(again=True, delete_retention_ms=0)
        assert (report.tombstones_dropped, report.markers_dropped) == (2, 0)
        # Now the first marker was found alone; the second is after the last that its producer wrote.
        assert tuples_of(job.run(spark, tmp_path, roll=True).partitions, *names) == [(7, 0, 0, 0, 1, 1, 6)]
        (report,) = store.compact(again=True, delete_retention_ms=0)
        assert report.markers_dropped == 1
        assert len(record_rows(tmp_path)) == 6


def test_groups_make_up_their_partitions(spark, tmp_path):
    with offsetlog.open(tmp_path, 2, "process", config=SMALL, maintenance=BY_HAND) as store:
        feed(store, 3, 200)
    report = job.run(spark, tmp_path, roll=True)
    rows = report.groups.collect()
    assert {row.group for row in rows} == {None, *(f"group-{number}" for number in range(4))}
    for part in report.partitions.collect():
        mine = [row for row in rows if row.log_partition == part.log_partition]
        for name in ("records", "live_records", "dead_records", "superseded", "aborted", "records_after"):
            assert sum(row[name] for row in mine) == part[name], name
        for name in ("bytes", "live_bytes", "dead_bytes", "freed_bytes"):
            assert abs(sum(row[name] for row in mine) - part[name]) <= len(mine), name
        assert part.live_bytes + part.dead_bytes == pytest.approx(part.bytes, abs=1)
        size = sum(
            each.stat().st_size for each in (tmp_path / f"__consumer_offsets-{part.log_partition}").glob("*.log")
        )
        assert part.bytes <= size


def test_the_state_says_what_is_alive(spark, tmp_path):
    with offsetlog.open(tmp_path, 1, "process", config=SMALL, maintenance=BY_HAND) as store:
        feed(store, 4, 150)
        positions = sum(len(store.fetch(f"group-{number}")) for number in range(4))
    rows = job.run(spark, tmp_path, roll=True).groups.collect()
    assert sum(row.live_records for row in rows if row.group is not None) == positions


#: The columns that count records, offsets or files.
COUNTS = [
    "log_end", "end", "segments", "batches", "records", "live_records", "dead_records", *sql.GOES, "tombstone",
    "marker", "records_after", "freed_records",
]  # fmt: skip


def check_same(found, expected, keys: list[str]) -> None:
    names = [name for name in COUNTS if name in found.columns]
    assert tuples_of(found, *keys, *names) == tuples_of(expected, *keys, *names)
    sizes = ["bytes", "live_bytes", "freed_bytes", "records"]
    for one, other in zip(tuples_of(found, *keys, *sizes), tuples_of(expected, *keys, *sizes), strict=True):
        # SQL guesses the times of records, and what a batch is like that loses some of them.
        records = one[-1]
        assert all(abs(ours - theirs) <= 10 * records for ours, theirs in zip(one[-4:], other[-4:], strict=True))


@pytest.mark.parametrize("roll", [False, True])
def test_sql_comes_to_the_same(spark, tmp_path, roll):
    with offsetlog.open(tmp_path, 2, "process", config=SMALL, maintenance=BY_HAND) as store:
        feed(store, 5, 250)
        store.compact(delete_retention_ms=0)
        feed(store, 6, 250)
        open_one = store.transaction("group-2", 300)
        open_one.commit(dict.fromkeys(KEYS, 7))
        open_one.commit(dict.fromkeys(KEYS[:3], 8))
        store.delete("group-2", KEYS[2:4])
        feed(store, 7, 50)
        records = frame(spark, record_rows(tmp_path), RECORDS)
        expected = sql.compact_report(records, roll=roll, active=active_bases(spark, tmp_path))
        found = job.run(spark, tmp_path, roll=roll)
    check_same(found.partitions, expected.partitions, ["log_partition"])
    check_same(found.groups, expected.groups, ["log_partition", "group"])


def test_one_partition_of_a_directory_and_its_own_path(spark, tmp_path):
    with offsetlog.open(tmp_path, 2, "process", maintenance=BY_HAND) as store:
        feed(store, 8, 60)
    whole = tuples_of(job.run(spark, tmp_path).partitions, "log_partition", "records")
    assert tuples_of(job.run(spark, tmp_path, partitions="1").partitions, "log_partition", "records") == whole[1:]
    own = tmp_path / "__consumer_offsets-1"
    assert tuples_of(job.run(spark, own.as_uri()).partitions, "log_partition", "records") == whole[1:]
    segment = next(own.glob("*.log"))
    with pytest.raises(errors.InvalidArgumentError, match="directory of its partition"):
        job.run(spark, segment)
    with pytest.raises(errors.MissingFileError, match="does not hold log partition 7"):
        job.run(spark, tmp_path, partitions="7")
