"""The port through which the coordinator sends answers, writes records, and queries its host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from offsetlog.coordinator.call import Call
from offsetlog.coordinator.group_record import Expiry, Fence, GroupRecord


class Ports(Protocol):
    """The host of a coordinator, which sends the coordinator's answers and writes its records."""

    def answer(self, call: Call, message: Any) -> None:
        """Sends the answer to a call.  The coordinator calls this once for each call."""

    def append(
        self,
        partition: int,
        group_id: str,
        record: GroupRecord | Expiry | Fence | None,
        token: object,
    ) -> None:
        """Begins to append a record of a group, or to delete the group or its expired positions.

        When the append is done, the host calls `Coordinator.written` with the same token.
        """

    def admit(
        self, group_id: str, generation: int, member_id: str, group_instance_id: str | None
    ) -> None:
        """Admits a member: the host may now answer commits and heartbeats with exactly these values by itself."""

    def revoke(self, group_id: str) -> Iterable[tuple[str, float]]:
        """Ends all admissions of a group.

        For each member that was admitted, returns its id and the time of its last admitted request, in seconds.
        """

    def set_led(self, partition: int, is_led: bool) -> None:
        """Sets whether this coordinator leads a partition and has loaded its groups."""

    def now_ms(self) -> int:
        """Returns the time of day, in ms since 1970."""

    def new_id(self) -> str:
        """Generates the random part of a member id: a UUID as text."""

    def has_offsets(self, group_id: str) -> bool:
        """Whether the group has positions.  A group that has positions exists even without a group record."""
