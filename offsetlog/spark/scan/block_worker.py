"""The process that reads tasks for the reader in the JVM: `python -m offsetlog.spark.scan.block_worker SOCKET`.

The reader in `offsetlog/spark/jvm` starts this process on an executor, and sends it one task after another.  The
process has no rules of its own: it calls the functions of the Python data source.  It therefore returns the same
rows as that data source, and fails on the same data.

The protocol consists of these messages.  Numbers have 32 bits, in the machine's byte order:

* Hello, from this process.  It contains MAGIC and PROTOCOL, which the jar compares with its own; the process id; the
  file descriptor of the memory that both processes map (`blocks`); the number of slots; and the size of a slot in
  bytes.
* Request, from the JVM.  It contains its own size, the number of strings, and then each string, preceded by its size.
  The first string is the list of columns as Spark's JSON, and the second is a pickled `plan.Task`.  For each column
  that the query's filters restrict, two strings follow: the name of the column, and the values that the filters admit.
  These are one text, or numbers separated by commas.
* Answer, from this process, for each block and at the end.  It contains its kind (BLOCK, END, FAILURE), the number of
  rows, the number of buffers, the number of bytes, and the slot that contains the bytes.  If the slot is -1, the bytes
  follow the answer.  The bytes of a FAILURE are a traceback.
* Free slots, from the JVM.  It sends one byte for each slot that this process may use again.

If this protocol or the layout in `blocks` changes, PROTOCOL must change, here and in `Slots.java`.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import pickle
import select
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql.types import StructType

from offsetlog.spark.scan.batch import BatchReader
from offsetlog.spark.scan.blocks import (
    SLOT_BYTES,
    SLOTS,
    block_bytes,
    buffers_of,
    padded,
    pieces_of,
    sizes_of,
    write_block,
)
from offsetlog.spark.scan.narrowing import with_values
from offsetlog.spark.scan.plan import Task
from offsetlog.spark.scan.views import asked_schema

#: This number cannot be a process id.  Before the protocol had a version, the hello began with the process id.
MAGIC = int.from_bytes(b"OLBW", "big")
PROTOCOL = 1

BLOCK, END, FAILURE = 1, 2, 3
#: The largest request, in bytes; a task holds only a few names and numbers for each segment of a log.
REQUEST_BYTES_MAX = 2**30
_SAME_VERSION = "offsetlog's jar and its Python package must have the same version"

#: The columns of numbers among those that filters apply to.
_NUMBERS = frozenset({"partition", "log_partition"})

_HELLO = struct.Struct("=iiiiii")
_HEAD = struct.Struct("=iiiii")


class GoneError(ConnectionError):
    """The JVM closed the connection, because it no longer needs the task."""


class BlockWorker:
    """Answers requests, one after another.  Use it from one thread only."""

    def __init__(self, connection: socket.socket) -> None:
        """Takes a connection to the JVM reader, and creates the memory that both map."""
        self._connection = connection
        self._file = os.memfd_create("offsetlog-blocks")
        os.ftruncate(self._file, SLOTS * SLOT_BYTES)
        self._memory = memoryview(mmap.mmap(self._file, SLOTS * SLOT_BYTES))
        self._sent = 0
        self._busy = 0
        connection.sendall(_HELLO.pack(MAGIC, PROTOCOL, os.getpid(), self._file, SLOTS, SLOT_BYTES))

    def serve(self) -> None:
        """Serves requests until the JVM closes the connection; raises GoneError if it does so during a task."""
        while (request := self._request()) is not None:
            try:
                for batch in _batches(request):
                    for piece in pieces_of(batch):
                        self._send(piece.num_rows, buffers_of(piece))
                answer = _HEAD.pack(END, 0, 0, 0, -1)
            except GoneError:
                raise
            except Exception:
                text = traceback.format_exc().encode(errors="replace")
                answer = _HEAD.pack(FAILURE, 0, 0, len(text), -1) + text
            self._write(answer)
            while self._busy:
                self._wait_for_slot()

    def _send(self, rows: int, buffers: list[Any]) -> None:
        size = block_bytes(buffers)
        if size > SLOT_BYTES:
            self._write(_HEAD.pack(BLOCK, rows, len(buffers), size, -1) + sizes_of(buffers))
            for each in buffers:
                self._write(each)
                self._write(bytes(padded(len(each)) - len(each)))
            return
        if self._busy == SLOTS:
            self._wait_for_slot()
        slot = self._sent % SLOTS
        write_block(self._memory[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES], buffers)
        self._write(_HEAD.pack(BLOCK, rows, len(buffers), size, slot))
        self._sent += 1
        self._busy += 1

    def _wait_for_slot(self) -> None:
        if not self._read(1):
            raise GoneError
        self._busy -= 1

    def _write(self, data: Any) -> None:
        try:
            self._connection.sendall(data)
        except ConnectionError as closed:
            raise GoneError from closed

    def _request(self) -> bytes | None:
        head = self._read(4)
        if not head:
            return None
        size = struct.unpack("=i", head)[0]
        if not 4 <= size <= REQUEST_BYTES_MAX:
            raise ValueError(f"a request cannot have {size} bytes: {_SAME_VERSION}")
        return self._read(size)

    def _read(self, size: int) -> bytes:
        """Returns `size` bytes, or b"" if the connection is closed."""
        received = bytearray()
        while len(received) < size:
            part = self._connection.recv(min(size - len(received), 2**20))
            if not part:
                return b""
            received += part
        return bytes(received)


def _batches(request: bytes) -> Iterator[Any]:
    columns, task, filters = _parsed(request)
    read = task.read
    if read is None:
        raise ValueError(f"the task came without options; {_SAME_VERSION}")
    for name, text in filters:
        is_number = name in _NUMBERS
        read = with_values(read, name, tuple(int(each) for each in text.split(",")) if is_number else (text,))
    chosen = read.filtered_partitions
    splits = tuple(each for each in task.splits if chosen is None or each.number in chosen)
    return BatchReader(read, asked_schema(read, columns)).read(replace(task, splits=splits))


def _parsed(request: bytes) -> tuple[StructType, Task, list[tuple[str, str]]]:
    """Returns the columns, the task and the filters of a request."""
    words, position = [], 4
    for _ in range(struct.unpack_from("=i", request)[0]):
        size = struct.unpack_from("=i", request, position)[0]
        words.append(request[position + 4 : position + 4 + size])
        position += 4 + size
    schema, task, *filters = words
    texts = [word.decode() for word in filters]
    columns = StructType.fromJson(json.loads(schema))
    return columns, pickle.loads(task), list(zip(texts[::2], texts[1::2], strict=True))


def end_with(connection: socket.socket) -> None:
    """Makes this process end as soon as the JVM closes the connection, whatever the process is doing.  Returns at once.

    The JVM kills the process that it started, but that process may be a wrapper around this one.  A task that finds no
    rows writes nothing to the connection, so it would not notice that the connection was closed.
    """
    watched = select.poll()
    watched.register(connection, select.POLLRDHUP)

    def watch() -> None:
        watched.poll()
        # The rest of the task, and the cleanup, are no longer needed.
        os._exit(0)

    threading.Thread(target=watch, name="offsetlog-connection", daemon=True).start()


def main(path: str) -> None:
    """Connects to a socket, and serves requests until the JVM closes the connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        end_with(connection)
        # Imported modules stay alive: scanning them for garbage would take a twentieth of the time of a narrow read.
        gc.freeze()
        try:
            BlockWorker(connection).serve()
        except ConnectionError:
            # The rest of the task, and the cleanup, are no longer needed.
            os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
