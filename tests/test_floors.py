"""THINK HARD BEFORE CHANGING THIS.

Includes, cimports and imports only point down.  A file that wants to look up is on the wrong floor, or holds two
subjects; move the code, not the line below.  A new file that no line names fails here: decide where it stands.
"""

from __future__ import annotations

import ast
import fnmatch
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

# Floors of the package and their modules; the first pattern that fits a module decides.  BELOW says what each floor may
# import besides itself.
PACKAGE: list[tuple[str, list[str]]] = [
    ("values", ["offsetlog.errors", "offsetlog.types", "offsetlog.config"]),
    (
        "crossing",
        ["offsetlog._native", *(f"offsetlog._native.{name}" for name in ("csrc", "status", "buffers"))],
    ),
    ("native", ["offsetlog._native.*"]),
    (
        "command line",
        [
            "offsetlog.__main__", "offsetlog.cli", "offsetlog.cli.*",
            "offsetlog.spark.__main__", "offsetlog.spark.jobs.commands",
        ],
    ),
    ("web", ["offsetlog.web", "offsetlog.web.*"]),
    (
        "spark executors",
        [
            "offsetlog.spark.scan", "offsetlog.spark.scan.*", "offsetlog.spark.sink.staging",
            "offsetlog.spark.jobs.tasks", "offsetlog.spark.jobs.tasks.*",
        ],
    ),
    ("spark", ["offsetlog.spark", "offsetlog.spark.*"]),
    ("server", ["offsetlog.server", "offsetlog.server.*"]),
    ("cluster", ["offsetlog.cluster", "offsetlog.cluster.*"]),
    ("coordinator", ["offsetlog.coordinator", "offsetlog.coordinator.*"]),
    ("protocol", ["offsetlog.protocol", "offsetlog.protocol.*"]),
    ("manager", ["offsetlog.manager", "offsetlog.manager.*"]),
    ("listing", ["offsetlog.directory", "offsetlog.directory.listing"]),
    ("store", ["offsetlog", "offsetlog.*"]),
]
STORE_AND_BELOW = {"values", "crossing", "native", "listing", "store"}
BELOW: dict[str, set[str]] = {
    "values": set(),
    "crossing": {"values"},
    "native": {"values", "crossing"},
    "listing": {"values", "crossing", "native"},
    "store": {"values", "crossing", "native", "listing"},
    "manager": STORE_AND_BELOW,
    "coordinator": {*STORE_AND_BELOW, "manager"},
    "protocol": {"values", "crossing", "native"},
    "server": {*STORE_AND_BELOW, "manager", "coordinator", "protocol"},
    "cluster": {*STORE_AND_BELOW, "manager", "coordinator", "protocol"},
    "command line": {
        *STORE_AND_BELOW, "manager", "coordinator", "protocol", "server", "cluster", "web", "spark",
    },
    "web": {*STORE_AND_BELOW, "manager", "coordinator"},
    # What executors import needs neither a store nor a server.
    "spark executors": {"values", "crossing", "native", "listing"},
    "spark": {*STORE_AND_BELOW, "spark executors"},
}

SAYS_NOTHING = {"util", "utils", "helper", "helpers", "common", "misc"}

ENGINE_FILES = sorted(path for suffix in ("c", "h") for path in (ROOT / "csrc").rglob(f"*.{suffix}"))
MODULES = sorted(path for suffix in ("py", "pyx", "pxd", "pyi") for path in (ROOT / "offsetlog").rglob(f"*.{suffix}"))
CYTHON = [path for path in MODULES if path.suffix in {".pyx", ".pxd"}]


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


# ---------------------------------------------------------------------------------------------------------- the package


def module_of(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor_of_module(module: str) -> str:
    for floor, patterns in PACKAGE:
        if any(fnmatch.fnmatchcase(module, pattern) for pattern in patterns):
            return floor
    raise AssertionError(f"{module}: say in tests/test_floors.py on which floor it stands")


def absolute(module: str | None, level: int, path: Path) -> str:
    if level == 0:
        return module or ""
    package = module_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    package = package[: len(package) - (level - 1)]
    return ".".join([*package, *([module] if module else [])])


def exists(module: str) -> bool:
    path = ROOT / Path(*module.split("."))
    return path.is_dir() or any(path.with_name(f"{path.name}.{suffix}").exists() for suffix in ("py", "pyx", "pxd"))


def imported(path: Path) -> set[str]:
    """Every module of ours that a file imports or cimports; `from package import module` counts as the module."""
    text = path.read_text()
    pairs: list[tuple[str, list[str]]] = []
    if path.suffix in {".py", ".pyi"}:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                pairs += [(alias.name, []) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                pairs.append((absolute(node.module, node.level, path), [alias.name for alias in node.names]))
    else:
        for match in re.finditer(
            r"^[ \t]*from\s+(\.*)([\w.]*)\s+c?import\s+(\(.*?\)|[^\n]+)", text, re.MULTILINE | re.DOTALL
        ):
            names = re.findall(r"\b\w+\b", re.sub(r"#[^\n]*|\bas\s+\w+", "", match[3]))
            pairs.append((absolute(match[2] or None, len(match[1]), path), names))
        for match in re.finditer(r"^[ \t]*c?import\s+([\w., ]+)", text, re.MULTILINE):
            pairs += [(name.split()[0], []) for name in match[1].split(",") if name.strip()]
    found = set()
    for module, names in pairs:
        if module.split(".")[0] != "offsetlog":
            continue
        modules = {f"{module}.{name}" for name in names if exists(f"{module}.{name}")}
        found |= modules
        if len(modules) < len(names) or not names:
            found.add(module)
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_down(path):
    own = floor_of_module(module_of(path))
    allowed = {own, *BELOW[own]}
    wrong = [
        f"{module} ({floor_of_module(module)})" for module in imported(path) if floor_of_module(module) not in allowed
    ]
    assert not wrong, f"{name_of(path)} is of the floor '{own}' and imports {', '.join(sorted(wrong))}"


def test_the_floors_have_no_circle():
    assert set(BELOW) == {floor for floor, _ in PACKAGE}
    for allowed_by_floor in (BELOW, ROOMS):
        left = dict(allowed_by_floor)
        while left:
            ground = [floor for floor, allowed in left.items() if not allowed & set(left)]
            assert ground, f"a circle among {sorted(left)}"
            for floor in ground:
                del left[floor]


def test_every_floor_is_read():
    # A test over an empty list shows nothing: the parsers above must find what is known to be there.
    assert any("status.h" in include for path in ENGINE_FILES for include in included(path))
    assert "offsetlog.errors" in imported(ROOT / "offsetlog" / "config.py")
    assert imported(ROOT / "offsetlog" / "_native" / "status.pyx") == {"offsetlog._native.csrc", "offsetlog.errors"}


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
