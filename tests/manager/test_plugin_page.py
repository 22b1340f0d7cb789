"""The page of the plugin: its manager of a third party, and its tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offsetlog import errors
from offsetlog.manager.interface import Capability
from offsetlog.manager.settings import PROPERTIES, from_properties
from tests.manager.contract_run import run_contract
from tests.pages import ROOT, module_of

pytestmark = pytest.mark.source_tree

PAGE = "docs/plugin.md"
TEXT = (ROOT / PAGE).read_text()


def install(root: Path) -> None:
    """Writes the third party's distribution, as an installer would."""
    for name in ("sqlite_offsets", "sqlite_harness"):
        (root / f"{name}.py").write_text(module_of(PAGE, name))
    facts = root / "sqlite_offsets-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: sqlite-offsets\nVersion: 1.0\n")
    (entry,) = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    group, name, value = re.fullmatch(
        r'\[project.entry-points."(.*)"\]\n(\w+) = "(.*)"\n', entry
    ).groups()
    (facts / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")


def test_a_third_party_s_manager_keeps_the_contract(tmp_path):
    install(tmp_path)
    run = run_contract("sqlite_harness:SqliteHarness", tmp_path)
    assert run.code == 0, run.output
    tests = {test for _, test in run.outcomes}
    assert len(tests) > 50
    assert "test_what_needs_a_capability_is_refused" in tests
    assert set().union(*run.outcomes.values()) == {"passed"}, run.output


def test_it_takes_forty_lines():
    lines = [line for line in module_of(PAGE, "sqlite_offsets").splitlines()[1:] if line.strip()]
    assert len(lines) <= 40


def rows(heading: str) -> list[list[str]]:
    """The rows of the table whose first column has a heading."""
    table = re.search(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", TEXT, re.MULTILINE)[1]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]


def test_the_table_has_every_property_with_its_default():
    found = {row[0].strip("`"): row[1].strip("`") for row in rows("property")}
    assert found.keys() == PROPERTIES
    plain = {"log.dir": "data"}
    for name, default in found.items():
        if not default.startswith("none"):
            assert from_properties({**plain, name: default}) == from_properties(plain), name


def test_the_table_of_errors_is_that_of_the_code():
    for names, code, retry, _ in rows("error"):
        for name in re.findall(r"`(\w+)`", names):
            kind = getattr(errors, name)
            assert (kind.error_code, kind.retriable) == (int(code), retry == "yes"), name


def test_the_table_of_capabilities_is_that_of_the_interface():
    assert [row[0].strip("`") for row in rows("capability")] == [each.name for each in Capability]
