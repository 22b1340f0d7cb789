"""While ZooKeeper is slow or away, the dual manager commits to the log at once, and ZooKeeper follows later."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from offsetlog import errors
from offsetlog.manager.dual.differences import Difference
from offsetlog.manager.dual.manager import DualManager
from tests.depth import by_depth, first_seed

from .dual_storages import GROUP, KEYS, PATIENCE, Crash, Site

# -------------------------------------------------------------------------------------------------- the log comes first


def test_commits_reach_the_log_at_once_and_the_newest_follows():
    site = Site({KEYS[0]: 1}, {KEYS[0]: 1})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        manager.zookeeper.is_held = True
        pending = [manager.commit_async(GROUP, {KEYS[0]: offset}) for offset in range(2, 50)]
        assert site.stored() == ({KEYS[0]: 49}, {KEYS[0]: 1})
        # Newer ones took the places of all but the one on its way and the last.
        assert [each.done() for each in pending] == [False, *[True] * 46, False]
        assert manager.fetch(GROUP)[KEYS[0]].offset == 49
        assert manager.differences() == []
        manager.zookeeper.answer()
        assert [each.result(PATIENCE).log_partition for each in pending] == [manager.partition_for(GROUP)] * 48
        assert manager.zookeeper.writes == [{KEYS[0]: 2}, {KEYS[0]: 49}]
    assert site.stored() == ({KEYS[0]: 49},) * 2


def test_positions_of_others_do_not_wait():
    site = Site()
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        manager.zookeeper.is_held = True
        manager.commit_async(GROUP, {KEYS[0]: 1, KEYS[1]: 1})
        manager.commit_async(GROUP, {KEYS[1]: 2, KEYS[2]: 2})
        manager.commit_async(GROUP, {KEYS[2]: 3})
        assert manager.zookeeper.writes == [{KEYS[0]: 1, KEYS[1]: 1}, {KEYS[2]: 3}]
        manager.zookeeper.answer()
        assert manager.zookeeper.writes[2:] == [{KEYS[1]: 2}]
    assert site.stored() == ({KEYS[0]: 1, KEYS[1]: 2, KEYS[2]: 3},) * 2


def test_a_commit_whose_place_is_taken_in_part_is_sent_without_it():
    site = Site()
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        manager.zookeeper.is_held = True
        manager.commit_async(GROUP, {KEYS[0]: 1})
        manager.commit_async(GROUP, {KEYS[0]: 2, KEYS[1]: 2})
        manager.commit_async(GROUP, {KEYS[0]: 3})
        assert manager.zookeeper.writes == [{KEYS[0]: 1}, {KEYS[1]: 2}]
        manager.zookeeper.answer()
    assert site.stored() == ({KEYS[0]: 3, KEYS[1]: 2},) * 2


def test_a_commit_is_answered_at_its_timeout_once_the_log_has_it():
    site = Site({KEYS[0]: 1}, {KEYS[0]: 1})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        manager.zookeeper.is_held = True
        manager.commit(GROUP, {KEYS[0]: 2}, timeout=0.05)
        manager.commit(GROUP, {KEYS[0]: 3}, timeout=0.05)
        assert manager.differences() == [Difference(GROUP, "t", 0, 3, 1)]
        assert manager.counters().zookeeper_failures == 2
        manager.zookeeper.answer()
        assert manager.differences() == []
        assert manager.counters().zookeeper_failures == 2
    assert site.stored() == ({KEYS[0]: 3},) * 2


def test_work_that_waits_for_its_turn_keeps_its_timeout():
    site = Site({KEYS[0]: 5}, {KEYS[0]: 5})
    with site.start() as manager:
        manager.zookeeper.is_held = True
        rewind = manager.commit_async(GROUP, {KEYS[0]: 2})
        manager.zookeeper.wait_for_commit()
        waiting: list[Any] = [
            manager.commit_async(GROUP, {KEYS[0]: 3}, timeout=0.05),
            manager.delete_async(GROUP, KEYS, timeout=0.05),
            manager.delete_group_async(GROUP, timeout=0.05),
        ]
        for each in waiting:
            with pytest.raises(errors.CommitTimeoutError, match="nothing was written, and nothing will be written"):
                each.result(PATIENCE)
        manager.commit(GROUP, {KEYS[1]: 1}, timeout=0.05)
        manager.zookeeper.answer()
        rewind.result(PATIENCE)
        manager.zookeeper.is_held = False
        assert manager.fetch(GROUP)[KEYS[0]].offset == 2
    assert site.stored()[0] == {KEYS[0]: 2, KEYS[1]: 1}


def test_calls_that_wait_for_a_thread_keep_their_timeout():
    site = Site({KEYS[0]: 5}, {KEYS[0]: 5})
    with site.start() as manager:
        manager.zookeeper.is_held = True
        groups = [f"g-{number}" for number in range(20)]
        for group in groups:
            manager.log.commit(group, {KEYS[0]: 5})
        begun = [manager.commit_async(group, {KEYS[0]: 2}) for group in groups[:8]]
        late = [manager.commit_async(group, {KEYS[0]: 2}, timeout=0.05) for group in groups[8:]]
        for each in late:
            with pytest.raises(errors.CommitTimeoutError, match="nothing was written"):
                each.result(PATIENCE)
        manager.zookeeper.is_held = False
        manager.zookeeper.answer()
        for each in begun:
            while not each.done():
                manager.zookeeper.answer()
        assert {group: manager.log.fetch(group)[KEYS[0]].offset for group in groups} == {
            **dict.fromkeys(groups[:8], 2),
            **dict.fromkeys(groups[8:], 5),
        }


# -------------------------------------------------------------------------------------------------------------- outages


def outage(site: Site, manager: DualManager) -> None:
    """Has the manager know that ZooKeeper is away."""
    manager.fetch(GROUP, KEYS)
    manager.zookeeper.is_away = True
    manager.commit(GROUP, {KEYS[0]: 2})
    assert manager._queue.is_away


def test_a_known_outage_costs_a_commit_nothing():
    site = Site({KEYS[0]: 1}, {KEYS[0]: 1})
    with site.start() as manager:
        outage(site, manager)
        asked = len(manager.zookeeper.writes)
        manager.zookeeper.is_held = True
        for offset in range(3, 500):
            assert manager.commit_async(GROUP, {KEYS[0]: offset}).done()
        assert len(manager.zookeeper.writes) == asked
        assert len(site.timers) == 1
        assert manager.differences() == [Difference(GROUP, "t", 0, 499, 1)]
        assert manager.counters().zookeeper_failures == 498
        # One try at a time.
        site.pass_time()
        assert manager.zookeeper.writes[asked:] == [{KEYS[0]: 499}]
        assert site.timers == []
        manager.zookeeper.answer()
        assert len(site.timers) == 1
        manager.zookeeper.is_away = manager.zookeeper.is_held = False
        site.pass_time()
        assert (manager.differences(), site.timers) == ([], [])
        assert not manager._queue.is_away
    assert site.stored() == ({KEYS[0]: 499},) * 2


def test_every_group_follows_after_an_outage():
    site = Site()
    groups = [f"group-{number}" for number in range(500)]
    with site.start() as manager:
        for group in groups:
            manager.fetch(group, KEYS)
        outage(site, manager)
        for offset, group in enumerate(groups):
            manager.commit(group, {KEYS[0]: offset, KEYS[1]: 7})
        manager.zookeeper.is_away = False
        site.pass_time()
        assert manager.differences() == []
        for offset, group in enumerate(groups):
            assert site.stored(group) == ({KEYS[0]: offset, KEYS[1]: 7},) * 2


def test_what_follows_late_takes_nothing_back_and_brings_nothing_that_is_gone():
    site = Site()
    with site.start() as manager:
        outage(site, manager)
        manager.commit(GROUP, {KEYS[1]: 5, KEYS[2]: 6})
        manager.zookeeper.is_away = False
        # Another client of ZooKeeper committed more, and a position expired in the log.
        manager.zookeeper.commit(GROUP, {KEYS[1]: 9})
        manager.log.delete(GROUP, [KEYS[2]])
        site.pass_time()
        assert site.stored() == ({KEYS[0]: 2, KEYS[1]: 5}, {KEYS[0]: 2, KEYS[1]: 9})
        assert manager.differences() == [Difference(GROUP, "t", 1, 5, 9)]
        # The next commit knows that.
        manager.commit(GROUP, {KEYS[1]: 7})
        assert manager.counters().rewinds == 1
    assert site.stored() == ({KEYS[0]: 2, KEYS[1]: 7},) * 2


@pytest.mark.parametrize("is_made", [False, True])
def test_a_lost_answer_is_looked_after_at_once(is_made):
    site = Site({KEYS[0]: 1}, {KEYS[0]: 1})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        manager.zookeeper.loses, manager.zookeeper.makes = 1, is_made
        manager.commit(GROUP, {KEYS[0]: 2})
        assert site.stored() == ({KEYS[0]: 2},) * 2
        assert (manager.differences(), manager.counters().zookeeper_failures) == ([], 0)
        assert not manager._queue.is_away


def test_a_refused_write_does_not_keep_others_back():
    site = Site()
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        write = manager.zookeeper.write

        def refuse(group: str, changes: dict[Any, Any]) -> None:
            if KEYS[1] in changes:
                raise errors.TooLargeError("too large")
            write(group, changes)

        manager.zookeeper.write = refuse
        manager.commit(GROUP, {KEYS[1]: 1})
        manager.commit(GROUP, {KEYS[0]: 1})
        assert manager.differences() == [Difference(GROUP, "t", 1, 1, None)]
        outage(site, manager)
        manager.commit(GROUP, dict.fromkeys(KEYS, 3))
        manager.zookeeper.is_away = False
        site.pass_time()
        assert manager.differences() == [Difference(GROUP, "t", 1, 3, None)]
        assert (manager._queue.is_away, site.timers) == (False, [])
    assert site.stored() == (dict.fromkeys(KEYS, 3), {KEYS[0]: 3, KEYS[2]: 3})


def test_what_needs_zookeeper_is_refused_at_once_in_an_outage():
    site = Site()
    with site.start() as manager:
        outage(site, manager)
        calls = {
            "a rewind": lambda: manager.commit(GROUP, {KEYS[0]: 0}),
            "a position never seen": lambda: manager.commit("other", {KEYS[0]: 0}),
            "a delete": lambda: manager.delete(GROUP, KEYS),
            "a removal": lambda: manager.delete_group(GROUP),
        }
        for name, call in calls.items():
            with pytest.raises(errors.ZooKeeperUnavailableError, match="nothing was written; try again") as caught:
                call()
            assert caught.value.retriable, name
        assert site.stored()[0] == {KEYS[0]: 2}


def test_a_commit_of_which_the_log_is_not_sure_is_a_difference():
    site = Site({KEYS[0]: 1}, {KEYS[0]: 1})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        manager.log.is_unsure = True
        manager.zookeeper.is_held = True
        with pytest.raises(errors.CommitTimeoutError):
            manager.commit(GROUP, {KEYS[0]: 2})
        assert manager.differences() == [Difference(GROUP, "t", 0, 2, 1)]
        # The log has it, and ZooKeeper gets it.
        manager.zookeeper.answer()
        assert manager.differences() == []
    assert site.stored() == ({KEYS[0]: 2},) * 2


def test_fetches_that_wait_in_an_outage_are_bounded(monkeypatch):
    monkeypatch.setattr("offsetlog.manager.dual.manager.FETCHES_AWAY_MAX", 2)
    site = Site()
    with site.start() as manager:
        outage(site, manager)
        looks = manager._both.looks
        away = pytest.raises(errors.ZooKeeperUnavailableError, match="2 fetches already wait")
        with looks.at("a"), looks.at("b"), away:
            manager.fetch(GROUP)
        assert looks.count == 0
        manager.zookeeper.is_away = False
        assert manager.fetch(GROUP)[KEYS[0]].offset == 2


# -------------------------------------------------------------------------------------- rewinds and deletes beside it


@pytest.mark.parametrize("kind", ["rewind", "delete", "delete_group"])
@pytest.mark.parametrize("answer", ["made", "lost", "lost but made"])
def test_what_is_taken_back_is_not_brought_again(kind, answer):
    site = Site({KEYS[0]: 1}, {KEYS[0]: 1})
    with site.start() as manager:
        zookeeper = manager.zookeeper
        manager.fetch(GROUP, KEYS)
        zookeeper.is_held = True
        commits = [manager.commit_async(GROUP, {KEYS[0]: offset}) for offset in (5, 6)]
        back: Any = {
            "rewind": lambda: manager.commit_async(GROUP, {KEYS[0]: 2}),
            "delete": lambda: manager.delete_async(GROUP, KEYS[:1]),
            "delete_group": lambda: manager.delete_group_async(GROUP),
        }[kind]()
        commits[1].result(PATIENCE)  # its positions are taken out of the queue
        zookeeper.loses, zookeeper.makes = answer != "made", answer == "lost but made"
        zookeeper.is_held = False
        zookeeper.answer()
        back.result(PATIENCE)
        for each in commits:
            each.result(PATIENCE)
        assert site.stored() == (({KEYS[0]: 2},) * 2 if kind == "rewind" else ({}, {}))
        # A lost answer is looked after, with what the log has then, before anything goes back.
        assert ({KEYS[0]: 6} in zookeeper.writes) == (answer != "made")
        assert (manager.differences(), manager._queue.is_busy(GROUP)) == ([], False)


def test_what_is_late_does_not_come_while_it_is_taken_back():
    site = Site()
    with site.start() as manager:
        zookeeper = manager.zookeeper
        for group in ("other", GROUP):
            manager.fetch(group, KEYS)
        zookeeper.is_held = True
        for group in ("other", GROUP):
            manager.commit_async(group, {KEYS[0]: 6})
        zookeeper.loses = 2
        zookeeper.answer(2)
        # Both are late, and the first one is on its way.
        assert (len(zookeeper.held), manager._queue.is_busy(GROUP)) == (1, True)
        commit = manager.log.commit

        def commit_after_the_other(*given: Any, **more: Any) -> Any:
            zookeeper.is_held = False
            zookeeper.answer()
            return commit(*given, **more)

        manager.log.commit = commit_after_the_other
        rewind = manager.commit_async(GROUP, {KEYS[0]: 2})
        manager.zookeeper.wait_for_commit(2)
        zookeeper.held.rotate()
        zookeeper.answer(1)
        rewind.result(PATIENCE)
        assert site.stored("other") == ({KEYS[0]: 6},) * 2
    assert site.stored() == ({KEYS[0]: 2},) * 2


@pytest.mark.parametrize("is_made", [False, True])
def test_a_rewind_that_fails_leaves_what_was_to_follow(is_made):
    site = Site({KEYS[0]: 1}, {KEYS[0]: 1})
    with site.start() as manager:
        outage(site, manager)
        manager.zookeeper.is_away = False
        manager._queue._is_away = False
        # It withdraws what is late, and then its own answer is lost.
        manager.zookeeper.loses, manager.zookeeper.makes = 1, is_made
        with pytest.raises(errors.UnknownOutcomeError):
            manager.commit(GROUP, {KEYS[0]: 0})
        assert site.stored() == ({KEYS[0]: 2},) * 2
        assert manager.differences() == []


def test_what_waits_is_dropped_with_leadership_and_says_nothing_about_the_next():
    site = Site({KEYS[0]: 1}, {KEYS[0]: 1})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        manager.zookeeper.is_held = True
        commits = [manager.commit_async(GROUP, {KEYS[0]: offset}) for offset in (5, 6)]
        partition = manager.partition_for(GROUP)
        manager.resign(partition, 1)
        assert commits[1].done()
        assert not commits[0].done()
        manager.become_leader(partition, 2)
        # Another process led meanwhile.
        for each in (manager.log, manager.zookeeper):
            each.kept[GROUP] = {KEYS[0]: manager.log.kept[GROUP][KEYS[0]]._replace(offset=20)}
        manager.zookeeper.answer()
        commits[0].result(PATIENCE)
        assert manager._differences.last_in_zookeeper(GROUP, KEYS[:1]) is None
        assert (manager.differences(), manager._queue.is_busy(GROUP)) == ([], False)


def test_a_deleted_topic_is_not_brought_again():
    site = Site()
    with site.start() as manager:
        outage(site, manager)
        manager.zookeeper.is_away = False
        manager.on_topic_deleted(["t"])
        assert manager.differences() == []
        site.pass_time()
    assert site.stored() == ({}, {})


@pytest.mark.parametrize("has_it", [False, True])
def test_what_goes_forward_beside_a_rewind_reaches_zookeeper_where_the_log_failed(monkeypatch, has_it):
    start = {KEYS[0]: 90, KEYS[1]: 10}
    site = Site(start, start)
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        manager.zookeeper.is_away = True
        manager.commit(GROUP, {KEYS[1]: 20})
        manager.zookeeper.is_away = manager._queue._is_away = False  # 20 is late
        real = manager.log.commit

        def commit(*given, **more):
            if not has_it:
                raise errors.StorageError("the disk is full")
            real(*given, **more)
            raise errors.CommitTimeoutError("not known to be on disk in time")

        monkeypatch.setattr(manager.log, "commit", commit)
        with pytest.raises(errors.DifferenceError):
            manager.commit(GROUP, {KEYS[0]: 50, KEYS[1]: 30})
        log, zookeeper = site.stored()
        assert zookeeper == {KEYS[0]: 50, KEYS[1]: 30 if has_it else 20}
        assert log == (zookeeper if has_it else {KEYS[0]: 90, KEYS[1]: 20})
        expected = [] if has_it else [Difference(GROUP, *KEYS[0], log=90, zookeeper=50)]
        assert manager.differences() == expected


def test_a_commit_with_a_rewind_is_answered_though_its_time_ended_before_the_log_had_it(monkeypatch):
    start = {KEYS[0]: 90, KEYS[1]: 1}
    with Site(start, start).start() as manager:
        manager.fetch(GROUP, KEYS)
        monkeypatch.setattr(type(manager._calls), "are_busy", True)
        timers = []

        def call_later(_, call):
            timers.append(call)
            return threading.Timer(0, call)

        monkeypatch.setattr(manager._calls, "call_later", call_later)
        manager.zookeeper.is_held = True
        work = manager.commit_async(GROUP, {KEYS[0]: 50, KEYS[1]: 7}, timeout=60)
        manager.zookeeper.wait_for_commit()
        work._deadline = 0  # type: ignore[attr-defined]
        for each in timers:
            each()
        assert timers
        assert not work.done()
        manager.zookeeper.answer(1)  # ZooKeeper has what goes back; what goes forward is held
        work.result(PATIENCE)
        assert manager.differences() == [Difference(GROUP, *KEYS[1], log=7, zookeeper=1)]
        manager.zookeeper.is_held = False
        manager.zookeeper.answer()
        assert manager.differences() == []


# ---------------------------------------------------------------------------------------------- a crash at every write


class Model:
    """The positions that fetches may answer: those of now, and those after a call that may have been made."""

    def __init__(self, start: dict[Any, int]) -> None:
        self.now = start

    def after(self, step: tuple[str, Any]) -> dict[Any, int]:
        kind, given = step
        if kind == "commit":
            return {**self.now, **given}
        if kind == "delete":
            return {key: value for key, value in self.now.items() if key not in given}
        return {} if kind == "delete_group" else self.now


def random_steps(rng: random.Random, count: int) -> list[tuple[str, Any]]:
    """Commits forward and back, deletes, outages, lost answers, slow answers, and the time that passes."""
    steps: list[tuple[str, Any]] = []
    high = 5
    for _ in range(count):
        kind = rng.choices(
            ["commit", "back", "delete", "delete_group", "away", "lose", "hold", "pass"], [8, 2, 1, 0.5, 2, 2, 2, 3]
        )[0]
        high += 1
        keys = rng.sample(KEYS, rng.randint(1, 3))
        if kind == "commit":
            steps.append(("commit", dict.fromkeys(keys, high)))
        elif kind == "back":
            steps.append(("commit", {key: rng.randrange(high) for key in keys}))
        elif kind == "delete":
            steps.append(("delete", keys))
        else:
            steps.append((kind, rng.random() < 0.5))
    return steps


def take(site: Site, manager: DualManager, step: tuple[str, Any]) -> None:
    zookeeper, (kind, given) = manager.zookeeper, step
    if kind == "away":
        zookeeper.is_away = given
    elif kind == "lose":
        zookeeper.loses, zookeeper.makes = 1, given
    elif kind == "hold":
        zookeeper.is_held = given
        if not given:
            zookeeper.answer()
    elif kind == "pass":
        site.pass_time()
        zookeeper.answer()
    else:
        pending: Any = {
            "commit": lambda: manager.commit_async(GROUP, given),
            "delete": lambda: manager.delete_async(GROUP, given),
            "delete_group": lambda: manager.delete_group_async(GROUP),
        }[kind]()
        while not pending.done():
            if zookeeper.is_held and getattr(pending, "followed", None) is not None:
                return  # the log has it, and ZooKeeper is slow
            zookeeper.answer()
        pending.result(PATIENCE)


def run(site: Site, steps: list[tuple[str, Any]], crash: Crash, start: dict[Any, int]) -> None:
    """Takes the steps up to the crash, and sees after each of them what a fetch answers."""
    model = Model(start)
    before = after = model.now
    with site.start(crash) as manager:
        manager.fetch(GROUP, KEYS)
        for step in steps:
            before, after = model.now, model.after(step)
            failed = False
            try:
                take(site, manager, step)
            except errors.OffsetLogError:
                failed = True
            if crash.is_over:
                break
            model.now = before if failed else after
            assert site.fetched() == model.now, (step, failed)
        else:
            before = after = model.now
            failed = False
            finish(site, manager)
            if not crash.is_over:
                log, zookeeper = site.stored()
                assert log == zookeeper == model.now
                assert manager.differences() == []
    found = site.fetched()
    assert found in ((before, after) if failed else (after,)), (step, failed, before, after, found)


def finish(site: Site, manager: DualManager) -> None:
    """Has ZooKeeper answer everything, and follow."""
    zookeeper = manager.zookeeper
    zookeeper.is_away, zookeeper.loses, zookeeper.is_held = False, 0, False
    zookeeper.answer()
    while site.timers:
        site.pass_time()


def test_a_crash_at_every_write_leaves_what_was_answered():
    seed = first_seed(random.randrange(2**32))
    print(f"seed {seed}")
    rng = random.Random(seed)
    crashes = 0
    for case in range(by_depth(gate=12, long=400)):
        steps = random_steps(rng, 12)
        start = {key: rng.randrange(5) for key in KEYS}
        whole = Crash()
        whole = Crash()
        crashed = [whole]
        try:
            run(Site(start, start), steps, whole, start)
            for number in range(whole.count):
                for is_after in (False, True):
                    crashed.append(Crash(number, is_after=is_after))
                    run(Site(start, start), steps, crashed[-1], start)
        except BaseException:
            print(f"case {case} of seed {seed}: {start} {steps}, crash {vars(crashed[-1])}")
            raise
        crashes += sum(each.is_over for each in crashed)
    assert crashes > 100


def test_a_write_whose_answer_is_lost_beside_a_rewind_does_not_come_after_it():
    """It ends between a look at what waits and one at what is on its way, were these two."""
    site = Site({KEYS[0]: 90}, {KEYS[0]: 90})
    with site.start() as manager:
        manager.fetch(GROUP, KEYS)
        zookeeper, queue = manager.zookeeper, manager._queue
        zookeeper.is_held = True
        manager.commit_async(GROUP, {KEYS[0]: 100})
        late_may_go, ended = threading.Event(), threading.Event()
        send_late, withdraw = queue._send_late, queue._withdraw

        def hold_late(**named: Any) -> Any:
            if threading.current_thread().name == "answers":
                ended.set()
                assert late_may_go.wait(PATIENCE)
            return send_late(**named)

        def lose_the_answer() -> None:
            zookeeper.loses, zookeeper.makes = 1, True
            zookeeper.answer(1)

        def withdraw_then_end(*given: Any) -> Any:
            found = withdraw(*given)
            if not answers.is_alive() and not ended.is_set():
                answers.start()
                assert ended.wait(PATIENCE)
            return found

        def commit_after_the_late_write(*given: Any, **named: Any) -> Any:
            # ZooKeeper went back already, and the log still has what a late write brings there.
            late_may_go.set()
            answers.join(PATIENCE)
            return commit(*given, **named)

        answers = threading.Thread(target=lose_the_answer, name="answers", daemon=True)
        queue._send_late, queue._withdraw = hold_late, withdraw_then_end
        commit, manager.log.commit = manager.log.commit, commit_after_the_late_write
        rewind = manager.commit_async(GROUP, {KEYS[0]: 50})
        zookeeper.is_held = False
        rewind.result(PATIENCE)
        zookeeper.answer()
        assert manager.fetch(GROUP)[KEYS[0]].offset == 50
    assert site.stored() == ({KEYS[0]: 50},) * 2
