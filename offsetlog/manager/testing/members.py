"""Groups with members: generations, the fence of a running group, the delete of an empty group."""

from __future__ import annotations

import pytest

from offsetlog.errors import GenerationError, GroupNotEmptyError, InvalidArgumentError
from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.manager.testing.errors import refused
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.types import OffsetAndMetadata, TopicPartition


def _offsets(manager: OffsetManager) -> dict[TopicPartition, int]:
    return {key: value.offset for key, value in manager.fetch(GROUP).items()}


def _with_members(site: ManagerSite, generation: int = 5, members: int = 2) -> OffsetManager:
    manager = site.leader()
    manager.commit(GROUP, {KEYS[0]: 1})
    site.harness.set_generation(manager, GROUP, generation, members)
    return manager


@pytest.mark.needs(Capability.GENERATIONS)
class TestGenerations:
    """The argument `generation=` is compared with the group's generation."""

    def test_the_generation_of_the_group_is_accepted(self, manager_site: ManagerSite) -> None:
        manager = _with_members(manager_site, 5)
        manager.commit(GROUP, {KEYS[0]: 2}, generation=5)
        manager.commit(GROUP, {KEYS[0]: 3})
        assert _offsets(manager) == {KEYS[0]: 3}

    @pytest.mark.parametrize("name", ["commit", "commit_async"])
    @pytest.mark.parametrize("generation", [0, 4, 6, 2**31 - 1])
    def test_another_generation_writes_nothing(
        self, manager_site: ManagerSite, generation: int, name: str
    ) -> None:
        manager = _with_members(manager_site, 5)
        with refused(GenerationError) as caught:
            getattr(manager, name)(GROUP, {KEYS[0]: 2, KEYS[1]: 3}, generation=generation)
        failure = caught.value
        assert isinstance(failure, GenerationError)
        assert (failure.group, failure.asked, failure.actual) == (GROUP, generation, 5)
        assert (failure.error_code, failure.retriable) == (22, False)
        assert _offsets(manager) == {KEYS[0]: 1}

    def test_without_a_generation_a_group_has_no_members(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1}, generation=-1)
        with refused(GenerationError) as caught:
            manager.commit(GROUP, {KEYS[0]: 2}, generation=0)
        assert isinstance(caught.value, GenerationError)
        assert caught.value.actual is None
        assert _offsets(manager) == {KEYS[0]: 1}

    def test_minus_one_is_for_groups_without_members(self, manager_site: ManagerSite) -> None:
        manager = _with_members(manager_site)
        with refused(GenerationError):
            manager.commit(GROUP, {KEYS[0]: 2}, generation=-1)
        assert _offsets(manager) == {KEYS[0]: 1}
        manager_site.harness.set_generation(manager, GROUP, 6, 0)
        manager.commit(GROUP, {KEYS[0]: 3}, generation=-1)
        assert _offsets(manager) == {KEYS[0]: 3}

    def test_a_generation_is_one_group_s_own(self, manager_site: ManagerSite) -> None:
        manager = _with_members(manager_site, 5)
        manager.commit("another", {KEYS[0]: 2}, generation=-1)
        with refused(GenerationError):
            manager.commit("another", {KEYS[0]: 3}, generation=5)

    def test_a_generation_stays_over_a_restart(self, manager_site: ManagerSite) -> None:
        _with_members(manager_site, 5)
        manager = manager_site.restarted()
        with refused(GenerationError):
            manager.commit(GROUP, {KEYS[0]: 2}, generation=4)
        manager.commit(GROUP, {KEYS[0]: 2}, generation=5)

    @pytest.mark.needs(Capability.CONDITIONS)
    def test_all_conditions_hold_together(self, manager_site: ManagerSite) -> None:
        manager = _with_members(manager_site, 5)
        manager.commit(GROUP, {KEYS[0]: 2}, generation=5, expected={KEYS[0]: 1}, monotonic=True)
        with refused(GenerationError):
            manager.commit(GROUP, {KEYS[0]: 3}, generation=4, expected={KEYS[0]: 2})
        assert _offsets(manager) == {KEYS[0]: 2}


@pytest.mark.needs(Capability.GENERATIONS)
class TestFences:
    """A reset of a running group: the members are refused, join again, and read the new offsets."""

    def test_a_fence_refuses_the_old_generation_and_sets_offsets(
        self, manager_site: ManagerSite
    ) -> None:
        manager = _with_members(manager_site, 5)
        generation = manager.fence(GROUP, {KEYS[0]: 100, KEYS[1]: OffsetAndMetadata(200)})
        assert generation == 6
        assert _offsets(manager) == {KEYS[0]: 100, KEYS[1]: 200}
        with refused(GenerationError):
            manager.commit(GROUP, {KEYS[0]: 2}, generation=5)
        assert _offsets(manager) == {KEYS[0]: 100, KEYS[1]: 200}

    def test_a_fence_without_offsets_leaves_them(self, manager_site: ManagerSite) -> None:
        manager = _with_members(manager_site, 5)
        assert manager.fence(GROUP) == 6
        assert _offsets(manager) == {KEYS[0]: 1}
        with refused(GenerationError):
            manager.commit(GROUP, {KEYS[0]: 2}, generation=5)

    def test_fences_grow(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        generations = [manager.fence(GROUP) for _ in range(3)]
        assert generations == list(range(generations[0], generations[0] + 3))

    def test_a_fenced_group_has_no_members(self, manager_site: ManagerSite) -> None:
        manager = _with_members(manager_site, 5)
        manager.fence(GROUP)
        manager.commit(GROUP, {KEYS[0]: 7}, generation=-1)
        assert manager.delete_group(GROUP) > 0
        assert manager.fetch(GROUP) == {}

    def test_a_fence_stays_over_a_restart(self, manager_site: ManagerSite) -> None:
        manager = _with_members(manager_site, 5)
        generation = manager.fence(GROUP, {KEYS[0]: 50})
        manager = manager_site.restarted()
        assert _offsets(manager) == {KEYS[0]: 50}
        with refused(GenerationError):
            manager.commit(GROUP, {KEYS[0]: 2}, generation=5)
        assert manager.fence(GROUP) == generation + 1

    def test_a_fence_with_one_wrong_offset_changes_nothing(self, manager_site: ManagerSite) -> None:
        manager = _with_members(manager_site, 5)
        with refused(InvalidArgumentError):
            manager.fence(GROUP, {KEYS[0]: 100, KEYS[1]: -1})
        manager.commit(GROUP, {KEYS[1]: 7}, generation=5)
        assert _offsets(manager) == {KEYS[0]: 1, KEYS[1]: 7}

    def test_a_fence_concerns_one_group(self, manager_site: ManagerSite) -> None:
        manager = _with_members(manager_site, 5)
        manager.commit("another", {KEYS[0]: 3})
        manager.fence("another")
        manager.commit(GROUP, {KEYS[0]: 2}, generation=5)
        assert _offsets(manager) == {KEYS[0]: 2}


@pytest.mark.needs(Capability.GENERATIONS)
class TestGroupsWithMembers:
    """A group can be deleted only if it has no members."""

    def test_a_group_with_members_is_not_deleted(self, manager_site: ManagerSite) -> None:
        manager = _with_members(manager_site, 5)
        with refused(GroupNotEmptyError) as caught:
            manager.delete_group(GROUP)
        failure = caught.value
        assert isinstance(failure, GroupNotEmptyError)
        assert (failure.group, failure.error_code, failure.retriable) == (GROUP, 68, False)
        assert _offsets(manager) == {KEYS[0]: 1}
        manager.commit(GROUP, {KEYS[0]: 2}, generation=5)

    def test_a_group_without_members_is_deleted_with_its_generation(
        self, manager_site: ManagerSite
    ) -> None:
        manager = _with_members(manager_site, 5)
        manager_site.harness.set_generation(manager, GROUP, 6, 0)
        assert manager.delete_group(GROUP) > 0
        assert manager.fetch(GROUP) == {}
        assert manager.delete_group(GROUP) == 0
        with refused(GenerationError):
            manager.commit(GROUP, {KEYS[0]: 2}, generation=6)

    def test_positions_of_a_group_with_members_can_be_deleted(
        self, manager_site: ManagerSite
    ) -> None:
        manager = _with_members(manager_site)
        assert manager.delete(GROUP, [KEYS[0]]) == 1
        assert manager.fetch(GROUP) == {}
