"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and the administrative requests for groups.

Source: docs/format/coordinator.md §5.5, §5.6, §5.8-5.10.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from offsetlog import error_codes
from offsetlog.coordinator.classic_group import ClassicGroup, GroupState, Member
from offsetlog.error_codes import ErrorCode
from offsetlog.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseResult,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseGroupMember,
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseGroup,
)
from offsetlog.server.exchange import Exchange
from offsetlog.server.node import NodeState


def join_group(node: NodeState, exchange: Exchange) -> None:
    """Handles a JoinGroup; answers when the rebalance in which the member takes part is complete."""
    node.groups.run(exchange, node.groups.coordinator.join)
    exchange.wait()


def sync_group(node: NodeState, exchange: Exchange) -> None:
    """Handles a SyncGroup; answers when the group leader's assignment is stored."""
    node.groups.run(exchange, node.groups.coordinator.sync)
    exchange.wait()


def heartbeat(node: NodeState, exchange: Exchange) -> None:
    """Handles a Heartbeat; answers at once."""
    node.groups.run(exchange, node.groups.coordinator.heartbeat)


def leave_group(node: NodeState, exchange: Exchange) -> None:
    """Handles a LeaveGroup; answers at once, but if the group becomes empty, only after that is stored."""
    node.groups.run(exchange, node.groups.coordinator.leave)


# ----------------------------------------------------------------------------------------------- list

CLASSIC = "classic"


def list_groups(node: NodeState, exchange: Exchange) -> None:
    """Answers with the groups of the log partitions that this node leads, in any order."""
    request: ListGroupsRequest = exchange.request.message
    if node.groups.coordinator.is_loading:
        error = error_codes.COORDINATOR_LOAD_IN_PROGRESS
        exchange.reply(ListGroupsResponse(error_code=error.code))
        return
    states = {each.strip().lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    exchange.reply(
        ListGroupsResponse(
            groups=tuple(
                each
                for each in _all_groups(node)
                if (not states or each.group_state.lower() in states)
                and (not types or each.group_type in types)
            )
        )
    )


def _all_groups(node: NodeState) -> Iterator[ListGroupsResponseGroup]:
    coordinator = node.groups.coordinator
    named = set()
    for group in coordinator.groups():
        named.add(group.group_id)
        yield ListGroupsResponseGroup(
            group.group_id, group.protocol_type, group.state.value, CLASSIC
        )
    for name, other in coordinator.other_groups().items():
        named.add(name)
        state = "Stable" if other.has_members else "Empty"
        protocol_type = "consumer" if other.group_type == "consumer" else other.group_type
        yield ListGroupsResponseGroup(name, protocol_type, state, other.group_type)
    for partition in coordinator.loaded_partitions():
        for name, positions in node.manager.group_log.groups(partition).items():
            if name not in named and positions:
                yield ListGroupsResponseGroup(name, "", GroupState.EMPTY.value, CLASSIC)


# ------------------------------------------------------------------------------------------- describe

#: From this version on, DescribeGroups reports that a group does not exist.
DESCRIBE_WITH_MISSING_GROUP = 6
#: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: every client may do everything to a
#: group.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
NOT_ASKED_FOR = -(1 << 31)
#: When the members in an answer reach this many bytes, the client must ask again for other groups.
DESCRIBED_BYTES_MAX = 16 << 20
#: The assumed size of a member besides its names, metadata and assignment.
MEMBER_BYTES = 64


def describe_groups(node: NodeState, exchange: Exchange) -> None:
    """Answers with the members of classic groups; describes each group once per request."""
    request: DescribeGroupsRequest = exchange.request.message
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED_FOR
    described: dict[str, tuple[DescribeGroupsResponseGroup, int]] = {}
    groups = []
    answered = 0
    for name in request.groups:
        if answered >= DESCRIBED_BYTES_MAX:
            # Clients ask again only for groups with this error.
            code = error_codes.COORDINATOR_LOAD_IN_PROGRESS.code
            groups.append(DescribeGroupsResponseGroup(code, group_id=name))
            continue
        if name not in described:
            group = _with_operations(_described(node, name, exchange.version), operations)
            described[name] = group, _size_of_members(group)
        group, size = described[name]
        groups.append(group)
        answered += size
    exchange.reply(DescribeGroupsResponse(groups=tuple(groups)))


def _size_of_members(group: DescribeGroupsResponseGroup) -> int:
    return sum(
        MEMBER_BYTES + sum(len(field) for field in member if field) for member in group.members
    )


def _with_operations(
    group: DescribeGroupsResponseGroup, operations: int
) -> DescribeGroupsResponseGroup:
    return group if group.error_code else group._replace(authorized_operations=operations)


def _described(node: NodeState, name: str, version: int) -> DescribeGroupsResponseGroup:
    coordinator = node.groups.coordinator
    refusal = coordinator.refusal(name)
    if refusal is not None:
        return DescribeGroupsResponseGroup(refusal.code, group_id=name)
    group = coordinator.group(name)
    if group is None or coordinator.other_group(name) is not None:
        return _missing(name, version)
    is_stable = group.state is GroupState.STABLE
    return DescribeGroupsResponseGroup(
        group_id=name,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if is_stable else "",
        members=tuple(_described_member(group, each) for each in group.members.values()),
    )


def _missing(name: str, version: int) -> DescribeGroupsResponseGroup:
    dead = DescribeGroupsResponseGroup(group_id=name, group_state=GroupState.DEAD.value)
    if version < DESCRIBE_WITH_MISSING_GROUP:
        return dead
    return dead._replace(
        error_code=error_codes.GROUP_ID_NOT_FOUND.code, error_message=f"Group {name} not found."
    )


def _described_member(group: ClassicGroup, member: Member) -> DescribeGroupsResponseGroupMember:
    is_stable = group.state is GroupState.STABLE
    return DescribeGroupsResponseGroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.metadata(group.protocol) if is_stable else b"",
        member.assignment,
    )


# --------------------------------------------------------------------------------------------- delete


def delete_groups(node: NodeState, exchange: Exchange) -> None:
    """Deletes groups without members; answers when every deletion has succeeded or failed."""
    request: DeleteGroupsRequest = exchange.request.message
    names = list(dict.fromkeys(request.groups_names))
    errors: dict[str, int] = {}

    def finished(name: str, error: ErrorCode | None) -> None:
        errors[name] = 0 if error is None else error.code
        if len(errors) == len(names):
            exchange.reply(
                DeleteGroupsResponse(
                    results=tuple(DeleteGroupsResponseResult(each, errors[each]) for each in names)
                )
            )

    if not names:
        exchange.reply(DeleteGroupsResponse())
    for name in names:
        node.groups.delete(name, partial(finished, name))
