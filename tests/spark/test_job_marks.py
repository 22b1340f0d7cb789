"""Tables of a log that was not whole are marked as long as they are there, whenever the job ends.  Without Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsetlog import errors
from offsetlog.spark.jobs import completeness
from offsetlog.spark.jobs.completeness import MARK, write_marked, write_marked_table

SPARK: Any = None
HALF = ["log partition 0: half is missing"]


class Stream:
    def __init__(self, path: Path) -> None:
        self._path = path

    def readAllBytes(self) -> bytes:  # noqa: N802  (Java's name)
        return self._path.read_bytes()

    def write(self, content: bytearray) -> None:
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_bytes(content)

    def close(self) -> None:
        pass


class FileSystem:
    """Hadoop's, as far as it is used."""

    def exists(self, path: Path) -> bool:
        return path.exists()

    def delete(self, path: Path, recursive: bool) -> None:
        assert recursive or path.is_file()
        shutil.rmtree(path) if recursive else path.unlink()

    def create(self, path: Path, _: bool) -> Stream:
        return Stream(path)

    def open(self, path: Path) -> Stream:
        return Stream(path)


class Table:
    """A DataFrame that writes a file, or fails after it; `look` is called as its writing begins."""

    def __init__(self, *, fails: bool = False, look: Callable[[], None] = lambda: None) -> None:
        self._fails = fails
        self._look = look

    @property
    def write(self) -> Table:
        return self

    def mode(self, mode: str) -> Table:
        self._mode = mode
        return self

    def parquet(self, path: str) -> None:
        self._look()
        folder = Path(path)
        if self._mode == "overwrite":
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(exist_ok=self._mode == "append")
        (folder / "part-0").write_text("")
        if self._fails:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completeness, "_hadoop_file", lambda _, *parts: (Path(*parts), FileSystem()))


def marks(out: Path) -> dict[str, Any]:
    return json.loads((out / MARK).read_text()) if (out / MARK).exists() else {}


def write(out: Path, problems: list[str], *, overwrite: bool = False, **tables: Table) -> None:
    write_marked(SPARK, tables, str(out), path="log", problems=problems, overwrite=overwrite)  # type: ignore[arg-type]


def test_the_mark_is_there_before_the_first_table(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, HALF, totals=Table(), rewinds=Table(fails=True))
    mark = {"source": "log", "incomplete": HALF}
    assert marks(tmp_path) == {"totals": mark, "rewinds": mark}
    # A whole one in its place is marked until it is there.
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, [], overwrite=True, totals=Table(), rewinds=Table(fails=True))
    assert marks(tmp_path).keys() == {"totals", "rewinds"}
    write(tmp_path, [], overwrite=True, totals=Table(), rewinds=Table())
    assert not (tmp_path / MARK).exists()


def test_a_job_leaves_the_marks_of_other_tables(tmp_path):
    write(tmp_path, HALF, totals=Table(), rewinds=Table())
    write(tmp_path, [], overwrite=True, lag=Table())
    assert marks(tmp_path).keys() == {"totals", "rewinds"}
    write(tmp_path, ["another"], overwrite=True, lag=Table())
    assert {name: each["incomplete"] for name, each in marks(tmp_path).items()} == {
        "totals": HALF,
        "rewinds": HALF,
        "lag": ["another"],
    }
    write(tmp_path, [], overwrite=True, totals=Table(), rewinds=Table())
    assert marks(tmp_path).keys() == {"lag"}


def test_what_is_refused_changes_no_mark(tmp_path):
    write(tmp_path, [], totals=Table())
    with pytest.raises(errors.ConfigError, match="already"):
        write(tmp_path, HALF, rewinds=Table(), totals=Table())
    (tmp_path / "totals" / "letters.txt").write_text("")
    with pytest.raises(errors.ConfigError, match="which is not part of a table"):
        write(tmp_path, HALF, overwrite=True, totals=Table())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["totals"]
    (tmp_path / MARK).write_text("half a ma")
    with pytest.raises(errors.ConfigError, match="does not list the incomplete tables"):
        write(tmp_path, [], overwrite=True, lag=Table())
    assert (tmp_path / MARK).read_text() == "half a ma"


def test_a_single_table_has_its_mark_within(tmp_path):
    out = tmp_path / "changes"

    def put(problems: list[str], table: Table, *, overwrite: bool) -> None:
        given: Any = table
        write_marked_table(SPARK, given, str(out), path="log", problems=problems, overwrite=overwrite)

    seen: list[dict[str, Any]] = []
    table = Table(look=lambda: seen.append(marks(out)), fails=True)
    with pytest.raises(KeyboardInterrupt):
        put(HALF, table, overwrite=False)
    assert seen == [{"source": "log", "incomplete": HALF}] == [marks(out)]
    with pytest.raises(errors.ConfigError, match="already"):
        put(["another"], Table(), overwrite=False)
    put(["another"], Table(), overwrite=True)
    assert marks(out)["incomplete"] == ["another"]
    put([], Table(), overwrite=True)
    assert sorted(each.name for each in out.iterdir()) == ["part-0"]
