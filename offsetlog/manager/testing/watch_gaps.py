"""Watches of replicas: the high watermark, changes of leadership, and reports of gaps."""

from __future__ import annotations

import pytest

from offsetlog.manager.interface import Capability, Watch
from offsetlog.manager.testing.replica_set import ReplicaSet
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.manager.testing.watch import poll_all, poll_until, state_of
from offsetlog.types import LogGap, PositionChange


def _watched(replicas: ReplicaSet, name: str) -> Watch:
    return replicas[name].watch(from_position={replicas.partition: (-1, 0)})


def _offsets(watch: Watch) -> list[int]:
    return [each.value.offset for each in poll_all(watch) if each.value is not None]


@pytest.mark.needs(Capability.WATCH, Capability.REPLICATION)
class TestWatchOfReplicas:
    """At every replica, a watch reports the changes below the high watermark."""

    def test_a_change_is_reported_once_it_is_below_the_watermark(
        self, manager_site: ManagerSite
    ) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        with _watched(replicas, "one") as led, _watched(replicas, "two") as followed:
            for offset in range(4):
                leader.commit(GROUP, {KEYS[0]: offset}, durability="process")
            replicas.ship()
            assert led.poll() == followed.poll() == []
            replicas.advance(3)
            assert _offsets(led) == _offsets(followed) == [0, 1, 2]
            replicas.advance(4)
            assert _offsets(led) == _offsets(followed) == [3]

    def test_a_watch_goes_on_when_leadership_moves(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        replicas.elect("one")
        watches = {name: _watched(replicas, name) for name in replicas.managers}
        found: dict[str, list[int]] = {name: [] for name in watches}
        for turn, name in enumerate(["one", "two", "one"]):
            leader = replicas.lead(name)
            for number in range(3):
                leader.commit(GROUP, {KEYS[0]: 3 * turn + number}, durability="process")
            replicas.replicate()
            for watched, watch in watches.items():
                found[watched] += _offsets(watch)
        assert found == {"one": list(range(9)), "two": list(range(9))}
        assert watches["one"].position == watches["two"].position
        for watch in watches.values():
            watch.close()

    def test_a_watch_goes_on_at_another_replica(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        for offset in range(5):
            leader.commit(GROUP, {KEYS[0]: offset}, durability="process")
        replicas.replicate()
        with _watched(replicas, "one") as watch:
            assert len(watch.poll(0.0, 500)) == 5
            position = watch.position
        leader.commit(GROUP, {KEYS[0]: 5}, durability="process")
        replicas.replicate()
        with replicas["two"].watch(from_position=position) as watch:
            assert _offsets(watch) == [5]

    def test_what_is_cut_above_the_watermark_is_never_reported(
        self, manager_site: ManagerSite
    ) -> None:
        replicas = ReplicaSet(manager_site)
        leader = replicas.elect("one")
        with _watched(replicas, "one") as watch:
            leader.commit(GROUP, {KEYS[0]: 1}, durability="process")
            replicas.replicate()
            leader.commit(GROUP, {KEYS[0]: 99}, durability="process")
            other = replicas.elect("two")
            replicas.advance()
            replicas.wait_for_leader()
            leader.truncate_to(replicas.partition, replicas.epoch, 1)
            other.commit(GROUP, {KEYS[0]: 2}, durability="process")
            replicas.replicate()
            assert _offsets(watch) == [1, 2]

    def test_what_is_cut_and_was_reported_is_a_gap(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, follower = replicas.elect("one"), replicas["two"]
        for offset in range(6):
            leader.commit(GROUP, {KEYS[0]: offset}, durability="process")
        replicas.replicate()
        with _watched(replicas, "two") as watch:
            assert _offsets(watch) == list(range(6))
            position = watch.position
        replicas.elect("one")
        assert follower.truncate_to(replicas.partition, replicas.epoch, 3) == 3
        # The other replica is gone, so this is an unclean election.
        replicas.managers.pop("one")
        replicas.lead("two")
        for offset in range(100, 105):
            follower.commit(GROUP, {KEYS[0]: offset}, durability="process")
        replicas.replicate()
        with follower.watch(from_position=position) as watch:
            gap, *changes = poll_until(watch, 6, manager_site.harness.patience)
            assert isinstance(gap, LogGap)
            assert (gap.log_partition, gap.reason) == (replicas.partition, "truncated")
            assert (gap.start, gap.end) == (3, 6)
            assert [each.log_offset for each in _changes(changes)] == list(range(3, 8))
            assert state_of(changes) == {(GROUP, KEYS[0]): 104}
            assert watch.poll() == []

    def test_what_is_gone_before_it_was_read_is_a_gap(self, manager_site: ManagerSite) -> None:
        replicas = ReplicaSet(manager_site)
        leader, follower = replicas.elect("one"), replicas["two"]
        for offset in range(3):
            leader.commit(GROUP, {KEYS[0]: offset}, durability="process")
        replicas.replicate()
        with _watched(replicas, "two") as watch:
            assert _offsets(watch) == [0, 1, 2]
            follower.restart_at(replicas.partition, replicas.epoch, 40)
            (gap,) = poll_until(watch, 1, manager_site.harness.patience)
            assert gap == LogGap(replicas.partition, 3, 40, "cleaned")
            assert watch.position[replicas.partition][1] == 40
            assert watch.poll() == []


def _changes(found: list[PositionChange | LogGap]) -> list[PositionChange]:
    for each in found:
        assert isinstance(each, PositionChange), each
    return found  # type: ignore[return-value]
