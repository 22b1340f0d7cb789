"""`offsetlog offsets` answers what the broker answered, for every real directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from . import checks, oracle
from .command_line import needs_command_line, output_of, output_of_process, rows_of
from .scenarios import SCENARIOS, Scenario

pytestmark = needs_command_line
every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)


def fingerprint(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Size, modification time in ns and content of every file."""
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    return {str(each): (each.stat().st_size, each.stat().st_mtime_ns, each.read_bytes()) for each in files}


@every_scenario
def test_offsets_are_those_the_broker_answered(scenario: Scenario) -> None:
    checks.check_offsets(rows_of("offsets", scenario.log), scenario)


@every_scenario
def test_offsets_in_every_field(scenario: Scenario) -> None:
    """Times, topic ids and places in the log too: the broker does not tell them, the oracle does."""
    expected = oracle.offset_rows(oracle.state_of_data(scenario.log))
    checks.same(by_slot(rows_of("offsets", scenario.log)), by_slot(expected))


def by_slot(rows: list[checks.Row]) -> dict[tuple[str, str, int], checks.Row]:
    """Rows by group, topic, partition."""
    return {(row["group"], row["topic"], row["partition"]): row for row in rows}


@every_scenario
def test_one_group(scenario: Scenario) -> None:
    every = rows_of("offsets", scenario.log)
    # No argument of a process can hold a NUL, which Kafka takes in a name.
    groups = sorted({row["group"] for row in every if "\0" not in row["group"]})
    for group in {groups[0], groups[-1], groups[len(groups) // 2]}:
        # An attached value: a group's name may begin with a dash.
        assert rows_of("offsets", scenario.log, f"--group={group}") == [row for row in every if row["group"] == group]


@every_scenario
def test_one_partition_directory(scenario: Scenario) -> None:
    every = rows_of("offsets", scenario.log)
    partition = every[0]["log_partition"]
    found = rows_of("offsets", scenario.log / f"{oracle.TOPIC}-{partition}")
    assert found == [row for row in every if row["log_partition"] == partition]


@every_scenario
def test_reading_changes_nothing(scenario: Scenario, tmp_path: Path) -> None:
    # Under the name of the scenario: what a path prints is kept, and a later test may get the same `tmp_path`.
    log = tmp_path / scenario.name
    shutil.copytree(scenario.log, log)
    before = fingerprint(log)
    assert rows_of("offsets", log) == rows_of("offsets", scenario.log)
    assert fingerprint(log) == before


@pytest.mark.parametrize("command", ["dump", "groups", "offsets"])
@pytest.mark.parametrize("name", ["kafka-4.3.0/groups", "kafka-old/0.10.2.2-snappy"])
def test_a_process_prints_the_same_bytes(command: str, name: str) -> None:
    """The other tests of this folder call the commands in their own process."""
    (scenario,) = (each for each in SCENARIOS if each.name == name)
    arguments = (command, str(scenario.log), "--format", "json")
    assert output_of_process(*arguments) == output_of(*arguments)
