"""The ways to run the contract suite, and what it says to those who name no manager."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.manager.contract_run import ROOT, run_contract
from tests.pages import module_of

pytestmark = pytest.mark.source_tree

HARNESS = """
from offsetlog.manager.testing.harness import ManagerHarness
from sqlite_offsets import create

class Harness(ManagerHarness):
    name = "sqlite"
    def create(self, directory):
        return create({"log.dir": str(directory)})
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a manager of a third party."""
    (tmp_path / "sqlite_offsets.py").write_text(module_of("docs/plugin.md", "sqlite_offsets"))
    (tmp_path / "harness.py").write_text(HARNESS)
    return tmp_path


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def test_a_module_of_two_lines_has_the_suite(package):
    (package / "conftest.py").write_text('pytest_plugins = ["offsetlog.manager.testing.plugin"]\n')
    (package / "test_own.py").write_text(
        "from offsetlog.manager.testing.test_contract import *\n"
        "from harness import Harness\n"
        "offset_managers = [Harness()]\n"
    )
    done = pytest_in(package, "--collect-only", "test_own.py")
    assert done.returncode == 0, done.stdout
    assert "test_own.py::TestCommits::test_a_position_comes_back[sqlite]" in done.stdout
    # Capabilities that SQLite lacks are not tested, and their refusals are.
    assert "TestFences" not in done.stdout
    assert "TestRefusals::test_what_needs_a_capability_is_refused[sqlite-generations: fence]" in (
        done.stdout
    )
    assert "deselected" in done.stdout


def test_a_configuration_file_names_the_manager(package):
    (package / "pytest.ini").write_text("[pytest]\noffset_manager = harness:Harness\n")
    done = pytest_in(
        package,
        *("-p", "offsetlog.manager.testing.plugin", "--pyargs", "offsetlog.manager.testing"),
        *("-k", "TestCommits", "-v", "--basetemp", str(package / "run")),
    )
    assert done.returncode == 0, done.stdout
    assert "offset manager sqlite: capabilities: none" in done.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no_such_module:Harness", "No module named 'no_such_module'"),
        ("harness:Nothing", "has no attribute 'Nothing'"),
        ("harness", "--offset-manager harness: "),
        ("harness:create", "must be a ManagerHarness or a list of them, not function"),
    ],
)
def test_a_harness_that_is_none_is_refused(package, name, text):
    run = run_contract(name, package)
    assert run.code == pytest.ExitCode.USAGE_ERROR
    assert text in run.output


def test_without_a_harness_nothing_is_skipped(package):
    plugin = ("-p", "offsetlog.manager.testing.plugin")
    done = pytest_in(package, *plugin, "--pyargs", "offsetlog.manager.testing")
    assert done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "no manager to test; name a harness with --offset-manager" in done.stdout + done.stderr
