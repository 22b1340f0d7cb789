"""The maintenance state that a restart loses: since when a log rests."""

from __future__ import annotations

import time

from offsetlog import MaintenanceConfig, OffsetStore, TopicPartition

from .test_maintenance import GROUP, opened


def test_how_long_a_log_rests_is_not_known_after_a_restart(path):
    config = MaintenanceConfig(enabled=False, min_cleanable_bytes=0, interval_ms=1, delete_retention_ms=1)

    def size(store: OffsetStore) -> int:
        return store._open_core.attached()[0].log_facts()["size_bytes"]

    def rest(store: OffsetStore) -> list[str]:
        time.sleep(0.01)
        store.maintenance.look_after(store._open_core.attached())
        return [plan.action for plan in store.maintenance.status().plans.values()]

    def fill(store: OffsetStore) -> None:
        positions = [TopicPartition("orders", number) for number in range(1000)]
        store.commit(GROUP, dict.fromkeys(positions, 1))
        for at in range(0, 1000, 100):
            store.delete(GROUP, positions[at : at + 100])
        store.compact()

    with opened(path, config, partitions=1) as store:
        fill(store)
        assert rest(store) == ["again"]
        assert size(store) < 1000
        fill(store)
        full = size(store)
        assert full > 10_000
    with opened(path, config, partitions=1) as store:
        assert rest(store) == ["none"]
        assert size(store) == full
        store.commit_one(GROUP, "orders", 0, 1)
        store.compact()
        assert size(store) < 1000
        fill(store)
    with opened(path, config, partitions=1) as store:
        assert rest(store) == ["none"]
        store.compact(again=True)
        assert size(store) < 1000
