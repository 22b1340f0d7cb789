"""Requests of members of one group."""

from __future__ import annotations

from offsetlog.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

GROUP = "g"
PROTOCOLS = (JoinGroupRequestProtocol("range", b"r"),)


def join(
    member_id: str = "", *, instance: str | None = None, session: int = 10_000, rebalance: int = 60_000
) -> JoinGroupRequest:
    return JoinGroupRequest(GROUP, session, rebalance, member_id, instance, "consumer", PROTOCOLS)


def sync(member_id: str, generation: int, assigned: tuple[str, ...] = ()) -> SyncGroupRequest:
    """A SyncGroup; that of a leader assigns `b"for " + id` to each id."""
    assignments = tuple(
        SyncGroupRequestAssignment(each, b"for " + each.encode()) for each in assigned
    )
    return SyncGroupRequest(GROUP, generation, member_id, None, "consumer", "range", assignments)


def heartbeat(member_id: str, generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(GROUP, generation, member_id)
