"""The record of a group with members, as a coordinator writes it to the group's log."""

from __future__ import annotations

from typing import Any

from offsetlog._native.encoding import encode_batch, encode_key, encode_value
from offsetlog.clock import wall_ms

_GROUP_METADATA, _VALUE_VERSION = 2, 3


def _member(number: int) -> dict[str, Any]:
    return {
        "memberId": f"member-{number}",
        "groupInstanceId": None,
        "clientId": "client",
        "clientHost": "/127.0.0.1",
        "rebalanceTimeout": 300_000,
        "sessionTimeout": 45_000,
        "subscription": b"",
        "assignment": b"",
    }


def member_batch(
    base_offset: int, leader_epoch: int, group: str, generation: int, members: int
) -> bytes:
    """Returns a batch with one record: a classic group (docs/format/records.md §3.4).

    Args:
        base_offset: the log offset of the record.
        leader_epoch: the epoch of the leader that sends the batch.
        group: the consumer group.
        generation: the generation of the group.
        members: the number of members.
    """
    value = {
        "protocolType": "consumer",
        "generation": generation,
        "protocol": "range" if members else None,
        "leader": "member-0" if members else None,
        "currentStateTimestamp": wall_ms(),
        "members": [_member(number) for number in range(members)],
    }
    key = encode_key(_GROUP_METADATA, {"group": group})
    record = (key, encode_value(_GROUP_METADATA, _VALUE_VERSION, value))
    return encode_batch(base_offset, wall_ms(), [record], leader_epoch=leader_epoch)
