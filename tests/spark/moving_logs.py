"""Logs to be moved: made from a seed, with everything that a log can hold, and read again without the engine."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from offsetlog._native.codec import partition_for
from offsetlog._native.encoding import encode_batch, encode_key, encode_value
from offsetlog._native.rewriting import RowEncoder

TOPIC = "__consumer_offsets"
TOPIC_ID = "AQIDBAUGBwgJCgsMDQ4PEA"
START_MS = 1_700_000_000_000

Row = dict[str, Any]

RECORDS = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("kind", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("header_keys", pa.list_(pa.string())),
        ("control", pa.string()),
        ("outcome", pa.string()),
        ("marker_offset", pa.int64()),
        ("base_offset", pa.int64()),
        ("timestamp_type", pa.string()),
        ("transactional", pa.bool_()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("base_sequence", pa.int32()),
        ("batch_leader_epoch", pa.int32()),
        ("delete_horizon", pa.int64()),
    ]
)


def key_of(group: str, topic: str, partition: int) -> bytes:
    return encode_key(1, {"group": group, "topic": topic, "partition": partition})


def value_of(offset: int, moment: int, *, metadata: str = "", topic_id: str | None = None) -> bytes:
    fields = {"offset": offset, "leaderEpoch": -1, "metadata": metadata, "commitTimestamp": moment}
    if topic_id is None:
        return encode_value(1, 3, fields)
    return encode_value(1, 4, {**fields, "topicId": topic_id})


def group_record(group: str, moment: int) -> tuple[bytes, bytes]:
    fields = {
        "protocolType": "consumer",
        "generation": moment % 100,
        "protocol": "range",
        "leader": None,
        "currentStateTimestamp": moment,
        "members": [],
    }
    return encode_key(2, {"group": group}), encode_value(2, 3, fields)


def marker(base_offset: int, moment: int, producer_id: int, epoch: int, commit: bool) -> bytes:
    encoder = RowEncoder(
        pa.array([struct.pack(">hh", 0, int(commit))]),
        pa.array([struct.pack(">hi", 0, 3)]),
        np.array([moment], np.int64),
        np.zeros(1, np.uint8),
    )
    ids = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": -1}
    return encoder.batch(0, 1, base_offset, transactional=True, control=True, **ids)


class RandomLog:
    """A directory of `partitions` logs.  The same few producers are at work in all of them."""

    def __init__(self, path: Path, partitions: int, seed: int, *, records: int = 60, groups: int = 12) -> None:
        self.path = path
        self.chance = random.Random(seed)
        self.groups = [f"group-{number}" for number in range(groups)]
        path.mkdir()
        for number in range(partitions):
            own = [group for group in self.groups if partition_for(group, partitions) == number]
            folder = path / f"{TOPIC}-{number}"
            folder.mkdir()
            (folder / "partition.metadata").write_text("version: 0\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA")
            log = b"".join(self._batches(own, records)) if own else b""
            (folder / f"{0:020d}.log").write_bytes(log)

    def _batches(self, groups: list[str], count: int) -> Iterator[bytes]:
        chance, moment, end = self.chance, START_MS, 0
        open_ids: dict[int, int] = {}
        for _ in range(count):
            # Clocks go back now and then.
            moment += chance.choice([0, 1, 7, 40, -15])
            # Open ones have an epoch of their own kind: the producers of two partitions are never of different epochs.
            ended = [producer_id for producer_id in open_ids if producer_id < 4000]
            if ended and chance.random() < 0.4:
                producer_id = chance.choice(ended)
                yield marker(end, moment, producer_id, open_ids.pop(producer_id), chance.random() < 0.6)
                end += 1
                continue
            records = [self._record(chance.choice(groups), moment) for _ in range(chance.choice([1, 1, 1, 2, 5]))]
            ids = {}
            if chance.random() < 0.45:
                producer_id = chance.choice([1, 2, 3, 4000, 4001])
                records = [each for each in records if each[0][1] == 1]
                if not records:
                    continue
                ids = {"producer_id": producer_id, "producer_epoch": open_ids.setdefault(producer_id, 0)}
            yield encode_batch(end, moment, records, leader_epoch=chance.choice([0, 0, 1]), **ids)
            end += len(records)
        for producer_id in [each for each in open_ids if each < 4000]:
            yield marker(end, moment, producer_id, open_ids[producer_id], chance.random() < 0.5)
            end += 1

    def _record(self, group: str, moment: int) -> tuple[bytes | None, bytes | None]:
        chance = self.chance
        what = chance.random()
        if what < 0.1:
            return group_record(group, moment)
        if what < 0.13:
            return group_record(group, moment)[0], None
        if what < 0.16:
            return b"\x00\x63" + group.encode(), b"of a kind that is not known"
        key = key_of(group, chance.choice(["orders", "clicks"]), chance.randrange(3))
        if what < 0.3:
            return key, None
        topic_id = TOPIC_ID if chance.random() < 0.3 else None
        return key, value_of(chance.randrange(1000), moment, metadata="é" * chance.randrange(3), topic_id=topic_id)


# ------------------------------------------------------------------------------------------------ reading, by the book


def _varint(data: bytes, at: int) -> tuple[int, int]:
    shift = number = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (number >> 1) ^ -(number & 1), at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _names(key: bytes | None) -> tuple[str, str | None, str | None, int | None]:
    # Kind, group, topic and partition.
    if key is None or len(key) < 2:
        return "unknown", None, None, None
    number = struct.unpack_from(">h", key)[0]
    if number > 3:
        return "unknown", None, None, None
    size = struct.unpack_from(">h", key, 2)[0]
    group = key[4 : 4 + size].decode()
    if number == 2:
        return "group_metadata", group, None, None
    length = struct.unpack_from(">h", key, 4 + size)[0]
    topic = key[6 + size : 6 + size + length].decode()
    return "offset_commit", group, topic, struct.unpack_from(">i", key, 6 + size + length)[0]


def _rows_of(data: bytes, number: int) -> Iterator[Row]:
    at = 0
    while at < len(data):
        base, length, epoch = struct.unpack_from(">qii", data, at)
        attributes, _, first, latest, producer_id, producer_epoch, sequence, count = struct.unpack_from(
            ">hiqqqhii", data, at + 21
        )
        place = at + 61
        for _ in range(count):
            size, place = _varint(data, place)
            end = place + size
            delta, place = _varint(data, place + 1)
            offset, place = _varint(data, place)
            key, place = _bytes(data, place)
            value, place = _bytes(data, place)
            headers, place = _varint(data, place)
            names = []
            for _ in range(headers):
                name, place = _bytes(data, place)
                _, place = _bytes(data, place)
                names.append((name or b"").decode())
            assert place == end
            control = None
            kind, group, topic, partition = ("marker", None, None, None) if attributes & 0x20 else _names(key)
            if attributes & 0x20:
                control = "COMMIT" if key == b"\x00\x00\x00\x01" else "ABORT"
            yield {
                "log_partition": number,
                "log_offset": base + offset,
                "timestamp": latest if attributes & 8 else first + delta,
                "kind": kind,
                "key": key,
                "value": value,
                "group": group,
                "topic": topic,
                "partition": partition,
                "header_keys": names,
                "control": control,
                "outcome": "plain",
                "marker_offset": None,
                "base_offset": base,
                "timestamp_type": "LogAppendTime" if attributes & 8 else "CreateTime",
                "transactional": bool(attributes & 0x10),
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "base_sequence": sequence,
                "batch_leader_epoch": epoch,
                "delete_horizon": first if attributes & 0x40 else None,
            }
        at += 12 + length
        assert place == at


def rows_of(path: Path, number: int) -> list[Row]:
    """The rows of the view "records" of one log partition: magic 2, not compressed."""
    folder = path / f"{TOPIC}-{number}"
    rows = [row for name in sorted(folder.glob("*.log")) for row in _rows_of(name.read_bytes(), number)]
    waiting: dict[int, list[Row]] = {}
    for row in rows:
        if row["control"] is not None:
            for each in waiting.pop(row["producer_id"], []):
                each["outcome"] = "committed" if row["control"] == "COMMIT" else "aborted"
                each["marker_offset"] = row["log_offset"]
        elif row["transactional"]:
            row["outcome"] = "open"
            waiting.setdefault(row["producer_id"], []).append(row)
    return rows


def all_rows(path: Path) -> list[Row]:
    numbers = sorted(int(folder.name.rpartition("-")[2]) for folder in path.glob(f"{TOPIC}-*"))
    return [row for number in numbers for row in rows_of(path, number)]


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=RECORDS)
