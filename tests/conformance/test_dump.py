"""`offsetlog dump` agrees record by record with Kafka's own dump tool, and in every field with the oracle."""

from __future__ import annotations

import pytest

from . import checks, oracle, renderings
from .command_line import needs_command_line, rows_of
from .kafka_dumps import read_dump
from .scenarios import SCENARIOS, Scenario, having

pytestmark = needs_command_line
every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)


@pytest.mark.parametrize("scenario", having("dump-log.txt"), ids=lambda each: each.name)
def test_dump_is_kafkas(scenario: Scenario) -> None:
    checks.check_dump(rows_of("dump", scenario.log), read_dump(scenario.expected("dump-log.txt")))


@pytest.mark.parametrize("scenario", having("dump-log-decoded-partly.txt"), ids=lambda each: each.name)
def test_dump_is_kafkas_where_its_decoder_went(scenario: Scenario) -> None:
    checks.check_dump(rows_of("dump", scenario.log), read_dump(scenario.expected("dump-log-decoded-partly.txt")))


@every_scenario
def test_dump_in_every_field(scenario: Scenario) -> None:
    """The older tools print raw bytes or nothing; the oracle, which agrees with them on the bytes, has every field."""
    ours = by_place(rows_of("dump", scenario.log))
    checks.same(ours, by_place(oracle.dump_rows(oracle.read_data(scenario.log))))


def by_place(rows: list[checks.Row]) -> dict[tuple[int, str, int, int | None], checks.Row]:
    """Rows by their place, without what the contract leaves open.

    That is the time of a batch without records, and whether the subscription of a member is base64 or taken apart.
    """
    found = {}
    for row in rows:
        left_open: checks.Row = {}
        if row["kind"] == "empty":
            left_open = {"timestamp": None}
        elif row["kind"] == "group_metadata":
            left_open = {"value": renderings.opened(row["value"])}
        found[row["log_partition"], row["segment"], row["position"], row["log_offset"]] = row | left_open
    assert len(found) == len(rows)
    return found


@every_scenario
def test_one_segment_file(scenario: Scenario) -> None:
    """A segment on its own is read like one in its directory."""
    every = rows_of("dump", scenario.log)
    row = max(every, key=lambda each: (each["segment"], -each["log_partition"]))
    path = scenario.log / f"{oracle.TOPIC}-{row['log_partition']}" / row["segment"]
    place = (row["log_partition"], row["segment"])
    assert rows_of("dump", path) == [each for each in every if (each["log_partition"], each["segment"]) == place]
