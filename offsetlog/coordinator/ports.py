"""Where the coordinator's answers and records go, and what it asks of its host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from offsetlog.coordinator.call import Call
from offsetlog.coordinator.group_record import Expiry, Fence, GroupRecord


class Ports(Protocol):
    """Where a coordinator's answers and records go."""

    def answer(self, call: Call, message: Any) -> None:
        """Sends the answer of a call; once for each."""

    def append(
        self,
        partition: int,
        group_id: str,
        record: GroupRecord | Expiry | Fence | None,
        token: object,
    ) -> None:
        """Appends the record of a group, deletes all of it, or what has expired of it.

        `Coordinator.written` is called with the token when that is done.
        """

    def admit(
        self, group_id: str, generation: int, member_id: str, group_instance_id: str | None
    ) -> None:
        """Commits and heartbeats with exactly these may be answered without the coordinator."""

    def revoke(self, group_id: str) -> Iterable[tuple[str, float]]:
        """Those of this group no more; member ids, and when each was heard of last, in seconds."""

    def set_led(self, partition: int, is_led: bool) -> None:
        """The groups of a partition are known from now on, or are another coordinator's."""

    def now_ms(self) -> int:
        """The time of day, ms since 1970."""

    def new_id(self) -> str:
        """The random part of a member id: a UUID as text."""

    def has_offsets(self, group_id: str) -> bool:
        """Whether the group has positions, so that it is there without a record."""
