"""When a store writes snapshots by itself: where a replay would take longer than it may."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from offsetlog import MaintenanceConfig, OffsetAndMetadata, StoreConfig, TopicPartition
from offsetlog._native import snapshot as native_snapshot
from offsetlog.errors import InternalError
from offsetlog.maintenance import policy, scheduler
from offsetlog.maintenance.cleaning import tails_of

from .expiry_reference import classic_value
from .test_maintenance import feed, opened, snapshot_offset, until
from .test_retention import NOW, Log


def test_a_snapshot_is_written_where_a_replay_would_take_too_long(path):
    # 300 KB are replayed in a millisecond.
    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=1 << 30, snapshot_replay_ms=1)
    with opened(path, config) as store:
        feed(store, 500)
        until(lambda: store.maintenance.status().counters.get("rounds", 0) > 5)
        assert snapshot_offset(store) == -1
        feed(store, 5000)
        until(lambda: store.maintenance.status().counters.get("snapshots", 0) >= 1)
        assert snapshot_offset(store) > 500


def test_a_snapshot_does_not_wait_for_the_next_inspection(path, monkeypatch):
    monkeypatch.setattr(scheduler, "SNAPSHOT_CHECK_MS", 10)
    config = MaintenanceConfig(interval_ms=3_600_000, snapshot_replay_ms=1)
    with opened(path, config) as store:
        feed(store, 5000)
        until(lambda: store.maintenance.status().counters.get("snapshots", 0) >= 1)
        assert store.maintenance.status().counters.get("rounds", 0) == 0
        assert snapshot_offset(store) > 0


def test_reports_and_counters_say_which_snapshots_were_copied(path, caplog):
    caplog.set_level("INFO", "offsetlog.snapshot")
    with opened(path, MaintenanceConfig(enabled=False)) as store:
        feed(store, 500)
        (partition,) = store._core.attached()
        (report,) = store.snapshot()
        assert (report.written, report.copied, report.since) == (True, False, None)
        assert f"of offset {report.offset} from the whole log: " in caplog.messages[-1]
        feed(store, 500)
        (report,) = store.snapshot()
        assert (report.copied, report.since) == (False, snapshot_offset(store) - 500)
        assert f"of offset {report.offset} from the log from offset {report.since}: " in caplog.messages[-1]
        feed(store, 500)
        found = store.maintenance._cleaner.snapshot(partition, live=True)
        assert found is not None
        assert (found.written, found.copied, found.since) == (True, True, None)
        assert f"of offset {found.offset} from the state in memory: " in caplog.messages[-1]
    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=1 << 30, snapshot_tail_bytes=4096)
    with opened(path, config) as store:
        feed(store, 500)
        until(lambda: store.maintenance.status().counters.get("snapshots", 0) >= 1)
        counters = store.maintenance.status().counters
        assert counters["snapshots_copied"] == counters["snapshots"]


def test_a_copy_refuses_what_only_a_whole_state_answers(path):
    with opened(path, MaintenanceConfig(enabled=False)) as store:
        feed(store, 500)
        (partition,) = store._core.attached()
        copied = native_snapshot.copy(partition)
        for call in (copied.digest, lambda: copied.advance(partition, 500), lambda: copied.load(partition)):
            with pytest.raises(InternalError, match="a copied snapshot can only be sealed and published"):
                call()
        assert copied.facts()["positions"] > 0


def rows(keys: range, turn: int, units: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "group": [f"g{key}" for key in keys],
            "topic": ["t"] * len(keys),
            "partition": pa.array([0] * len(keys), pa.int32()),
            "offset": pa.array([turn] * len(keys), pa.int64()),
            "metadata": [f"{turn}-{key}-".ljust(units, "m") for key in keys],
        }
    )


@pytest.mark.parametrize("units", [0, 100, 600, 2000])
def test_no_more_than_two_bytes_of_snapshots_are_written_for_a_byte_of_log(path, units):
    config = MaintenanceConfig(snapshot_replay_ms=1)
    with opened(path, MaintenanceConfig(enabled=False), partitions=1, config=StoreConfig()) as store:
        store.commit_arrow(rows(range(2000), 0, units))
        store.snapshot()
        partition = store._open_core.partition(0)
        log = written = count = 0
        for turn in range(1, 200):
            begin = turn % 4 * 500
            store.commit_arrow(rows(range(begin, begin + 500), turn, units))
            (tail,) = tails_of([partition])
            if policy.snapshots_due([tail], config):
                store.snapshot()
                log, written, count = log + tail.bytes, written + snapshot_size(path), count + 1
            if count == 3:
                break
        assert count == 3
        assert written <= policy.SNAPSHOT_TIMES_MAX * log


@pytest.mark.parametrize("seed", range(5))
def test_the_size_of_a_snapshot_is_known_before(path, seed):
    draw = random.Random(seed)
    with opened(path, MaintenanceConfig(enabled=False), partitions=1, config=StoreConfig()) as store:
        for turn in range(4):
            begin = draw.randrange(3000)
            store.commit_arrow(rows(range(begin, begin + draw.randrange(1, 3000)), turn, draw.choice((0, 50, 1000))))
            # A value of an open transaction is in it, too.
            store._open_core.commit_transactional(
                f"g{begin}", {TopicPartition("t", turn): OffsetAndMetadata(1)}, turn, 0
            )
            store.snapshot()
            known = tails_of([store._open_core.partition(0)])[0].snapshot_bytes
            # A few KB are not of the table; what is free in it need not be in the snapshot.
            assert snapshot_size(path) - (16 << 10) <= known <= 3 * snapshot_size(path)


def snapshot_size(path: Path) -> int:
    return (path / "__consumer_offsets-0" / native_snapshot.FILE_NAME).stat().st_size


def test_records_of_groups_count_with_what_they_take(path):
    made = Log()
    for number in range(200):
        made.record(f"g{number}", 2, classic_value(3, "consumer", NOW, 100))
    with made.open(path) as store:
        store.snapshot()
        size = snapshot_size(path)
        assert size > 200 * 1000
        assert tails_of([store._open_core.partition(0)])[0].snapshot_bytes >= size - (16 << 10)
