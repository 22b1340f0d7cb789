"""The plugin's clock: it runs on, goes ahead when asked, and calls what is due in order."""

from __future__ import annotations

import asyncio
import random

import pytest
from depth import first_seed

from offsetlog.clock import wall_ms
from offsetlog.manager.executor import ThreadExecutor
from offsetlog.pytest.virtual_clock import VirtualClock, VirtualExecutor


def in_a_loop(work) -> None:
    async def run() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        try:
            await work(clock)
        finally:
            clock.close()

    asyncio.run(run())


async def nothing() -> None:
    pass


def test_both_times_go_ahead():
    async def work(clock: VirtualClock) -> None:
        before, before_ms = clock.time(), wall_ms()
        await clock.advance(3600, nothing)
        assert 3600 <= clock.time() - before < 3700
        assert 3_600_000 <= clock.now_ms() - before_ms < 3_700_000
        assert clock.store_clock.milliseconds >= before_ms + 3_600_000
        await clock.advance(0, nothing)
        assert clock.time() - before < 3700

    in_a_loop(work)


def test_deadlines_come_in_order_at_their_times():
    seed = first_seed()
    print(f"seed {seed}")
    draw = random.Random(seed)
    delays = [draw.uniform(10, 1000) for _ in range(200)]
    cancelled = set(draw.sample(range(200), 50))

    async def work(clock: VirtualClock) -> None:
        start = clock.time()
        met: list[tuple[int, float]] = []
        timers = [
            clock.call_at(
                start + delay, lambda number=number: met.append((number, clock.time() - start))
            )
            for number, delay in enumerate(delays)
        ]
        for number in cancelled:
            timers[number].cancel()
        await clock.advance(2000, nothing)
        assert [number for number, _ in met] == sorted(
            set(range(200)) - cancelled, key=lambda each: delays[each]
        )
        # Each saw the time it had asked for, and not the end of the way.
        assert all(0 <= time - delays[number] < 5 for number, time in met)

    in_a_loop(work)


def test_what_is_ordered_on_the_way_is_met_on_the_way():
    async def work(clock: VirtualClock) -> None:
        start = clock.time()
        met: list[int] = []
        written = []

        def again() -> None:
            met.append(round(clock.time() - start))
            written.append(None)

        async def settle() -> None:
            # A record that is written orders the next deadline.
            if written:
                written.pop()
                clock.call_later(10, again)
            await asyncio.sleep(0)

        clock.call_later(10, again)
        await clock.advance(45, settle)
        assert met == [10, 20, 30, 40]

    in_a_loop(work)


def test_two_that_advance_at_once_add_up():
    async def work(clock: VirtualClock) -> None:
        start = clock.time()
        for delay in (5, 15, 25):
            clock.call_later(delay, lambda: None)

        async def settle() -> None:
            await asyncio.sleep(0)

        await asyncio.gather(*(clock.advance(10, settle) for _ in range(3)))
        assert clock.time() - start >= 30

    in_a_loop(work)


def test_a_deadline_in_real_time_needs_no_advance():
    async def work(clock: VirtualClock) -> None:
        met = asyncio.Event()
        await clock.advance(100, nothing)
        clock.call_later(0.01, met.set)
        await asyncio.wait_for(met.wait(), 20)

    in_a_loop(work)


def test_a_deadline_of_later_comes_nearer():
    async def work(clock: VirtualClock) -> None:
        met = asyncio.Event()
        clock.call_later(1000, met.set)
        await clock.advance(999.99, nothing)
        await asyncio.wait_for(met.wait(), 20)

    in_a_loop(work)


def test_a_deadline_that_fails_leaves_the_clock_running():
    async def work(clock: VirtualClock) -> None:
        clock.call_later(5, lambda: 1 / 0)
        before = clock.time()
        with pytest.raises(ZeroDivisionError):
            await clock.advance(10, nothing)
        assert clock.time() - before >= 10
        met = asyncio.Event()
        clock.call_later(0.01, met.set)
        await asyncio.wait_for(met.wait(), 20)

    in_a_loop(work)


def test_the_executor_is_ahead_as_well():
    async def work(clock: VirtualClock) -> None:
        inner = ThreadExecutor(1)
        executor = VirtualExecutor(inner, clock)
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        before = executor.now()
        await clock.advance(50, nothing)
        assert executor.now() - before >= 50
        executor.submit(lambda: loop.call_soon_threadsafe(done.set))
        await asyncio.wait_for(done.wait(), 20)
        executor.stop()

    in_a_loop(work)


def test_a_callback_that_fails_keeps_no_other():
    async def work(clock: VirtualClock) -> None:
        met = asyncio.Event()
        failures: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))

        def fail() -> None:
            raise ValueError("a failure")

        clock.call_later(0.001, fail)
        clock.call_later(0.002, met.set)
        await asyncio.wait_for(met.wait(), 20)
        assert [type(each) for each in failures] == [ValueError]

    in_a_loop(work)
