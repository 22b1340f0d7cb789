"""A log manager on a directory of brokers before 2.1: what it writes before all of a log is applied, they read, too."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance.scenarios import BUNDLED

from offsetlog import MaintenanceConfig, TopicPartition
from offsetlog._native.scan import SegmentScan
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings

KEY = TopicPartition("t", 0)
COLUMNS = ["group", "value_version"]


def versions(directory: Path) -> Iterator[tuple[str, int]]:
    """The group and the value version of each offset, of all log partitions."""
    for path in sorted(directory.glob("__consumer_offsets-*/*.log")):
        with SegmentScan(str(path), "records", COLUMNS) as scan:
            while (rows := scan.read(10_000)) is not None and rows.num_rows:
                for row in rows.to_pylist():
                    if row["value_version"] is not None and row["group"]:
                        yield row["group"], row["value_version"]


def opened(path: Path, replicas: int) -> LogManager:
    settings = ManagerSettings(
        path=path,
        partitions=4,
        replication_factor=replicas,
        durability="process",
        maintenance=MaintenanceConfig(enabled=False),
    )
    manager = LogManager(settings)
    manager.start()
    for number in range(4):
        manager.become_leader(number, 100)
    return manager


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("replicas", [1, 3])
def test_commits_before_the_log_is_applied(tmp_path: Path, replicas: int, checkpoint: bool) -> None:
    """With three replicas, nothing above the checkpointed watermark is applied until the followers have it."""
    path = tmp_path / "log"
    shutil.copytree(BUNDLED / "kafka-old" / "1.1.1-lz4" / "log", path)
    if not checkpoint:
        (path / "replication-offset-checkpoint").unlink()
    manager = opened(path, replicas)
    groups = [f"new {number}" for number in range(40)]
    for group in groups:
        manager.commit_async(group, {KEY: 1})
    manager.stop()
    found = dict(versions(path))
    assert {found[group] for group in groups} == {1}


def test_a_new_log_of_a_replica_gets_version_3(tmp_path: Path) -> None:
    manager = opened(tmp_path / "log", 3)
    manager.commit_async("new", {KEY: 1})
    manager.stop()
    assert dict(versions(tmp_path / "log")) == {"new": 3}
