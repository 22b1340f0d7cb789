"""The answers of a manager when connections break, sessions end and servers go."""

from __future__ import annotations

import random
import threading

import pytest

from offsetlog import errors
from offsetlog.manager.zookeeper.manager import ZooKeeperManager
from offsetlog.types import TopicPartition

from .ensemble import Ensemble
from .managers import PATIENCE, leading
from .proxy import OP_MULTI, Answering, Cut, CuttingProxy, outlast_session

KEYS = [TopicPartition("orders", number) for number in range(4)]


@pytest.fixture
def proxy(ensemble):
    with CuttingProxy(ensemble.ports[0]) as running:
        yield running


@pytest.fixture
def manager(proxy, root):
    """One that reaches the ensemble through the proxy."""
    with leading(f"127.0.0.1:{proxy.port}{root}") as made:
        yield made


def offsets_of(manager: ZooKeeperManager, group: str = "g") -> dict[TopicPartition, int]:
    return {key: value.offset for key, value in manager.fetch(group).items()}


def disconnect(manager: ZooKeeperManager, proxy: CuttingProxy) -> None:
    """Has no server reachable, and returns once the manager knows."""
    noticed = threading.Event()
    manager._session.connection.add_state_listener(lambda state: state == "suspended" and noticed.set())
    proxy.refuse(True)
    assert noticed.wait(PATIENCE)


# ------------------------------------------------------------------------------------------- cut in the middle of it


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("moment", list(Cut))
def test_a_commit_whose_connection_is_cut_is_made_as_a_whole_or_not_at_all(manager, proxy, moment, is_there):
    before = dict.fromkeys(KEYS, 1) if is_there else {}
    if is_there:
        manager.commit("g", before)
    # Where nothing is there, the first transaction is refused, and the second one makes the nodes.
    proxy.cut_next(OP_MULTI, moment, after=0 if is_there else 1)
    with pytest.raises(errors.UnknownOutcomeError) as caught:
        manager.commit("g", dict.fromkeys(KEYS, 5))
    assert (proxy.cuts, caught.value.retriable, caught.value.error_code) == (1, True, 15)
    assert "may or may not" in str(caught.value)
    assert offsets_of(manager) == (dict.fromkeys(KEYS, 5) if moment is Cut.AFTER else before)
    manager.commit("g", dict.fromkeys(KEYS, 6))
    assert offsets_of(manager) == dict.fromkeys(KEYS, 6)


def test_after_an_answer_that_nobody_understands_the_position_can_be_committed_and_given_up(ensemble, root):
    with Answering(ensemble.ports[0]) as proxy, leading(f"127.0.0.1:{proxy.port}{root}") as manager:
        manager.commit("g", {KEYS[0]: 1})
        proxy.code = -999
        with pytest.raises(errors.UnknownOutcomeError):
            manager.commit("g", {KEYS[0]: 2}, timeout=PATIENCE / 2)
        manager.commit("g", {KEYS[0]: 3})
        assert offsets_of(manager) == {KEYS[0]: 3}
        manager.resign(manager.partition_for("g"), 2).result(PATIENCE)


def test_a_plain_commit_is_not_sent_again_over_what_others_committed_since(manager, proxy, hosts):
    manager.commit("g", {KEYS[0]: 1})
    with leading(hosts) as other:
        seen = threading.Event()

        def commit_elsewhere(state: str) -> None:
            if state == "suspended":
                seen.set()

        manager._session.connection.add_state_listener(commit_elsewhere)
        proxy.cut_next(OP_MULTI, Cut.AFTER)
        pending = manager.commit_async("g", {KEYS[0]: 2})
        assert seen.wait(PATIENCE)
        other.commit("g", {KEYS[0]: 3}, expected={KEYS[0]: 2})
        with pytest.raises(errors.UnknownOutcomeError):
            pending.result(PATIENCE)
        assert offsets_of(manager) == {KEYS[0]: 3}


@pytest.mark.parametrize("conditions", [{"monotonic": True}, {"expected": {KEYS[0]: 1}}])
@pytest.mark.parametrize("moment", [Cut.BEFORE, Cut.WITHIN])
def test_a_conditional_commit_that_was_not_made_is_sent_again(manager, proxy, moment, conditions):
    manager.commit("g", dict.fromkeys(KEYS[:2], 1))
    proxy.cut_next(OP_MULTI, moment)
    manager.commit("g", dict.fromkeys(KEYS[:2], 5), **conditions)
    assert proxy.cuts == 1
    assert offsets_of(manager) == dict.fromkeys(KEYS[:2], 5)


def test_a_conditional_commit_that_may_have_been_made_is_unknown(manager, proxy):
    manager.commit("g", {KEYS[0]: 1})
    proxy.cut_next(OP_MULTI, Cut.AFTER)
    with pytest.raises(errors.UnknownOutcomeError):
        manager.commit("g", {KEYS[0]: 5}, expected={KEYS[0]: 1})
    assert offsets_of(manager) == {KEYS[0]: 5}
    # One that makes its node leaves nothing to compare when it is cut.
    proxy.cut_next(OP_MULTI, Cut.BEFORE)
    with pytest.raises(errors.UnknownOutcomeError):
        manager.commit("g", {KEYS[1]: 5}, expected={KEYS[1]: None})
    assert offsets_of(manager) == {KEYS[0]: 5}


@pytest.mark.parametrize("moment", list(Cut))
def test_a_delete_whose_connection_is_cut_is_unknown_and_can_be_repeated(manager, proxy, moment):
    manager.commit("g", dict.fromkeys(KEYS, 1))
    proxy.cut_next(OP_MULTI, moment)
    with pytest.raises(errors.UnknownOutcomeError):
        manager.delete("g", KEYS[:2])
    manager.delete("g", KEYS[:2])
    assert offsets_of(manager) == dict.fromkeys(KEYS[2:], 1)
    proxy.cut_next(OP_MULTI, moment)
    with pytest.raises(errors.UnknownOutcomeError):
        manager.delete_group("g")
    manager.delete_group("g")
    assert manager.groups() == []


# ------------------------------------------------------------------------------------------------- nobody is connected


def test_a_commit_whose_time_is_over_is_never_sent(manager, proxy, hosts):
    manager.commit("g", {KEYS[0]: 1})
    disconnect(manager, proxy)
    with pytest.raises(errors.CommitTimeoutError, match="nothing was written, and nothing will be written") as caught:
        manager.commit("g", {KEYS[0]: 2}, timeout=0.05)
    assert not isinstance(caught.value, errors.UnknownOutcomeError)
    late = manager.commit_async("g", {KEYS[0]: 3}, timeout=0.05)
    with pytest.raises(errors.CommitTimeoutError):
        late.result(PATIENCE)
    with leading(hosts) as other:
        other.commit("g", {KEYS[0]: 10})
        proxy.refuse(False)
        manager.commit("g", {KEYS[1]: 1})
        assert offsets_of(manager) == offsets_of(other) == {KEYS[0]: 10, KEYS[1]: 1}


def test_what_waits_for_a_server_is_carried_out_in_order_once_there_is_one(manager, proxy):
    manager.commit("g", {KEYS[0]: 1})
    disconnect(manager, proxy)
    pending = [manager.commit_async("g", {KEYS[0]: offset}) for offset in range(2, 8)]
    deleted = manager.delete_async("g", KEYS[1:])
    fetched: list[object] = []
    reading = threading.Thread(target=lambda: fetched.append(manager.fetch("g")))
    reading.start()
    assert not any(each.done() for each in pending)
    proxy.refuse(False)
    for each in pending:
        each.result(PATIENCE)
    assert deleted.result(PATIENCE) == 0
    assert offsets_of(manager) == {KEYS[0]: 7}
    reading.join(PATIENCE)
    assert fetched


def test_many_commits_are_under_way_and_no_thread_waits_for_them(manager, proxy, monkeypatch):
    manager.commit("g-0", {KEYS[0]: 0})
    disconnect(manager, proxy)
    before = set(threading.enumerate())
    order: list[int] = []
    pending = [manager.commit_async(f"g-{number % 40}", {KEYS[number % 4]: number}) for number in range(200)]
    for number, each in enumerate(pending):
        each.add_done_callback(lambda _, number=number: order.append(number))
    # The client may be starting one of its own, to connect again.
    assert len(set(threading.enumerate()) - before) <= 1
    # They are all sent when the connection is there again, before the first answer is read: until then, or for ten
    # seconds, the proxy holds answers back.
    sent, most = 0, []
    connection = manager._session.connection
    send = connection.multi_async
    may_answer = threading.Event()
    may_answer.set()
    passed_on = proxy._passed_on

    def held_back(piece: bytes) -> bytes:
        may_answer.wait(10)
        return passed_on(piece)

    def counted(operations):
        nonlocal sent
        sent += 1
        most.append(sent)
        if max(most) < 40:
            may_answer.clear()
        else:
            may_answer.set()
        answer = send(operations)
        answer.add_done_callback(lambda _: answered())
        return answer

    def answered() -> None:
        nonlocal sent
        sent -= 1

    monkeypatch.setattr(connection, "multi_async", counted)
    monkeypatch.setattr(proxy, "_passed_on", held_back)
    proxy.refuse(False)
    for each in pending:
        each.result(PATIENCE)
    assert max(most) >= 40
    for group in range(40):
        own = [number for number in order if number % 40 == group]
        assert own == sorted(own)
        assert offsets_of(manager, f"g-{group}")[KEYS[group % 4]] == 160 + group


def test_who_leads_no_more_sends_nothing_that_waits(manager, proxy, hosts):
    manager.commit("g", {KEYS[0]: 1})
    disconnect(manager, proxy)
    pending = [manager.commit_async("g", {KEYS[0]: 2}), manager.delete_async("g", [KEYS[0]])]
    manager.resign(manager.partition_for("g"), 1)
    proxy.refuse(False)
    for each in pending:
        with pytest.raises(errors.NotCoordinatorError):
            each.result(PATIENCE)
    with leading(hosts) as other:
        assert offsets_of(other) == {KEYS[0]: 1}


def test_a_stop_answers_what_waits(manager, proxy, hosts):
    manager.commit("g", {KEYS[0]: 1})
    disconnect(manager, proxy)
    pending = [manager.commit_async("g", {KEYS[0]: offset}) for offset in (2, 3)]
    manager.stop()
    for each in pending:
        with pytest.raises(errors.NotCoordinatorError, match="stopped"):
            each.result(PATIENCE)
    with leading(hosts) as other:
        assert offsets_of(other) == {KEYS[0]: 1}


# ------------------------------------------------------------------------------------------------ sessions and servers


def commit_and_note(manager: ZooKeeperManager, group: str, offsets: range, seen: dict[str, tuple[int, int]]) -> None:
    """Commits one offset after the other; notes the last one that was answered, and the last one that was sent."""
    for offset in offsets:
        answered = seen.get(group, (-1, -1))[0]
        seen[group] = answered, offset
        try:
            manager.commit(group, dict.fromkeys(KEYS, offset))
            seen[group] = offset, offset
        except errors.UnknownOutcomeError as failure:
            assert failure.retriable  # noqa: PT017


def check_noted(manager: ZooKeeperManager, seen: dict[str, tuple[int, int]]) -> None:
    for group, (answered, sent) in seen.items():
        found = set(offsets_of(manager, group).values())
        assert len(found) == 1, (group, found)
        assert answered <= found.pop() <= sent, (group, answered, sent)


def run_beside(manager: ZooKeeperManager, disturb, *, count: int = 4) -> dict[str, tuple[int, int]]:
    """Has threads commit until the disturbance is over, each for a group of its own."""
    seen: dict[str, tuple[int, int]] = {}
    failures: list[BaseException] = []
    is_over = threading.Event()

    def commit(group: str) -> None:
        offset = 0
        try:
            while not is_over.is_set() or offset < 20:
                commit_and_note(manager, group, range(offset, offset + 5), seen)
                offset += 5
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=commit, args=(f"g-{number}",)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        disturb(seen)
    finally:
        is_over.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert failures == []
    return seen


def test_sessions_that_expire_under_load_lose_nothing_that_was_answered(proxy, root, connection):
    reached = f"127.0.0.1:{proxy.port}{root}"
    with leading(reached, connection={"session_timeout": 1.0}) as manager:

        def expire(_: object) -> None:
            for _ in range(4):
                outlast_session(manager._session.connection, proxy, connection)

        seen = run_beside(manager, expire)
        check_noted(manager, seen)


def test_connections_that_break_under_load_lose_nothing_that_was_answered(manager, proxy, hosts):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)

    def cut(_: object) -> None:
        for number in range(1, 21):
            proxy.cut_next(OP_MULTI, rng.choice(list(Cut)), after=rng.randrange(10))
            while proxy.cuts < number:
                manager.groups()

    seen = run_beside(manager, cut)
    with leading(hosts) as other:
        check_noted(other, seen)


@pytest.mark.ci
def test_the_death_of_the_leader_under_load_loses_nothing_that_was_answered(tmp_path):
    with Ensemble(tmp_path) as ensemble, leading(ensemble.hosts) as manager:

        def kill(_: object) -> None:
            for _ in range(3):
                ensemble.kill_server(ensemble.leader())
                ensemble.leader()
                ensemble.start()

        seen = run_beside(manager, kill)
        check_noted(manager, seen)
        with leading(ensemble.hosts) as other:
            check_noted(other, seen)
