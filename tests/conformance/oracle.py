"""An independent, slow reader of a log directory: every record, and the offsets and groups that follow from them
(docs/format/loading.md §6.4).

Used to check that Kafka's answers are understood (`test_oracle`), and as a second opinion beside the engine wherever
a test has a directory and no broker.  It shares no code with the engine and no idea with it but the specification.

It reads what is there and repairs nothing: a partition ends at the first bytes that are no valid batch (later
segments are what recovery would delete), and files with a suffix after `.log` (`.deleted`, `.cleaned`, `.swap`) are
no part of the log.

    >>> log = read_log(Path("data"))                          # doctest: +SKIP
    >>> replay(log).committed()                               # doctest: +SKIP
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import oracle_records
from .oracle_batches import Batch, Record, Tail, read_segment

TOPIC = "__consumer_offsets"
_PARTITION = re.compile(re.escape(TOPIC) + r"-(\d+)")
_SEGMENT = re.compile(r"\d{20}\.log")
_MARKERS = {0: "ABORT", 1: "COMMIT"}


@dataclass(frozen=True)
class Segment:
    """One `.log` file: its batches and the bytes after them."""

    log_partition: int
    name: str
    batches: tuple[Batch, ...]
    tail: Tail | None


@dataclass(frozen=True)
class LogRecord:
    """One record in its place, decoded; `record` is None for a batch without records.

    `kind` is a name of `oracle_records.KINDS`, "marker", "empty" or "unknown"; `value` is None for a tombstone.
    """

    log_partition: int
    segment: str
    batch: Batch
    record: Record | None
    kind: str
    key: dict[str, Any] | None
    value: dict[str, Any] | None


@dataclass(frozen=True)
class Committed:
    """A committed offset, in the form of the command line's `offsets`:

    -1 for no epoch or expire time, None for no topic id.
    """

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: str | None
    log_partition: int
    log_offset: int


@dataclass
class Group:
    """The state of a group by the log. `type` is "classic", "consumer", "share" or "streams".

    `members` maps member ids to (instance id, client id, client host).  A simple group has no record of its own.
    """

    type: str = "classic"
    protocol_type: str = ""
    protocol: str | None = None
    generation: int = -1
    members: dict[str, tuple[str | None, str, str]] = field(default_factory=dict)
    simple: bool = True
    log_partition: int = -1

    @property
    def state(self) -> str:
        """ "Stable" with members, else "Empty": more the log does not tell."""
        return "Stable" if self.members else "Empty"


def read_log(path: Path) -> list[Segment]:
    """The segments of a log directory, by partition and base offset.

    Raises FileNotFoundError where there is no directory.
    """
    segments = []
    folders = {int(found[1]): each for each in path.iterdir() if (found := _PARTITION.fullmatch(each.name))}
    for partition in sorted(folders):
        for file in sorted(each for each in folders[partition].iterdir() if _SEGMENT.fullmatch(each.name)):
            batches, tail = read_segment(file.read_bytes())
            segments.append(Segment(partition, file.name, tuple(batches), tail))
            if tail is not None:
                break
    return segments


def records(segments: list[Segment]) -> Iterator[LogRecord]:
    """Every record in log order, partition by partition.

    Raises `oracle_records.UndecodableError` for a bad key or value.
    """
    for segment in segments:
        for batch in segment.batches:
            if not batch.records:
                yield LogRecord(segment.log_partition, segment.name, batch, None, "empty", None, None)
            for record in batch.records:
                kind, key, value = _decode(batch, record)
                yield LogRecord(segment.log_partition, segment.name, batch, record, kind, key, value)


def _decode(batch: Batch, record: Record) -> tuple[str, dict[str, Any] | None, dict[str, Any] | None]:
    if batch.control:
        key, value = record.key or b"", record.value or b""
        marker = _MARKERS.get(int.from_bytes(key[2:4], "big"))
        if marker is None:
            return "unknown", None, None
        details = {"type": marker, "coordinator_epoch": int.from_bytes(value[2:6], "big", signed=True)}
        return "marker", details, details
    if record.key is None:
        raise oracle_records.UndecodableError("a record without a key")
    decoded = oracle_records.decode_key(record.key)
    if decoded is None:
        return "unknown", None, None
    type_ = int(decoded["type"])
    body = None if record.value is None else oracle_records.decode_value(type_, record.value)
    return oracle_records.KINDS[type_], decoded, body


_Slot = tuple[str, str, int]


@dataclass
class State:
    """The replayed state.  `pending` maps producer ids to what they have written and not yet committed.

    `groups` holds the groups that have a record of their own; `listed` adds those known by their offsets alone.
    """

    offsets: dict[_Slot, Committed] = field(default_factory=dict)
    pending: dict[int, dict[_Slot, Committed]] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)

    def committed(self) -> list[Committed]:
        """The committed offsets by group, topic, partition (in code point order)."""
        return [self.offsets[slot] for slot in sorted(self.offsets)]

    def unstable(self) -> set[_Slot]:
        """The (group, topic, partition) that an open transaction has written: requireStable answers 88 for them."""
        return {slot for values in self.pending.values() for slot in values}

    def listed(self) -> dict[str, Group]:
        """Every group that the log knows: by a record of its own, a committed offset, or a pending one.

        A group whose own record is gone while offsets are left is a simple group.  One that had only offsets, all of
        them deleted or aborted, is not there: nothing is left of it in the log once that is compacted.
        """
        found = dict(self.groups)
        values = [*self.offsets.values(), *(each for mine in self.pending.values() for each in mine.values())]
        for value in values:
            found.setdefault(value.group, Group(log_partition=value.log_partition))
        return {name: found[name] for name in sorted(found)}

    def apply(self, entry: LogRecord) -> None:
        """One record, in log order of its partition."""
        if entry.record is None or entry.kind == "unknown":
            return
        if entry.kind == "marker":
            self._end_transaction(entry)
        elif entry.kind == "offset_commit":
            self._offset_commit(entry, entry.record)
        else:
            self._group_record(entry)

    def _offset_commit(self, entry: LogRecord, record: Record) -> None:
        assert entry.key is not None
        key = entry.key["data"]
        slot = (key["group"], key["topic"], key["partition"])
        if entry.value is None:
            # A tombstone takes effect at once, also inside of a transaction, and takes pending values with it (trap
            # 15).
            self.offsets.pop(slot, None)
            for values in self.pending.values():
                values.pop(slot, None)
            return
        value = entry.value["data"]
        committed = Committed(
            *slot,
            value["offset"],
            value.get("leaderEpoch", -1),
            value["metadata"],
            value["commitTimestamp"],
            value.get("expireTimestamp", -1),
            value.get("topicId"),
            entry.log_partition,
            record.offset,
        )
        if entry.batch.transactional:
            self.pending.setdefault(entry.batch.producer_id, {})[slot] = committed
        else:
            self.offsets[slot] = committed

    def _end_transaction(self, entry: LogRecord) -> None:
        # One producer may have transactions in several partitions: a marker ends the one of its own partition only.
        assert entry.key is not None
        values = self.pending.get(entry.batch.producer_id, {})
        mine = [slot for slot, value in values.items() if value.log_partition == entry.log_partition]
        for slot in mine:
            value = values.pop(slot)
            stored = self.offsets.get(slot)
            if entry.key["type"] == "COMMIT" and (stored is None or value.log_offset > stored.log_offset):
                self.offsets[slot] = value

    def _group_record(self, entry: LogRecord) -> None:
        assert entry.key is not None
        name = entry.key["data"].get("group", entry.key["data"].get("groupId"))
        value = None if entry.value is None else entry.value["data"]
        type_ = int(entry.key["type"])
        if type_ == 2:
            if value is None:
                self.groups.pop(name, None)
            else:
                self.groups[name] = _classic_group(value, entry)
        elif type_ in _GROUP_TYPES:
            if value is None:
                self.groups.pop(name, None)
            else:
                self._modern_group(name, _GROUP_TYPES[type_], entry).generation = value["epoch"]
        elif type_ in _MEMBER_TYPES:
            if value is not None:
                self._modern_group(name, _MEMBER_TYPES[type_], entry).members[entry.key["data"]["memberId"]] = (
                    value.get("instanceId"),
                    value["clientId"],
                    value["clientHost"],
                )
            elif name in self.groups:
                self.groups[name].members.pop(entry.key["data"]["memberId"], None)

    def _modern_group(self, name: str, type_: str, entry: LogRecord) -> Group:
        group = self.groups.get(name)
        if group is None or group.type != type_:
            group = Group(type_, type_, None, -1, {}, False, entry.log_partition)
            self.groups[name] = group
        return group


_GROUP_TYPES = {3: "consumer", 11: "share", 17: "streams"}
_MEMBER_TYPES = {5: "consumer", 10: "share", 19: "streams"}


def _classic_group(value: dict[str, Any], entry: LogRecord) -> Group:
    members = {
        each["memberId"]: (each.get("groupInstanceId"), each["clientId"], each["clientHost"])
        for each in value["members"]
    }
    return Group(
        "classic",
        value["protocolType"],
        value["protocol"],
        value["generation"],
        members,
        not members and value["protocolType"] == "",
        entry.log_partition,
    )


def replay(segments: list[Segment]) -> State:
    """The state after every record of the log."""
    state = State()
    for entry in records(segments):
        state.apply(entry)
    return state


@functools.cache
def read_data(path: Path) -> list[Segment]:
    """The segments of a directory of `tests/data`, which no test writes to; read once in a process."""
    return read_log(path)


@functools.cache
def state_of_data(path: Path) -> State:
    """The state after every record of such a directory; callers leave it as it is."""
    return replay(read_data(path))


def offset_rows(state: State) -> list[dict[str, Any]]:
    """Returns the right output of `offsetlog offsets --format json`."""
    return [dict(vars(each)) for each in state.committed()]


def group_rows(state: State) -> list[dict[str, Any]]:
    """Returns the right output of `offsetlog groups --format json`; members sorted by id."""
    return [
        {
            "group": name,
            "type": group.type,
            "state": group.state,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol,
            "generation": group.generation,
            "members": [
                {"member_id": member, "group_instance_id": instance, "client_id": client, "client_host": host}
                for member, (instance, client, host) in sorted(group.members.items())
            ],
            "simple": group.simple,
            "log_partition": group.log_partition,
        }
        for name, group in state.listed().items()
    ]


def dump_rows(segments: list[Segment]) -> list[dict[str, Any]]:
    """Returns the right output of `offsetlog dump --format json`."""
    return [_dump_row(entry) for entry in records(segments)]


def _dump_row(entry: LogRecord) -> dict[str, Any]:
    batch, record = entry.batch, entry.record
    return {
        "log_partition": entry.log_partition,
        "segment": entry.segment,
        "position": batch.position,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "batch_size": batch.size,
        "magic": batch.magic,
        "codec": batch.codec,
        "crc": batch.crc,
        "partition_leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "transactional": batch.transactional,
        "control": batch.control,
        "delete_horizon": batch.delete_horizon,
        "log_offset": record.offset if record else None,
        "timestamp": record.timestamp if record else None,
        "timestamp_type": batch.timestamp_type,
        "headers": [oracle_records.java_text(name) for name, _ in record.headers] if record else [],
        "kind": entry.kind,
        "key": entry.key,
        "value": entry.value,
    }
