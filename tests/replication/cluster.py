"""Three replicas and a controller on the rules of offsetlog.replication, under every fault.

A seed draws all.  Messages are lost, repeated and reordered; replicas are cut off; processes die;
power fails; disks are replaced; the controller takes live replicas for dead.  After every step the
promise is checked.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from offsetlog.replication import election, follower, in_sync, leader, lease
from offsetlog.replication.messages import NO_LEADER, InSyncChange, PartitionState
from tests.replication.memory_log import RECORD_BYTES, Record, decode
from tests.replication.node import (
    Answer,
    Fetch,
    Grant,
    Message,
    News,
    Node,
    Proposal,
    Renewal,
)
from tests.replication.promise import Promise

REPLICAS = (1, 2, 3)
#: As many messages are on their way; the oldest is lost when one is sent.
MESSAGES_MAX = 20


class Cluster:
    """A partition with three replicas.

    Args:
        seed: of everything that is drawn.
        power_fails: whether what is not flushed can be lost.
        settings: of InSyncConfig.
    """

    def __init__(self, seed: int, *, power_fails: bool = True, **settings: Any) -> None:
        self.rng = rng = random.Random(seed)
        self.power_fails = power_fails
        drawn = {
            "min_insync_replicas": rng.choice([1, 1, 2]),
            "lag_time_max_ms": rng.choice([500, 3000]),
            "proposal_backoff_ms": 100,
        }
        self.config = in_sync.InSyncConfig(**drawn | settings)
        self.now = 0
        self.promise = Promise(power_fails=power_fails)
        self.nodes = {
            replica: Node(replica, skew=rng.randrange(0, 100_000)) for replica in REPLICAS
        }
        self.live: dict[int, int] = {}
        self.state = PartitionState(
            leader=NO_LEADER, leader_epoch=-1, in_sync=frozenset(REPLICAS), version=0
        )
        self.leases = lease.LeaseBook(rng.choice([300, 5000]))
        self.messages: list[Message] = []
        self.cut_off: set[int] = set()
        self.values = 0
        self.disorder = rng.choice([0.0, 0.1, 0.5, 0.9])
        self._weigh_events()
        for node in self.nodes.values():
            node.incarnation, node.is_alive = 1, True
            self.live[node.replica] = 1
        self.state = election.ensure_leader(self.state, assigned=REPLICAS, live=self.live)
        self.broadcast()

    def _weigh_events(self) -> None:
        # Each seed has its own mixture of events (swarm testing): some need quiet of another kind.
        usual: dict[Callable[[], None], float] = {
            self.tick: 5,
            self.commit: 12,
            self.flush: 40,
            self.fetch: 60,
            self.deliver: 150,
            self.drop: 4,
            self.repeat: 4,
            self.cut: 2,
            self.mend: 3,
            self.propose: 15,
            self.renew: 15,
            self.read: 15,
            self.broadcast: 2,
            self.crash: 2,
            self.restart: 10,
            self.notice: 3,
            self.suspect: 3,
            self.forgive: 10,
            self.move: 2,
            self.trim: 0.5,
        }
        self.events = list(usual)
        self.weights = [
            weight * self.rng.choice([0.1, 0.3, 1, 1, 3]) for weight in usual.values()
        ]

    def run(self, steps: int) -> None:
        for event in self.rng.choices(self.events, self.weights, k=steps):
            event()
            self.check()

    def check(self) -> None:
        self.promise.check(self.nodes.values(), self.state)

    def _pick(self, wanted: Callable[[Node], object]) -> Node | None:
        found = [node for node in self.nodes.values() if wanted(node)]
        return self.rng.choice(found) if found else None

    # ---------------------------------------------------------------------- time and clients

    def tick(self) -> None:
        self.now += self.rng.choice([1, 5, 20, 100, 600, 2500])
        self._ensure_leader()

    def _time_of(self, node: Node) -> int:
        return self.now + node.skew

    def commit(self) -> None:
        node = self._pick(lambda node: node.view is not None and node.view.has_enough())
        if node is None or node.view is None:
            return
        for _ in range(self.rng.randint(1, 3)):
            self.values += 1
            node.log.append([Record(node.view.leader_epoch, self.values)])
        self._on_own_positions(node)

    def read(self) -> None:
        node = self._pick(self._may_answer)
        if node is not None:
            self.promise.reads_at(node)

    def _may_answer(self, node: Node) -> bool:
        if node.view is None or node.lease is None:
            return False
        is_complete = node.watermark >= node.view.epoch_start_offset
        return is_complete and node.lease.is_held(self._time_of(node))

    def flush(self) -> None:
        node = self._pick(lambda node: node.is_alive)
        if node is not None:
            self._flush(node)

    def _flush(self, node: Node) -> None:
        node.log.flush()
        self._on_own_positions(node)

    def _on_own_positions(self, node: Node) -> None:
        if node.view is not None:
            flushed, end = node.log.flushed(), node.log.log_end()
            node.view.on_own_flush(flushed, end, self._time_of(node))
            self._announce(node)

    def _announce(self, node: Node) -> None:
        if node.view is not None:
            self.promise.announces(node, node.view.watermark())

    def trim(self) -> None:
        node = self._pick(lambda node: node.is_alive and node.watermark > node.log.start)
        if node is not None:
            node.log.trim(self.rng.randint(node.log.start, node.watermark))
            self.promise.trimmed = max(self.promise.trimmed, node.log.start)

    # ------------------------------------------------------------------------------ messages

    def _send(self, message: Message) -> None:
        self.messages.append(message)
        del self.messages[:-MESSAGES_MAX]

    def fetch(self) -> None:
        node = self._pick(lambda node: node.follower is not None)
        if node is not None:
            self._fetch(node)

    def _fetch(self, node: Node) -> None:
        assert node.follower is not None
        assert node.state is not None
        request = node.follower.next_fetch()
        if request is not None and node.state.leader != NO_LEADER:
            self._send(Fetch(node.state.leader, request))

    def renew(self) -> None:
        node = self._pick(lambda node: node.lease is not None)
        if node is not None and node.lease is not None:
            epoch = node.lease.leader_epoch
            asked_at = self._time_of(node)
            self._send(Renewal(node.replica, node.incarnation, epoch, asked_at))

    def deliver(self) -> None:
        if self.messages:
            is_in_turn = self.rng.random() >= self.disorder
            at = 0 if is_in_turn else self.rng.randrange(len(self.messages))
            self._deliver(self.messages.pop(at))

    def drop(self) -> None:
        if self.messages:
            self.messages.pop(self.rng.randrange(len(self.messages)))

    def repeat(self) -> None:
        if self.messages:
            self._send(self.rng.choice(self.messages))

    def cut(self) -> None:
        """A replica reaches nobody, and nobody reaches it."""
        leading = self.state.leader if self.rng.random() < 0.5 else NO_LEADER
        self.cut_off.add(leading if leading != NO_LEADER else self.rng.choice(REPLICAS))

    def mend(self) -> None:
        self.cut_off.clear()

    def _deliver(self, message: Message) -> None:
        ends = {message.replica if isinstance(message, Proposal | Renewal) else message.to}
        if isinstance(message, Fetch):
            ends.add(message.request.replica)
        if not ends & self.cut_off:
            self._arrive(message)

    def _arrive(self, message: Message) -> None:
        if isinstance(message, Proposal):
            self._on_proposal(message.change)
            return
        if isinstance(message, Renewal):
            self._on_renewal(message)
            return
        node = self.nodes[message.to]
        if not node.is_alive:
            return
        if isinstance(message, Fetch):
            self._on_fetch(node, message)
        elif isinstance(message, Answer):
            self._on_answer(node, message)
        elif isinstance(message, Grant):
            self._on_grant(node, message)
        else:
            self._on_news(node, message.state)

    def _on_fetch(self, node: Node, message: Fetch) -> None:
        if node.state is None:
            return
        response = leader.answer_fetch(
            message.request,
            leader_epoch=node.state.leader_epoch,
            log=node.log,
            view=node.view,
            now=self._time_of(node),
        )
        self._announce(node)
        self._send(Answer(message.request.replica, message.request, response))

    def _on_answer(self, node: Node, message: Answer) -> None:
        if node.follower is None:
            return
        for action in node.follower.on_response(message.request, message.response):
            match action:
                case follower.Truncate(offset):
                    assert offset >= node.watermark, "a committed record is cut"
                    node.log.truncate(offset)
                case follower.RestartAt(offset):
                    node.log.restart_at(offset)
                case follower.Append(records):
                    node.log.append(decode(records))
                case follower.Advance():
                    self.promise.announces(node, action.within(node.log.log_end()))

    def _on_grant(self, node: Node, message: Grant) -> None:
        # An answer belongs to its request: one to a former life of the process finds nobody.
        renewal = message.renewal
        if node.lease is not None and renewal.incarnation == node.incarnation:
            node.lease.on_granted(renewal.leader_epoch, renewal.asked_at, message.length_ms)

    def _on_news(self, node: Node, state: PartitionState) -> None:
        if node.view is not None:
            now = self._time_of(node)
            node.view.on_in_sync(state.leader_epoch, state.in_sync, state.version, now)
            self._announce(node)
        if node.state is not None and state.version <= node.state.version:
            return
        known = -1 if node.state is None else node.state.leader_epoch
        node.state = state
        if state.leader_epoch > known:
            self._take_role(node, state)

    def _take_role(self, node: Node, state: PartitionState) -> None:
        node.view = node.lease = None
        if state.leader == node.replica:
            node.follower = None
            self._lead(node, state)
        elif node.follower is not None:
            node.follower.follow(state.leader_epoch)
        else:
            node.follower = follower.Follower(
                partition=0,
                replica=node.replica,
                incarnation=node.incarnation,
                leader_epoch=state.leader_epoch,
                log=node.log,
                max_bytes=self.rng.choice([2, 5, 100]) * RECORD_BYTES,
            )

    def _lead(self, node: Node, state: PartitionState) -> None:
        self.promise.leads(node, state.leader_epoch)
        node.log.assign_epoch(state.leader_epoch)
        node.lease = lease.LeaderLease(state.leader_epoch)
        node.view = in_sync.LeaderView(
            replica=node.replica,
            leader_epoch=state.leader_epoch,
            log_end=node.log.log_end(),
            assigned=REPLICAS,
            in_sync=state.in_sync,
            version=state.version,
            watermark=node.watermark,
            now=self._time_of(node),
            config=self.config,
        )
        self._on_own_positions(node)

    def propose(self) -> None:
        node = self._pick(lambda node: node.view is not None)
        if node is not None:
            self._propose(node)

    def _propose(self, node: Node) -> None:
        assert node.view is not None
        change = node.view.propose(self._time_of(node)) or node.view.proposed
        self._announce(node)
        if change is not None:
            self._send(Proposal(node.replica, change))

    # ---------------------------------------------------------------------------- controller

    def _on_proposal(self, change: InSyncChange) -> None:
        answer = election.alter_in_sync(self.state, change, assigned=REPLICAS, live=self.live)
        self.state = answer.state
        self.broadcast()

    def _on_renewal(self, renewal: Renewal) -> None:
        leads = (renewal.replica, renewal.leader_epoch) == (
            self.state.leader,
            self.state.leader_epoch,
        )
        is_due = election.is_election_due(self.state, self.live)
        length = self.leases.grant(self.now, is_leader=leads and not is_due)
        if length is not None:
            self._send(Grant(renewal.replica, renewal, length))

    def broadcast(self) -> None:
        for replica in REPLICAS:
            self._send(News(replica, self.state))

    def _may_elect(self) -> bool:
        return self.leases.may_elect(self.now)

    def _ensure_leader(self) -> None:
        known = self.state
        self.state = election.ensure_leader(
            known, assigned=REPLICAS, live=self.live, may_elect=self._may_elect()
        )
        if self.state != known:
            self.broadcast()

    def notice(self) -> None:
        node = self._pick(lambda node: not node.is_alive and node.replica in self.live)
        if node is not None:
            self._lose(node)

    def suspect(self) -> None:
        """The controller takes a live replica for lost."""
        node = self._pick(lambda node: node.replica in self.live and node.replica in self.cut_off)
        node = node or self._pick(lambda node: node.is_alive and node.replica in self.live)
        if node is not None:
            self._lose(node)

    def _lose(self, node: Node) -> None:
        del self.live[node.replica]
        self.state = election.on_replica_lost(
            self.state,
            node.replica,
            assigned=REPLICAS,
            live=self.live,
            may_elect=self._may_elect(),
        )
        self.broadcast()

    def forgive(self) -> None:
        """A live replica is back, with the incarnation that it had."""
        for node in self.nodes.values():
            if node.is_alive and node.replica not in self.live:
                self.live[node.replica] = node.incarnation
                self._ensure_leader()

    def move(self) -> None:
        """An operator gives the leadership to another replica in sync."""
        others = sorted(self.state.in_sync & frozenset(self.live) - {self.state.leader})
        if others and self._may_elect():
            kept = self.state.in_sync & frozenset(self.live)
            chosen = election.Elected(leader=self.rng.choice(others), in_sync=kept)
            self.state = election.with_leader(self.state, chosen)
            self.broadcast()

    # ----------------------------------------------------------------------------- processes

    def crash(self) -> None:
        node = self._pick(lambda node: node.is_alive)
        if node is not None:
            node.stop()
            if self.power_fails and self.rng.random() < 0.6:
                node.log.lose_power(self.rng)

    def restart(self) -> None:
        node = self._pick(lambda node: not node.is_alive)
        if node is None:
            return
        others = self.state.in_sync & frozenset(self.live) - {node.replica}
        is_spare = node.replica not in self.state.in_sync or others
        if is_spare and self.rng.random() < 0.3:
            node.log.lose_disk()
        self._start(node)

    def _start(self, node: Node) -> None:
        # A process acts on a state only after it has registered.
        node.incarnation += 1
        node.is_alive = True
        self.live[node.replica] = node.incarnation
        if node.replica == self.state.leader:
            self.leases.release()
        self.state = election.on_replica_registered(
            self.state,
            node.replica,
            assigned=REPLICAS,
            live=self.live,
            may_elect=self._may_elect(),
        )
        self._on_news(node, self.state)
        self.broadcast()

    # -------------------------------------------------------------------------------- the end

    def heal(self) -> None:
        """Ends all faults: everything must become equal, in sync and committed."""
        self.mend()
        for node in self.nodes.values():
            if not node.is_alive:
                self._start(node)
        self.forgive()
        for _ in range(2000):
            self.now += 100
            self._heal_step()
            self.check()
            if self._is_whole():
                return
        ends = {node.replica: node.log.log_end() for node in self.nodes.values()}
        committed = len(self.promise.committed)
        raise AssertionError(f"{committed} are committed, the logs end at {ends}, {self.state}")

    def _is_whole(self) -> bool:
        places = ((node.log.log_end(), node.watermark) for node in self.nodes.values())
        ends = {each for place in places for each in place}
        is_equal = ends == {len(self.promise.committed)}
        return is_equal and self.state.in_sync == frozenset(REPLICAS)

    def _heal_step(self) -> None:
        self._ensure_leader()
        self.broadcast()
        for node in self.nodes.values():
            self._flush(node)
            if node.follower is not None:
                self._fetch(node)
            if node.view is not None:
                self._propose(node)
        while self.messages:
            self._deliver(self.messages.pop(0))
