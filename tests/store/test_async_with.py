"""`async with` of a store and of a transaction: the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest

import offsetlog
from offsetlog import errors
from offsetlog.lifecycle.close import StoreCloser
from offsetlog.transaction import Transaction


async def ticking(gate: threading.Event) -> None:
    """Opens a gate on which a thread waits: only a loop that goes on comes to it."""
    await asyncio.sleep(0)
    gate.set()


def test_a_store(path):
    async def main() -> None:
        async with offsetlog.open(path, wait=False) as store:
            assert store.progress().done
            await store.commit_async("g", {("t", 0): 1})
        assert store.closed
        with pytest.raises(errors.ClosedError):
            async with store:
                pass
        async with offsetlog.open(path) as store:
            assert store.fetch_one("g", ("t", 0)).offset == 1

    asyncio.run(main())


def test_the_loop_goes_on_while_a_store_is_closed(path, monkeypatch):
    gate = threading.Event()
    closes = StoreCloser.close

    def close(self, core):
        assert gate.wait(30)
        closes(self, core)

    async def main() -> None:
        async with offsetlog.open(path) as store:
            monkeypatch.setattr(StoreCloser, "close", close)
            other = asyncio.ensure_future(ticking(gate))
        await other
        assert store.closed

    asyncio.run(main())
    offsetlog.open(path).close()


def test_the_loop_goes_on_while_a_store_loads(path, monkeypatch):
    gate = threading.Event()

    def load(self):
        assert gate.wait(30)

    async def main() -> None:
        monkeypatch.setattr(offsetlog.OffsetStore, "_load", load)
        other = asyncio.ensure_future(ticking(gate))
        async with offsetlog.open(path, wait=False):
            assert other.done()

    asyncio.run(main())


def test_a_task_that_is_cancelled_while_it_loads_closes_the_store(path, monkeypatch):
    began, stores = threading.Event(), []
    closes = offsetlog.OffsetStore.close
    closed = threading.Event()

    def load(self):
        stores.append(self)
        began.set()
        assert closed.wait(30)
        raise errors.ClosedError("the store is closed")

    def close(self):
        closes(self)
        closed.set()

    monkeypatch.setattr(offsetlog.OffsetStore, "_load", load)
    monkeypatch.setattr(offsetlog.OffsetStore, "close", close)

    async def enter() -> None:
        async with offsetlog.open(path, wait=False):
            raise AssertionError

    async def main() -> None:
        task = asyncio.ensure_future(enter())
        await asyncio.to_thread(began.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert stores[0].closed
    monkeypatch.undo()
    offsetlog.open(path).close()


def test_a_task_that_is_cancelled_while_it_closes_ends_with_a_closed_store(path, monkeypatch):
    began, gate = threading.Event(), threading.Event()
    closes = StoreCloser.close

    def close(self, core):
        began.set()
        assert gate.wait(30)
        closes(self, core)

    async def use() -> None:
        async with offsetlog.open(path):
            monkeypatch.setattr(StoreCloser, "close", close)

    async def main() -> None:
        task = asyncio.ensure_future(use())
        await asyncio.to_thread(began.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        offsetlog.open(path).close()  # its lock is free

    asyncio.run(main())


async def failing(store: offsetlog.OffsetStore) -> None:
    async with store.transaction("g", 7) as transaction:
        transaction.commit({("t", 0): 2})
        raise ZeroDivisionError


def test_a_transaction(path, monkeypatch):
    gate = threading.Event()
    ends = Transaction._end

    def end(self, *, commit):
        assert gate.wait(30)
        ends(self, commit=commit)

    async def main() -> None:
        async with offsetlog.open(path) as store:
            monkeypatch.setattr(Transaction, "_end", end)
            other = asyncio.ensure_future(ticking(gate))
            async with store.transaction("g", 7) as transaction:
                transaction.commit({("t", 0): 1})
            assert other.done()
            assert store.fetch_one("g", ("t", 0)).offset == 1
            with pytest.raises(ZeroDivisionError):
                await failing(store)
            assert store.fetch_one("g", ("t", 0)).offset == 1

    asyncio.run(main())
