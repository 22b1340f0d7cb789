"""The memory for answers that are read from the disk: who gets it, who waits, and who gives it back."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest

from offsetlog.protocol import encode_request
from offsetlog.server.connection_limits import ConnectionLimits
from offsetlog.server.handlers.fetch import FIRST_BATCH_BYTES, _Fetch
from offsetlog.server.read_memory import ReadMemory

from .batches import produced_batch, read_records
from .running import SECONDS, Client, RunningServer
from .topic_requests import FETCH, NOW, create, fetch, fetch_request, produce, until

MIB = 1 << 20
#: Batches of a MiB; the last 4 MiB are read without the disk.
BATCHES = 12


class Reader:
    """One that takes a share, and keeps it until it may end."""

    def __init__(self, memory: ReadMemory, size: int, read: int | None = None) -> None:
        self.has_share = False
        self.may_end = asyncio.Event()
        self.task = asyncio.create_task(self._run(memory, size, read))

    async def _run(self, memory, size, read):
        async with memory.share(size) as share:
            self.has_share = True
            if read is not None:
                share.resize(read)
            await self.may_end.wait()

    async def end(self) -> None:
        self.may_end.set()
        await self.task


async def settled(*readers: Reader) -> list[bool]:
    """Says which of them have a share, once all have gone as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)
    return [each.has_share for each in readers]


def test_those_that_find_no_room_wait_in_their_order():
    async def run():
        memory = ReadMemory(100)
        first, second, third, small = (Reader(memory, size) for size in (60, 40, 70, 1))
        # The small one would find room, and does not overtake the large one.
        assert await settled(first, second, third, small) == [True, True, False, False]
        assert (memory.taken, memory.waiting) == (100, 2)
        await second.end()
        assert await settled(third, small) == [False, False]
        await first.end()
        assert await settled(third, small) == [True, True]
        assert memory.taken == 71
        await third.end()
        await small.end()
        assert memory.taken == 0

    asyncio.run(run())


def test_one_alone_may_take_more_than_there_is():
    async def run():
        memory = ReadMemory(100)
        large, next_one = Reader(memory, 500), Reader(memory, 1)
        assert await settled(large, next_one) == [True, False]
        await large.end()
        assert await settled(next_one) == [True]
        await next_one.end()

    asyncio.run(run())


def test_what_was_not_read_is_given_back_at_once_and_what_was_read_beyond_counts():
    async def run():
        memory = ReadMemory(100)
        less, more, waiting = Reader(memory, 90, 10), Reader(memory, 20, 85), Reader(memory, 10)
        assert await settled(less, more, waiting) == [True, True, False]
        assert memory.taken == 95
        await less.end()
        assert await settled(waiting) == [True]
        await more.end()
        await waiting.end()
        assert memory.taken == 0

    asyncio.run(run())


@pytest.mark.parametrize("has_turn", [False, True])
def test_one_that_is_cancelled_leaves_its_turn_to_the_next(has_turn):
    async def run():
        memory = ReadMemory(100)
        first, cancelled, last = Reader(memory, 100), Reader(memory, 90), Reader(memory, 20)
        assert await settled(first, cancelled, last) == [True, False, False]
        if has_turn:
            first.may_end.set()
            while memory.taken == 100:
                await asyncio.sleep(0)
            assert not cancelled.has_share
        cancelled.task.cancel()
        if not has_turn:
            await first.end()
        assert await settled(last) == [True]
        await last.end()
        assert (memory.taken, memory.waiting) == (0, 0)

    asyncio.run(run())


def test_the_first_in_line_that_is_cancelled_lets_those_after_it_in():
    async def run():
        memory = ReadMemory(100)
        first, large, small = Reader(memory, 50), Reader(memory, 90), Reader(memory, 20)
        assert await settled(first, large, small) == [True, False, False]
        large.task.cancel()
        assert await settled(small) == [True]
        await first.end()
        await small.end()

    asyncio.run(run())


# ------------------------------------------------------------------------------------------------ a server


class Reads:
    """Counts the reads that are begun, and whose answers are not written yet."""

    def __init__(self, monkeypatch, gate: threading.Event) -> None:
        self.now = self.most = self.begun = 0
        self._lock = threading.Lock()
        read, reply = _Fetch._read, _Fetch._reply

        def counted_read(fetching):
            with self._lock:
                self.now += 1
                self.begun += 1
                self.most = max(self.most, self.now)
            assert gate.wait(SECONDS)
            return read(fetching)

        def counted_reply(fetching, found):
            reply(fetching, found)
            with self._lock:
                self.now -= 1

        monkeypatch.setattr(_Fetch, "_read", counted_read)
        monkeypatch.setattr(_Fetch, "_reply", counted_reply)


@pytest.fixture
def filled(tmp_path):
    """A server with 12 MB in a partition, and room for one answer of ten at a time."""
    limits = ConnectionLimits(read_bytes_max=10 * MIB)
    with RunningServer(tmp_path / "data", limits=limits) as server:
        with Client(server.address) as client:
            create(client)
            for _ in range(BATCHES):
                produce(client, produced_batch(10, timestamp=NOW, value=bytes(100_000)), acks=1)
        yield server


LARGE = fetch_request(0, max_bytes=10 * MIB, partition_max_bytes=10 * MIB)


def test_answers_that_are_read_for_many_clients_at_once_are_bounded(filled, monkeypatch):
    gate = threading.Event()
    reads = Reads(monkeypatch, gate)
    disk = filled.server.node.disk
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(filled.address)) for _ in range(6)]
        for each in clients:
            each.send(encode_request(LARGE, FETCH, 1))
        until(lambda: len(disk._tasks) == 6 and reads.begun)
        # Small ones that were sent later do not overtake those.
        small = stack.enter_context(Client(filled.address))
        small.send(encode_request(fetch_request(0), FETCH, 1))
        until(lambda: len(disk._tasks) == 7)
        gate.set()
        for each in (*clients, small):
            assert each.receive() is not None
        until(lambda: reads.now == 0)
        assert reads.most == 1
        assert disk.read_memory.taken == 0


def test_clients_that_go_while_they_wait_are_not_read_for(filled, monkeypatch):
    gate = threading.Event()
    reads = Reads(monkeypatch, gate)
    disk = filled.server.node.disk
    with Client(filled.address) as first, Client(filled.address) as last:
        first.send(encode_request(LARGE, FETCH, 1))
        until(lambda: reads.begun)
        gone = [Client(filled.address) for _ in range(3)]
        for each in gone:
            each.send(encode_request(LARGE, FETCH, 1))
        until(lambda: len(disk._tasks) == 4)
        last.send(encode_request(LARGE, FETCH, 1))
        until(lambda: len(disk._tasks) == 5)
        for each in gone:
            each.close()
        until(lambda: len(filled.server._connections) == 2)
        gate.set()
        assert first.receive() is not None
        assert last.receive() is not None
        assert reads.begun == 2
        until(lambda: disk.read_memory.taken == 0)


def test_a_fetch_takes_memory_for_what_it_may_read(filled):
    memory, wanted = filled.server.node.disk.read_memory, []
    share = memory.share
    memory.share = lambda size: wanted.append(size) or share(size)
    with Client(filled.address) as client:
        assert read_records(fetch(client, 0, max_bytes=1).records)
        fetch(client, 0, max_bytes=3 * MIB, partition_max_bytes=2 * MIB)
        fetch(client, 0, max_bytes=3 * MIB, partition_max_bytes=1 << 30)
        fetch(client, 0, max_bytes=-5, partition_max_bytes=-7)
    assert wanted == [FIRST_BATCH_BYTES, 2 * MIB, 3 * MIB, FIRST_BATCH_BYTES]
