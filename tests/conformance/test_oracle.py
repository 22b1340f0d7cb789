"""The oracle's reading of every real directory equals what the broker that wrote it said about it.

This keeps three things honest at once: the parsers of Kafka's answers, the specification, and the oracle itself,
which other tests use as a second opinion.
"""

from __future__ import annotations

import pytest

from . import checks, oracle, renderings
from .kafka_answers import (
    FormattedGroup,
    FormattedOffset,
    read_formatted_groups,
    read_formatted_offsets,
    read_stable_offsets,
)
from .kafka_dumps import read_dump
from .oracle import LogRecord
from .scenarios import SCENARIOS, Scenario, having

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)


def those_having(*names: str) -> pytest.MarkDecorator:
    """Parametrised over the scenarios with one of these files."""
    return pytest.mark.parametrize("scenario", having(*names), ids=lambda each: each.name)


def test_the_bundled_scenarios_are_there() -> None:
    assert len(SCENARIOS) >= 8


@every_scenario
def test_offsets(scenario: Scenario) -> None:
    checks.check_offsets(oracle.offset_rows(oracle.state_of_data(scenario.log)), scenario)


@those_having("offsets-stable.tsv")
def test_unstable_offsets(scenario: Scenario) -> None:
    answers = read_stable_offsets(scenario.expected("offsets-stable.tsv"))
    unstable = {
        (row.committed.group, row.committed.topic, row.committed.partition) for row in answers if row.error != "NONE"
    }
    assert oracle.state_of_data(scenario.log).unstable() == unstable


@those_having("groups.tsv", "groups.json")
def test_groups(scenario: Scenario) -> None:
    checks.check_groups(oracle.group_rows(oracle.state_of_data(scenario.log)), scenario)


@those_having("dump-log.txt")
def test_dump(scenario: Scenario) -> None:
    log = oracle.read_data(scenario.log)
    dump = read_dump(scenario.expected("dump-log.txt"))
    checks.check_dump(oracle.dump_rows(log), dump)
    tails = {(segment.log_partition, segment.name): segment.tail.size for segment in log if segment.tail}
    assert tails == dump.tails
    assert sorted((segment.log_partition, segment.name) for segment in log) == sorted(dump.segments)


@those_having("dump-log-decoded-partly.txt")
def test_dump_decoded_partly(scenario: Scenario) -> None:
    dump = read_dump(scenario.expected("dump-log-decoded-partly.txt"))
    assert not dump.complete
    checks.check_dump(oracle.dump_rows(oracle.read_data(scenario.log)), dump)


def in_dump_order(scenario: Scenario) -> list[LogRecord]:
    """The records, by partition and segment."""
    entries = [entry for entry in oracle.records(oracle.read_data(scenario.log)) if entry.record]
    return sorted(entries, key=lambda entry: (entry.log_partition, entry.segment))


@those_having("dump-log.txt")
def test_sizes_raw_content_and_message_crcs(scenario: Scenario) -> None:
    """Facts that only the bytes show: sizes of key and value, raw content, the CRC of messages in wrappers."""
    dump = read_dump(scenario.expected("dump-log.txt"))
    dumped = sorted(dump.records, key=lambda record: (record.log_partition, record.segment))
    for entry, record in zip(in_dump_order(scenario), dumped, strict=True):
        found = entry.record
        assert found is not None
        place = (record.log_partition, record.segment, record.offset)
        if record.key_size is not None:
            assert (place, len(found.key or b"")) == (place, record.key_size)
        if record.value_size is not None:
            assert (place, -1 if found.value is None else len(found.value)) == (place, record.value_size)
        if found.message_crc is not None:
            assert (place, found.message_crc) == (place, record.crc)
        if record.key is None and record.marker is None and not is_in_words(record.content):
            if renderings.printed_nothing(found.value, record.content):
                continue
            ours = renderings.raw(found.key, found.value)
            assert (place, renderings.squeezed(ours)) == (place, renderings.squeezed(record.content))


def is_in_words(content: str) -> bool:
    """The tool decoded the record itself."""
    return content.startswith((" key: offset::", " key: offset_commit::", " key: group_metadata::"))


def formatted_offset(entry: LogRecord, like: FormattedOffset) -> FormattedOffset:
    """Our record as the formatter prints it, without what this version leaves out."""
    assert entry.key is not None
    assert entry.record is not None
    name = entry.key["data"]
    value = entry.value["data"] if entry.value else {}
    tombstone = entry.value is None

    def shown(of_kafka: object, of_ours: int | None) -> int | None:
        return None if of_kafka is None or tombstone else of_ours

    return FormattedOffset(
        None if like.log_partition is None else entry.log_partition,
        None if like.log_offset is None else entry.record.offset,
        name["group"],
        name["topic"],
        name["partition"],
        value.get("offset"),
        value.get("metadata"),
        shown(like.leader_epoch, value.get("leaderEpoch", -1)),
        value.get("commitTimestamp"),
        shown(like.expire_timestamp, value.get("expireTimestamp", -1)),
    )


@those_having("formatter-offsets.txt")
def test_formatted_offsets(scenario: Scenario) -> None:
    formatted = read_formatted_offsets(scenario.expected("formatter-offsets.txt"))
    entries = [entry for entry in in_dump_order(scenario) if entry.kind == "offset_commit"]
    # Up to 0.9.0.1 the records of the partitions come in turns: only within a group, so within a partition, in log
    # order.
    entries.sort(key=name_of)
    formatted.sort(key=lambda each: each.group)
    assert [formatted_offset(*pair) for pair in zip(entries, formatted, strict=True)] == formatted


def name_of(entry: LogRecord) -> str:
    """The group that a record is about."""
    assert entry.key is not None
    name = entry.key["data"]["group"]
    assert isinstance(name, str)
    return name


@those_having("formatter-groups.txt")
def test_formatted_groups(scenario: Scenario) -> None:
    formatted = read_formatted_groups(scenario.expected("formatter-groups.txt"))
    entries = [entry for entry in in_dump_order(scenario) if entry.kind == "group_metadata"]
    entries.sort(key=name_of)
    formatted.sort(key=lambda each: each.group)
    assert len(entries) == len(formatted)
    for entry, group in zip(entries, formatted, strict=True):
        same_group(entry, group)


def same_group(entry: LogRecord, group: FormattedGroup) -> None:
    """Our group record is the one that Kafka's formatter printed."""
    assert entry.key is not None
    assert entry.key["data"]["group"] == group.group
    assert (entry.value is None) == group.tombstone
    if entry.value is None:
        return
    value = entry.value["data"]
    if group.value is not None:
        assert entry.value == group.value | {"version": str(group.value["version"])}
    if group.generation is not None:
        assert value["generation"] == group.generation
    if value["members"] or group.protocol_type:
        # 0.10.2.2 to 1.1.1 print None for the type of an empty group, whatever its record says.
        assert value["protocolType"] == group.protocol_type
    members = sorted(
        (each["memberId"], each["clientId"], each["clientHost"], each["sessionTimeout"]) for each in value["members"]
    )
    assert tuple(members) == group.members
