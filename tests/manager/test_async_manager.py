"""AsyncOffsetManager: the interface as coroutines, without a thread a call."""

from __future__ import annotations

import asyncio
import gc
import inspect
import random
import threading

import pytest

from offsetlog.errors import (
    ClosedError,
    CommitTimeoutError,
    ExpectedOffsetError,
    FencedLeaderEpochError,
    GroupNotEmptyError,
    NotCoordinatorError,
)
from offsetlog.manager.async_manager import AsyncOffsetManager
from offsetlog.manager.interface import OffsetManager, PartitionState
from tests.depth import by_depth, first_seed
from tests.manager.managers import KEYS, leading, manager_of
from tests.manager.manual_executor import ManualExecutor

#: Calls that only read memory, and those that another module awaits.
NO_COROUTINES = {
    "advance",
    "end_offset_for_epoch",
    "leader_epoch",
    "partition_for",
    "positions",
    "state",
    "throttle",
    "watch",
}


def members_of(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_it_has_every_call_of_the_interface_with_the_same_arguments():
    for name in members_of(OffsetManager):
        if name.endswith("_async"):
            assert name.removesuffix("_async") in members_of(AsyncOffsetManager)
            continue
        theirs, ours = getattr(OffsetManager, name), getattr(AsyncOffsetManager, name)
        if isinstance(theirs, property):
            assert isinstance(ours, property)
            continue
        assert list(inspect.signature(ours).parameters.values()) == list(inspect.signature(theirs).parameters.values())
        assert inspect.iscoroutinefunction(ours) == (name not in NO_COROUTINES), name


def test_a_day_in_the_life_of_one(tmp_path):
    async def main():
        plain = manager_of(tmp_path, partitions=2)
        async with AsyncOffsetManager(plain) as manager:
            number = manager.partition_for("g")
            assert await manager.become_leader(number, 1) == 0
            assert manager.state(number) is PartitionState.ACTIVE
            position = await manager.commit("g", {KEYS[0]: 5, KEYS[1]: 6})
            assert (position.log_partition, position.log_offset) == (number, 1)
            assert await manager.commit("g", {KEYS[2]: 7}, durability="process")
            assert {key: each.offset for key, each in (await manager.fetch("g")).items()} == {
                KEYS[0]: 5,
                KEYS[1]: 6,
                KEYS[2]: 7,
            }
            with pytest.raises(ExpectedOffsetError):
                await manager.commit("g", {KEYS[0]: 9}, expected={KEYS[0]: 4})
            assert await manager.delete("g", KEYS[1:]) == 2
            assert await manager.fence("g", {KEYS[0]: 1}) == 1
            assert (await manager.fetch("g", KEYS[:1]))[KEYS[0]].offset == 1
            assert await manager.on_topic_deleted(["t"]) == 1
            assert await manager.expire() == 0
            assert await manager.delete_group("g") == 1
            assert await manager.flush(number) == manager.positions(number).log_end
            buffer = bytearray(4096)
            size = await manager.read_into(number, 0, buffer)
            assert size > 0
            found = await manager.file_range(number, 0, 1 << 20)
            with open(found.path, "rb") as file:
                file.seek(found.position)
                assert file.read(size) == bytes(buffer[:size])
            assert await manager.resign(number, 1) == manager.positions(number).log_end
            with pytest.raises(NotCoordinatorError):
                await manager.commit("g", {KEYS[0]: 5})
            with pytest.raises(FencedLeaderEpochError):
                await manager.become_leader(number, 0)
        with pytest.raises(ClosedError):
            await manager.fetch("g")
        await manager.stop()

    asyncio.run(main())


def test_a_follower_takes_what_a_leader_wrote(tmp_path):
    async def main():
        async with (
            AsyncOffsetManager(manager_of(tmp_path / "a", replication_factor=2)) as leader,
            AsyncOffsetManager(manager_of(tmp_path / "b", replication_factor=2)) as follower,
        ):
            await leader.become_leader(0, 1)
            await follower.become_follower(0, 1)
            commit = asyncio.ensure_future(leader.commit("g", {KEYS[0]: 5}))
            await asyncio.sleep(0)
            buffer = bytearray(4096)
            size = await leader.read_into(0, 0, buffer, uncommitted=True)
            assert await follower.append_as_follower(0, 1, bytes(buffer[:size])) == 1
            assert await follower.flush(0) == 1
            assert not commit.done()
            assert leader.advance(0, 1, 1) == 1
            assert (await commit).log_offset == 0
            assert await follower.truncate_to(0, 1, 0) == 0
            await follower.restart_at(0, 1, 0)
            assert follower.positions(0).log_end == 0

    asyncio.run(main())


def test_ten_thousand_wait_and_no_thread_does(tmp_path):
    count = 10_000
    with leading(tmp_path, partitions=2, replication_factor=3) as plain:
        manager = AsyncOffsetManager(plain)
        # Each delete finds a position of its own.
        groups = [f"g{number}" for number in range(250)]
        for group in groups:
            plain.commit(group, dict.fromkeys(KEYS, 1), durability="process")
        for number in range(2):
            plain.advance(number, 1, plain.positions(number).log_end)

        def call(number):
            group = groups[number % 250]
            if number % 4 == 3:
                return manager.delete(group, [KEYS[number // 250]], timeout=600)
            return manager.commit(
                group, {KEYS[number // 250]: number}, durability=("disk", "replicas")[number % 2], timeout=600
            )

        async def main():
            before = threading.active_count()
            waiting = [asyncio.ensure_future(call(number)) for number in range(count)]
            await asyncio.sleep(0)
            # Those of the disk are answered by a few threads, the others wait for W.
            await asyncio.wait(waiting[::2])
            assert sum(not each.done() for each in waiting) == count // 2
            assert threading.active_count() - before <= 2 * plain.settings.load_threads + 2
            for number in range(2):
                manager.advance(number, 1, plain.positions(number).log_end)
            answers = await asyncio.gather(*waiting)
            assert answers[3::4] == [1] * (count // 4)
            assert threading.active_count() - before <= 2 * plain.settings.load_threads + 2

        asyncio.run(main())
        assert not any(len(each) for each in (*plain._for_watermark, *plain._for_disk))


def test_a_flush_wakes_a_loop_once_for_all_that_it_answers(tmp_path):
    executor = ManualExecutor()
    with leading(tmp_path, executor=executor) as plain:
        manager = AsyncOffsetManager(plain)

        async def main():
            loop = asyncio.get_running_loop()
            wakes = []
            calls = loop.call_soon_threadsafe
            loop.call_soon_threadsafe = lambda *args: (wakes.append(args), calls(*args))
            waiting = [asyncio.ensure_future(manager.commit("g", {KEYS[0]: number})) for number in range(1000)]
            await asyncio.sleep(0)
            assert len(executor.queue) == 1
            executor.run()
            positions = await asyncio.gather(*waiting)
            assert [each.log_offset for each in positions] == list(range(1000))
            return len(wakes)

        assert asyncio.run(main()) == 1


# -------------------------------------------------------------------------------------------------- cancelled tasks


def test_a_task_that_is_cancelled_leaves_its_commit_and_nothing_else(tmp_path):
    executor = ManualExecutor()
    with leading(tmp_path, executor=executor, replication_factor=3) as plain:
        manager = AsyncOffsetManager(plain)
        plain.commit("g", {KEYS[0]: 0}, durability="process")

        async def main():
            tasks = [asyncio.ensure_future(manager.commit("g", {KEYS[0]: number})) for number in range(1, 3001)]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in ended)

        asyncio.run(main())
        assert len(plain._for_watermark[0]) == 3000
        executor.pass_time(6)
        assert len(plain._for_watermark[0]) == 0
        assert not executor.timers
        gc.collect()
        assert not any(type(each).__name__ == "PendingWrite" for each in gc.get_objects())
        plain.advance(0, 1, 4000)
        assert plain.fetch("g")[KEYS[0]].offset == 3000


def test_waits_that_are_given_up_while_answers_come_lose_nothing(tmp_path):
    seed = first_seed()
    draw = random.Random(seed)
    print(f"seed {seed}")
    with leading(tmp_path) as plain:
        manager = AsyncOffsetManager(plain)
        acknowledged = {}

        async def one(number):
            key = KEYS[number % 40]
            await manager.commit(f"g{number}", {key: number})
            acknowledged[number] = key

        async def main():
            for first in range(0, by_depth(gate=4000, long=40_000), 200):
                tasks = [asyncio.ensure_future(one(number)) for number in range(first, first + 200)]
                await asyncio.sleep(draw.choice([0, 0, 0.0005, 0.001]))
                for task in draw.sample(tasks, 50):
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(each is None or isinstance(each, asyncio.CancelledError) for each in ended)

        asyncio.run(main())
        assert len(acknowledged) >= 3000
        for number, key in acknowledged.items():
            assert plain.fetch(f"g{number}")[key].offset == number
        assert len(plain._for_disk[0]) == 0


class Slow:
    """Reads when the test says so."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    def read_into(self, partition, offset, buffer, *, epoch, uncommitted):
        self.begun.set()
        assert self.go_on.wait(60)
        buffer[0] = 1
        return 1


def test_a_read_has_left_the_buffer_when_its_task_is_cancelled():
    slow = Slow()
    manager = AsyncOffsetManager(slow)
    buffer = bytearray(1)

    async def main():
        task = asyncio.ensure_future(manager.read_into(0, 0, buffer))
        while not slow.begun.is_set():
            await asyncio.sleep(0)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        slow.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert buffer == b"\x01"

    asyncio.run(main())


def test_calls_on_threads_have_no_more_threads_than_allowed_and_one_that_waits_is_dropped():
    slow = Slow()
    manager = AsyncOffsetManager(slow, threads=2)

    async def main():
        before = threading.active_count()
        tasks = [asyncio.ensure_future(manager.read_into(0, 0, bytearray(1))) for _ in range(50)]
        while not slow.begun.is_set():
            await asyncio.sleep(0)
        assert threading.active_count() - before <= 2
        tasks[40].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[40]
        slow.go_on.set()
        assert await asyncio.gather(*tasks[:40], *tasks[41:]) == [1] * 49

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------------------ the end


def test_stop_answers_who_waits(tmp_path):
    async def main():
        manager = AsyncOffsetManager(manager_of(tmp_path, replication_factor=3))
        await manager.start()
        await manager.become_leader(0, 1)
        tasks = [asyncio.ensure_future(manager.commit("g", {KEYS[0]: number})) for number in range(100)]
        await asyncio.sleep(0)
        await manager.stop()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, NotCoordinatorError) for each in ended)
        assert len({id(each) for each in ended}) == 100

    asyncio.run(main())


def test_what_a_call_raises_is_raised_where_it_is_awaited(tmp_path):
    executor = ManualExecutor()
    with leading(tmp_path, executor=executor, replication_factor=3) as plain:
        manager = AsyncOffsetManager(plain)

        async def main():
            waiting = asyncio.ensure_future(manager.commit("g", {KEYS[0]: 1}, timeout=1))
            await asyncio.sleep(0)
            executor.pass_time(1.5)
            with pytest.raises(CommitTimeoutError):
                await waiting
            for call in (manager.commit("g", {KEYS[0]: 1}, timeout=-1), manager.delete("g", [KEYS[0]], timeout=-1)):
                with pytest.raises(ValueError, match="timeout"):
                    await call

        asyncio.run(main())


def test_several_loops_share_one(tmp_path):
    with leading(tmp_path) as plain:
        manager = AsyncOffsetManager(plain)
        failures = []

        def in_a_loop(number):
            async def main():
                for value in range(50):
                    await asyncio.gather(*(manager.commit(f"g{number}-{each}", {KEYS[0]: value}) for each in range(20)))

            try:
                asyncio.run(main())
            except BaseException as raised:
                failures.append(raised)

        threads = [threading.Thread(target=in_a_loop, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        for number in range(3):
            assert plain.fetch(f"g{number}-19")[KEYS[0]].offset == 49


def test_a_group_with_members_is_not_deleted(tmp_path):
    class Full:
        def delete_group_async(self, group, *, timeout):
            raise GroupNotEmptyError(group=group)

    async def main():
        with pytest.raises(GroupNotEmptyError):
            await AsyncOffsetManager(Full()).delete_group("g")

    asyncio.run(main())
