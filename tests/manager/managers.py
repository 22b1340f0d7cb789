"""Managers of the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from offsetlog.config import MaintenanceConfig
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import ManagerSettings
from offsetlog.types import TopicPartition

KEYS = [TopicPartition("t", number) for number in range(40)]
BY_HAND = MaintenanceConfig(enabled=False)


def manager_of(path: Path, *, executor: Any = None, fs: Any = None, clock: Any = None, **settings: Any) -> LogManager:
    """A manager of one partition that is not started; `settings` are those of ManagerSettings."""
    settings = {"partitions": 1, "maintenance": BY_HAND, **settings}
    return LogManager(ManagerSettings(path=path, **settings), executor=executor, fs=fs, clock=clock, background=False)


@contextmanager
def leading(path: Path, **more: Any) -> Iterator[LogManager]:
    """One that leads all its partitions, whose logs are there; it is stopped at the end."""
    manager = manager_of(path, **more)
    manager.start()
    try:
        for number in range(manager.partitions):
            manager.become_leader(number, max(1, manager.leader_epoch(number) + 1))
        yield manager
    finally:
        manager.stop()
