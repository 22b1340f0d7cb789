"""`open_async`, and threads for a loop: a wait that ends with its task, and a store that is never left open."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

import offsetlog
from offsetlog import errors
from offsetlog.directory import lock_holder
from offsetlog.directory.log_directory import LOCK
from offsetlog.lifecycle.close import StoreCloser
from offsetlog.lifecycle.partition_opener import PartitionOpener
from tests.store.test_waiting_for_the_lock import held

#: Longer than any test may take: only a wait that is ended comes to its end.
LONG = 3600.0


def test_it_opens_as_open_does(path):
    async def main() -> None:
        async with await offsetlog.open_async(path, 3, lock_timeout=1) as store:
            assert store.partitions == 3
            await store.commit_async("g", {("t", 0): 1})
            with pytest.raises(errors.LockedError):
                await offsetlog.open_async(path)
        assert store.closed
        store = await offsetlog.open_async(path, read_only=True, wait=False)
        assert store.read_only
        assert store.wait_loaded()
        store.close()
        with pytest.raises(errors.PartitionCountError):
            await offsetlog.open_async(path, 4)
        offsetlog.open(path).close()  # its lock is free

    asyncio.run(main())


def test_its_arguments_are_those_of_open():
    assert inspect.signature(offsetlog.open_async) == inspect.signature(offsetlog.open)


def test_a_task_that_is_cancelled_waits_for_the_lock_no_longer(path):
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(offsetlog.open_async(path, lock_timeout=LONG), 0.1)
        async with asyncio.timeout(60):
            tasks = [asyncio.ensure_future(offsetlog.open_async(path, lock_timeout=LONG)) for _ in range(40)]
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            assert {type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)} == {
                asyncio.CancelledError
            }

    with held(path):
        asyncio.run(main())
    offsetlog.open(path).close()


def test_the_loop_goes_on_while_it_waits_for_the_lock(path):
    async def main() -> None:
        store = offsetlog.open(path)
        waiting = asyncio.ensure_future(offsetlog.open_async(path, lock_timeout=LONG))
        await asyncio.sleep(0.05)
        store.close()
        (await waiting).close()

    asyncio.run(main())


def test_a_cancelled_wait_for_a_holder_that_gives_the_lock_up(path, monkeypatch):
    monkeypatch.setattr(lock_holder, "_SAY_SECONDS", 0.05)
    store = offsetlog.open(path)
    requests = lock_holder.Requests(path / LOCK)
    try:

        async def main() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(offsetlog.open_async(path), 0.2)

        asyncio.run(main())
    finally:
        requests.close()
        store.close()


def test_a_task_that_is_cancelled_while_it_loads(path, monkeypatch):
    with offsetlog.open(path, 2) as store:
        store.commit("g", {("t", 0): 1})
    began, gate = threading.Event(), threading.Event()
    loads = PartitionOpener.load

    def load(self, *given):
        began.set()
        assert gate.wait(30)
        return loads(self, *given)

    monkeypatch.setattr(PartitionOpener, "load", load)

    async def main() -> None:
        task = asyncio.ensure_future(offsetlog.open_async(path))
        while not began.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        offsetlog.open(path).close()  # its lock is free

    asyncio.run(main())


def test_a_warning_that_is_an_error_leaves_nothing_open(path, monkeypatch):
    offsetlog.open(path).close()

    def warn(self):
        warnings.warn("damaged", errors.CorruptionWarning, stacklevel=1)

    async def main() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(errors.CorruptionWarning):
                await offsetlog.open_async(path)

    with monkeypatch.context() as patched:
        patched.setattr(offsetlog.OffsetStore, "_warn_of_damage", warn)
        asyncio.run(main())
    offsetlog.open(path).close()


def test_the_pool_of_the_loop_is_not_used(path, monkeypatch):
    """A pool of one thread that waits, and one that is shut down: neither keeps a store from its end."""
    began, gate = threading.Event(), threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        blocked = asyncio.ensure_future(asyncio.to_thread(gate.wait, 30))
        async with asyncio.timeout(20), offsetlog.open(path, wait=False) as store:
            pass
        assert store.closed
        gate.set()
        await blocked
        await loop.shutdown_default_executor()
        async with offsetlog.open(path, wait=False) as store:
            await store.commit_async("g", {("t", 0): 1})
        assert store.closed

    asyncio.run(main())
    assert not began.is_set()


def test_the_stop_of_a_load_does_not_wait_for_the_load(path, monkeypatch):
    began, stopped = threading.Event(), threading.Event()
    closes = offsetlog.OffsetStore.close

    def load(self):
        began.set()
        assert stopped.wait(20), "the close waits for the load that it is to end"

    def close(self):
        stopped.set()
        closes(self)

    monkeypatch.setattr(offsetlog.OffsetStore, "_load", load)
    monkeypatch.setattr(offsetlog.OffsetStore, "close", close)

    async def enter() -> None:
        async with offsetlog.open(path, wait=False):
            raise AssertionError

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        task = asyncio.ensure_future(enter())
        while not began.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    begin = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - begin < 20


def no_thread(self) -> None:
    raise RuntimeError("can't start new thread")


def test_without_a_thread_the_store_is_closed(path, monkeypatch):
    async def main() -> None:
        store = offsetlog.open(path, wait=False)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", no_thread)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                async with store:
                    raise AssertionError
            assert store.closed
            with pytest.raises(RuntimeError, match="can't start new thread"):
                await offsetlog.open_async(path)
        async with offsetlog.open(path) as store:
            async with store.transaction("g", 7) as transaction:
                transaction.commit({("t", 0): 1})
                monkeypatch.setattr(threading.Thread, "start", no_thread)
            assert store.fetch_one("g", "t", 0).offset == 1
        assert store.closed
        monkeypatch.undo()
        offsetlog.open(path).close()

    asyncio.run(main())


def test_a_close_that_fails_without_a_thread_says_so(path, monkeypatch):
    closes = StoreCloser.close

    def close(self, core):
        closes(self, core)
        raise RuntimeError("the disk")

    async def main() -> None:
        async with offsetlog.open(path):
            monkeypatch.setattr(StoreCloser, "close", close)
            monkeypatch.setattr(threading.Thread, "start", no_thread)

    with pytest.raises(RuntimeError, match="the disk"):
        asyncio.run(main())
