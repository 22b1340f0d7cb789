from __future__ import annotations

import pytest

from offsetlog._native.files import FileSystem
from offsetlog.directory.history_floor import FLOOR_FILE, HistoryFloor, raise_floor, read_floor


def test_nothing_was_cleaned():
    floor = HistoryFloor()
    assert floor.of(None) == floor.of("g") == 0


def test_a_pass_raises_the_floor_of_all():
    assert HistoryFloor().raised(100) == HistoryFloor(100)
    # A pass that ends lower has cleaned below the floor that was there.
    assert HistoryFloor(100).raised(50) == HistoryFloor(100)


def test_a_hold_keeps_the_floor_of_its_group():
    floor = HistoryFloor(10).raised(100, [("kept", 40), ("team-*", 30), ("team-a-*", 20)])
    assert floor.of(None) == floor.of("other") == 100
    assert floor.of("kept") == 40
    assert floor.of("team-x") == 30
    # The lowest of several holds that fit counts, so a longer prefix cannot raise one.
    assert floor.of("team-a-1") == 20
    assert floor.raised(200, [("team-a-*", 150), ("team-*", 170)]).of("team-a-1") == 150


def test_the_lowest_hold_counts_for_a_more_particular_name():
    floor = HistoryFloor().raised(100, [("team-*", 30), ("team-a", 60)])
    assert floor.of("team-a") == 30


def test_a_hold_that_comes_late_brings_nothing_back():
    floor = HistoryFloor().raised(100).raised(200, [("g", 50)])
    assert floor.of("g") == 100


def test_a_hold_that_was_lifted():
    floor = HistoryFloor().raised(100, [("g", 50)]).raised(200)
    assert floor == HistoryFloor(200)


def test_a_floor_of_its_own_below_a_lower_prefix_stays():
    floor = HistoryFloor().raised(100, [("team-a", 90)]).raised(100, [("team-a", 90), ("team-*", 10)])
    # The first pass cleaned all of "team-*" but its end was 100; the second hold came too late.
    assert floor.of("team-b") == 100
    assert floor.of("team-a") == 90
    floor = HistoryFloor().raised(100, [("team-*", 10)]).raised(100, [("team-*", 10), ("team-a", 5)])
    assert (floor.of("team-a"), floor.of("team-b")) == (10, 10)


def test_another_cleaner_keeps_no_history():
    floor = HistoryFloor().raised(100, [("g", 50)])
    assert floor.at_least(100) == floor.at_least(-1) == floor
    assert floor.at_least(101) == HistoryFloor(101, foreign=101)
    assert floor.at_least(101).raised(200) == HistoryFloor(200, foreign=101)


def test_it_is_noted_in_the_directory(tmp_path):
    fs = FileSystem()
    assert read_floor(fs, tmp_path) == HistoryFloor()
    floor = raise_floor(fs, tmp_path, -1, 100, [("g", 50), ("team-*", 60)])
    assert read_floor(fs, tmp_path) == floor == HistoryFloor(100, {"g": 50, "team-*": 60})
    assert raise_floor(fs, tmp_path, 300, 200, [("g", 50)]) == HistoryFloor(300, foreign=300)
    assert read_floor(fs, tmp_path) == HistoryFloor(300, foreign=300)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"7",
        b'{"format": 2, "end": 5, "groups": {}, "foreign": 0}',
        b'{"format": 1, "end": -1, "groups": {}, "foreign": 0}',
        b'{"format": 1, "end": 9223372036854775808, "groups": {}, "foreign": 0}',
        b'{"format": 1, "end": 5, "groups": {"g": "x"}, "foreign": 0}',
        b'{"format": 1, "end": 5, "groups": 3, "foreign": 0}',
        b'{"format": 1, "end": true, "groups": {}, "foreign": 0}',
        b'{"format": 1, "end": 5, "groups": {}, "foreign": -1}',
        b'{"format": 1, "end": 5, "groups": {}}',
    ],
)
def test_of_a_damaged_file_nothing_is_guessed(tmp_path, content):
    (tmp_path / FLOOR_FILE).write_bytes(content)
    assert read_floor(FileSystem(), tmp_path).of("g") == 2**63 - 1
