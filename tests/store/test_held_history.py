"""Held history of a group is cleaned once it is too old: automatically, on request, and after a restart."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import offsetlog
from offsetlog import MaintenanceConfig, OffsetStore, StoreConfig
from offsetlog.directory.history_floor import FLOOR_FILE, HistoryFloor, read_floor
from offsetlog.errors import HistoryError, InvalidArgumentError
from offsetlog.verify import verify
from offsetlog.verify.findings import Finding

HOUR = 3_600_000
SMALL = StoreConfig(segment_bytes=16 << 10)
LIVE_MAX = 2000


def opened(path: Path, hours: float = 1, **groups: int) -> OffsetStore:
    held = {"audit": int(hours * HOUR), **groups} if hours else {}
    config = MaintenanceConfig(enabled=False, min_cleanable_bytes=0, idle_roll_ms=0, min_history=held)
    return offsetlog.open(path, 1, "process", config=SMALL, maintenance=config)


def feed(store: OffsetStore, group: str = "audit", times: int = 1000) -> None:
    for number in range(times):
        store.commit_one(group, "orders", number % 4, number)


def rest(store: OffsetStore, hours: float) -> None:
    """Has maintenance look at the logs, so much later."""
    store.maintenance._cleaner.clock = lambda: time.time_ns() // 1_000_000 + int(hours * HOUR)
    store.maintenance.look_after(store._open_core.attached())


def log_size(store: OffsetStore) -> int:
    return store._open_core.attached()[0].log_facts()["size_bytes"]


def cleanings(store: OffsetStore) -> int:
    return store.maintenance.status().counters.get("cleaned", 0)


def test_a_log_that_rests_gets_small_once_its_history_is_too_old(path):
    with opened(path) as store:
        feed(store)
        rest(store, 0)
        held = log_size(store)
        assert held > 50_000
        done = cleanings(store)
        assert done == 1
        rest(store, 0.5)
        rest(store, 0.9)
        assert (log_size(store), cleanings(store)) == (held, done)
        assert "history of some groups is kept" in store.maintenance.status().plans[0].reason
        digest = store.digest()
        rest(store, 1.1)
        assert log_size(store) < LIVE_MAX
        assert store.digest() == digest
        # And no more than once.
        done = cleanings(store)
        for hours in (1.2, 2, 48):
            rest(store, hours)
        assert cleanings(store) == done
        assert not store.verify()


def test_it_gets_small_after_a_restart(path):
    with opened(path) as store:
        feed(store)
        rest(store, 0)
        assert log_size(store) > 50_000
    with opened(path) as store:
        rest(store, 0.5)
        assert log_size(store) > 50_000
        rest(store, 1.1)
        assert log_size(store) < LIVE_MAX


def test_it_gets_small_when_the_setting_is_gone(path):
    with opened(path) as store:
        feed(store)
        rest(store, 0)
    with opened(path, 0) as store:
        rest(store, 0)
        assert log_size(store) < LIVE_MAX
        done = cleanings(store)
        rest(store, 1)
        assert cleanings(store) == done


def test_who_asks_gets_it(path):
    with opened(path) as store:
        feed(store)
        (report,) = store.compact()
        assert report.records_kept == 1000
        (report,) = store.compact()
        assert (report.cleaned, report.reason) == (False, "the history of some groups is kept from log offset 0 on")
        rest(store, 0.5)
        store.maintenance._cleaner.clock = lambda: time.time_ns() // 1_000_000 + 2 * HOUR
        (report,) = store.compact()
        assert (report.cleaned, report.superseded) == (True, 996)
        assert log_size(store) < LIVE_MAX
        assert not store.compact()[0].cleaned


def test_one_group_waits_for_its_time_and_does_not_keep_another(path):
    with opened(path, 1, ledger=10 * HOUR) as store:
        feed(store, "audit", 3000)
        feed(store, "ledger", 100)
        rest(store, 0)
        rest(store, 1.1)
        assert log_size(store) < 20_000
        done = cleanings(store)
        for hours in (2, 3, 5, 9):
            rest(store, hours)
        assert cleanings(store) == done
        assert len(store.history("ledger", "orders", 0)) == 25
        rest(store, 11)
        assert log_size(store) < LIVE_MAX
        assert not read_floor(store._directory.fs, path / "__consumer_offsets-0").groups


def test_a_global_history_that_was_set_later_is_kept(path):
    with opened(path) as store:
        feed(store)
        rest(store, 0)
        size = log_size(store)
    longer = MaintenanceConfig(enabled=False, min_cleanable_bytes=0, idle_roll_ms=0, min_history_ms=5 * HOUR)
    with offsetlog.open(path, 1, "process", config=SMALL, maintenance=longer) as store:
        rest(store, 2)
        assert log_size(store) == size
        rest(store, 6)
        assert log_size(store) < LIVE_MAX


@pytest.mark.parametrize(
    ("groups", "holds", "lifted"),
    [
        ({}, [], None),
        ({"a": 10}, [], (10, 100)),
        ({"a": 10}, [("a", 10)], (10, 10)),
        ({"a": 10}, [("a", 60)], (10, 60)),
        ({"a": 10}, [("*", 5)], (10, 10)),
        ({"a": 10, "b": 50}, [("a", 10), ("b", 70)], (50, 70)),
        ({"a": 10, "b": 50}, [("a", 20), ("b", 70)], (10, 70)),
        ({"a": 100, "a*": 10}, [("a*", 10)], (10, 10)),
    ],
)
def test_what_is_not_held_back_any_more(groups, holds, lifted):
    assert HistoryFloor(100, groups).lifted(holds) == lifted


@pytest.mark.parametrize(
    ("patterns", "limit", "named"),
    [
        ([], 1000, ["a", "team-*"]),
        (["a"], 1000, ["team-*"]),
        (["team-b"], 1000, ["a", "team-*"]),
        (["team-*", "a"], 1000, []),
        (["t*"], 1000, ["a"]),
        (["*"], 1000, []),
        ([], 40, ["a"]),
        ([], 10, []),
    ],
)
def test_whose_past_is_let_go(patterns, limit, named):
    assert HistoryFloor(100, {"a": 10, "team-*": 50, "team-x": 100}).unheld(patterns, limit) == named


@pytest.mark.parametrize(
    "wrong",
    [
        {"delete_retention_ms": -1},
        {"delete_retention_ms": "1"},
        {"delete_retention_ms": 2**63},
        {"ratio": 2},
        {"ratio": -0.1},
        {"ratio": float("nan")},
        {"ratio": "x"},
        {"ratio": True},
        {"progress": 5},
    ],
    ids=str,
)
def test_what_compact_is_asked_is_checked_before_anything_is_done(path, wrong):
    with opened(path) as store:
        feed(store, times=10)
        segments = sorted(path.rglob("*.log"))
        with pytest.raises(InvalidArgumentError):
            store.compact(**wrong)
        assert sorted(path.rglob("*.log")) == segments


def test_a_damaged_file_does_not_take_the_past_for_good(path):
    with opened(path, 0) as store:
        feed(store)
        store.compact()
        file = path / "__consumer_offsets-0" / FLOOR_FILE
        file.write_bytes(b"{")
        found: list[Finding] = []
        verify(path, report=found.append)
        assert [(finding.kind, finding.path) for finding in found if finding.severity == "problem"] == [
            ("history", str(file))
        ]
        feed(store)
        end = store._open_core.attached()[0].log_facts()["end"]
        with pytest.raises(HistoryError):
            store.fetch("audit", at=end - 1)
        store.compact()
        assert read_floor(store._directory.fs, file.parent).end < 10_000
        feed(store, times=4)
        assert store.fetch("audit", at=end + 2)
        assert not store.verify()
