"""Messages that come after all that followed them, by seconds or by epochs: none changes anything.

The rules and the engine refuse the same things, each for itself.  Here each is asked alone: a broker
may have a host of its own, and pass on what a former leader sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from offsetlog.errors import FencedLeaderEpochError, OffsetLogError
from offsetlog.replication.messages import (
    UNKNOWN_INCARNATION,
    FetchRequest,
    InSyncChange,
    PartitionState,
)
from tests.simulation.truth import Violation

PARTITION = 0
#: A fetch that is sent again is one of the last so many.
FETCHES = 300


class LateMessages:
    """Keeps what was sent, and delivers some of it again."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._draw = world.scheduler.random
        self.fetches: list[tuple[int, FetchRequest]] = []
        self.proposals: list[InSyncChange] = []
        self.states: list[PartitionState] = []
        self._kinds: tuple[Callable[[], None], ...] = (
            self._call,
            self._call,
            self._propose,
            self._propose_a_former_life,
            self._announce,
            self._fetch,
        )

    def deliver_one(self) -> None:
        """Delivers one of them, to whom it would change if it were taken for a new one."""
        self._world.scheduler.after(0.1 + 0.3 * self._draw.random(), "", self.deliver_one)
        self._draw.choice(self._kinds)()

    def _met(self, role: str) -> None:
        self._world.coverage["late message", role] += 1

    # -------------------------------------------------------------------------- to the engine

    def _call(self) -> None:
        node = self._draw.choice(self._world.nodes)
        shipped = self._world.checker.shipped
        if not node.is_up or not shipped or node.core.replica(PARTITION) is None:
            return
        records = self._draw.choice(list(shipped))
        epoch, known = shipped[records], node.manager.leader_epoch(PARTITION)
        if epoch >= known:
            return
        try:
            before = node.manager.positions(PARTITION)
        except OffsetLogError:
            return      # it failed
        name, *given = self._draw.choice(self._calls(before, epoch, records))
        call = node.unwatched.get(name) or getattr(node.manager, name)
        try:
            call(PARTITION, *given)
        except FencedLeaderEpochError:
            self._met(node.role)
        except OffsetLogError:
            pass        # refused before the epoch is looked at: it failed, or loads
        else:
            raise Violation(f"node {node.number}: {name} of epoch {epoch} was taken in {known}")
        found = node.manager.positions(PARTITION), node.manager.leader_epoch(PARTITION)
        if found != (before, known):
            raise Violation(f"node {node.number}: {name} of epoch {epoch} changed its log")

    def _calls(self, at: Any, epoch: int, records: bytes) -> tuple[tuple[Any, ...], ...]:
        offset = self._draw.randint(at.log_start, at.log_end + 10)
        return (
            ("append_as_follower", epoch, records),
            ("advance", epoch, offset),
            ("truncate_to", epoch, offset),
            ("restart_at", epoch, at.log_end + 10),
            ("become_leader", epoch),
            ("become_follower", epoch),
            ("resign", epoch),
        )

    # --------------------------------------------------------------------------- to the rules

    def _propose(self) -> None:
        controller = self._world.controller
        change = self._draw.choice(self.proposals or [None])
        if change is None or change.version == controller.state.version:
            return
        before = controller.state
        controller.on_proposal(change)
        if controller.state != before:
            raise Violation(f"{change} was taken, though the state was {before}")
        self._met("leader")

    def _propose_a_former_life(self) -> None:
        # By a leader that has not heard that a replica which it saw catch up has started again.
        controller = self._world.controller
        state, live = controller.state, controller.live
        change = self._draw.choice(self.proposals or [None])
        if change is None or state.leader not in change.replicas:
            return
        lives = [each for each in change.members if each.incarnation != UNKNOWN_INCARNATION]
        if all(live.get(each.replica) == each.incarnation for each in lives):
            return
        controller.on_proposal(
            replace(change, leader_epoch=state.leader_epoch, version=state.version)
        )
        if controller.state.in_sync != state.in_sync:
            raise Violation(f"{change} was taken, though alive are {live}")
        self._met("leader")

    def _announce(self) -> None:
        node = self._draw.choice(self._world.nodes)
        if not node.is_up or not self.states:
            return
        state, known = self._draw.choice(self.states), node.host._state
        if state.version >= known.version:
            return
        epoch = node.manager.leader_epoch(PARTITION)
        node.host.on_state(state)
        if node.host._state is not known or node.manager.leader_epoch(PARTITION) != epoch:
            raise Violation(f"node {node.number} took {state}, though it had heard of {known}")
        self._met(node.role)

    def _fetch(self) -> None:
        node = self._world.nodes[self._draw.randrange(3)]
        view = node.host.view if node.is_up else None
        if view is None:
            return
        lives = {number: each.incarnation for number, each in view._followers.items()}
        old = [
            request
            for leader, request in self.fetches[-FETCHES:]
            if leader == node.number
            and request.current_leader_epoch <= view.leader_epoch
            and (
                request.current_leader_epoch < view.leader_epoch
                or request.incarnation < lives[request.replica]
            )
        ]
        if not old:
            return
        request, before = self._draw.choice(old), view.positions()
        node.host.on_fetch(request, lambda response: None)
        if node.host.view is view and view.positions() != before:
            raise Violation(f"{request} moved {before} to {view.positions()}")
        self._met("leader")
