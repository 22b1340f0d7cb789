"""Handles those parts of group requests and answers that depend on the API version or on the members.

Source: docs/format/coordinator.md §5.8-5.11.
"""

from __future__ import annotations

from typing import Any

from offsetlog.coordinator.call import Call
from offsetlog.coordinator.classic_group import ClassicGroup, Member, Protocols
from offsetlog.error_codes import ErrorCode
from offsetlog.protocol.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
    SyncGroupResponse,
)

#: From this version on, a LeaveGroup names any number of members.
LEAVE_OF_MEMBERS = 3
#: The longest name that a record can hold, in bytes of UTF-8.
NAME_BYTES_MAX = 2**15 - 1
#: Calls, each with the answer that it gets if it must be refused.
Refusals = list[tuple[Call, Any]]


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """Returns the protocols that a member offers, with the preferred protocol first."""
    return tuple((each.name, each.metadata) for each in request.protocols)


def rebalance_timeout_of(request: JoinGroupRequest) -> int:
    """Returns the rebalance timeout in ms.  Version 0 does not have this field, so the session timeout is returned."""
    timeout = request.rebalance_timeout_ms
    return request.session_timeout_ms if timeout == -1 else timeout


def is_unwritable(name: str) -> bool:
    """Whether a name is too long for a group record and for the answers of old API versions.

    The decoder replaces each byte that is not UTF-8 by a character of three bytes.  A name can therefore become longer
    than it was in the request.
    """
    is_short = len(name) * 4 <= NAME_BYTES_MAX
    return not is_short and len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX


def has_unwritable_name(request: JoinGroupRequest, call: Call) -> bool:
    """Whether a join contains a name that no group record can hold."""
    names = (request.group_id, request.protocol_type, request.group_instance_id, call.client_id)
    offered = (each.name for each in request.protocols)
    return any(is_unwritable(each) for each in (*names, *offered) if each)


def new_member(member_id: str, request: JoinGroupRequest, call: Call) -> Member:
    """Creates a member from its first join, which waits for its answer."""
    return Member(
        member_id,
        request.group_instance_id,
        call.client_id or "",
        call.client_host,
        rebalance_timeout_of(request),
        request.session_timeout_ms,
        protocols_of(request),
        awaiting_join=call,
        is_new=True,
    )


def join_refusal(call: Call, error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """Returns the answer that refuses a join.  From version 7 on, its protocol name is null; before, it is ""."""
    return JoinGroupResponse(
        error_code=error.code,
        protocol_name=None if call.version >= 7 else "",
        member_id=member_id,
    )


def leaving(request: LeaveGroupRequest, call: Call) -> tuple[LeaveGroupRequestMember, ...]:
    """Returns the members that a LeaveGroup of any version names."""
    if call.version >= LEAVE_OF_MEMBERS:
        return tuple(request.members)
    return (LeaveGroupRequestMember(request.member_id),)


def leave_answer(
    results: tuple[LeaveGroupResponseMember, ...], call: Call
) -> LeaveGroupResponse:
    """Returns the answer to a LeaveGroup.

    Before version 3, a request names one member, and that member's error is the error of the answer.
    """
    if call.version >= LEAVE_OF_MEMBERS:
        return LeaveGroupResponse(members=results)
    return LeaveGroupResponse(error_code=results[0].error_code)


def leave_refusal(error: ErrorCode) -> LeaveGroupResponse:
    """Returns the answer to a LeaveGroup of any version if the request failed for all members."""
    return LeaveGroupResponse(error_code=error.code)


def awaited_syncs(group: ClassicGroup, error: ErrorCode) -> Refusals:
    """Returns the SyncGroup calls that wait for an assignment, each with an answer that refuses it with `error`."""
    return [
        (each.awaiting_sync, SyncGroupResponse(error_code=error.code))
        for each in group.members.values()
        if each.awaiting_sync is not None
    ]


def members_for_leader(group: ClassicGroup) -> tuple[JoinGroupResponseMember, ...]:
    """Returns all members with their metadata for the group's protocol; the leader assigns partitions by them."""
    return tuple(
        JoinGroupResponseMember(
            each.member_id, each.group_instance_id, each.metadata(group.protocol)
        )
        for each in group.members.values()
    )


def assignment_of(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """Returns the answer to a member's sync once the group is stable."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )


def differs(named: str | None, agreed: str | None) -> bool:
    """Whether a request names a protocol that differs from the agreed one; False if the request names none."""
    return named is not None and agreed is not None and named != agreed
