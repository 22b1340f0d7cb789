"""The digest of docs/digest.md, computed from columns: many rows are encoded at once, and each of them is hashed.

The engine computes the same digest in C, from its own table.  The two computations share no code, so that each verifies
the other.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

#: A hash is passed as four numbers of 32 bits, the highest first; their sums over 2**31 rows fit a bigint.
LIMBS = ("a", "b", "c", "d")
SPARK_LIMBS = ", ".join(f"{name} bigint" for name in LIMBS)
MODULUS = 1 << 128


def from_limbs(sums: tuple[int, int, int, int]) -> int:
    """Returns the sum of hashes modulo 2**128, given the sums of their four 32-bit parts (LIMBS)."""
    a, b, c, d = sums
    return ((a << 96) + (b << 64) + (c << 32) + d) % MODULUS


def _fixed(values: np.ndarray[Any, Any], kind: str) -> Any:
    # Big-endian bytes of each number, as a column of binary.
    raw = np.ascontiguousarray(values.astype(kind))
    return _equal_sizes(raw.tobytes(), len(values), raw.itemsize)


def _equal_sizes(data: bytes, count: int, size: int) -> Any:
    offsets = np.arange(count + 1, dtype=np.int32) * size
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    )


def _numbers(column: Any, kind: str) -> Any:
    return _fixed(column.to_numpy(zero_copy_only=False), kind)


def _sizes(column: Any) -> Any:
    return _numbers(pc.binary_length(column), ">u4")


def _texts(column: Any) -> tuple[Any, Any]:
    raw = column.cast(pa.binary())
    return _sizes(raw), raw


def _topic_ids(column: Any) -> Any:
    encoded = column.dictionary_encode()
    known = []
    for text in encoded.dictionary.to_pylist():
        raw = base64.urlsafe_b64decode(f"{text}==")
        known.append(b"\x01" + raw if any(raw) else b"\x00")
    known.append(b"\x00")
    indices = pc.fill_null(encoded.indices, len(known) - 1)
    return pa.array(known, pa.binary()).take(indices)


def _joined(parts: list[Any]) -> Any:
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))


def _hashes(column: Any) -> bytes:
    # XXH3-128 of each row, 16 bytes each, the high half first.
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].tolist()
    view = memoryview(data if data is not None else b"")
    digest = xxhash.xxh3_128_digest
    return b"".join([digest(view[a:b]) for a, b in itertools.pairwise(bounds)])


def _limbs(hashes: bytes) -> Any:
    numbers = np.frombuffer(hashes, ">u4").reshape(-1, 4).astype(np.int64)
    return pa.StructArray.from_arrays([pa.array(np.ascontiguousarray(numbers[:, i])) for i in range(4)], list(LIMBS))


def _flat(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def position_hashes(
    group: pa.Array,
    topic: pa.Array,
    partition: pa.Array,
    offset: pa.Array,
    leader_epoch: pa.Array,
    metadata: pa.Array,
    commit_timestamp: pa.Array,
    expire_timestamp: pa.Array,
    topic_id: pa.Array,
    producer_id: pa.Array,
    log_offset: pa.Array,
) -> pa.Array:
    """Returns the hash of each committed or pending position, as a struct of LIMBS.

    The arguments are Arrow arrays with the names of the columns of the view "offsets".  If the producer id of a row is
    >= 0, the hash is that of a pending position.  If the log offset is >= 0, the hash includes it.  In one call, either
    all rows must have a producer id >= 0, or none.  The same applies to the log offset.
    """
    count = len(group)
    if count == 0:
        return _limbs(b"")
    columns = [_flat(each) for each in (group, topic, metadata)]
    (group_size, group_raw), (topic_size, topic_raw), (metadata_size, metadata_raw) = map(_texts, columns)
    producers = _flat(producer_id).to_numpy(zero_copy_only=False)
    places = _flat(log_offset).to_numpy(zero_copy_only=False)
    kind = np.where(producers >= 0, 2, 1) | np.where(places >= 0, 0x80, 0)
    parts = [_fixed(kind, "u1")]
    if producers[0] >= 0:
        parts.append(_fixed(producers, ">i8"))
    parts += [
        group_size,
        group_raw,
        topic_size,
        topic_raw,
        _numbers(_flat(partition), ">i4"),
        _numbers(_flat(offset), ">i8"),
        _numbers(_flat(leader_epoch), ">i4"),
        _numbers(_flat(commit_timestamp), ">i8"),
        _numbers(_flat(expire_timestamp), ">i8"),
        metadata_size,
        metadata_raw,
        _topic_ids(_flat(topic_id)),
    ]
    if places[0] >= 0:
        parts.append(_fixed(places, ">i8"))
    return _limbs(_hashes(_joined(parts)))


def group_record_hashes(key: pa.Array, value: pa.Array, timestamp: pa.Array, log_offset: pa.Array) -> pa.Array:
    """Returns the hash of each group record, as a struct of LIMBS.

    A log offset >= 0 is included in the hash, together with the timestamp of the record.  Either all rows of a call
    must have a log offset >= 0, or none.
    """
    count = len(key)
    if count == 0:
        return _limbs(b"")
    keys, values, places = _flat(key), _flat(value), _flat(log_offset).to_numpy(zero_copy_only=False)
    parts = [
        _fixed(np.where(places >= 0, 0x83, 0x03), "u1"),
        _sizes(keys),
        _equal_sizes(_hashes(keys), count, 16),
        _sizes(values),
        _equal_sizes(_hashes(values), count, 16),
    ]
    if places[0] >= 0:
        parts += [_numbers(_flat(timestamp), ">i8"), _fixed(places, ">i8")]
    return _limbs(_hashes(_joined(parts)))


_TYPES = {
    position_hashes: (
        *(pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int32(), pa.string()),
        *(pa.int64(), pa.int64(), pa.string(), pa.int64(), pa.int64()),
    ),
    group_record_hashes: (pa.binary(), pa.binary(), pa.int64(), pa.int64()),
}


def by_row(function: Callable[..., Any]) -> Callable[..., tuple[int, ...]]:
    """Converts `position_hashes` or `group_record_hashes` to a function that takes the values of a single row."""
    kinds = _TYPES[function]

    def hashed(*values: Any) -> tuple[int, ...]:
        arrays = [pa.array([value], kind) for value, kind in zip(values, kinds, strict=True)]
        return tuple(function(*arrays)[0].as_py().values())

    return hashed
