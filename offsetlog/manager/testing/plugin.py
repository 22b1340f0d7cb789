"""The pytest plugin of the contract suite: finds the harnesses and selects their tests."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offsetlog.manager.interface import Capability
from offsetlog.manager.testing.harness import ManagerHarness
from offsetlog.manager.testing.site import ManagerSite

#: The variable with which a test module lists its harnesses.
MODULE_VARIABLE = "offset_managers"
_FIXTURE = "manager_harness"
_harnesses = pytest.StashKey[list[ManagerHarness]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option `--offset-manager`, which is `offset_manager` in configuration files."""
    text = "a harness, a harness class or a list of harnesses, named as package.module:name"
    group = parser.getgroup("offsetlog", "the contract tests of offset managers")
    group.addoption("--offset-manager", action="append", default=[], metavar="NAME", help=text)
    parser.addini("offset_manager", text, type="args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Finds the harnesses that the command line or the configuration names."""
    needs = "needs(*capabilities): a contract test for managers that have all of these capabilities"
    lacks = "lacks(*capabilities): a contract test for managers that have none of these capabilities"
    config.addinivalue_line("markers", needs)
    config.addinivalue_line("markers", lacks)
    named = config.getoption("--offset-manager") or config.getini("offset_manager")
    config.stash[_harnesses] = [each for name in named for each in _loaded(name)]


def _loaded(name: str) -> list[ManagerHarness]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as failure:
        raise pytest.UsageError(f"--offset-manager {name}: {failure}") from failure
    return _listed(found, f"--offset-manager {name}")


def _listed(found: Any, where: str) -> list[ManagerHarness]:
    made = found() if isinstance(found, type) else found
    listed = made if isinstance(made, list | tuple) else [made]
    for each in listed:
        if not isinstance(each, ManagerHarness):
            kind = type(each).__name__
            raise pytest.UsageError(f"{where} must be a ManagerHarness or a list of them, not {kind}")
    return list(listed)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Reports the tested managers and their capabilities."""
    lines = []
    for each in config.stash[_harnesses]:
        has = ", ".join(sorted(capability.value for capability in each.capabilities)) or "none"
        lines.append(f"offset manager {each.name}: capabilities: {has}")
    return lines


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs each test of the contract for each harness."""
    if _FIXTURE not in metafunc.fixturenames:
        return
    own = getattr(metafunc.module, MODULE_VARIABLE, None)
    harnesses = metafunc.config.stash[_harnesses] if own is None else _listed(own, MODULE_VARIABLE)
    if not harnesses:
        # An error of the collection would be repeated for each test, so pytest is stopped instead.
        pytest.exit(
            f"{metafunc.module.__name__}: no manager to test; name a harness with "
            f"--offset-manager, or list harnesses in {MODULE_VARIABLE}",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )
    names = [each.name for each in harnesses]
    metafunc.parametrize(_FIXTURE, harnesses, ids=names, indirect=True, scope="function")


def is_chosen(item: pytest.Item) -> bool:
    """Whether a test applies to its manager, which depends on the manager's capabilities."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or _FIXTURE not in callspec.params:
        return True
    has: frozenset[Capability] = callspec.params[_FIXTURE].capabilities
    needed = {each for mark in item.iter_markers("needs") for each in mark.args}
    absent = {each for mark in item.iter_markers("lacks") for each in mark.args}
    return needed <= has and not absent & has


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the tests that do not apply to their manager's capabilities."""
    left_out = [item for item in items if not is_chosen(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if is_chosen(item)]


@pytest.fixture
def manager_harness(request: pytest.FixtureRequest) -> ManagerHarness:
    """The harness of the manager under test."""
    harness: ManagerHarness = request.param
    return harness


@pytest.fixture
def manager_root(tmp_path: Path) -> Path:
    """The directory of a test; override this fixture to place it elsewhere."""
    return tmp_path


@pytest.fixture
def manager_site(manager_harness: ManagerHarness, manager_root: Path) -> Iterator[ManagerSite]:
    """The managers of one test."""
    site = ManagerSite(manager_harness, manager_root)
    try:
        yield site
    finally:
        site.close()
