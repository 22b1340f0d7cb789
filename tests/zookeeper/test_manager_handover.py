"""A leader that gives a partition up says so once none of its writes is on its way any more."""

from __future__ import annotations

import pytest

from offsetlog import errors
from offsetlog._native.completion import Completion
from offsetlog.types import TopicPartition

from .managers import PATIENCE, leading
from .proxy import OP_MULTI, Cut, CuttingProxy
from .test_manager_failures import offsets_of

KEY = TopicPartition("orders", 0)


class SlowServer:
    """Keeps the writes of a manager on their way until it is asked to carry them out."""

    def __init__(self, manager, monkeypatch) -> None:
        self._send = manager._session.connection.multi_async
        self._kept: list[tuple[object, Completion[None]]] = []
        monkeypatch.setattr(manager._session.connection, "multi_async", self._keep)

    def _keep(self, operations):
        answer: Completion[None] = Completion()
        self._kept.append((operations, answer))
        return answer

    def carry_out(self) -> None:
        for operations, answer in self._kept:
            self._send(operations).result()
            answer.succeed(None)


@pytest.mark.parametrize("call", ["resign", "become_follower"])
def test_a_partition_is_given_up_once_its_writes_have_their_answers(hosts, monkeypatch, call):
    with leading(hosts) as manager, leading(hosts) as other:
        manager.commit("g", {KEY: 1})
        partition = manager.partition_for("g")
        server = SlowServer(manager, monkeypatch)
        sent, waiting = (manager.commit_async("g", {KEY: offset}) for offset in (50, 51))
        given_up = getattr(manager, call)(partition, 1)
        assert not given_up.done()
        assert getattr(manager, call)(partition, 1) is given_up
        # Another partition has nothing on its way.
        assert getattr(manager, call)((partition + 1) % manager.partitions, 1).done()
        server.carry_out()
        given_up.result(PATIENCE)
        sent.result(PATIENCE)
        with pytest.raises(errors.NotCoordinatorError):
            waiting.result(PATIENCE)
        assert offsets_of(other) == {KEY: 50}


def test_a_write_whose_time_is_over_is_waited_for_too(hosts, monkeypatch):
    with leading(hosts) as manager:
        manager.commit("g", {KEY: 1})
        server = SlowServer(manager, monkeypatch)
        with pytest.raises(errors.UnknownOutcomeError):
            manager.commit("g", {KEY: 50}, timeout=0.05)
        given_up = manager.resign(manager.partition_for("g"), 1)
        assert not given_up.done()
        server.carry_out()
        given_up.result(PATIENCE)


def test_a_stop_ends_what_waits_for_writes(hosts, monkeypatch):
    with leading(hosts) as manager:
        manager.commit("g", {KEY: 1})
        SlowServer(manager, monkeypatch)
        manager.commit_async("g", {KEY: 50})
        given_up = manager.resign(manager.partition_for("g"), 1)
        assert not given_up.done()
    with pytest.raises(errors.ClosedError):
        given_up.result(PATIENCE)


@pytest.mark.parametrize("conditions", [{"expected": {KEY: 1}}, {"monotonic": True}])
def test_a_conditional_commit_that_cannot_be_looked_up_is_unknown(ensemble, root, hosts, conditions):
    with (
        CuttingProxy(ensemble.ports[0]) as proxy,
        leading(f"127.0.0.1:{proxy.port}{root}") as manager,
        leading(hosts) as other,
    ):
        manager.commit("g", {KEY: 1})
        resigned = []

        def resign(state: str) -> None:
            # Before the answer that is lost is noticed, and the commit is looked up.
            if state == "suspended":
                resigned.append(manager.resign(manager.partition_for("g"), 1))

        manager._session.connection.add_state_listener(resign)
        proxy.cut_next(OP_MULTI, Cut.AFTER)
        pending = manager.commit_async("g", {KEY: 2}, **conditions)
        with pytest.raises(errors.UnknownOutcomeError) as caught:
            pending.result(PATIENCE)
        assert isinstance(caught.value.__cause__, errors.NotCoordinatorError)
        resigned[0].result(PATIENCE)
        assert offsets_of(other) == {KEY: 2}
