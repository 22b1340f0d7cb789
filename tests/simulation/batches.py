"""Record batches as a consumer of the offsets topic reads them, without the product's own code.

The layouts stand in docs/format/batches.md and docs/format/records.md.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from offsetlog.types import TopicPartition

_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = _HEADER.size
#: The fields that stand before the length's end.
PREFIX_BYTES = 12
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


class Record(NamedTuple):
    """One record, its key and value as they are; `value` None is a tombstone."""

    offset: int
    key: bytes
    value: bytes | None


class Batch(NamedTuple):
    """One batch.  `producer` is -1 outside of transactions."""

    base: int
    epoch: int
    last: int
    producer: int
    is_control: bool
    records: tuple[Record, ...]


class Position(NamedTuple):
    """A committed position, as it is compared."""

    offset: int
    epoch: int
    metadata: str
    committed_at: int


def split(data: memoryview) -> Iterator[bytes]:
    """Yields the whole batches of some bytes."""
    at = 0
    while at < len(data):
        size = PREFIX_BYTES + int.from_bytes(data[at + 8 : at + PREFIX_BYTES], "big")
        yield bytes(data[at : at + size])
        at += size


def base_of(batch: bytes) -> int:
    """Returns the log offset of a batch's first record."""
    return int.from_bytes(batch[:8], "big")


def next_of(batch: bytes) -> int:
    """Returns the log offset after a batch."""
    return base_of(batch) + int.from_bytes(batch[23:27], "big") + 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _take(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def decode(data: bytes) -> Batch:
    """Decodes a batch without compression."""
    fields = _HEADER.unpack_from(data)
    base, epoch, attributes, last_delta, producer = (fields[each] for each in (0, 2, 5, 6, 9))
    assert attributes & 7 == 0, "the simulation writes nothing compressed"
    records = []
    at = HEADER_BYTES
    for _ in range(fields[12]):
        size, at = _varint(data, at)
        end = at + size
        _, at = _varint(data, at + 1)
        delta, at = _varint(data, at)
        key, at = _take(data, at)
        value, at = _take(data, at)
        records.append(Record(base + delta, key or b"", value))
        at = end
    is_transactional = attributes & _TRANSACTIONAL
    return Batch(
        base,
        epoch,
        base + last_delta,
        producer if is_transactional else -1,
        bool(attributes & _CONTROL),
        tuple(records),
    )


def is_commit(batch: Batch) -> bool:
    """Returns whether a control batch ends its transaction with a commit."""
    return struct.unpack(">hh", batch.records[0].key) == (0, 1)


def _text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + max(size, 0)
    return data[at + 2 : end].decode(), end


def key_of(record: Record) -> tuple[str, TopicPartition | None]:
    """Returns a record's group, and its topic and partition, None for the group's own record."""
    (version,) = struct.unpack_from(">h", record.key)
    group, at = _text(record.key, 2)
    if version == 2:
        return group, None
    assert version in (0, 1), f"a key of type {version}"
    topic, at = _text(record.key, at)
    return group, TopicPartition(topic, struct.unpack_from(">i", record.key, at)[0])


def position_of(value: bytes) -> Position:
    """Returns the position of a value of version 1 or 3."""
    version, offset = struct.unpack_from(">hq", value)
    assert version in (1, 3), f"a value of version {version}"
    epoch, at = -1, 10
    if version == 3:
        (epoch,) = struct.unpack_from(">i", value, at)
        at += 4
    metadata, at = _text(value, at)
    (committed_at,) = struct.unpack_from(">q", value, at)
    return Position(offset, epoch, metadata, committed_at)


def generation_of(value: bytes) -> int:
    """Returns the generation of a group's own record."""
    _, at = _text(value, 2)
    generation: int = struct.unpack_from(">i", value, at)[0]
    return generation
