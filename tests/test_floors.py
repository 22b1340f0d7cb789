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

# Floor of the engine -> its headers, and the floors that it may include.  The log does not know what an offset commit
# is; the table does not know what a file is; the engine joins them.  A source file stands where its header stands; one
# without a header of its own, where the highest header that it includes stands.
ENGINE: dict[str, tuple[set[str], set[str]]] = {
    "ground": (
        {"ol_base", "ol_status", "ol_bytes", "ol_crc32c", "ol_crc32c_hardware", "ol_hash", "ol_pages", "ol_parallel"},
        set(),
    ),
    "batches": (
        {"ol_batch", "ol_message", "ol_record_put"},
        {"ground"},
    ),
    "offsets": (
        {"ol_group_schema", "ol_offsets", "ol_schema_writer"},
        {"ground"},
    ),
    "files": (
        {"ol_fault_disk", "ol_fs", "ol_fs_fault"},
        {"ground"},
    ),
    "log": (
        {
            "ol_checkpoint", "ol_cleaned", "ol_flushed", "ol_index", "ol_leader_epochs", "ol_log", "ol_log_cutoff",
            "ol_log_internal", "ol_log_spans", "ol_log_view", "ol_log_walk", "ol_names", "ol_partition_metadata",
            "ol_producers", "ol_scan", "ol_segment", "ol_swap", "ol_transaction_index",
        },
        {"ground", "batches", "files"},
    ),
    "memory": (
        {
            "ol_arena", "ol_chunks", "ol_columns", "ol_dictionary", "ol_digest", "ol_expiring", "ol_expiry",
            "ol_group_records", "ol_numbers", "ol_pending", "ol_retention", "ol_runs", "ol_side", "ol_slots",
            "ol_sound", "ol_strings", "ol_table", "ol_table_dump", "ol_table_internal", "ol_table_reserved",
        },
        {"ground"},
    ),
    "engine": (
        {
            "ol_bucket", "ol_clean_batch", "ol_clean_internal", "ol_clean_keys", "ol_clean_superseded",
            "ol_clean_transactions",
            "ol_cleaner", "ol_commit_internal", "ol_expire", "ol_expire_internal", "ol_flusher",
            "ol_group_copy", "ol_group_mark", "ol_group_view", "ol_inflight", "ol_key_map", "ol_load_window",
            "ol_offset_rows", "ol_outcomes", "ol_own_transactions", "ol_partition", "ol_partition_internal", "ol_past",
            "ol_preparer", "ol_record_scan", "ol_rows", "ol_snapshot",
            "ol_snapshot_internal",
            "ol_state", "ol_state_compare", "ol_state_loader", "ol_timeline", "ol_tombstones",
        },
        {"ground", "batches", "offsets", "files", "log", "memory"},
    ),
}  # fmt: skip

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
            "offsetlog.spark.__main__", "offsetlog.spark.jobs.command", "offsetlog.spark.jobs.commands",
            "offsetlog.spark.jobs.commands.*",
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
    ("history", ["offsetlog.history", "offsetlog.history.*"]),
    ("manager", ["offsetlog.manager", "offsetlog.manager.*"]),
    ("listing", ["offsetlog.listing"]),
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
    "history": {*STORE_AND_BELOW, "manager"},
    "server": {*STORE_AND_BELOW, "manager", "coordinator", "protocol"},
    "cluster": {*STORE_AND_BELOW, "manager", "coordinator", "protocol"},
    "command line": {
        *STORE_AND_BELOW, "manager", "coordinator", "protocol", "history", "server", "cluster", "web", "spark",
    },
    "web": {*STORE_AND_BELOW, "manager", "coordinator", "history"},
    # What executors import needs neither a store nor a server.
    "spark executors": {"values", "crossing", "native", "listing"},
    "spark": {*STORE_AND_BELOW, "history", "spark executors"},
}

SAYS_NOTHING = {"util", "utils", "helper", "helpers", "common", "misc"}

HEADERS = sorted((ROOT / "csrc").glob("*.h"))
ENGINE_FILES = [*HEADERS, *sorted((ROOT / "csrc").glob("*.c"))]
MODULES = sorted(path for suffix in ("py", "pyx", "pxd", "pyi") for path in (ROOT / "offsetlog").rglob(f"*.{suffix}"))
CYTHON = [path for path in MODULES if path.suffix in {".pyx", ".pxd"}]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ----------------------------------------------------------------------------------------------------------- the engine


def floor_of_header(stem: str) -> str | None:
    return next((floor for floor, (headers, _) in ENGINE.items() if stem in headers), None)


def included(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s+"(ol_\w+)\.h"', path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", HEADERS, ids=name_of)
def test_a_header_stands_on_a_floor(path):
    assert floor_of_header(path.stem), f"{name_of(path)}: say in tests/test_floors.py on which floor it stands"


@pytest.mark.parametrize("path", ENGINE_FILES, ids=name_of)
def test_includes_point_down(path):
    floors = {stem: floor_of_header(stem) for stem in included(path)}
    own = floor_of_header(path.stem)
    if own is None:
        order = list(ENGINE)
        own = max((floor for floor in floors.values() if floor), key=order.index, default="ground")
    allowed = {own, *ENGINE[own][1]}
    wrong = [f"{stem}.h ({floor})" for stem, floor in floors.items() if floor not in allowed]
    assert not wrong, f"{name_of(path)} is of the floor '{own}' and includes {', '.join(wrong)}"


@pytest.mark.parametrize("path", ENGINE_FILES, ids=name_of)
def test_the_engine_does_not_know_python(path):
    assert "Python.h" not in path.read_text()


@pytest.mark.parametrize("path", HEADERS, ids=name_of)
def test_what_is_internal_is_included_by_sources_only(path):
    assert path.stem.endswith("_internal") or not [stem for stem in included(path) if stem.endswith("_internal")]


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
    for below in (BELOW, {floor: allowed for floor, (_, allowed) in ENGINE.items()}):
        left = dict(below)
        while left:
            ground = [floor for floor, allowed in left.items() if not allowed & set(left)]
            assert ground, f"a circle among {sorted(left)}"
            for floor in ground:
                del left[floor]


def test_every_floor_is_read():
    # A test over an empty list shows nothing: the parsers above must find what is known to be there.
    assert "ol_status" in included(ROOT / "csrc" / "ol_fs.h")
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
