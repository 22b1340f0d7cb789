"""Expiry in the dual manager: what expires in one storage first is not answered as something older."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from offsetlog import errors
from offsetlog.config import MaintenanceConfig
from offsetlog.manager.dual.manager import DualManager
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings
from offsetlog.types import OffsetAndMetadata, TopicPartition

from .dual_storages import GROUP, KEYS, PATIENCE, Crash, ZooKeeper

RETENTION_MS = 60_000


def old(offset: int) -> OffsetAndMetadata:
    """A position that has expired."""
    return OffsetAndMetadata(offset, commit_timestamp=time.time_ns() // 1_000_000 - 2 * RETENTION_MS)


@contextmanager
def leading(directory: Path, **maintenance: Any):
    """A dual manager over a log on disk and a ZooKeeper in memory."""
    config = MaintenanceConfig(**{"enabled": False, "retention_ms": RETENTION_MS, **maintenance})
    log = LogManager(ManagerSettings(path=directory, partitions=2, maintenance=config))
    with DualManager(log, ZooKeeper({}, Crash()), commit_timeout=PATIENCE) as manager:
        for partition in range(2):
            manager.become_leader(partition, 1).result(PATIENCE)
        yield manager


def fetched(manager: DualManager) -> dict[TopicPartition, int]:
    return {key: value.offset for key, value in manager.fetch(GROUP).items()}


def test_what_zookeeper_lags_behind_does_not_go_back(tmp_path):
    with leading(tmp_path) as manager:
        manager.zookeeper.commit(GROUP, {KEYS[0]: 5, KEYS[1]: 5})
        manager.log.commit(GROUP, {KEYS[0]: old(7), KEYS[1]: old(5)})
        assert manager.expire() == 2
        assert manager.log.fetch(GROUP) == {}
        assert fetched(manager) == {KEYS[0]: 7, KEYS[1]: 5}


def test_what_only_the_log_has_expires(tmp_path):
    with leading(tmp_path) as manager:
        manager.log.commit(GROUP, {KEYS[0]: old(7), KEYS[1]: 8})
        assert manager.expire() == 1
        assert fetched(manager) == {KEYS[1]: 8}
        assert manager.zookeeper.writes == []


def test_what_the_log_lags_behind_does_not_go_back(tmp_path, monkeypatch):
    with leading(tmp_path, retention_ms=None) as manager:
        manager.log.commit(GROUP, {KEYS[0]: 5})
        manager.zookeeper.commit(GROUP, {KEYS[0]: 9})
        # All that ZooKeeper has is too old for it.
        monkeypatch.setattr(manager.zookeeper, "expire", lambda **_: manager.zookeeper.delete_group(GROUP))
        assert manager.expire() == 1
        assert fetched(manager) == {KEYS[0]: 9}


def test_without_an_answer_of_zookeeper_nothing_expires(tmp_path):
    with leading(tmp_path) as manager:
        manager.log.commit(GROUP, {KEYS[0]: old(7)})
        manager.zookeeper.is_away = True
        # The log's own call asks the dual manager too.
        for expire in (manager.expire, manager.expire_async().result, manager.log.expire):
            with pytest.raises(errors.ZooKeeperUnavailableError):
                expire()
        assert manager.log.fetch(GROUP)[KEYS[0]].offset == 7


def test_a_group_that_cannot_be_made_level_keeps_no_other_from_it(tmp_path, monkeypatch):
    with leading(tmp_path) as manager:
        for group in ("bad", GROUP):
            manager.log.commit(group, {KEYS[0]: old(7)})
        read = manager.zookeeper.read

        def refuse(group: str) -> Any:
            if group == "bad":
                raise errors.CorruptionError("the node holds no offset")
            return read(group)

        monkeypatch.setattr(manager.zookeeper, "read", refuse)
        with pytest.raises(errors.CorruptionError) as caught:
            manager.expire()
        assert caught.value.__notes__ == ["1 positions expired"]
        assert (manager.log.fetch("bad")[KEYS[0]].offset, manager.log.fetch(GROUP)) == (7, {})


def test_sweeps_without_an_answer_leave_the_others_their_threads(tmp_path, monkeypatch):
    is_over = threading.Event()
    with leading(tmp_path) as manager:
        manager.commit(GROUP, {KEYS[0]: 5})
        for storage in (manager.zookeeper, manager.log):
            monkeypatch.setattr(storage, "on_topic_deleted", lambda *_, **__: int(is_over.wait(PATIENCE)) - 1)
        waiting = [manager.on_topic_deleted_async(["other"]) for _ in range(20)]
        manager.commit(GROUP, {KEYS[0]: 3})
        assert fetched(manager) == {KEYS[0]: 3}
        assert not any(each.done() for each in waiting)
        is_over.set()
        assert [each.result(PATIENCE) for each in waiting] == [0] * 20


def test_it_expires_unasked(tmp_path, monkeypatch):
    expired = threading.Event()
    expire = DualManager.expire

    def noted(manager: DualManager, *, timeout: float | None = None) -> int:
        count = expire(manager, timeout=timeout)
        if count:
            expired.set()
        return count

    monkeypatch.setattr(DualManager, "expire", noted)
    with leading(tmp_path, enabled=True, retention_check_interval_ms=10) as manager:
        manager.zookeeper.commit(GROUP, {KEYS[0]: 5})
        manager.log.commit(GROUP, {KEYS[0]: old(7)})
        assert expired.wait(PATIENCE)
        assert fetched(manager) == {KEYS[0]: 7}
