"""Leadership: epochs that only grow, transitions, and the errors of replicas that do not lead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from offsetlog.errors import (
    FencedLeaderEpochError,
    InvalidArgumentError,
    NotCoordinatorError,
    PartitionError,
)
from offsetlog.manager.interface import OffsetManager, PartitionState, Transition
from offsetlog.manager.testing.errors import refused
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite

#: The calls that only a leader answers.
LED: dict[str, Callable[[OffsetManager], object]] = {
    "commit": lambda manager: manager.commit(GROUP, {KEYS[0]: 1}),
    "commit_async": lambda manager: manager.commit_async(GROUP, {KEYS[0]: 1}),
    "fetch": lambda manager: manager.fetch(GROUP),
    "fetch of keys": lambda manager: manager.fetch(GROUP, KEYS),
    "delete": lambda manager: manager.delete(GROUP, KEYS),
    "delete_group": lambda manager: manager.delete_group(GROUP),
}

CHANGES = ("become_leader", "become_follower", "resign")


def _change(manager: OffsetManager, name: str, partition: int, epoch: int) -> Transition:
    transition: Transition = getattr(manager, name)(partition, epoch)
    return transition


class TestLeadership:
    """Only the leader answers calls, and only in the newest epoch."""

    def test_nobody_answers_before_it_leads(self, manager_site: ManagerSite) -> None:
        manager = manager_site.started()
        for name, call in LED.items():
            with refused(NotCoordinatorError, case=name) as caught:
                call(manager)
            assert (caught.value.error_code, caught.value.retriable) == (16, True)

    @pytest.mark.parametrize("change", ["become_follower", "resign"])
    def test_nobody_answers_who_leads_no_more(self, manager_site: ManagerSite, change: str) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 5})
        partition = manager.partition_for(GROUP)
        _change(manager, change, partition, manager.leader_epoch(partition) + 1)
        for name, call in LED.items():
            with refused(NotCoordinatorError, case=name):
                call(manager)

    def test_a_leader_is_active_in_its_epoch(self, manager_site: ManagerSite) -> None:
        manager = manager_site.started()
        assert manager.leader_epoch(0) == -1
        manager_site.harness.lead(manager, 0, 7)
        assert (manager.state(0), manager.leader_epoch(0)) == (PartitionState.ACTIVE, 7)
        assert (manager.state(1), manager.leader_epoch(1)) == (PartitionState.UNLOADED, -1)

    def test_states_follow_the_changes(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1})
        partition = manager.partition_for(GROUP)
        epoch = manager.leader_epoch(partition)
        patience = manager_site.harness.patience
        manager.become_follower(partition, epoch + 1).result(patience)
        assert manager.state(partition) is PartitionState.FOLLOWER
        manager_site.harness.lead(manager, partition, epoch + 2)
        assert manager.state(partition) is PartitionState.ACTIVE
        manager.resign(partition, epoch + 2).result(patience)
        assert manager.state(partition) is PartitionState.UNLOADED
        assert manager.leader_epoch(partition) == epoch + 2

    def test_who_leads_again_serves_what_was_committed(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        partition = manager.partition_for(GROUP)
        for offset in range(6):
            manager.commit(GROUP, {KEYS[0]: offset})
            epoch = manager.leader_epoch(partition)
            _change(manager, CHANGES[1 + offset % 2], partition, epoch + 1)
            manager_site.harness.lead(manager, partition, epoch + 2)
            assert manager.fetch(GROUP)[KEYS[0]].offset == offset

    @pytest.mark.parametrize("name", CHANGES)
    def test_an_older_epoch_is_refused_and_changes_nothing(
        self, manager_site: ManagerSite, name: str
    ) -> None:
        manager = manager_site.started()
        manager_site.harness.lead(manager, 0, 5)
        with refused(FencedLeaderEpochError) as caught:
            _change(manager, name, 0, 4)
        assert caught.value.error_code == 74
        assert (manager.state(0), manager.leader_epoch(0)) == (PartitionState.ACTIVE, 5)

    @pytest.mark.parametrize("name", ["become_follower", "resign"])
    def test_no_epoch_has_a_leader_after_it_was_given_up(
        self, manager_site: ManagerSite, name: str
    ) -> None:
        manager = manager_site.started()
        manager_site.harness.lead(manager, 0, 5)
        _change(manager, name, 0, 5)
        with refused(FencedLeaderEpochError):
            manager.become_leader(0, 5)
        assert manager.state(0) is not PartitionState.ACTIVE

    @pytest.mark.parametrize("name", CHANGES)
    def test_the_same_call_again_returns_the_same_transition(
        self, manager_site: ManagerSite, name: str
    ) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1})
        partition = manager.partition_for(GROUP)
        epoch = manager.leader_epoch(partition) + 1
        first = _change(manager, name, partition, epoch)
        assert _change(manager, name, partition, epoch) is first

    @pytest.mark.parametrize("name", CHANGES)
    def test_a_transition_says_what_it_is_and_ends(
        self, manager_site: ManagerSite, name: str
    ) -> None:
        manager = manager_site.started()
        transition = _change(manager, name, 1, 3)
        assert isinstance(transition, Transition)
        transition.result(manager_site.harness.patience)
        assert (transition.partition, transition.epoch, transition.done()) == (1, 3, True)
        assert transition.progress == 1.0
        called: list[Transition] = []
        transition.add_done_callback(called.append)
        assert called == [transition]

        async def wait() -> int:
            return await transition

        assert asyncio.run(wait()) == transition.result(0)

    def test_a_partition_that_is_not_there_is_refused(self, manager_site: ManagerSite) -> None:
        manager = manager_site.started()
        wrong: list[Any] = [-1, 1_000_000, True, "0", None]
        for partition in wrong:
            for name in CHANGES:
                with refused(PartitionError, case=(name, partition)):
                    _change(manager, name, partition, 1)
            for ask in (manager.state, manager.leader_epoch, manager.flush, manager.positions):
                with refused(PartitionError, case=partition):
                    ask(partition)
            with refused(PartitionError, case=partition):
                manager.end_offset_for_epoch(partition, 0)

    def test_an_epoch_out_of_its_domain_is_refused(self, manager_site: ManagerSite) -> None:
        manager = manager_site.started()
        wrong: list[Any] = [-1, 2**31, True, "1", None]
        for epoch in wrong:
            for name in CHANGES:
                with refused(InvalidArgumentError, case=(name, epoch)):
                    _change(manager, name, 0, epoch)
        assert (manager.state(0), manager.leader_epoch(0)) == (PartitionState.UNLOADED, -1)

    def test_before_the_first_commit_there_is_nothing(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        assert manager.fetch(GROUP) == {}
        assert {key: value.offset for key, value in manager.fetch(GROUP, KEYS).items()} == (
            dict.fromkeys(KEYS, -1)
        )
        assert manager.delete(GROUP, KEYS) == 0
        assert manager.delete_group(GROUP) == 0
        assert manager.on_topic_deleted(["orders"]) == 0
        assert manager.expire() == 0

    def test_one_partition_says_nothing_about_another(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        groups = {manager.partition_for(name): name for name in map(str, range(200))}
        kept, left = (groups[number] for number in (0, 1))
        for group in (kept, left):
            manager.commit(group, {KEYS[0]: 3})
        manager.resign(1, manager.leader_epoch(1))
        assert manager.fetch(kept)[KEYS[0]].offset == 3
        with refused(NotCoordinatorError):
            manager.fetch(left)
