"""An open begins its checks above the snapshot: damage below is found by those who read there (docs/durability.md)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import offsetlog
from offsetlog import MaintenanceConfig, OffsetStore, StoreConfig, errors
from offsetlog._native.files import FileSystem
from offsetlog.directory import snapshots
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.verify import verify

OFF = MaintenanceConfig(enabled=False)
#: Flushed when the test says so.
CONFIG = StoreConfig(flush_interval_ms=None)
#: The log below the snapshot, in commits of 130 bytes or so: more than an open reads whole.
COMMITS = 20_000
GROUPS = 100


def _commit(store: OffsetStore, first: int, count: int) -> None:
    for number in range(first, first + count):
        store.commit_one(f"group-{number % GROUPS}", "topic", 0, number)


def _take_snapshot(store: OffsetStore, path: Path, is_copied: bool = True) -> None:
    # A copy of the state in memory, as the background makes it, or one that is made by reading the log.
    [partition] = store._core.attached()
    report = snapshots.write(partition, LogDirectory(path, FileSystem()), live=is_copied)
    assert report is not None
    assert report.written


def _killed(made: Path, is_copied: bool) -> Path:
    # As a process leaves it that is killed some commits after a snapshot.
    with offsetlog.open(made / "data", 1, "process", config=CONFIG, maintenance=OFF) as store:
        _commit(store, 0, COMMITS)
        _take_snapshot(store, made / "data", is_copied)
        _commit(store, COMMITS, 10)
        shutil.copytree(made / "data", made / "copy")
    return made / "copy"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its snapshot is a copy of the state in memory."""
    return _killed(tmp_path_factory.mktemp("copied"), True)


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its snapshot was made by reading the log, and has no mark."""
    return _killed(tmp_path_factory.mktemp("replayed"), False)


@pytest.fixture(params=["copied", "replayed"])
def killed(request: pytest.FixtureRequest) -> Path:
    """Either of them."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    with offsetlog.open(tmp_path / "data", 1, config=CONFIG, maintenance=OFF) as store:
        _commit(store, 0, COMMITS)
        _take_snapshot(store, tmp_path / "data")
    return tmp_path / "data"


def _log(path: Path) -> Path:
    [log] = path.glob("*/*.log")
    return log


def _flip(log: Path, position: int) -> None:
    content = bytearray(log.read_bytes())
    content[position] ^= 1
    log.write_bytes(content)


def _opened(path: Path) -> OffsetStore:
    return offsetlog.open(path, config=CONFIG, maintenance=OFF)


def _check_positions(store: OffsetStore, end: int) -> None:
    for number in range(end - GROUPS, end):
        assert store.fetch_one(f"group-{number % GROUPS}", "topic", 0).offset == number


def test_a_killed_store_is_opened_without_reading_what_its_snapshot_has(copied: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(copied, tmp_path / "data"))
    _flip(_log(path), 1000)
    with _opened(path) as store:
        assert store.problems() == []
        assert store.recoveries()[0]["snapshot"] == COMMITS
        _check_positions(store, COMMITS + 10)
        _commit(store, COMMITS + 10, 1)
    assert verify(path).problems


@pytest.mark.filterwarnings("ignore::offsetlog.errors.CorruptionWarning")
def test_a_snapshot_without_a_mark_has_all_read(replayed: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(replayed, tmp_path / "data"))
    _flip(_log(path), 1000)
    with _opened(path) as store:
        [problem] = store.problems()
        assert isinstance(problem, errors.CorruptionError)


def test_a_closed_store_likewise(closed: Path) -> None:
    _flip(_log(closed), 1000)
    with _opened(closed) as store:
        assert store.problems() == []
        _check_positions(store, COMMITS)
    assert verify(closed).problems


@pytest.mark.filterwarnings("ignore::offsetlog.errors.CorruptionWarning")
@pytest.mark.parametrize("harm", ["removed", "cut"])
def test_without_the_snapshot_all_is_read_and_damage_is_reported(killed: Path, tmp_path: Path, harm: str) -> None:
    path = Path(shutil.copytree(killed, tmp_path / "data"))
    _flip(_log(path), 1000)
    [snapshot] = path.rglob("offsetlog-snapshot.arrow")
    if harm == "removed":
        snapshot.unlink()
    else:
        content = snapshot.read_bytes()
        quarter = len(content) // 4
        middle = bytes(each ^ 1 for each in content[quarter:-quarter])
        content = content[:quarter] + middle + content[-quarter:]
        snapshot.write_bytes(content)
    with _opened(path) as store:
        [problem] = store.problems()
        assert isinstance(problem, errors.CorruptionError)
        assert problem.position is not None
        assert problem.position <= 1000
        assert store.recoveries()[0]["snapshot"] is None


@pytest.mark.filterwarnings("ignore::offsetlog.errors.CorruptionWarning")
def test_damage_above_the_snapshot_is_found(tmp_path: Path) -> None:
    with offsetlog.open(tmp_path / "data", 1, "process", config=CONFIG, maintenance=OFF) as store:
        _commit(store, 0, COMMITS)
        _take_snapshot(store, tmp_path / "data")
        [log] = (tmp_path / "data").glob("*/*.log")
        _commit(store, COMMITS, 1000)
        store.flush()
        path = Path(shutil.copytree(tmp_path / "data", tmp_path / "killed"))
    used = len(log.read_bytes().rstrip(b"\0"))
    _flip(_log(path), used - 20_000)
    with _opened(path) as store:
        [problem] = store.problems()
        assert isinstance(problem, errors.CorruptionError)
        with pytest.raises(errors.ReadOnlyError):
            _commit(store, 0, 1)


def test_a_store_that_was_opened_so_many_times_is_the_same(killed: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(killed, tmp_path / "data"))
    end = COMMITS + 10
    for number in range(4):
        with _opened(path) as store:
            assert store.problems() == []
            _check_positions(store, end)
            _commit(store, end, 50)
            end += 50
            if number % 2:
                _take_snapshot(store, path)
            digest = store.digest()
            if number < 3:
                shutil.copytree(path, tmp_path / f"killed-{number}")
        path = tmp_path / f"killed-{number}" if number < 3 else path
    for snapshot in path.glob("*/offsetlog-snapshot.arrow"):
        snapshot.unlink()
    with _opened(path) as store:
        assert store.digest() == digest
    assert verify(path).problems == []
