"""The controller: it never fails, and its words travel through the network like all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsetlog.replication import election
from offsetlog.replication.lease import LeaseBook
from offsetlog.replication.messages import InSyncChange, PartitionState
from tests.simulation.network import CONTROLLER

ASSIGNED = (0, 1, 2)
LEASE_MS = 400


class Controller:
    """Holds the state of the partition; takes a node for lost when it died, or was out of reach for long."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.state = PartitionState(leader=0, leader_epoch=0, in_sync=frozenset(ASSIGNED), version=0)
        self.live: dict[int, int] = {}
        self.elections = 0
        self.leases = LeaseBook(LEASE_MS)
        self._due: Callable[[], PartitionState] | None = None

    def _now(self) -> int:
        return int(self._world.scheduler.now * 1000)

    def _decide(self, decision: Callable[[], PartitionState]) -> None:
        """Stores what is decided; another leader only when the lease of the last one has ended."""
        state = decision()
        if state.leader_epoch == self.state.leader_epoch or self.leases.may_elect(self._now()):
            self._due = None
            self._store(state)
            return
        # No lease is granted any more; the decision is made on what is known then.
        self._due = decision
        left = (self.leases.until - self._now() + 1) / 1000
        self._world.scheduler.after(left, "", lambda: self._decide_again(decision))

    def _decide_again(self, decision: Callable[[], PartitionState]) -> None:
        if self._due is decision:
            self._decide(decision)

    def on_renew(self, number: int, leader_epoch: int) -> int | None:
        leads = self.state.leader == number and self.state.leader_epoch == leader_epoch
        return self.leases.grant(self._now(), is_leader=leads and self._due is None)

    def _store(self, state: PartitionState) -> None:
        if state == self.state:
            return
        if state.leader_epoch != self.state.leader_epoch:
            self.elections += 1
            in_sync = sorted(state.in_sync)
            self._world.scheduler.note(f"epoch {state.leader_epoch}: leader {state.leader}, in sync {in_sync}")
        self.state = state
        self.announce()

    def announce(self) -> None:
        """Sends the state to every node; nodes ask again, so that a lost word comes later."""
        state = self.state
        for node in self._world.nodes:
            self._world.network.send(CONTROLLER, node.number, "", lambda node=node: node.on_state(state))

    def on_registered(self, number: int, life: int) -> None:
        self.live[number] = life
        if number == self.state.leader:
            self.leases.release()   # its former process has ended
        self._decide(lambda: election.on_replica_registered(self.state, number, assigned=ASSIGNED, live=self.live))
        self.announce()

    def on_lost(self, number: int) -> None:
        self.live.pop(number, None)
        self._decide(lambda: self._without(number))

    def _without(self, number: int) -> PartitionState:
        if number in self.live:     # it has come back meanwhile
            return election.ensure_leader(self.state, assigned=ASSIGNED, live=self.live)
        return election.on_replica_lost(self.state, number, assigned=ASSIGNED, live=self.live)

    def on_back(self, number: int, life: int) -> None:
        """A node that was out of reach, and did not restart."""
        self.live[number] = life
        self._decide(lambda: election.ensure_leader(self.state, assigned=ASSIGNED, live=self.live))

    def elect_other(self) -> None:
        """Moves leadership to another replica in sync, as an operator may."""
        self._decide(self._with_other)

    def _with_other(self) -> PartitionState:
        others = [each for each in self.state.in_sync if each != self.state.leader and each in self.live]
        if not others:
            return self.state
        chosen = self._world.scheduler.random.choice(sorted(others))
        elected = election.Elected(leader=chosen, in_sync=self.state.in_sync & frozenset(self.live))
        return election.with_leader(self.state, elected)

    def on_proposal(self, change: InSyncChange) -> None:
        self._store(election.alter_in_sync(self.state, change, assigned=ASSIGNED, live=self.live).state)
