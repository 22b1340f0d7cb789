"""The record of a classic group: the part of its state that the log keeps."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from typing import Any

from offsetlog._native.encoding import encode_value
from offsetlog._native.records import decode_value

#: The key type of the record (docs/format/records.md §3.4).
KEY_TYPE = 2
#: The version that brokers write (docs/format/brokers.md §15.1); older ones are read.
VALUE_VERSION = 3


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member as the group's record contains it.  Times are in milliseconds."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Expiry:
    """An order to write tombstones for the expired positions of a group; the log determines which have expired.

    A `Write` of the coordinator may contain an Expiry in place of a record.  Source: docs/format/coordinator.md §5.13.

    Attributes:
        subscribed: the topics to which the members of a stable consumer group are subscribed, and whose positions must
            stay; None if the group has no members.
    """

    subscribed: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """The state of a group that one record contains (docs/format/records.md §3.4).

    Attributes:
        protocol_type: "" for a group that never had a member.
        generation: the generation of the members.
        protocol: the protocol that the members have agreed on; None if there are no members.
        leader: the member id of the leader; None if there are no members.
        current_state_timestamp: the time of the record, in ms since 1970; -1 if an old broker wrote it.
        members: the members in the order in which they joined.
    """

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int = -1
    members: tuple[MemberRecord, ...] = ()

    def to_value(self) -> bytes:
        """Encodes the value of the record, as brokers write it."""
        fields: dict[str, Any] = {
            "protocolType": self.protocol_type,
            "generation": self.generation,
            "protocol": self.protocol,
            "leader": self.leader,
            "currentStateTimestamp": self.current_state_timestamp,
            "members": [
                {
                    "memberId": member.member_id,
                    "groupInstanceId": member.group_instance_id,
                    "clientId": member.client_id,
                    "clientHost": member.client_host,
                    "rebalanceTimeout": member.rebalance_timeout,
                    "sessionTimeout": member.session_timeout,
                    "subscription": member.subscription,
                    "assignment": member.assignment,
                }
                for member in self.members
            ],
        }
        return encode_value(KEY_TYPE, VALUE_VERSION, fields)

    @classmethod
    def from_value(cls, value: bytes) -> GroupRecord:
        """Reads the value of a record of any version.

        Raises:
            CorruptionError: the value is truncated or has an unknown version.
        """
        fields = decode_value(KEY_TYPE, value)["data"]
        return cls(
            fields["protocolType"],
            fields["generation"],
            fields["protocol"],
            fields["leader"],
            fields.get("currentStateTimestamp", -1),
            tuple(_member(each) for each in fields["members"]),
        )


@dataclass(frozen=True, slots=True)
class Fence:
    """A group record without members, which ends a generation, and the positions to write in the same batch.

    Attributes:
        record: the state of the group in its next generation.
        order: an object that contains the positions.  The coordinator passes it to the writer unchanged.
    """

    record: GroupRecord
    order: Any


def _member(fields: dict[str, Any]) -> MemberRecord:
    session_timeout = fields["sessionTimeout"]
    rebalance_timeout = fields.get("rebalanceTimeout", -1)
    return MemberRecord(
        fields["memberId"],
        fields.get("groupInstanceId"),
        fields["clientId"],
        fields["clientHost"],
        # Version 0 has no rebalance timeout, and upgraded brokers wrote -1.
        session_timeout if rebalance_timeout == -1 else rebalance_timeout,
        session_timeout,
        b64decode(fields["subscription"]),
        b64decode(fields["assignment"]),
    )
