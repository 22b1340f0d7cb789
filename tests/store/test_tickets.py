from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from decimal import Decimal
from fractions import Fraction

import pytest

import offsetlog
from offsetlog import TopicPartition, errors, opening

KEY = TopicPartition("t", 0)


def test_a_ticket_becomes_durable_when_it_is_waited_for(path):
    with offsetlog.open(path, durability="disk") as store:
        ticket = store.commit_async("g", {KEY: 5})
        assert store.fetch_one("g", "t", 0).offset == 5
        assert ticket.result(timeout=10) == ticket.position
        assert ticket.done()
        assert ticket.position.log_offset == 0


def test_tickets_and_transactions_tell_what_they_are(path):
    with offsetlog.open(path, partitions=1, durability="disk") as store:
        ticket = store.commit_async("g", {KEY: 5})
        assert isinstance(ticket, offsetlog.Ticket)
        assert repr(ticket) == "<Ticket log_partition=0 log_offset=0 not yet durable>"
        ticket.result()
        assert repr(ticket) == "<Ticket log_partition=0 log_offset=0 durable>"
        transaction = store.transaction("g", 7, 2)
        assert isinstance(transaction, offsetlog.Transaction)
        assert repr(transaction) == "<Transaction of 'g' producer_id=7 producer_epoch=2 nothing written yet>"
        transaction.commit({KEY: 6})
        assert repr(transaction).endswith(" open>")
        transaction.abort()
        assert repr(transaction).endswith(" ended>")


def test_one_flush_serves_all_tickets(path):
    with offsetlog.open(path, partitions=1, durability="disk") as store:
        tickets = [store.commit_async("g", {KEY: number}) for number in range(1000)]
        tickets[-1].result()
        assert all(ticket.done() for ticket in tickets)
        assert [ticket.position.log_offset for ticket in tickets] == list(range(1000))


def test_the_first_that_is_waited_for_begins_the_flush_of_all(path):
    """In more log partitions than are begun in one call, or written ahead."""
    with offsetlog.open(path, partitions=150, durability="disk") as store:
        for offset in range(3):
            tickets = [store.commit_async(f"g{number}", {KEY: offset}) for number in range(1500)]
            assert len({ticket.position.log_partition for ticket in tickets}) == 150
            tickets[0].result()
            deadline = time.monotonic() + 60
            while not all(ticket.done() for ticket in tickets) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert all(ticket.done() for ticket in tickets)


def test_a_ticket_of_process_durability_is_done_at_once(store):
    ticket = store.commit_async("g", {KEY: 5})
    assert ticket.done()
    assert ticket.result(0) == ticket.position


@pytest.mark.parametrize("durability", ["process", "disk"])
@pytest.mark.parametrize("timeout", [None, float("inf"), 1e300, 10**400, 2**63, 1e9, 30, Fraction(61, 2), Decimal(30)])
def test_timeouts_with_an_end_and_without(path, durability, timeout):
    with offsetlog.open(path, durability=durability) as store:
        ticket = store.commit_async("g", {KEY: 5})
        assert ticket.result(timeout) == ticket.position
        partition = store._open_core.attached()[0]
        partition.wait(1, timeout=timeout)


@pytest.mark.parametrize(
    ("timeout", "kind"),
    [
        (float("nan"), errors.InvalidArgumentError),
        (-1, errors.InvalidArgumentError),
        (float("-inf"), errors.InvalidArgumentError),
        (-(10**400), errors.InvalidArgumentError),
        (Decimal("NaN"), errors.InvalidArgumentError),
        ("1", errors.ArgumentTypeError),
        (True, errors.ArgumentTypeError),
    ],
    ids=lambda value: repr(value)[:20],
)
@pytest.mark.parametrize("durability", ["process", "disk"])
def test_what_is_no_timeout(path, durability, timeout, kind):
    with offsetlog.open(path, durability=durability) as store:
        ticket = store.commit_async("g", {KEY: 5})
        with pytest.raises(kind, match="timeout"):
            ticket.result(timeout)
        with pytest.raises(kind, match="timeout"):
            store._open_core.attached()[0].wait(1, timeout=timeout)


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


def test_results_are_the_same_before_and_after_the_close(path):
    with offsetlog.open(path, durability="disk") as store:
        tickets = [store.commit_async("g", {KEY: number}) for number in range(3)]
        assert not tickets[0].done()
        positions = [ticket.result() for ticket in tickets]
    assert all(ticket.done() for ticket in tickets)
    assert [ticket.result() for ticket in tickets] == positions


def test_a_closed_store_gives_no_ticket(path):
    store = offsetlog.open(path)
    store.commit("g", {KEY: 1})
    store.close()
    with pytest.raises(errors.ClosedError):
        store.commit_async("g", {KEY: 2})
    with pytest.raises(errors.ClosedError):
        store.commit("g", {KEY: 2})


class _Changing:
    """A number that empties the dictionary that it is read from."""

    def __init__(self, offsets):
        self.offsets = offsets

    def __index__(self):
        self.offsets.clear()
        return 7


def test_a_dictionary_that_changes_while_it_is_read(store):
    offsets = {}
    offsets.update({TopicPartition("t", 0): 1, TopicPartition("t", 1): _Changing(offsets), TopicPartition("t", 2): 3})
    store.commit_async("g", offsets).result()
    assert offsets == {}
    assert {key.partition: value.offset for key, value in store.fetch("g").items()} == {0: 1, 1: 7, 2: 3}


@pytest.mark.parametrize("count", [1, 24, 25, 200])
def test_dictionaries_of_any_size(store, count):
    offsets = {TopicPartition("t", number): number for number in range(count)}
    store.commit_async("g", offsets).result()
    store.commit("g", {**offsets, TopicPartition("u", 0): (9, "m")})
    found = store.fetch("g")
    assert {key: found[key].offset for key in offsets} == offsets
    assert found[TopicPartition("u", 0)].metadata == "m"


@pytest.mark.parametrize("partitions", [1, 3, 50])
def test_a_window_that_slides_over_partitions(path, partitions):
    with offsetlog.open(path, partitions=partitions, durability="disk") as store:
        waiting = deque(store.commit_async(f"g{number % 40}", {KEY: number}) for number in range(200))
        for number in range(200, 2000):
            ticket = waiting.popleft()
            assert ticket.result(timeout=30) == ticket.position
            assert ticket.done()
            waiting.append(store.commit_async(f"g{number % 40}", {KEY: number}))
        for ticket in waiting:
            ticket.result(timeout=30)
        digest = store.digest(physical=True)
    with offsetlog.open(path) as store:
        assert store.digest(physical=True) == digest


def test_a_flush_makes_the_tickets_of_all_partitions_durable(path):
    with offsetlog.open(path, partitions=50, durability="disk") as store:
        for round_number in range(5):
            tickets = [store.commit_async(f"g{number}", {KEY: round_number}) for number in range(100)]
            assert not any(ticket.done() for ticket in tickets)
            store.flush()
            assert all(ticket.done() for ticket in tickets)


def test_tickets_of_a_store_without_background_threads(path):
    with opening.open_with(path, partitions=5, durability="disk", background=False) as store:
        tickets = [store.commit_async(f"g{number}", {KEY: number}) for number in range(20)]
        assert len({ticket.result() for ticket in tickets}) == 20


def test_a_child_keeps_its_hands_off_tickets(path):
    with offsetlog.open(path, partitions=3, durability="disk") as store:
        tickets = [store.commit_async(f"g{number}", {KEY: number}) for number in range(20)]
        tickets[0].result()
        tickets += [store.commit_async(f"g{number}", {KEY: number}) for number in range(20)]
        child = os.fork()
        if child == 0:
            try:
                tickets[-1].result()
            except errors.ClosedError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        for ticket in tickets:
            ticket.result()
