"""Requests of members, as cases send them."""

from __future__ import annotations

import struct
from typing import Any

from offsetlog.protocol.messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

from .recorder import Recorder

MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS = 79, 27


def subscription(*topics: str) -> bytes:
    """Returns the subscription of a consumer, version 0 (docs/format/records.md §3.5)."""
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def protocols(*offered: str | tuple[str, bytes]) -> tuple[JoinGroupRequestProtocol, ...]:
    pairs = [each if isinstance(each, tuple) else (each, each.encode()) for each in offered]
    return tuple(JoinGroupRequestProtocol(*each) for each in pairs)


class Group:
    """A group of a case; a step's name comes first, and `more` goes to the recorder."""

    def __init__(self, r: Recorder, key: str, protocol_type: str = "consumer", topics: tuple[str, ...] = ("a",),
                 offered: tuple[str, ...] = ("range",)) -> None:
        self.r = r
        self.name = r.group(key)
        self.protocol_type = protocol_type
        data = subscription(*(r.topic(each) for each in topics))
        self.offered = protocols(*((each, data) for each in offered))

    def join(self, name: str, version: int = 7, member: str = "", instance: str | None = None, *,
             session: int = 30_000, rebalance: int = 30_000, protocol_type: str | None = None,
             offered: tuple[JoinGroupRequestProtocol, ...] | None = None, **more: Any) -> Any:
        kind = self.protocol_type if protocol_type is None else protocol_type
        request = JoinGroupRequest(
            self.name, session, rebalance, member, instance, kind, self.offered if offered is None else offered, "test"
        )
        return self.r.ask(name, request, version, **more)

    def enter(self, version: int = 7, instance: str | None = None, **more: Any) -> str:
        """Joins until it is a member; the member id."""
        answer = self.join("enters", version, instance=instance, **more)
        if answer.error_code == MEMBER_ID_REQUIRED:
            answer = self.join("enters with its id", version, answer.member_id, **more)
        assert answer.error_code == 0, answer
        return answer.member_id

    def sync(self, name: str, generation: int, member: str, instance: str | None = None, *, version: int = 5,
             assigned: tuple[str, ...] = (), protocol: str | None = "range", **more: Any) -> Any:
        given = tuple(SyncGroupRequestAssignment(each, b"for %d" % n) for n, each in enumerate(assigned))
        request = SyncGroupRequest(self.name, generation, member, instance, self.protocol_type, protocol, given)
        return self.r.ask(name, request, version, **more)

    def stable(self, instance: str | None = None, **more: Any) -> str:
        """One member, generation 1, state Stable."""
        member = self.enter(instance=instance, **more)
        self.sync("its assignment", 1, member, instance, assigned=(member,), protocol=self.offered[0].name)
        return member

    def beat(self, name: str, generation: int, member: str, instance: str | None = None, *, version: int = 4,
             **more: Any) -> Any:
        return self.r.ask(name, HeartbeatRequest(self.name, generation, member, instance), version, **more)

    def await_rebalance(self, generation: int, member: str, instance: str | None = None) -> None:
        """Heartbeats until the group prepares a rebalance."""
        self.beat("until the rebalance", generation, member, instance,
                  until=lambda answer: answer.error_code == REBALANCE_IN_PROGRESS)

    def await_members(self, count: int) -> None:
        """Asks until the group has as many members, whatever they do."""
        self.r.ask("until all are there", DescribeGroupsRequest((self.name,)), 5,
                   arrays=[{"path": "groups.members", "key": "group_instance_id"}],
                   until=lambda answer: len(answer.groups[0].members) == count)

    def leave(self, name: str, *members: tuple[str, str | None], version: int = 5, **more: Any) -> Any:
        if version < 3:
            request = LeaveGroupRequest(self.name, members[0][0])
        else:
            leavers = tuple(LeaveGroupRequestMember(*each, "done") for each in members)
            request = LeaveGroupRequest(self.name, members=leavers)
        return self.r.ask(name, request, version, **more)

    def commit(self, name: str, offset: int, generation: int = -1, member: str = "", instance: str | None = None, *,
               partitions: tuple[int, ...] = (0,), topic: str = "a", version: int = 9, **more: Any) -> Any:
        rows = tuple(OffsetCommitRequestTopicPartition(each, offset, -1, committed_metadata="") for each in partitions)
        topics = (OffsetCommitRequestTopic(self.r.topic(topic), partitions=rows),)
        request = OffsetCommitRequest(
            group_id=self.name, generation_id_or_member_epoch=generation, member_id=member,
            group_instance_id=instance, topics=topics,
        )
        return self.r.ask(name, request, version, **more)
