"""The checks themselves: a wrong row is seen, whatever the column, and damaged bytes never break the oracle.

A conformance test that cannot fail proves nothing, so here it must.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from . import checks, oracle
from .kafka_dumps import read_dump
from .oracle_batches import read_segment
from .scenarios import BUNDLED, Scenario

GROUPS = Scenario("kafka-4.3.0/groups", BUNDLED / "kafka-4.3.0" / "groups")
WRAPPED = Scenario("kafka-old/0.10.2.2-snappy", BUNDLED / "kafka-old" / "0.10.2.2-snappy")
SEED = 20240611


def wrong(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return [*value, "x"]
    return {"type": "1", "data": {}} if value is None else None


@pytest.mark.parametrize("column", sorted(checks.DUMP_FIELDS - {"kind"}))
def test_a_wrong_column_of_the_dump_is_seen(column: str) -> None:
    rows = oracle.dump_rows(oracle.read_data(GROUPS.log))
    dump = read_dump(GROUPS.expected("dump-log.txt"))
    checks.check_dump(rows, dump)
    for at in (0, len(rows) // 2, len(rows) - 1):
        changed = [*rows[:at], rows[at] | {column: wrong(rows[at][column])}, *rows[at + 1 :]]
        with pytest.raises(AssertionError):
            checks.check_dump(changed, dump)


def test_a_missing_and_a_surplus_record_are_seen() -> None:
    rows = oracle.dump_rows(oracle.read_data(WRAPPED.log))
    dump = read_dump(WRAPPED.expected("dump-log.txt"))
    checks.check_dump(rows, dump)
    for changed in (rows[1:], rows[:-1], [*rows, rows[-1]]):
        with pytest.raises(AssertionError):
            checks.check_dump(changed, dump)


@pytest.mark.parametrize("column", ["group", "topic", "partition", "offset", "leader_epoch", "metadata"])
def test_a_wrong_column_of_the_offsets_is_seen(column: str) -> None:
    rows = oracle.offset_rows(oracle.state_of_data(GROUPS.log))
    checks.check_offsets(rows, GROUPS)
    with pytest.raises(AssertionError):
        checks.check_offsets([*rows[:-1], rows[-1] | {column: wrong(rows[-1][column])}], GROUPS)
    with pytest.raises(AssertionError):
        checks.check_offsets(rows[:-1], GROUPS)


@pytest.mark.parametrize("column", ["group", "type", "state", "protocol_type", "members", "simple"])
def test_a_wrong_column_of_the_groups_is_seen(column: str) -> None:
    rows = oracle.group_rows(oracle.state_of_data(GROUPS.log))
    checks.check_groups(rows, GROUPS)
    stable = next(at for at, row in enumerate(rows) if row["members"])
    other = [] if column == "members" else wrong(rows[stable][column])
    with pytest.raises(AssertionError):
        checks.check_groups([*rows[:stable], rows[stable] | {column: other}, *rows[stable + 1 :]], GROUPS)


def first_segment(scenario: Scenario) -> bytes:
    """The bytes of one segment with more than a few batches."""
    files = sorted(scenario.log.glob("__consumer_offsets-*/*.log"), key=lambda each: each.stat().st_size)
    return files[-1].read_bytes()[:3000]


@pytest.mark.parametrize("scenario", [GROUPS, WRAPPED], ids=lambda each: each.name)
def test_the_oracle_reads_a_cut_segment_up_to_the_cut(scenario: Scenario) -> None:
    data = first_segment(scenario)
    whole, _ = read_segment(data)
    ends = [batch.position + batch.size for batch in whole]
    for size in range(len(data)):
        batches, tail = read_segment(data[:size])
        assert batches == [batch for batch, end in zip(whole, ends, strict=True) if end <= size]
        assert (tail is None) == (size in [0, *ends])


@pytest.mark.parametrize("scenario", [GROUPS, WRAPPED], ids=lambda each: each.name)
def test_the_oracle_sees_a_flipped_bit(scenario: Scenario) -> None:
    """Every bit that a CRC covers; a flip elsewhere must not raise."""
    data = first_segment(scenario)
    whole, _ = read_segment(data)
    generator = random.Random(SEED)
    for _ in range(2000):
        at, bit = generator.randrange(len(data)), generator.randrange(8)
        damaged = bytearray(data)
        damaged[at] ^= 1 << bit
        batches, _ = read_segment(bytes(damaged))
        batch = next((each for each in whole if each.position <= at < each.position + each.size), None)
        if batch is not None and at - batch.position >= (21 if batch.magic == 2 else 16):
            assert batches == [each for each in whole if each.position < batch.position], (
                f"seed {SEED}: byte {at} bit {bit}"
            )
