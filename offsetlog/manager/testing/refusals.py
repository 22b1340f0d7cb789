"""A manager that lacks a capability refuses the calls that need it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from offsetlog.errors import CapabilityError
from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.manager.testing.errors import refused
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.types import OffsetAndMetadata

#: For each capability, the calls that need it.  Calls about the past belong to the store, not to
#: the manager.
NEEDING: dict[Capability, dict[str, Callable[[OffsetManager], object]]] = {
    Capability.METADATA: {
        "a commit with metadata": lambda manager: manager.commit(
            GROUP, {KEYS[0]: 1, KEYS[1]: OffsetAndMetadata(1, "text")}
        ),
    },
    Capability.EPOCHS: {
        "a commit with a leader epoch": lambda manager: manager.commit(
            GROUP, {KEYS[0]: 1, KEYS[1]: OffsetAndMetadata(1, leader_epoch=3)}
        ),
    },
    Capability.TIMESTAMPS: {
        "a commit with an expiry timestamp": lambda manager: manager.commit(
            GROUP, {KEYS[0]: 1, KEYS[1]: OffsetAndMetadata(1, expire_timestamp=2**62)}
        ),
    },
    Capability.CONDITIONS: {
        "expected": lambda manager: manager.commit(GROUP, {KEYS[0]: 1}, expected={KEYS[0]: None}),
        "monotonic": lambda manager: manager.commit(GROUP, {KEYS[0]: 1}, monotonic=True),
        "expected, later": lambda manager: manager.commit_async(
            GROUP, {KEYS[0]: 1}, expected={KEYS[0]: None}
        ),
    },
    Capability.GENERATIONS: {
        "generation": lambda manager: manager.commit(GROUP, {KEYS[0]: 1}, generation=0),
        "no members": lambda manager: manager.commit(GROUP, {KEYS[0]: 1}, generation=-1),
        "fence": lambda manager: manager.fence(GROUP),
        "fence with offsets": lambda manager: manager.fence(GROUP, {KEYS[0]: 1}),
    },
    Capability.HISTORY: {},
    Capability.REPLICATION: {
        "append_as_follower": lambda manager: manager.append_as_follower(0, 1, b""),
        "advance": lambda manager: manager.advance(0, 1, 0),
        "truncate_to": lambda manager: manager.truncate_to(0, 1, 0),
        "restart_at": lambda manager: manager.restart_at(0, 1, 5),
        "read_into": lambda manager: manager.read_into(0, 0, bytearray(1000)),
        "file_range": lambda manager: manager.file_range(0, 0, 1000),
    },
    Capability.WATCH: {
        "watch": lambda manager: manager.watch(),
        "watch of groups": lambda manager: manager.watch([GROUP]),
        "watch from a position": lambda manager: manager.watch(from_position={0: (-1, 0)}),
    },
}

CASES = [
    pytest.param(call, id=f"{capability.value}: {name}", marks=pytest.mark.lacks(capability))
    for capability, calls in NEEDING.items()
    for name, call in calls.items()
]


class TestRefusals:
    """A call that needs a missing capability is refused, never ignored."""

    @pytest.mark.parametrize("call", CASES)
    def test_what_needs_a_capability_is_refused(
        self, manager_site: ManagerSite, call: Callable[[OffsetManager], object]
    ) -> None:
        manager = manager_site.leader()
        with refused(CapabilityError):
            call(manager)
        assert manager.fetch(GROUP) == {}

    def test_every_capability_is_asked_for(self, manager_site: ManagerSite) -> None:
        assert set(NEEDING) == set(Capability)
        assert manager_site.harness.capabilities <= set(Capability)

    @pytest.mark.lacks(Capability.REPLICATION)
    def test_a_manager_without_a_log_says_so(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, {KEYS[0]: 1})
        partition = manager.partition_for(GROUP)
        assert manager.positions(partition) == (0, 0, 0, 0, 0)
        assert manager.end_offset_for_epoch(partition, 5) == (-1, -1)
        manager.flush(partition).result(manager_site.harness.patience)
