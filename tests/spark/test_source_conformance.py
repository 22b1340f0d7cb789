"""A batch reads what Kafka printed of its own logs, whatever the size of a split."""

from __future__ import annotations

import random
from typing import Any

import pytest
from conformance import checks, oracle
from conformance.kafka_dumps import read_dump
from conformance.scenarios import SCENARIOS, Scenario, having
from conformance.test_dump import by_place

from offsetlog._native.records import decode_key, decode_value

from .reading import Row, rows_of, table_of

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)


def by_slot(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["group"], row["topic"], row["partition"]))


@every_scenario
@pytest.mark.parametrize("runs", [1, 3, 8])
def test_offsets_are_those_the_broker_answered(scenario: Scenario, runs: int) -> None:
    rows = by_slot(rows_of(scenario.log, view="offsets", minPartitions=runs))
    checks.check_offsets(rows, scenario)
    expected = oracle.offset_rows(oracle.state_of_data(scenario.log))
    assert rows == by_slot(expected)


@every_scenario
@pytest.mark.parametrize("runs", [1, 3, 8])
def test_groups_are_those_the_broker_listed(scenario: Scenario, runs: int) -> None:
    rows = sorted(rows_of(scenario.log, view="groups", minPartitions=runs), key=lambda row: row["group"])
    if scenario in having("groups.tsv", "groups.json"):
        checks.check_groups(rows, scenario)
    expected = oracle.group_rows(oracle.state_of_data(scenario.log))
    checks.same({row["group"]: row for row in rows}, {row["group"]: row for row in expected})


# -------------------------------------------------------------------------------------------------------------- records


def dumped(records: list[Row], batches: list[Row]) -> list[Row]:
    """The rows that `offsetlog dump` prints, from the views of records and batches."""
    at = {(batch["log_partition"], batch["segment"], batch["position"]): batch for batch in batches}
    places = {(row["log_partition"], row["segment"], row["position"]) for row in records}
    rows = [dumped_row(row, at[row["log_partition"], row["segment"], row["position"]]) for row in records]
    return rows + [dumped_row(None, batch) for place, batch in at.items() if place not in places]


def dumped_row(record: Row | None, batch: Row) -> Row:
    row = {name: batch[name] for name in checks.DUMP_FIELDS if name in batch}
    row["batch_size"], row["partition_leader_epoch"] = batch["size"], batch["leader_epoch"]
    row |= {"log_offset": None, "timestamp": None, "headers": [], "kind": "empty", "key": None, "value": None}
    if record is None:
        return row
    for name in ("last_offset", "batch_size", "magic", "codec", "producer_id", "producer_epoch"):
        assert record[name] == row[name]
    # The header of a compressed message of the old formats does not tell where it begins; its records do.
    row |= {name: record[name] for name in ("base_offset", "log_offset", "timestamp", "timestamp_type", "kind")}
    assert record["base_offset"] == batch["base_offset"] or (batch["magic"] < 2 and batch["codec"] != "none")
    row["headers"] = record["header_keys"]
    row["key"], row["value"] = content_of(record)
    return row


def content_of(record: Row) -> tuple[Any, Any]:
    if record["kind"] == "marker":
        fields = {
            "type": record["control"],
            "coordinator_epoch": int.from_bytes(record["value"][2:6], "big", signed=True),
        }
        return fields, fields
    key = decode_key(record["key"])
    value = None if record["value"] is None else decode_value(int(key["type"]), record["value"])
    return key, value


@every_scenario
def test_records_are_those_that_kafka_dumped(scenario: Scenario) -> None:
    batches = table_of(scenario.log, view="batches")
    assert batches.equals(table_of(scenario.log, view="batches", splitBytes=1))
    assert all(batches.column("crc_ok").to_pylist())
    whole = table_of(scenario.log, view="records")
    rows = dumped(whole.to_pylist(), batches.to_pylist())
    for name in ("dump-log.txt", "dump-log-decoded-partly.txt"):
        if scenario.expected(name).exists():
            checks.check_dump(rows, read_dump(scenario.expected(name)))
    checks.same(by_place(rows), by_place(oracle.dump_rows(oracle.read_data(scenario.log))))
    for size in (1, random.Random(scenario.name).randrange(2, 10_000)):
        assert table_of(scenario.log, view="records", splitBytes=size).equals(whole)
