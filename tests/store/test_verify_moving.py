"""A directory that somebody writes to or cleans while it is verified: what moved is no problem, what is damaged is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from witnesses import forget_witnesses

import offsetlog
from offsetlog import opening
from offsetlog._native.replay import Replay
from offsetlog.config import StoreConfig
from offsetlog.directory import reading
from offsetlog.directory.reading import find_partitions, read_state
from offsetlog.verify import partition as partition_check
from offsetlog.verify import verify
from offsetlog.verify.partition import CHECK_TRIES

from .test_verify import SEGMENT, batches_of

#: Called with the path before the place after a bad batch is searched.
Meanwhile = Callable[[Path], None]


def while_searching(monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile) -> None:
    """Somebody else does something each time that bytes were found bad and what follows them is looked for."""

    class Watched(Replay):
        def skip(self, path: Any, position: int, **options: Any) -> int | None:
            meanwhile(Path(path))
            return super().skip(path, position, **options)

    monkeypatch.setattr(partition_check, "Replay", Watched)
    monkeypatch.setattr(reading, "Replay", Watched)


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.fixture
def unfilled(path: Path) -> tuple[Path, bytes, int]:
    """A segment with zeros from the tenth batch on; its path, the bytes that it will have, where the tenth begins."""
    with offsetlog.open(path, partitions=1, durability="process") as store:
        for number in range(30):
            store.commit_one("g", "t", number, number)
    segment = path / SEGMENT
    content = segment.read_bytes()
    for file in path.rglob("*"):
        # Files that a close left: this one is not closed.
        if file.is_file() and file != segment and file.name not in ("offsetlog.properties", "partition.metadata"):
            file.unlink()
    forget_witnesses(path)
    position = list(batches_of(content))[9][0]
    segment.write_bytes(content[:position] + bytes(len(content) - position))
    return segment, content, position


@pytest.mark.parametrize("batches", [1, 5, 21])
def test_what_is_filled_between_two_reads_is_no_problem(unfilled, path, monkeypatch, batches):
    segment, content, _ = unfilled
    ends = [position + size for position, size in batches_of(content)]
    filled = [9]

    def fill(_: Path) -> None:
        filled[0] = min(filled[0] + batches, 30)
        end = ends[filled[0] - 1]
        with segment.open("r+b") as file:
            file.write(content[:end])

    while_searching(monkeypatch, fill)
    assert verify(path).findings == []
    assert filled[0] > 9


def test_what_is_filled_is_read_as_state(unfilled, path, monkeypatch):
    segment, content, _ = unfilled
    while_searching(monkeypatch, lambda _: segment.write_bytes(content) and None)
    (files,) = find_partitions(path)
    state = read_state(files)
    assert state.damages == []
    assert state.tail is None
    assert state.replay.position_count == 30


def test_zeros_that_are_never_filled_are_a_problem(unfilled, path, monkeypatch):
    segment, content, position = unfilled
    holed = bytearray(content)
    size = list(batches_of(content))[9][1]
    holed[position : position + size] = bytes(size)
    while_searching(monkeypatch, lambda _: segment.write_bytes(holed) and None)
    found = [each for each in verify(path).problems if each.kind == "batch"]
    assert [(each.path, each.position) for each in found] == [(str(segment), position)]
    (files,) = find_partitions(path)
    assert [each.position for each in read_state(files).damages] == [position]


@pytest.fixture
def damaged(path: Path) -> list[Path]:
    """The segments of a partition, the first of which is damaged."""
    config = StoreConfig(segment_bytes=1 << 14, batch_bytes_max=1 << 13)
    with opening.open_with(path, partitions=1, durability="process", config=config, background=False) as store:
        for turn in range(1000):
            store.commit_one("g", "t", turn % 40, turn)
    segments = sorted(path.glob("*/*.log"))
    assert len(segments) > 3
    flip(segments[0], 100)
    return segments


def replace(path: Path) -> None:
    """As a cleaning does: another file of the same name."""
    other = path.with_suffix(".swap")
    shutil.copy2(path, other)
    other.replace(path)


def test_damage_is_reported_though_other_segments_are_replaced(damaged, path, monkeypatch):
    replaced = []

    def clean(_: Path) -> None:
        replace(damaged[1])
        replaced.append(damaged[1])

    while_searching(monkeypatch, clean)
    found = verify(path)
    assert len(replaced) >= CHECK_TRIES
    assert [(each.kind, each.path) for each in found.problems if each.kind == "batch"] == [("batch", str(damaged[0]))]
    assert [each for each in found.problems if each.path == str(damaged[1])] == []


def test_what_is_replaced_again_and_again_is_a_note(damaged, path, monkeypatch):
    while_searching(monkeypatch, lambda _: replace(damaged[0]))
    found = verify(path)
    (finding,) = [each for each in found.findings if each.kind == "batch"]
    assert finding.severity == "note"
    assert finding.reason.endswith("(the log was cleaned while it was read)")


def test_what_was_replaced_once_is_read_again(damaged, path, monkeypatch):
    turns = []

    def clean(_: Path) -> None:
        turns.append(1)
        if len(turns) == 1:
            flip(damaged[0], 100)
            replace(damaged[0])

    while_searching(monkeypatch, clean)
    found = verify(path)
    assert turns == [1]
    assert found.sound
    assert [each for each in found.findings if each.kind == "digest"] == []
