"""A store that is open only for a moment each time: its log grows, unless `compact` is called (docs/maintenance.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

import offsetlog

RUNS, COMMITS = 5, 4000


def run(path: Path, first: int, compacts: bool) -> int:
    """Runs a short program; returns the bytes of its log afterwards."""
    with offsetlog.open(path, partitions=1) as store:
        for offset in range(first, first + COMMITS):
            store.commit_one("billing", "orders", 0, offset, durability="process")
        if compacts:
            (report,) = store.compact(ratio=0.9)
            assert report.cleaned
            (report,) = store.compact(ratio=0.9)
            assert not report.cleaned
    return sum(file.stat().st_size for file in path.glob("*/*.log"))


@pytest.mark.parametrize("compacts", [True, False])
def test_the_log_of_short_programs(tmp_path, compacts):
    sizes = [run(tmp_path / "data", number * COMMITS, compacts) for number in range(RUNS)]
    print(sizes)
    if compacts:
        assert max(sizes) < 1000
    else:
        assert sizes[-1] > (RUNS - 1) * sizes[0] > 100_000
    with offsetlog.open(tmp_path / "data", read_only=True) as store:
        assert store.fetch_one("billing", "orders", 0).offset == RUNS * COMMITS - 1
