"""Commits and fetches: a fetch returns all positions of a commit, or none of them."""

from __future__ import annotations

import time

import pytest

from offsetlog.errors import GroupError
from offsetlog.manager.interface import Capability
from offsetlog.manager.testing.errors import refused
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.types import OffsetAndMetadata, Position, TopicPartition


class TestCommits:
    """A fetch returns the last commit."""

    def test_a_position_comes_back(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        position = manager.commit(GROUP, {KEYS[0]: 42})
        assert isinstance(position, Position)
        assert position.log_partition == manager.partition_for(GROUP)
        found = manager.fetch(GROUP)
        assert list(found) == [KEYS[0]]
        assert isinstance(found[KEYS[0]], OffsetAndMetadata)
        assert isinstance(next(iter(found)), TopicPartition)
        assert found[KEYS[0]][:3] == (42, "", -1)

    def test_a_later_commit_takes_the_place_of_an_earlier_one(
        self, manager_site: ManagerSite
    ) -> None:
        manager = manager_site.leader()
        for offset in (5, 9, 3, 0):
            manager.commit(GROUP, {KEYS[0]: offset, KEYS[1]: offset + 1})
            found = manager.fetch(GROUP)
            assert {key: value.offset for key, value in found.items()} == (
                {KEYS[0]: offset, KEYS[1]: offset + 1}
            )

    def test_a_commit_leaves_other_keys_and_groups_alone(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        groups, other = [f"group-{number}" for number in range(8)], TopicPartition("other", 0)
        for number, group in enumerate(groups):
            manager.commit(group, {KEYS[0]: number, other: 1})
        manager.commit(groups[3], {KEYS[1]: 77})
        manager.commit(groups[3], {KEYS[0]: 78})
        for number, group in enumerate(groups):
            found = {key: value.offset for key, value in manager.fetch(group).items()}
            more = {KEYS[1]: 77, KEYS[0]: 78} if number == 3 else {}
            assert found == {KEYS[0]: number, other: 1, **more}

    def test_an_offset_is_kept_exactly(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for offset in (0, 1, 2**31, 2**53 + 1, 2**63 - 1):
            manager.commit(GROUP, {KEYS[0]: offset})
            assert manager.fetch(GROUP)[KEYS[0]].offset == offset

    def test_a_key_is_kept_exactly(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        named = [("o", 0), ("o", 2**31 - 1), ("a.b_c-d", 3), ("t" * 249, 1), ("größe ☃", 5)]
        keys = [TopicPartition(*key) for key in named]
        for key in keys:
            manager.commit(GROUP, {key: 4})
        assert set(manager.fetch(GROUP)) == set(keys)
        assert set(manager_site.restarted().fetch(GROUP)) == set(keys)

    def test_any_name_is_a_group(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        names = ["", " ", "a/b", "A/B", "größe ☃", "\U0001f600", "x" * 1000, "a\0b"]
        groups = [name for name in names if manager_site.harness.keeps_group(name)]
        for number, group in enumerate(groups):
            manager.commit(group, {KEYS[0]: number})
        for number, group in enumerate(groups):
            assert manager.fetch(group)[KEYS[0]].offset == number
            assert manager.fetch(group + "x") == {}
        for name in (name for name in names if name not in groups):
            with refused(GroupError, case=name):
                manager.commit(name, {KEYS[0]: 1})

    def test_a_commit_of_many_positions(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        many = {TopicPartition(f"topic-{n % 7}", n): n for n in range(2000)}
        manager.commit(GROUP, many)
        assert {key: value.offset for key, value in manager.fetch(GROUP).items()} == many

    def test_a_commit_takes_a_copy(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        given: dict[TopicPartition, int | OffsetAndMetadata] = {KEYS[0]: 1}
        manager.commit(GROUP, given)
        given[KEYS[0]], given[KEYS[1]] = 9, 9
        found = manager.fetch(GROUP)
        assert {key: value.offset for key, value in found.items()} == {KEYS[0]: 1}
        found.clear()
        assert manager.fetch(GROUP)[KEYS[0]].offset == 1

    def test_a_commit_timestamp_is_given_where_there_is_none(
        self, manager_site: ManagerSite
    ) -> None:
        manager = manager_site.leader()
        before = int(time.time() * 1000)
        manager.commit(GROUP, {KEYS[0]: 1})
        after = int(time.time() * 1000)
        found = manager.fetch(GROUP)
        assert before - 1 <= found[KEYS[0]].commit_timestamp <= after + 1

    @pytest.mark.needs(Capability.TIMESTAMPS)
    def test_a_commit_timestamp_is_kept(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1, KEYS[1]: OffsetAndMetadata(2, commit_timestamp=1234)})
        assert manager.fetch(GROUP)[KEYS[1]].commit_timestamp == 1234

    def test_a_fetch_of_keys_answers_each_in_order(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[2]: 2, KEYS[0]: 0})
        asked = [KEYS[3], KEYS[2], TopicPartition("nothing", 9), KEYS[0], KEYS[2]]
        found = manager.fetch(GROUP, iter(asked))
        assert [(key, value.offset) for key, value in found.items()] == [
            (KEYS[3], -1),
            (KEYS[2], 2),
            (asked[2], -1),
            (KEYS[0], 0),
        ]
        assert found[KEYS[3]] == OffsetAndMetadata(-1)
        assert manager.fetch(GROUP, []) == {}

    @pytest.mark.needs(Capability.METADATA)
    def test_metadata_is_kept_exactly(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for metadata in ("", "m", "größe ☃", "x" * 4096, "\U0001f600" * 2048, "\0", "\n\t'\""):
            manager.commit(GROUP, {KEYS[0]: OffsetAndMetadata(1, metadata), KEYS[1]: 2})
            found = manager.fetch(GROUP)
            assert (found[KEYS[0]].metadata, found[KEYS[1]].metadata) == (metadata, "")
            manager.commit(GROUP, {KEYS[0]: 3})
            assert manager.fetch(GROUP)[KEYS[0]][:2] == (3, "")

    @pytest.mark.needs(Capability.EPOCHS)
    def test_a_leader_epoch_is_kept_as_given_and_never_checked(
        self, manager_site: ManagerSite
    ) -> None:
        manager = manager_site.leader()
        for epoch in (5, 0, 2**31 - 1, 4, -1):
            manager.commit(GROUP, {KEYS[0]: OffsetAndMetadata(1, leader_epoch=epoch)})
            assert manager.fetch(GROUP)[KEYS[0]].leader_epoch == epoch

    @pytest.mark.needs(Capability.HISTORY)
    def test_what_was_committed_before_is_kept(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        for offset in (1, 7, 4):
            manager.commit(GROUP, {KEYS[0]: offset, KEYS[1]: 0})
        manager_site.stop()
        found = manager_site.harness.history(manager_site.directory(), GROUP, KEYS[0])
        assert found == [1, 7, 4]
