"""When logs of topics are flushed that nobody waits for: flush.messages and flush.ms; flushes that fail."""

from __future__ import annotations

import asyncio

import pytest

from offsetlog.errors import StorageError
from offsetlog.topics.flushing import Flushing

from .batches import produced_batch
from .running import Client, RunningServer
from .topic_requests import NOW, create, produce, until


def flushed(server: RunningServer) -> int:
    return server.server.node.topics.get("orders", 0).log.flushed


def send(client: Client, count: int) -> None:
    assert produce(client, produced_batch(count, timestamp=NOW)).error_code == 0


def test_so_many_records_are_flushed(server, client):
    create(client, flush_messages="5")
    send(client, 4)
    assert flushed(server) == 0
    send(client, 1)
    until(lambda: flushed(server) == 5)
    send(client, 4)
    assert flushed(server) == 5
    send(client, 7)
    until(lambda: flushed(server) == 16)


def test_records_are_flushed_after_a_time(server, client):
    create(client, flush_ms="1")
    for end in (3, 6):
        send(client, 3)
        until(lambda end=end: flushed(server) == end)


def test_a_topic_that_was_deleted_is_not_flushed(server, client):
    create(client, flush_ms="3600000")
    send(client, 3)
    partition = server.server.node.topics.get("orders", 0)
    flushing = server.server.node.topics._flushing
    assert list(flushing._timers) == [partition]
    partition_log = partition.log
    server.loop.call_soon_threadsafe(partition.detach)
    until(lambda: partition.log is None)
    timer = flushing._timers[partition]
    server.loop.call_soon_threadsafe(timer.cancel)
    server.loop.call_soon_threadsafe(flushing._time_out, partition)
    until(lambda: not flushing._timers)
    assert partition_log.flushed == 0
    partition.attach(partition_log)


def test_without_them_nothing_is_flushed_for_it(server, client):
    create(client)
    send(client, 500)
    assert flushed(server) == 0


class FailingLog:
    """A partition, and its log, whose first flushes fail."""

    topic, number = "orders", 0

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.flushes = 0
        self.log = self
        self.advanced = asyncio.Event()

    def flush(self) -> None:
        self.flushes += 1
        if self.failures:
            raise self.failures.pop(0)

    def advance(self) -> None:
        self.advanced.set()


@pytest.mark.parametrize("failure", [StorageError("the disk has failed"), MemoryError(), RuntimeError("a bug")])
def test_who_waits_for_a_flush_is_woken_however_it_fails(failure, caplog):
    async def flush_twice() -> FailingLog:
        log = FailingLog(failure)
        flushing = Flushing(asyncio.get_running_loop())
        try:
            for _ in range(2):
                flushing.order(log)
                await asyncio.wait_for(log.advanced.wait(), 20)
                log.advanced.clear()
        finally:
            flushing.close()
        return log

    assert asyncio.run(flush_twice()).flushes == 2
    assert "orders-0: the flush failed" in caplog.text
