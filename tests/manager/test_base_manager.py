"""The base class keeps the contract for a manager that keeps all that a commit carries."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from offsetlog.errors import DiskFullError, StorageError
from offsetlog.manager.base import BaseOffsetManager
from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.manager.testing.harness import ManagerHarness
from offsetlog.manager.testing.test_contract import *  # noqa: F403
from offsetlog.types import OffsetAndMetadata, TopicPartition

KEY = TopicPartition("t", 0)


class DictionaryManager(BaseOffsetManager):
    """Keeps positions in a dictionary."""

    capabilities = frozenset({Capability.METADATA, Capability.EPOCHS, Capability.TIMESTAMPS})

    def __init__(self, kept: dict[str, dict[TopicPartition, OffsetAndMetadata]]) -> None:
        super().__init__(partitions=4)
        self.kept = kept

    def read(self, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self.kept.get(group, {})

    def write(self, group: str, changes: Mapping[TopicPartition, Any]) -> None:
        merged = {**self.kept.get(group, {}), **changes}
        self.kept[group] = {key: value for key, value in merged.items() if value is not None}

    def groups(self) -> Iterable[str]:
        return self.kept


class DictionaryHarness(ManagerHarness):
    name = "dictionary"
    capabilities = DictionaryManager.capabilities

    def __init__(self) -> None:
        self.disks: dict[Path, dict[str, dict[TopicPartition, OffsetAndMetadata]]] = {}

    def create(self, directory: Path) -> OffsetManager:
        return DictionaryManager(self.disks.setdefault(directory, {}))


offset_managers = [DictionaryHarness()]


@pytest.mark.parametrize("hook", ["read", "write", "groups"])
def test_what_a_hook_raises_is_an_error_of_offsetlog(hook):
    with DictionaryManager({"g": {KEY: OffsetAndMetadata(1)}}) as manager:
        manager.become_leader(manager.partition_for("g"), 1)
        calls = {
            "read": lambda: manager.fetch("g"),
            "write": lambda: manager.commit("g", {KEY: 2}),
            "groups": lambda: manager.on_topic_deleted(["t"]),
        }
        cause = KeyError("a bug of the storage")

        def fail(*_: object) -> None:
            raise cause

        setattr(manager, hook, fail)
        with pytest.raises(StorageError, match="KeyError: 'a bug of the storage'") as caught:
            calls[hook]()
        assert caught.value.__cause__ is cause
        cause = DiskFullError("no space")
        with pytest.raises(DiskFullError, match="no space"):
            calls[hook]()


class UntimedManager(DictionaryManager):
    """Keeps no timestamps of commits."""

    capabilities = DictionaryManager.capabilities - {Capability.TIMESTAMPS}


def test_without_timestamps_a_position_has_the_time_of_its_write():
    with UntimedManager({}) as manager:
        manager.become_leader(manager.partition_for("g"), 1)
        before = time.time_ns() // 1_000_000
        manager.commit("g", {KEY: OffsetAndMetadata(2, commit_timestamp=1234)})
        assert manager.fetch("g")[KEY].commit_timestamp >= before


def test_a_start_that_fails_can_be_repeated():
    manager = DictionaryManager({})
    failures = [OSError("not yet"), None]

    def open_later() -> None:
        failure = failures.pop(0)
        if failure is not None:
            raise failure

    manager.open = open_later
    with pytest.raises(StorageError, match="OSError: not yet"):
        manager.start()
    manager.start()
    assert manager.partitions == 4
    manager.stop()
