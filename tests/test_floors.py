"""THINK HARD BEFORE CHANGING THIS.

Includes only point down (imports and cimports: test_import_rule.py).  A file that wants to look up is on the wrong
floor, or holds two subjects; move the code, not the line below.  A new file that no line names fails here: decide
where it stands.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parent.parent

# Room of the engine -> the rooms that it may include, and all below them.  The log does not know what an offset commit
# is; the table does not know what a file is; the partition joins them.
ROOMS: dict[str, set[str]] = {
    "base": set(),
    "format": {"base"},
    "fs": {"base"},
    "testing": {"fs"},
    "table": {"base"},
    "log": {"format", "fs"},
    "state": {"table", "format"},
    "columns": {"log", "table"},
    "snapshot": {"state", "log", "partition"},
    "partition": {"state", "log"},
    "cleaner": {"snapshot"},
    "retention": {"snapshot"},
    "history": {"snapshot"},
}

SAYS_NOTHING = {"util", "utils", "helper", "helpers", "common", "misc"}

ENGINE_FILES = sorted(path for suffix in ("c", "h") for path in (ROOT / "csrc").rglob(f"*.{suffix}"))
CYTHON = sorted(path for suffix in ("pyx", "pxd") for path in (ROOT / "offsetlog").rglob(f"*.{suffix}"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ----------------------------------------------------------------------------------------------------------- the engine


def included(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)


def below(room: str) -> set[str]:
    """The rooms that `room` may include: those that it names, and all below them."""
    return {room, *ROOMS[room], *(deeper for lower in ROOMS[room] for deeper in below(lower))}


def refused(path: str, include: str) -> str | None:
    """Why the file at `path` of csrc/ may not include `include`, which names a file of csrc/; None where it may."""
    folder, _, name = include.rpartition("/")
    if not folder:
        return "an include names its room: \"log/segment.h\""
    room, included_room = path.split("/")[0], folder.split("/")[0]
    if included_room not in below(room) and {room, included_room} != {"partition", "snapshot"}:
        return f"{room}/ stands below {included_room}/ or beside it"
    if name.endswith("_impl.h") and path.endswith(".h") and not path.endswith("_impl.h"):
        return "an _impl.h is included by sources"
    return None


@pytest.mark.parametrize("path", ENGINE_FILES, ids=name_of)
def test_includes_point_down(path):
    inside = str(path.relative_to(ROOT / "csrc"))
    wrong = {include: refused(inside, include) for include in included(path)}
    # Rooms are moved one by one; a file that is not moved yet stands in no room.
    assert not {include: reason for include, reason in wrong.items() if reason and "/" in inside and "/" in include}


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("base/arena.c", "table/table.h"),
        ("log/append.c", "state/state.h"),
        ("log/append.c", "table/table.h"),
        ("table/pairs.c", "fs/fs.h"),
        ("table/pairs.c", "format/batch.h"),
        ("cleaner/copy.c", "history/timeline.h"),
        ("history/timeline.c", "retention/run.h"),
        ("partition/load.c", "cleaner/cleaner.h"),
        ("log/log.h", "log/log_impl.h"),
        ("log/append.c", "append.h"),
    ],
)
def test_a_violation_is_refused(path, include):
    assert refused(path, include)


@pytest.mark.parametrize("path", ENGINE_FILES, ids=name_of)
def test_the_engine_does_not_know_python(path):
    assert "Python.h" not in path.read_text()


def test_the_rooms_have_no_circle():
    left = dict(ROOMS)
    while left:
        ground = [room for room, allowed in left.items() if not allowed & set(left)]
        assert ground, f"a circle among {sorted(left)}"
        for room in ground:
            del left[room]


def test_every_room_is_read():
    # A test over an empty list shows nothing: the parser above must find what is known to be there.
    assert "base/status.h" in included(ROOT / "csrc" / "fs" / "fs.h")


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
    # A call that starts a statement: what continues one stands behind an open bracket or an operator.
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
