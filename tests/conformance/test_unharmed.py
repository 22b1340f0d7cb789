"""Directories that real brokers wrote, opened for writing once and again: nothing is reported as lost or in doubt."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest

import offsetlog
from offsetlog import MaintenanceConfig
from offsetlog.errors import CorruptionError
from offsetlog.verify import verify

from .scenarios import SCENARIOS, Scenario


def _losses(path: Path, *, commits: bool, read_only: bool = False) -> list[CorruptionError]:
    """Opens it, commits or not, closes it; returns what the open reported of losses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damage that a broker's own directory has
        partitions = 1 + max(int(each.name.rpartition("-")[2]) for each in path.glob("__consumer_offsets-*"))
        store = offsetlog.open(path, partitions, maintenance=MaintenanceConfig(enabled=False), read_only=read_only)
    with store:
        found = [each for each in store.problems() if getattr(each, "lost_from", None) is not None]
        if commits:
            for number in range(8):
                store.commit_one(f"unharmed {number}", "t", number, number)
    return found


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_a_brokers_directory_is_accused_of_nothing(scenario: Scenario, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(scenario.log, tmp_path / "log"))
    assert _losses(copy, commits=False, read_only=True) == []
    for commits in (False, True, True):
        assert _losses(copy, commits=commits) == []
    moved = copy.rename(tmp_path / "moved")
    assert _losses(moved, commits=True) == []
    assert [each for each in verify(moved).findings if each.kind in ("missing", "in doubt")] == []
