"""Work that piles up in a manager while no server answers, and how the manager comes out of that."""

from __future__ import annotations

import threading

import pytest

from offsetlog import errors
from offsetlog.manager.zookeeper.session import ASK_AGAIN_SECONDS
from offsetlog.types import TopicPartition

from .managers import PATIENCE, leading
from .proxy import CuttingProxy
from .test_manager_failures import disconnect, offsets_of

KEY = TopicPartition("orders", 0)
#: The client hands requests to its thread through a pipe, which holds 278 of them.
MORE_THAN_THE_PIPE_HOLDS = 600


@pytest.fixture
def proxy(ensemble):
    with CuttingProxy(ensemble.ports[0]) as running:
        yield running


@pytest.fixture
def manager(proxy, root):
    """One that reaches the ensemble through the proxy."""
    with leading(f"127.0.0.1:{proxy.port}{root}") as made:
        yield made


# ------------------------------------------------------------------------------------------------ at the reconnection


def test_the_thread_that_empties_the_pipe_of_requests_sends_none(manager, proxy, monkeypatch):
    connection = manager._session.connection
    listening, sending = set(), set()
    connection.add_state_listener(lambda _: listening.add(threading.get_ident()))
    disconnect(manager, proxy)
    send = connection.multi_async

    def noted(operations):
        sending.add(threading.get_ident())
        return send(operations)

    monkeypatch.setattr(connection, "multi_async", noted)
    pending = [manager.commit_async(f"g-{number}", {KEY: number}) for number in range(10)]
    proxy.refuse(False)
    for each in pending:
        each.result(PATIENCE)
    assert sending
    assert listening
    assert not sending & listening


def test_more_commits_than_the_pipe_holds_wait_for_a_server(manager, proxy):
    disconnect(manager, proxy)
    pending = [manager.commit_async(f"g-{number}", {KEY: number}) for number in range(MORE_THAN_THE_PIPE_HOLDS)]
    proxy.refuse(False)
    for each in pending:
        each.result(PATIENCE)
    assert offsets_of(manager, f"g-{MORE_THAN_THE_PIPE_HOLDS - 1}") == {KEY: MORE_THAN_THE_PIPE_HOLDS - 1}


def test_what_was_answered_during_an_outage_is_not_kept_until_its_end(proxy, root):
    with leading(f"127.0.0.1:{proxy.port}{root}", commit_timeout=0.02) as manager:
        disconnect(manager, proxy)
        for number in range(20):
            with pytest.raises(errors.ZooKeeperUnavailableError):
                manager.fetch("g")
            with pytest.raises(errors.CommitTimeoutError):
                manager.commit("g", {KEY: number})
        # The thread that answers them ends them, and takes this after that.
        ended = threading.Event()
        manager._submit(ended.set)
        assert ended.wait(PATIENCE)
        assert not manager._under_way
        assert not manager._session._waiting


def test_a_question_that_fails_while_a_server_is_connected_is_asked_again_after_a_pause(hosts, monkeypatch):
    asked = []

    class Unreadable:
        def done(self):
            return True

        def result(self):
            raise errors.ZooKeeperUnavailableError("an answer that nobody can read", node="/")

    def sync():
        asked.append(None)
        return Unreadable()

    with leading(hosts, commit_timeout=0.3) as manager:
        monkeypatch.setattr(manager._session.connection, "sync_async", sync)
        with pytest.raises(errors.ZooKeeperUnavailableError, match="ZooKeeper did not answer within"):
            manager.fetch("g")
        monkeypatch.undo()
        # The thread of the pauses also ends it, and in their order: this bound is none of the machine's speed.
        assert 1 < len(asked) <= 0.3 / ASK_AGAIN_SECONDS + 1
        assert manager.fetch("g") == {}


def test_a_large_fetch_whose_connection_breaks_blocks_nothing(manager, proxy, monkeypatch):
    wanted = {TopicPartition("orders", number): number for number in range(MORE_THAN_THE_PIPE_HOLDS)}
    manager.commit("large", wanted)
    connection = manager._session.connection
    ask, asked, is_cut = connection.get_async, [], threading.Event()

    def cut_within(node, watch=None):
        asked.append(node)
        if len(asked) == 100:
            disconnect(manager, proxy)
            is_cut.set()
        return ask(node, watch)

    monkeypatch.setattr(connection, "get_async", cut_within)
    found: list[object] = []
    fetching = threading.Thread(target=lambda: found.append(manager.fetch("large", wanted)), daemon=True)
    fetching.start()
    assert is_cut.wait(PATIENCE)
    waiting = manager.commit_async("other", {KEY: 1})
    proxy.refuse(False)
    waiting.result(PATIENCE)
    fetching.join(PATIENCE)
    assert {key: value.offset for key, value in found[0].items()} == wanted


# ------------------------------------------------------------------------------------------- many commits of one group


def test_commits_of_a_position_whose_time_is_over_keep_no_place(manager, proxy):
    manager.commit("g", {KEY: 1})
    disconnect(manager, proxy)
    pending = [manager.commit_async("g", {KEY: offset}, timeout=0.05) for offset in range(1000)]
    last = manager.commit_async("g", {KEY: 7})
    for each in pending:
        with pytest.raises(errors.CommitTimeoutError, match="nothing was written"):
            each.result(PATIENCE)
    # The first one had its turn, and waited for a server.
    assert set(manager._turns._turns) == set(manager._under_way) == {last}
    proxy.refuse(False)
    last.result(PATIENCE)
    assert offsets_of(manager) == {KEY: 7}


def test_commits_of_a_position_that_are_refused_in_a_row_leave_it_free(manager, proxy):
    manager.commit("g", {KEY: 1})
    disconnect(manager, proxy)
    pending = [manager.commit_async("g", {KEY: offset}) for offset in range(1000)]
    partition = manager.partition_for("g")
    manager.resign(partition, 1)
    proxy.refuse(False)
    for each in pending:
        with pytest.raises(errors.NotCoordinatorError):
            each.result(PATIENCE)
    manager.become_leader(partition, 2)
    manager.commit("g", {KEY: 2})
    assert manager.delete_group("g") == 1
    assert manager._turns._turns == {}


# ----------------------------------------------------------------------------------------- what goes through all groups


@pytest.fixture
def expiring(proxy, root):
    """As `manager`, with positions that expire a day after their last change."""
    with leading(f"127.0.0.1:{proxy.port}{root}", retention_ms=86_400_000) as made:
        yield made


SWEEPS = {
    "expire": lambda manager, timeout: manager.expire_async(timeout=timeout),
    "on_topic_deleted": lambda manager, timeout: manager.on_topic_deleted_async(["orders"], timeout=timeout),
}


@pytest.mark.parametrize("sweep", SWEEPS)
def test_what_goes_through_all_groups_ends_in_its_time_while_no_server_answers(expiring, proxy, sweep):
    expiring.commit("g", {KEY: 1})
    disconnect(expiring, proxy)
    late = r"ZooKeeper did not answer within 0\.05 s; nothing was written"
    with pytest.raises(errors.CommitTimeoutError, match=late):
        SWEEPS[sweep](expiring, 0.05).result(PATIENCE)
    proxy.refuse(False)
    assert offsets_of(expiring) == {KEY: 1}


@pytest.mark.parametrize("sweep", SWEEPS)
def test_groups_after_one_that_no_server_answered_are_left(expiring, proxy, sweep, monkeypatch):
    for number in range(20):
        expiring.commit(f"g-{number:02}", {KEY: 1})
    begin_group, begun = expiring._begin_group, []

    def begin(group, steps, timeout):
        begun.append(group)
        if len(begun) == 3:
            disconnect(expiring, proxy)
        return begin_group(group, steps, timeout if len(begun) < 3 else 0.05)

    monkeypatch.setattr(expiring, "_begin_group", begin)
    with pytest.raises(errors.CommitTimeoutError):
        SWEEPS[sweep](expiring, PATIENCE).result(PATIENCE)
    assert begun == ["g-00", "g-01", "g-02"]
