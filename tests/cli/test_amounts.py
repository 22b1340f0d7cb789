"""Times and sizes as they are typed."""

from __future__ import annotations

import pytest

from offsetlog.cli.amounts import parse_size, parse_times
from offsetlog.errors import InvalidArgumentError
from offsetlog.moments import duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("500ms", 500),
        ("90s", 90_000),
        ("1.5h", 5_400_000),
        ("24H", 86_400_000),
        (" 7 d ", 604_800_000),
        ("2w", 1_209_600_000),
        ("15m", 900_000),
    ],
)
def test_times(text, ms):
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1 day", "1h30m", "1e3s", "∞", "0x1s"])
def test_what_is_no_time(text):
    with pytest.raises(InvalidArgumentError, match="is not a duration"):
        parse_duration(text)


def test_times_by_group():
    assert parse_times([], "times", parse_duration) == (None, {})
    assert parse_times(["g=0", "1d", "a=b=1h", "p-*=1s"], "times", parse_duration) == (
        86_400_000,
        {"g": 0, "a=b": 3_600_000, "p-*": 1000},
    )
    for twice in (["1d", "1d"], ["g=1d", "g=2d"]):
        with pytest.raises(InvalidArgumentError, match=r"two times.*; give only one"):
            parse_times(twice, "times", parse_duration)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("4096", 4096), ("500K", 512_000), ("64MiB", 64 << 20), ("1.5g", 3 << 29), ("1 TB", 1 << 40)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "-1", "1.", "1X", "1KM", "many"])
def test_what_is_no_size(text):
    with pytest.raises(InvalidArgumentError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize("ms", [0, 1, 999, 1000, 61_000, 90_000, 3_600_000, 86_400_000, 604_800_000, 604_800_001])
def test_a_time_is_printed_as_it_is_read(ms):
    assert parse_duration(duration_text(ms)) == ms


def test_a_printed_time_is_short():
    assert [duration_text(ms) for ms in (0, 90_000, 86_400_000, 14 * 86_400_000)] == ["0ms", "90s", "1d", "2w"]
