"""The dual manager where the log does not follow what ZooKeeper took back, or answers late: no position is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offsetlog import errors
from offsetlog.manager.dual.calls import Calls
from offsetlog.manager.dual.differences import Difference
from offsetlog.manager.dual.manager import DualManager

from .dual_storages import GROUP, KEYS, PATIENCE, Site


def refuse(*_: object) -> None:
    raise errors.StorageError("no space")


def test_what_goes_forward_beside_a_rewind_follows_a_log_that_answers_late(monkeypatch):
    site = Site({KEYS[0]: 90, KEYS[1]: 10}, {KEYS[0]: 90, KEYS[1]: 10})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        monkeypatch.setattr(manager.log, "commit", late_answers(manager))
        with pytest.raises(errors.DifferenceError, match="t:0=50"):
            manager.commit(GROUP, {KEYS[0]: 50, KEYS[1]: 30})
        assert manager.differences() == []
    assert site.stored() == ({KEYS[0]: 50, KEYS[1]: 30},) * 2


def late_answers(manager: DualManager) -> Callable[..., Any]:
    """Commits to the log, and says that there was no answer in time."""
    commit = manager.log.commit

    def committed(*given: Any, **more: Any) -> Any:
        commit(*given, **more)
        raise errors.CommitTimeoutError("it may yet count")

    return committed


def test_what_goes_forward_beside_a_rewind_is_a_difference_while_zookeeper_is_slow(monkeypatch):
    site = Site({KEYS[0]: 90, KEYS[1]: 10}, {KEYS[0]: 90, KEYS[1]: 10})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        zookeeper, commit = manager.zookeeper, late_answers(manager)

        def committed(*given: Any, **more: Any) -> Any:
            zookeeper.is_held = True  # the rewind is there, and nothing more comes through
            return commit(*given, **more)

        monkeypatch.setattr(manager.log, "commit", committed)
        with pytest.raises(errors.DifferenceError):
            manager.commit(GROUP, {KEYS[0]: 50, KEYS[1]: 30})
        assert manager.differences() == [Difference(GROUP, "t", 1, 30, 10)]
        zookeeper.answer()
        assert manager.differences() == []


def waiting(site: Site, manager: DualManager) -> Any:
    """Has one commit on its way to ZooKeeper, and one that waits for it; returns that."""
    manager.fetch(GROUP, KEYS)
    manager.zookeeper.is_held = True
    manager.commit_async(GROUP, {KEYS[1]: 20})
    last = manager.commit_async(GROUP, {KEYS[1]: 25})
    assert site.stored()[1] == {KEYS[0]: 90, KEYS[1]: 10}
    return last


def go_on(manager: DualManager, withdrawn: Any) -> None:
    """Has ZooKeeper answer, once a rewind took out of the queue what waits."""
    withdrawn.result(PATIENCE)
    manager.zookeeper.is_held = False
    manager.zookeeper.answer()


def test_what_was_withdrawn_follows_where_the_log_refuses_a_rewind(monkeypatch):
    site = Site({KEYS[0]: 90, KEYS[1]: 10}, {KEYS[0]: 90, KEYS[1]: 10})
    with site.start() as manager:
        last = waiting(site, manager)
        monkeypatch.setattr(manager.log, "write", refuse)
        rewind = manager.commit_async(GROUP, {KEYS[0]: 50, KEYS[1]: 30})
        go_on(manager, last)
        with pytest.raises(errors.DifferenceError, match="no space"):
            rewind.result(PATIENCE)
        # ZooKeeper does not get back the larger offset: the same call again finishes it.
        assert site.stored() == ({KEYS[0]: 90, KEYS[1]: 25}, {KEYS[0]: 50, KEYS[1]: 25})
        assert manager.differences() == [Difference(GROUP, "t", 0, 90, 50)]


def test_what_was_withdrawn_is_a_difference_where_a_rewind_fails_and_no_more_can_be_late(monkeypatch):
    site = Site({KEYS[0]: 90, KEYS[1]: 10}, {KEYS[0]: 90, KEYS[1]: 10})
    with site.start() as manager:
        last = waiting(site, manager)
        monkeypatch.setattr(manager._queue, "_late_max", 0)

        def refuse_reads(*_: object) -> None:
            raise errors.CorruptionError("the node holds no offset")

        monkeypatch.setattr(manager.zookeeper, "read", refuse_reads)
        rewind = manager.commit_async(GROUP, {KEYS[0]: 50, KEYS[1]: 24})
        go_on(manager, last)
        with pytest.raises(errors.CorruptionError):
            rewind.result(PATIENCE)
        assert site.stored() == ({KEYS[0]: 90, KEYS[1]: 25}, {KEYS[0]: 90, KEYS[1]: 20})
        assert manager.differences() == [Difference(GROUP, "t", 1, 25, 20)]


@pytest.mark.parametrize("kind", ["commit", "delete", "delete_group"])
def test_what_only_zookeeper_has_taken_back_is_a_difference(monkeypatch, kind):
    site = Site({KEYS[0]: 90}, {KEYS[0]: 90})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        monkeypatch.setattr(manager.log, "write", refuse)
        calls: dict[str, Callable[[], object]] = {
            "commit": lambda: manager.commit(GROUP, {KEYS[0]: 50}),
            "delete": lambda: manager.delete(GROUP, KEYS),
            "delete_group": lambda: manager.delete_group(GROUP),
        }
        with pytest.raises(errors.DifferenceError, match="no space") as caught:
            calls[kind]()
        assert {"commit": "(t:0=50)", "delete": "(t:0)", "delete_group": "the group,"}[kind] in str(caught.value)
        assert manager.differences() == [Difference(GROUP, "t", 0, 90, 50 if kind == "commit" else None)]
        monkeypatch.undo()
        calls[kind]()
        assert manager.differences() == []


# ------------------------------------------------------------------------------------ the time of a commit of two parts


class ManualTimer:
    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


@pytest.fixture
def timers(monkeypatch) -> list[ManualTimer]:
    """The timers that work ordered: each call waits for a thread, as if all were busy."""
    ordered: list[ManualTimer] = []

    def call_later(_: Calls, seconds: float, call: Callable[[], object]) -> ManualTimer:
        ordered.append(ManualTimer(call))
        return ordered[-1]

    monkeypatch.setattr(Calls, "call_later", call_later)
    monkeypatch.setattr(Calls, "are_busy", property(lambda _: True))
    return ordered


@pytest.mark.parametrize("is_late", [False, True])
def test_a_commit_whose_time_ends_while_it_goes_back_does_not_wait_for_what_goes_forward(timers, is_late):
    site = Site({KEYS[0]: 90, KEYS[1]: 1}, {KEYS[0]: 90, KEYS[1]: 1})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        manager.zookeeper.is_held = True
        work: Any = manager.commit_async(GROUP, {KEYS[0]: 50, KEYS[1]: 7})
        manager.zookeeper.wait_for_commit()
        (first,) = timers
        first.call()  # it has begun, and is not given up
        assert not work.done()
        if is_late:
            work._deadline -= PATIENCE
        manager.zookeeper.answer(1)
        manager.zookeeper.wait_for_commit()
        if not is_late:
            assert not work.done()
            assert (first.is_cancelled, len(timers)) == (True, 2)
            timers[1].call()
        assert work.result(PATIENCE).log_partition == manager.partition_for(GROUP)
        assert site.stored() == ({KEYS[0]: 50, KEYS[1]: 7}, {KEYS[0]: 50, KEYS[1]: 1})
        assert manager.differences() == [Difference(GROUP, "t", 1, 7, 1)]
        assert manager.counters().zookeeper_failures == 1
        manager.zookeeper.answer()
        assert manager.differences() == []
