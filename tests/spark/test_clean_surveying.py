"""The task of compact-report by itself: beside a cleaner, and where a witness is missing."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, errors
from offsetlog._native.decompress import Decompressor
from offsetlog._native.partition import Partition
from offsetlog.directory.log_directory import MANIFEST
from offsetlog.directory.surveying import whole_survey
from offsetlog.spark.jobs.tasks.clean_surveying import CleanSurveying
from offsetlog.spark.scan.files import Files

from .test_source_damage import Handler

BY_HAND = MaintenanceConfig(enabled=False)
FLUSHED = "offsetlog.flushed"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with offsetlog.open(tmp_path, 1, "process", config=StoreConfig(segment_bytes=4096), maintenance=BY_HAND) as store:
        for number in range(300):
            store.commit_one(f"g{number % 3}", "t", number % 20, number)
    return tmp_path


def partition_of(log: Path) -> Path:
    return log / "__consumer_offsets-0"


def surveyed(log: Path, arrow: Any = None, *, permissive: bool = False) -> list[tuple[Any, ...]]:
    return CleanSurveying(arrow, True, time.time_ns() // 1_000_000, permissive)(0, str(partition_of(log)))


class Swapping(Handler):
    """Has a log cleaned as one of its segments is opened for the n-th time."""

    def __init__(self, log: Path, turn: int) -> None:
        super().__init__()
        self.log, self.turn = log, turn
        self.second = sorted(partition_of(log).glob("*.log"))[1]

    def open_input_file(self, path: str) -> Any:
        if path == str(self.second):
            self.turn -= 1
            if self.turn == 0:
                self.swap()
        return super().open_input_file(path)

    def swap(self) -> None:
        with offsetlog.open(self.log, maintenance=BY_HAND) as store:
            store.compact()


@pytest.mark.parametrize("permissive", [False, True])
@pytest.mark.parametrize("turn", [1, 4, 5, 6])
def test_a_log_that_is_cleaned_while_it_is_surveyed_is_not_damaged(log: Path, turn: int, permissive: bool) -> None:
    before = surveyed(log)
    files = Swapping(log, turn)
    found = surveyed(log, pyarrow.fs.PyFileSystem(files), permissive=permissive)
    assert found in (before, surveyed(log))


def test_what_changed_between_the_passes_is_no_damage(log: Path) -> None:
    failures = []
    for turn in range(1, 9):
        copy = log.with_name(f"{log.name}-{turn}")
        shutil.copytree(log, copy)
        files = Files(pyarrow.fs.PyFileSystem(Swapping(copy, turn)))
        partition = Partition(str(partition_of(copy)), 0, files.native, Decompressor(), StoreConfig(), writable=False)
        try:
            partition.load()
            whole_survey(partition, 1 << 20, now_ms=1, closes_active=True)
        except errors.OffsetLogError as failure:
            failures.append(failure)
        finally:
            partition.abandon()
    assert {type(failure) for failure in failures} == {errors.ChangedFileError}
    assert all("replaced or truncated" in str(failure) for failure in failures)


def test_damage_is_reported_beside_a_writer(log: Path) -> None:
    damaged = sorted(partition_of(log).glob("*.log"))[2]
    content = bytearray(damaged.read_bytes())
    content[100] ^= 0x55
    damaged.write_bytes(content)
    with pytest.raises(errors.CorruptionError) as caught:
        surveyed(log)
    assert caught.value.path == str(damaged)
    assert surveyed(log, permissive=True)


def test_a_bad_batch_that_whole_ones_follow_is_damage(log: Path, tmp_path: Path) -> None:
    """A directory without witnesses, as a copy of one partition is: a load takes all from there on for a torn tail."""
    copy = tmp_path / "copy" / partition_of(log).name
    copy.mkdir(parents=True)
    newest = max(partition_of(log).glob("*.log"), key=lambda each: (each.stat().st_size > 0, each.name))
    content = bytearray(newest.read_bytes())
    (copy / newest.name).write_bytes(content)
    assert surveyed(copy.parent)
    content[100] ^= 0x55
    (copy / newest.name).write_bytes(content)
    with pytest.raises(errors.CorruptionError, match="intact batches follow") as caught:
        surveyed(copy.parent)
    assert caught.value.path == str(copy / newest.name)
    assert caught.value.position == 0
    (copy / newest.name).write_bytes(content[: len(newest.read_bytes()) // 2])
    surveyed(copy.parent, permissive=True)


@pytest.mark.parametrize("names", [[FLUSHED], [MANIFEST], [FLUSHED, MANIFEST]], ids=str)
def test_a_missing_witness_is_no_damage(log: Path, names: list[str]) -> None:
    whole = surveyed(log)
    for name in names:
        (partition_of(log) / name).unlink()
    assert surveyed(log) == whole


def test_a_loss_that_a_witness_shows_is_damage(log: Path) -> None:
    sorted(partition_of(log).glob("*.log"))[1].unlink()
    with pytest.raises(errors.DataLossError):
        surveyed(log)
