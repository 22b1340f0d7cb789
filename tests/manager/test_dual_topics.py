"""Deleted topics in the dual manager: nothing that comes beside the deletion brings a position back."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from offsetlog import errors
from offsetlog.manager.dual.differences import Difference
from offsetlog.manager.dual.manager import DualManager
from offsetlog.manager.interface import PartitionState
from offsetlog.types import TopicPartition
from tests.depth import by_depth, first_seed

from .dual_storages import GROUP, KEYS, PATIENCE, Site

OTHER = TopicPartition("other", 0)


def after_zookeeper(monkeypatch: pytest.MonkeyPatch, manager: DualManager, call: Callable[[], object]) -> None:
    """Has a call made once, after ZooKeeper's positions are gone, and before those of the log."""
    calls = [call]

    def calling(delete: Callable[..., int]) -> Callable[..., int]:
        def deleted(*given: Any, **more: Any) -> int:
            count = delete(*given, **more)
            while calls:
                calls.pop()()
            return count

        return deleted

    for name in ("delete", "on_topic_deleted"):
        monkeypatch.setattr(manager.zookeeper, name, calling(getattr(manager.zookeeper, name)))


@pytest.mark.parametrize("offset", [95, 50])
def test_a_commit_beside_the_deletion_is_made_in_both(monkeypatch, offset):
    site = Site({KEYS[0]: 90}, {KEYS[0]: 90})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        made: list[Any] = []
        after_zookeeper(monkeypatch, manager, lambda: made.append(manager.commit_async(GROUP, {KEYS[0]: offset})))
        manager.on_topic_deleted(["t"])
        made[0].result(PATIENCE)
        assert site.stored() == ({KEYS[0]: offset},) * 2
        assert (manager.fetch(GROUP)[KEYS[0]].offset, manager.differences()) == (offset, [])


def test_a_catch_up_beside_the_deletion_brings_nothing_back(monkeypatch):
    site = Site({KEYS[0]: 90, OTHER: 1}, {KEYS[0]: 90})
    with site.start() as manager, ThreadPoolExecutor(1) as thread:
        caught_up: list[Any] = []
        after_zookeeper(monkeypatch, manager, lambda: caught_up.append(thread.submit(manager.catch_up, GROUP)))
        sweep_log = manager.log.on_topic_deleted

        def swept(*given: Any, **more: Any) -> Any:
            caught_up[0].result(PATIENCE)  # were the log swept apart from ZooKeeper, it would come between the two
            return sweep_log(*given, **more)

        monkeypatch.setattr(manager.log, "on_topic_deleted", swept)
        assert manager.on_topic_deleted(["t"]) == 1
        assert caught_up[0].result(PATIENCE) == 1
        assert site.stored() == ({OTHER: 1},) * 2


def test_a_write_on_its_way_does_not_come_after_the_deletion(monkeypatch):
    site = Site({KEYS[0]: 90}, {KEYS[0]: 90})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        zookeeper, queue = manager.zookeeper, manager._queue
        zookeeper.is_held = True
        commits = [manager.commit_async(GROUP, {KEYS[0]: offset}) for offset in (95, 96)]
        is_awaited = threading.Event()
        wait = queue._wait

        def waited(*given: Any) -> None:
            is_awaited.set()
            wait(*given)

        monkeypatch.setattr(queue, "_wait", waited)
        deletion = manager.on_topic_deleted_async(["t"])
        is_awaited.wait(PATIENCE)
        zookeeper.is_held = False
        zookeeper.answer()
        assert deletion.result(PATIENCE) == 1
        for each in commits:
            each.result(PATIENCE)
        assert site.stored() == ({}, {})
        assert (manager.fetch(GROUP), manager.differences()) == ({}, [])


def test_positions_of_other_topics_still_follow():
    site = Site()
    with site.start() as manager:
        manager.fetch(GROUP, [*KEYS, OTHER])
        manager.zookeeper.is_away = True
        manager.commit(GROUP, {KEYS[0]: 2, OTHER: 3})
        manager.zookeeper.is_away = False
        assert manager.on_topic_deleted(["t"]) == 1
        assert manager.differences() == [Difference(GROUP, "other", 0, 3, None)]
        site.pass_time()
        assert manager.differences() == []
    assert site.stored() == ({OTHER: 3},) * 2


def test_no_position_goes_back_where_the_log_does_not_delete(monkeypatch):
    site = Site({KEYS[0]: 80, KEYS[1]: 5}, {KEYS[0]: 90})
    with site.start() as manager:
        write = manager.log.write

        def refuse(group: str, changes: Any) -> None:
            if None in changes.values():
                raise errors.StorageError("no space")
            write(group, changes)

        monkeypatch.setattr(manager.log, "write", refuse)
        with pytest.raises(errors.DifferenceError, match="Make the same call again"):
            manager.on_topic_deleted(["t"])
        assert {key: value.offset for key, value in manager.fetch(GROUP).items()} == {KEYS[0]: 90, KEYS[1]: 5}
        assert manager.differences() == [Difference(GROUP, "t", 0, 90, None), Difference(GROUP, "t", 1, 5, None)]
        monkeypatch.undo()
        assert manager.on_topic_deleted(["t"]) == 2
        assert manager.differences() == []
    assert site.stored() == ({}, {})


def test_a_deletion_that_zookeeper_refuses_in_the_middle_is_made_whole_again(monkeypatch):
    monkeypatch.setattr("offsetlog.manager.dual.both.DELETED_TOGETHER", 1)
    offsets = dict.fromkeys(KEYS, 5)
    site = Site(offsets, offsets)
    with site.start() as manager:
        delete, given = manager.zookeeper.delete, []

        def refuse(group: str, keys: Any, **more: Any) -> Any:
            given.append(keys)
            if len(given) == 2:
                raise errors.GroupNotEmptyError("a position was changed meanwhile", group=group)
            return delete(group, keys, **more)

        monkeypatch.setattr(manager.zookeeper, "delete", refuse)
        with pytest.raises(errors.GroupNotEmptyError):
            manager.on_topic_deleted(["t"])
        assert (site.stored(), manager.differences()) == ((offsets, offsets), [])
        assert manager.on_topic_deleted(["t"]) == len(KEYS)
    assert site.stored() == ({}, {})


def test_a_group_that_fails_keeps_no_other_from_it(monkeypatch):
    site = Site()
    with site.start() as manager:
        for group in ("bad", "good"):
            manager.commit(group, {KEYS[0]: 1})
        delete = manager.zookeeper.delete

        def refuse(group: str, *given: Any, **more: Any) -> Any:
            if group == "bad":
                raise errors.GroupNotEmptyError("a position was changed meanwhile", group=group)
            return delete(group, *given, **more)

        monkeypatch.setattr(manager.zookeeper, "delete", refuse)
        with pytest.raises(errors.GroupNotEmptyError):
            manager.on_topic_deleted(["t"])
        assert (site.stored("good"), site.stored("bad")) == (({}, {}), ({KEYS[0]: 1},) * 2)


def test_nodes_without_an_offset_keep_nothing_from_it(monkeypatch):
    site = Site({KEYS[0]: 5, KEYS[1]: 6, OTHER: 7}, {KEYS[0]: 5, KEYS[1]: 8, KEYS[2]: 9, OTHER: 7})
    with site.start() as manager:
        fetch = manager.zookeeper.fetch

        def refuse(group: str, keys: Any = None) -> Any:
            if keys is None or KEYS[0] in keys:
                raise errors.CorruptionError("the node holds no offset")
            return fetch(group, keys)

        monkeypatch.setattr(manager.zookeeper, "fetch", refuse)
        # The third one is only in ZooKeeper, where the sweep finds it.
        assert manager.on_topic_deleted(["t"]) == 3
        assert manager.differences() == []
    assert site.stored() == ({OTHER: 7},) * 2


def test_a_commit_after_the_deletion_of_its_group_follows_again(monkeypatch):
    site = Site({KEYS[0]: 90}, {KEYS[0]: 90})
    with site.start() as manager:
        sweep = manager.zookeeper.on_topic_deleted

        def swept(*given: Any, **more: Any) -> Any:
            manager.commit(GROUP, {KEYS[0]: 3})
            return sweep(*given, **more)

        monkeypatch.setattr(manager.zookeeper, "on_topic_deleted", swept)
        manager.on_topic_deleted(["t"])
        assert (site.stored(), manager.differences()) == (({KEYS[0]: 3},) * 2, [])


def test_a_partition_that_loads_is_left_out_with_an_error(monkeypatch):
    site = Site({KEYS[0]: 90}, {KEYS[0]: 90})
    with site.start() as manager:
        partition, state = manager.partition_for(GROUP), manager.log.state
        with monkeypatch.context() as patched:
            loading = PartitionState.LOADING
            patched.setattr(manager.log, "state", lambda number: loading if number == partition else state(number))
            patched.setattr(manager.log, "groups", list)
            patched.setattr(manager.zookeeper, "groups", list)
            with pytest.raises(errors.CoordinatorLoadingError):
                manager.on_topic_deleted(["t"])
        assert site.stored() == ({KEYS[0]: 90},) * 2
        assert manager.on_topic_deleted(["t"]) == 1


def test_beside_consumers_zookeeper_never_has_what_the_log_lacks(monkeypatch):
    seed = first_seed(random.randrange(2**32))
    print(f"seed {seed}")
    site = Site()
    with site.start() as manager, ThreadPoolExecutor(len(KEYS)) as threads:
        for storage in (manager.log, manager.zookeeper):
            write = storage.write

            def written(*given: Any, write: Any = write) -> None:
                time.sleep(0)  # another thread may come in
                write(*given)

            monkeypatch.setattr(storage, "write", written)

        def consume(number: int) -> None:
            rng = random.Random(f"{seed} {number}")
            for _ in range(rng.randrange(1, 6)):
                if rng.random() < 0.2:
                    manager.catch_up(GROUP)
                else:
                    manager.commit(GROUP, {KEYS[number % len(KEYS)]: rng.randrange(100)})

        for each in range(by_depth(gate=100, long=3000)):
            deletion = manager.on_topic_deleted_async(["t"])
            for made in [threads.submit(consume, each * len(KEYS) + number) for number in range(len(KEYS))]:
                made.result(PATIENCE)
            deletion.result(PATIENCE)
            while site.timers:
                site.pass_time()
            log, zookeeper = site.stored()
            assert log == zookeeper, each
            assert manager.differences() == []
        manager.on_topic_deleted(["t"])
    assert site.stored() == ({}, {})
