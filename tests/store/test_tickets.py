from __future__ import annotations

import asyncio
import threading

import pytest

import offsetlog
from offsetlog import TopicPartition, errors

KEY = TopicPartition("t", 0)


def test_a_ticket_becomes_durable_when_it_is_waited_for(path):
    with offsetlog.open(path, durability="disk") as store:
        ticket = store.commit_async("g", {KEY: 5})
        assert store.fetch_one("g", "t", 0).offset == 5
        assert ticket.result(timeout=10) == ticket.position
        assert ticket.done()
        assert ticket.position.log_offset == 0


def test_one_flush_serves_all_tickets(path):
    with offsetlog.open(path, partitions=1, durability="disk") as store:
        tickets = [store.commit_async("g", {KEY: number}) for number in range(1000)]
        tickets[-1].result()
        assert all(ticket.done() for ticket in tickets)
        assert [ticket.position.log_offset for ticket in tickets] == list(range(1000))


def test_a_ticket_of_process_durability_is_done_at_once(store):
    ticket = store.commit_async("g", {KEY: 5})
    assert ticket.done()
    assert ticket.result(0) == ticket.position


def test_a_refused_commit_gives_no_ticket(store):
    store.commit_async("g", {KEY: 5})
    with pytest.raises(errors.RewindError):
        store.commit_async("g", {KEY: 4}, monotonic=True)
    with pytest.raises(errors.OffsetError):
        store.commit_async("g", {KEY: -1})


def test_tickets_are_awaited(path):
    async def work(store):
        async def one(number):
            ticket = store.commit_async(f"g{number % 20}", {TopicPartition("t", number): number})
            return await ticket

        return await asyncio.gather(*(one(number) for number in range(200)))

    with offsetlog.open(path, durability="disk") as store:
        positions = asyncio.run(work(store))
        assert len(set(positions)) == 200
        assert sum(len(store.fetch(f"g{number}")) for number in range(20)) == 200


def test_tickets_of_many_loops(path):
    failures = []

    def loop(store, name):
        async def work():
            for number in range(20):
                await store.commit_async(name, {KEY: number})

        try:
            asyncio.run(work())
        except BaseException as failure:
            failures.append(failure)

    with offsetlog.open(path, durability="disk") as store:
        threads = [threading.Thread(target=loop, args=(store, f"g{number}")) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert all(store.fetch_one(f"g{number}", "t", 0).offset == 19 for number in range(4))


def test_an_awaiter_that_is_cancelled_harms_nobody(path):
    async def work(store):
        ticket = store.commit_async("g", {KEY: 1})
        task = asyncio.ensure_future(_awaited(ticket))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await store.commit_async("g", {KEY: 2})

    with offsetlog.open(path, durability="disk") as store:
        assert asyncio.run(work(store)).log_offset == 1


async def _awaited(ticket):
    return await ticket
