"""The tiers of the tests, and how pytest-xdist spreads them over its workers.

Every test belongs to one tier, by a marker: `gate` (`make test`), `ci` (`.ci/run` runs these as well) or `long`
(only `make test-long` runs them). A test without a marker belongs to the tier of its folder, which stands here; a
test in a folder that is not listed here, or with two tiers, ends the run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TIERS = ("gate", "ci", "long")

#: The tier of a test that has no marker of its own, by its folder; "." is this one.
TIER_OF_FOLDER = {
    ".": "gate",
    "cli": "gate",
    "conformance": "gate",
    "crash": "gate",
    "kafka": "ci",
    "model": "gate",
    "spark": "gate",
    "store": "gate",
}

#: What these folders share is expensive (a Spark session, Kafka's templates), so that one worker runs each of them.
GROUPS = {"spark", "kafka"}


def folder_of(item: pytest.Item) -> str:
    """Returns the name of the folder below `tests/` that holds a test."""
    parts = item.path.relative_to(HERE).parts
    return parts[0] if len(parts) > 1 else "."


def assign_tier(item: pytest.Item) -> None:
    """Marks a test with the tier of its folder where it has none.

    Raises:
        pytest.UsageError: it has two tiers, or none.
    """
    own = sorted({mark.name for mark in item.iter_markers() if mark.name in TIERS})
    if len(own) > 1:
        raise pytest.UsageError(f"{item.nodeid} belongs to {len(own)} tiers ({', '.join(own)}); leave it one marker")
    if own:
        return
    tier = TIER_OF_FOLDER.get(folder_of(item))
    if tier is None:
        raise pytest.UsageError(
            f"{item.nodeid} belongs to no tier: mark it with one of {', '.join(TIERS)}, "
            f"or list its folder in {Path(__file__).name}"
        )
    item.add_marker(tier)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives each test its tier, and its group of workers."""
    for item in items:
        assign_tier(item)
        folder = folder_of(item)
        if folder in GROUPS:
            item.add_marker(pytest.mark.xdist_group(folder))
