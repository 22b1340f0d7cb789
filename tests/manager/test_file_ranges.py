"""A piece of a file that a cleaner has replaced is never sent for another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from offsetlog.types import FileRange

from .replicas import KEYS, start


@pytest.fixture
def manager(tmp_path):
    manager = start(tmp_path / "data", replication_factor=1)
    manager.become_leader(0, 1).result(10)
    for number in range(200):
        manager.commit("g", {KEYS[number % 3]: number})
    yield manager
    manager.stop()


def range_of(manager, offset) -> FileRange:
    found = manager.file_range(0, offset, 1 << 10)
    assert found.size > 0
    return found


def test_what_is_open_holds_the_piece_after_its_file_is_replaced(manager):
    found = range_of(manager, 7)
    buffer = bytearray(1 << 16)
    manager.read_into(0, 7, buffer)
    with found.open(7) as file:
        Path(found.path).unlink()
        assert os.pread(file.fileno(), found.size, found.position) == buffer[: found.size]


@pytest.mark.parametrize("change", ["gone", "shorter", "other offsets", "moved"])
def test_a_file_that_was_replaced_is_not_opened(manager, change):
    found = range_of(manager, 50)
    path = Path(found.path)
    data = path.read_bytes()
    path.unlink()
    if change == "shorter":
        path.write_bytes(data[: found.position + found.size - 1])
    elif change == "other offsets":
        # A cleaner took a batch of the same size from before it.
        before = range_of_bytes(data, found.position)
        path.write_bytes(data[:before] + data[found.position :])
    elif change == "moved":
        path.write_bytes(b"\0" * 8 + data)
    assert found.open(50) is None


def range_of_bytes(data: bytes, position: int) -> int:
    """The position of the batch before the one at a position."""
    at = before = 0
    while at < position:
        before = at
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    assert at == position
    return before


def test_an_offset_that_is_not_in_the_batch_is_not_there(manager):
    found = range_of(manager, 50)
    assert found.open(49) is None
    assert FileRange("", 0, 0).open(0) is None
