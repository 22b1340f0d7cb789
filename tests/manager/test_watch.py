"""Watches: what takes effect, once each, in log order, across cleaning, restarts, cuts and takeovers."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import islice

import pytest

from offsetlog._native.files import FileSystem
from offsetlog.config import MaintenanceConfig
from offsetlog.directory.history_floor import raise_floor
from offsetlog.errors import (
    ArgumentTypeError,
    ClosedError,
    GroupError,
    InvalidArgumentError,
    PartitionError,
    StorageError,
)
from offsetlog.manager.interface import Watch
from offsetlog.manager.log_manager import LogManager
from offsetlog.types import LogGap, OffsetAndMetadata
from tests.depth import by_depth, first_seed
from tests.manager.watch_model import (
    FROM_THE_BEGINNING,
    KEY,
    KEYS,
    Life,
    changes_of,
    lead,
    offsets_of,
    settings,
)

# ------------------------------------------------------------------------------------------------ the model


@pytest.mark.parametrize("number", range(6))
def test_every_change_is_reported_once_or_lies_in_a_gap(tmp_path, number):
    cleaned = gaps = 0
    for seed in range(first_seed() + 1000 * number, first_seed() + 1000 * number + by_depth(gate=1, long=60)):
        print(f"seed {seed}")
        life = Life(seed, tmp_path / str(seed))
        for _ in range(400):
            life.step()
            if life.draw.random() < 0.1:
                life.check_mirror()
        life.check_mirror()
        life.finish()
        cleaned += life.cleaned
        gaps += sum(len(reader.gaps) for reader in life.readers)
    assert cleaned > 0
    assert gaps > 0


# ------------------------------------------------------------------------------------------------ one replica


def test_a_watch_begins_now_or_where_asked(tmp_path):
    with lead(tmp_path) as manager:
        manager.commit("g", {KEY: 1})
        watch = manager.watch()
        assert isinstance(watch, Watch)
        assert watch.position == {0: (1, 1)}
        assert watch.poll() == []
        manager.commit("g", {KEY: OffsetAndMetadata(2, "text", 7)})
        (change,) = watch.poll()
        assert change.value.offset == 2
        assert (change.value.metadata, change.value.leader_epoch) == ("text", 7)
        assert (change.log_offset, change.effective_at, change.epoch) == (1, 1, 1)
        assert (change.group, change.topic, change.partition) == ("g", *KEY)
        assert offsets_of(manager.watch(from_position=FROM_THE_BEGINNING).poll()) == [1, 2]
        after = {0: (change.epoch, change.effective_at + 1)}
        assert watch.position == after
        assert manager.watch(from_position=after).poll() == []


def test_a_watch_is_there_before_the_log(tmp_path):
    with lead(tmp_path) as manager:
        watch = manager.watch()
        assert watch.position == FROM_THE_BEGINNING
        manager.commit("g", {KEY: 1})
        assert offsets_of(watch.poll()) == [1]


def test_rows_are_the_changes(tmp_path):
    with lead(tmp_path) as manager:
        for value in range(10):
            manager.commit("g", {KEYS[value % 3]: OffsetAndMetadata(value, "ä" * value)})
        manager.delete("g", KEYS[:2])
        plain = manager.watch(from_position=FROM_THE_BEGINNING).poll()
        batches = manager.watch(from_position=FROM_THE_BEGINNING).poll_arrow(0, 4)
        rows = [change for batch in batches for change in changes_of(batch)]
        assert rows == plain[: len(rows)]
        assert rows
        places = ["log_partition", "log_offset", "effective_at", "epoch", "timestamp"]
        assert batches[0].schema.names[:6] == [*places, "group"]
        assert plain[-1].value is None


def test_a_transaction_is_reported_whole(tmp_path):
    much = {key: OffsetAndMetadata(5, "m" * 900) for key in KEYS}
    with lead(tmp_path) as manager:
        watch = manager.watch(from_position=FROM_THE_BEGINNING)
        manager.commit("g", {KEY: 1})
        manager.commit("g", much)
        assert len(watch.poll(0, 1)) == 1
        found = watch.poll(0, 1)
        assert len(found) == len(KEYS)
        assert len({change.effective_at for change in found}) == 1
        assert all(change.log_offset < change.effective_at for change in found)


@pytest.mark.parametrize("arrow", [False, True])
def test_transactions_one_after_the_other_are_not_taken_at_once(tmp_path, arrow):
    # Each transaction is larger than what is asked for, and the block of rows ends within each.
    with lead(tmp_path) as manager:
        for value in range(20):
            manager.commit("g", dict.fromkeys(KEYS, OffsetAndMetadata(value, "m" * 900)))
        watch = manager.watch(from_position=FROM_THE_BEGINNING)
        sizes = []
        while polled := watch.poll_arrow(0, 1) if arrow else watch.poll(0, 1):
            sizes.append(sum(each.num_rows for each in polled) if arrow else len(polled))
        assert sizes == [len(KEYS)] * 20


def test_an_iteration_has_its_position_after_what_it_returned(tmp_path):
    much = {key: OffsetAndMetadata(5, "m" * 900) for key in KEYS}
    with lead(tmp_path) as manager:
        for value in range(5):
            manager.commit("g", {KEY: value})
        manager.commit("g", much)
        manager.commit("g", {KEY: 6})
        whole = manager.watch(from_position=FROM_THE_BEGINNING).poll()
        for count in range(len(whole) + 1):
            watch = manager.watch(from_position=FROM_THE_BEGINNING)
            seen = list(islice(watch, count))
            assert seen == whole[:count]
            inside = 0 < count < len(whole) and whole[count].effective_at == whole[count - 1].effective_at
            first = count
            while inside and whole[first - 1].effective_at == whole[count].effective_at:
                first -= 1
            assert manager.watch(from_position=watch.position).poll() == whole[first:]
            if 0 < count < len(whole):
                with pytest.raises(InvalidArgumentError, match="has not yet returned"):
                    watch.poll_arrow()
            assert watch.poll() == whole[count:]


def test_only_the_given_groups_and_partitions(tmp_path):
    manager = LogManager(settings(tmp_path, partitions=4), background=False)
    with manager:
        for number in range(4):
            manager.become_leader(number, 1).result(5)
        names = [f"group-{number}" for number in range(20)]
        some = manager.watch(names[:3])
        whole = manager.watch()
        assert set(some.position) == {manager.partition_for(name) for name in names[:3]}
        for value, name in enumerate(names):
            manager.commit(name, {KEY: value})
        assert sorted(offsets_of(some.poll())) == [0, 1, 2]
        seen = []
        while items := whole.poll(0, 3):
            seen += items
        assert sorted(offsets_of(seen)) == list(range(20))
        assert all(manager.partition_for(change.group) == change.log_partition for change in seen)


def test_held_history_of_a_group_is_no_gap(tmp_path):
    keeps = MaintenanceConfig(enabled=False, min_history={"held": 10**9})
    with lead(tmp_path, maintenance=keeps) as manager:
        for value in range(200):
            manager.commit("held", {KEY: value})
            manager.commit("other", {KEY: value})
        manager._maintenance.compact(delete_retention_ms=0)
        held = manager.watch(["held"], from_position=FROM_THE_BEGINNING)
        assert offsets_of(items := held.poll()) == list(range(200))
        assert not any(isinstance(item, LogGap) for item in items)
        (gap, *rest) = manager.watch(["other"], from_position=FROM_THE_BEGINNING).poll()
        assert (gap.start, gap.reason) == (0, "cleaned")
        assert offsets_of(rest)[-1] == 199


def test_history_that_is_kept_in_part_is_read_on(tmp_path):
    # The floor of the group lies within what is missing of the others: all of it is one hole of the
    # log, of which the watch knows the lower part as its gap.
    kept = MaintenanceConfig(enabled=False, min_history={"kept": 10**9})
    with lead(tmp_path, maintenance=kept) as manager:
        for value in range(11):
            manager.commit("other", {KEY: value})
        manager.commit("kept", {KEY: 1})
        (report,) = manager._maintenance.compact(delete_retention_ms=0)
        assert report.superseded == 10
        raise_floor(FileSystem(), tmp_path / "__consumer_offsets-0", 0, 5)
        watch = manager.watch(["kept"], from_position=FROM_THE_BEGINNING)
        assert watch.poll(0, 1) == [LogGap(0, 0, 5, "cleaned")]
        assert offsets_of(watch.poll(0, 1)) == [1]
        assert watch.poll() == []
        assert watch.position == {0: (1, 12)}


# ------------------------------------------------------------------------------------------------ several partitions


@pytest.fixture
def two_logs(tmp_path):
    """A leader of two log partitions, a watch of both, and a group of each."""
    with LogManager(settings(tmp_path, partitions=2), background=False) as manager:
        for number in range(2):
            manager.become_leader(number, 1).result(30)
        names = [f"group-{number}" for number in range(20)]
        groups = [next(g for g in names if manager.partition_for(g) == number) for number in range(2)]
        yield manager, manager.watch(), groups


def test_a_partition_that_always_has_more_keeps_no_other_from_its_turn(two_logs):
    manager, watch, groups = two_logs
    for value in range(10):
        for group in groups:
            manager.commit(group, {KEY: value})
    seen = []
    for value in range(10, 20):
        manager.commit(groups[0], {KEY: value})
        seen += watch.poll(0, 1)
    assert offsets_of(each for each in seen if each.group == groups[0]) == list(range(5))
    assert offsets_of(each for each in seen if each.group == groups[1]) == list(range(5))


def test_a_partition_that_cannot_be_read_keeps_no_other_from_its_turn(two_logs, monkeypatch):
    manager, watch, groups = two_logs
    original = watch._logs[0].read

    def fail(*_, **__):
        raise StorageError("the disk cannot read it")

    monkeypatch.setattr(watch._logs[0], "read", fail)
    for group in groups:
        manager.commit(group, {KEY: 1})
    with pytest.raises(StorageError):
        watch.poll()
    assert [each.group for each in watch.poll()] == [groups[1]]
    with pytest.raises(StorageError):
        watch.poll()
    monkeypatch.setattr(watch._logs[0], "read", original)
    assert [each.group for each in watch.poll()] == [groups[0]]


@pytest.mark.parametrize("interrupted", [0, 1])
def test_what_an_interrupted_read_has_read_is_read_again(two_logs, interrupted):
    manager, watch, groups = two_logs
    for value in range(5):
        for group in groups:
            manager.commit(group, {KEY: value})
    log = watch._logs[interrupted]
    original = log._was_released

    def interrupt(_):
        raise KeyboardInterrupt

    log._was_released = interrupt       # called when the log was read
    with pytest.raises(KeyboardInterrupt):
        watch.poll()
    assert watch.position == {0: (-1, 0), 1: (-1, 0)}
    log._was_released = original
    assert sorted(offsets_of(watch.poll())) == sorted([*range(5), *range(5)])
    assert watch.poll() == []


# ------------------------------------------------------------------------------------------------ waiting


def test_a_waiting_watch_is_woken_by_a_commit_and_by_its_end(tmp_path):
    with lead(tmp_path) as manager:
        watch = manager.watch()
        seen = []
        reader = threading.Thread(target=lambda: seen.extend(watch))
        reader.start()
        manager.commit("g", {KEY: 1})
        deadline = time.monotonic() + 30
        while not seen and time.monotonic() < deadline:
            time.sleep(0.001)
        assert offsets_of(seen) == [1]
        watch.close()
        reader.join(30)
        assert not reader.is_alive()
        with pytest.raises(ClosedError):
            watch.poll()
        assert watch.poll.__self__ is watch
        assert watch.position == {0: (1, 1)}


def test_stopping_the_manager_ends_its_watches(tmp_path):
    manager = lead(tmp_path)
    watch = manager.watch()
    ended = threading.Thread(target=lambda: list(watch))
    ended.start()
    manager.stop()
    ended.join(30)
    assert not ended.is_alive()
    with pytest.raises(ClosedError):
        manager.watch()


def test_a_watch_in_an_event_loop(tmp_path):
    async def follow(watch, count):
        seen = []
        async for item in watch:
            seen.append(item)
            if len(seen) == count:
                watch.close()
        return seen

    async def run(manager):
        threads = threading.active_count()
        watches = [manager.watch() for _ in range(20)]
        tasks = [asyncio.create_task(follow(watch, 50)) for watch in watches]
        await asyncio.sleep(0)
        for value in range(50):
            manager.commit("g", {KEY: value})
            if value % 10 == 0:
                await asyncio.sleep(0.001)
        found = await asyncio.wait_for(asyncio.gather(*tasks), 30)
        assert threading.active_count() == threads
        return found

    with lead(tmp_path) as manager:
        assert all(offsets_of(seen) == list(range(50)) for seen in asyncio.run(run(manager)))


def test_a_wait_that_is_cancelled_leaves_nothing(tmp_path):
    async def cancel_waits(watch):
        for _ in range(20):
            waiting = asyncio.ensure_future(anext(aiter(watch)))
            while not watch._wakes:
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert watch._wakes == []

    with lead(tmp_path) as manager:
        watch = manager.watch()
        asyncio.run(cancel_waits(watch))
        manager.commit("g", {KEY: 1})
        assert offsets_of(watch.poll()) == [1]


def test_nothing_listens_after_the_last_watch(tmp_path):
    with lead(tmp_path) as manager:
        with manager.watch(), manager.watch() as other:
            pass
        other.close()
        assert manager._watches._open == ()


def test_commits_of_many_threads_are_each_reported_once(tmp_path):
    with lead(tmp_path) as manager:
        watch = manager.watch()

        def commit(number):
            for value in range(200):
                manager.commit(f"group-{number}", {KEY: value})

        threads = [threading.Thread(target=commit, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        seen = []
        while len(seen) < 800:
            seen += watch.poll(30, 100)
        for thread in threads:
            thread.join()
        assert watch.poll() == []
        for number in range(4):
            assert offsets_of([each for each in seen if each.group == f"group-{number}"]) == list(range(200))


# ------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"from_position": {7: (-1, 0)}}, PartitionError),
        ({"from_position": {0: (-2, 0)}}, InvalidArgumentError),
        ({"from_position": {0: (1, -1)}}, InvalidArgumentError),
        ({"from_position": {0: 5}}, InvalidArgumentError),
        ({"from_position": {0: ("1", 0)}}, ArgumentTypeError),
        ({"groups": "g"}, ArgumentTypeError),
        ({"groups": ["\ud800"]}, GroupError),
    ],
)
def test_arguments_out_of_their_domain_are_refused(tmp_path, given, error):
    with lead(tmp_path) as manager, pytest.raises(error):
        manager.watch(**given)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((0, 0), InvalidArgumentError),
        ((0, 2**63), InvalidArgumentError),
        ((0, 2.5), ArgumentTypeError),
        ((-1.0, 1), InvalidArgumentError),
        ((float("nan"), 1), InvalidArgumentError),
        (("1", 1), ArgumentTypeError),
    ],
)
def test_a_poll_refuses_arguments_out_of_their_domain(tmp_path, given, error):
    with lead(tmp_path) as manager, pytest.raises(error):
        manager.watch().poll(*given)


def test_a_poll_of_very_many_changes_takes_what_there_is(tmp_path):
    with lead(tmp_path) as manager:
        manager.commit("g", {KEY: 1})
        watch = manager.watch(from_position=FROM_THE_BEGINNING)
        assert offsets_of(watch.poll(0, 2**63 - 1)) == [1]
