"""Turns the replayed records of a log into rows: committed positions, groups, open transactions.

This module does not need a store, so that processes that only read logs, such as Spark's executors, make the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from offsetlog._native.files import format_uuid
from offsetlog._native.records import decode_key, decode_value
from offsetlog._native.replay import Replay
from offsetlog.clock import wall_ms
from offsetlog.errors import CorruptionError

#: The topic whose partitions hold the committed positions.
TOPIC = "__consumer_offsets"
#: The topic in which Kafka's transaction coordinator keeps transactional ids.
TRANSACTIONS_TOPIC = "__transaction_state"
#: The name of a log directory's own file, which exists even before the directory has a partition.
PROPERTIES = "offsetlog.properties"
#: The file in a partition's directory that holds the topic's id.
PARTITION_METADATA = "partition.metadata"
#: The prefix of our own files in a partition's directory; no file of Kafka's has it.
OWN_FILES = "offsetlog"

Row = dict[str, Any]


class Replayed(Protocol):
    """One partition of a log, replayed."""

    @property
    def number(self) -> int | None:
        """The number of the partition, None for files outside a partition's directory."""

    @property
    def place(self) -> str:
        """The directory or file that was read."""

    @property
    def replay(self) -> Replay:
        """The state after all records."""

    @property
    def refused(self) -> list[CorruptionError]:
        """Records that a broker would not load; more may be added while rows are made."""


# ------------------------------------------------------------------------------------------ offsets


def decode_text(name: bytes) -> str:
    """Returns bytes of a log as the text that Kafka shows: decoded as UTF-8, with U+FFFD for malformed bytes."""
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        # For a surrogate in three bytes, Java writes one U+FFFD and Python three (docs/format/partitioning.md §4).
        return re.sub(rb"\xed[\xa0-\xbf][\x80-\xbf]", b"\xef\xbf\xbd", name).decode(
            "utf-8", "replace"
        )


def offset_rows(states: Sequence[Replayed], group: str | None = None) -> Iterator[Row]:
    """Yields the committed positions of all partitions by group, topic and partition.

    Fields: group, topic, partition, offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id,
    log_partition, log_offset.  A field that the record lacks is -1 or None.
    """
    names: dict[str, list[tuple[Replayed, bytes]]] = {}
    for state in states:
        for name in state.replay.groups():
            text = decode_text(name)
            if group is None or text == group:
                names.setdefault(text, []).append((state, name))
    for text in sorted(names):
        rows = [
            _offset_row(text, state, each)
            for state, name in names[text]
            for each in state.replay.positions(name)
        ]
        if len(names[text]) > 1:
            rows.sort(key=lambda row: (row["topic"], row["partition"]))
        yield from rows


def _offset_row(group: str, state: Replayed, position: tuple[Any, ...]) -> Row:
    topic, partition, offset, leader_epoch, metadata, committed, expires, topic_id, log_offset = (
        position
    )
    return {
        "group": group,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "leader_epoch": leader_epoch,
        "metadata": metadata,
        "commit_timestamp": committed,
        "expire_timestamp": expires,
        "topic_id": None if topic_id is None else format_uuid(topic_id),
        "log_partition": state.number,
        "log_offset": log_offset,
    }


# ------------------------------------------------------------------------------------------- groups

GROUP_TYPES = {3: "consumer", 11: "share", 17: "streams"}
MEMBER_TYPES = {5: "consumer", 10: "share", 19: "streams"}
CLASSIC_TYPE = 2


def group_rows(states: Sequence[Replayed]) -> list[Row]:
    """Returns a row for each group with a record, a committed position or a pending one.

    Fields: group, type, state ("Stable" with members, else "Empty"), protocol_type, protocol,
    generation (for a modern group, its epoch), members (member_id, group_instance_id, client_id,
    client_host), simple, log_partition.
    """
    found: dict[str, Row] = {}
    for state in states:
        for row in _groups_of(state):
            found.setdefault(row["group"], row)
    return [found[name] for name in sorted(found)]


def _groups_of(state: Replayed) -> list[Row]:
    rows: dict[str, Row] = {}
    # In log order: if two records contradict each other, the later one counts.
    for key, value, _ in sorted(state.replay.group_records(), key=lambda record: record[2]):
        try:
            _add_group_record(rows, state, key, value)
        except CorruptionError as failure:
            failure.path = failure.path or state.place
            state.refused.append(failure)
    for name in {*state.replay.groups(), *state.replay.pending_groups()}:
        text = decode_text(name)
        if text not in rows:
            rows[text] = _new_row(text, state, "classic", simple=True)
    for row in rows.values():
        row["members"].sort(key=lambda member: member["member_id"])
        row["state"] = "Stable" if row["members"] else "Empty"
    return list(rows.values())


def _new_row(name: str, state: Replayed, kind: str, *, simple: bool) -> Row:
    return {
        "group": name,
        "type": kind,
        "state": "Empty",
        "protocol_type": "" if kind == "classic" else kind,
        "protocol": None,
        "generation": -1,
        "members": [],
        "simple": simple,
        "log_partition": state.number,
    }


def _add_group_record(rows: dict[str, Row], state: Replayed, key: bytes, value: bytes) -> None:
    decoded = decode_key(key)
    if decoded is None:
        return
    number, fields = int(decoded["type"]), decoded["data"]
    if number not in (CLASSIC_TYPE, *GROUP_TYPES, *MEMBER_TYPES):
        return
    decoded_value = decode_value(number, value)["data"]
    name = fields["group"] if number == CLASSIC_TYPE else fields["groupId"]
    if number == CLASSIC_TYPE:
        rows[name] = _classic_row(name, state, decoded_value)
        return
    kind = GROUP_TYPES.get(number) or MEMBER_TYPES[number]
    if name not in rows or rows[name]["type"] != kind:
        rows[name] = _new_row(name, state, kind, simple=False)
    if number in GROUP_TYPES:
        rows[name]["generation"] = decoded_value["epoch"]
    else:
        rows[name]["members"].append(
            {
                "member_id": fields["memberId"],
                "group_instance_id": decoded_value.get("instanceId"),
                "client_id": decoded_value["clientId"],
                "client_host": decoded_value["clientHost"],
            }
        )


def _classic_row(name: str, state: Replayed, value: Row) -> Row:
    row = _new_row(
        name, state, "classic", simple=not value["members"] and value["protocolType"] == ""
    )
    row["protocol_type"], row["protocol"], row["generation"] = (
        value["protocolType"],
        value["protocol"],
        value["generation"],
    )
    row["members"] = [
        {
            "member_id": each["memberId"],
            "group_instance_id": each.get("groupInstanceId"),
            "client_id": each["clientId"],
            "client_host": each["clientHost"],
        }
        for each in value["members"]
    ]
    return row


# ------------------------------------------------------------------------------------- transactions


def transaction_rows(states: Sequence[Replayed]) -> list[Row]:
    """Returns the open transactions, by log partition and first offset.

    Fields: log_partition, producer_id, producer_epoch, first_log_offset, begin_timestamp (ms, -1 if nothing is
    pending), age_ms (None if nothing is pending), pending_offsets (a count), group_names.
    """
    now = wall_ms()
    return [
        {
            "log_partition": state.number,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "first_log_offset": first_offset,
            "begin_timestamp": begun,
            "age_ms": None if begun < 0 else now - begun,
            "pending_offsets": pending,
            "group_names": [decode_text(name) for name in groups],
        }
        for state in states
        for producer_id, epoch, first_offset, begun, pending, groups in state.replay.transactions()
    ]
