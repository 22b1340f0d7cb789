"""Parsers of what Kafka said about its own log directories: every file type under `expected/`, as plain dataclasses.

The listings (offsets, groups) and the formatters' output are here; the dump tool's output is in `kafka_dumps`.
Nothing here reads a log: these are Kafka's words, kept apart from our own reading of the bytes (`oracle`).  Pure
functions of a path; safe from any thread.  Every parser raises `ValueError` for a line it does not understand, so
that a new flavour is noticed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CommittedOffset:
    """One row of `offsets.tsv`: an OffsetFetch answer.  `leader_epoch` is -1 for none."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True)
class StableOffset:
    """One row of `offsets-stable.tsv`: the same request with requireStable=true.

    `error` is "NONE" or "UNSTABLE_OFFSET_COMMIT" (then offset -1); `asked` is "all" topics or each partition "named".
    """

    committed: CommittedOffset
    error: str
    asked: str


@dataclass(frozen=True)
class GroupMember:
    """The fields of a member in both describe answers; `group_instance_id` is None if an answer has none."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str


@dataclass(frozen=True)
class GroupAnswer:
    """One group as the broker listed and described it.

    `type` is "classic", "consumer", "share" or "streams".  `protocol` is the selected assignor of a classic group
    ("" for none) and None for other types; `simple` is None where the API of that time did not tell.
    """

    group: str
    state: str
    type: str
    protocol_type: str
    protocol: str | None
    simple: bool | None
    members: tuple[GroupMember, ...]


@dataclass(frozen=True)
class FormattedOffset:
    """One offset record as Kafka's offsets formatter printed it.

    `log_partition` and `log_offset` are None where that version's output has no place for them; then the records of a
    partition come in log order.  `offset` is None for a tombstone.  `expire_timestamp` is -1 for none, `leader_epoch`
    is None where the version does not print it.
    """

    log_partition: int | None
    log_offset: int | None
    group: str
    topic: str
    partition: int
    offset: int | None
    metadata: str | None
    leader_epoch: int | None
    commit_timestamp: int | None
    expire_timestamp: int | None


@dataclass(frozen=True)
class FormattedGroup:
    """One classic group record as Kafka's group formatter printed it; `tombstone` leaves the rest empty.

    `protocol_type` is "" for none.  `generation` is None where the version does not print it.  `value` is the whole
    JSON value where the version prints JSON.  Members are (member id, client id, client host, session timeout),
    sorted.
    """

    log_partition: int | None
    log_offset: int | None
    group: str
    tombstone: bool
    protocol_type: str
    generation: int | None
    members: tuple[tuple[str, str, str, int], ...]
    value: dict[str, Any] | None


def lines_of(path: Path) -> list[str]:
    """Lines of a text file split at line feeds only: metadata holds other control characters."""
    text = path.read_bytes().decode("utf-8")
    lines = text.split("\n")
    return lines[:-1] if lines and lines[-1] == "" else lines


def _group_name(text: str) -> str:
    # Kafka 4.3.0's files carry the group as a JSON string, the older ones as it is.  No older group name starts and
    # ends with a quote, so the two cannot be mistaken for each other.
    return json.loads(text) if len(text) >= 2 and text[0] == text[-1] == '"' else text


def read_offsets(path: Path) -> list[CommittedOffset]:
    """`offsets.tsv` of both flavours, in file order.

    Kafka 4.3.0's files keep negative offsets; those of the older brokers leave rows with offset -1 out, since -1 is how
    OffsetFetch says "none" there.
    """
    return [_committed(line.split("\t")) for line in lines_of(path)]


def _committed(fields: list[str]) -> CommittedOffset:
    if len(fields) != 6:
        raise ValueError(f"an offsets row has 6 fields: {fields!r}")
    group, topic, partition, offset, leader_epoch, metadata = fields
    return CommittedOffset(
        _group_name(group), topic, int(partition), int(offset), int(leader_epoch), json.loads(metadata)
    )


def read_stable_offsets(path: Path) -> list[StableOffset]:
    """`offsets-stable.tsv`, in file order."""
    rows = []
    for line in lines_of(path):
        fields = line.split("\t")
        if len(fields) != 8:
            raise ValueError(f"a stable offsets row has 8 fields: {fields!r}")
        rows.append(StableOffset(_committed(fields[:6]), fields[6], fields[7]))
    return rows


def read_groups_tsv(path: Path) -> list[GroupAnswer]:
    """`groups.tsv` (Kafka 4.3.0), in file order."""
    groups = []
    for line in lines_of(path):
        name, state, type_, protocol_type, simple, described = line.split("\t")
        answer = json.loads(described)
        members = tuple(
            GroupMember(each["memberId"], each.get("instanceId"), each["clientId"], each["host"])
            for each in answer["members"]
        )
        groups.append(
            GroupAnswer(
                json.loads(name),
                state,
                type_.lower(),
                json.loads(protocol_type),
                answer.get("protocolData"),
                simple == "simple",
                members,
            )
        )
    return groups


def read_groups_json(path: Path) -> list[GroupAnswer]:
    """`groups.json` (DescribeGroups v0 of the older brokers), in file order.

    It tells neither types nor instance ids.
    """
    groups = []
    for each in json.loads(path.read_text(encoding="utf-8")):
        if each["err"] != 0:
            raise ValueError(f"DescribeGroups answered error {each['err']} for {each['group']!r}")
        members = tuple(
            GroupMember(member["memberId"], None, member["clientId"], member["clientHost"])
            for member in each["members"]
        )
        groups.append(
            GroupAnswer(each["group"], each["state"], "classic", each["protocolType"], each["protocol"], None, members)
        )
    return groups


_PARTITION_HEADER = re.compile(r"# partition (\d+)")
_PREFIX = re.compile(r"(\d+)\t(\d+)\t(\{.*)", re.DOTALL)
_ENTRY = re.compile(
    r"\[(?P<group>.*),(?P<topic>[^,\]]+),(?P<partition>\d+)\]::(?=NULL$|OffsetAndMetadata|\[OffsetMetadata\[)"
)
_OFFSET_0_8 = re.compile(r"OffsetAndMetadata\[(-?\d+),(.*),(-?\d+)\]", re.DOTALL)
_OFFSET_0_9 = re.compile(r"\[OffsetMetadata\[(-?\d+),(.*)\],CommitTime (-?\d+),ExpirationTime (-?\d+)\]", re.DOTALL)
_OFFSET_2_8 = re.compile(
    r"OffsetAndMetadata\(offset=(-?\d+), leaderEpoch=Optional(?:\.empty|\[(-?\d+)\]), metadata=(.*), "
    r"commitTimestamp=(-?\d+), expireTimestamp=(?:None|Some\((-?\d+)\))\)",
    re.DOTALL,
)


def _entries(path: Path, starts: re.Pattern[str]) -> list[tuple[int | None, str]]:
    """(partition of the topic or None, text) of each entry; an entry's metadata may hold line feeds."""
    partition: int | None = None
    entries: list[tuple[int | None, str]] = []
    for line in lines_of(path):
        header = _PARTITION_HEADER.fullmatch(line)
        if header:
            partition = int(header[1])
        elif starts.match(line):
            entries.append((partition, line))
        elif entries:
            where, text = entries[-1]
            entries[-1] = (where, text + "\n" + line)
        else:
            raise ValueError(f"{path}: not the start of an entry: {line!r}")
    return entries


def read_formatted_offsets(path: Path) -> list[FormattedOffset]:
    """`formatter-offsets.txt` of every version, in file order (log order within a partition).

    Up to 1.1.1 an empty metadata is printed as NO_METADATA; that word is read as empty (nobody commits it here).
    """
    text = path.read_bytes().decode("utf-8")
    if "{" in text[:40]:
        return [
            _formatted_offset_json(partition, log_offset, each) for partition, log_offset, each in _json_entries(path)
        ]
    return [_formatted_offset_text(partition, entry) for partition, entry in _entries(path, _ENTRY)]


def _json_entries(path: Path) -> list[tuple[int | None, int | None, dict[str, Any]]]:
    """(partition, log offset, object): one a line with both in front (4.3.0), or run together without a separator
    (3.9.1).

    Run together, even the next partition's header follows on the same line.
    """
    decoder = json.JSONDecoder()
    entries: list[tuple[int | None, int | None, dict[str, Any]]] = []
    partition: int | None = None
    for line in lines_of(path):
        prefixed = _PREFIX.fullmatch(line)
        if prefixed:
            entries.append((int(prefixed[1]), int(prefixed[2]), json.loads(prefixed[3])))
            continue
        position = 0
        while position < len(line):
            if header := _PARTITION_HEADER.match(line, position):
                partition, position = int(header[1]), header.end()
            else:
                value, position = decoder.raw_decode(line, position)
                entries.append((partition, None, value))
    return entries


def _formatted_offset_json(partition: int | None, log_offset: int | None, entry: dict[str, Any]) -> FormattedOffset:
    key = entry["key"]["data"]
    value = entry["value"]["data"] if entry["value"] else {}
    return FormattedOffset(
        partition,
        log_offset,
        key["group"],
        key["topic"],
        key["partition"],
        value.get("offset"),
        value.get("metadata"),
        value.get("leaderEpoch", -1) if value else None,
        value.get("commitTimestamp"),
        value.get("expireTimestamp", -1) if value else None,
    )


def _formatted_offset_text(log_partition: int | None, text: str) -> FormattedOffset:
    start = _ENTRY.match(text)
    if start is None:
        raise ValueError(f"not an offsets entry: {text!r}")
    group, topic, partition = start["group"], start["topic"], int(start["partition"])
    rest = text[start.end() :]

    def entry(offset: int, metadata: str, epoch: int | None, commit: int, expire: int | None) -> FormattedOffset:
        plain = "" if metadata == "NO_METADATA" else metadata
        return FormattedOffset(log_partition, None, group, topic, partition, offset, plain, epoch, commit, expire)

    if rest == "NULL":
        return FormattedOffset(log_partition, None, group, topic, partition, None, None, None, None, None)
    if found := _OFFSET_0_8.fullmatch(rest):
        return entry(int(found[1]), found[2], None, int(found[3]), None)
    if found := _OFFSET_0_9.fullmatch(rest):
        return entry(int(found[1]), found[2], None, int(found[3]), int(found[4]))
    if found := _OFFSET_2_8.fullmatch(rest):
        return entry(int(found[1]), found[3], int(found[2] or -1), int(found[4]), int(found[5] or -1))
    raise ValueError(f"not an offsets entry: {text!r}")


_GROUP_ENTRY = re.compile(r"(?P<group>.*?)::(?=NULL$|\[|GroupMetadata\()")
_GROUP_0_9 = re.compile(r"\[.*?,(?:Some\()?(consumer|connect|None)\)?,(\w+),Map\((.*)\)\]")
_GROUP_0_11 = re.compile(
    r"GroupMetadata\(groupId=.*?, generation=(-?\d+), protocolType=(?:None|Some\((.*?)\)), currentState=(\w+), "
    r"members=(?:Hash)?Map\((.*)\)\)"
)
_MEMBER_0_9 = re.compile(r" -> \[([^,\]]*),([^,\]]*),([^,\]]*),(\d+)\]")
_MEMBER_0_11 = re.compile(
    r"MemberMetadata\(memberId=(.*?), (?:groupInstanceId=.*?, )?clientId=(.*?), clientHost=(.*?), "
    r"sessionTimeoutMs=(\d+), "
)


def read_formatted_groups(path: Path) -> list[FormattedGroup]:
    """`formatter-groups.txt` of every version, in file order.  It holds classic group records (key type 2) only."""
    text = path.read_bytes().decode("utf-8")
    if '{"key"' in text:
        return [_formatted_group_json(*each) for each in _json_entries(path)]
    return [_formatted_group_text(partition, entry) for partition, entry in _entries(path, _GROUP_ENTRY)]


def _formatted_group_json(partition: int | None, log_offset: int | None, entry: dict[str, Any]) -> FormattedGroup:
    group = entry["key"]["data"]["group"]
    if entry["value"] is None:
        return FormattedGroup(partition, log_offset, group, True, "", None, (), None)
    value = entry["value"]["data"]
    members = sorted(
        (each["memberId"], each["clientId"], each["clientHost"], each["sessionTimeout"]) for each in value["members"]
    )
    return FormattedGroup(
        partition, log_offset, group, False, value["protocolType"], value["generation"], tuple(members), entry["value"]
    )


def _formatted_group_text(partition: int | None, text: str) -> FormattedGroup:
    start = _GROUP_ENTRY.match(text)
    if start is None:
        raise ValueError(f"not a group entry: {text!r}")
    group, rest = start["group"], text[start.end() :]
    if rest == "NULL":
        return FormattedGroup(partition, None, group, True, "", None, (), None)
    if found := _GROUP_0_9.fullmatch(rest):
        generation, protocol_type, members = None, found[1], _MEMBER_0_9.findall(found[3])
    elif found := _GROUP_0_11.fullmatch(rest):
        generation, protocol_type, members = int(found[1]), found[2] or "None", _MEMBER_0_11.findall(found[4])
    else:
        raise ValueError(f"not a group entry: {text!r}")
    plain = "" if protocol_type == "None" else protocol_type
    listed = sorted((member, client, host, int(session)) for member, client, host, session in members)
    return FormattedGroup(partition, None, group, False, plain, generation, tuple(listed), None)
