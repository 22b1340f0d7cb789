"""A segment that was closed and is not flushed yet: that it is missing is known by the note of its roll."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.fs
import pytest

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, TopicPartition, errors
from offsetlog._native.arrow_files import ArrowFileSystem
from offsetlog._native.files import FileSystem
from offsetlog.directory.completeness import Completeness, LogEnd

pytestmark = pytest.mark.filterwarnings("ignore::offsetlog.errors.CorruptionWarning")

OFF = MaintenanceConfig(enabled=False)
#: Nothing is flushed unasked: three rolls, and from the fourth on the background would.
CONFIG = StoreConfig(segment_bytes=4 << 10, flush_interval_ms=None)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a process leaves it that is killed with three segments, of which none is flushed."""
    made = tmp_path_factory.mktemp("killed")
    with offsetlog.open(made / "data", 1, durability="process", config=CONFIG, maintenance=OFF) as store:
        number = 0
        while len(list((made / "data").rglob("*.log"))) < 3:
            store.commit(f"g{number}", {TopicPartition("t", 0): number})
            number += 1
        shutil.copytree(made / "data", made / "copy")
    return made / "copy"


def segments_of(path: Path) -> list[Path]:
    return sorted(path.rglob("*.log"))


def losses_of(path: Path, fs: FileSystem | None = None) -> list[errors.OffsetLogError]:
    return Completeness(path, fs or FileSystem()).problems(0)


def test_a_log_that_was_killed_after_its_rolls_is_whole(killed: Path, tmp_path: Path) -> None:
    assert len(list(killed.rglob("offsetlog.rolled-*"))) == 2
    assert losses_of(killed) == []
    path = Path(shutil.copytree(killed, tmp_path / "data"))
    with offsetlog.open(path, config=CONFIG, maintenance=OFF) as store:
        assert store.problems() == []
        store.commit("late", {TopicPartition("t", 0): 1})


@pytest.mark.parametrize("lost", [[0], [1], [0, 1]])
def test_a_segment_that_is_missing_is_a_loss(killed: Path, tmp_path: Path, lost: list[int]) -> None:
    path = Path(shutil.copytree(killed, tmp_path / "data"))
    segments = segments_of(path)
    bases = [int(each.stem) for each in segments]
    for number in lost:
        for file in path.rglob(f"{segments[number].stem}.*"):
            file.unlink()
    before = {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
    [loss] = [each for each in losses_of(path) if isinstance(each, errors.DataLossError)]
    # The notes of segments in a row hang together; the path is that of the last one.
    first, last = lost[0], lost[-1]
    assert (loss.lost_from, loss.lost_below) == (bases[first], bases[last + 1])
    assert loss.path == str(segments[last])
    with offsetlog.open(path, read_only=True, config=CONFIG) as store:
        assert any(isinstance(each, errors.DataLossError) for each in store.problems())
    with offsetlog.open(path, config=CONFIG, maintenance=OFF) as store:
        assert any(isinstance(each, errors.DataLossError) for each in store.problems())
        with pytest.raises(errors.ReadOnlyError):
            store.commit("late", {TopicPartition("t", 0): 1})
    assert all(file.read_bytes() == content for file, content in before.items() if file.suffix == ".log")
    found = Completeness(path, FileSystem()).losses(
        0, {int(each.stem): each.stat().st_size for each in segments_of(path)}, LogEnd(bases[-1] + 1)
    )
    assert any(isinstance(each, errors.DataLossError) for each in found)


class ListedInPieces(pyarrow.fs.FileSystemHandler):
    """A file system whose first listing of a partition lacks a file that a writer was renaming."""

    def __init__(self, missing: str) -> None:
        self.missing: str | None = missing
        self._local = pyarrow.fs.LocalFileSystem()

    def get_type_name(self):
        return "pieces"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return self._local.get_file_info(paths)

    def get_file_info_selector(self, selector):
        found = self._local.get_file_info(selector)
        kept = [each for each in found if each.base_name != self.missing]
        if len(kept) < len(found):
            self.missing = None
        return kept

    def open_input_file(self, path):
        return self._local.open_input_file(path)

    def open_input_stream(self, path):
        return self._local.open_input_stream(path)

    def _refuse(self, *given):
        raise AssertionError("nothing is changed")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refuse
    move = copy_file = open_output_stream = open_append_stream = _refuse


def test_a_segment_that_is_begun_while_the_directory_is_listed_is_not_lost(killed: Path) -> None:
    handler = ListedInPieces(segments_of(killed)[1].name)
    assert losses_of(killed, ArrowFileSystem(pyarrow.fs.PyFileSystem(handler))) == []
    assert handler.missing is None
