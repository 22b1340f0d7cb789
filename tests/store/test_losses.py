"""Losses that are reported to those who read a directory without a store."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig
from offsetlog.directory.log_directory import PROPERTIES
from offsetlog.errors import CorruptionError, DataLossError, PossibleLossError
from offsetlog.lifecycle.losses import is_being_written, losses_at_open

SMALL = StoreConfig(segment_bytes=8192, batch_bytes_max=2048, segment_index_bytes=4096)


@pytest.fixture
def built(path: Path) -> Path:
    """Two log partitions of several segments each."""
    with offsetlog.open(path, partitions=2, config=SMALL, maintenance=MaintenanceConfig(enabled=False)) as store:
        for i in range(300):
            store.commit_one(f"g{i % 5}", "t", i % 61, i)
    return path


def segments(path: Path, number: int) -> list[Path]:
    return sorted((path / f"__consumer_offsets-{number}").glob("*.log"))


def test_a_whole_directory_lacks_nothing(built: Path):
    assert losses_at_open(built) == []


def test_a_missing_segment_and_a_missing_directory(built: Path):
    lost = segments(built, 0)[1]
    lost.unlink()
    shutil.rmtree(built / "__consumer_offsets-1")
    found = losses_at_open(built)
    assert all(isinstance(each, DataLossError) for each in found)
    assert [(each.log_partition, each.lost_from) for each in found] == [(1, 0), (0, int(lost.stem))]


def test_a_log_that_ends_within_a_batch(built: Path):
    active = segments(built, 0)[-1]
    active.write_bytes(active.read_bytes()[:-3])
    [found] = losses_at_open(built)
    assert isinstance(found, CorruptionError)
    assert found.path == str(active.absolute())


def test_a_missing_manifest_is_a_doubt(built: Path):
    (built / "__consumer_offsets-0" / "offsetlog.manifest").unlink()
    [found] = losses_at_open(built)
    assert isinstance(found, PossibleLossError)


def test_damaged_properties_hide_no_loss(built: Path):
    segments(built, 0)[1].unlink()
    (built / PROPERTIES).write_text("?")
    found = losses_at_open(built)
    assert [type(each) for each in found] == [CorruptionError, DataLossError]


def test_nothing_is_said_beside_a_writer(built: Path):
    assert not is_being_written(built)
    with offsetlog.open(built, config=SMALL):
        assert is_being_written(built)
        (built / "__consumer_offsets-0" / "offsetlog.manifest").unlink()
        assert losses_at_open(built) == []
    assert not is_being_written(built)


def test_a_lock_of_a_broker_counts(built: Path):
    # It takes a lock of its process, ours are of the open file: either meets the other.
    with (built / ".lock").open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert is_being_written(built)


def test_a_directory_without_a_lock_is_not_being_written(tmp_path: Path):
    assert not is_being_written(tmp_path)
    assert losses_at_open(tmp_path) == []
