"""A log keeps to the value versions that its brokers read: before 2.1 a broker loads no partition with a newer one."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from conformance.scenarios import SCENARIOS, Scenario

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, StoreConfig, TopicPartition, errors
from offsetlog._native.scan import SegmentScan

from .test_history import _partitions_of

BY_HAND = MaintenanceConfig(enabled=False)
#: A killed broker leaves zeros after its last batch, which a plain scan takes for damage.
OLD = [each for each in SCENARIOS if each.name.startswith("kafka-old/") and "killed" not in each.name]
ARROW = pa.schema({"group": pa.string(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()})
COLUMNS = ["log_offset", "group", "partition", "value_version", "leader_epoch", "offset"]


def values(directory: Path) -> Iterator[dict[str, object]]:
    """The records of offsets with a value, of one log partition."""
    for path in sorted(directory.glob("*.log")):
        with SegmentScan(str(path), "records", COLUMNS) as scan:
            while (rows := scan.read(10_000)) is not None and rows.num_rows:
                yield from (row for row in rows.to_pylist() if row["value_version"] is not None and row["group"])


def versions(directory: Path, start: int = 0) -> set[object]:
    return {row["value_version"] for row in values(directory) if row["log_offset"] >= start}


@pytest.mark.parametrize("scenario", OLD, ids=lambda each: each.name.removeprefix("kafka-old/"))
def test_every_way_of_committing_writes_versions_that_the_log_has(scenario: Scenario, tmp_path: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(scenario.log, log)
    count = _partitions_of(log)
    directories = sorted(log.glob("__consumer_offsets-*"))
    known = {directory: max([1, *versions(directory)]) for directory in directories}
    ends = {}
    with offsetlog.open(log, count, "process", maintenance=BY_HAND) as store:
        for group in store.groups():
            positions = store.fetch(group)
            if not positions:
                continue
            number = store._core.number_of(group)
            ends.setdefault(log / f"__consumer_offsets-{number}", store._core.partition(number).log_facts()["end"])
            key = next(iter(positions))
            moment = store.commit_one(group, key, 11) + 1
            store.commit(group, dict.fromkeys(positions, 12))
            store.commit_async(group, {key: OffsetAndMetadata(13, "m")}).result()
            with store.transaction(group, 77) as transaction:
                transaction.commit({key: 14})
            columns = {"group": [group], "topic": [key.topic], "partition": [key.partition], "offset": [15]}
            store.commit_arrow(pa.table(columns).cast(ARROW))
            assert store.restore(group, moment)
    assert ends
    for directory, end in ends.items():
        assert versions(directory, end) == {known[directory]}
    with offsetlog.open(log, count, read_only=True) as store:
        assert store.verify() == []


@pytest.mark.parametrize("scenario", OLD, ids=lambda each: each.name.removeprefix("kafka-old/"))
def test_a_leader_epoch_is_never_lost(scenario: Scenario, tmp_path: Path) -> None:
    """Only versions 3 and 4 can hold one, and only callers of newer brokers have one."""
    log = tmp_path / "log"
    shutil.copytree(scenario.log, log)
    with offsetlog.open(log, _partitions_of(log), "process", maintenance=BY_HAND) as store:
        group = next(group for group in store.groups() if store.fetch(group))
        key = next(iter(store.fetch(group)))
        for epoch in (3, -1, 4):
            store.commit_one(group, key, 1, leader_epoch=epoch)
            assert store.fetch_one(group, key).leader_epoch == epoch


@pytest.mark.parametrize("name", ["1.1.1-lz4"])
def test_a_refused_commit_changes_no_version(name: str, tmp_path: Path) -> None:
    """A leader epoch would be written as version 3, but nothing is written."""
    log = tmp_path / "log"
    shutil.copytree(next(each.log for each in OLD if each.name == f"kafka-old/{name}"), log)
    with offsetlog.open(log, _partitions_of(log), "process", maintenance=BY_HAND) as store:
        group = next(group for group in store.groups() if store.fetch(group))
        key, absent = next(iter(store.fetch(group))), TopicPartition("absent", 0)
        with pytest.raises(errors.ExpectedOffsetError):
            store.commit(group, {key: OffsetAndMetadata(1, leader_epoch=5), absent: 1}, expected={absent: 7})
        store.commit(group, {key: 2})
        number = store._core.number_of(group)
    assert versions(log / f"__consumer_offsets-{number}") == {1}


def test_a_new_store_writes_version_3_also_after_values_that_expire(tmp_path: Path) -> None:
    key = TopicPartition("t", 0)
    with offsetlog.open(tmp_path, 1, "process") as store:
        store.commit("g", {key: 1})
        store.commit("g", {key: OffsetAndMetadata(2, expire_timestamp=2**50)})
        store.commit("g", {key: 3})
    assert [row["value_version"] for row in values(tmp_path / "__consumer_offsets-0")] == [3, 1, 3]


def test_a_store_of_ours_keeps_to_version_3_whatever_its_first_value_has(tmp_path: Path) -> None:
    key = TopicPartition("t", 0)
    with offsetlog.open(tmp_path, 1, "process") as store:
        store.commit("g", {key: OffsetAndMetadata(1, expire_timestamp=2**50)})
        store.commit("g", {key: 2})
    with offsetlog.open(tmp_path, config=StoreConfig(write_offset_value_v4="always")) as store:
        store.commit("g", {key: 3})
    assert [row["value_version"] for row in values(tmp_path / "__consumer_offsets-0")] == [1, 3, 3]


@pytest.mark.parametrize(("setting", "version"), [("auto", 4), ("always", 4), ("never", 3)])
def test_a_topic_id_is_written_as_the_setting_says(tmp_path: Path, setting: str, version: int) -> None:
    key, topic_id = TopicPartition("t", 0), uuid.UUID(int=7)
    with offsetlog.open(tmp_path, 1, "process", config=StoreConfig(write_offset_value_v4="always")) as store:
        store.commit("g", {key: OffsetAndMetadata(1, topic_id=topic_id)})
    # The log now has a value of version 4, so "auto" writes others.
    with offsetlog.open(tmp_path, config=StoreConfig(write_offset_value_v4=setting)) as store:
        store.commit("g", {key: OffsetAndMetadata(2, topic_id=topic_id)})
        store.commit_one("g", "t", 1, 3)
        found = store.fetch_one("g", key)
        assert (found.offset, found.topic_id) == (2, topic_id if version == 4 else None)
    assert [row["value_version"] for row in values(tmp_path / "__consumer_offsets-0")] == [4, version, 3]
