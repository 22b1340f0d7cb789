"""Answers that come once: callbacks that raise, waits that are given up, loops that are gone."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref

import pytest

from offsetlog._native.completion import Completion
from offsetlog.errors import CommitTimeoutError, InvalidArgumentError, PartitionFailedError


def test_the_first_answer_alone_counts():
    answer: Completion[int] = Completion()
    assert not answer.done()
    assert answer.succeed(1)
    assert not answer.succeed(2)
    assert not answer.fail(ValueError())
    assert answer.done()
    assert answer.result(0) == 1


def test_a_callback_that_raises_keeps_the_answer_from_nobody(caplog):
    answer: Completion[int] = Completion()
    called = []

    def fails(_):
        called.append("fails")
        raise ValueError("of the callback")

    answer.add_done_callback(fails)
    answer.add_done_callback(lambda each: called.append(each.result(0)))
    with caplog.at_level(logging.ERROR, "offsetlog.manager"):
        assert answer.succeed(7)
        answer.add_done_callback(fails)
    assert called == ["fails", 7, "fails"]
    assert caplog.text.count("ValueError: of the callback") == 2


def test_an_interrupt_within_a_callback_is_raised_when_all_were_called():
    answer: Completion[int] = Completion()
    called = []

    def interrupted(_):
        raise KeyboardInterrupt

    answer.add_done_callback(interrupted)
    other: Completion[int] = Completion()
    other.add_done_callback(called.append)
    with pytest.raises(KeyboardInterrupt):
        answer.succeed(1)
    assert answer.result(0) == 1
    other.succeed(2)
    assert called == [other]


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_that_is_none_is_refused(timeout):
    with pytest.raises(InvalidArgumentError):
        Completion().result(timeout)


def test_a_thread_waits_until_the_answer_or_its_timeout():
    answer: Completion[int] = Completion()
    with pytest.raises(CommitTimeoutError):
        answer.result(0)
    with pytest.raises(CommitTimeoutError):
        answer.result(0.001)
    found = []
    waiting = [threading.Thread(target=lambda: found.append(answer.result(1e300))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    answer.succeed(5)
    for thread in waiting:
        thread.join()
    assert found == [5, 5, 5]


def frames_of(failure):
    count = 0
    traceback = failure.__traceback__
    while traceback is not None:
        count, traceback = count + 1, traceback.tb_next
    return count


def test_a_failure_that_is_raised_often_keeps_one_traceback():
    answer: Completion[int] = Completion()
    answer.fail(PartitionFailedError("gone"))

    def block():
        answer.result(0)

    def wait():
        asyncio.run(_value(answer))

    for call in (block, wait):
        counts = set()
        for _ in range(20):
            with pytest.raises(PartitionFailedError) as caught:
                call()
            counts.add(frames_of(caught.value))
        assert len(counts) == 1


def test_all_who_wait_for_an_answer_are_woken_together():
    answers = [Completion() for _ in range(500)]

    async def main():
        loop = asyncio.get_running_loop()
        wakes = []
        calls = loop.call_soon_threadsafe

        def counted(*args):
            wakes.append(args)
            return calls(*args)

        loop.call_soon_threadsafe = counted
        waiting = [asyncio.ensure_future(_value(each)) for _ in range(2) for each in answers]
        await asyncio.sleep(0)
        for number, each in enumerate(answers):
            each.succeed(number)
        assert await asyncio.gather(*waiting) == [*range(500), *range(500)]
        return len(wakes)

    assert asyncio.run(main()) == 500


async def _value(answer):
    return await answer


def test_answers_reach_waiters_in_several_loops_and_threads():
    answer: Completion[str] = Completion()
    found = []
    ready = threading.Barrier(5)

    def in_a_loop():
        async def main():
            task = asyncio.ensure_future(_value(answer))
            await asyncio.sleep(0)
            await asyncio.to_thread(ready.wait)
            found.append(await task)

        asyncio.run(main())

    threads = [threading.Thread(target=in_a_loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    ready.wait()
    answer.succeed("here")
    for thread in threads:
        thread.join()
    assert found == ["here"] * 4


def test_a_loop_that_was_closed_keeps_the_answer_from_nobody():
    answer: Completion[int] = Completion()
    called = []
    loop = asyncio.new_event_loop()
    task = loop.create_task(_value(answer))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    answer.add_done_callback(lambda each: called.append(each.result(0)))
    assert answer.succeed(3)
    assert called == [3]
    task._log_destroy_pending = False


def test_a_wait_that_is_given_up_again_and_again_keeps_nothing():
    answer: Completion[int] = Completion()

    async def main():
        for _ in range(2000):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_value(answer), 0)
            task = asyncio.ensure_future(_value(answer))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        held = [each for each in gc.get_referents(answer) if isinstance(each, list)]
        assert sum(map(len, held)) < 50

    asyncio.run(main())


def test_an_answer_that_nobody_keeps_goes():
    class Weak(Completion):
        __slots__ = ("__weakref__",)

    answer = Weak()
    answer.add_done_callback(lambda each: None)
    gone = weakref.ref(answer)
    del answer
    gc.collect()
    assert gone() is None


def test_waits_and_answers_race_and_none_is_lost():
    for _ in range(300):
        answer: Completion[int] = Completion()
        found = []
        start = threading.Barrier(3)

        def wait(answer=answer, found=found, start=start):
            start.wait()
            found.append(answer.result(60))

        def call_back(answer=answer, found=found, start=start):
            start.wait()
            answer.add_done_callback(lambda each: found.append(each.result(0)))

        threads = [threading.Thread(target=wait), threading.Thread(target=call_back)]
        for thread in threads:
            thread.start()
        start.wait()
        answer.succeed(9)
        for thread in threads:
            thread.join()
        assert found == [9, 9]
