"""Includes of csrc/ point down, room by room: tests/rooms.py says which room may include which.

A file that wants to look up stands in the wrong room, or holds two subjects: move the code, not the rule.
A new file needs no line anywhere; a new room does.  Imports and cimports: test_import_rule.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import rooms

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parent.parent
SAYS_NOTHING = {"util", "utils", "helper", "helpers", "common", "misc"}
ENGINE_FILES = rooms.files()
CYTHON = sorted(path for suffix in ("pyx", "pxd") for path in (ROOT / "offsetlog").rglob(f"*.{suffix}"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ----------------------------------------------------------------------------------------------------------- the engine


@pytest.mark.parametrize("path", ENGINE_FILES, ids=name_of)
def test_includes_point_down(path):
    inside = str(path.relative_to(rooms.CSRC))
    reasons = {include: rooms.refused(inside, include) for include in rooms.included(path)}
    assert not {include: reason for include, reason in reasons.items() if reason}


@pytest.mark.parametrize("path", ENGINE_FILES, ids=name_of)
def test_what_is_included_is_there(path):
    assert not [include for include in rooms.included(path) if not (rooms.CSRC / include).is_file()]


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("base/arena.c", "table/table.h"),
        ("table/pairs.c", "fs/fs.h"),
        ("table/pairs.c", "format/batch.h"),
        ("log/append.c", "table/table.h"),
        ("log/append.c", "state/state.h"),
        ("log/files/names.c", "state/state.h"),
        ("snapshot/open.c", "partition/partition.h"),
        ("partition/load.c", "cleaner/cleaner.h"),
        ("cleaner/copy.c", "history/timeline.h"),
        ("history/timeline.c", "retention/run.h"),
        ("retention/run.c", "testing/fault_fs.h"),
        ("cleaner/copy.c", "partition/partition_impl.h"),
        ("partition/load.c", "snapshot/snapshot_impl.h"),
        ("partition/load.c", "partition/commit/commit_impl.h"),
        ("log/log.h", "log/log_impl.h"),
        ("log/append.c", "append.h"),
        ("attic/old.c", "base/base.h"),
    ],
)
def test_a_violation_is_refused(path, include):
    assert rooms.refused(path, include)


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("log/append.c", "log/log_impl.h"),
        ("log/files/names.c", "fs/fs.h"),
        ("partition/commit/plan.c", "partition/partition_impl.h"),
        ("partition/commit/commit_impl.h", "partition/partition_impl.h"),
        ("cleaner/copy.c", "base/pages.h"),
    ],
)
def test_what_is_right_is_not_refused(path, include):
    assert rooms.refused(path, include) is None


def test_every_room_is_there_and_every_file_in_one():
    assert {path.relative_to(rooms.CSRC).parts[0] for path in ENGINE_FILES} == set(rooms.ROOMS)


def test_the_rule_has_no_circle():
    assert rooms.floors(rooms.ROOMS)[0] == ["base"]
    with pytest.raises(ValueError, match="a circle among"):
        rooms.floors({"base": {"log"}, "log": {"base"}})


def test_the_picture_in_the_documents_is_that_of_the_code():
    page = rooms.PAGE.read_text()
    assert rooms.written(page) == page, "run: python tests/rooms.py --write"


@pytest.mark.parametrize("path", ENGINE_FILES, ids=name_of)
def test_the_engine_does_not_know_python(path):
    assert "Python.h" not in path.read_text()


def test_the_parser_finds_what_is_there():
    # A test over an empty list shows nothing.
    assert "base/status.h" in rooms.included(rooms.CSRC / "fs" / "fs.h")


# ------------------------------------------------------------------------------------------------------------ crossings


@pytest.mark.parametrize("path", CYTHON, ids=name_of)
def test_only_csrc_declares_c(path):
    declares = re.search(r"^\s*cdef\s+extern\b", path.read_text(), re.MULTILINE)
    assert not declares or path.name == "csrc.pxd", f"{name_of(path)}: declare C in offsetlog/_native/csrc.pxd"


@pytest.mark.parametrize("path", [path for path in CYTHON if path.suffix == ".pyx"], ids=name_of)
def test_no_status_is_dropped(path):
    # Cython casts an unused result to void, so the compiler does not warn.
    declared = re.findall(r"^\s*int (ol_\w+)\([^)]*ol_error \*", CSRC_PXD.read_text(), re.MULTILINE)
    assert "ol_fail" in declared
    # These fill an error that the caller already has.
    fallible = set(declared) - {"ol_fail", "ol_fail_errno", "ol_error_at"}
    # A call that starts a statement: one that continues a statement stands after an open bracket or an operator.
    calls = re.findall(r"(?<![(,=\\])\n[ \t]*(ol_\w+)\(", path.read_text())
    dropped = sorted(fallible & set(calls))
    assert not dropped, f"{name_of(path)}: wrap in check(...): {', '.join(dropped)}"


CSRC_PXD = ROOT / "offsetlog" / "_native" / "csrc.pxd"


def test_no_name_says_nothing():
    everywhere = [path for part in ("csrc", "offsetlog", "tests", "benchmarks") for path in (ROOT / part).rglob("*")]
    named = [
        name_of(path) for path in everywhere if path.stem.removeprefix("ol_").removeprefix("test_") in SAYS_NOTHING
    ]
    assert not named, "name these after their subject"
