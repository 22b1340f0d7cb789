"""The controller: it never fails, and its words travel through the network like all others."""

from __future__ import annotations

from functools import partial
from typing import Any

from offsetlog.replication import election
from offsetlog.replication.lease import LeaseBook
from offsetlog.replication.messages import InSyncChange, PartitionState
from tests.simulation.network import CONTROLLER

ASSIGNED = (0, 1, 2)
LEASE_MS = 400


class Controller:
    """Holds the state of the partition; takes a node for lost when it died, or was long cut off."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.state = PartitionState(
            leader=0, leader_epoch=1, in_sync=frozenset(ASSIGNED), version=0
        )
        self.live: dict[int, int] = {}
        #: By replica the life that registered last: states reach no other one.
        self._registered: dict[int, int] = {}
        self.elections = 0
        self.leases = LeaseBook(LEASE_MS)
        #: Whether an operator wants another leader, once the lease of the present one has ended.
        self._moves = False

    def _now(self) -> int:
        return int(self._world.scheduler.now * 1000)

    def _may_elect(self) -> bool:
        return self.leases.may_elect(self._now())

    def is_due(self) -> bool:
        """Whether an election waits for the last lease."""
        return self._moves or election.is_election_due(self.state, self.live)

    def on_renew(self, number: int, leader_epoch: int) -> int | None:
        leads = self.state.leader == number and self.state.leader_epoch == leader_epoch
        return self.leases.grant(self._now(), is_leader=leads and not self.is_due())

    def _store(self, state: PartitionState) -> None:
        if state != self.state:
            if state.leader_epoch != self.state.leader_epoch:
                self._moves = False
                self.elections += 1
                self._world.checker.elected(state.leader_epoch, state.leader)
                self._world.on_elected(state.leader)
                in_sync = sorted(state.in_sync)
                self._world.scheduler.note(
                    f"epoch {state.leader_epoch}: leader {state.leader}, in sync {in_sync}"
                )
            self.state = state
            self._world.late.states.append(state)
            self.announce()
        if self.is_due() and not self._may_elect():
            # No lease is granted any more; the election is held on what is known then.
            left = (self.leases.until - self._now() + 1) / 1000
            self._world.scheduler.after(left, "", self._elect)

    def _elect(self) -> None:
        if not self._may_elect():
            return      # a leader that was taken for lost came back, and was given a lease
        state = election.ensure_leader(self.state, assigned=ASSIGNED, live=self.live)
        if state.leader_epoch == self.state.leader_epoch and self._moves:
            state = self._with_other()
            self._moves = False
        self._store(state)

    def announce(self) -> None:
        """Sends the state to every node; nodes ask again, so that a lost word comes later."""
        for number, life in self._registered.items():
            node = self._world.nodes[number]
            deliver = partial(node.on_state, life, self.state)
            self._world.network.send(CONTROLLER, number, "", deliver)

    def on_registered(self, number: int, life: int) -> None:
        self.live[number] = self._registered[number] = life
        if number == self.state.leader:
            self.leases.release()   # its former process has ended
        state = election.on_replica_registered(
            self.state, number, assigned=ASSIGNED, live=self.live, may_elect=self._may_elect()
        )
        self._store(state)
        self.announce()

    def on_lost(self, number: int) -> None:
        self.live.pop(number, None)
        state = election.on_replica_lost(
            self.state, number, assigned=ASSIGNED, live=self.live, may_elect=self._may_elect()
        )
        self._store(state)

    def on_back(self, number: int, life: int) -> None:
        """A node that was out of reach, and did not restart."""
        self.live[number] = life
        state = election.ensure_leader(
            self.state, assigned=ASSIGNED, live=self.live, may_elect=self._may_elect()
        )
        self._store(state)

    def elect_other(self) -> None:
        """Moves leadership to another replica in sync, as an operator may."""
        self._moves = True
        if self._may_elect():
            self._elect()
        else:
            self._store(self.state)

    def _with_other(self) -> PartitionState:
        others = sorted(self.state.in_sync & frozenset(self.live) - {self.state.leader})
        if not others:
            return self.state
        elected = election.Elected(
            leader=self._world.scheduler.random.choice(others),
            in_sync=self.state.in_sync & frozenset(self.live),
        )
        return election.with_leader(self.state, elected)

    def on_proposal(self, change: InSyncChange) -> None:
        answer = election.alter_in_sync(self.state, change, assigned=ASSIGNED, live=self.live)
        self._store(answer.state)
