"""Deletes, expiry, and commits that are refused because of a quota."""

from __future__ import annotations

import time

from offsetlog.errors import NotCoordinatorError, ThrottledError
from offsetlog.manager.interface import OffsetManager
from offsetlog.manager.testing.errors import refused
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.types import OffsetAndMetadata, TopicPartition

DAY_MS = 86_400_000


def _offsets(manager: OffsetManager, group: str = GROUP) -> dict[TopicPartition, int]:
    return {key: value.offset for key, value in manager.fetch(group).items()}


class TestDeletes:
    """A delete returns how many positions existed, and deletes no other positions."""

    def test_positions_are_deleted(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for group in (GROUP, "another"):
            manager.commit(group, {key: key.partition for key in KEYS})
        asked = [KEYS[0], TopicPartition("nothing", 0), KEYS[2], KEYS[0]]
        assert manager.delete(GROUP, iter(asked)) == 2
        assert manager.delete(GROUP, asked) == 0
        assert _offsets(manager) == {KEYS[1]: 1, KEYS[3]: 3}
        assert _offsets(manager, "another") == {key: key.partition for key in KEYS}
        assert manager.delete(GROUP, []) == 0

    def test_what_was_deleted_can_be_committed(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 5})
        manager.delete(GROUP, [KEYS[0]])
        assert manager.fetch(GROUP, [KEYS[0]])[KEYS[0]].offset == -1
        manager.commit(GROUP, {KEYS[0]: 2})
        assert _offsets(manager_site.restarted()) == {KEYS[0]: 2}

    def test_a_group_is_deleted(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for group in (GROUP, "another"):
            manager.commit(group, dict.fromkeys(KEYS, 1))
        assert manager.delete_group(GROUP) >= len(KEYS)
        assert manager.delete_group(GROUP) == 0
        assert manager.delete_group("nobody") == 0
        assert manager.fetch(GROUP) == {}
        assert len(manager.fetch("another")) == len(KEYS)
        assert manager_site.restarted().fetch(GROUP) == {}

    def test_positions_of_deleted_topics_go(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        groups = [f"group-{number}" for number in range(10)]
        for number, group in enumerate(groups):
            kept = {TopicPartition("kept", 0): number}
            manager.commit(
                group, {TopicPartition("gone", 0): 1, TopicPartition("too", 1): 2, **kept}
            )
        manager.commit("only", {TopicPartition("gone", 3): 1})
        assert manager.on_topic_deleted([]) == 0
        assert manager.on_topic_deleted(["nothing"]) == 0
        assert manager.on_topic_deleted(["gone", "too", "gone"]) == 21
        assert manager.on_topic_deleted(["gone", "too"]) == 0
        for number, group in enumerate(groups):
            assert _offsets(manager, group) == {TopicPartition("kept", 0): number}
        assert manager.fetch("only") == {}
        assert _offsets(manager_site.restarted(), groups[4]) == {TopicPartition("kept", 0): 4}

    def test_deleted_topics_go_where_this_process_leads(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        groups = {manager.partition_for(name): name for name in map(str, range(200))}
        led, left = groups[0], groups[1]
        for group in (led, left):
            manager.commit(group, {KEYS[0]: 1})
        manager.resign(1, manager.leader_epoch(1))
        assert manager.on_topic_deleted(["orders"]) == 1
        assert manager.fetch(led) == {}
        with refused(NotCoordinatorError):
            manager.fetch(left)
        manager_site.harness.lead(manager, 1, manager.leader_epoch(1) + 1)
        assert _offsets(manager, left) == {KEYS[0]: 1}


class TestExpiry:
    """Positions that are older than the retention time are deleted, and no others."""

    def test_old_positions_expire(self, manager_site: ManagerSite) -> None:
        made = manager_site.harness.create_expiring(manager_site.directory())
        if made is None:
            manager = manager_site.leader()
            manager.commit(GROUP, {KEYS[0]: OffsetAndMetadata(1, commit_timestamp=1000)})
            assert manager.expire() == 0
            assert _offsets(manager) == {KEYS[0]: 1}
            return
        manager = manager_site.leading(manager_site.keep(made))
        now = int(time.time() * 1000)
        old = OffsetAndMetadata(1, commit_timestamp=now - 2 * DAY_MS)
        young = OffsetAndMetadata(2, commit_timestamp=now - DAY_MS // 2)
        groups = [f"group-{number}" for number in range(6)]
        for group in groups:
            manager.commit(group, {KEYS[0]: old, KEYS[1]: young, KEYS[2]: 3})
        manager.commit("idle", {KEYS[0]: old})
        assert manager.expire() == len(groups) + 1
        assert manager.expire() == 0
        for group in groups:
            assert _offsets(manager, group) == {KEYS[1]: 2, KEYS[2]: 3}
        assert manager.fetch("idle") == {}

    def test_a_later_commit_does_not_expire(self, manager_site: ManagerSite) -> None:
        made = manager_site.harness.create_expiring(manager_site.directory())
        manager = (
            manager_site.leader() if made is None else manager_site.leading(manager_site.keep(made))
        )
        manager.commit(GROUP, {KEYS[0]: OffsetAndMetadata(1, commit_timestamp=1000)})
        manager.commit(GROUP, {KEYS[0]: 1})
        assert manager.expire() == 0
        assert _offsets(manager) == {KEYS[0]: 1}


class TestQuotas:
    """Only the client or group that uses up a quota is refused."""

    def test_without_a_quota_nobody_waits(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for offset in range(50):
            manager.commit(GROUP, {KEYS[0]: offset}, client="client", principal="User:somebody")
            assert manager.throttle(GROUP) == 0.0
            assert manager.throttle(GROUP, "client") == 0.0

    def test_a_quota_refuses_until_the_time_it_says(self, manager_site: ManagerSite) -> None:
        made = manager_site.harness.create_limited(manager_site.directory(), 3)
        if made is None:
            assert manager_site.leader().throttle(GROUP, "client") == 0.0
            return
        manager = manager_site.leading(manager_site.keep(made))
        assert manager.throttle(GROUP, "client") == 0.0
        admitted = 0
        with refused(ThrottledError) as caught:
            for offset in range(1000):
                manager.commit(GROUP, {KEYS[0]: offset}, client="client", durability="process")
                admitted = offset
        failure = caught.value
        assert isinstance(failure, ThrottledError)
        assert (failure.error_code, failure.retriable) == (89, True)
        assert failure.seconds > 0
        assert manager.throttle(GROUP, "client") > 0
        assert _offsets(manager) == {KEYS[0]: admitted}
        # Neither fetches nor other groups and clients are limited.
        assert manager.throttle("another", "another") == 0.0
        manager.commit("another", {KEYS[0]: 1}, client="another")
