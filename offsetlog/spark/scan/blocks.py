"""The form of a record batch for the JVM reader: the buffers of all columns, in Arrow's layout, one after another.

The JVM and this process are on one machine, so numbers are in the machine's byte order.  A block is written to one of
SLOTS slots in the memory that both processes have mapped.  If a block is too large for a slot, it is sent over the
connection (`block_worker`).

A block begins with the sizes of its buffers, as numbers of 64 bits.  Each buffer begins at a multiple of 8 bytes.  The
first buffer of a column is a bitmap of the values that are not null; it is empty if no value is null.  The other
buffers of the column depend on its type:

* Numbers: the values.
* Booleans: a bitmap of the values.
* Strings and binary values: the bounds of the values, and then their bytes.  The bounds are numbers of 32 bits: the
  start of the first value, which need not be 0, and then the end of each value.
* Lists: the bounds of the lists, in the same form, and then the column of the elements.
* Structs: the columns of the fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

#: The number of slots: while the JVM reads one block, the next one is written.
SLOTS = 2
#: The largest size of a block, in bytes; only a block of a single row may be larger.
SLOT_BYTES = 8 * 2**20


def pieces_of(batch: Any, limit: int = SLOT_BYTES) -> Iterator[Any]:
    """Divides a batch into pieces whose blocks have at most about `limit` bytes; a piece has at least one row."""
    rows = batch.num_rows
    if rows == 0:
        return
    # A quarter is reserved for the sizes of buffers and the space between them.
    if rows == 1 or batch.nbytes <= limit - limit // 4:
        yield batch
        return
    # A batch is divided where a byte of its bitmaps ends, unless a piece would have fewer rows than a byte has bits.
    half = -(-rows // 16) * 8 if rows > 8 else rows // 2
    yield from pieces_of(batch.slice(0, half), limit)
    yield from pieces_of(batch.slice(half), limit)


def buffers_of(batch: Any) -> list[Any]:
    """Returns the buffers of all columns of a batch.

    A column is copied only if its first row is not at the beginning of a byte of its bitmap.
    """
    found: list[Any] = []
    for column in batch.columns:
        _add(column, found)
    return [memoryview(each).cast("B") for each in found]


def sizes_of(buffers: list[Any]) -> bytes:
    """Returns the header of a block: the sizes of its buffers."""
    return struct.pack(f"={len(buffers)}q", *(len(each) for each in buffers))


def block_bytes(buffers: list[Any]) -> int:
    """Returns the size of a block that consists of these buffers, in bytes."""
    return 8 * len(buffers) + sum(padded(len(each)) for each in buffers)


def padded(size: int) -> int:
    """Returns a size rounded up to the next multiple of 8, where the next buffer can begin."""
    return -(-size // 8) * 8


def write_block(target: memoryview, buffers: list[Any]) -> None:
    """Writes a block to memory, which must be large enough."""
    position = 8 * len(buffers)
    target[:position] = sizes_of(buffers)
    for each in buffers:
        target[position : position + len(each)] = each
        position += padded(len(each))


def _add(column: Any, buffers: list[Any]) -> None:
    """Adds the buffers of a column, and of the columns inside it."""
    if column.offset % 8:
        column = pa.concat_arrays([column, column.slice(0, 0)])
    rows, first = len(column), column.offset
    parts = column.buffers()
    buffers.append(b"" if parts[0] is None or column.null_count == 0 else parts[0].slice(first // 8, -(-rows // 8)))
    kind = column.type
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            _add(column.field(index), buffers)
    elif pa.types.is_list(kind):
        buffers.append(_ends(parts[1], first, rows))
        low, high = _bounds(buffers[-1], rows)
        _add(column.values.slice(low, high - low), buffers)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        buffers.append(_ends(parts[1], first, rows))
        low, high = _bounds(buffers[-1], rows)
        buffers.append(parts[2].slice(low, high - low) if high > low else b"")
    elif pa.types.is_boolean(kind):
        buffers.append(parts[1].slice(first // 8, -(-rows // 8)))
    else:
        width = kind.bit_width // 8
        buffers.append(parts[1].slice(first * width, rows * width))


def _ends(ends: Any, first: int, rows: int) -> Any:
    # Arrow may omit the ends of a column without rows.
    return ends.slice(4 * first, 4 * (rows + 1)) if ends is not None and ends.size else bytes(4 * (rows + 1))


def _bounds(ends: Any, rows: int) -> tuple[int, int]:
    low, high = struct.unpack_from("=i", ends)[0], struct.unpack_from("=i", ends, 4 * rows)[0]
    return low, high
