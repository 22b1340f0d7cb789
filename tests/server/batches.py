"""Batches as producers send them, made by kafka-python's own builder."""

from __future__ import annotations

from collections.abc import Sequence

from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from offsetlog._native.compress import deflate
from offsetlog._native.decompress import inflate


def produced_batch(
    count: int,
    *,
    timestamp: int,
    key: bytes | None = b"key",
    value: bytes = b"value",
    base_offset: int = 0,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    codec: int = 0,
) -> bytes:
    """Returns a batch of `count` records, a millisecond apart.

    Args:
        producer: its id, epoch, and the sequence of the first record.
        codec: 1 gzip, 2 snappy, 3 lz4, 4 zstd.
        attributes: bits that are set besides; base_offset: in place of 0.
    """
    return keyed_batch(
        [(key, value)] * count,
        timestamp=timestamp,
        base_offset=base_offset,
        attributes=attributes,
        producer=producer,
        codec=codec,
    )


def keyed_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    timestamp: int,
    base_offset: int = 0,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    codec: int = 0,
    damaged: bool = False,
) -> bytes:
    """Returns a batch of these keys and values; see `produced_batch`.

    `damaged`: its block is cut, and its checksum right.
    """
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        batch_size=1 << 30,
    )
    for offset, (key, value) in enumerate(records):
        builder.append(offset, timestamp + offset, key, value, [])
    batch = bytearray(builder.build())
    if codec:
        batch[61:] = deflate(codec, bytes(batch[61:]))
        if damaged:
            del batch[-8:]
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        attributes |= codec
    batch[0:8] = base_offset.to_bytes(8, "big")
    batch[21:23] = (int.from_bytes(batch[21:23], "big") | attributes).to_bytes(2, "big")
    batch[17:21] = calc_crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def read_records(data: bytes | None) -> tuple[list[tuple[int, bytes | None, bytes | None]], int]:
    """Returns the records of batches as (offset, key, value), and the offset after the last batch, -1 for none."""
    found: list[tuple[int, bytes | None, bytes | None]] = []
    next_offset = -1
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        batch = _inflated(data[:size])
        next_offset = batch.base_offset + batch.last_offset_delta + 1
        found += [(each.offset, each.key, each.value) for each in batch]
        data = data[size:]
    return found, next_offset


def _inflated(batch: bytes) -> DefaultRecordBatch:
    # kafka-python reads few codecs without further packages.
    codec = batch[22] & 7
    if codec and batch[57:61] != bytes(4):
        batch = batch[:22] + bytes([batch[22] & ~7]) + batch[23:61] + inflate(codec, batch[61:], 1 << 28)
        batch = batch[:8] + (len(batch) - 12).to_bytes(4, "big") + batch[12:]
    return DefaultRecordBatch(batch)
