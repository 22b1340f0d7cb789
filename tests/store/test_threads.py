from __future__ import annotations

import threading
import time

import pytest

import offsetlog
from offsetlog import TopicPartition, errors


def run_all(*calls):
    """Runs each call in a thread of its own and raises what the first of them raised."""
    failures = []
    barrier = threading.Barrier(len(calls))

    def run(call):
        barrier.wait()
        try:
            call()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_eight_threads_over_all_partitions(path, durability):
    rounds = 2000 if durability == "process" else 30

    def work(store, name):
        for number in range(rounds):
            store.commit_one(f"{name}-{number % 60}", "t", 0, number)
            store.commit("shared", {TopicPartition(name, number % 5): number})
            assert store.fetch_one("shared", name, number % 5).offset == number

    with offsetlog.open(path, durability=durability) as store:
        run_all(*(lambda name=f"thread{number}": work(store, name) for number in range(8)))
        assert len(store.fetch("shared")) == 40
        digest = store.digest(physical=True)
        assert store.verify() == []
    with offsetlog.open(path) as store:
        assert store.digest(physical=True) == digest


def test_threads_make_a_directory_once(path):
    for attempt in range(5):
        with offsetlog.open(path / str(attempt), durability="process") as store:
            run_all(*(lambda number=number: store.commit_one("g", "t", number, 1) for number in range(8)))
            assert len(store.fetch("g")) == 8


def test_conditional_commits_are_a_compare_and_swap(store):
    key = TopicPartition("t", 0)
    store.commit("g", {key: 0})

    def count():
        for _ in range(100):
            while True:
                now = store.fetch_one("g", "t", 0).offset
                try:
                    store.commit("g", {key: now + 1}, expected={key: now})
                    break
                except errors.ExpectedOffsetError:
                    continue

    run_all(*[count] * 4)
    assert store.fetch_one("g", "t", 0).offset == 400


def test_readers_never_see_half_a_commit(store):
    keys = [TopicPartition("t", number) for number in range(50)]
    store.commit("g", dict.fromkeys(keys, 0))
    ended = threading.Event()

    def write():
        for number in range(500):
            store.commit("g", dict.fromkeys(keys, number))
        ended.set()

    def read():
        while not ended.is_set():
            assert len({value.offset for value in store.fetch("g").values()}) == 1
            assert len(set(store.fetch_arrow(["g"]).column("offset").to_pylist())) == 1

    run_all(write, read, read)


def test_close_waits_for_calls_under_way(path):
    store = offsetlog.open(path, durability="disk")
    store.commit_one("g", "t", 0, 0)
    done = []

    def work():
        number = 0
        while True:
            try:
                store.commit_one("g", "t", 0, number)
            except errors.ClosedError:
                return
            done.append(number)
            number += 1

    def close():
        time.sleep(0.2)
        store.close()

    run_all(work, work, close)
    with offsetlog.open(path) as store:
        assert store.fetch_one("g", "t", 0).offset in done
        assert not any(found["recovered"] for found in store.recoveries().values())


def test_waiting_for_the_disk_lets_others_run(path):
    ticks = 0
    ended = threading.Event()

    def work(store):
        for number in range(50):
            store.commit_one("g", "t", 0, number)
        ended.set()

    def tick():
        nonlocal ticks
        while not ended.is_set():
            ticks += 1

    with offsetlog.open(path, durability="disk") as store:
        run_all(lambda: work(store), tick)
    assert ticks > 0
