"""A second, independent decoder of the offsets topic's keys and values (docs/format/records.md §3,
docs/format/brokers.md §15), into objects with Kafka's field names.

The result has the form of Kafka 4.3.0's dump tool: `{"type": "1", "data": {...}}` for keys and `{"version": "4",
"data": {...}}` for values, tagged fields left out where they have their default.  The one difference: byte fields (a
member's subscription and assignment, a classic protocol's metadata) are always base64; that tool takes those of type
"consumer" apart.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class UndecodableError(Exception):
    """A key or value that Kafka's coordinator would refuse; the message says why."""


KINDS = {
    0: "offset_commit",
    1: "offset_commit",
    2: "group_metadata",
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
    17: "streams_group_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
}
_MEMBER_KEYS = {5, 7, 8, 10, 13, 14, 19, 21, 22}

# Java's decoder replaces a surrogate encoded in three bytes by one U+FFFD, Python's by three
# (docs/format/partitioning.md §4).
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def java_text(data: bytes) -> str:
    """Bytes as a Java String would show them: UTF-8, malformed input replaced by U+FFFD."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xef\xbf\xbd", data).decode("utf-8", "replace")


class Reader:
    """A cursor over one key or value; every read raises UndecodableError where bytes are missing."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size < 0 or self.at + size > len(self.data):
            raise UndecodableError(f"{size} bytes wanted at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form: str) -> int:
        """A big-endian number: one of b, h, i, q."""
        return int(struct.unpack(">" + form, self.take(struct.calcsize(">" + form)))[0])

    def uvarint(self) -> int:
        """An unsigned varint of at most five bytes."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise UndecodableError("a varint of more than five bytes")

    def string(self) -> str | None:
        """A string with an i16 length; None for null."""
        size = self.number("h")
        return None if size < 0 else java_text(self.take(size))

    def compact_string(self) -> str | None:
        """A string with a varint length; None for null."""
        size = self.uvarint()
        return None if size == 0 else java_text(self.take(size - 1))

    def blob(self) -> str | None:
        """Bytes with an i32 length, as base64; None for null."""
        size = self.number("i")
        return None if size < 0 else _base64(self.take(size))

    def compact_blob(self) -> str | None:
        """Bytes with a varint length, as base64; None for null."""
        size = self.uvarint()
        return None if size == 0 else _base64(self.take(size - 1))

    def tags(self) -> dict[int, bytes]:
        """A tag section."""
        return {self.uvarint(): self.take(self.uvarint()) for _ in range(self.uvarint())}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def uuid_text(data: bytes) -> str:
    """Kafka's text of a 16-byte id: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _required(value: str | None, name: str) -> str:
    if value is None:
        raise UndecodableError(f"{name} is null")
    return value


def decode_key(data: bytes) -> dict[str, Any] | None:
    """The type and fields of a key, or None for a type nobody knows.

    Raises UndecodableError for a cut key of a known type.
    """
    reader = Reader(data)
    type_ = reader.number("h")
    if type_ not in KINDS:
        return None
    if type_ in (0, 1):
        body: dict[str, Any] = {
            "group": _required(reader.string(), "group"),
            "topic": _required(reader.string(), "topic"),
            "partition": reader.number("i"),
        }
    elif type_ == 2:
        body = {"group": _required(reader.string(), "group")}
    else:
        body = {"groupId": _required(reader.string(), "groupId")}
        if type_ in _MEMBER_KEYS:
            body["memberId"] = _required(reader.string(), "memberId")
        elif type_ == 16:
            body["regularExpression"] = _required(reader.string(), "regularExpression")
    return {"type": str(type_), "data": body}


def decode_value(type_: int, data: bytes) -> dict[str, Any]:
    """The version and fields of a value under a known key type.

    Raises UndecodableError for a cut value and an unknown version.
    """
    reader = Reader(data)
    version = reader.number("h")
    highest = 0 if type_ == 0 or type_ > 2 else 4
    if not 0 <= version <= highest:
        raise UndecodableError(f"value version {version} of key type {type_}")
    if type_ in (0, 1):
        body = _offset_commit(reader, version)
    elif type_ == 2:
        body = _group_metadata(reader, version)
    else:
        body = _struct(reader, SCHEMAS[type_])
    return {"version": str(version), "data": body}


def _offset_commit(reader: Reader, version: int) -> dict[str, Any]:
    body: dict[str, Any] = {"offset": reader.number("q")}
    if version >= 3:
        body["leaderEpoch"] = reader.number("i")
    text = reader.compact_string() if version >= 4 else reader.string()
    body["metadata"] = _required(text, "metadata")
    body["commitTimestamp"] = reader.number("q")
    if version == 1:
        body["expireTimestamp"] = reader.number("q")
    if version >= 4:
        topic_id = reader.tags().get(0, bytes(16))
        if topic_id != bytes(16):
            body["topicId"] = uuid_text(topic_id)
    return body


def _group_metadata(reader: Reader, version: int) -> dict[str, Any]:
    flexible = version >= 4
    text: Callable[[], str | None] = reader.compact_string if flexible else reader.string
    blob: Callable[[], str | None] = reader.compact_blob if flexible else reader.blob
    body: dict[str, Any] = {"protocolType": _required(text(), "protocolType"), "generation": reader.number("i")}
    body["protocol"] = text()
    body["leader"] = text()
    if version >= 2:
        body["currentStateTimestamp"] = reader.number("q")
    members = []
    for _ in range(reader.uvarint() - 1 if flexible else reader.number("i")):
        member: dict[str, Any] = {"memberId": _required(text(), "memberId")}
        if version >= 3:
            member["groupInstanceId"] = text()
        member["clientId"] = _required(text(), "clientId")
        member["clientHost"] = _required(text(), "clientHost")
        if version >= 1:
            member["rebalanceTimeout"] = reader.number("i")
        member["sessionTimeout"] = reader.number("i")
        member["subscription"] = blob()
        member["assignment"] = blob()
        if flexible:
            reader.tags()
        members.append(member)
    body["members"] = members
    if flexible:
        reader.tags()
    return body


@dataclass(frozen=True)
class Field:
    """One field of a flexible schema; a tagged one is left out of the result where it has its default."""

    name: str
    type: Any
    tag: int | None = None
    default: Any = None


@dataclass(frozen=True)
class Array:
    """A compact array of `element`."""

    element: Any


@dataclass(frozen=True)
class Nullable:
    """A struct after a presence byte."""

    struct: list[Field]


def _struct(reader: Reader, fields: list[Field]) -> dict[str, Any]:
    read = {each.name: _read(reader, each.type) for each in fields if each.tag is None}
    tags = reader.tags()
    body = {}
    for each in fields:
        if each.tag is None:
            body[each.name] = read[each.name]
        elif each.tag in tags:
            body[each.name] = _read(Reader(tags[each.tag]), each.type)
        elif isinstance(each.type, Nullable):
            # Kafka prints an absent tagged struct as null, other absent tags not at all.
            body[each.name] = None
    return body


def _read(reader: Reader, type_: Any) -> Any:
    if isinstance(type_, Array):
        count = reader.uvarint()
        return None if count == 0 else [_read(reader, type_.element) for _ in range(count - 1)]
    if isinstance(type_, Nullable):
        return _struct(reader, type_.struct) if reader.number("b") == 1 else None
    if isinstance(type_, list):
        return _struct(reader, type_)
    if type_ == "string":
        return reader.compact_string()
    if type_ == "bytes":
        return reader.compact_blob()
    if type_ == "uuid":
        return uuid_text(reader.take(16))
    return reader.number(type_)


_EPOCHS = Field("assignmentEpochs", Array("i"), tag=0)
_PARTITIONS = [Field("topicId", "uuid"), Field("partitions", Array("i"))]
_ASSIGNED = [*_PARTITIONS, _EPOCHS]
_TASKS = [Field("subtopologyId", "string"), Field("partitions", Array("i"))]
_ASSIGNED_TASKS = [*_TASKS, _EPOCHS]
_SETTING = [Field("key", "string"), Field("value", "string")]
_TOPIC_INFO = [
    Field("name", "string"),
    Field("partitions", "i"),
    Field("replicationFactor", "h"),
    Field("topicConfigs", Array(_SETTING)),
]
_CLIENT = [Field("clientId", "string"), Field("clientHost", "string")]
_ASSIGNMENT_EPOCH = [Field("assignmentEpoch", "i"), Field("assignmentTimestamp", "q", tag=0)]
_NAMED_PARTITIONS = [Field("topicId", "uuid"), Field("topicName", "string"), Field("partitions", Array("i"))]
_MEMBER_EPOCHS = [Field("memberEpoch", "i"), Field("previousMemberEpoch", "i"), Field("state", "b")]

SCHEMAS: dict[int, list[Field]] = {
    3: [Field("epoch", "i"), Field("metadataHash", "q", tag=0)],
    4: [
        Field(
            "topics",
            Array(
                [
                    Field("topicId", "uuid"),
                    Field("topicName", "string"),
                    Field("numPartitions", "i"),
                    Field("partitionMetadata", Array([Field("partition", "i"), Field("racks", Array("string"))])),
                ]
            ),
        )
    ],
    5: [
        Field("instanceId", "string"),
        Field("rackId", "string"),
        *_CLIENT,
        Field("subscribedTopicNames", Array("string")),
        Field("subscribedTopicRegex", "string"),
        Field("rebalanceTimeoutMs", "i"),
        Field("serverAssignor", "string"),
        Field(
            "classicMemberMetadata",
            Nullable(
                [
                    Field("sessionTimeoutMs", "i"),
                    Field("supportedProtocols", Array([Field("name", "string"), Field("metadata", "bytes")])),
                ]
            ),
            tag=0,
        ),
    ],
    6: _ASSIGNMENT_EPOCH,
    7: [Field("topicPartitions", Array(_PARTITIONS))],
    8: [
        *_MEMBER_EPOCHS,
        Field("assignedPartitions", Array(_ASSIGNED)),
        Field("partitionsPendingRevocation", Array(_ASSIGNED)),
    ],
    10: [Field("rackId", "string"), *_CLIENT, Field("subscribedTopicNames", Array("string"))],
    11: [Field("epoch", "i"), Field("metadataHash", "q")],
    12: _ASSIGNMENT_EPOCH,
    13: [Field("topicPartitions", Array(_PARTITIONS))],
    14: [*_MEMBER_EPOCHS, Field("assignedPartitions", Array(_PARTITIONS))],
    15: [
        Field("initializingTopics", Array(_NAMED_PARTITIONS)),
        Field("initializedTopics", Array(_NAMED_PARTITIONS)),
        Field("deletingTopics", Array([Field("topicId", "uuid"), Field("topicName", "string")])),
    ],
    16: [Field("topics", Array("string")), Field("version", "q"), Field("timestamp", "q")],
    17: [
        Field("epoch", "i"),
        Field("metadataHash", "q"),
        Field("validatedTopologyEpoch", "i", tag=0),
        Field("lastAssignmentConfigs", Array(_SETTING), tag=1),
    ],
    19: [
        Field("instanceId", "string"),
        Field("rackId", "string"),
        *_CLIENT,
        Field("rebalanceTimeoutMs", "i"),
        Field("topologyEpoch", "i"),
        Field("processId", "string"),
        Field("userEndpoint", Nullable([Field("host", "string"), Field("port", "H")])),
        Field("clientTags", Array(_SETTING)),
    ],
    20: _ASSIGNMENT_EPOCH,
    21: [Field(name, Array(_TASKS)) for name in ("activeTasks", "standbyTasks", "warmupTasks")],
    22: [
        *_MEMBER_EPOCHS,
        *(Field(name, Array(_ASSIGNED_TASKS)) for name in ("activeTasks", "standbyTasks", "warmupTasks")),
        *(
            Field(name + "PendingRevocation", Array(_ASSIGNED_TASKS))
            for name in ("activeTasks", "standbyTasks", "warmupTasks")
        ),
    ],
    23: [
        Field("epoch", "i"),
        Field(
            "subtopologies",
            Array(
                [
                    Field("subtopologyId", "string"),
                    Field("sourceTopics", Array("string")),
                    Field("sourceTopicRegex", Array("string")),
                    Field("stateChangelogTopics", Array(_TOPIC_INFO)),
                    Field("repartitionSinkTopics", Array("string")),
                    Field("repartitionSourceTopics", Array(_TOPIC_INFO)),
                    Field(
                        "copartitionGroups",
                        Array(
                            [
                                Field("sourceTopics", Array("h")),
                                Field("sourceTopicRegex", Array("h")),
                                Field("repartitionSourceTopics", Array("h")),
                            ]
                        ),
                    ),
                ]
            ),
        ),
    ],
}
