"""Blocks for the JVM reader: what is written is what is read, whatever the types, nulls and cuts; and the process."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import offsetlog
from offsetlog import TopicPartition
from offsetlog.spark.scan import block_worker, blocks
from offsetlog.spark.scan.batch import BatchReader
from offsetlog.spark.scan.block_worker import BLOCK, END, FAILURE, BlockWorker
from offsetlog.spark.scan.options import VIEWS, parse
from offsetlog.spark.scan.plan import Task
from offsetlog.spark.scan.views import columns_of

from .reading import Row

SEED = int(os.environ.get("OL_SEED", "1"))


class Decoder:
    """Reads a block as the JVM reader does."""

    def __init__(self, block: bytes, buffers: int) -> None:
        self.sizes = list(struct.unpack_from(f"={buffers}q", block))
        self.block = block
        self.position = 8 * buffers

    def next(self) -> bytes:
        size = self.sizes.pop(0)
        found = self.block[self.position : self.position + size]
        assert len(found) == size
        self.position += -(-size // 8) * 8
        return found

    def column(self, kind: Any, rows: int) -> list[Any]:
        valid = self.next()
        values = self.values(kind, rows)
        return [value if not valid or valid[row // 8] >> row % 8 & 1 else None for row, value in enumerate(values)]

    def values(self, kind: Any, rows: int) -> list[Any]:
        if pa.types.is_struct(kind):
            columns = {field.name: self.column(field.type, rows) for field in kind}
            return [{name: column[row] for name, column in columns.items()} for row in range(rows)]
        if pa.types.is_boolean(kind):
            bits = self.next()
            return [bool(bits[row // 8] >> row % 8 & 1) for row in range(rows)]
        if pa.types.is_integer(kind):
            return list(struct.unpack_from(f"={rows}{'i' if kind.bit_width == 32 else 'q'}", self.next()))
        ends = struct.unpack_from(f"={rows + 1}i", self.next())
        whole: Any = self.column(kind.value_type, ends[-1] - ends[0]) if pa.types.is_list(kind) else self.next()
        cut = [whole[low - ends[0] : high - ends[0]] for low, high in itertools.pairwise(ends)]
        return [each.decode() for each in cut] if pa.types.is_string(kind) else cut

    def rows(self, schema: Any, rows: int) -> list[Row]:
        columns = {field.name: self.column(field.type, rows) for field in schema}
        assert (self.sizes, self.position) == ([], len(self.block))
        return [{name: column[row] for name, column in columns.items()} for row in range(rows)]


def decoded(batch: Any) -> list[Row]:
    buffers = blocks.buffers_of(batch)
    target = bytearray(blocks.block_bytes(buffers))
    blocks.write_block(memoryview(target), buffers)
    return Decoder(bytes(target), len(buffers)).rows(batch.schema, batch.num_rows)


# --------------------------------------------------------------------------------------------------------------- blocks


def random_value(draw: random.Random, kind: Any, depth: int = 0) -> Any:
    if draw.random() < 0.2 and depth != 1:
        return None
    if pa.types.is_struct(kind):
        return {field.name: random_value(draw, field.type) for field in kind}
    if pa.types.is_list(kind):
        return [random_value(draw, kind.value_type, 1) for _ in range(draw.randrange(4))]
    if pa.types.is_boolean(kind):
        return draw.random() < 0.5
    if pa.types.is_integer(kind):
        return draw.randrange(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1))
    text = draw.choice(["", "group", "é\u4e16", "x" * draw.randrange(50)])
    return text if pa.types.is_string(kind) else text.encode()


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_in_pieces_of_any_size(view: str) -> None:
    draw = random.Random(f"{SEED} {view}")
    schema = columns_of(view)
    for rows in (1, 7, 8, 9, 64, 500):
        values = [{field.name: random_value(draw, field.type) for field in schema} for _ in range(rows)]
        whole = pa.RecordBatch.from_pylist(values, schema=schema)
        # Rows of another batch, from anywhere in it.
        start = draw.randrange(rows)
        for batch in (whole, whole.slice(start), whole.slice(start, draw.randrange(rows - start + 1))):
            pieces = list(blocks.pieces_of(batch, draw.choice([1, 3000, 2**20])))
            assert [row for piece in pieces for row in decoded(piece)] == batch.to_pylist(), f"seed {SEED}"


def test_pieces_are_as_large_as_was_asked() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["x" * 1000] * 1000})
    sizes = [blocks.block_bytes(blocks.buffers_of(piece)) for piece in blocks.pieces_of(batch, 100_000)]
    assert max(sizes) <= 100_000
    assert len(sizes) <= 32
    assert list(blocks.pieces_of(batch.slice(0, 0))) == []
    assert [piece.num_rows for piece in blocks.pieces_of(batch.slice(3, 11), 1000)] == [1] * 11


def test_rows_without_columns_are_counted() -> None:
    rows = pa.Array.from_buffers(pa.struct([]), 5, [None])
    (piece,) = blocks.pieces_of(pa.RecordBatch.from_struct_array(rows))
    assert (piece.num_rows, blocks.buffers_of(piece)) == (5, [])


# ---------------------------------------------------------------------------------------------------------- the process


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("blocks") / "log"
    with offsetlog.open(path, 1, durability="process") as store:
        for number in range(3000):
            store.commit(f"group-{number % 7}", {TopicPartition("orders", 0): number})
    return path


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """The JVM's end of a connection to a worker, which runs on a thread and has to end with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ended = []

    def work() -> None:
        with theirs:
            try:
                BlockWorker(theirs).serve()
            except block_worker.GoneError:
                ended.append("gone")

    thread = threading.Thread(target=work)
    thread.start()
    ours.settimeout(60)
    with ours:
        yield ours
    thread.join(60)
    assert not thread.is_alive()


def exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        assert part, "the worker has closed the connection"
        received += part
    return received


def greeted(connection: socket.socket) -> int:
    """Takes a worker's first words, and returns its descriptor of the slots."""
    magic, version, process, descriptor, slots, slot_bytes = struct.unpack("=iiiiii", exactly(connection, 24))
    assert (magic, version, process) == (0x4F4C4257, block_worker.PROTOCOL, os.getpid())
    assert (slots, slot_bytes) == (blocks.SLOTS, block_worker.SLOT_BYTES)
    assert os.fstat(descriptor).st_size == slots * slot_bytes
    return int(descriptor)


def request(schema: Any, task: object, **filters: str) -> bytes:
    columns = from_arrow_schema(schema).json()
    words = [columns.encode(), pickle.dumps(task)]
    words += [word.encode() for pair in filters.items() for word in pair]
    message = struct.pack("=i", len(words)) + b"".join(struct.pack("=i", len(word)) + word for word in words)
    return struct.pack("=i", len(message)) + message


def answers(connection: socket.socket, memory: int, schema: Any) -> Iterator[list[Row] | str]:
    """The rows of each block; at the end the text of a failure, where there is one."""
    while True:
        kind, rows, buffers, size, slot = struct.unpack("=iiiii", exactly(connection, 20))
        if kind == END:
            return
        if kind == FAILURE:
            yield exactly(connection, size).decode()
            return
        assert kind == BLOCK
        block = exactly(connection, size) if slot < 0 else os.pread(memory, size, slot * blocks.SLOT_BYTES)
        yield Decoder(block, buffers).rows(schema, rows)
        if slot >= 0:
            connection.sendall(b"\0")


@pytest.mark.parametrize("slot_bytes", [blocks.SLOT_BYTES, 100])
def test_a_process_reads_one_task_after_the_other(
    log: Path, connection: socket.socket, slot_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor = greeted(connection)
    # A block that has no room in a slot comes through the connection.
    monkeypatch.setattr(block_worker, "SLOT_BYTES", slot_bytes)
    for view in ("commits", "offsets"):
        read = parse({"path": str(log), "view": view})
        schema = columns_of(view)
        reader = BatchReader(read, schema)
        (task,) = reader.partitions()
        connection.sendall(request(schema, task))
        found = [row for rows in answers(connection, descriptor, schema) for row in rows]
        assert found == [row for batch in reader.read(task) for row in batch.to_pylist()]


def test_a_failure_is_a_traceback_and_the_next_task_is_read(log: Path, connection: socket.socket) -> None:
    descriptor = greeted(connection)
    schema = pa.schema([columns_of("commits").field("offset")])
    (task,) = BatchReader(parse({"path": str(log)}), schema).partitions()
    connection.sendall(request(columns_of("offsets"), replace(task, read=parse({"path": str(log), "view": "groups"}))))
    (text,) = answers(connection, descriptor, schema)
    assert isinstance(text, str)
    assert text.startswith("Traceback (most recent call last)")
    assert "offsetlog.errors.ConfigError: the schema's columns" in text.splitlines()[-1]
    connection.sendall(request(schema, Task(())))
    (text,) = answers(connection, descriptor, schema)
    advice = "offsetlog's jar and its Python package must have the same version"
    assert text.splitlines()[-1] == f"ValueError: the task came without options; {advice}"
    connection.sendall(request(schema, task))
    assert sum(len(rows) for rows in answers(connection, descriptor, schema)) == 3000


def test_a_task_reads_as_its_options_and_filters_say(tmp_path: Path, connection: socket.socket) -> None:
    """The options that planned it: the session's settings are among them, and no option of the read says them."""
    with offsetlog.open(tmp_path / "log", 3, durability="process") as store:
        for number in range(300):
            store.commit(f"group-{number % 7}", {TopicPartition("orders", number % 2): number})
    descriptor = greeted(connection)
    schema = columns_of("commits")
    reader = BatchReader(parse({"path": str(tmp_path / "log")}), schema)
    (task,) = reader.partitions()
    rows = [row for batch in reader.read(task) for row in batch.to_pylist()]
    of_group = [row for row in rows if row["group"] == "group-3"]
    number = of_group[0]["log_partition"]

    def found(task: Task, **filters: str) -> list[Row]:
        connection.sendall(request(schema, task, **filters))
        return [row for rows in answers(connection, descriptor, schema) for row in rows]

    assert found(task) == rows
    assert found(task, group="group-3") == of_group
    assert found(task, partition="1") == [row for row in rows if row["partition"] == 1]
    assert found(task, group="group-3", topic="other") == []
    assert found(task, log_partition=str(number)) == [row for row in rows if row["log_partition"] == number]
    assert found(task, log_partition=f"{number},7") == found(task, log_partition=str(number))
    assert found(replace(task, read=replace(task.read, group="group-3"))) == of_group


def test_nothing_is_read_ahead_of_the_slots_and_a_closed_connection_ends_it(
    log: Path, connection: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsetlog.spark.scan.runs.ROWS", 100)
    greeted(connection)
    schema = pa.schema([columns_of("commits").field("offset")])
    (task,) = BatchReader(parse({"path": str(log)}), schema).partitions()
    connection.sendall(request(schema, task))
    slots = [struct.unpack("=iiiii", exactly(connection, 20))[4] for _ in range(blocks.SLOTS)]
    assert slots == list(range(blocks.SLOTS))
    # Both are busy: a third block would be written over one that is still looked at.
    connection.settimeout(0.2)
    with pytest.raises(TimeoutError):
        connection.recv(1)


def test_a_process_ends_with_its_connection_whatever_it_does(tmp_path: Path) -> None:
    """A task that finds no row writes nothing, and the JVM may have started a wrapper, which it kills instead."""
    program = (
        "import sys, threading\n"
        "from offsetlog.spark.scan import block_worker\n"
        "block_worker._batches = lambda request: threading.Event().wait()\n"
        "block_worker.main(sys.argv[1])\n"
    )
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen(1)
        worker = subprocess.Popen([sys.executable, "-c", program, path])
        try:
            server.settimeout(60)
            connection, _ = server.accept()
            with connection:
                exactly(connection, 24)
                connection.sendall(struct.pack("=ii", 4, 0))
            assert worker.wait(60) == 0
        finally:
            worker.kill()
            worker.wait()
