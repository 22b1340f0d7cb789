"""Watches: each change is reported once, in log order; a watch continues from a stored position."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable

import pytest

from offsetlog.errors import ClosedError, InvalidArgumentError, PartitionError
from offsetlog.manager.interface import Capability, OffsetManager, Watch
from offsetlog.manager.testing.errors import refused
from offsetlog.manager.testing.serving import Caller
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.types import LogGap, OffsetAndMetadata, PositionChange, TopicPartition

Changes = list[PositionChange | LogGap]
State = dict[tuple[str, TopicPartition], int]


def poll_all(watch: Watch, max_changes: int = 500) -> list[PositionChange]:
    """Returns the changes that are available; fails if a watch reports a gap."""
    found: list[PositionChange] = []
    while polled := watch.poll(0.0, max_changes):
        for each in polled:
            assert isinstance(each, PositionChange), each
            found.append(each)
    return found


def poll_until(watch: Watch, count: int, patience: float) -> Changes:
    """Waits for `count` items, which are changes or gaps."""
    found: Changes = []
    while len(found) < count:
        polled = watch.poll(patience)
        assert polled, f"only {len(found)} of {count} changes came within {patience} s"
        found += polled
    return found


def beginning(manager: OffsetManager) -> dict[int, tuple[int, int]]:
    """Returns the position from which a watch reports every change."""
    return dict.fromkeys(range(manager.partitions), (-1, 0))


def state_of(changes: Iterable[PositionChange | LogGap]) -> State:
    """Returns the positions that result if these changes are applied."""
    state: State = {}
    for change in changes:
        assert isinstance(change, PositionChange), change
        key = (change.group, TopicPartition(change.topic, change.partition))
        state.pop(key, None)
        if change.value is not None:
            state[key] = change.value.offset
    return state


def _offsets(changes: Iterable[PositionChange]) -> list[int | None]:
    return [None if each.value is None else each.value.offset for each in changes]


@pytest.mark.needs(Capability.WATCH)
class TestWatch:
    """Changes at one replica."""

    def test_a_change_says_what_took_effect(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        with manager.watch() as watch:
            assert isinstance(watch, Watch)
            assert watch.poll() == []
            position = manager.commit(GROUP, {KEYS[1]: 5})
            (change,) = poll_until(watch, 1, manager_site.harness.patience)
            assert isinstance(change, PositionChange)
            assert (change.log_partition, change.log_offset) == position
            assert change.effective_at == position.log_offset
            assert (change.group, change.topic, change.partition) == (GROUP, *KEYS[1])
            assert change.value == manager.fetch(GROUP)[KEYS[1]]
            assert watch.poll() == []

    def test_a_watch_begins_with_what_comes(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1})
        with manager.watch() as watch:
            manager.commit(GROUP, {KEYS[0]: 2})
            assert _offsets(poll_all(watch)) == [2]

    def test_a_watch_from_the_beginning_has_all(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for offset in range(6):
            manager.commit(f"group-{offset}", {KEYS[0]: offset})
        with manager.watch(from_position=beginning(manager)) as watch:
            assert {each.value.offset for each in poll_all(watch) if each.value} == set(range(6))

    def test_changes_of_a_log_come_in_its_order(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        with manager.watch() as watch:
            for offset in range(30):
                manager.commit(f"group-{offset % 7}", {KEYS[0]: offset, KEYS[1]: offset})
            changes = poll_all(watch)
        assert len(changes) == 60
        for partition in range(manager.partitions):
            own = [each.log_offset for each in changes if each.log_partition == partition]
            assert own == sorted(set(own))

    def test_a_deletion_is_a_change_without_a_value(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1, KEYS[1]: 2, TopicPartition("gone", 0): 3})
        with manager.watch() as watch:
            manager.delete(GROUP, [KEYS[0]])
            manager.on_topic_deleted(["gone"])
            manager.delete_group(GROUP)
            changes = poll_all(watch)
        assert [(each.topic, each.partition, each.value) for each in changes] == [
            ("orders", 0, None),
            ("gone", 0, None),
            ("orders", 1, None),
        ]

    def test_a_watch_of_groups_has_no_others(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        groups = [f"group-{number}" for number in range(9)]
        with manager.watch(iter([*groups[:2], "nobody"])) as watch:
            for number, group in enumerate(groups):
                manager.commit(group, {KEYS[0]: number})
            assert {each.group for each in poll_all(watch)} == set(groups[:2])

    def test_the_changes_are_the_state(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        groups = [f"group-{number}" for number in range(5)]
        for number in range(80):
            group = groups[number % 5]
            manager.commit(group, {KEYS[number % 3]: number, KEYS[3]: number})
            if number % 11 == 0:
                manager.delete(group, [KEYS[3]])
        manager.delete_group(groups[2])
        with manager.watch(from_position=beginning(manager)) as watch:
            found = state_of(poll_all(watch, 7))
        assert found == {
            (group, key): value.offset
            for group in groups
            for key, value in manager.fetch(group).items()
        }

    def test_a_later_watch_goes_on_where_one_ended(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for offset in range(40):
            manager.commit(f"group-{offset % 5}", {KEYS[0]: offset})
        with manager.watch(from_position=beginning(manager)) as watch:
            whole = poll_all(watch)
        position, found = beginning(manager), list[PositionChange]()
        for turn in range(60):
            with manager.watch(from_position=position) as watch:
                polled = watch.poll(0.0, 1 + turn % 4)
                found += [each for each in polled if isinstance(each, PositionChange)]
                stored = json.loads(
                    json.dumps({str(key): at for key, at in watch.position.items()})
                )
            position = {int(key): (at[0], at[1]) for key, at in stored.items()}
        assert sorted(found) == sorted(whole)
        assert len(whole) == 40

    def test_a_watch_goes_on_after_a_restart(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for offset in range(10):
            manager.commit(GROUP, {KEYS[0]: offset})
        with manager.watch([GROUP], from_position=beginning(manager)) as watch:
            assert _offsets(poll_all(watch)) == list(range(10))
            position = watch.position
        manager.commit(GROUP, {KEYS[0]: 10})
        manager = manager_site.restarted()
        manager.commit(GROUP, {KEYS[0]: 11})
        with manager.watch([GROUP], from_position=position) as watch:
            assert _offsets(poll_all(watch)) == [10, 11]
            assert watch.poll() == []

    def test_a_log_that_is_not_there_yet_can_be_watched(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        with manager.watch() as watch:
            assert watch.position == beginning(manager)
            position = watch.position
            manager.commit(GROUP, {KEYS[0]: 1})
            assert _offsets(poll_all(watch)) == [1]
            assert watch.position[manager.partition_for(GROUP)][1] == 1
        with manager.watch(from_position=position) as watch:
            assert _offsets(poll_all(watch)) == [1]

    def test_a_poll_waits_for_the_first_change(self, manager_site: ManagerSite) -> None:
        manager, patience = manager_site.leader(), manager_site.harness.patience
        with manager.watch() as watch:
            assert watch.poll(0.01) == []
            caller = Caller(lambda: watch.poll(patience), patience)
            manager.commit(GROUP, {KEYS[0]: 1})
            found = caller.answer()
            assert isinstance(found, list)
            assert _offsets(found) == [1]

    def test_every_change_comes_once_while_others_commit(self, manager_site: ManagerSite) -> None:
        manager, patience = manager_site.leader(), manager_site.harness.patience

        def commit(number: int) -> None:
            for offset in range(50):
                manager.commit(f"group-{number}", {KEYS[0]: offset}, durability="process")

        threads = [
            threading.Thread(target=commit, args=(number,), daemon=True) for number in range(4)
        ]
        with manager.watch() as watch:
            for thread in threads:
                thread.start()
            changes = poll_until(watch, 200, patience)
            for thread in threads:
                thread.join(patience)
            assert watch.poll() == []
        for number in range(4):
            own = [each for each in changes if isinstance(each, PositionChange)]
            assert _offsets([each for each in own if each.group == f"group-{number}"]) == (
                list(range(50))
            )

    def test_columns_say_the_same(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for offset in range(20):
            manager.commit(f"group-{offset % 3}", {KEYS[0]: offset})
        manager.delete("group-1", [KEYS[0]])
        whole = beginning(manager)
        with manager.watch(from_position=whole) as watch:
            changes = poll_all(watch)
        rows = []
        with manager.watch(from_position=whole) as watch:
            while batches := watch.poll_arrow():
                for batch in batches:
                    assert not isinstance(batch, LogGap)
                    rows += batch.to_pylist()
        assert len(rows) == len(changes) == 21
        names = [name for name in PositionChange._fields if name != "value"]
        for row, change in zip(sorted(rows, key=_place), sorted(changes), strict=True):
            assert [row[name] for name in names] == [getattr(change, name) for name in names]
            value = change.value
            assert row["offset"] == (None if value is None else value.offset)
            if value is not None:
                kept = ("metadata", "leader_epoch", "commit_timestamp")
                assert [row[name] for name in kept] == [getattr(value, name) for name in kept]

    def test_a_loop_ends_when_the_watch_is_closed(self, manager_site: ManagerSite) -> None:
        manager, patience = manager_site.leader(), manager_site.harness.patience
        watch = manager.watch()
        seen: list[PositionChange | LogGap] = []
        first = threading.Event()

        def read() -> int:
            for change in watch:
                seen.append(change)
                first.set()
            return len(seen)

        caller = Caller(read, patience)
        manager.commit(GROUP, {KEYS[0]: 1})
        assert first.wait(patience)
        watch.close()
        assert caller.answer() == 1
        watch.close()
        with refused(ClosedError):
            watch.poll()

    def test_an_event_loop_reads_a_watch(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()

        async def read(watch: Watch) -> list[int]:
            found: list[int] = []
            async for change in watch:
                assert isinstance(change, PositionChange)
                assert change.value is not None
                found.append(change.value.offset)
                if len(found) == 3:
                    break
            return found

        async def commit_and_read() -> list[int]:
            with manager.watch() as watch:
                task = asyncio.create_task(read(watch))
                for offset in (4, 5, 6):
                    await asyncio.sleep(0)
                    await asyncio.to_thread(manager.commit, GROUP, {KEYS[0]: offset})
                return await asyncio.wait_for(task, manager_site.harness.patience)

        assert asyncio.run(commit_and_read()) == [4, 5, 6]

    @pytest.mark.parametrize("end", ["watch", "manager"])
    def test_who_waits_hears_that_it_is_closed(self, manager_site: ManagerSite, end: str) -> None:
        manager, patience = manager_site.leader(), manager_site.harness.patience
        watch = manager.watch()
        caller = Caller(lambda: watch.poll(None), patience)
        if end == "watch":
            watch.close()
        else:
            manager.stop()
        with refused(ClosedError):
            caller.answer()
        with refused(ClosedError):
            watch.poll()

    def test_what_cannot_be_watched_is_refused(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        with refused(InvalidArgumentError):
            manager.watch("billing")
        with refused(InvalidArgumentError):
            manager.watch(["\ud800"])
        for partition in (-1, manager.partitions):
            with refused(PartitionError):
                manager.watch(from_position={partition: (-1, 0)})

    @pytest.mark.needs(Capability.METADATA, Capability.EPOCHS)
    def test_a_change_has_all_that_was_committed(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        value = OffsetAndMetadata(5, "by hand ✓", 7, 1_700_000_000_123)
        with manager.watch() as watch:
            manager.commit(GROUP, {KEYS[0]: value})
            assert [each.value for each in poll_all(watch)] == [value]


def _place(row: dict[str, int]) -> tuple[int, int]:
    return row["log_partition"], row["log_offset"]
