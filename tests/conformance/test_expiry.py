"""Offsetlog expires all that a broker expired: the log cut before each of the broker's tombstones, at the broker's
time.

Without a coordinator groups with members are left alone, so those that the broker expired something of are not looked
at; and a broker writes a tombstone also for records of a group that were never there.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

import offsetlog
from offsetlog.maintenance.retention import ClockGuard, Expirer, Retention, expire, expiring
from offsetlog.retention import listed

from . import oracle
from .oracle_batches import Batch
from .scenarios import SCENARIOS, Scenario

#: The settings of the scenario: offsets.retention.minutes=1, offsets.retention.check.interval.ms=5000.
RETENTION_MS = 60_000
CHECK_MS = 5_000
SLACK_MS = 1_000

EXPIRY = [scenario for scenario in SCENARIOS if scenario.name == "kafka-4.3.0/expiry"]

pytestmark = pytest.mark.skipif(not EXPIRY, reason="the broker's data is not here")


def tombstones(entries: list[oracle.LogRecord]) -> set[tuple[str, str, int]]:
    """The positions that a batch deletes."""
    found = set()
    for entry in entries:
        if entry.kind == "offset_commit" and entry.value is None and entry.key is not None:
            data = entry.key["data"]
            found.add((data["group"], data["topic"], data["partition"]))
    return found


def cut_before(scenario: Scenario, partition: int, batch: Batch, path: Path) -> Path:
    """The partition's log up to a batch, as a log directory."""
    folder = path / f"{oracle.TOPIC}-{partition}"
    folder.mkdir(parents=True)
    source = scenario.log / folder.name
    shutil.copy(source / "partition.metadata", folder)
    [log] = source.glob("*.log")
    (folder / log.name).write_bytes(log.read_bytes()[: batch.position])
    return path


def batches_that_delete(scenario: Scenario) -> dict[tuple[int, int], list[oracle.LogRecord]]:
    """Records by partition and base offset of each batch with tombstones of positions."""
    batches: dict[tuple[int, int], list[oracle.LogRecord]] = {}
    for entry in oracle.records(oracle.read_data(scenario.log)):
        batches.setdefault((entry.log_partition, entry.batch.base_offset), []).append(entry)
    return {place: entries for place, entries in batches.items() if tombstones(entries)}


def test_what_a_broker_expired(tmp_path: Path) -> None:
    [scenario] = EXPIRY
    checked = held = 0
    for (partition, base_offset), entries in batches_that_delete(scenario).items():
        batch = entries[0].batch
        now = batch.max_timestamp
        path = cut_before(scenario, partition, batch, tmp_path / f"{partition}-{base_offset}")
        members = {name for name, group in oracle.replay(oracle.read_log(path)).groups.items() if group.members}
        wanted = {slot for slot in tombstones(entries) if slot[0] not in members}
        held += len(tombstones(entries)) - len(wanted)
        groups = {
            entry.key["data"].get("group", entry.key["data"].get("groupId"))
            for entry in entries
            if entry.kind != "offset_commit" and entry.key is not None
        }
        expirer = Expirer(Retention(RETENTION_MS), ClockGuard(partial(int, now), lambda: 0))
        with offsetlog.open(path, 8, "process") as store:
            rows = listed(expiring(store._open_core, expirer, 0))
            expired = {(row.group, row.topic, row.partition) for row in rows if row.topic is not None}
            assert expired == wanted
            assert {row.group for row in rows if row.topic is None} == groups
            for row in rows:
                assert row.expires_at is not None
                # The broker's check before this one did not find it.
                assert now - CHECK_MS - SLACK_MS < row.expires_at <= now
            report = expire(store._open_core, expirer, None, trust_clock=True)
            assert (report.positions_expired, report.groups_removed) == (len(wanted), len(groups))
            assert not groups & set(store.groups())
        checked += len(wanted)
    assert (checked, held) == (16, 4)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_every_directory_can_be_asked(scenario: Scenario) -> None:
    """Positions of groups without members are due once all times are over, those of groups with members never."""
    state = oracle.state_of_data(scenario.log)
    members = {name for name, group in state.groups.items() if group.members or group.type == "share"}
    with offsetlog.open(scenario.log, read_only=True) as store:
        expirer = Expirer(Retention(0), ClockGuard(lambda: 2**45, lambda: 0))
        rows = listed(expiring(store._open_core, expirer, 0))
    expired = {(row.group, row.topic, row.partition) for row in rows if row.topic is not None}
    assert expired == {
        slot
        for slot, value in state.offsets.items()
        if slot[0] not in members
        and slot not in state.unstable()
        and (value.expire_timestamp if value.expire_timestamp >= 0 else value.commit_timestamp) <= 2**45
    }
