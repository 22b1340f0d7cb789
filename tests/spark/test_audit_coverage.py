"""How much of a log an audit says it could see: also of a log partition of which nothing is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import offsetlog
from offsetlog import MaintenanceConfig
from offsetlog.spark.jobs.audit import STALL_MS, covered
from offsetlog.spark.jobs.audit_coverage import coverage, log_ends

from .missing_parts import SMALL, build
from .reading import rows_of

MINUTE = 60_000


def audit_of(rows: list[dict[str, int]], until: int | None = None) -> Any:
    table = SimpleNamespace(collect=lambda: rows)
    return SimpleNamespace(coverage=table, stall_ms=STALL_MS, until=until, incomplete=())


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two log partitions; all that was in one of them was deleted, and cleaned away."""
    path = tmp_path_factory.mktemp("coverage") / "data"
    config = replace(SMALL, segment_bytes=8192)
    off = MaintenanceConfig(enabled=False, delete_retention_ms=0)
    with offsetlog.open(path, partitions=2, config=config, maintenance=off) as store:
        for number in range(200):
            store.commit_one("g0", "t", number % 40, number)
            store.commit_one("g1", "t", number % 40, number)
        store.delete("g0", [("t", number) for number in range(40)])
        for _ in range(3):
            store.compact(again=True)
    return path


def test_stalls_until_later_are_within_what_was_seen() -> None:
    whole = {"log_end": 100, "gone": 0}
    times = {"first_at": 0, "last_at": MINUTE}
    assert not covered(audit_of([whole]), times).is_long_enough
    seen = covered(audit_of([whole], until=60 * MINUTE), times)
    assert seen.is_long_enough
    assert seen.nothing("stalls", "Every position moved.") == "Every position moved."
    assert not any("can be found" in line for line in seen.lines())
    # A time before the last commit makes nothing shorter.
    assert covered(audit_of([whole], until=1), times).span_ms == MINUTE
    assert covered(audit_of([whole], until=1), {"first_at": None, "last_at": None}).span_ms is None


@pytest.mark.spark
def test_a_log_partition_ends_where_its_files_say(spark: Any, cleaned: Path, tmp_path: Path) -> None:
    left = {row["log_partition"] for row in rows_of(cleaned, view="records", columns="log_partition")}
    ends = dict(log_ends(spark, cleaned))
    (empty,) = set(ends) - left
    assert ends[empty] == 240
    assert log_ends(spark, cleaned, partitions=str(empty)) == [(empty, 240)]
    whole = build(tmp_path / "data", "closed")
    rows = rows_of(whole, view="records", columns="log_partition,log_offset")
    assert log_ends(spark, whole) == [
        (number, max(row["log_offset"] for row in rows if row["log_partition"] == number) + 1) for number in (0, 1)
    ]


@pytest.mark.spark
def test_what_was_cleaned_away_whole_is_counted(spark: Any, cleaned: Path) -> None:
    rows = rows_of(cleaned, view="records", columns="log_partition,log_offset")
    pairs = [(row["log_partition"], row["log_offset"]) for row in rows]
    records = spark.createDataFrame(pairs, "log_partition int, log_offset bigint")
    ends = dict(log_ends(spark, cleaned))
    found = {row["log_partition"]: row.asDict() for row in coverage(records, list(ends.items())).collect()}
    for number, end in ends.items():
        count = sum(each == number for each, _ in pairs)
        assert found[number] == {"log_partition": number, "records": count, "log_end": end, "gone": end - count}
    times = {"first_at": 0, "last_at": MINUTE}
    seen = covered(audit_of(list(found.values())), times)
    assert not seen.is_whole
    assert seen.gone == sum(ends.values()) - len(pairs)
    # Without the ends the last record of each is the end, as for records of somebody's own.
    assert {row["log_partition"] for row in coverage(records).collect()} == {number for number, _ in pairs}
