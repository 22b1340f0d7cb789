"""When a store writes snapshots by itself: where a replay would take longer than it may."""

from __future__ import annotations

from offsetlog import MaintenanceConfig
from offsetlog.maintenance import scheduler

from .test_maintenance import feed, opened, snapshot_offset, until


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
