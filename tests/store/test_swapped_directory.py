"""Directories whose segments are swapped, by a running cleaner or until a crash ended it, read without an open."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from witnesses import forget_witnesses

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, errors
from offsetlog.directory import reading, segments
from offsetlog.directory.reading import PartitionFiles, dump_batches, find_partitions, read_state
from offsetlog.directory.segments import base_offset_of, segments_of
from offsetlog.verify import verify

SMALL = StoreConfig(segment_bytes=4096, batch_bytes_max=1024)
BY_HAND = MaintenanceConfig(enabled=False)
SUFFIXES = (".log", ".index", ".timeindex")


@pytest.fixture
def log(path: Path) -> Path:
    with offsetlog.open(path, partitions=1, durability="process", config=SMALL, maintenance=BY_HAND) as store:
        for number in range(300):
            store.commit_one(f"g{number % 7}", "t", number % 40, number)
    (path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    forget_witnesses(path)
    assert len(list(path.rglob("*.log"))) > 5
    return path


def partition_of(path: Path) -> Path:
    return path / "__consumer_offsets-0"


def place_of(batch: dict[str, Any], records: list[Any]) -> tuple[int, int, int]:
    return batch["base_offset"], batch["last_offset"], len(records)


def dumped_with(files: PartitionFiles, damages: list[Any]) -> list[tuple[int, int, int]]:
    return [place_of(*each) for each in dump_batches(files, damages.append)]


def dumped(path: Path) -> list[tuple[int, int, int]]:
    (files,), damages = find_partitions(path), []
    found = dumped_with(files, damages)
    assert damages == []
    return found


def answers(path: Path) -> dict[str, Any]:
    """Returns the answers about a directory, without the places of its bytes."""
    (files,) = find_partitions(path)
    state = read_state(files)
    assert state.tail is None
    assert state.damages == state.refused == []
    found = verify(path)
    assert found.problems == []
    return {"digest": state.replay.digest(), "batches": dumped(path), "verified": found.digest}


def begin_swap(path: Path, count: int) -> list[str]:
    """Puts the file beside `count` segments that is to take their place; returns their names."""
    directory = partition_of(path)
    old = [file.stem for file in sorted(directory.glob("*.log"))[:count]]
    swapped = b"".join((directory / f"{name}.log").read_bytes() for name in old)
    (directory / f"{old[0]}.log.swap").write_bytes(swapped)
    for suffix in SUFFIXES[1:]:
        (directory / f"{old[0]}{suffix}.swap").write_bytes(b"")
    return old


def end_swap(path: Path, count: int) -> None:
    """Swaps `count` segments for one."""
    for name in begin_swap(path, count):
        for suffix in SUFFIXES:
            (partition_of(path) / f"{name}{suffix}").unlink(missing_ok=True)
    for file in partition_of(path).glob("*.swap"):
        file.rename(file.with_suffix(""))


@pytest.mark.parametrize("left", [3, 2, 1, 0])
def test_a_swap_that_a_crash_ended_is_read_as_finished(log: Path, tmp_path: Path, left: int):
    whole = answers(log)
    copy = Path(shutil.copytree(log, tmp_path / "copy"))
    for name in begin_swap(copy, 3)[left:]:
        for suffix in SUFFIXES:
            (partition_of(copy) / f"{name}{suffix}").unlink(missing_ok=True)
    assert segments_of(partition_of(copy))[0].name.endswith(".log.swap")
    assert answers(copy) == whole
    with offsetlog.open(copy, read_only=True) as store:
        assert store.digest() == whole["digest"]
        assert store.verify() == []


def test_an_index_that_a_swap_takes_away_is_not_judged(log: Path):
    """The transaction index of the old segment names a marker that the new one no longer has."""
    first = begin_swap(log, 2)[0]
    entry = struct.pack(">hqqqq", 0, 7, 0, 10**6, 10**6)
    (partition_of(log) / f"{first}.txnindex").write_bytes(entry)
    assert verify(log).problems == []


def test_a_swap_that_was_not_complete_is_read_as_undone(log: Path, tmp_path: Path):
    copy = Path(shutil.copytree(log, tmp_path / "copy"))
    first, second = sorted(partition_of(copy).glob("*.log"))[:2]
    second.with_name(second.name + ".swap").write_bytes(first.read_bytes())
    first.with_name(f"{first.stem}.timeindex.cleaned").write_bytes(b"")
    assert [each.suffix for each in segments_of(partition_of(copy))] == [".log"] * len(list(copy.rglob("*.log")))
    assert dumped(copy) == dumped(log)


def test_a_listing_waits_for_a_swap_that_goes_on(log: Path, monkeypatch: pytest.MonkeyPatch):
    whole = segments_of(partition_of(log))
    first = whole[0]
    first.rename(first.with_name(first.name + ".swap"))
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            first.with_name(first.name + ".swap").rename(first)

    monkeypatch.setattr(segments.time, "sleep", sleep)
    assert segments_of(partition_of(log)) == whole
    assert len(slept) < segments.SWAP_LISTINGS


def test_one_listing_is_not_believed(log: Path, monkeypatch: pytest.MonkeyPatch):
    """A large directory is read in pieces: a name that moves meanwhile may be in none of them."""
    whole, listed = segments_of(partition_of(log)), []

    class Missing(segments.FileSystem):
        def list(self, path: Any) -> Any:
            listed.append(path)
            return super().list(path)[1 if len(listed) == 1 else 0 :]

    monkeypatch.setattr(segments, "FileSystem", Missing)
    monkeypatch.setattr(segments.time, "sleep", lambda seconds: None)
    assert segments_of(partition_of(log)) == whole


def test_a_plan_is_not_believed_that_was_made_while_a_swap_ended(log: Path, monkeypatch: pytest.MonkeyPatch):
    """The plan lists the directory once more: the name that moves may be in neither place of that listing."""
    first = begin_swap(log, 1)[0]
    swap = partition_of(log) / f"{first}.log.swap"

    class Missing(segments.FileSystem):
        def planned_names(self, path: Any) -> Any:
            planned = super().planned_names(path)
            swap.rename(swap.with_suffix(""))
            return [(name, now) for name, now in planned if not name.startswith(first)]

    expected = segments_of(partition_of(log))[1:]
    monkeypatch.setattr(segments, "FileSystem", Missing)
    monkeypatch.setattr(segments.time, "sleep", lambda seconds: None)
    assert segments_of(partition_of(log)) == (swap.with_suffix(""), *expected)


def test_a_directory_that_never_rests_is_an_error(log: Path, monkeypatch: pytest.MonkeyPatch):
    class Growing(segments.FileSystem):
        listed = 0

        def list(self, path: Any) -> Any:
            Growing.listed += 1
            return [*super().list(path), f"{10**6 + Growing.listed:020}.log"]

    monkeypatch.setattr(segments, "FileSystem", Growing)
    monkeypatch.setattr(segments.time, "sleep", lambda seconds: None)
    with pytest.raises(errors.StorageError, match="replaced faster"):
        segments_of(partition_of(log))


def test_swaps_that_never_rest_are_an_error(log: Path, monkeypatch: pytest.MonkeyPatch):
    begin_swap(log, 2)

    class Moving(segments.FileSystem):
        def planned_names(self, path: Any) -> Any:
            raise errors.MissingFileError("it has its name", path=path)

    monkeypatch.setattr(segments, "FileSystem", Moving)
    monkeypatch.setattr(segments.time, "sleep", lambda seconds: None)
    with pytest.raises(errors.StorageError, match="replaced faster"):
        segments_of(partition_of(log))


def test_a_dump_goes_on_in_the_file_that_took_the_place(log: Path):
    """Everything that stays is shown, and nothing twice, when a cleaner swaps what was listed but not read yet."""
    (files,) = find_partitions(log)
    batches = dump_batches(files, lambda damage: pytest.fail(str(damage)))
    expected = dumped(log)
    found = [next(batches)]
    end_swap(log, 4)
    found += batches
    assert [place_of(*each) for each in found] == expected


def test_a_dump_finds_its_place_by_names_and_not_by_damaged_offsets(log: Path):
    """A base offset that damage made greater must not hide what follows, when segments go meanwhile."""
    (files,) = find_partitions(log)
    first = files.segments[0]
    data = bytearray(first.read_bytes())
    size = 12 + int.from_bytes(data[8:12])
    data[size : size + 8] = (10**6).to_bytes(8)
    first.write_bytes(data)
    expected = [each for each in dumped_with(files, []) if each[0] < 10**6]
    batches = dump_batches(files, lambda damage: None)
    found = [next(batches)]
    end_swap(log, 4)
    found += batches
    # The damaged batch may be shown twice: nothing says where it belongs.
    assert [place_of(*each) for each in found if each[0]["base_offset"] < 10**6] == expected


def test_a_dump_repeats_nothing_when_what_it_listed_again_goes_as_well(log: Path, monkeypatch: pytest.MonkeyPatch):
    (files,) = find_partitions(log)
    expected = dumped(log)
    batches = dump_batches(files, lambda damage: pytest.fail(str(damage)))
    found = [next(batches)]
    end_swap(log, 4)
    listed: list[Path] = []

    def listing(directory: Path) -> tuple[Path, ...]:
        first, *others = segments_of(directory)
        listed.append(first)
        # Another cleaning takes the first one away between the listing and the open.
        return (first.with_name(first.name + ".swap") if len(listed) == 1 else first, *others)

    monkeypatch.setattr(reading, "segments_of", listing)
    found += batches
    assert len(listed) == 2
    assert [place_of(*each) for each in found] == expected


def test_a_dump_gives_up_where_segments_go_faster_than_they_are_read(log: Path, monkeypatch: pytest.MonkeyPatch):
    (files,) = find_partitions(log)
    batches = dump_batches(files, lambda damage: None)
    next(batches)
    monkeypatch.setattr(reading, "segments_of", lambda directory: files.segments)
    for segment in files.segments[1:]:
        segment.unlink()
    with pytest.raises(errors.MissingFileError):
        list(batches)


def test_the_names_of_segments():
    name = "00000000000000000042"
    assert base_offset_of(Path(f"/log/{name}.log")) == base_offset_of(Path(f"/log/{name}.log.swap")) == 42
    for other in (f"{name}.log.deleted", f"{name}.index", f"{name}.log.swap.swap", "42.log", f"{name}0.log"):
        assert base_offset_of(Path(other)) is None


def test_a_file_system_plans_what_an_open_would_find(log: Path):
    fs = segments.FileSystem()
    directory = partition_of(log)
    plain = fs.planned_names(directory)
    assert plain == [(name, name) for name in fs.list(directory)]
    first, second, *_ = begin_swap(log, 2)
    planned = dict(fs.planned_names(directory))
    assert planned[f"{first}.log"] == f"{first}.log.swap"
    assert f"{second}.log" not in planned
    with pytest.raises(errors.MissingFileError):
        fs.planned_names(directory / "missing")
