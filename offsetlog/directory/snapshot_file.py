"""The file of a snapshot: an Arrow IPC file of one row, with a column for each section of the state.

The engine has its own reader (csrc/snapshot/open.c); every other program reads the file with
`pyarrow.ipc.open_file`.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Iterable

import pyarrow as pa

from offsetlog._native import snapshot as native
from offsetlog._native.snapshot import OutputFile, Snapshot

#: A large_binary column of one row has two offsets before its bytes.
_OFFSETS_SIZE = 16
_BUFFER_SIZE_MAX = 4 << 20
#: More bytes than Arrow writes after the columns of the state.
_END_SIZE = 64 << 10
#: The facts are padded to a multiple of this many bytes, so that nearly all files have heads of the same size.
_FACTS_UNIT = 256


def write_arrow(snapshot: Snapshot, output: OutputFile, threads: int = 1) -> None:
    """Writes a snapshot as an Arrow IPC file, flushes it to disk and closes it; raises StorageError, CapacityError."""
    # The arenas themselves are the columns, so nothing is copied.  The directory of sections is the last column, which
    # the engine finds from the end of the file.
    sections = snapshot.seal(threads)
    names = [*(name for name, _, _ in sections), "directory"]
    facts = json.dumps({**snapshot.facts(), "version": native.VERSION})
    facts = facts.ljust(-(-len(facts) // _FACTS_UNIT) * _FACTS_UNIT)
    schema = _schema(names, facts)
    position = _body_start(tuple(names), len(facts))
    columns: list[pa.Array] = []
    positions: list[int] = []
    for _, address, size in sections:
        positions.append(position + _OFFSETS_SIZE)
        columns.append(
            _column(pa.foreign_buffer(address, size, base=snapshot) if size else pa.py_buffer(b""))
        )
        # Arrow aligns every buffer to eight bytes.
        position += _OFFSETS_SIZE + (size + 7) // 8 * 8
    columns.append(_column(pa.py_buffer(snapshot.directory(positions))))
    # Writes are joined, because each waits for the GIL, up to some milliseconds beside a committing thread.  A small
    # snapshot needs one write.
    buffer_size = min(_BUFFER_SIZE_MAX, position + _END_SIZE)
    with pa.BufferedOutputStream(pa.PythonFile(output, mode="w"), buffer_size) as sink:
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(pa.record_batch(columns, schema=schema))
        sink.flush()
        output.sync()


def _column(content: pa.Buffer) -> pa.Array:
    offsets = pa.py_buffer(struct.pack("<qq", 0, content.size))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, content])


def _schema(names: Iterable[str], facts: str) -> pa.Schema:
    fields = [pa.field(name, pa.large_binary(), nullable=False) for name in names]
    return pa.schema(fields, {"offsetlog.snapshot": facts})


@functools.lru_cache(maxsize=8)
def _body_start(names: tuple[str, ...], facts_size: int) -> int:
    # The columns follow the schema and the head of the batch, whose sizes are independent of the columns' contents and
    # of the facts' text.  Arrow takes the GIL four times to compute these sizes, for some milliseconds each beside a
    # committing thread.
    schema = _schema(names, " " * facts_size)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(
            pa.record_batch([_column(pa.py_buffer(b"")) for _ in schema], schema=schema)
        )
    whole = sink.getvalue()
    first = pa.ipc.open_file(whole).get_batch(0).column(0).buffers()[1]
    return int(first.address - whole.address)
