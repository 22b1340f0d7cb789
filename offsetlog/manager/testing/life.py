"""The start and the stop of a manager, and its state after a restart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from offsetlog.errors import CapabilityError, ClosedError
from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.manager.testing.errors import refused
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.types import OffsetAndMetadata

Call = Callable[[OffsetManager], object]

#: Every call of the interface except `start`, `stop` and `capabilities`.
CALLS: dict[str, Call] = {
    "partitions": lambda manager: manager.partitions,
    "partition_for": lambda manager: manager.partition_for(GROUP),
    "become_leader": lambda manager: manager.become_leader(0, 1),
    "become_follower": lambda manager: manager.become_follower(0, 1),
    "resign": lambda manager: manager.resign(0, 1),
    "state": lambda manager: manager.state(0),
    "leader_epoch": lambda manager: manager.leader_epoch(0),
    "commit": lambda manager: manager.commit(GROUP, {KEYS[0]: 1}),
    "commit_async": lambda manager: manager.commit_async(GROUP, {KEYS[0]: 1}),
    "fetch": lambda manager: manager.fetch(GROUP),
    "fetch of keys": lambda manager: manager.fetch(GROUP, KEYS),
    "delete": lambda manager: manager.delete(GROUP, KEYS),
    "delete_group": lambda manager: manager.delete_group(GROUP),
    "fence": lambda manager: manager.fence(GROUP),
    "expire": lambda manager: manager.expire(),
    "on_topic_deleted": lambda manager: manager.on_topic_deleted(["orders"]),
    "throttle": lambda manager: manager.throttle(GROUP),
    "append_as_follower": lambda manager: manager.append_as_follower(0, 1, b""),
    "advance": lambda manager: manager.advance(0, 1, 0),
    "truncate_to": lambda manager: manager.truncate_to(0, 1, 0),
    "restart_at": lambda manager: manager.restart_at(0, 1, 0),
    "flush": lambda manager: manager.flush(0),
    "positions": lambda manager: manager.positions(0),
    "end_offset_for_epoch": lambda manager: manager.end_offset_for_epoch(0, 0),
    "read_into": lambda manager: manager.read_into(0, 0, bytearray(100)),
    "file_range": lambda manager: manager.file_range(0, 0, 100),
    "watch": lambda manager: manager.watch(),
}


class TestLife:
    """A manager is created, started and stopped; another one continues in its directory."""

    def test_it_is_a_manager_with_the_declared_capabilities(
        self, manager_site: ManagerSite
    ) -> None:
        manager = manager_site.harness.create(manager_site.directory())
        names = [name for name in vars(OffsetManager) if name[0] != "_"]
        assert not [name for name in names if not hasattr(type(manager), name)]
        assert manager.capabilities == manager_site.harness.capabilities
        assert all(isinstance(each, Capability) for each in manager.capabilities)

    def test_before_start_a_call_raises_closed(self, manager_site: ManagerSite) -> None:
        manager = manager_site.harness.create(manager_site.directory())
        for name, call in CALLS.items():
            # A manager may first check whether the call can be made at all.
            with refused(ClosedError, CapabilityError, case=name):
                call(manager)

    def test_after_stop_a_call_raises_closed(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1})
        manager.stop()
        for name, call in CALLS.items():
            with refused(ClosedError, CapabilityError, case=name):
                call(manager)

    def test_commits_and_fetches_of_a_stopped_manager_are_closed(
        self, manager_site: ManagerSite
    ) -> None:
        # These calls need no capability, so no other error is allowed.
        manager = manager_site.leader()
        manager.stop()
        for name in ("commit", "commit_async", "fetch", "delete", "become_leader", "state"):
            with refused(ClosedError, case=name):
                CALLS[name](manager)

    def test_a_second_stop_does_nothing(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.stop()
        manager.stop()

    def test_a_manager_that_never_started_can_be_stopped(self, manager_site: ManagerSite) -> None:
        manager = manager_site.harness.create(manager_site.directory())
        manager.stop()
        with refused(ClosedError):
            manager.start()

    def test_it_cannot_be_started_again(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.stop()
        with refused(ClosedError):
            manager.start()

    def test_it_starts_with_nothing_led(self, manager_site: ManagerSite) -> None:
        manager = manager_site.started()
        assert manager.partitions >= 2
        assert {manager.state(each).value for each in range(manager.partitions)} == {"unloaded"}

    def test_commits_and_deletes_stay_over_a_restart(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for number, group in enumerate(["a", "b", "c"]):
            manager.commit(group, {key: 10 * number + key.partition for key in KEYS})
        manager.delete("b", KEYS[:2])
        manager.delete_group("c")
        manager.commit("a", {KEYS[0]: 99})
        manager = manager_site.restarted()
        found = {
            group: {key: value.offset for key, value in manager.fetch(group).items()}
            for group in ("a", "b", "c")
        }
        assert found == {
            "a": {KEYS[0]: 99, KEYS[1]: 1, KEYS[2]: 2, KEYS[3]: 3},
            "b": {KEYS[2]: 12, KEYS[3]: 13},
            "c": {},
        }

    def test_what_was_answered_outlives_the_process(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for offset in range(20):
            manager.commit(GROUP, {KEYS[0]: offset, KEYS[1]: offset})
        manager.delete(GROUP, KEYS[1:2])
        manager = manager_site.restarted_after_a_crash()
        assert {key: value.offset for key, value in manager.fetch(GROUP).items()} == {KEYS[0]: 19}

    @pytest.mark.needs(Capability.METADATA, Capability.EPOCHS)
    def test_all_that_was_committed_stays_over_a_restart(self, manager_site: ManagerSite) -> None:
        given = OffsetAndMetadata(5, "by hand ✓", 7, 1_700_000_000_123)
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: given})
        assert manager_site.restarted().fetch(GROUP) == {KEYS[0]: given}

    def test_it_restarts_often(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for offset in range(5):
            manager.commit(GROUP, {KEYS[0]: offset, KEYS[1]: 100 + offset})
            manager = manager_site.restarted()
            found = manager.fetch(GROUP, KEYS[:3])
            assert [value.offset for value in found.values()] == [offset, 100 + offset, -1]


class TestPartitions:
    """The log partition in which a group is kept."""

    @pytest.mark.parametrize(
        ("group", "hashed"),
        [
            ("g", 103),
            ("billing", -109829509),
            ("polygenelubricants", -(2**31)),
            ("☃", 9731),
            ("\U0001f600", 1772899),
        ],
    )
    def test_a_group_lives_where_its_hash_says(
        self, manager_site: ManagerSite, group: str, hashed: int
    ) -> None:
        manager = manager_site.started()
        absolute = 0 if hashed == -(2**31) else abs(hashed)
        assert manager.partition_for(group) == absolute % manager.partitions
