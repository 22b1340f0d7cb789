"""Maintenance of an open store: cleans by itself and when asked, survives what goes wrong, and ends with the store."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import offsetlog
from offsetlog import MaintenanceConfig, OffsetStore, StoreConfig, TopicPartition, errors, opening
from offsetlog._native.files import FileSystem
from offsetlog._native.snapshot import file_offset
from offsetlog.directory.log_directory import CLEANER_POINTS, TOPIC, LogDirectory
from offsetlog.maintenance.cleaning import LogCleaner

SMALL = StoreConfig(segment_bytes=16 << 10)
#: Looks all the time, and cleans whatever can be.
EAGER = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=0, idle_roll_ms=50)
#: Only when asked.
BY_HAND = MaintenanceConfig(enabled=False)
GROUP = "billing"


def opened(path: Path, maintenance: MaintenanceConfig = BY_HAND, **options) -> OffsetStore:
    options = {"partitions": 2, "durability": "process", "config": SMALL, **options}
    return opening.open_with(path, maintenance=maintenance, **options)


@pytest.fixture
def by_hand(path: Path) -> Iterator[OffsetStore]:
    with opened(path) as store:
        yield store


def feed(store: OffsetStore, times: int = 1000, keys: int = 4, group: str = GROUP) -> None:
    for number in range(times):
        store.commit_one(group, "orders", number % keys, number)


def log_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*.log"))


def checkpoint_of(path: Path) -> dict[int, int]:
    directory = LogDirectory(path, FileSystem())
    entries = directory.read_checkpoint(CLEANER_POINTS)
    return {number: offset for (topic, number), offset in entries.items() if topic == TOPIC}


def until(met: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def maintenance_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("offsetlog-maintenance")]


# ------------------------------------------------------------------------------------------------------------ by itself


def test_a_fed_log_becomes_small_by_itself(path):
    with opened(path, EAGER) as store:
        feed(store, 5000)
        digest = store.digest()
        until(lambda: store.maintenance.status().counters.get("superseded", 0) > 4980)
        assert log_bytes(path) < 50_000
        assert store.digest() == digest
        assert store.fetch_one(GROUP, "orders", 3).offset == 4999
        status = store.maintenance.status()
        assert status.running
        assert status.counters["cleaned"] >= 1
        assert not status.failures
    with opened(path) as store:
        assert store.digest() == digest
        assert not store.verify()


def test_an_idle_active_segment_is_closed_and_cleaned(path):
    config = StoreConfig(segment_bytes=1 << 20)
    with opened(path, EAGER, config=config) as store:
        feed(store, 2000)
        until(lambda: store.maintenance.status().counters.get("rolled", 0) >= 1)
        until(lambda: store._core.attached()[0].log_facts()["size_bytes"] < 10_000)
        assert store.fetch_one(GROUP, "orders", 3).offset == 1999


@pytest.mark.ci  # half a minute of commits and of waiting
def test_the_defaults_keep_their_promise(path):
    # A log fed 100 times the live bytes in it, at most 60 seconds after the last commit, and nobody asked.
    with offsetlog.open(path, 2, "process") as store:
        positions = [TopicPartition("orders", number) for number in range(100)]
        groups = [f"group-{number:03d}" for number in range(40)]
        for times in range(100):
            for group in groups:
                store.commit(group, dict.fromkeys(positions, times))
            if times == 0:
                live = log_size(store)
        digest = store.digest()
        until(lambda: log_size(store) <= 3 * live, 60)
        assert store.digest() == digest
        assert not store.verify()


def log_size(store: OffsetStore) -> int:
    return sum(partition.log_facts()["size_bytes"] for partition in store._core.attached())


def test_what_was_deleted_goes_by_itself(path):
    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=0, idle_roll_ms=20, delete_retention_ms=100)
    with opened(path, config, partitions=1) as store:
        keys = [TopicPartition("orders", number) for number in range(300)]
        store.commit(GROUP, dict.fromkeys(keys, 1))
        store.delete(GROUP, keys)
        until(lambda: store.maintenance.status().counters.get("tombstones_dropped", 0) == 300)
        until(lambda: store._core.attached()[0].log_facts()["size_bytes"] < 1000)
        cleaned = store.maintenance.status().counters["cleaned"]
        until(lambda: store.maintenance.status().counters["rounds"] > 100)
        assert store.maintenance.status().counters["cleaned"] <= cleaned + 1


def test_a_small_log_is_left_alone(path):
    with opened(path, MaintenanceConfig(interval_ms=10, idle_roll_ms=10)) as store:
        feed(store, 100)
        before = sorted(path.rglob("*.log"))
        until(lambda: store.maintenance.status().counters.get("rounds", 0) > 10)
        assert sorted(path.rglob("*.log")) == before
        plan = next(iter(store.maintenance.status().plans.values()))
        assert plan.action == "none"
        assert store.maintenance.status().counters["decided_none"] > 5
        assert len(store.maintenance.decisions()) <= 2, "one that only repeats the one before is left out"


def test_nothing_runs_unasked_where_that_is_not_wanted(path):
    before = maintenance_threads()
    with opened(path, BY_HAND) as store, opened(path.parent / "two", EAGER, background=False) as other:
        assert maintenance_threads() == before
        assert not store.maintenance.status().running
        assert not other.maintenance.status().running


def test_intervals_of_any_length(path):
    config = MaintenanceConfig(interval_ms=2**63 - 1, retention_check_interval_ms=2**63 - 1)
    with opened(path, config) as store:
        feed(store, 10)
        assert store.maintenance.status().running
    assert not store.maintenance.status().running


def test_decisions_are_logged(path, caplog):
    caplog.set_level(logging.INFO, "offsetlog.maintenance")
    with opened(path) as store:
        feed(store)
        store.compact()
    messages = [record.getMessage() for record in caplog.records if record.name == "offsetlog.maintenance"]
    assert any("closed and cleaned: requested" in message for message in messages)
    assert any(" records" in message and "kept " in message for message in messages)


# ---------------------------------------------------------------------------------------------------------------- asked


def test_compact_keeps_what_is_committed(by_hand, path):
    feed(by_hand)
    digest = by_hand.digest()
    before = log_bytes(path)
    (report,) = by_hand.compact()
    assert report.cleaned
    assert report.complete
    assert report.rolled
    assert not report.stopped
    assert report.bytes_after < report.bytes_before / 20
    assert report.records_kept == 4
    assert report.superseded == 996
    # The active segment is allocated ahead.
    assert log_bytes(path) < before / 10 + SMALL.segment_bytes
    assert by_hand.digest() == digest
    assert not by_hand.verify()
    assert by_hand.maintenance.status().reports == {report.log_partition: report}


def test_a_second_compact_finds_nothing_to_do(by_hand):
    feed(by_hand)
    by_hand.compact()
    (report,) = by_hand.compact()
    assert not report.cleaned
    assert "nothing was written" in report.reason
    assert report.bytes_before == report.bytes_after > 0


def test_compact_without_closing_the_active_segment(by_hand):
    feed(by_hand)
    (report,) = by_hand.compact(roll=False)
    assert report.cleaned
    assert not report.rolled
    feed(by_hand, 10)
    assert not by_hand.compact(roll=False)[0].cleaned


def test_compact_of_what_is_dirty_enough(by_hand):
    feed(by_hand)
    by_hand.compact()
    feed(by_hand, 2)
    assert not by_hand.compact(ratio=0.9)[0].cleaned
    assert by_hand.compact(ratio=0.1)[0].cleaned


def test_compact_of_some_partitions(path):
    with opened(path, partitions=8) as store:
        groups = [f"group-{number}" for number in range(20)]
        for group in groups:
            feed(store, 100, group=group)
        attached = [partition.number for partition in store._core.attached()]
        assert len(attached) > 3
        reports = store.compact(attached[:2])
        assert [report.log_partition for report in reports] == attached[:2]
        assert set(checkpoint_of(path)) == set(attached[:2])


def test_compact_refuses_what_is_no_partition(by_hand):
    feed(by_hand, 1)
    for wrong in (-1, 2, 100):
        with pytest.raises(errors.InvalidArgumentError):
            by_hand.compact([wrong])
    for wrong in ("0", 0, [0.0], [None]):
        with pytest.raises(errors.ArgumentTypeError):
            by_hand.compact(wrong)


def test_compact_of_a_store_in_which_nothing_was_written(by_hand):
    assert by_hand.compact() == []
    assert by_hand.compact([0]) == []


def test_a_dry_run_changes_nothing(by_hand, path):
    def sizes():
        # The background flushes rolled segments whenever it likes, and notes that it did.
        flushing = ("offsetlog.rolled-", "offsetlog.flushed", "offsetlog.manifest")
        return {file: file.stat().st_size for file in path.rglob("*") if not file.name.startswith(flushing)}

    feed(by_hand)
    # Otherwise the background does it meanwhile, and writes the last entries of the indexes.
    by_hand.flush()
    before = sizes()
    (plan,) = by_hand.maintenance.plans()
    assert (plan.action, plan.reason) == ("roll", "requested")
    assert sizes() == before
    with opened(path, read_only=True) as view:
        assert view.maintenance.plans() == [plan]


def test_tombstones_go_after_their_time(by_hand):
    feed(by_hand, 100)
    by_hand.delete(GROUP, [TopicPartition("orders", 3)])
    (report,) = by_hand.compact(delete_retention_ms=0)
    assert (report.tombstones_dropped, report.records_kept) == (0, 4), "the first cleaning sets its time"
    (report,) = by_hand.compact(delete_retention_ms=0)
    assert not report.cleaned
    (report,) = by_hand.compact(again=True, delete_retention_ms=0)
    assert (report.tombstones_dropped, report.records_kept) == (1, 3)


def test_a_read_only_store_is_not_cleaned(by_hand, path):
    feed(by_hand)
    with opened(path, read_only=True) as view:
        with pytest.raises(errors.ReadOnlyError):
            view.compact()
        assert not view.maintenance.status().running


def test_a_closed_store_is_not_cleaned(path):
    with opened(path) as store:
        feed(store)
    with pytest.raises(errors.ClosedError):
        store.compact()
    assert not store.maintenance.status().running


def test_progress_is_reported(path):
    with opened(path, MaintenanceConfig(enabled=False, cleaner_bytes_per_second=500_000)) as store:
        feed(store, 3000)
        seen = []
        store.compact(progress=lambda *step: seen.append(step))
    assert seen
    assert all(0 <= read <= total or total == 0 for _, read, total in seen)
    assert [read for _, read, _ in seen] == sorted(read for _, read, _ in seen)


def test_commits_go_on_meanwhile(path):
    with opened(path, MaintenanceConfig(enabled=False, cleaner_bytes_per_second=400_000)) as store:
        feed(store, 3000)
        cleaning = threading.Thread(target=store.compact)
        cleaning.start()
        times = 0
        while cleaning.is_alive():
            feed(store, 10)
            times += 1
        cleaning.join()
        assert times > 5
        assert store.fetch_one(GROUP, "orders", 1).offset == 9
        assert not store.verify()


# ---------------------------------------------------------------------------------------------------------- checkpoints


def test_the_checkpoint_is_kafkas(by_hand, path):
    feed(by_hand)
    (path / CLEANER_POINTS).write_text("0\n2\nother-topic 3 17\n__consumer_offsets 7 99\n")
    (report,) = by_hand.compact()
    text = (path / CLEANER_POINTS).read_text().splitlines()
    assert text[0] == "0"
    assert int(text[1]) == len(text) - 2
    assert set(text[2:]) == {
        "other-topic 3 17",
        "__consumer_offsets 7 99",
        f"__consumer_offsets {report.log_partition} {report.checkpoint}",
    }
    assert report.checkpoint == 1000


def test_cleaning_goes_on_where_it_ended(path):
    with opened(path) as store:
        feed(store)
        (first,) = store.compact()
    with opened(path) as store:
        assert not store.compact()[0].cleaned
        feed(store)
        (second,) = store.compact()
        assert second.checkpoint == first.checkpoint + 1000
        assert second.records_kept == 4


@pytest.mark.parametrize("offset", [10_000, 2**63 - 1])
def test_a_checkpoint_beyond_the_log_is_forgotten(path, offset):
    with opened(path) as store:
        feed(store)
        number = store._core.attached()[0].number
    (path / CLEANER_POINTS).write_text(f"0\n1\n{TOPIC} {number} {offset}\n")
    with opened(path) as store:
        feed(store, 20_000)
        (report,) = store.compact()
        assert report.records_kept == 4
        assert report.checkpoint == 21_000
    assert checkpoint_of(path) == {number: 21_000}


def test_a_damaged_checkpoint_counts_as_none(path):
    with opened(path) as store:
        feed(store)
    (path / CLEANER_POINTS).write_bytes(b"0\n7\nnonsense")
    with pytest.warns(errors.CorruptionWarning, match=CLEANER_POINTS), opened(path) as store:
        assert store.compact()[0].records_kept == 4


# --------------------------------------------------------------------------------------------------- history, retention


def test_history_is_kept(path):
    with opened(path, MaintenanceConfig(enabled=False, min_history_ms=3_600_000)) as store:
        feed(store)
        (report,) = store.compact()
        assert not report.cleaned
        assert "the history is kept from log offset 0 on" in report.reason
    with opened(path, MaintenanceConfig(enabled=False, min_history_ms=1)) as store:
        time.sleep(0.01)
        (report,) = store.compact()
        assert report.records_kept == 4


def test_history_of_some_groups_is_kept(path):
    config = MaintenanceConfig(enabled=False, min_history={"audit*": 3_600_000})
    with opened(path, config, partitions=1) as store:
        for number in range(500):
            store.commit_one("billing", "orders", 0, number)
            store.commit_one("audit-7", "orders", 0, number)
        (report,) = store.compact()
        assert report.records_kept == 501
        assert store.fetch("audit-7", at=201)[TopicPartition("orders", 0)].offset == 99
        with pytest.raises(errors.HistoryError):
            store.fetch("billing", at=201)
    # Held records go once they are old enough.
    with opened(path, BY_HAND, partitions=1) as store:
        (report,) = store.compact(again=True)
        assert report.records_kept == 2
        assert store.fetch_one("audit-7", "orders", 0).offset == 499


def test_what_was_held_back_is_dirty_later(path):
    config = MaintenanceConfig(enabled=False, min_history={"audit": 3_600_000})
    with opened(path, config, partitions=1) as store:
        feed(store, 500, group="audit")
        assert store.compact()[0].records_kept == 500
    with opened(path, BY_HAND, partitions=1) as store:
        feed(store, 1, group="other")
        (report,) = store.compact()
        assert report.records_kept == 5


def test_positions_expire_by_themselves(path):
    config = MaintenanceConfig(interval_ms=10, retention_check_interval_ms=20, retention={"old-*": 0})
    with opened(path, config) as store:
        store.commit_one("old-1", "orders", 0, 1)
        store.commit_one("new-1", "orders", 0, 1)
        until(lambda: store.fetch_one("old-1", "orders", 0) is None)
        assert store.fetch_one("new-1", "orders", 0).offset == 1
        until(lambda: store.maintenance.status().counters["positions_expired"] == 1)
        assert store.maintenance.status().counters["expiry_checks"] >= 1


def snapshot_offset(store: OffsetStore) -> int:
    (partition,) = store._core.attached()
    return file_offset(partition)


def test_a_snapshot_is_written_where_much_is_after_the_last_one(path):
    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=1 << 30, snapshot_tail_bytes=20_000)
    with opened(path, config) as store:
        feed(store, 50)
        until(lambda: store.maintenance.status().counters.get("rounds", 0) > 5)
        assert snapshot_offset(store) == -1
        feed(store, 500)
        until(lambda: store.maintenance.status().counters.get("snapshots", 0) >= 1)
        until(lambda: store.maintenance.status().counters["rounds"] > 100)
        assert 300 < snapshot_offset(store) <= 550
        assert store.maintenance.status().counters["snapshots"] <= 3


def test_a_snapshot_is_renewed_before_it_is_lost(path):
    with opened(path, MaintenanceConfig(enabled=False)) as store:
        feed(store, 500)
        store.maintenance._cleaner.snapshot(store._core.attached()[0])
        feed(store, 500)
        assert snapshot_offset(store) == 500
        (report,) = store.compact()
        assert snapshot_offset(store) == report.checkpoint == 1000
        assert not store.verify()


def test_where_no_snapshot_can_be_written_the_log_is_cleaned_all_the_same(path, monkeypatch, caplog):
    with opened(path, MaintenanceConfig(enabled=False)) as store:
        feed(store, 500)
        store.maintenance._cleaner.snapshot(store._core.attached()[0])
        feed(store, 500)

        def fail(*given, **options):
            raise errors.DiskFullError("no space left", errno=28)

        monkeypatch.setattr(offsetlog.directory.snapshots, "write", fail)
        (report,) = store.compact()
        assert report.records_kept == 4
    assert "no space left" in caplog.text


def test_snapshots_can_be_done_without(path):
    config = MaintenanceConfig(interval_ms=10, snapshots=False, snapshot_tail_bytes=4096)
    with opened(path, config) as store:
        feed(store, 500)
        until(lambda: store.maintenance.status().counters.get("rounds", 0) > 10)
        assert snapshot_offset(store) == -1


def test_nothing_expires_where_that_is_not_configured(path):
    with opened(path, MaintenanceConfig(interval_ms=10, retention_check_interval_ms=10)) as store:
        store.commit_one("g", "orders", 0, 1)
        until(lambda: store.maintenance.status().counters.get("rounds", 0) > 5)
        assert "expiry_checks" not in store.maintenance.status().counters


# ------------------------------------------------------------------------------------------------------ what goes wrong


def test_a_failure_of_one_log_does_not_keep_the_others(path, monkeypatch, caplog):
    clean = LogCleaner.clean
    failing: set[int] = set()
    tried: list[int] = []

    def clean_or_fail(self, partition, plan, **options):
        tried.append(partition.number)
        if partition.number in failing:
            raise errors.StorageError("the disk is on fire", errno=5)
        return clean(self, partition, plan, **options)

    monkeypatch.setattr(LogCleaner, "clean", clean_or_fail)
    with opened(path, EAGER) as store:
        for number in range(10):
            store.commit_one(f"group-{number}", "t", 0, 0)
        first, second = (partition.number for partition in store._core.attached())
        failing.add(first)
        for number in range(10):
            feed(store, 300, group=f"group-{number}")
        until(lambda: second in store.maintenance.status().reports)
        until(lambda: tried.count(first) >= 3)
        status = store.maintenance.status()
        assert isinstance(status.failures[first], errors.StorageError)
        assert status.running
        assert second not in status.failures
        failing.clear()
        until(lambda: first in store.maintenance.status().reports)
        until(lambda: not store.maintenance.status().failures)
    logged = [record for record in caplog.records if "the disk is on fire" in record.getMessage()]
    assert len(logged) == 1, "what repeats is logged once in a while"


def test_what_fails_is_tried_less_and_less_often(path, monkeypatch):
    tried = []

    def fail(self, partition, plan, **options):
        tried.append(time.monotonic())
        raise errors.StorageError("the disk is on fire", errno=5)

    monkeypatch.setattr(LogCleaner, "clean", fail)
    with opened(path, EAGER) as store:
        feed(store, 2000)
        until(lambda: len(tried) >= 6)
        gaps = [after - before for before, after in itertools.pairwise(tried)]
        assert gaps[-1] > 3 * gaps[0]
        assert store.maintenance.status().counters["failed"] >= 6


def test_a_fault_of_ours_does_not_end_it(path, monkeypatch, caplog):
    monkeypatch.setattr(LogCleaner, "inspect", lambda self, partition: 1 // 0)
    with opened(path, EAGER) as store:
        feed(store, 10)
        until(lambda: bool(store.maintenance.status().failures))
        assert store.maintenance.status().running
    assert "ZeroDivisionError" in caplog.text


def test_asked_for_the_failure_is_raised_and_the_others_are_cleaned(path, monkeypatch):
    clean = LogCleaner.clean
    failing: set[int] = set()

    def clean_or_fail(self, partition, plan, **options):
        if partition.number in failing:
            raise errors.StorageError("the disk is on fire", errno=5)
        return clean(self, partition, plan, **options)

    monkeypatch.setattr(LogCleaner, "clean", clean_or_fail)
    with opened(path) as store:
        for number in range(10):
            feed(store, 100, group=f"group-{number}")
        first, second = (partition.number for partition in store._core.attached())
        failing.add(first)
        with pytest.raises(errors.StorageError, match="on fire") as raised:
            store.compact()
        assert any("1 other log partitions were cleaned" in note for note in raised.value.__notes__)
        assert set(checkpoint_of(path)) == {second}


def test_a_damaged_partition_is_cleaned_only_when_asked(path):
    with opened(path) as store:
        feed(store, 1000)
    victim = sorted(path.rglob("*.log"))[1]
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    with pytest.warns(errors.CorruptionWarning):
        store = opened(path, EAGER)
    with store:
        until(lambda: store.maintenance.status().counters.get("rounds", 0) > 10)
        assert all(plan.action == "none" for plan in store.maintenance.status().plans.values())
        assert "damaged" in next(iter(store.maintenance.status().plans.values())).reason
        (report,) = store.compact()
        assert report.quarantined == 1
        assert report.quarantine[0].path.endswith(victim.name)
        assert victim.read_bytes() == bytes(content), "what is damaged stays as it is"


# --------------------------------------------------------------------------------------------------- stuck transactions


def test_a_stuck_transaction_is_reported_and_can_be_ended(path, caplog):
    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=0, idle_roll_ms=10, stuck_transaction_ms=200)
    with opened(path, config) as store:
        pending = store.transaction(GROUP, 77)
        pending.__enter__()
        pending.commit({TopicPartition("orders", 9): 1})
        feed(store, 500)
        until(lambda: bool(store.maintenance.status().stuck))
        (stuck,) = store.maintenance.status().stuck
        assert (stuck.producer_id, stuck.groups, stuck.start_offset) == (77, (GROUP,), 0)
        assert stuck.age_ms >= 200
        assert stuck.pinned_bytes > 30_000
        plan = store.maintenance.status().plans[stuck.log_partition]
        assert "a transaction has been open since log offset 0" in plan.reason
        time.sleep(0.1)
        store.abort_transaction(77)
        until(lambda: not store.maintenance.status().stuck)
        until(lambda: stuck.log_partition in store.maintenance.status().reports)
    logged = [record.getMessage() for record in caplog.records if "producer 77" in record.getMessage()]
    assert len(logged) == 1
    assert "abort_transaction(77)" in logged[0]


# -------------------------------------------------------------------------------------------------------------- the end


def test_close_stops_a_cleaning_soon(path):
    with opened(path, MaintenanceConfig(enabled=False, cleaner_bytes_per_second=10_000)) as store:
        feed(store, 5000)
        digest = store.digest()
        failures = []

        def compact():
            try:
                store.compact()
            except errors.OffsetLogError as failure:
                failures.append(failure)

        cleaning = threading.Thread(target=compact)
        cleaning.start()
        until(lambda: store.maintenance.status().cleaning is not None)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    cleaning.join(5)
    assert not cleaning.is_alive()
    assert all(isinstance(failure, errors.ClosedError) for failure in failures)
    with opened(path) as store:
        assert store.digest() == digest


def test_close_stops_the_thread_soon(path):
    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=0, cleaner_bytes_per_second=10_000)
    store = opened(path, config)
    feed(store, 5000)
    until(lambda: store.maintenance.status().cleaning is not None)
    began = time.monotonic()
    store.close()
    assert time.monotonic() - began < 5
    assert not store.maintenance.status().running


def test_an_interrupt_ends_compact_soon(path):
    with opened(path, MaintenanceConfig(enabled=False, cleaner_bytes_per_second=10_000)) as store:
        feed(store, 5000)
        digest = store.digest()
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            store.compact()
        assert time.monotonic() - began < 5
        timer.join()
        assert store.digest() == digest
        store.commit_one(GROUP, "orders", 0, 1)


def test_a_forgotten_store_ends_although_it_is_maintained(path):
    store = opened(path, EAGER)
    feed(store, 100)
    maintenance = store.maintenance
    until(lambda: maintenance.status().counters.get("rounds", 0) > 2)
    (thread,) = maintenance_threads()
    with pytest.warns(ResourceWarning, match="was not closed"):
        del store
    thread.join(5)
    assert not thread.is_alive()
    opened(path).close()


def test_what_cannot_be_cleaned_yet_is_not_tried_again_and_again(path):
    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=0, idle_roll_ms=3_600_000)
    with opened(path, config, partitions=1) as store:
        # Larger than a batch, so a transaction, which ends in the segment after the first.
        keys = [TopicPartition("orders", number) for number in range(300)]
        store.commit(GROUP, dict.fromkeys(keys, 1))
        until(lambda: store.maintenance.status().counters.get("rounds", 0) > 30)
        status = store.maintenance.status()
        assert status.counters["cleaned"] == 1
        assert not status.failures
        assert "cannot be cleaned yet" in status.plans[0].reason


def test_in_a_child_nothing_runs(path):
    with opened(path, EAGER) as store:
        feed(store, 100)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                store.compact()
            except errors.ClosedError:
                code = 0 if not maintenance_threads() and not store.maintenance.status().running else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        feed(store, 100)
