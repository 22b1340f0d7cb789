"""`offsetlog groups` agrees with what the broker listed and described, in what a log can tell."""

from __future__ import annotations

import pytest

from . import checks, oracle
from .command_line import needs_command_line, rows_of
from .scenarios import SCENARIOS, Scenario, having

pytestmark = needs_command_line


@pytest.mark.parametrize("scenario", having("groups.tsv", "groups.json"), ids=lambda each: each.name)
def test_groups_are_those_the_broker_listed(scenario: Scenario) -> None:
    checks.check_groups([without_times(row) for row in rows_of("groups", scenario.log)], scenario)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_groups_in_every_field(scenario: Scenario) -> None:
    expected = oracle.group_rows(oracle.state_of_data(scenario.log))
    ours = [without_times(row) | {"members": sorted_members(row)} for row in rows_of("groups", scenario.log)]
    checks.same({row["group"]: row for row in ours}, {row["group"]: row for row in expected})


def without_times(row: checks.Row) -> checks.Row:
    """A row without the time of the last commit, of which Kafka's commands say nothing."""
    return {name: value for name, value in row.items() if name != "last_commit"}


def sorted_members(row: checks.Row) -> list[dict[str, str]]:
    """The members by id; their order in the row is not part of the contract."""
    return sorted(row["members"], key=lambda each: each["member_id"])
