"""Writes that wait for W or the disk: who is answered, when, and what is left of it."""

from __future__ import annotations

import contextlib
import errno
import random
import threading

import pytest
from tests.faults.fault_fs import FaultFileSystem

from offsetlog.errors import (
    CapacityError,
    ClosedError,
    CommitTimeoutError,
    DiskFullError,
    FencedLeaderEpochError,
    GenerationError,
    InvalidArgumentError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    PartitionFailedError,
    RewindError,
)
from offsetlog.manager.interface import Pending, PendingCommit
from tests.depth import by_depth, first_seed
from tests.manager.managers import KEYS, leading, manager_of
from tests.manager.manual_executor import ManualExecutor


@pytest.fixture
def executor():
    return ManualExecutor()


@pytest.fixture
def replicated(tmp_path, executor):
    """A leader of one of three replicas, whose W only the test moves."""
    with leading(tmp_path / "data", executor=executor, replication_factor=3) as manager:
        # The log begins with the first commit.
        manager.commit("g", {KEYS[0]: 0}, durability="process")
        manager.advance(0, 1, 1)
        yield manager


@pytest.fixture
def alone(tmp_path, executor):
    with leading(tmp_path / "data", executor=executor) as manager:
        yield manager


def parked(manager):
    return len(manager._for_watermark[0]) + len(manager._for_disk[0])


# ----------------------------------------------------------------------------------------------- what answers a write


def test_a_write_is_answered_when_w_has_passed_it(replicated):
    writes = [replicated.commit_async("g", {KEYS[0]: number}) for number in range(10)]
    assert [each.position.log_offset for each in writes] == list(range(1, 11))
    replicated.advance(0, 1, 6)
    assert [each.done() for each in writes] == [True] * 5 + [False] * 5
    replicated.advance(0, 1, 100)
    assert [each.result(0) for each in writes] == [each.position for each in writes]
    assert parked(replicated) == 0


def test_every_kind_of_write_is_parked_and_has_its_own_result(replicated):
    replicated.advance(0, 1, replicated.commit("g", dict.fromkeys(KEYS[:5], 1), durability="process").log_offset + 1)
    commit = replicated.commit_async("h", {KEYS[0]: 1})
    delete = replicated.delete_async("g", KEYS[:7])
    fence = replicated.fence_async("g", {KEYS[9]: 3})
    for each in (commit, delete, fence):
        assert isinstance(each, Pending)
        assert not each.done()
    assert isinstance(commit, PendingCommit)
    replicated.advance(0, 1, 1000)
    assert (delete.result(0), fence.result(0)) == (5, 1)
    group = replicated.delete_group_async("g")
    assert not group.done()
    replicated.advance(0, 1, 1000)
    assert group.result(0) == 2
    assert replicated.fetch("g") == {}


def test_a_write_of_nothing_is_answered_at_once(replicated):
    assert replicated.delete_async("g", [KEYS[39]]).result(0) == 0
    assert replicated.delete_async("g", []).result(0) == 0
    assert replicated.delete_group_async("nobody").result(0) == 0
    assert parked(replicated) == 0


def test_a_write_that_waits_for_no_disk_is_answered_at_once(replicated, executor):
    pending = replicated.commit_async("g", {KEYS[0]: 5}, durability="process")
    assert pending.done()
    assert pending.result(0) == pending.position
    assert parked(replicated) == 0
    assert not executor.queue


def test_one_flush_serves_all_that_were_written_before_it(alone, executor):
    writes = [alone.commit_async("g", {KEYS[0]: number}) for number in range(100)]
    assert len(executor.queue) == 1
    assert not any(each.done() for each in writes)
    executor.run()
    assert all(each.done() for each in writes)
    later = alone.delete_async("g", KEYS)
    assert len(executor.queue) == 1
    executor.run()
    assert later.result(0) == 1


def test_a_flush_that_was_ordered_serves_writes_and_those_who_asked_for_it(alone, executor):
    write = alone.commit_async("g", {KEYS[0]: 1})
    flush = alone.flush(0)
    assert alone.flush(0) is flush
    assert len(executor.queue) == 1
    executor.run()
    assert write.done()
    assert flush.result(0) == 1


# --------------------------------------------------------------------------------------------------------- timeouts


class Exhausted(ManualExecutor):
    """One that has no timer left."""

    refuses = False

    def call_later(self, seconds, work):
        if self.refuses:
            raise CapacityError("no thread")
        return super().call_later(seconds, work)


def test_a_deadline_is_answered_also_where_the_next_one_cannot_be_watched(tmp_path):
    executor = Exhausted()
    with leading(tmp_path / "data", executor=executor, replication_factor=3) as manager:
        late = manager.commit_async("g", {KEYS[0]: 1}, timeout=1, durability="replicas")
        kept = manager.commit_async("g", {KEYS[0]: 2}, timeout=100, durability="replicas")
        executor.refuses = True
        with pytest.raises(CapacityError):
            executor.pass_time(2)
        assert late.done()
        assert not kept.done()
        assert parked(manager) == 1
        executor.refuses = False


def test_a_timeout_answers_and_leaves_nothing_parked(replicated, executor):
    writes = [replicated.commit_async("g", {KEYS[0]: number}, timeout=2) for number in range(1000)]
    assert len(executor.waiting_timers) == 1
    executor.pass_time(1.9)
    assert parked(replicated) == 1000
    executor.pass_time(0.2)
    assert parked(replicated) == 0
    assert not executor.waiting_timers
    for each in writes:
        with pytest.raises(CommitTimeoutError, match=r"was not durable within 2 s; it stays"):
            each.result(0)
    assert len({id(failure(each)) for each in writes}) == 1000
    replicated.advance(0, 1, 2000)
    assert replicated.fetch("g")[KEYS[0]].offset == 999


def failure(pending):
    try:
        pending.result(0)
    except Exception as raised:
        return raised
    raise AssertionError("it did not fail")


def test_timeouts_of_any_order_are_kept_with_one_timer(replicated, executor):
    seed = first_seed()
    draw = random.Random(seed)
    print(f"seed {seed}")
    due = []
    for _ in range(500):
        timeout = draw.choice([None, 0.5, 1.0, 3.0, 60.0, draw.random() * 10, float("inf")])
        pending = replicated.commit_async("g", {KEYS[0]: 1}, timeout=timeout)
        due.append((executor.time + (5.0 if timeout is None else timeout), pending))
        executor.pass_time(draw.random() * 0.02)
        assert len(executor.waiting_timers) <= 1
        for when, each in due:
            assert each.done() or when > executor.time - 0.02
            assert not each.done() or when <= executor.time
    executor.pass_time(100)
    assert [each.done() for _, each in due] == [when < 1e300 for when, _ in due]
    assert not executor.waiting_timers


def test_answered_writes_leave_no_timers(replicated, executor):
    for number in range(20_000):
        pending = replicated.commit_async("g", {KEYS[0]: number})
        replicated.advance(0, 1, pending.position.log_offset + 1)
        assert pending.done()
    assert parked(replicated) == 0
    assert len(executor.timers) == 1
    executor.pass_time(5)
    assert not executor.timers


@pytest.mark.parametrize("timeout", [-1, float("nan"), True, "1"])
def test_a_timeout_that_is_none_is_refused_before_anything_is_written(replicated, timeout):
    end = replicated.positions(0).log_end
    for call in (
        lambda: replicated.commit("g", {KEYS[0]: 9}, timeout=timeout),
        lambda: replicated.commit_async("g", {KEYS[0]: 9}, timeout=timeout),
        lambda: replicated.delete("g", KEYS, timeout=timeout),
        lambda: replicated.delete_async("g", KEYS, timeout=timeout),
        lambda: replicated.delete_group("g", timeout=timeout),
        lambda: replicated.delete_group_async("g", timeout=timeout),
        lambda: replicated.fence("g", timeout=timeout),
        lambda: replicated.fence_async("g", timeout=timeout),
    ):
        with pytest.raises((InvalidArgumentError, TypeError)):
            call()
    assert replicated.positions(0).log_end == end


# ----------------------------------------------------------------------------------------------- leadership, failures


@pytest.mark.parametrize("durability", ["disk", "replicas"])
@pytest.mark.parametrize("ends", ["become_follower", "resign", "become_leader"])
def test_a_term_that_ends_answers_what_is_parked(replicated, durability, ends):
    writes = [replicated.commit_async("g", {KEYS[0]: number}, durability=durability) for number in range(3)]
    getattr(replicated, ends)(0, 2)
    if ends == "become_leader":
        # It leads on, and the writes are its own: they count once W has passed them.
        assert not any(each.done() for each in writes)
        return
    failures = [failure(each) for each in writes]
    assert all(isinstance(each, NotCoordinatorError) for each in failures)
    assert len({id(each) for each in failures}) == 3
    assert parked(replicated) == 0


def test_a_write_that_is_parked_when_its_term_has_ended_is_answered(replicated):
    listened = []

    def step_down(number):
        if not listened:
            listened.append(number)
            replicated.become_follower(0, 2)

    replicated.listen_to_writes(step_down)
    pending = replicated.commit_async("g", {KEYS[0]: 5})
    assert isinstance(failure(pending), NotCoordinatorError)
    assert parked(replicated) == 0


def test_a_write_that_w_passes_before_it_is_parked_is_answered(replicated):
    replicated.listen_to_writes(lambda number: replicated.advance(number, 1, 1000))
    pending = replicated.commit_async("g", {KEYS[0]: 5})
    assert pending.result(0).log_offset == 1
    assert parked(replicated) == 0


def test_w_that_moves_while_it_is_settled_answers_everybody(replicated):
    # Two threads move W; the second finds nobody who attends, since the first is settling.
    first = replicated.commit_async("g", {KEYS[0]: 1})
    second = replicated.commit_async("g", {KEYS[0]: 2})
    first.add_done_callback(lambda _: replicated.advance(0, 1, 3))
    replicated.advance(0, 1, 2)
    assert first.done()
    assert second.done()


def test_a_callback_may_call_the_manager(replicated):
    committed = []

    def again(pending):
        if len(committed) < 50:
            committed.append(replicated.commit_async("g", {KEYS[1]: len(committed)}))
            committed[-1].add_done_callback(again)

    again(None)
    while len(committed) < 50 or not committed[-1].done():
        replicated.advance(0, 1, 1000)
    assert [each.result(0).log_offset for each in committed] == list(range(1, 51))


def test_a_transition_that_gives_way_calls_back_without_a_lock(replicated):
    states = []

    def ask(transition):
        thread = threading.Thread(target=lambda: states.append(replicated.become_follower(0, 5).epoch))
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    replicated.commit("g", {KEYS[0]: 1}, durability="process")
    transition = replicated.become_leader(0, 2)
    transition.add_done_callback(ask)
    replicated.become_leader(0, 3)
    assert states == [5]
    with pytest.raises(FencedLeaderEpochError):
        transition.result(0)


def test_a_failed_flush_answers_everybody_with_an_error_of_his_own(tmp_path, executor):
    (tmp_path / "disk").mkdir()
    fs = FaultFileSystem(tmp_path / "disk")
    manager = manager_of(tmp_path / "disk" / "data", executor=executor, fs=fs)
    manager.start()
    manager.become_leader(0, 1)
    first = manager.commit_async("g", {KEYS[0]: 1})
    executor.run()
    assert first.done()
    writes = [manager.commit_async("g", {KEYS[0]: number}) for number in range(5)]
    flush = manager.flush(0)
    fs.fail_flush(fs.flushes + 1, errno.EIO)
    executor.run()
    failures = [failure(each) for each in [*writes, flush]]
    assert all(isinstance(each, PartitionFailedError | OSError) for each in failures)
    assert len({id(each) for each in failures}) == 6
    with pytest.raises(PartitionFailedError):
        manager.commit_async("g", {KEYS[0]: 7})
    with pytest.raises(PartitionFailedError):
        manager.stop()


class FailingOnce:
    """A replica whose first flush cannot begin; `meanwhile` is called in it."""

    def __init__(self, replica, meanwhile):
        self._replica = replica
        self._meanwhile = meanwhile
        self.partition = self
        self.flushes = 0

    def positions(self):
        return self._replica.positions()

    def flush(self):
        self.flushes += 1
        if self.flushes > 1:
            return self._replica.partition.flush()
        self._meanwhile()
        raise DiskFullError("no room for the sidecar", path="offsetlog.flushed")


def test_a_flush_that_could_not_begin_refuses_those_that_it_was_for_alone(alone, executor):
    alone.commit("g", {KEYS[0]: 0}, durability="process")
    later = []
    failing = FailingOnce(alone.replica(0), lambda: later.append(alone.commit_async("g", {KEYS[0]: 9})))
    alone._flushes._replica_of = lambda number: failing
    writes = [alone.commit_async("g", {KEYS[0]: number}) for number in range(3)]
    flush = alone.flush(0)
    executor.queue.popleft()()
    failures = [failure(each) for each in [*writes, flush]]
    assert [str(each) for each in failures] == [str(failures[0])] * 4
    assert {type(each) for each in failures} == {DiskFullError}
    assert {each.path for each in failures} == {"offsetlog.flushed"}
    assert len({id(each) for each in failures}) == 4
    assert not later[0].done()
    executor.run()
    assert later[0].result(0).log_offset == 4


def test_an_executor_that_cannot_flush_is_in_the_answer(alone, executor, monkeypatch):
    def refuse(work):
        raise MemoryError("no thread")

    monkeypatch.setattr(executor, "submit", refuse)
    pending = alone.commit_async("g", {KEYS[0]: 1})
    assert isinstance(failure(pending), MemoryError)
    assert isinstance(failure(alone.flush(0)), MemoryError)
    monkeypatch.undo()
    again = alone.commit_async("g", {KEYS[0]: 2})
    executor.run()
    assert again.result(0).log_offset == 1


def test_too_few_replicas_refuse_every_write(replicated):
    replicated.require_replicas(0, 1, enough=False)
    end = replicated.positions(0).log_end
    for call in (
        lambda: replicated.commit_async("g", {KEYS[0]: 9}),
        lambda: replicated.delete("g", KEYS),
        lambda: replicated.delete_async("g", KEYS),
        lambda: replicated.delete_group_async("g"),
        lambda: replicated.fence_async("g"),
    ):
        with pytest.raises(NotEnoughReplicasError):
            call()
    assert replicated.positions(0).log_end == end


# ------------------------------------------------------------------------------------------------------------ the end


def test_stop_answers_what_waits_and_what_was_ordered(tmp_path, executor):
    with leading(tmp_path / "data", executor=executor, replication_factor=3) as manager:
        commit = manager.commit_async("g", {KEYS[0]: 1})
        on_disk = manager.commit_async("g", {KEYS[0]: 2}, durability="disk")
        flush = manager.flush(0)
        manager.advance(0, 1, 1)
    for each in (on_disk,):
        assert isinstance(failure(each), NotCoordinatorError)
    assert commit.done()
    assert isinstance(failure(flush), ClosedError)
    with pytest.raises(ClosedError):
        manager.commit_async("g", {KEYS[0]: 3})


def test_a_callback_may_stop_the_manager(tmp_path):
    stopped = threading.Event()
    with leading(tmp_path / "data") as manager:

        def stop(_):
            manager.stop()
            stopped.set()

        first = manager.commit_async("g", {KEYS[0]: 1})
        first.add_done_callback(stop)
        assert stopped.wait(60)
        assert first.result(0).log_offset == 0
    with leading(tmp_path / "data", executor=ManualExecutor()) as manager:
        assert manager.positions(0).log_end == 1


def test_commits_race_stop_and_each_is_answered_or_refused(tmp_path):
    seed = first_seed()
    draw = random.Random(seed)
    print(f"seed {seed}")
    for round_ in range(by_depth(gate=15, long=200)):
        answered: list[Pending] = []
        with leading(tmp_path / str(round_), partitions=2) as manager:
            begun = threading.Barrier(4)

            def commit(number, manager=manager, answered=answered, begun=begun):
                begun.wait()
                try:
                    while True:
                        answered.append(manager.commit_async(f"g{number}", {KEYS[0]: 1}))
                        answered.append(manager.delete_async(f"g{number}", KEYS))
                except (ClosedError, NotCoordinatorError):
                    pass

            threads = [threading.Thread(target=commit, args=(number,)) for number in range(3)]
            for thread in threads:
                thread.start()
            begun.wait()
            threading.Event().wait(draw.random() / 50)
            manager.stop()
            for thread in threads:
                thread.join()
        # None is left to its timeout, which nobody keeps any more.
        for each in answered:
            with contextlib.suppress(NotCoordinatorError):
                each.result(0)


def test_many_threads_park_and_advance_and_none_waits_for_ever(tmp_path):
    with leading(tmp_path / "data", replication_factor=3) as manager:
        manager.commit("g", {KEYS[0]: 0}, durability="process")
        stop = threading.Event()

        def advance():
            while not stop.is_set():
                manager.advance(0, 1, manager.positions(0).log_end)

        movers = [threading.Thread(target=advance) for _ in range(2)]
        for thread in movers:
            thread.start()
        failures = []

        def commit(number):
            try:
                for value in range(by_depth(gate=1500, long=20_000)):
                    manager.commit_async(f"g{number}", {KEYS[0]: value}, timeout=60).result(120)
            except BaseException as raised:
                failures.append(raised)

        committers = [threading.Thread(target=commit, args=(number,)) for number in range(3)]
        for thread in committers:
            thread.start()
        for thread in committers:
            thread.join()
        stop.set()
        for thread in movers:
            thread.join()
        assert not failures
        assert parked(manager) == 0


# ------------------------------------------------------------------------- refusals that rest on what is in flight


def test_a_refusal_rests_on_what_it_found_and_on_no_more(replicated):
    replicated.commit_async("g", {KEYS[0]: 5})
    replicated.commit_async("g", {KEYS[1]: 5})
    refused = replicated.commit_async("g", {KEYS[0]: 4}, monotonic=True)
    assert refused.position.log_offset == -1
    replicated.advance(0, 1, 2)
    with pytest.raises(RewindError) as caught:
        refused.result(0)
    assert (caught.value.actual, caught.value.rests_on[0]) == (5, 2)
    # From now on the position is replicated, and the refusal is no answer that can change.
    with pytest.raises(RewindError) as caught:
        replicated.commit_async("g", {KEYS[0]: 4}, monotonic=True)
    assert caught.value.rests_on is None
    assert parked(replicated) == 1


def test_a_refusal_that_is_not_settled_in_time_wrote_nothing(replicated, executor):
    replicated.commit_async("g", {KEYS[0]: 5}, timeout=60)
    refused = replicated.commit_async("g", {KEYS[0]: 7}, expected={KEYS[0]: None}, timeout=2)
    executor.pass_time(3)
    with pytest.raises(CommitTimeoutError, match="the call wrote nothing"):
        refused.result(0)
    assert replicated.positions(0).log_end == 2


def test_a_refusal_by_generation_rests_on_what_is_written(replicated):
    generation = replicated.fence_async("g")
    refused = replicated.commit_async("g", {KEYS[0]: 2}, generation=0)
    assert not refused.done()
    replicated.advance(0, 1, replicated.positions(0).log_end)
    assert generation.result(0) > 0
    with pytest.raises(GenerationError):
        refused.result(0)


def test_a_refusal_whose_ground_is_cut_off_was_none(replicated):
    replicated.commit_async("g", {KEYS[0]: 5})
    refused = replicated.commit_async("g", {KEYS[0]: 7}, expected={KEYS[0]: None})
    replicated.become_follower(0, 2)
    with pytest.raises(NotCoordinatorError):
        refused.result(0)
