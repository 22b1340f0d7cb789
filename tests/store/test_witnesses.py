"""Files beside the partitions of a log directory that are lost, damaged or written by another program."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from faults import FaultFileSystem

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig
from offsetlog._native.codec import partition_for
from offsetlog._native.files import FileSystem, format_offset_checkpoint, parse_offset_checkpoint
from offsetlog.directory import checkpoint_record
from offsetlog.directory.log_directory import (
    CLEANER_POINTS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    MANIFEST,
    PROPERTIES,
    RECOVERY_POINTS,
    TOPIC,
    LogDirectory,
)
from offsetlog.directory.witnesses import Witnesses
from offsetlog.errors import (
    CorruptionError,
    DataLossError,
    OffsetLogError,
    PossibleLossError,
    ReadOnlyError,
    StorageError,
)
from offsetlog.verify import verify
from offsetlog.verify.findings import Finding, Place
from offsetlog.verify.side_files import Segment, check_manifest

SMALL = StoreConfig(segment_bytes=8192, batch_bytes_max=2048, segment_index_bytes=4096)
BY_HAND = MaintenanceConfig(enabled=False)
GROUPS = [f"g{i}" for i in range(5)]


def opened(path: Path, *, quiet: bool = True, **options: object) -> offsetlog.OffsetStore:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "error")
        return offsetlog.open(path, config=SMALL, maintenance=BY_HAND, **options)  # type: ignore[arg-type]


@pytest.fixture
def built(path: Path) -> Path:
    """Two log partitions of several segments each."""
    with opened(path, partitions=2) as store:
        for i in range(600):
            store.commit_one(GROUPS[i % 5], "t", i % 61, i)
    return path


def segments(path: Path, number: int) -> list[Path]:
    return sorted((path / f"{TOPIC}-{number}").glob("*.log"))


def remove_segment(log: Path) -> None:
    for file in log.parent.glob(f"{log.stem}.*"):
        if file.suffix != ".snapshot":
            file.unlink()


def write(path: Path, name: str, entries: dict[tuple[str, int], int]) -> None:
    (path / name).write_bytes(format_offset_checkpoint(entries))


def let_broker_work(path: Path) -> None:
    """Another program led the partitions, and had other logs there."""
    ends = parse_offset_checkpoint((path / RECOVERY_POINTS).read_bytes())
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        write(path, name, {**ends, ("another", 0): 5})


def let_broker_clean(path: Path, number: int) -> None:
    """Its cleaner joined the second and third segment of a partition to the first one."""
    let_broker_work(path)
    logs, points = segments(path, number), path / CLEANER_POINTS
    before = parse_offset_checkpoint(points.read_bytes()) if points.exists() else {}
    write(path, CLEANER_POINTS, {**before, (TOPIC, number): int(logs[3].stem)})
    for log in logs[1:3]:
        remove_segment(log)


def problems(path: Path, **options: object) -> list[OffsetLogError]:
    with opened(path, **options) as store:
        return store.problems()


def losses(path: Path, **options: object) -> list[tuple[int | None, int | None]]:
    found = problems(path, **options)
    assert all(isinstance(each, DataLossError) or each.path == str(path / PROPERTIES) for each in found), found
    return [(each.log_partition, each.lost_from) for each in found if isinstance(each, DataLossError)]


# ----------------------------------------------------------------------------------------- another program worked here


@pytest.mark.parametrize("keys", [300, 40])
def test_a_proven_loss_stays_proven_after_another_program_worked(path: Path, keys: int):
    # Our own cleaner's checkpoint is above the loss: it must not be taken for the other program's the next time.
    with opened(path, partitions=1) as store:
        for i in range(300):
            store.commit_one(f"g{i % 50}", "t", i % keys, i)
        dropped = sum(report.superseded for report in store.compact())
        for i in range(100):
            store.commit_one("g0", "t", i % keys, i)
    assert (dropped > 0) == (keys == 40)
    let_broker_work(path)
    lost = segments(path, 0)[0 if dropped else 1]
    cleaned = parse_offset_checkpoint((path / CLEANER_POINTS).read_bytes())[TOPIC, 0]
    assert cleaned > int(lost.stem)
    remove_segment(lost)
    for _ in range(3):
        assert losses(path) == [(0, int(lost.stem))]


def test_our_own_cleaning_frees_nothing_where_another_program_cleaned_another_partition(built: Path):
    with opened(built) as store:
        store.compact()
        for i in range(600):
            store.commit_one(GROUPS[i % 5], "t", i % 61, i)
    let_broker_clean(built, 1)
    points = parse_offset_checkpoint((built / CLEANER_POINTS).read_bytes())
    write(built, CLEANER_POINTS, {**points, (TOPIC, 1): int(segments(built, 1)[-1].stem)})
    lost = segments(built, 0)[0]
    assert parse_offset_checkpoint((built / CLEANER_POINTS).read_bytes())[TOPIC, 0] > int(lost.stem)
    remove_segment(lost)
    for _ in range(2):
        assert losses(built) == [(0, int(lost.stem))]


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"?")], ids=["gone", "damaged"])
def test_a_record_that_is_lost_accuses_no_program_that_led_an_older_epoch(built: Path, damage):
    for _ in range(3):
        with opened(built) as store:
            store.commit_one("g0", "t", 0, 1)
            store.commit_one("g1", "t", 0, 1)
    let_broker_clean(built, 1)
    for number in range(2):
        (built / f"{TOPIC}-{number}" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    damage(built / checkpoint_record.NAME)
    assert [each for each in problems(built) if isinstance(each, DataLossError)] == []
    assert [each for each in problems(built) if isinstance(each, DataLossError)] == []


def test_a_loss_that_is_accepted_accuses_no_other_partition(built: Path):
    let_broker_clean(built, 1)
    lost = segments(built, 0)[1]
    remove_segment(lost)
    assert losses(built, read_only=True) == [(0, int(lost.stem))]
    assert len(offsetlog.accept_loss(built, SMALL).losses) == 1
    for _ in range(2):
        assert problems(built) == []
    assert verify(built).problems == []


def test_a_partition_that_was_away_is_not_accused_when_it_is_back(built: Path, tmp_path: Path):
    let_broker_clean(built, 1)
    away = shutil.move(built / f"{TOPIC}-1", tmp_path / "away")
    for _ in range(2):
        assert losses(built) == [(1, 0)]
    shutil.move(away, built / f"{TOPIC}-1")
    for _ in range(2):
        assert problems(built) == []


def test_what_a_partition_lost_while_it_was_away_is_reported(built: Path, tmp_path: Path):
    let_broker_clean(built, 1)
    away = Path(shutil.move(built / f"{TOPIC}-1", tmp_path / "away"))
    assert losses(built) == [(1, 0)]
    lost = sorted(away.glob("*.log"))[-2]
    remove_segment(lost)
    shutil.move(away, built / f"{TOPIC}-1")
    for _ in range(2):
        assert losses(built) == [(1, int(lost.stem))]


# ---------------------------------------------------------------------------------------------- witnesses that are gone


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"?")], ids=["gone", "damaged"])
def test_a_log_start_without_a_record_is_not_followed(built: Path, damage):
    with opened(built, read_only=True) as store:
        before = store.digest()
    damage(built / checkpoint_record.NAME)
    write(built, LOG_STARTS, {(TOPIC, 0): int(segments(built, 0)[-1].stem)})
    assert [each.kind for each in verify(built).problems] == ["checkpoint"]
    for options in ({"read_only": True}, {}):
        with opened(built, **options) as store:
            record, log_start = store.problems()
            assert type(record) is CorruptionError
            assert record.path == str(built / checkpoint_record.NAME)
            assert type(log_start) is PossibleLossError
            assert log_start.log_partition == 0
            assert store.digest() == before
    assert problems(built) == []


def drop(properties: Path) -> None:
    properties.unlink()


def cut(properties: Path) -> None:
    lines = properties.read_bytes().splitlines(keepends=True)
    properties.write_bytes(b"".join(line for line in lines if not line.startswith((b"existing=", b"check="))))


@pytest.mark.parametrize("damage", [drop, cut])
def test_a_directory_that_is_gone_together_with_the_list_of_them(built: Path, damage):
    end = parse_offset_checkpoint((built / RECOVERY_POINTS).read_bytes())[TOPIC, 1]
    damage(built / PROPERTIES)
    shutil.rmtree(built / f"{TOPIC}-1")
    for options in ({"read_only": True}, {}, {}):
        with opened(built, partitions=2, **options) as store:
            loss, *others = store.problems()
            assert {each.path for each in others} <= {str(built / PROPERTIES)}
            assert isinstance(loss, DataLossError)
            assert (loss.log_partition, loss.lost_from, loss.lost_below) == (1, 0, end)
            (missing,) = store.health().partitions
            assert (missing.log_partition, missing.state) == (1, "missing")
            if options:
                continue
            group = next(each for each in GROUPS if partition_for(each.encode(), 2) == 1)
            with pytest.raises(ReadOnlyError):
                store.commit_one(group, "t", 0, 1)
    offsetlog.accept_loss(built, SMALL)
    with opened(built, quiet=False) as store:
        for group in GROUPS:
            store.commit_one(group, "t", 0, 1)
        assert store.problems() == []


def test_directories_without_the_list_of_them_are_no_loss(built: Path):
    drop(built / PROPERTIES)
    assert losses(built, partitions=2) == []
    assert problems(built, partitions=2) == []


def test_another_programs_directory_is_not_accused_by_its_recovery_points(built: Path):
    # It may have been stopped between the removal of a partition and the next checkpoint.
    for file in (built / PROPERTIES, built / checkpoint_record.NAME, *built.glob("*/offsetlog.*")):
        file.unlink()
    shutil.rmtree(built / f"{TOPIC}-1")
    for _ in range(2):
        assert problems(built, partitions=2) == []


def test_a_checkpoint_that_is_gone_is_reported(built: Path):
    write(built, CLEANER_POINTS, {(TOPIC, 0): 0})
    assert problems(built) == []
    (built / CLEANER_POINTS).unlink()
    (found,) = verify(built).problems
    assert (found.kind, found.path) == ("checkpoint", str(built / CLEANER_POINTS))
    assert [each.path for each in problems(built)] == [str(built / CLEANER_POINTS)]


def test_a_damaged_checkpoint_is_kept_before_it_is_written_again(built: Path):
    ends = parse_offset_checkpoint((built / RECOVERY_POINTS).read_bytes())
    for copy, damaged in (
        (f"{RECOVERY_POINTS}.damaged", b"0\n3\nanother 0 5\n__consumer_offsets 0 2"),
        (f"{RECOVERY_POINTS}.damaged.1", b"0\n1\n"),
    ):
        (built / RECOVERY_POINTS).write_bytes(damaged)
        assert [each.path for each in problems(built)] == [str(built / RECOVERY_POINTS)]
        assert (built / copy).read_bytes() == damaged
        assert parse_offset_checkpoint((built / RECOVERY_POINTS).read_bytes()) == ends
        assert problems(built) == []


@pytest.mark.parametrize("end", ["existing", "existing=", "existing=0", "existing=0-", "existing=0-1", ""])
def test_properties_that_lost_their_end_hide_no_missing_directory(built: Path, end: str):
    text = (built / PROPERTIES).read_text()
    (built / PROPERTIES).write_text(text[: text.index("existing=")] + end)
    shutil.rmtree(built / f"{TOPIC}-1")
    assert losses(built) == [(1, 0)]


@pytest.mark.parametrize("damage", [drop, cut])
def test_the_list_of_partitions_has_a_second_copy_before_the_first_checkpoint(path: Path, damage):
    """A store that is killed before its first checkpoint has no recovery points that would know a partition."""
    code = """
import os, signal, sys
import offsetlog
store = offsetlog.open(sys.argv[1], partitions=3)
for number in range(20):
    store.commit_one(f"g{number}", "t", 0, number)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert not (path / RECOVERY_POINTS).exists()
    damage(path / PROPERTIES)
    shutil.rmtree(path / f"{TOPIC}-1")
    for options in ({"read_only": True}, {}, {}):
        assert losses(path, partitions=3, **options) == [(1, 0)]
    accepted = offsetlog.accept_loss(path)
    assert [each.log_partition for each in accepted.losses] == [1]
    # The second copy forgot it as well.
    damage(path / PROPERTIES)
    assert losses(path, partitions=3) == []


def test_a_record_that_could_not_be_written_is_not_taken_for_written(built: Path):
    fs = FaultFileSystem(built)
    directory = LogDirectory(built, fs)
    properties = directory.read_properties()
    assert properties is not None
    assert properties.existing is not None
    directory.adopt_checkpoints({}, properties.existing)
    failed = 0
    for operation in range(1, 100):
        fs.fail_at(fs.operations + operation, errno.EIO)
        try:
            directory.write_checkpoint(CLEANER_POINTS, {0: operation})
        except StorageError:
            failed += 1
        else:
            break
        # Another checkpoint, whose record must not lack what failed, nor have it without its file.
        directory.write_checkpoint(RECOVERY_POINTS, {0: 1000 + operation})
        found = Witnesses(LogDirectory(built, FileSystem()), properties.existing)
        assert found.findings == []
        assert (found.of(0).changed_checkpoints, found.of(0).cleaned_by_others) == (0, -1), operation
    assert failed >= 6


def test_a_partition_that_is_added_takes_none_from_the_list(built: Path):
    """The properties have no list: they were cut, and a full disk kept the next ones from being written."""
    cut(built / PROPERTIES)
    directory = LogDirectory(built, FileSystem())
    directory.adopt_checkpoints({}, frozenset(range(4)))
    directory.add_existing(5)
    record, properties = directory.read_record(), directory.read_properties()
    assert record is not None
    assert properties is not None
    assert record.existing == properties.existing == {0, 1, 2, 3, 5}


HOSTILE_OTHERS = ["others", "others 1", "others 1 x", "others 1 2 3"]
HOSTILE_EXISTING = [
    *("existing", "existing 1 2", "existing 1-x", "existing -1", "existing 0-200000", "existing 3,1", "existing 0-9,9")
]
HOSTILE_TOPIC = ["topic", "topic 4", "topic 0 -", "topic 200000 -", "topic x -", "topic 4 short", "topic 4 - 4"]


@pytest.mark.parametrize("line", HOSTILE_OTHERS + HOSTILE_EXISTING + HOSTILE_TOPIC)
def test_a_hostile_record(built: Path, line: str):
    text = f"offsetlog checkpoints 1\n{line}\n".encode()
    (built / checkpoint_record.NAME).write_bytes(text + f"check {checkpoint_record.hash_of(text)}\n".encode())
    (found,) = problems(built)
    assert type(found) is CorruptionError
    assert line in found.message


# ---------------------------------------------------------------------------------------------- beside a running store


@pytest.mark.parametrize("is_cleaned", [False, True])
@pytest.mark.parametrize("damage", [Path.unlink, lambda log: log.write_bytes(log.read_bytes()[:-1])])
def test_a_segment_that_is_another_one_when_its_checksum_is_computed(built: Path, damage, is_cleaned):
    """Verify reads a segment, and then its manifest's checksum of it; a running store may clean it in between."""
    log = segments(built, 0)[0]
    content = (log.parent / MANIFEST).read_bytes()
    read = Segment(log, 0, 65, log.stat().st_size, np.empty(0), [], is_rebuilt=False, is_whole=True)
    found: list[Finding] = []
    check_manifest(Place(found.append, 0), FileSystem(), log.parent, [read], content, lambda: 0)
    assert found == []
    damage(log)
    if is_cleaned:
        (log.parent / MANIFEST).write_bytes(content + b"the next one\n")
    check_manifest(Place(found.append, 0), FileSystem(), log.parent, [read], content, lambda: 0)
    assert [(each.kind, each.path) for each in found] == ([] if is_cleaned else [("segment", str(log))])
