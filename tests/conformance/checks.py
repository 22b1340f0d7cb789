"""The comparisons: rows as the command line prints them against what Kafka said.

The same checks run over the oracle's rows (`test_oracle`) and over the command line's (`test_offsets`, `test_groups`,
`test_dump`).  Each raises AssertionError with the first differences.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from . import renderings
from .kafka_answers import GroupAnswer, read_groups_json, read_groups_tsv, read_offsets, read_stable_offsets
from .kafka_dumps import Dump, DumpedBatch, DumpedRecord
from .scenarios import Scenario

Row = dict[str, Any]
DIFFERENCES_SHOWN = 8

OFFSET_FIELDS = {
    "group",
    "topic",
    "partition",
    "offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp",
    "expire_timestamp",
    "topic_id",
    "log_partition",
    "log_offset",
}
GROUP_FIELDS = {
    "group",
    "type",
    "state",
    "protocol_type",
    "protocol",
    "generation",
    "members",
    "simple",
    "log_partition",
}
DUMP_FIELDS = {
    "log_partition",
    "segment",
    "position",
    "base_offset",
    "last_offset",
    "batch_size",
    "magic",
    "codec",
    "crc",
    "partition_leader_epoch",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "transactional",
    "control",
    "delete_horizon",
    "log_offset",
    "timestamp",
    "timestamp_type",
    "headers",
    "kind",
    "key",
    "value",
}

BATCH_FIELDS = (
    "base_offset",
    "last_offset",
    "magic",
    "codec",
    "crc",
    "timestamp_type",
    "base_sequence",
    "producer_id",
    "producer_epoch",
    "partition_leader_epoch",
    "transactional",
    "control",
)


def same(ours: dict[Any, Any], kafkas: dict[Any, Any]) -> None:
    """Both maps are equal; shows the first differences."""
    keys = sorted(ours.keys() | kafkas.keys(), key=repr)
    different = [key for key in keys if ours.get(key) != kafkas.get(key)]
    shown = [f"{key}: ours {ours.get(key)!r}, Kafka's {kafkas.get(key)!r}" for key in different[:DIFFERENCES_SHOWN]]
    assert not different, f"{len(different)} differ:\n" + "\n".join(shown)


def fields_are(rows: Iterable[Row], fields: set[str]) -> None:
    """Every row has exactly these fields."""
    for row in rows:
        assert row.keys() == fields, f"fields {sorted(row.keys() ^ fields)} in {row!r}"


def check_offsets(rows: list[Row], scenario: Scenario) -> None:
    """The committed offsets are those that the broker answered, in order and without repetition."""
    fields_are(rows, OFFSET_FIELDS)
    slots = [(row["group"], row["topic"], row["partition"]) for row in rows]
    # Sorted by UTF-8 bytes and by code points is the same order.
    assert slots == sorted(set(slots))
    ours = {
        (row["group"], row["topic"], row["partition"]): (row["offset"], row["leader_epoch"], row["metadata"])
        for row in rows
    }
    kafkas = {
        (row.group, row.topic, row.partition): (row.offset, row.leader_epoch, row.metadata)
        for row in read_offsets(scenario.expected("offsets.tsv"))
    }
    same(ours, kafkas)


def expected_groups(scenario: Scenario) -> list[GroupAnswer]:
    """The groups that the broker listed and that its log can tell.

    Left out are groups that had only offsets of which none is left (deleted, or of aborted transactions): Kafka 4.3.0
    lists them, the older brokers do not, and of a compacted log nobody could tell.
    """
    path = scenario.expected("groups.tsv")
    answers = read_groups_tsv(path) if path.exists() else read_groups_json(scenario.expected("groups.json"))
    kept = {row.group for row in read_offsets(scenario.expected("offsets.tsv"))}
    stable = scenario.expected("offsets-stable.tsv")
    if stable.exists():
        kept |= {row.committed.group for row in read_stable_offsets(stable)}
    return [answer for answer in answers if not (answer.simple and answer.group not in kept)]


def check_groups(rows: list[Row], scenario: Scenario) -> None:
    """Ids, types and protocols are those the broker answered; states and members too where nothing was going on.

    * Up to 0.9.0.1 the broker lists groups with members only, later also those known by their offsets.
    * A group in the middle of a rebalance is another one for the broker than for its log: only its id and type are
      compared.
    * DescribeGroups v0 (older brokers) tells no instance ids.
    """
    fields_are(rows, GROUP_FIELDS)
    names = [row["group"] for row in rows]
    assert names == sorted(set(names))
    answers = expected_groups(scenario)
    by_name = {row["group"]: row for row in rows}
    if not any(answer.state == "Empty" for answer in answers):
        assert {answer.group for answer in answers} <= by_name.keys()
    else:
        same(dict.fromkeys(names, "listed"), {answer.group: "listed" for answer in answers})
    tells_instances = scenario.expected("groups.tsv").exists()
    ours: dict[Any, Any] = {}
    kafkas: dict[Any, Any] = {}
    for answer in answers:
        row = by_name[answer.group]
        ours[answer.group, "type"], kafkas[answer.group, "type"] = row["type"], answer.type
        if answer.state.endswith("Rebalance"):
            continue
        ours[answer.group, "state"], kafkas[answer.group, "state"] = row["state"], answer.state
        ours[answer.group, "protocol type"], kafkas[answer.group, "protocol type"] = (
            row["protocol_type"],
            answer.protocol_type,
        )
        if answer.protocol is not None:
            ours[answer.group, "protocol"], kafkas[answer.group, "protocol"] = row["protocol"] or "", answer.protocol
        if answer.simple is not None:
            ours[answer.group, "simple"], kafkas[answer.group, "simple"] = row["simple"], answer.simple
        ours[answer.group, "members"] = sorted(
            (
                each["member_id"],
                each["group_instance_id"] if tells_instances else None,
                each["client_id"],
                each["client_host"],
            )
            for each in row["members"]
        )
        kafkas[answer.group, "members"] = sorted(
            (each.member_id, each.group_instance_id, each.client_id, each.client_host) for each in answer.members
        )
    same(ours, kafkas)


def check_dump(rows: list[Row], dump: Dump) -> None:
    """Record by record and batch by batch what Kafka's own dump tool printed, as far as that version prints it.

    A dump that stopped on the way is compared up to where it stopped.
    """
    fields_are(rows, DUMP_FIELDS)
    check_dumped_records([row for row in rows if row["log_offset"] is not None], dump)
    if dump.batches:
        check_dumped_batches(rows, dump.batches)


def _place(row: Row) -> tuple[int, str]:
    return row["log_partition"], row["segment"]


def check_dumped_records(rows: list[Row], dump: Dump) -> None:
    """The records, in order, in every field that this version of the tool prints."""
    ours = sorted(rows, key=_place)
    kafkas = sorted(dump.records, key=lambda record: (record.log_partition, record.segment))
    if not dump.complete:
        # The tool goes through the partitions in order and died within one: what it did is the beginning of the log.
        ours = ours[: len(kafkas)]
    assert len(ours) == len(kafkas)
    different = []
    for row, record in zip(ours, kafkas, strict=True):
        different += [f"{where(row)} {text}" for text in record_differences(row, record)]
    assert not different, f"{len(different)} differ:\n" + "\n".join(different[:DIFFERENCES_SHOWN])


def where(row: Row) -> str:
    """The place of a row, for messages."""
    return f"{row['log_partition']}/{row['segment']}@{row['position']} offset {row['log_offset']}"


def record_differences(row: Row, record: DumpedRecord) -> list[str]:
    """Returns the differences between a row and Kafka's line for the same record."""
    pairs: dict[str, Any] = {
        "log_partition": record.log_partition,
        "segment": record.segment,
        "position": record.position,
        "log_offset": record.offset,
        "magic": record.magic,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type,
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "transactional": record.transactional,
    }
    wrapped = row["magic"] < 2 and row["codec"] != "none"
    if not wrapped:
        # In a wrapper the tool prints the inner message's CRC, and up to 0.10.2.2 its codec too; the row has the
        # wrapper's.
        pairs |= {"codec": record.codec, "crc": record.crc}
    different = [
        f"{name}: ours {row[name]!r}, Kafka's {value!r}"
        for name, value in pairs.items()
        if value is not None and row[name] != value
    ]
    if record.header_keys is not None and len(record.header_keys) != len(row["headers"]):
        different.append(f"headers: ours {row['headers']!r}, Kafka's {record.header_keys!r}")
    if record.sequence is not None:
        ours = sequence_of(row)
        different += [f"sequence: ours {ours}, Kafka's {record.sequence}"] if ours != record.sequence else []
    return different + content_differences(row, record)


def sequence_of(row: Row) -> int:
    """The sequence of the record in its batch; -1 where there is none."""
    if row["base_sequence"] == -1:
        return -1
    return int(row["base_sequence"] + row["log_offset"] - row["base_offset"]) % (1 << 31)


def content_differences(row: Row, record: DumpedRecord) -> list[str]:
    """Key and value, in the dialect of that version; raw bytes are left to `test_oracle`, which has them."""
    if record.marker is not None:
        details = {"type": record.marker[0], "coordinator_epoch": record.marker[1]}
        fine = row["kind"] == "marker" and row["key"] == row["value"] == details
        return [] if fine else [f"marker: ours {row['kind']} {row['key']!r}, Kafka's {details!r}"]
    if row["kind"] == "marker":
        return [f"ours is a marker, Kafka's is {record.content!r}"]
    if record.key is not None:
        ours = (row["key"], renderings.opened(row["value"]))
        kafkas = (record.key, renderings.opened(record.value))
        return [] if ours == kafkas else [f"content: ours {ours!r}, Kafka's {kafkas!r}"]
    if record.content.startswith(" key: offset_commit::"):
        return text_differences(renderings.words_2_8(row["key"], row["value"]), record.content)
    if record.content.startswith(" key: group_metadata::"):
        return group_differences(row, record.content)
    if record.content.startswith(" key: offset::"):
        return text_differences(renderings.words_up_to_1_1(row["key"], row["value"]), record.content)
    return []


def text_differences(ours: str | None, kafkas: str) -> list[str]:
    """The words differ."""
    return [] if ours == kafkas else [f"content: ours {ours!r}, Kafka's {kafkas!r}"]


def group_differences(row: Row, content: str) -> list[str]:
    """A classic group in the words of 2.8.2: its fields but for the times, the members' ids in no fixed order."""
    prefix = f" key: group_metadata::group={row['key']['data']['group']} payload: "
    if not content.startswith(prefix):
        return [f"content: ours {row['key']!r}, Kafka's {content!r}"]
    payload = content.removeprefix(prefix)
    if row["value"] is None or payload == "<DELETE>":
        return [] if row["value"] is None and payload == "<DELETE>" else [f"ours {row['value']!r}, Kafka's {payload!r}"]
    kafkas, ours = json.loads(payload), row["value"]["data"]
    pairs = {
        "protocolType": (ours["protocolType"], kafkas["protocolType"]),
        "protocol": (ours["protocol"], kafkas["protocol"]),
        "generation": (ours["generation"], kafkas["generationId"]),
        "members": (
            [True for each in ours["members"] if f"{each['memberId']}=" in kafkas["assignment"]],
            [True for _ in ours["members"]],
        ),
    }
    return [f"{name}: ours {mine!r}, Kafka's {theirs!r}" for name, (mine, theirs) in pairs.items() if mine != theirs]


def check_dumped_batches(rows: list[Row], batches: list[DumpedBatch]) -> None:
    """The batches, empty ones included, in every field that this version of the tool prints."""

    def place(row: Row) -> tuple[int, str, int]:
        return row["log_partition"], row["segment"], row["position"]

    ours: dict[Any, Any] = {}
    kafkas: dict[Any, Any] = {}
    listed = {at: list(each) for at, each in groupby(sorted(rows, key=place), key=place)}
    dumped = {(batch.log_partition, batch.segment, batch.position): batch for batch in batches}
    same(dict.fromkeys(listed, "batch"), dict.fromkeys(dumped, "batch"))
    for at, batch in dumped.items():
        expected = {name: value for name, value in batch_columns(batch).items() if value is not None}
        if batch.tells_delete_horizon:
            expected["delete_horizon"] = batch.delete_horizon
        for row in listed[at]:
            for name, value in expected.items():
                ours[at, row["log_offset"], name], kafkas[at, row["log_offset"], name] = row[name], value
        if batch.count is not None:
            count = sum(row["log_offset"] is not None for row in listed[at])
            ours[at, "count"], kafkas[at, "count"] = count, batch.count
    same(ours, kafkas)


def batch_columns(batch: DumpedBatch) -> dict[str, Any]:
    """Returns the values of Kafka's line, by the names of our columns; None for those it lacks."""
    return {name: getattr(batch, name) for name in BATCH_FIELDS} | {"batch_size": batch.size}
