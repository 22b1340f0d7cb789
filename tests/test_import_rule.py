"""Imports and cimports of the package point down, by package: RULE says what each may import.

A module that wants to import upwards stands in the wrong package or holds two subjects: move the
code, not the line of RULE.  A new module in a package needs no line; a new package does.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "offsetlog"

VALUES = {"errors", "error_codes", "status", "types", "config", "clock", "missing_library", "moments", "shown_values"}
NATIVE = {*VALUES, "error_status", "_native", "_native.csrc", "_native.status", "_native.buffers"}
#: Besides the extensions: checked arguments, and calls that can be stopped.
CALLS = {*NATIVE, "arguments", "cancellation", "on_thread"}
DIRECTORY = {*CALLS, "directory"}
UPKEEP = {*DIRECTORY, "maintenance", "verify"}
STORE = {*UPKEEP, "history", "lifecycle", "transaction", "retention", "one_position", "store", "opening"}
EXECUTORS = {"spark.scan", "spark.sink.staging", "spark.jobs.tasks"}
#: Modules on an executor read logs and write files, and load no store.
ON_EXECUTORS = {
    *VALUES,
    *EXECUTORS,
    "spark.in_effect",
    "spark.location",
    "spark.machine",
    "zookeeper",
    # For the driver, as it plans what executors read: it opens logs, and no store.
    "directory.completeness",
    "directory.listing",
    "directory.segments",
    "directory.surveying",
    "_native.arrow_files",
    "_native.clean_survey",
    "_native.codec",
    "_native.decompress",
    "_native.files",
    "_native.partition",
    "_native.replay",
    "_native.rewriting",
    "_native.scan",
    "_native.snapshot",
}
MIGRATION = {"migration", "migration.rules", "zookeeper"}
SERVING = {"manager", "coordinator", "protocol", "server", "topics"}
EVERYTHING = {*STORE, *EXECUTORS, *MIGRATION, *SERVING, "", "spark", "cli"}

#: A package or module, without "offsetlog." -> the packages and modules that it may import besides
#: itself.  A module belongs to the longest name here that it begins with; "" is offsetlog/__init__.
RULE: dict[str, set[str]] = {
    "errors": {"error_codes", "status"},
    "status": set(),
    "types": set(),
    "error_codes": set(),
    "error_status": {"errors", "status"},
    "config": {"errors", "shown_values"},
    "clock": {"errors"},
    "moments": {"errors"},
    "missing_library": {"errors"},
    "shown_values": set(),
    "_native.csrc": set(),
    "_native.status": {"_native.csrc", "error_status"},
    "_native.buffers": {"_native.csrc", "_native.status", "errors", "shown_values"},
    "_native": NATIVE,
    "arguments": VALUES,
    "cancellation": NATIVE,
    "on_thread": set(),
    "directory": NATIVE,
    "maintenance": DIRECTORY,
    "verify": DIRECTORY,
    "history": UPKEEP,
    "lifecycle": UPKEEP,
    "transaction": CALLS,
    "one_position": {*CALLS, "history"},
    "retention": VALUES,
    "replication": VALUES,
    "zookeeper": {*VALUES, "arguments"},
    "migration": {*STORE - {"opening", "lifecycle"}, "migration.rules", "zookeeper"},
    # Pure: the Spark job is tested with the same table.
    "migration.rules": VALUES,
    "manager": {*STORE - {"opening", "store"}, "replication", "zookeeper", "manager.interface"},
    # The contract's tests know the interface, and no manager.
    "manager.testing": {*NATIVE, "manager.interface"},
    "manager.interface": VALUES,
    "protocol": NATIVE,
    "topics": DIRECTORY,
    # Pure: the manager's errors and records, and no manager.
    "coordinator": {*NATIVE, "protocol"},
    "server": {*STORE - {"opening", "store"}, "manager", "manager.interface", "coordinator", "protocol", "topics"},
    # A server for tests of clients; all but its fixtures goes without pytest.
    "pytest": {*VALUES, "_native.clocks", "manager", "coordinator", "protocol", "server"},
    "store": STORE - {"opening"},
    "opening": STORE,
    "": STORE,
    **dict.fromkeys(EXECUTORS, ON_EXECUTORS),
    # Where a path or URI leads is asked on the driver and on executors, and before Spark is there.
    "spark.location": {*VALUES, "arguments"},
    "spark.in_effect": set(),
    "spark.machine": set(),
    "spark": {*STORE, *EXECUTORS, *MIGRATION, "", "spark.in_effect", "spark.location", "spark.machine"},
    "cli": EVERYTHING,
    "__main__": EVERYTHING,
    # These two are programs: what spark-submit is given, and the former place of the commands.
    "spark.__main__": {*EVERYTHING, "__main__"},
    "spark.jobs.commands": EVERYTHING,
}

SOURCES = sorted(
    path for suffix in ("py", "pyx", "pxd", "pyi") for path in PACKAGE.rglob(f"*.{suffix}")
)


# -------------------------------------------------------------------------------------- the checker


def package_of(module: str) -> str | None:
    """The name in RULE that a module belongs to, None where there is none."""
    if module == "":
        return ""
    parts = module.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in names if name in RULE), None)


def exists(module: str) -> bool:
    path = PACKAGE.joinpath(*module.split("."))
    return path.is_dir() or any(
        path.with_name(f"{path.name}.{suffix}").exists() for suffix in ("py", "pyx", "pxd")
    )


def named_modules(node: ast.AST) -> list[str]:
    """The strings that name modules to import: of an `import_module(...)`, or of a table `_MODULES`."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        values = node.args[:1]
    elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_MODULES":
        assert isinstance(node.value, ast.Dict)
        values = node.value.values
    else:
        values = []
    return [each.value for each in values if isinstance(each, ast.Constant)]


def python_imports(text: str) -> list[tuple[str, int, list[str]]]:
    """Every import of a Python source: module, level of a relative one, names."""
    found: list[tuple[str, int, list[str]]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [(alias.name, 0, []) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.module or "", node.level, [alias.name for alias in node.names]))
        found += [(name, 0, []) for name in named_modules(node)]
    return found


def cython_imports(text: str) -> list[tuple[str, int, list[str]]]:
    """Every import and cimport of a Cython source."""
    found: list[tuple[str, int, list[str]]] = []
    for match in re.finditer(
        r"^[ \t]*from\s+(\.*)([\w.]*)\s+c?import\s+(\(.*?\)|[^\n]+)", text, re.MULTILINE | re.DOTALL
    ):
        names = re.findall(r"\b\w+\b", re.sub(r"#[^\n]*|\bas\s+\w+", "", match[3]))
        found.append((match[2], len(match[1]), names))
    for match in re.finditer(r"^[ \t]*c?import\s+([\w., ]+)", text, re.MULTILINE):
        found += [(name.split()[0], 0, []) for name in match[1].split(",") if name.strip()]
    return found


def imported(module: str, text: str, *, suffix: str = ".py", is_package: bool = False) -> set[str]:
    """The modules of ours that a source imports; `from package import module` is the module."""
    found = set()
    for name, level, names in (
        python_imports(text) if suffix in {".py", ".pyi"} else cython_imports(text)
    ):
        target = name
        if level > 0:
            own = ["offsetlog", *(module.split(".") if module else [])]
            above = own[: len(own) - (level - is_package)]
            target = ".".join([*above, *([name] if name else [])])
        if target.partition(".")[0] != "offsetlog":
            continue
        target = target.partition(".")[2]
        modules = {f"{target}.{each}".lstrip(".") for each in names}
        modules = {each for each in modules if exists(each)}
        found |= modules
        if len(modules) < len(names) or not names:
            found.add(target)
    return found


def refused(module: str, text: str, *, suffix: str = ".py", is_package: bool = False) -> list[str]:
    """Returns the forbidden imports of a module, sorted."""
    own = package_of(module)
    assert own is not None, f"offsetlog.{module}: say in RULE what its package may import"
    allowed = {own, *RULE[own]}
    targets = imported(module, text, suffix=suffix, is_package=is_package)
    return sorted(
        each for each in targets if each not in allowed and package_of(each) not in allowed
    )


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# ------------------------------------------------------------------------------------- the package


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path):
    wrong = refused(
        module_of(path), path.read_text(), suffix=path.suffix, is_package=path.stem == "__init__"
    )
    assert not wrong, f"offsetlog.{module_of(path)} may not import {', '.join(wrong)}"


def test_only_what_runs_in_tests_needs_pytest():
    needing = {
        module_of(path)
        for path in SOURCES
        if any(name.partition(".")[0] == "pytest" for name, *_ in python_imports_of(path))
    }
    assert needing
    needing.remove("pytest")
    assert [name for name in sorted(needing) if not name.startswith("manager.testing")] == []


def python_imports_of(path: Path) -> list[tuple[str, int, list[str]]]:
    return python_imports(path.read_text()) if path.suffix == ".py" else []


def test_the_rule_has_no_circle():
    left = {name: allowed & set(RULE) - {name} for name, allowed in RULE.items()}
    # The three packages of executors are one level.
    for name in EXECUTORS:
        left[name] -= EXECUTORS
    while left:
        lowest = [name for name, allowed in left.items() if not allowed & set(left)]
        assert lowest, f"a circle among {sorted(left)}"
        for name in lowest:
            del left[name]


def test_every_line_of_the_rule_is_of_something():
    assert [name for name in RULE if name and not exists(name)] == []
    named = set().union(*RULE.values())
    assert [name for name in sorted(named) if name and not exists(name)] == []


def test_the_parsers_find_what_is_there():
    # A test over an empty list shows nothing.
    assert "errors" in imported("config", (PACKAGE / "config.py").read_text())
    status = (PACKAGE / "_native" / "status.pyx").read_text()
    assert imported("_native.status", status, suffix=".pyx") == {"_native.csrc", "error_status"}
    assert "opening" in imported("", (PACKAGE / "__init__.py").read_text(), is_package=True)


# ------------------------------------------------------------------------ what the checker refuses

WRONG = {
    "a value imports a package": (
        "errors",
        "from offsetlog.arguments import checked_path",
        "arguments",
    ),
    "values import each other": ("config", "from offsetlog.types import Position", "types"),
    "an argument check imports a directory": (
        "arguments",
        "import offsetlog.directory.reading",
        "directory.reading",
    ),
    "directory imports maintenance": (
        "directory.reading",
        "from offsetlog.maintenance import policy",
        "maintenance.policy",
    ),
    "directory imports history": (
        "directory.snapshots",
        "import offsetlog.history.timeline as t",
        "history.timeline",
    ),
    "maintenance imports verify": (
        "maintenance.cleaning",
        "from offsetlog.verify import verify",
        "verify",
    ),
    "verify imports maintenance": (
        "verify.store",
        "from offsetlog import maintenance",
        "maintenance",
    ),
    "maintenance imports history": (
        "maintenance.cleaning",
        "from offsetlog.history.timeline import Timeline",
        "history.timeline",
    ),
    "history imports lifecycle": (
        "history.restore",
        "from ..lifecycle.open import open_store",
        "lifecycle.open",
    ),
    "lifecycle imports history": (
        "lifecycle.close",
        "from ..history import restore",
        "history.restore",
    ),
    "lifecycle imports the store": (
        "lifecycle.open",
        "if TYPE_CHECKING:\n    from offsetlog.store import OffsetStore",
        "store",
    ),
    "the store imports what opens it": ("store", "from offsetlog.opening import open", "opening"),
    "the store imports a command": (
        "store",
        "def show():\n    from offsetlog.cli import output",
        "cli.output",
    ),
    "the store imports spark": (
        "store",
        "from offsetlog.spark.targets import Target",
        "spark.targets",
    ),
    "spark imports a command": (
        "spark.jobs.lag",
        "from offsetlog.cli.output import complain",
        "cli.output",
    ),
    "spark imports its old commands": (
        "spark.jobs.lag",
        "from offsetlog.spark.jobs import commands",
        "spark.jobs.commands",
    ),
    "an executor imports the store": (
        "spark.scan.files",
        "from offsetlog.store import OffsetStore",
        "store",
    ),
    "an executor imports the package": ("spark.scan.files", "import offsetlog", ""),
    "an executor names the store": ("spark.scan.runs", 'import_module("offsetlog.store")', "store"),
    "a table names a command": (
        "spark",
        '_MODULES = {"lag": "offsetlog.cli.spark.lag"}',
        "cli.spark.lag",
    ),
    "an executor imports the core": (
        "spark.jobs.tasks.hashing",
        "from offsetlog._native.store_core import StoreCore",
        "_native.store_core",
    ),
    "an executor imports a directory": (
        "spark.sink.staging",
        "from offsetlog.directory.log_directory import LogDirectory",
        "directory.log_directory",
    ),
    "an executor imports the driver": (
        "spark.sink.staging",
        "from offsetlog.spark.sink import writer",
        "spark.sink.writer",
    ),
}


@pytest.mark.parametrize(("module", "text", "target"), WRONG.values(), ids=WRONG)
def test_a_wrong_import_is_refused(module, text, target):
    assert refused(module, text) == [target]


WRONG_CYTHON = {
    "an extension imports a package": (
        "_native.files",
        ".pyx",
        "from offsetlog.directory import listing",
        "directory.listing",
    ),
    "an extension imports a module above it": (
        "_native.files",
        ".pyx",
        "from offsetlog.store import open",
        "store",
    ),
    "a declaration cimports an extension": (
        "_native.csrc",
        ".pxd",
        "from offsetlog._native.files cimport FileSystem",
        "_native.files",
    ),
    "status cimports an extension": (
        "_native.status",
        ".pyx",
        "from .partition cimport (\n    Partition,  # all of it\n)",
        "_native.partition",
    ),
    "buffers cimport an extension": (
        "_native.buffers",
        ".pyx",
        "cimport offsetlog._native.replay",
        "_native.replay",
    ),
    "an import within a function": (
        "_native.replay",
        ".pyx",
        "def f():\n    import offsetlog.cli.app",
        "cli.app",
    ),
    "a stub imports a package": (
        "_native.files",
        ".pyi",
        "from offsetlog.arguments import x",
        "arguments",
    ),
}


@pytest.mark.parametrize(
    ("module", "suffix", "text", "target"), WRONG_CYTHON.values(), ids=WRONG_CYTHON
)
def test_a_wrong_import_of_an_extension_is_refused(module, suffix, text, target):
    assert refused(module, text, suffix=suffix) == [target]


def test_a_wrong_import_of_a_package_is_refused():
    assert refused("directory", "from ..store import OffsetStore", is_package=True) == ["store"]
    assert refused("directory", "from .reading import find_partitions", is_package=True) == []


@pytest.mark.parametrize("module", ["newcomer", "newcomer.inner"])
def test_a_package_without_a_line_is_refused(module):
    with pytest.raises(AssertionError, match="say in RULE"):
        refused(module, "")


RIGHT = {
    "maintenance.cleaning": "from offsetlog.directory import snapshots\nimport logging",
    "lifecycle.open": "from offsetlog.maintenance.scheduler import Maintenance",
    "store": "from offsetlog.history.restore import Restorer",
    "spark.scan.files": "from offsetlog._native.scan import SegmentScan\nfrom offsetlog.directory import listing",
    "spark.sink.writer": "import offsetlog\nfrom offsetlog.spark.sink.staging import x",
    "cli.spark.audit": "from offsetlog.spark.jobs import audit",
}


@pytest.mark.parametrize(("module", "text"), RIGHT.items(), ids=RIGHT)
def test_a_right_import_is_not_refused(module, text):
    assert refused(module, text) == []
