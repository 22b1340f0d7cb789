"""Invalid arguments: each call must raise an error of the right class, and must change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offsetlog.errors import (
    ArgumentTypeError,
    CapabilityError,
    GroupError,
    InvalidArgumentError,
    MetadataTooLargeError,
    OffsetError,
    PartitionError,
    StringTooLongError,
    TopicError,
)
from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.manager.testing.errors import refused
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.types import OffsetAndMetadata, TopicPartition

CARRIED = {Capability.METADATA, Capability.EPOCHS}

#: For each fault, by its name: a key, the value of the key, and the error.
WRONG: dict[str, tuple[Any, Any, type[InvalidArgumentError]]] = {
    "an offset below 0": (KEYS[1], -1, OffsetError),
    "an offset above 63 bits": (KEYS[1], 2**63, OffsetError),
    "an offset that is text": (KEYS[1], "1", ArgumentTypeError),
    "an offset that is a fraction": (KEYS[1], 1.5, ArgumentTypeError),
    "an offset that is a bool": (KEYS[1], True, ArgumentTypeError),
    "no offset": (KEYS[1], None, ArgumentTypeError),
    "an offset below 0 in a tuple": (KEYS[1], OffsetAndMetadata(-1), OffsetError),
    "no topic": (("", 0), 1, TopicError),
    "a topic that is not text": ((5, 0), 1, ArgumentTypeError),
    "a topic that cannot be written": (("\ud800", 0), 1, TopicError),
    "a topic that is too long": (("t" * 32_768, 0), 1, StringTooLongError),
    "a partition below 0": (("t", -1), 1, PartitionError),
    "a partition above 31 bits": (("t", 2**31), 1, PartitionError),
    "a partition that is text": (("t", "0"), 1, ArgumentTypeError),
    "a key of one part": (("t",), 1, ArgumentTypeError),
    "a key that is text": ("orders", 1, ArgumentTypeError),
    "an empty value": (KEYS[1], (), ArgumentTypeError),
    "metadata that is not text": (KEYS[1], (1, 5), ArgumentTypeError),
    "metadata that is too large": (
        KEYS[1],
        OffsetAndMetadata(1, "x" * 4097),
        MetadataTooLargeError,
    ),
    "metadata of too many units": (
        KEYS[1],
        OffsetAndMetadata(1, "\U0001f600" * 2049),
        MetadataTooLargeError,
    ),
    "a leader epoch below -1": (KEYS[1], OffsetAndMetadata(1, "", -2), InvalidArgumentError),
    "a leader epoch above 31 bits": (
        KEYS[1],
        OffsetAndMetadata(1, "", 2**31),
        InvalidArgumentError,
    ),
    "a timestamp below -1": (KEYS[1], OffsetAndMetadata(1, "", -1, -2), InvalidArgumentError),
}

TIMEOUTS: list[Any] = [-1, -0.001, float("nan"), "1", True]

GROUPS: dict[str, tuple[Any, type[InvalidArgumentError]]] = {
    "no text": (5, ArgumentTypeError),
    "nothing": (None, ArgumentTypeError),
    "bytes": (b"g", ArgumentTypeError),
    "not to be written": ("\ud800", GroupError),
    "too long": ("g" * 32_768, StringTooLongError),
}

BY_GROUP: dict[str, Callable[[OffsetManager, Any], object]] = {
    "commit": lambda manager, group: manager.commit(group, {KEYS[0]: 1}),
    "commit_async": lambda manager, group: manager.commit_async(group, {KEYS[0]: 1}),
    "fetch": lambda manager, group: manager.fetch(group),
    "delete": lambda manager, group: manager.delete(group, KEYS),
    "delete_group": lambda manager, group: manager.delete_group(group),
    "partition_for": lambda manager, group: manager.partition_for(group),
}


class TestArguments:
    """A call with an invalid argument raises an error, and has changed nothing."""

    @pytest.mark.parametrize("name", ["commit", "commit_async"])
    def test_a_commit_with_one_wrong_position_writes_none(
        self, manager_site: ManagerSite, name: str
    ) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 7})
        # A manager that keeps no metadata, or no leader epochs, need not check them.
        others = () if manager.capabilities >= CARRIED else (CapabilityError,)
        for wrong, (key, value, kind) in WRONG.items():
            given = {KEYS[0]: 8, key: value, KEYS[2]: 9}
            with refused(kind, *others, case=wrong):
                getattr(manager, name)(GROUP, given)
            found = manager.fetch(GROUP)
            assert {key: value.offset for key, value in found.items()} == {KEYS[0]: 7}, wrong

    @pytest.mark.needs(Capability.METADATA)
    def test_metadata_too_large_has_a_code_of_its_own(self, manager_site: ManagerSite) -> None:
        with refused(MetadataTooLargeError) as caught:
            manager_site.leader().commit(GROUP, {KEYS[0]: OffsetAndMetadata(1, "x" * 4097)})
        assert (caught.value.error_code, caught.value.retriable) == (12, False)

    @pytest.mark.parametrize("wrong", GROUPS)
    def test_a_group_without_a_proper_name_is_refused(
        self, manager_site: ManagerSite, wrong: str
    ) -> None:
        group, kind = GROUPS[wrong]
        manager = manager_site.leader()
        for name, call in BY_GROUP.items():
            with refused(kind, case=name):
                call(manager, group)

    def test_a_commit_of_nothing_is_refused(self, manager_site: ManagerSite) -> None:
        with refused(InvalidArgumentError):
            manager_site.leader().commit(GROUP, {})

    def test_offsets_are_a_mapping(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        wrong: list[Any] = [[1], None, 5, [(KEYS[0], 1)]]
        for offsets in wrong:
            with refused(ArgumentTypeError, case=offsets):
                manager.commit(GROUP, offsets)

    def test_keys_are_a_list(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1})
        wrong: list[Any] = [KEYS[0], "orders", b"orders", 5, [5], [("a",)]]
        for keys in wrong:
            with refused(ArgumentTypeError, case=keys):
                manager.fetch(GROUP, keys)
            with refused(ArgumentTypeError, case=keys):
                manager.delete(GROUP, keys)
        assert manager.fetch(GROUP)[KEYS[0]].offset == 1

    def test_keys_are_checked_as_those_of_commits(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1})
        for key, kind in ((("", 0), TopicError), (("t", -1), PartitionError)):
            keys = [KEYS[0], TopicPartition(*key)]
            with refused(kind, case=key):
                manager.fetch(GROUP, keys)
            with refused(kind, case=key):
                manager.delete(GROUP, keys)
        assert manager.fetch(GROUP)[KEYS[0]].offset == 1

    def test_a_durability_that_is_none_is_refused(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        wrong: list[Any] = ["", "memory", "DISK", 1, True]
        for durability in wrong:
            for commit in (manager.commit, manager.commit_async):
                with refused(InvalidArgumentError, case=durability):
                    commit(GROUP, {KEYS[0]: 1}, durability=durability)
        assert manager.fetch(GROUP) == {}

    @pytest.mark.parametrize("durability", ["process", "disk", "replicas"])
    def test_a_commit_with_a_timeout_that_is_none_writes_nothing(
        self, manager_site: ManagerSite, durability: Any
    ) -> None:
        manager = manager_site.leader()
        for timeout in TIMEOUTS:
            for commit in (manager.commit, manager.commit_async):
                with refused(InvalidArgumentError, case=timeout):
                    commit(GROUP, {KEYS[0]: 1}, timeout=timeout, durability=durability)
        assert manager.fetch(GROUP) == {}

    def test_a_delete_with_a_timeout_that_is_none_deletes_nothing(
        self, manager_site: ManagerSite
    ) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1})
        for timeout in TIMEOUTS:
            with refused(InvalidArgumentError, case=timeout):
                manager.delete(GROUP, KEYS, timeout=timeout)
            with refused(InvalidArgumentError, case=timeout):
                manager.delete_group(GROUP, timeout=timeout)
        assert manager.fetch(GROUP)[KEYS[0]].offset == 1

    @pytest.mark.needs(Capability.GENERATIONS)
    def test_a_fence_with_a_timeout_that_is_none_changes_nothing(
        self, manager_site: ManagerSite
    ) -> None:
        manager = manager_site.leader()
        first = manager.fence(GROUP)
        for timeout in TIMEOUTS:
            with refused(InvalidArgumentError, case=timeout):
                manager.fence(GROUP, {KEYS[0]: 1}, timeout=timeout)
        assert manager.fetch(GROUP) == {}
        assert manager.fence(GROUP) == first + 1

    @pytest.mark.needs(Capability.GENERATIONS)
    def test_a_generation_that_is_none_is_refused(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        generations: list[Any] = [-2, 2**31, "1", True, 1.0]
        for generation in generations:
            with refused(InvalidArgumentError, case=generation):
                manager.commit(GROUP, {KEYS[0]: 1}, generation=generation)
        assert manager.fetch(GROUP) == {}

    @pytest.mark.needs(Capability.CONDITIONS)
    def test_a_condition_that_is_none_is_refused(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        expectations: list[Any] = [{KEYS[1]: 1}, {KEYS[0]: -1}, {KEYS[0]: "1"}, [KEYS[0]], 5]
        for expected in expectations:
            with refused(InvalidArgumentError, case=expected):
                manager.commit(GROUP, {KEYS[0]: 1}, expected=expected)
        assert manager.fetch(GROUP) == {}

    def test_topics_are_a_list(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {TopicPartition("o", 0): 1})
        wrong: list[Any] = ["orders", b"orders", 5, None, [5], ["o", None]]
        for topics in wrong:
            with refused(ArgumentTypeError, case=topics):
                manager.on_topic_deleted(topics)
        assert manager.fetch(GROUP)[TopicPartition("o", 0)].offset == 1
