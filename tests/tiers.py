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
    "spark": "gate",
    "spark_cluster": "long",
    "kafka": "ci",
    "devices": "ci",
    "installed": "gate",
    "model": "gate",
    "crash": "gate",
    "store": "gate",
    "simulation": "gate",
    "manager": "gate",
    "replication": "gate",
    "protocol": "gate",
    "coordinator": "gate",
    "server": "gate",
    "pytest_plugin": "gate",
    "conformance": "gate",
    "zookeeper": "gate",
    "migration": "gate",
    "cli": "gate",
    ".": "gate",
}

#: Fixtures that cost so much that a test without a marker which uses one belongs to a later tier.
TIER_OF_FIXTURE = {"spark": "ci"}


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
    dear = (TIER_OF_FIXTURE[name] for name in getattr(item, "fixturenames", ()) if name in TIER_OF_FIXTURE)
    tier = next(dear, TIER_OF_FOLDER.get(folder_of(item)))
    if tier is None:
        raise pytest.UsageError(
            f"{item.nodeid} belongs to no tier: mark it with one of {', '.join(TIERS)}, "
            f"or list its folder in tests/{Path(__file__).name}"
        )
    item.add_marker(tier)


def group_of(item: pytest.Item) -> str:
    """Returns the name of the tests that one worker runs together, for what their fixtures share.

    That is a file, or all tests that need Kafka's templates, a cluster of Spark, or a Spark session. The many of the
    second tier take two sessions: one for the jobs, and one for the data source.
    """
    folder = folder_of(item)
    if folder in ("kafka", "spark_cluster"):
        return folder
    if "spark" not in getattr(item, "fixturenames", ()):
        return item.path.relative_to(HERE).as_posix()
    is_of_gate = any(mark.name == "gate" for mark in item.iter_markers())
    return "spark jobs" if item.path.name.startswith("test_job_") and not is_of_gate else "spark"


def arrange(items: list[pytest.Item]) -> None:
    """Gives each test its tier and its group of workers, and puts first what takes longest."""
    for item in items:
        assign_tier(item)
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
    folders = list(TIER_OF_FOLDER)
    items.sort(key=lambda item: folders.index(folder_of(item)))


def check_groups(names: list[str]) -> None:
    """Refuses a run that ignores the groups: tests that share a fixture would run in several workers.

    The workers of pytest-xdist add the group to the name of a test, which pytest 9.2 no longer lets them do.

    Raises:
        pytest.UsageError: a test has no group in its name.
    """
    for name in names:
        if name.rfind("@") <= name.rfind("]"):
            raise pytest.UsageError(
                f"the workers do not know the groups of the tests ({name} has none): give --dist loadgroup, and "
                f"install the versions that pyproject.toml names (this is pytest {pytest.__version__})"
            )
