"""Every test belongs to one tier, and `make test TESTS=...` runs nothing else."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tiers import HERE, TIER_OF_FOLDER, TIERS, arrange, assign_tier, check_groups, group_of

ROOT = HERE.parent


@dataclass
class Item:
    """As much of a test as a tier depends on."""

    name: str
    fixturenames: tuple[str, ...] = ()
    marks: list[pytest.MarkDecorator] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return HERE / self.name

    @property
    def nodeid(self) -> str:
        return f"tests/{self.name}::test_it"

    def iter_markers(self) -> list[pytest.Mark]:
        return [each.mark for each in self.marks]

    def add_marker(self, marker: str | pytest.MarkDecorator) -> None:
        self.marks.append(getattr(pytest.mark, marker) if isinstance(marker, str) else marker)

    def tiers(self) -> list[str]:
        return [mark.name for mark in self.iter_markers() if mark.name in TIERS]


@pytest.mark.parametrize(
    ("item", "tier"),
    [
        (Item("test_errors.py"), "gate"),
        (Item("store/test_open.py"), "gate"),
        (Item("kafka/test_cleaner.py"), "ci"),
        (Item("spark/test_source_splits.py"), "gate"),
        (Item("spark/test_job_audit.py", ("spark", "tmp_path")), "ci"),
        (Item("spark/test_source_spark.py", ("spark",), [pytest.mark.gate]), "gate"),
        (Item("store/test_open.py", (), [pytest.mark.long]), "long"),
    ],
    ids=lambda each: each.name if isinstance(each, Item) else None,
)
def test_a_test_has_its_own_tier_or_that_of_its_fixtures_or_folder(item, tier):
    assign_tier(item)
    assert item.tiers() == [tier]


def test_two_tiers_are_refused():
    item = Item("store/test_open.py", (), [pytest.mark.gate, pytest.mark.long])
    with pytest.raises(pytest.UsageError, match=r"belongs to 2 tiers \(gate, long\)"):
        assign_tier(item)


def test_a_folder_without_a_tier_is_refused():
    with pytest.raises(pytest.UsageError, match="belongs to no tier"):
        assign_tier(Item("elsewhere/test_it.py"))


def test_every_folder_of_tests_has_a_tier():
    folders = {path.relative_to(HERE).parts[0] for path in HERE.glob("*/test_*.py")}
    assert folders == set(TIER_OF_FOLDER) - {"."}


def test_what_takes_longest_comes_first_and_shares_a_worker():
    items = [Item("test_errors.py"), Item("spark/test_job_audit.py", ("spark",)), Item("spark/test_positions.py")]
    expected = [items[1], items[2], items[0]]
    arrange(items)
    assert items == expected
    assert [group_of(item) for item in items] == ["spark jobs", "spark/test_positions.py", "test_errors.py"]


def test_a_run_that_ignores_the_groups_is_refused():
    check_groups(["tests/test_errors.py::test_it[a]@test_it.py", "tests/test_errors.py::test_one@test_it.py"])
    with pytest.raises(pytest.UsageError, match=r"test_it\[a@b\] has none"):
        check_groups(["tests/test_errors.py::test_one@test_it.py", "tests/test_errors.py::test_it[a@b]"])


@pytest.mark.source_tree
@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_with_tests_named_make_runs_only_those():
    call = ["make", "--dry-run", "--no-print-directory", "test"]
    named = subprocess.run([*call, "TESTS=-k nothing"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "-m pytest -k nothing" in named
    assert "tests/c" not in named
    assert "tests/fuzz" not in named
