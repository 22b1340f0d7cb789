"""The engine is linked once; workflows run only commands that the tree has; the settings of the wheels agree."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
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
    assert built == classified == {"3.11", "3.12", "3.13", "3.14"}


def test_the_environment_of_a_build_is_that_of_development():
    development = PROJECT["project"]["optional-dependencies"]["dev"]
    assert set(PROJECT["build-system"]["requires"]) <= set(development)
