"""Where brokers' logs end by their directories, and logs that lost their ends."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from offsetlog import errors
from offsetlog.directory.log_directory import CLEAN_MARKER, HIGH_WATERMARKS, RECOVERY_POINTS
from offsetlog.spark.jobs import lag_ends

from .missing_parts import batch_ends, build, cut, directory_of

#: A session of which only this is used.
SPARK: Any = SimpleNamespace(createDataFrame=lambda table: table)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return directory_of(build(tmp_path_factory.mktemp("source") / "data", "closed"))


@pytest.fixture
def broker(source: Path, tmp_path: Path) -> Path:
    """A broker's directory that was stopped, with one log whose end its checkpoints tell."""
    shutil.copytree(source, tmp_path / "orders-0", ignore=shutil.ignore_patterns("offsetlog*", "*.snap*"))
    (tmp_path / CLEAN_MARKER).touch()
    checkpoint(tmp_path, end_of(tmp_path))
    return tmp_path


def checkpoint(broker: Path, offset: int, names: tuple[str, ...] = (RECOVERY_POINTS, HIGH_WATERMARKS)) -> None:
    for name in names:
        (broker / name).write_text(f"0\n1\norders 0 {offset}\n")


def end_of(broker: Path, **asked: Any) -> int:
    (row,) = lag_ends.of_directories(SPARK, [broker], **asked).to_pylist()
    assert (row["topic"], row["partition"]) == ("orders", 0)
    end: int = row["log_end_offset"]
    return end


def segments(broker: Path) -> list[Path]:
    return sorted((broker / "orders-0").glob("*.log"))


def check_refused(broker: Path, kind: type[errors.OffsetLogError], end: int) -> None:
    with pytest.raises(kind) as caught:
        end_of(broker)
    problems: list[str] = []
    assert end_of(broker, permissive=True, problems=problems) == end
    assert problems == [str(caught.value)]


def test_the_newest_segment_is_gone(broker: Path) -> None:
    last = segments(broker)[-1]
    last.unlink()
    check_refused(broker, errors.DataLossError, int(last.stem))


@pytest.mark.parametrize("name", [RECOVERY_POINTS, HIGH_WATERMARKS])
def test_one_checkpoint_says_more_than_the_log_has(broker: Path, name: str) -> None:
    end = end_of(broker)
    checkpoint(broker, end + 1, (name,))
    check_refused(broker, errors.DataLossError, end)


def test_the_last_batch_is_gone(broker: Path) -> None:
    cut(segments(broker)[-1], lambda count: count - 1)
    with pytest.raises(errors.DataLossError, match=f"but {RECOVERY_POINTS} says that it reaches"):
        end_of(broker)


def test_a_length_is_damaged_in_the_middle(broker: Path) -> None:
    segments(broker)[-1].unlink()
    checkpoint(broker, int(segments(broker)[-1].stem))
    end, last = end_of(broker), segments(broker)[-1]
    content, position = bytearray(last.read_bytes()), batch_ends(last)[3]
    content[position + 8 : position + 12] = (2**31 - 1).to_bytes(4, "big")
    last.write_bytes(content)
    check_refused(broker, errors.CorruptionError, end)


def test_a_base_offset_is_damaged(broker: Path) -> None:
    """In the last batch it would be the end of the log; in one in the middle it was invisible."""
    segments(broker)[-1].unlink()
    checkpoint(broker, int(segments(broker)[-1].stem))
    end, last = end_of(broker), segments(broker)[-1]
    sound, ends = last.read_bytes(), batch_ends(last)
    for position, base_offset in ((ends[-2], int(last.stem)), (ends[3], end + 1000)):
        content = bytearray(sound)
        content[position : position + 8] = base_offset.to_bytes(8, "big")
        last.write_bytes(content)
        with pytest.raises(errors.OffsetLogError):
            end_of(broker)
        problems: list[str] = []
        assert end_of(broker, permissive=True, problems=problems) <= end
        assert f"byte {position}" in problems[0]


def test_directories_without_a_topic_are_a_wrong_path(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "__consumer_offsets-0").mkdir()
    (tmp_path / "__consumer_offsets-0" / "00000000000000000000.log").touch()
    lag_ends.of_directories(SPARK, [tmp_path])
    assert "the given directories hold no topic but __consumer_offsets" in caplog.text


def test_an_unfinished_tail_of_a_broker_at_work_is_no_damage(broker: Path) -> None:
    (broker / CLEAN_MARKER).unlink()
    end, last = end_of(broker), segments(broker)[-1]
    size = batch_ends(last)[-1]
    with last.open("r+b") as file:
        file.truncate(size - 3)
    # The high watermark was written later than what is on the disk, the recovery point was not.
    checkpoint(broker, int(last.stem), (RECOVERY_POINTS,))
    assert int(last.stem) < end_of(broker) < end
    with last.open("r+b") as file:
        file.truncate(size + 1000)
    assert end_of(broker) <= end


def test_a_checkpoint_that_is_missing_or_of_other_logs_says_nothing(broker: Path) -> None:
    end = end_of(broker)
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        (broker / name).write_text(f"0\n2\norders 1 {end + 9}\nothers 0 {end + 9}\n")
    assert end_of(broker) == end
    (broker / RECOVERY_POINTS).unlink()
    (broker / HIGH_WATERMARKS).write_bytes(b"\xff")
    assert end_of(broker) == end
