"""Snapshots while a log is cleaned: the part of a log after its snapshot stays short, whatever the cleaning does."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import offsetlog.maintenance.cleaning
from offsetlog import MaintenanceConfig, OffsetStore
from offsetlog._native import cleaner as native_cleaner
from offsetlog._native import snapshot as native_snapshot
from offsetlog.directory import history_floor
from offsetlog.directory import snapshots as snapshot_files
from offsetlog.maintenance import scheduler
from offsetlog.maintenance.cleaning import tails_of

from .test_maintenance import BY_HAND, GROUP, feed, opened, until

TAIL_BYTES = 20_000


class HeldUp:
    """A call that waits, once it is made, until it may go on."""

    def __init__(self, call) -> None:
        self._call = call
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, *given, **named):
        self.begun.set()
        assert self.may_go_on.wait(60)
        return self._call(*given, **named)


@pytest.fixture
def held_clean(monkeypatch) -> Iterator[HeldUp]:
    """A cleaning that stops before it reads anything."""
    held = HeldUp(native_cleaner.clean)
    monkeypatch.setattr(native_cleaner, "clean", held)
    yield held
    held.may_go_on.set()


@pytest.fixture
def held_swap(monkeypatch) -> Iterator[HeldUp]:
    """A cleaning that stops, in C, before it replaces its first segment."""
    held = HeldUp(history_floor.raise_floor)
    monkeypatch.setattr(offsetlog.maintenance.cleaning, "raise_floor", held)
    yield held
    held.may_go_on.set()


def tails(store: OffsetStore) -> list[int]:
    return [tail.bytes for tail in tails_of(store._core.attached())]


def snapshots(store: OffsetStore) -> int:
    return store.maintenance.status().counters.get("snapshots", 0)


@pytest.mark.parametrize("held", ["held_clean", "held_swap"])
def test_the_tail_stays_short_while_a_cleaning_is_under_way(path, request, monkeypatch, held):
    monkeypatch.setattr(scheduler, "SNAPSHOT_CHECK_MS", 10)
    held = request.getfixturevalue(held)
    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=0, snapshot_tail_bytes=TAIL_BYTES)
    with opened(path, config, partitions=2) as store:
        feed(store, 3000)
        feed(store, 3000, group="another")
        assert held.begun.wait(60)
        for turn in range(5):
            # More than a tail may be: of the log that is being cleaned, and of the other.
            feed(store, 1000)
            feed(store, 1000, group="another")
            until(lambda: max(tails(store)) < TAIL_BYTES)
            assert store.maintenance.status().cleaning is not None, turn
        assert snapshots(store) >= 5
        digest = store.digest()
        held.may_go_on.set()
        until(lambda: store.maintenance.status().counters.get("superseded", 0) > 5000)
        assert not store.maintenance.status().failures
        assert store.digest() == digest
        assert not store.verify()
    with opened(path, BY_HAND, partitions=2) as store:
        assert store.digest() == digest
        assert all(found["snapshot_discarded"] is None for found in store.recoveries().values())


def test_a_snapshot_goes_on_from_the_last_one_while_the_same_log_is_cleaned(path, held_swap):
    with opened(path, BY_HAND, partitions=1) as store:
        feed(store, 3000)
        (partition,) = store._core.attached()
        (first,) = store.snapshot()
        compacting = threading.Thread(target=store.compact)
        compacting.start()
        assert held_swap.begun.wait(60)
        feed(store, 10)
        (second,) = store.snapshot()
        assert second.written
        assert second.since == first.offset
        held_swap.may_go_on.set()
        compacting.join()
        feed(store, 10)
        (third,) = store.snapshot()
        assert third.since == second.offset == native_snapshot.file_offset(partition) - 10
        assert not store.verify()


def test_a_snapshot_that_reads_the_log_from_its_start_waits_for_the_cleaning(path, held_swap):
    with opened(path, BY_HAND, partitions=1) as store:
        feed(store, 3000)
        compacting = threading.Thread(target=store.compact)
        compacting.start()
        assert held_swap.begun.wait(60)
        reports = []
        taking = threading.Thread(target=lambda: reports.extend(store.snapshot()))
        taking.start()
        taking.join(0.05)
        assert not reports
        held_swap.may_go_on.set()
        compacting.join()
        taking.join()
        assert reports[0].written
        assert reports[0].since is None
        assert store.fetch_one(GROUP, "orders", 0) is not None
        assert not store.verify()


def test_close_ends_a_cleaning_that_waits_for_a_snapshot(path, monkeypatch):
    with opened(path, BY_HAND, partitions=1) as store:
        feed(store, 500)
        store.snapshot()
        feed(store, 500)
    # The last snapshot would be lost by the cleaning, so that it waits for another one, which does not end.
    control_of = []

    def endless(partition, directory, *, stop, **named) -> None:
        control_of.append(stop)
        while not stop.is_set():
            pass
        raise offsetlog.errors.ClosedError("it was stopped")

    monkeypatch.setattr(offsetlog.directory.snapshots, "write", endless)
    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=0, snapshot_tail_bytes=4096)
    store = opened(path, config, partitions=1)
    feed(store, 500)
    until(lambda: control_of)
    store.close()
    assert not store.maintenance.status().running


def test_no_thread_is_left_where_no_snapshots_are_wanted(path):
    def threads() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name == "offsetlog-snapshots"]

    with opened(path, MaintenanceConfig(snapshots=False)):
        assert not threads()
    with opened(path, MaintenanceConfig()):
        assert len(threads()) == 1
    assert not threads()


def group_of(store: OffsetStore, number: int) -> str:
    return next(name for name in map(str, range(1000)) if store._core.number_of(name) == number)


def test_a_log_that_has_to_be_read_whole_keeps_no_other_log_waiting(path, monkeypatch, held_clean):
    monkeypatch.setattr(scheduler, "SNAPSHOT_CHECK_MS", 10)
    config = MaintenanceConfig(interval_ms=10, min_cleanable_bytes=0, snapshot_tail_bytes=TAIL_BYTES)
    with opened(path, config, partitions=3) as store:
        cleaned = store._core.number_of(GROUP)
        whole, other = (number for number in range(3) if number != cleaned)
        copy = native_snapshot.copy
        tried = threading.Event()

        def copy_unless_whole(partition, *given, **named):
            if partition.number != whole:
                return copy(partition, *given, **named)
            tried.set()
            return None

        monkeypatch.setattr(native_snapshot, "copy", copy_unless_whole)
        feed(store, 3000)
        assert held_clean.begun.wait(60)
        feed(store, 3000, group=group_of(store, whole))
        assert tried.wait(60)
        feed(store, 3000, group=group_of(store, other))
        until(lambda: tail_of(store, other) < TAIL_BYTES)
        assert tail_of(store, whole) >= TAIL_BYTES
        assert store.maintenance.status().cleaning is not None
        held_clean.may_go_on.set()
        until(lambda: tail_of(store, whole) < TAIL_BYTES)
        assert not store.maintenance.status().failures


def tail_of(store: OffsetStore, number: int) -> int:
    (partition,) = (each for each in store._core.attached() if each.number == number)
    return tails_of([partition])[0].bytes


def test_a_first_snapshot_below_what_is_cleaned_meanwhile_is_followed_by_another(path, monkeypatch):
    held = HeldUp(snapshot_files._store)
    with opened(path, BY_HAND, partitions=1) as store:
        feed(store, 3000)
        (partition,) = store._core.attached()
        monkeypatch.setattr(snapshot_files, "_store", held)
        first = threading.Thread(target=store.maintenance._cleaner.snapshot, args=(partition,), kwargs={"live": True})
        first.start()
        assert held.begun.wait(60)
        feed(store, 3000)
        cleaning = threading.Thread(target=store.compact)
        cleaning.start()
        cleaning.join(1)  # one that did not wait for the first snapshot would be over by then
        held.may_go_on.set()
        first.join(60)
        cleaning.join(60)
        assert not first.is_alive()
        assert not cleaning.is_alive()
        assert native_snapshot.file_offset(partition) == 6000


def test_a_small_snapshot_is_written_in_one_go(path, monkeypatch):
    # Beside a thread that commits each write waits for the GIL; with 50 logs nothing else took as long.
    written = []

    class Written(native_snapshot.OutputFile):
        def write(self, data):
            written.append(len(memoryview(data)))
            return super().write(data)

    monkeypatch.setattr(snapshot_files, "OutputFile", Written)
    with opened(path, BY_HAND, partitions=1) as store:
        # The head of the file is padded, so that the sizes of numbers do not change its own.
        for times in (1, 5, 50, 500, 5000):
            feed(store, times, keys=times)
            (report,) = store.snapshot()
            assert written.pop() == report.size
            assert not written
        digest = store.digest()
    with opened(path, partitions=1) as store:
        (partition,) = store._core.attached()
        assert partition.recovery["snapshot"] is not None
        assert store.digest() == digest


def test_tails_leave_out_what_is_closed(path):
    with opened(path, BY_HAND) as store:
        for number in range(20):
            feed(store, 10, group=f"group-{number}")
        partitions = store._core.attached()
        first, second = tails_of(partitions)
        assert {first.number, second.number} == {0, 1}
        assert min(first.bytes, first.state_bytes, first.log_bytes) > 0
    assert tails_of(partitions) == []
