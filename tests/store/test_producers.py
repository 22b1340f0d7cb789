"""Producers that are too old are left out of the snapshots of their partition (docs/format/directory.md §1.6)."""

from __future__ import annotations

import time
from pathlib import Path

import offsetlog
from offsetlog import StoreConfig, TopicPartition
from offsetlog._native.replay import parse_producer_snapshot


def transact(path: Path, config: StoreConfig, producer_ids: list[int]) -> list[int]:
    """Returns the producers of the newest snapshot after a transaction of each and a pause of 20 ms."""
    with offsetlog.open(path, partitions=1, durability="process", config=config) as store:
        for producer_id in producer_ids:
            with store.transaction("g", producer_id=producer_id, producer_epoch=0) as transaction:
                transaction.commit({TopicPartition("t", 0): producer_id})
        time.sleep(0.02)
    newest = max(path.glob("__consumer_offsets-0/*.snapshot"))
    return [producer[0] for producer in parse_producer_snapshot(newest.read_bytes())]


def test_the_limit_is_a_setting_of_the_store(tmp_path: Path) -> None:
    assert transact(tmp_path / "day", StoreConfig(), [5, 6, 7]) == [5, 6, 7]
    # The greatest id of all stays, so that whoever counts on from it never gives it twice.
    assert transact(tmp_path / "short", StoreConfig(producer_id_expiration_ms=1), [7, 5, 6]) == [7]


def test_a_reopened_store_forgets_what_became_too_old(tmp_path: Path) -> None:
    assert transact(tmp_path / "a", StoreConfig(), [5, 6, 7]) == [5, 6, 7]
    short = StoreConfig(producer_id_expiration_ms=1)
    with offsetlog.open(tmp_path / "a", config=short) as store:
        store.commit("g", {TopicPartition("t", 1): 1})
        assert store.verify() == []
    newest = max((tmp_path / "a").glob("__consumer_offsets-0/*.snapshot"))
    assert [producer[0] for producer in parse_producer_snapshot(newest.read_bytes())] == [7]
