"""Work of a group that touches the same positions is done in the order in which it was asked for."""

from __future__ import annotations

import random
from collections import deque

import pytest

from offsetlog._native.completion import Completion
from offsetlog.errors import StorageError
from offsetlog.manager.turns import Turns
from offsetlog.manager.work import Work
from offsetlog.types import TopicPartition

KEYS = [TopicPartition("t", number) for number in range(4)]


def work_of() -> Work[None]:
    def steps(_):
        yield []

    return Work(steps, lambda _: None)


def test_what_touches_the_same_has_its_turn_in_order():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    turns, begun, under_way, names = Turns(), [], deque(), {}

    def begin(works):
        for each in works:
            begun.append(each)
            under_way.append(each)

    asked, left = [], set()
    for _ in range(2000):
        if rng.random() < 0.5 or not under_way:
            group = f"g-{rng.randrange(3)}"
            keys = None if rng.random() < 0.1 else frozenset(rng.sample(KEYS, rng.randrange(1, 4)))
            work = work_of()
            names[work] = len(asked), group, keys
            asked.append(work)
            if turns.add(group, keys, work):
                begin([work])
        elif rng.random() < 0.4:
            # Its time is over before its turn came.
            leaving = rng.choice(asked[-20:])
            is_waiting = leaving not in left and leaving not in begun
            following = turns.leave(leaving)
            assert (following is not None) == is_waiting
            if following is not None:
                left.add(leaving)
                begin(following)
        else:
            under_way.rotate(rng.randrange(len(under_way)))
            ended = under_way.popleft()
            begin(turns.end(ended))
        running = [names[each] for each in under_way]
        for index, one in enumerate(running):
            assert not any(touch(one, other) for other in running[index + 1 :])
    while under_way:
        begin(turns.end(under_way.popleft()))
    stayed = [each for each in asked if each not in left]
    assert len(left) > 50
    assert set(begun) == set(stayed)
    assert len(begun) == len(stayed)
    order = {work: place for place, work in enumerate(begun)}
    for index, first in enumerate(stayed):
        for second in stayed[index + 1 : index + 40]:
            if touch(names[first], names[second]):
                assert order[first] < order[second]
    # Nothing is kept of what has ended.
    assert (turns._groups, turns._turns) == ({}, {})


def touch(one, other) -> bool:
    return one[1] == other[1] and (one[2] is None or other[2] is None or bool(one[2] & other[2]))


def test_what_touches_other_groups_or_positions_waits_for_nothing():
    turns = Turns()
    assert turns.add("g", KEYS[:2], work_of())
    assert turns.add("g", KEYS[2:], work_of())
    assert turns.add("h", None, work_of())
    assert not turns.add("g", KEYS[1:3], work_of())


def chain_of(turns, count, steps):
    """Work on one position, each of which passes its turn on; the first one has its turn."""
    works = [Work(steps, turns.pass_on) for _ in range(count)]
    assert [turns.add("g", KEYS[:1], each) for each in works] == [True] + [False] * (count - 1)
    return works


def test_thousands_that_end_as_they_begin_pass_their_turns_on():
    def refused(_):
        yield []
        raise StorageError("refused")

    turns = Turns()
    works = chain_of(turns, 5000, refused)
    works[0].go_on()
    for each in works:
        with pytest.raises(StorageError, match="refused"):
            each.result(0)
    assert not turns.is_busy("g")


def test_an_interrupt_of_one_keeps_no_other_from_its_turn():
    begun = []

    def steps(work):
        begun.append(work)
        yield []
        if work is works[2]:
            raise KeyboardInterrupt

    turns = Turns()
    works = chain_of(turns, 6, steps)
    with pytest.raises(KeyboardInterrupt):
        works[0].go_on()
    assert begun == works
    assert all(each.done() for each in works)
    assert not turns.is_busy("g")


def test_work_goes_on_once_all_answers_are_there_and_ends_once():
    ended = []
    answers = [Completion() for _ in range(3)]

    def steps(work):
        yield answers[:2]
        yield []
        yield answers[2:]
        work.check()
        return 5

    work = Work(steps, ended.append)
    work.go_on()
    answers[1].succeed(None)
    answers[2].succeed(None)
    assert (ended, work.done()) == ([], False)
    answers[0].succeed(None)
    assert (ended, work.result(0)) == ([work], 5)


def test_work_that_was_answered_meanwhile_ends_at_its_next_question():
    ended, answer = [], Completion()
    passed = []

    def steps(work):
        yield [answer]
        work.check()
        passed.append(work)

    work = Work(steps, ended.append)
    work.go_on()
    work.fail(TimeoutError())
    assert ended == []
    answer.succeed(None)
    assert (ended, passed) == ([work], [])


def test_an_interrupt_ends_the_work_that_it_hits():
    ended = []

    def steps(_):
        yield []
        raise KeyboardInterrupt

    work = Work(steps, ended.append)
    with pytest.raises(KeyboardInterrupt):
        work.go_on()
    assert ended == [work]
    with pytest.raises(StorageError, match="KeyboardInterrupt"):
        work.result(0)
