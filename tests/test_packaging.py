"""The engine is linked once, by one build; workflows run only commands of the tree; the wheels' settings agree."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement
from wheel_contents import NATIVE_BYTES_MAX, problems_of

import offsetlog._native

pytestmark = [pytest.mark.gate, pytest.mark.source_tree]

ROOT = Path(__file__).parent.parent
NATIVE = Path(offsetlog._native.__file__).parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDER = "offsetlog/_native"
IN_WHEEL = {
    f"{FOLDER}/liboffsetlog.so.abi": b"",
    f"{FOLDER}/codec.abi.so": b"",
    f"{FOLDER}/codec.pyi": b"",
    "offsetlog/py.typed": b"",
    "offsetlog-1.data/data/share/man/man1/offsetlog.1": b"",
    "offsetlog-1.dist-info/licenses/LICENSE": b"",
}


def symbols(path: Path, *options: str) -> set[str]:
    done = subprocess.run(["nm", *options, str(path)], capture_output=True, text=True, check=True, timeout=60)
    return {line.split()[-1].partition("@")[0] for line in done.stdout.splitlines()}


def library() -> Path:
    (found,) = NATIVE.glob(f"liboffsetlog.so.*{os.uname().machine}*")
    return found


@pytest.mark.parametrize("path", sorted(NATIVE.glob("*.so")), ids=lambda path: path.name.partition(".")[0])
def test_an_extension_holds_nothing_of_the_engine(path):
    shown = {name for name in symbols(library(), "-D", "--defined-only") if name.startswith("ol_")}
    assert len(shown) > 200
    assert not shown & symbols(path, "--defined-only")


def test_the_library_shows_what_extensions_call_and_no_more():
    asked = {name for path in NATIVE.glob("*.so") for name in symbols(path, "-D", "--undefined-only")}
    shown = {name for name in symbols(library(), "-D", "--defined-only") if name.startswith("ol_")}
    assert shown == {name for name in asked if name.startswith("ol_")}


#: Opens a store with one build, takes the files of the other by rename as pip does, imports what was not loaded yet.
REPLACED_WHILE_IN_USE = """
import os, sys
from pathlib import Path
import offsetlog
package, other, place = Path(offsetlog.__file__).parent, Path(sys.argv[1]), sys.argv[2]
with offsetlog.open(place, create="anywhere") as store:
    store.commit_one("g", ("t", 0), 1)
    assert store.fetch_one("g", ("t", 0)).offset == 1
    for path in other.iterdir():
        os.replace(path, package / "_native" / path.name)
    for name in ("scan", "frame_stream"):
        assert f"offsetlog._native.{name}" not in sys.modules
        try:
            __import__(f"offsetlog._native.{name}")
        except ImportError as error:
            print(error)
"""


def mark() -> str:
    (name,) = (name for name in symbols(library(), "-D", "--defined-only") if name.startswith("ol_package_"))
    return name


@pytest.mark.parametrize("path", sorted(NATIVE.glob("*.so")), ids=lambda path: path.name.partition(".")[0])
def test_an_extension_asks_for_the_library_of_its_build(path):
    assert mark() in symbols(path, "-D", "--undefined-only")


def test_extensions_of_another_build_are_refused_by_a_process_that_runs(tmp_path):
    package, other = tmp_path / "offsetlog", tmp_path / "other"
    shutil.copytree(NATIVE.parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    other.mkdir()
    of_other = mark()[:-12].encode() + b"0" * 12
    for path in [*NATIVE.glob("*.so"), library()]:
        (other / path.name).write_bytes(path.read_bytes().replace(mark().encode(), of_other))
    done = subprocess.run(
        [sys.executable, "-c", REPLACED_WHILE_IN_USE, str(other), str(tmp_path / "store")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("ol_package_was_replaced_restart_this_process_" in line for line in lines)


@pytest.fixture
def setup_module(monkeypatch) -> ModuleType:
    monkeypatch.chdir(ROOT)
    spec = importlib.util.spec_from_file_location("setup_of_offsetlog", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_the_mark_follows_versions_headers_and_flags_and_no_source(setup_module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header, source = tmp_path / "csrc" / "log" / "log.h", tmp_path / "csrc" / "log" / "log.c"
    declarations = tmp_path / "offsetlog" / "_native" / "csrc.pxd"
    for path in (header, source, declarations):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("before")
    first = setup_module.build_mark("1.0")
    source.write_text("after")
    assert setup_module.build_mark("1.0") == first
    marks = {first, setup_module.build_mark("1.1")}
    header.write_text("after")
    marks.add(setup_module.build_mark("1.0"))
    declarations.write_text("after")
    marks.add(setup_module.build_mark("1.0"))
    monkeypatch.setattr(setup_module, "USER_FLAGS", ["-fshort-enums"])
    marks.add(setup_module.build_mark("1.0"))
    assert len(marks) == 5


def test_a_library_that_lacks_what_extensions_ask_for_ends_the_build(setup_module, tmp_path):
    copied = tmp_path / library().name
    shutil.copyfile(library(), copied)
    setup_module.check_exports(copied, [mark()])
    with pytest.raises(SystemExit, match="1 of 2 names that extensions ask for, the first of them ol_absent"):
        setup_module.check_exports(copied, [mark(), "ol_absent"])
    # The next build links it again.
    assert not copied.exists()


def test_the_build_lists_symbols_by_the_program_of_nm(setup_module, tmp_path, monkeypatch):
    program = tmp_path / "cross-nm"
    program.write_text("#!/bin/sh\necho '                 U ol_of_another_machine'\n")
    program.chmod(0o755)
    monkeypatch.setenv("NM", f"{program} --plugin=lto")
    assert "ol_of_another_machine" in setup_module.exported_names([tmp_path / "absent.o"])
    monkeypatch.setenv("NM", str(tmp_path / "absent"))
    with pytest.raises(SystemExit, match="install binutils, or set NM"):
        setup_module.exported_names([])


@pytest.mark.parametrize("path", sorted(NATIVE.glob("*.so")), ids=lambda path: path.name.partition(".")[0])
def test_an_extension_looks_for_the_library_beside_itself_first(path):
    done = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True, timeout=60)
    (found,) = re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", done.stdout)
    assert found.split(":")[0] == "$ORIGIN"


#: Names as musl and the headers of older C libraries have them.
OTHER_LIBRARY = """
#include <string.h>
#include <sys/mman.h>
#undef MADV_POPULATE_WRITE
int posix_close(int descriptor, int flags);
int __xpg_strerror_r(int sys_errno, char *buffer, size_t size);
#define strerror_r __xpg_strerror_r
"""


def test_the_engine_compiles_with_the_names_of_other_c_libraries(tmp_path):
    header = tmp_path / "other_library.h"
    header.write_text(OTHER_LIBRARY)
    sources = [str(path) for path in sorted((ROOT / "csrc").rglob("*.c")) if "testing" not in path.parts]
    call = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-pthread", "-Wall", "-Werror", "-fsyntax-only", "-Icsrc"]
    done = subprocess.run(
        [*call, "-include", str(header), *sources], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_a_wheel_with_the_engine_once_is_taken():
    assert problems_of(IN_WHEEL) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({f"{FOLDER}/liboffsetlog.so.other": b""}, "the engine is linked once"),
        ({f"{FOLDER}/codec.abi.so": b"\0.symtab\0"}, "was not stripped: it has .symtab"),
        ({f"{FOLDER}/codec.abi.so": b"\0.debug_info\0"}, "was not stripped: it has .debug_info"),
        ({f"{FOLDER}/codec.abi.so": bytes(NATIVE_BYTES_MAX + 1)}, "at most 6,000,000 are allowed"),
        ({f"{FOLDER}/scan.abi.so": b""}, "scan.pyi is missing"),
        ({f"{FOLDER}/scan.pyx": b""}, "does not belong into a wheel"),
    ],
)
def test_a_wheel_that_is_wrong_is_refused(change, problem):
    (found,) = problems_of(IN_WHEEL | change)
    assert problem in found


def steps(path: Path) -> list[dict[str, object]]:
    return [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]


def test_there_are_workflows():
    assert [path.stem for path in WORKFLOWS] == ["gate", "nightly", "wheels"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_says_when_it_runs_and_what_it_may(path):
    content = yaml.safe_load(path.read_text())
    # YAML 1.1 takes the key "on" for a truth value.
    assert content[True]
    assert content["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 360 for job in content["jobs"].values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_its_actions(path):
    actions = [str(step["uses"]) for step in steps(path) if "uses" in step]
    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", action)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_the_tree_has(path):
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    for command in (str(step["run"]) for step in steps(path) if "run" in step):
        program, *arguments = command.split()
        if program == "make":
            assert set(arguments) <= set(targets), command
        elif program != "sudo":
            assert os.access(ROOT / program, os.X_OK), command


def test_the_pythons_of_the_wheels_are_those_of_the_classifiers():
    classified = {text.rpartition(":: ")[2] for text in PROJECT["project"]["classifiers"] if ":: 3." in text}
    built = {f"3.{name.removeprefix('cp3').removesuffix('-*')}" for name in PROJECT["tool"]["cibuildwheel"]["build"]}
    assert classified == {"3.11", "3.12", "3.13", "3.14"}
    assert built == classified | {"3.14t"}


def test_the_environment_of_a_build_is_that_of_development():
    development = PROJECT["project"]["optional-dependencies"]["dev"]
    assert set(PROJECT["build-system"]["requires"]) <= set(development)


def test_the_locked_versions_are_those_that_pyproject_allows():
    """`make` installs the locked versions without looking at the others."""
    project = PROJECT["project"]
    extras = project["optional-dependencies"].values()
    wanted = [Requirement(text) for text in (*project["dependencies"], *itertools.chain(*extras))]
    wanted += [Requirement(text) for text in PROJECT["tool"]["cibuildwheel"]["test-requires"]]
    text = "".join((ROOT / name).read_text() for name in ("requirements-dev.lock", "requirements-docs.lock"))
    lines = [line.split("==") for line in text.splitlines() if line and not line.startswith("#")]
    locked = dict(lines)
    assert len(locked) == len(lines), "both files lock the same package"
    for each in wanted:
        if each.name != "offsetlog":
            assert each.specifier.contains(locked[each.name]), f"{each} is locked at {locked[each.name]}"
