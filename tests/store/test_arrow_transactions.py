"""Columns that are written into transactions, one in each log partition."""

from __future__ import annotations

import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import offsetlog
from offsetlog import TopicPartition, errors
from offsetlog._native.commit_columns import write_in_transaction

from .test_arrow import actual_state, batch, expected_state, random_rows

PRODUCER = 4000


def admit_all(number: int) -> bool:
    return True


def end(store: offsetlog.OffsetStore, *, commit: bool) -> None:
    core = store._open_core
    for found in store.transactions():
        core.ready(found.log_partition).end_transaction(found.producer_id, found.producer_epoch, commit)


@pytest.mark.parametrize("threads", [None, 3])
@pytest.mark.parametrize("seed", range(5))
def test_columns_take_effect_when_the_transaction_ends(store, seed, threads):
    draw = random.Random(seed)
    pool = None if threads is None else ThreadPoolExecutor(threads)
    model: dict[str, dict[TopicPartition, int]] = {}
    for _ in range(20):
        commits = draw.random() < 0.6
        pending: dict[str, dict[TopicPartition, int]] = {}
        for _ in range(1 + draw.randrange(3)):
            rows = random_rows(1 + draw.randrange(300 if pool is None else 9000), draw.randrange(2**31))
            before = actual_state(store)
            assert write_in_transaction(store._open_core, batch(rows), PRODUCER, 0, admit_all, pool=pool) == len(rows)
            assert actual_state(store) == before == model
            for group, state in expected_state(rows).items():
                pending.setdefault(group, {}).update(state)
        end(store, commit=commits)
        if commits:
            for group, state in pending.items():
                model.setdefault(group, {}).update(state)
        assert actual_state(store) == model
    assert store.transactions() == []
    assert store.verify() == []


def test_log_partitions_that_are_not_admitted_are_left_out(store):
    core = store._open_core
    rows = random_rows(5000, groups=200)
    asked: list[int] = []

    def admit(number: int) -> bool:
        asked.append(number)
        return number % 2 == 0

    admitted = [row for row in rows if core.number_of(row[0]) % 2 == 0]
    assert 0 < len(admitted) < len(rows)
    assert write_in_transaction(core, batch(rows), PRODUCER, 0, admit) == len(admitted)
    assert sorted(asked) == sorted({core.number_of(row[0]) for row in rows})
    end(store, commit=True)
    assert actual_state(store) == expected_state(admitted)
    assert store.verify() == []


def test_a_refusal_to_admit_writes_nothing_there(store):
    core = store._open_core

    def admit(number: int) -> bool:
        raise KeyError(number)

    with pytest.raises(KeyError):
        write_in_transaction(core, batch(random_rows(100)), PRODUCER, 0, admit)
    assert store.transactions() == []
    assert actual_state(store) == {}


def test_a_failure_in_one_log_partition_leaves_what_the_others_wrote_in_their_transactions(store):
    # The rows of one batch are written side by side; each transaction is whole, or is to be aborted.
    core = store._open_core
    rows = random_rows(20_000, groups=200)
    numbers = sorted({core.number_of(row[0]) for row in rows})
    fenced = numbers[1]
    core.ready(fenced).end_transaction(*open_transaction(store, fenced, epoch=5), True)
    with ThreadPoolExecutor(3) as pool, pytest.raises(errors.FencedError):
        write_in_transaction(core, batch(rows), PRODUCER, 2, admit_all, pool=pool)
    assert {found.log_partition for found in store.transactions()} == set(numbers) - {fenced}
    assert len(actual_state(store)) == 1
    end(store, commit=True)
    written = [row for row in rows if core.number_of(row[0]) != fenced]
    left = actual_state(store)
    assert {group: left[group] for group in expected_state(written)} == expected_state(written)
    assert store.verify() == []


class _Interrupted(ThreadPoolExecutor):
    """A pool whose caller is interrupted while a share is handed over to a thread, or while it waits for the shares."""

    def __init__(self, *, at_once: bool) -> None:
        super().__init__(8)
        self.at_once = at_once
        self.submitted = 0

    def submit(self, call, *given, **named):
        self.submitted += 1
        if self.at_once:
            return self._submit_interrupted(call)
        first = self.submitted == 1

        def late():
            time.sleep(0.02 if first else 0.05)
            if first:
                signal.raise_signal(signal.SIGINT)
            call()

        return super().submit(late)

    def _submit_interrupted(self, call):
        begun = threading.Event()

        def write():
            begun.set()
            call()

        super().submit(write)
        begun.wait()
        raise KeyboardInterrupt


@pytest.mark.parametrize("at_once", [True, False], ids=["while a share is handed over", "while it waits"])
def test_an_interrupt_is_raised_when_no_thread_writes_any_more(store, at_once):
    # An interrupt that comes while a share is handed over leaves a share in the pool without a future that anybody has.
    rows = random_rows(200_000, groups=200)
    with _Interrupted(at_once=at_once) as pool:
        with pytest.raises(KeyboardInterrupt):
            write_in_transaction(store._open_core, batch(rows), PRODUCER, 0, admit_all, pool=pool)
        left = store.transactions()
        assert pool.submitted > 0
    assert store.transactions() == left
    end(store, commit=False)
    assert store.transactions() == []
    assert actual_state(store) == {}
    assert store.verify() == []


def open_transaction(store: offsetlog.OffsetStore, number: int, epoch: int) -> tuple[int, int]:
    core = store._open_core
    group = next(name for name in (f"of {at}" for at in range(10_000)) if core.number_of(name) == number)
    write_in_transaction(core, batch([(group, "t", 0, 1)]), PRODUCER, epoch, admit_all)
    return PRODUCER, epoch


def test_a_group_that_is_larger_than_a_batch_is_one_transaction(path):
    config = offsetlog.StoreConfig(segment_bytes=1 << 20)
    rows = [("g", "t", number % 20_000, number) for number in range(60_000)]
    with offsetlog.open(path, 1, "process", config=config) as store:
        assert write_in_transaction(store._open_core, batch(rows), PRODUCER, 0, admit_all) == len(rows)
        assert store.fetch("g") == {}
        assert [(found.producer_id, found.groups) for found in store.transactions()] == [(PRODUCER, ("g",))]
        end(store, commit=True)
        assert {key.partition: value.offset for key, value in store.fetch("g").items()} == {
            number: number + 40_000 for number in range(20_000)
        }
        assert store.verify() == []
        wanted = store.digest()
    with offsetlog.open(path) as store:
        assert store.digest() == wanted


def test_what_is_refused_writes_nothing(store):
    core = store._open_core
    with pytest.raises(errors.OffsetError, match="row 1") as refused:
        write_in_transaction(core, batch([("g", "t", 0, 1), ("g", "t", 1, -5)]), PRODUCER, 0, admit_all)
    assert refused.value.item == 1
    for producer_id, epoch in ((-1, 0), (7, -1)):
        with pytest.raises(errors.InvalidArgumentError, match="producer id"):
            write_in_transaction(core, batch([("g", "t", 0, 1)]), producer_id, epoch, admit_all)
    assert store.transactions() == []
    with store.transaction("g", PRODUCER, 3) as transaction:
        transaction.commit({TopicPartition("t", 0): 1})
    with pytest.raises(errors.FencedError):
        write_in_transaction(core, batch([("g", "t", 0, 2)]), PRODUCER, 2, admit_all)
    assert store.fetch("g")[TopicPartition("t", 0)].offset == 1
