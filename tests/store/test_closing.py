"""The end of a store, whatever comes between."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import threading
import time
import warnings
from types import SimpleNamespace

import pyarrow as pa
import pytest

import offsetlog
from offsetlog import TopicPartition, errors
from offsetlog.lifecycle.close import StoreCloser

KEY = TopicPartition("t", 0)


def check_sound(path):
    """The lock is free, no partition is held open, and nothing was lost."""
    gc.collect()
    with offsetlog.open(path, partitions=4) as store:
        assert all(store.fetch_one(f"g{number}", "t", 0).offset == number for number in range(20))
        assert store.verify() == []


def fill(path):
    store = offsetlog.open(path, partitions=4)
    for number in range(20):
        store.commit_one(f"g{number}", "t", 0, number, durability="process")
    return store


@pytest.fixture
def filled(path):
    return fill(path)


def test_a_forgotten_store_is_closed_though_warnings_are_errors(path, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    kept = [fill(path)]
    partitions = kept[0]._open_core.attached()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.clear()
        gc.collect()
    assert [known.exc_type for known in unraisable] == [ResourceWarning]
    unraisable.clear()  # it holds the traceback
    assert all(partition.closed for partition in partitions)
    check_sound(path)


def interrupted(function, *, before):
    """The function with a Ctrl-C before its first call, or after it."""
    calls = []

    def call(*arguments, **named):
        calls.append(arguments)
        if before and len(calls) == 1:
            raise KeyboardInterrupt
        answer = function(*arguments, **named)
        if not before and len(calls) == 1:
            raise KeyboardInterrupt
        return answer

    return call


@pytest.mark.parametrize("before", [True, False], ids=["before", "behind"])
@pytest.mark.parametrize("step", ["_stop_keeper", "_close_one", "waiter", "finish"])
def test_an_interrupt_leaves_nothing_open(path, filled, monkeypatch, step, before):
    closer = filled._closer
    partitions = filled._open_core.attached()
    owner, name = {
        "_stop_keeper": (closer, step),
        "_close_one": (closer, step),
        "waiter": (closer._waiter, "stop"),
        "finish": (closer._directory, "finish"),
    }[step]
    monkeypatch.setattr(owner, name, interrupted(getattr(owner, name), before=before))
    with pytest.raises(KeyboardInterrupt):
        filled.close()
    assert filled.closed
    assert len(partitions) == 4
    assert all(partition.closed_at > 0 for partition in partitions)
    filled.close()
    check_sound(path)


def test_an_interrupt_is_raised_before_errors(filled, monkeypatch):
    def refused(*_, **__):
        raise errors.StorageError("no space")

    monkeypatch.setattr(filled._closer._directory, "finish", refused)
    monkeypatch.setattr(filled._closer._waiter, "stop", interrupted(filled._closer._waiter.stop, before=False))
    with pytest.raises(KeyboardInterrupt) as caught:
        filled.close()
    assert caught.value.__notes__ == ["and: no space"]


class _Interrupted(threading.Event):
    """An event at which the first wait is ended by a Ctrl-C."""

    waits = 0

    def wait(self, timeout=None):
        type(self).waits += 1
        if self.waits == 1:
            raise KeyboardInterrupt
        return super().wait(timeout)


def test_an_interrupt_while_close_waits_for_a_call(tmp_path, monkeypatch):
    # Whether the call is inside when the store is closed is chance: until it is.
    monkeypatch.setattr("offsetlog._native.partition.threading", SimpleNamespace(Event=_Interrupted))
    monkeypatch.setattr(_Interrupted, "waits", 0)
    count = 100_000
    zeros = pa.array([0] * count)
    rows = pa.table({"group": ["g"] * count, "topic": ["t"] * count, "partition": range(count), "offset": zeros})
    for attempt in range(50):
        path = tmp_path / str(attempt)
        store = offsetlog.open(path, partitions=1, durability="process")
        store.commit_one("g", "t", 0, 0)
        partition = store._open_core.attached()[0]
        committed = []

        def work(store=store, committed=committed):
            with contextlib.suppress(errors.ClosedError):
                while True:
                    committed.append(store.commit_arrow(rows))

        working = threading.Thread(target=work)
        working.start()
        time.sleep(0.05)
        with contextlib.suppress(KeyboardInterrupt):
            store.close()
        working.join()
        assert partition.closed_at == 1 + sum(committed)
        with offsetlog.open(path) as store:
            assert not any(found["recovered"] for found in store.recoveries().values()) or _Interrupted.waits
        if _Interrupted.waits:
            break
    assert _Interrupted.waits > 0


def test_a_store_is_closed_by_the_thread_that_waits_for_tickets(path, filled):
    # The last reference may be dropped anywhere.
    waiter = filled._closer._waiter
    closed = []

    async def work():
        await filled.commit_async("g0", {KEY: 0})

    asyncio.run(work())

    class Ticket:
        def result(self):
            filled.close()
            closed.append(threading.current_thread() is waiter._thread)

    async def wait():
        await asyncio.wait_for(waiter(Ticket()), 10)

    asyncio.run(wait())
    assert closed == [True]
    check_sound(path)


@pytest.mark.parametrize("name", ["offsetlog-keeper", "offsetlog-waiter"])
def test_no_thread_can_be_started(path, monkeypatch, name):
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    async def wait(store):
        await store.commit_async("g", {KEY: 1})

    monkeypatch.setattr(threading.Thread, "start", refuse)
    if name == "offsetlog-keeper":
        with pytest.raises(RuntimeError, match="can't start"):
            offsetlog.open(path)
    else:
        with offsetlog.open(path) as store:
            with pytest.raises(RuntimeError, match="can't start"):
                asyncio.run(wait(store))
            monkeypatch.undo()
            asyncio.run(wait(store))
    monkeypatch.undo()
    offsetlog.open(path).close()


def test_a_ticket_that_a_child_awaits(path):
    with offsetlog.open(path, durability="disk") as store:
        ticket = store.commit_async("g", {KEY: 1})

        async def wait():
            await asyncio.wait_for(await_it(), 10)

        async def await_it():
            await ticket

        child = os.fork()
        if child == 0:
            try:
                asyncio.run(wait())
            except errors.ClosedError as failure:
                os._exit(0 if "forked" in str(failure) else 2)
            except BaseException:
                os._exit(1)
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        asyncio.run(wait())


def test_the_closer_gets_it_once(filled, monkeypatch):
    ends = []
    end = StoreCloser._stop_and_close
    monkeypatch.setattr(StoreCloser, "_stop_and_close", lambda closer, core: (ends.append(core), end(closer, core)))
    filled.close()
    filled.close()
    assert len(ends) == 1
