"""A leader with a lease answers by its table alone only where the lease still held after the read."""

from __future__ import annotations

import contextlib

import pytest

from offsetlog._native import fetch_columns
from offsetlog.errors import ExpectedOffsetError, GenerationError, NotCoordinatorError, RewindError

from .managers import KEYS, leading
from .manual_executor import ManualExecutor


@pytest.fixture
def executor():
    return ManualExecutor()


@pytest.mark.parametrize("keys", [None, [KEYS[0]]])
def test_a_lease_that_ends_during_a_fetch_refuses_it(tmp_path, executor, monkeypatch, keys):
    with leading(tmp_path / "data", executor=executor) as manager:
        manager.commit("g", {KEYS[0]: 7}, durability="process")
        manager.grant(0, 1, 5.0)
        assert manager.fetch("g", keys)[KEYS[0]].offset == 7
        for name in ("fetch_group", "fetch_keys"):
            read = getattr(fetch_columns, name)

            def read_late(*given, read=read):
                executor.time = 5.0  # this thread rested, and another leads by now
                return read(*given)

            monkeypatch.setattr(fetch_columns, name, read_late)
        with pytest.raises(NotCoordinatorError, match="lease"):
            manager.fetch("g", keys)


ANSWERED_BY_THE_TABLE = {
    "expected": lambda each: each.commit("g", {KEYS[0]: 8}, expected={KEYS[0]: 6}),
    "expected, pending": lambda each: each.commit_async("g", {KEYS[0]: 8}, expected={KEYS[0]: 6}),
    "monotonic": lambda each: each.commit("g", {KEYS[0]: 6}, monotonic=True),
    "generation": lambda each: each.commit("g", {KEYS[0]: 8}, generation=3),
    "delete": lambda each: each.delete("g", [KEYS[1]]),
    "delete, pending": lambda each: each.delete_async("g", [KEYS[1]]).result(0),
    "delete_group": lambda each: each.delete_group("nobody"),
    "delete_group, pending": lambda each: each.delete_group_async("nobody").result(0),
}


@pytest.mark.parametrize("call", ANSWERED_BY_THE_TABLE.values(), ids=ANSWERED_BY_THE_TABLE)
def test_nothing_is_refused_or_not_found_without_a_lease(tmp_path, executor, call):
    with leading(tmp_path / "data", executor=executor) as manager:
        manager.commit("g", {KEYS[0]: 7}, durability="disk")
        manager.grant(0, 1, 5.0)
        with contextlib.suppress(ExpectedOffsetError, RewindError, GenerationError):
            assert call(manager) == 0
        executor.time = 5.0
        with pytest.raises(NotCoordinatorError, match="lease"):
            call(manager)


def test_a_log_partition_that_was_never_written_needs_a_lease_as_well(tmp_path, executor):
    with leading(tmp_path / "data", executor=executor) as manager:
        manager.grant(0, 1, 5.0)
        assert manager.delete("g", [KEYS[0]]) == manager.delete_group("g") == 0
        executor.time = 5.0
        for call in (lambda: manager.delete("g", [KEYS[0]]), lambda: manager.delete_group("g")):
            with pytest.raises(NotCoordinatorError, match="lease"):
                call()


def test_leadership_that_ends_after_the_read_refuses_the_fetch(tmp_path, executor, monkeypatch):
    with leading(tmp_path / "data", executor=executor) as manager:
        manager.commit("g", {KEYS[0]: 7}, durability="process")
        manager.grant(0, 1, 5.0)
        executor.time = 6.0
        read = fetch_columns.fetch_keys

        def read_late(*given):
            found = read(*given)
            manager.become_follower(0, 2)
            return found

        monkeypatch.setattr(fetch_columns, "fetch_keys", read_late)
        with pytest.raises(NotCoordinatorError, match="lease"):
            manager.fetch("g", [KEYS[0]])


def test_each_epoch_needs_a_lease_of_its_own_once_one_was_granted(tmp_path, executor):
    with leading(tmp_path / "data", executor=executor) as manager:
        manager.commit("g", {KEYS[0]: 7}, durability="process")
        manager.grant(0, 1, 5.0)
        manager.resign(0, 1)
        manager.become_leader(0, 2)
        executor.run()
        with pytest.raises(NotCoordinatorError, match="lease"):
            manager.fetch("g")
        manager.grant(0, 2, 5.0)
        assert manager.fetch("g")[KEYS[0]].offset == 7
