"""A random history of what running consumers ask, and of what they should not ask."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from offsetlog.protocol import encode_request
from offsetlog.protocol.messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    ListGroupsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
)

#: Topics that are made, with their numbers of partitions; the others of a history are unknown.
TOPICS = {"orders": 3, "payments": 1}
METADATA_MAX = 4096
GROUPS = ("stable", "static", "alone", "other", "")
METADATA = (
    "m", "", None, "x" * METADATA_MAX, "x" * (METADATA_MAX + 1), "ü" * METADATA_MAX, "🦄" * (METADATA_MAX // 2),
    "🦄" * (METADATA_MAX // 2) + "x",
)


@dataclass(frozen=True)
class Identity:
    """The identity that a client sends."""

    group: str
    generation: int = -1
    member_id: str = ""
    instance: str | None = None


class History:
    """Draws frames; the same seed draws the same.

    Args:
        draw: the source.
        identities: of members, present and past.
        topic_ids: by name.
    """

    def __init__(self, draw: random.Random, identities: list[Identity], topic_ids: dict[str, bytes]) -> None:
        self._draw = draw
        self._identities = identities
        self._ids = topic_ids
        self._correlation_id = 0

    def frame(self) -> bytes:
        """One request, with its size."""
        way = self._draw.random()
        if way < 0.45:
            return self._commit()
        if way < 0.7:
            return self._fetch()
        if way < 0.92:
            return self._heartbeat()
        return self._slow()

    def everything(self) -> list[bytes]:
        """Fetches of all positions of all groups, and what there is of them."""
        groups = [OffsetFetchRequestGroup(each, topics=None) for each in GROUPS]
        fetches = [self._encoded(OffsetFetchRequest(groups=(each,)), 9) for each in groups]
        return [*fetches, self._encoded(DescribeGroupsRequest(GROUPS), 5)]

    def _encoded(self, message: Any, version: int) -> bytes:
        self._correlation_id += 1
        client_id = self._draw.choice(("c", "", None, "ü"))
        return encode_request(message, version, self._correlation_id, client_id)

    def _identity(self) -> Identity:
        draw = self._draw
        if draw.random() < 0.7:
            return draw.choice(self._identities)
        likely = draw.choice(self._identities)
        return Identity(
            draw.choice((likely.group, draw.choice(GROUPS))),
            draw.choice((likely.generation, likely.generation + 1, likely.generation - 1, -1, 0)),
            draw.choice((likely.member_id, "", "nobody")),
            draw.choice((likely.instance, None, "", "nobody")),
        )

    def _topic(self) -> tuple[str, bytes]:
        name = self._draw.choice(("orders", "orders", "payments", "unknown"))
        return name, self._draw.choice((self._ids.get(name, bytes(16)), self._ids[self._draw.choice(tuple(TOPICS))]))

    def _numbers(self) -> list[int]:
        count = self._draw.choice((0, 1, 1, 1, 2, 5))
        return [self._draw.choice((0, 0, 0, 1, 2, 2, 3, -1)) for _ in range(count)]

    def _commit(self) -> bytes:
        draw, who = self._draw, self._identity()
        version = draw.randrange(0, 11)
        is_plain = draw.random() < 0.6
        topics = []
        for _ in range(1 if is_plain else draw.randrange(5)):
            name, topic_id = self._topic()
            numbers = [0] if is_plain else self._numbers()
            positions = tuple(self._position(number, version, is_plain=is_plain) for number in numbers)
            topics.append(OffsetCommitRequestTopic(name, topic_id, positions))
        retention = draw.choice((-1, -1, -1, 0, 1000, 1 << 40, -2, 2**63 - 1)) if 2 <= version <= 4 else -1
        has_instance = version >= 7 or draw.random() < 0.1
        request = OffsetCommitRequest(
            who.group, who.generation, who.member_id, who.instance if has_instance else None, retention, tuple(topics)
        )
        return self._encoded(_of_version(request, version), version)

    def _position(self, number: int, version: int, *, is_plain: bool) -> OffsetCommitRequestTopicPartition:
        draw = self._draw
        metadata = "m" if is_plain else draw.choice(METADATA)
        epoch = draw.choice((-1, 0, 5) if is_plain else (-1, 5, -2)) if version >= 6 else -1
        time = draw.choice((-1, 1_600_000_000_000)) if version == 1 else -1
        offset = draw.randrange(1000) if is_plain else draw.choice((0, 7, 2**63 - 1, -1, -5))
        return OffsetCommitRequestTopicPartition(number, offset, epoch, time, metadata)

    def _fetch(self) -> bytes:
        draw = self._draw
        version = draw.randrange(0, 11)
        is_plain = draw.random() < 0.6
        stable = draw.random() < 0.3 if version >= 7 else False
        if version >= 8:
            count = 1 if is_plain else draw.randrange(4)
            groups = tuple(self._fetched_group(version, is_plain=is_plain) for _ in range(count))
            return self._encoded(OffsetFetchRequest(groups=groups, require_stable=stable), version)
        topics = tuple(OffsetFetchRequestTopic(*each) for each in self._fetched(is_plain=is_plain))
        if version >= 2 and not is_plain and draw.random() < 0.2:
            return self._encoded(OffsetFetchRequest(draw.choice(GROUPS), None, (), stable), version)
        return self._encoded(OffsetFetchRequest(draw.choice(GROUPS), topics, (), stable), version)

    def _fetched(self, *, is_plain: bool) -> list[tuple[str, list[int]]]:
        count = 1 if is_plain else self._draw.randrange(4)
        return [(self._topic()[0], [0, 1] if is_plain else self._numbers()) for _ in range(count)]

    def _fetched_group(self, version: int, *, is_plain: bool) -> OffsetFetchRequestGroup:
        draw, who = self._draw, self._identity()
        topics = []
        for name, numbers in self._fetched(is_plain=is_plain):
            topic_id = self._topic()[1] if version >= 10 else bytes(16)
            topics.append(OffsetFetchRequestGroupTopic(name, topic_id, tuple(numbers)))
        of_all = not is_plain and draw.random() < 0.2
        says_member = version >= 9 and draw.random() < 0.5
        return OffsetFetchRequestGroup(
            who.group,
            who.member_id if says_member else None,
            who.generation if says_member else -1,
            None if of_all else tuple(topics),
        )

    def _heartbeat(self) -> bytes:
        who, version = self._identity(), self._draw.randrange(5)
        instance = who.instance if version >= 3 else None
        return self._encoded(HeartbeatRequest(who.group, who.generation, who.member_id, instance), version)

    def _slow(self) -> bytes:
        draw = self._draw
        way = draw.randrange(4)
        if way == 0:
            return self._encoded(MetadataRequest(None), 12)
        if way == 1:
            return self._encoded(ListGroupsRequest(), 4)
        if way == 2:
            return self._encoded(DescribeGroupsRequest(("stable", "static", "other")), 5)
        return self._encoded(join("other", "", None), 9)


def join(group: str, member_id: str, instance: str | None) -> JoinGroupRequest:
    """A JoinGroup of a member whose session ends after the test."""
    protocols = (JoinGroupRequestProtocol("range", b"r"),)
    return JoinGroupRequest(group, 600_000, 60_000, member_id, instance, "consumer", protocols)


def _of_version(request: OffsetCommitRequest, version: int) -> OffsetCommitRequest:
    # Fields that a version lacks are not written; a generation in version 0 is.
    if version >= 1:
        return request
    return request._replace(generation_id_or_member_epoch=-1, member_id="", group_instance_id=None)
