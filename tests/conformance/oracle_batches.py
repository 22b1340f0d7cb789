"""A second, independent reader of Kafka's record batches: magic 0, 1 and 2, every codec (docs/format/batches.md §2,
docs/format/brokers.md §15.2).

Simple and slow on purpose, and shares nothing with the engine: it is the second opinion the engine is tested against.
It reports unreadable bytes as the end of the segment with a reason; it never guesses.  Pure functions of bytes;
safe from any thread.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import dataclass, field

import pyarrow as pa

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BATCH_HEADER_SIZE = 61
LOG_OVERHEAD = 12
# The largest size of a compressed block here.  The data are small; a larger block is a bomb or damage.
DECOMPRESSED_SIZE_MAX = 64 << 20


class UnreadableError(Exception):
    """The bytes are no record batch; the message says why."""


@dataclass(frozen=True)
class Record:
    """One record; `key` and `value` are None for null.  `message_crc` is the record's own CRC in formats 0 and 1,
    else None.

    `timestamp` is ms, -1 in format 0.  `sequence` is -1 where the batch has none.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    sequence: int = -1
    message_crc: int | None = None


@dataclass(frozen=True)
class Batch:
    """One batch of magic 2, or one message of magic 0 or 1 (a wrapper with what it wraps), at `position` of its file.

    `size` is in bytes, the 12 of offset and length included; `max_timestamp` and `delete_horizon` are ms, -1 and None
    for none. Formats 0 and 1 have no producer, epoch or sequence: -1.
    """

    position: int
    base_offset: int
    last_offset: int
    size: int
    magic: int
    codec: str
    crc: int
    max_timestamp: int
    timestamp_type: str
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    control: bool = False
    delete_horizon: int | None = None
    records: tuple[Record, ...] = field(default=())


@dataclass(frozen=True)
class Tail:
    """Bytes at the end of a segment that are no whole, valid batch."""

    position: int
    size: int
    reason: str


def read_segment(data: bytes) -> tuple[list[Batch], Tail | None]:
    """Every batch from the start of a `.log` file up to its end or the first that cannot be read.

    Never raises for bad bytes.
    """
    batches: list[Batch] = []
    position = 0
    while position < len(data):
        try:
            batch = _read_batch(data, position)
        except UnreadableError as reason:
            return batches, Tail(position, len(data) - position, str(reason))
        batches.append(batch)
        position += batch.size
    return batches, None


def _read_batch(data: bytes, position: int) -> Batch:
    left = len(data) - position
    if left < 17:
        raise UnreadableError("less than a header is left")
    length = struct.unpack_from(">i", data, position + 8)[0]
    if length < 14:
        raise UnreadableError(f"length {length}")
    if left < LOG_OVERHEAD + length:
        raise UnreadableError(f"{left} of {LOG_OVERHEAD + length} bytes are there")
    block = data[position : position + LOG_OVERHEAD + length]
    magic = block[16]
    if magic == 2:
        return _read_batch_v2(block, position)
    if magic in (0, 1):
        return _read_message(block, position, magic)
    raise UnreadableError(f"magic {magic}")


def _read_batch_v2(block: bytes, position: int) -> Batch:
    if len(block) < BATCH_HEADER_SIZE:
        raise UnreadableError(f"a batch of {len(block)} bytes")
    base, _, epoch, _, crc, attributes, last_delta, base_time, max_time, pid, pid_epoch, sequence, count = (
        struct.unpack_from(">qiibIhiqqqhii", block)
    )
    if crc32c(block[21:]) != crc:
        raise UnreadableError("CRC-32C differs")
    if attributes & 7 >= len(CODECS):
        raise UnreadableError(f"codec {attributes & 7}")
    codec = CODECS[attributes & 7]
    append_time, horizon = bool(attributes & 8), bool(attributes & 64)
    body = decompress(codec, block[BATCH_HEADER_SIZE:], 2) if count else b""
    records, at = [], 0
    for _ in range(count):
        record, at = _read_record_v2(body, at, base, base_time, sequence)
        if append_time:
            record = Record(record.offset, max_time, record.key, record.value, record.headers, record.sequence)
        records.append(record)
    if at != len(body):
        raise UnreadableError(f"{len(body) - at} bytes behind the last record")
    return Batch(
        position,
        base,
        base + last_delta,
        len(block),
        2,
        codec,
        crc,
        max_time,
        "LogAppendTime" if append_time else "CreateTime",
        epoch,
        pid,
        pid_epoch,
        sequence,
        bool(attributes & 16),
        bool(attributes & 32),
        base_time if horizon else None,
        tuple(records),
    )


def _read_record_v2(body: bytes, at: int, base_offset: int, base_time: int, base_sequence: int) -> tuple[Record, int]:
    length, at = _varint(body, at)
    end = at + length
    if length < 0 or end > len(body):
        raise UnreadableError("a record longer than its batch")
    at += 1  # the attributes of a record are unused
    time_delta, at = _varint(body, at)
    offset_delta, at = _varint(body, at)
    key, at = _sized(body, at)
    value, at = _sized(body, at)
    header_count, at = _varint(body, at)
    headers = []
    for _ in range(header_count):
        name, at = _sized(body, at)
        content, at = _sized(body, at)
        headers.append((name or b"", content))
    if at != end:
        raise UnreadableError("a record's length and its fields differ")
    # Sequences wrap from 2^31-1 to 0 and stay -1 where there are none.
    sequence = -1 if base_sequence == -1 else (base_sequence + offset_delta) % (1 << 31)
    return Record(base_offset + offset_delta, base_time + time_delta, key, value, tuple(headers), sequence), end


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(body) or shift > 63:
            raise UnreadableError("a cut or overlong varint")
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _sized(body: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(body, at)
    if size < 0:
        return None, at
    if at + size > len(body):
        raise UnreadableError("a field longer than its batch")
    return body[at : at + size], at + size


def _read_message(block: bytes, position: int, magic: int) -> Batch:
    """One message of format 0 or 1; a compressed one wraps a message set (docs/format/batches.md §2.8)."""
    offset, crc, attributes, timestamp, key, value = _message_fields(block, magic)
    codec = CODECS[attributes & 7] if attributes & 7 < 4 else None
    if codec is None:
        raise UnreadableError(f"codec {attributes & 7}")
    append_time = magic == 1 and bool(attributes & 8)
    time_type = "NoTimestampType" if magic == 0 else "LogAppendTime" if append_time else "CreateTime"
    if codec == "none":
        records: tuple[Record, ...] = (Record(offset, timestamp, key, value, message_crc=crc),)
    else:
        inner = _inner_messages(decompress(codec, value or b"", magic), magic)
        # Format 0 keeps absolute offsets in a wrapper; format 1 relative ones, the wrapper's offset being that of the
        # last. The cleaner leaves gaps in them, so they are not just 0 to n-1 (docs/format/brokers.md §15.2).
        shift = offset - inner[-1].offset if magic == 1 else 0
        records = tuple(
            Record(
                each.offset + shift,
                timestamp if append_time else each.timestamp,
                each.key,
                each.value,
                message_crc=each.message_crc,
            )
            for each in inner
        )
    return Batch(
        position, records[0].offset, offset, len(block), magic, codec, crc, timestamp, time_type, records=records
    )


def _message_fields(block: bytes, magic: int) -> tuple[int, int, int, int, bytes | None, bytes | None]:
    offset, _, crc, _, attributes = struct.unpack_from(">qiIbb", block)
    if zlib.crc32(block[16:]) != crc:
        raise UnreadableError("CRC-32 differs")
    at = 18
    timestamp = -1
    if magic == 1:
        if len(block) < 34:
            raise UnreadableError("a cut message")
        timestamp, at = struct.unpack_from(">q", block, at)[0], at + 8
    key, at = _sized_i32(block, at)
    value, at = _sized_i32(block, at)
    if at != len(block):
        raise UnreadableError("a message's length and its fields differ")
    return offset, crc, attributes, timestamp, key, value


def _sized_i32(block: bytes, at: int) -> tuple[bytes | None, int]:
    if at + 4 > len(block):
        raise UnreadableError("a cut message")
    size = struct.unpack_from(">i", block, at)[0]
    at += 4
    if size < 0:
        return None, at
    if at + size > len(block):
        raise UnreadableError("a field longer than its message")
    return block[at : at + size], at + size


def _inner_messages(data: bytes, magic: int) -> list[Record]:
    records, position = [], 0
    while position < len(data):
        if len(data) - position < LOG_OVERHEAD + 14:
            raise UnreadableError("a cut inner message")
        size = LOG_OVERHEAD + struct.unpack_from(">i", data, position + 8)[0]
        block = data[position : position + size]
        if size < LOG_OVERHEAD + 14 or len(block) != size or block[16] != magic:
            raise UnreadableError("a bad inner message")
        offset, crc, attributes, timestamp, key, value = _message_fields(block, magic)
        if attributes & 7:
            raise UnreadableError("a wrapper in a wrapper")
        records.append(Record(offset, timestamp, key, value, message_crc=crc))
        position += size
    if not records:
        raise UnreadableError("an empty wrapper")
    return records


def decompress(codec: str, data: bytes, magic: int) -> bytes:
    """The records of a compressed batch or wrapper.  Raises UnreadableError for damaged or boundless data."""
    try:
        if codec == "none":
            return data
        if codec == "gzip":
            return gzip.decompress(data)
        if codec == "snappy":
            return _snappy(data)
        if codec == "lz4":
            return _lz4_frame(data)
        return bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(DECOMPRESSED_SIZE_MAX))
    except (OSError, EOFError, zlib.error, pa.ArrowException, struct.error, IndexError) as error:
        raise UnreadableError(f"{codec}: {error}") from error


_XERIAL = b"\x82SNAPPY\x00"


def _snappy(data: bytes) -> bytes:
    """Raw snappy, or snappy blocks in the framing of the Java library (magic, two versions, sized blocks)."""
    if not data.startswith(_XERIAL):
        return _snappy_block(data)
    out, at = b"", 16
    while at < len(data):
        size = struct.unpack_from(">i", data, at)[0]
        if size < 0 or at + 4 + size > len(data):
            raise UnreadableError("a cut snappy block")
        out += _snappy_block(data[at + 4 : at + 4 + size])
        at += 4 + size
    return out


def _snappy_block(data: bytes) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > DECOMPRESSED_SIZE_MAX:
        raise UnreadableError(f"a snappy block of {size} bytes")
    return bytes(pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True))


def _lz4_frame(data: bytes) -> bytes:
    """An LZ4 frame, read by hand.

    The header's checksum is passed over: format 0 has a wrong one, computed over the frame's magic number too.
    """
    if data[:4] != b"\x04\x22\x4d\x18":
        raise UnreadableError("not an LZ4 frame")
    flags = data[4]
    at = 6 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0) + 1
    out = bytearray()
    while True:
        size = struct.unpack_from("<I", data, at)[0]
        at += 4
        if size == 0:
            return bytes(out)
        stored, size = size >> 31, size & 0x7FFFFFFF
        if at + size > len(data):
            raise UnreadableError("a cut LZ4 block")
        if stored:
            out += data[at : at + size]
        else:
            _lz4_block(data[at : at + size], out)
        at += size + (4 if flags & 16 else 0)


def _lz4_block(block: bytes, out: bytearray) -> None:
    at = 0
    while at < len(block):
        token = block[at]
        literals, at = _lz4_length(block, at + 1, token >> 4)
        if at + literals > len(block):
            raise UnreadableError("cut LZ4 literals")
        out += block[at : at + literals]
        at += literals
        if at == len(block):
            return
        distance = block[at] | block[at + 1] << 8
        length, at = _lz4_length(block, at + 2, token & 15)
        start = len(out) - distance
        if distance == 0 or start < 0 or len(out) > DECOMPRESSED_SIZE_MAX:
            raise UnreadableError("an LZ4 match outside of its block")
        for each in range(start, start + length + 4):
            out.append(out[each])


def _lz4_length(block: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            byte = block[at]
            at += 1
            length += byte
            if byte != 255:
                break
    return length, at


def _crc32c_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc32c_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of the bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF
