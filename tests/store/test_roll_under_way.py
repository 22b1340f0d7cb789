"""The zeros that a roll has not taken back yet, read without an open: space for a segment, and no damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig
from offsetlog.directory.reading import dump_batches, find_partitions, read_state
from offsetlog.verify import verify

SMALL = StoreConfig(segment_bytes=4096, batch_bytes_max=1024)
BY_HAND = MaintenanceConfig(enabled=False)


@pytest.fixture
def segments(path: Path) -> list[Path]:
    """Those of a log partition that was not closed."""
    with offsetlog.open(path, partitions=1, config=SMALL, maintenance=BY_HAND) as store:
        for number in range(300):
            store.commit_one(f"g{number % 7}", "t", number % 40, number)
    (path / ".kafka_cleanshutdown").unlink()
    return sorted(path.rglob("*.log"))


def extend(segment: Path, content: bytes) -> None:
    segment.write_bytes(segment.read_bytes() + content)


def read(path: Path) -> tuple[bytes, list[Any]]:
    """Returns the digest of what two readers find, and all that they call damage."""
    (files,) = find_partitions(path)
    state = read_state(files)
    reported: list[Any] = []
    batches = [batch["base_offset"] for batch, _ in dump_batches(files, reported.append)]
    assert batches == sorted(batches)
    assert [each.message for each in state.damages] == [each.message for each in reported]
    assert state.tail is None
    return state.replay.digest(), reported


@pytest.mark.parametrize("which", [0, 3, -2])
@pytest.mark.parametrize("size", [1, 61, 5000])
def test_the_space_of_a_roll_is_no_damage(path: Path, segments: list[Path], which: int, size: int):
    whole = read(path)
    assert whole[1] == []
    extend(segments[which], bytes(size))
    assert read(path) == whole
    with offsetlog.open(path, read_only=True) as store:
        assert store.problems() == []
        assert store.digest() == whole[0]
    found = verify(path)
    assert found.problems == []
    (note,) = [each for each in found.findings if each.path == str(segments[which])]
    assert note.reason == f"{size} zeros after the last batch: preallocated space of a roll that has not finished"


def test_zeros_where_batches_are_missing_are_damage(path: Path, segments: list[Path]):
    extend(segments[3], bytes(5000))
    segments[4].unlink()
    (damage,) = read(path)[1]
    assert damage.path == str(segments[3])
    assert str(segments[3]) in {each.path for each in verify(path).problems}


def test_what_is_no_zeros_is_damage(path: Path, segments: list[Path]):
    extend(segments[3], bytes(99) + b"x")
    (damage,) = read(path)[1]
    assert damage.path == str(segments[3])
    assert str(segments[3]) in {each.path for each in verify(path).problems}
