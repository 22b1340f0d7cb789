"""A log that is rolled and cleaned between planning and reading, or while it is read, loses no key and tells no lie."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import offsetlog
import offsetlog.spark.scan.states as states
from offsetlog import MaintenanceConfig, OffsetStore, StoreConfig, TopicPartition, errors
from offsetlog._native.encoding import encode_batch

from .moving_logs import key_of, marker, value_of
from .reading import Row, in_this_process, read_splits, rows_of, splits_of

# The second tier: logs that move while they are read.
pytestmark = pytest.mark.ci

KEYS = [TopicPartition("t", number) for number in range(6)]
BY_HAND = MaintenanceConfig(enabled=False)
SMALL = StoreConfig(segment_bytes=4 << 10, index_interval_bytes=256)


def opened(path: Path) -> OffsetStore:
    return offsetlog.open(path, partitions=1, durability="process", config=SMALL, maintenance=BY_HAND)


def write(store: OffsetStore, first: int, until: int) -> None:
    """Commit number n is the record at log offset n, where nothing else is written."""
    for number in range(first, until):
        store.commit("g", {KEYS[number % 6]: number})


def state_below(end: int) -> dict[int, int]:
    return {number % 6: number for number in range(max(0, end - 6), end)}


def offsets_of(rows: list[Row]) -> dict[int, int]:
    """The position of each partition; of a history, the one that came last."""
    return {row["partition"]: row["offset"] for row in rows}


def read(splits: list[object], path: Path, **options: object) -> list[Row]:
    return [row for batch in read_splits(splits, path, **options) for row in batch.to_pylist()]


# ----------------------------------------------------------------------------------------- between planning and reading


@pytest.mark.parametrize("view", ["offsets", "history"])
def test_the_only_segment_is_rolled_and_cleaned_before_the_task_begins(tmp_path: Path, view: str) -> None:
    path = tmp_path / "data"
    with opened(path) as store:
        write(store, 0, 6)
        splits = splits_of(path, view=view)
        assert len(splits[0].segments) == 1
        write(store, 6, 1000)
        store.compact()
        rows = read(splits, path, view=view)
        assert offsets_of(rows) == state_below(1000)
        assert rows == rows_of(path, view=view)


@pytest.mark.parametrize("view", ["offsets", "history"])
def test_a_segment_that_was_only_rolled_ends_where_it_was_planned(tmp_path: Path, view: str) -> None:
    path = tmp_path / "data"
    with opened(path) as store:
        write(store, 0, 8)
        splits = splits_of(path, view=view)
        write(store, 8, 200)
        assert len(sorted(path.rglob("*.log"))) > 2
        assert offsets_of(read(splits, path, view=view)) == state_below(8)


def test_another_file_in_the_same_inode_is_not_taken_for_the_planned_one(tmp_path: Path) -> None:
    path, other = tmp_path / "data", tmp_path / "other"
    with opened(path) as store:
        write(store, 0, 8)
    splits = splits_of(path, view="offsets")
    with opened(other) as store:
        for group in range(40):
            for number in range(20):
                store.commit(f"g{group}", {KEYS[number % 6]: number})
        store.compact()
    (segment,) = path.rglob("*.log")
    cleaned = min(other.rglob("*.log")).read_bytes()
    assert len(cleaned) > segment.stat().st_size
    # As after two cleanings: the first file's inode is free for the second one's.
    with segment.open("r+b") as file:
        file.write(cleaned)
    rows = read(splits, path, view="offsets")
    assert len(rows) > 6
    assert rows == rows_of(path, view="offsets")


def test_the_history_of_a_cleaned_log_knows_the_ends_of_its_transactions(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with opened(path) as store:
        write(store, 0, 6)
        with store.transaction("late", 7) as transaction:
            transaction.commit({KEYS[0]: 77})
            splits = splits_of(path, view="history")
            write(store, 7, 300)
        write(store, 300, 500)
        store.compact()
        rows = read(splits, path, view="history")
        assert [row["outcome"] for row in rows if row["group"] == "late"] == ["committed"]
        assert rows == rows_of(path, view="history")


def test_a_moment_within_a_batch_of_a_cleaned_log(tmp_path: Path) -> None:
    """Records of the batch after the moment do not replace those missing before it."""
    path = tmp_path / "data"
    with opened(path) as store:
        for number in range(5):
            store.commit("a", {KEYS[number]: 1})
        store.commit("b", {TopicPartition("t", number): 7 for number in range(100)})
        store.commit("a", {TopicPartition("t", number): 2 for number in range(5)})
        for number in range(300):
            store.commit("x", {KEYS[0]: number})
        for moment in (5, 105):
            assert len(rows_of(path, view="offsets", at=f"offset:{moment}", group="a")) == 5
        store.compact()
        for moment in (5, 105):
            with pytest.raises(errors.HistoryError, match="cleaned"):
                rows_of(path, view="offsets", at=f"offset:{moment}", group="a")
        for moment in (20, 50, 104):
            with pytest.raises(errors.InsideCommitError):
                rows_of(path, view="offsets", at=f"offset:{moment}", group="a")


def test_a_moment_within_a_batch_of_a_whole_log(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with opened(path) as store:
        store.commit("b", {TopicPartition("t", number): 7 for number in range(50)})
        write(store, 50, 400)
        for moment in (0, 50, 51):
            assert len(rows_of(path, view="offsets", at=f"offset:{moment}", group="b")) == min(moment, 50)
        for moment in (1, 20, 49):
            with pytest.raises(errors.InsideCommitError):
                rows_of(path, view="offsets", at=f"offset:{moment}", group="b")


@pytest.mark.parametrize("at", [50, 100])
def test_outcomes_end_at_the_horizon_in_merged_segments_too(tmp_path: Path, at: int) -> None:
    """A cleaner puts small segments together: the marker lies in the same file then, after the moment."""
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    batches = [encode_batch(0, 1000, [(key_of("g", "t", 0), value_of(5, 1000))], producer_id=77, producer_epoch=0)]
    batches += [encode_batch(n, 1000, [(key_of("x", "t", 0), value_of(n, 1000))]) for n in range(1, 121)]
    batches += [marker(121, 1000, 77, 0, True)]
    batches += [encode_batch(n, 1000, [(key_of("x", "t", 0), value_of(n, 1000))]) for n in range(122, 240)]
    files = [directory / f"{first:020d}.log" for first in range(0, 240, 40)]
    for number, file in enumerate(files):
        file.write_bytes(b"".join(batches[40 * number : 40 * number + 40]))
    options = {"view": "commits", "at": f"offset:{at}"}
    splits = splits_of(tmp_path, **options)
    before = read(splits, tmp_path, **options)
    assert before[0]["outcome"] == "open"
    swap = directory / "merged"
    swap.write_bytes(b"".join(batches[:200]))
    for file in files[1:5]:
        file.unlink()
    os.replace(swap, files[0])
    assert read(splits, tmp_path, **options) == before
    assert rows_of(tmp_path, **options) == before
    assert rows_of(tmp_path, view="commits")[0]["marker_offset"] == 121


# ------------------------------------------------------------------------------------------------ while it is read


@contextmanager
def before_each_segment(
    patch: pytest.MonkeyPatch, after: int, view: str, work: Callable[[], None], *, again: bool = False
) -> Iterator[None]:
    """Does the work in front of the segment that is read as number `after`; `again`: of every one from there on."""
    calls = 0

    def count() -> None:
        nonlocal calls
        if calls == after or (again and calls > after):
            work()
        calls += 1

    if view == "history":
        scan = states.SegmentScan
        patch.setattr(states, "SegmentScan", lambda *given, **named: (count(), scan(*given, **named))[1])
    else:
        apply = states.BucketReader._replay_segment
        patch.setattr(
            states.BucketReader, "_replay_segment", lambda *given, **named: (count(), apply(*given, **named))[1]
        )
    yield
    assert calls > after


@in_this_process
@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("planned", ["before", "now"])
def test_a_past_state_of_a_log_that_is_cleaned_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, planned: str
) -> None:
    path = tmp_path / "data"
    with opened(path) as store:
        write(store, 0, 150)
        options = {"view": "offsets", "at": "offset:150" if planned == "now" else "offset:140"}

        def work() -> None:
            write(store, 150, 450)
            store.compact()

        with before_each_segment(monkeypatch, after, "offsets", work), pytest.raises(errors.HistoryError) as caught:
            rows_of(path, **options)
        assert caught.value.floor > 150


@in_this_process
@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("view", ["history", "offsets"])
def test_what_is_there_when_a_log_is_cleaned_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, view: str
) -> None:
    path = tmp_path / "data"
    with opened(path) as store:
        write(store, 0, 150)

        def work() -> None:
            write(store, 150, 450)
            store.compact()

        with before_each_segment(monkeypatch, after, view, work):
            rows = rows_of(path, view=view)
        assert offsets_of(rows) == state_below(450)


@in_this_process
@pytest.mark.parametrize("view", ["history", "offsets"])
def test_files_that_are_replaced_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, view: str) -> None:
    """Under their names, as a cleaner does: no file is missing, and yet nothing that was read is known to be whole."""
    path = tmp_path / "data"
    with opened(path) as store:
        write(store, 0, 150)
    first = min(path.rglob("*.log"))
    copy = tmp_path / "copy"

    def work() -> None:
        shutil.copy(first, copy)
        os.replace(copy, first)

    with (
        before_each_segment(monkeypatch, 1, view, work, again=True),
        pytest.raises(errors.StorageError, match="replaced during each attempt to read them"),
    ):
        rows_of(path, view=view, at="offset:150")


@pytest.mark.parametrize("view", ["offsets", "history", "past"])
def test_keys_that_move_while_a_cleaner_is_at_work(tmp_path: Path, view: str) -> None:
    path = tmp_path / "data"
    stop, rest = threading.Event(), threading.Lock()
    failures: list[BaseException] = []
    end = 300
    with opened(path) as store:
        write(store, 0, end)

        def work() -> None:
            nonlocal end
            try:
                while not stop.is_set():
                    with rest:
                        write(store, end, end + 1)
                        end += 1
                        if end % 150 == 0:
                            store.compact()
                    if end % 10 == 0:
                        stop.wait(0.002)
            except BaseException as failure:
                failures.append(failure)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for number in range(20):
                if number % 5 < 4:
                    check_a_read(path, view, end)
                    continue
                # However slow the others were: a log that nobody changes meanwhile is read whole.
                with rest:
                    assert check_a_read(path, view, end)
        finally:
            stop.set()
            thread.join()
    assert not failures


def check_a_read(path: Path, view: str, end: int) -> bool:
    """Whether a read returned something; it is checked against the log when it began."""
    try:
        if view == "past":
            assert offsets_of(rows_of(path, view="offsets", at=f"offset:{end}", minPartitions=3)) == state_below(end)
            return True
        rows = rows_of(path, view=view, minPartitions=3)
    except (errors.HistoryError, errors.StorageError):
        # A cleaner may be faster than a reader; but what it leaves is no damage.
        return False
    found = offsets_of(rows)
    assert len(found) == 6
    assert all(found[partition] >= least for partition, least in state_below(end).items())
    return True


# ------------------------------------------------------------------------------- damage that two looks seem to show


def crafted(*batches: tuple[int, list[int]], group: str = "g") -> bytes:
    """Batches of (base offset, partitions): each record is the position of one, its offset is the log offset."""
    return b"".join(
        encode_batch(
            base, 1000, [(key_of(group, "t", partition), value_of(base + n, 1000)) for n, partition in enumerate(parts)]
        )
        for base, parts in batches
    )


@pytest.mark.parametrize("view", ["offsets", "groups"])
@pytest.mark.parametrize("mode", ["failfast", "permissive"])
def test_a_segment_that_is_begun_closed_and_cleaned_between_two_looks_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, view: str, mode: str
) -> None:
    """Read while it had space and no batch, looked at again when it had one, and then cleaned away to nothing."""
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    old, begun, newest = (directory / f"{base:020d}.log" for base in (0, 3, 4))
    old.write_bytes(crafted((0, [0, 1]), (2, [2])))
    splits = splits_of(tmp_path, view=view, mode=mode)
    # Cleaned since it was planned, so that all that is there counts.
    cleaned = directory / "cleaned"
    shutil.copy(old, cleaned)
    os.replace(cleaned, old)
    begun.write_bytes(bytes(4096))
    look = states.end_of

    def write_look_and_clean(*given: Any) -> tuple[int, int]:
        with begun.open("r+b") as file:
            file.write(crafted((3, [0])))
        found = look(*given)
        newest.write_bytes(crafted((4, [0])))
        cleaned.write_bytes(b"")
        os.replace(cleaned, begun)
        monkeypatch.setattr(states, "end_of", look)
        return found

    monkeypatch.setattr(states, "end_of", write_look_and_clean)
    rows = read(splits, tmp_path, view=view, mode=mode)
    assert states.end_of is look
    assert [row for row in rows if row.get("problem")] == []
    assert rows == rows_of(tmp_path, view=view, mode=mode)
    if view == "offsets":
        assert offsets_of(rows) == {0: 4, 1: 1, 2: 2}


def test_a_segment_that_is_cleaned_after_its_end_was_found_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end lies within a batch of the file that took its place."""
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    last, newest = (directory / f"{base:020d}.log" for base in (0, 5))
    last.write_bytes(crafted((0, [0]), (1, [0])))
    splits = splits_of(tmp_path, view="history")
    look = states.end_of

    def look_and_clean(*given: Any) -> tuple[int, int]:
        found = look(*given)
        newest.write_bytes(crafted((5, [0])))
        cleaned = directory / "cleaned"
        cleaned.write_bytes(crafted((1, [0, 1, 2, 3])))
        os.replace(cleaned, last)
        monkeypatch.setattr(states, "end_of", look)
        return found

    monkeypatch.setattr(states, "end_of", look_and_clean)
    rows = read(splits, tmp_path, view="history")
    assert offsets_of(rows) == {0: 5, 1: 2, 2: 3, 3: 4}


def test_a_segment_that_is_cleaned_while_its_last_row_is_on_its_way_has_no_wrong_index(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    segment = directory / f"{0:020d}.log"
    batch = crafted((0, [0]))
    segment.write_bytes(crafted((0, [0]), (1, [0]), (2, [0])))
    options = {"view": "commits", "endingOffset": 2}
    (split,) = splits_of(tmp_path, **options)
    found = read_splits([split], tmp_path, **options)
    assert [row["log_offset"] for row in next(found).to_pylist()] == [0, 1]
    # In the file that takes its place, an earlier batch begins where the walk ended.
    cleaned = directory / "cleaned"
    wide = next(
        made for size in range(1, 2 * len(batch)) if len(made := crafted((0, [0]), group="g" * size)) == 2 * len(batch)
    )
    cleaned.write_bytes(wide + crafted((1, [0]), (2, [0])))
    os.replace(cleaned, segment)
    assert list(found) == []
