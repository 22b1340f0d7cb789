"""A cut that lost power in its middle: the next open ends it, and nothing of it is damage."""

from __future__ import annotations

import shutil

import pytest

import offsetlog
from offsetlog import opening
from offsetlog.verify import verify

LOG = "00000000000000000000.log"


def positions_of(data: bytes) -> list[int]:
    """Where the batches of a file begin, and the end of the last one."""
    positions = [0]
    while size := int.from_bytes(data[positions[-1] + 8 : positions[-1] + 12], "big"):
        positions.append(positions[-1] + 12 + size)
    return positions


@pytest.mark.parametrize("marked", [True, False])
def test_zeros_before_batches_are_damage_unless_a_cut_put_them_there(tmp_path, marked):
    """A cut zeroes the end of its page first; the file may have its old length still."""
    with opening.open_with(tmp_path / "live", 1, "process", background=False) as store:
        for value in range(6):
            store.commit_one("g", "t", 0, value)
        shutil.copytree(tmp_path / "live", tmp_path / "killed")
    directory = tmp_path / "killed" / "__consumer_offsets-0"
    data = bytearray((directory / LOG).read_bytes())
    positions = positions_of(data)
    assert len(positions) == 7
    data[positions[3] : positions[4]] = bytes(positions[4] - positions[3])
    (directory / LOG).write_bytes(data)
    if marked:
        (directory / "offsetlog.cut-3").touch()
    problems = verify(tmp_path / "killed").problems
    assert bool(problems) is not marked, problems
    if marked:
        with offsetlog.open(tmp_path / "killed") as store:
            assert store.fetch_one("g", "t", 0).offset == 2
            assert store.problems() == []
        assert not (directory / "offsetlog.cut-3").exists()
