"""Record batches made by hand, for what no writer of ours would write."""

from __future__ import annotations

import struct

from offsetlog._native.codec import crc32c


def varint(value: int) -> bytes:
    number, found = (value << 1) ^ (value >> 63), b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def record_of(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\x00" + varint(0) + varint(delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(0)
    return varint(len(body)) + body


def batch_of(base_offset: int, records: list[tuple[bytes | None, bytes | None]]) -> bytes:
    """A batch of magic 2 with these keys and values."""
    body = b"".join(record_of(delta, *each) for delta, each in enumerate(records))
    tail = struct.pack(">hiqqqhii", 0, len(records) - 1, 1700000000000, 1700000000000, -1, -1, 0, len(records)) + body
    return struct.pack(">qiibI", base_offset, len(tail) + 9, 0, 2, crc32c(tail)) + tail
