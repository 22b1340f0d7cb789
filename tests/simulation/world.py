"""One run: clients, faults, and the end at which everything must be there."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from offsetlog.errors import OffsetLogError
from tests.simulation.checker import Checker, Violation, look
from tests.simulation.clients import Clients, fetch_at_last
from tests.simulation.controller import Controller
from tests.simulation.late import LateMessages
from tests.simulation.network import Network
from tests.simulation.node import Node
from tests.simulation.scheduler import Scheduler

#: Those that are rare among followers come more often.
FAULTS = (
    *("loss", "duplication", "partition", "power", "elect"),
    *("crash", "crash", "full", "full", "slow", "slow", "clock", "clock", "clock"),
)
#: Faults of the disk or the clock of a node, as they are counted.
SPOILS = {"full": "disk full", "slow": "slow disk", "clock": "clock jump"}
#: The checker looks at the replicas after so many steps, and before a call and a crash.
LOOK_STEPS = 4
OPERATIONS = 220
ELECTIONS = 3
#: Seconds that a run may take to come to rest after its last fault.
CALM = 60.0


class Failure(Exception):
    """A promise that a seed broke, with its trace."""

    def __init__(self, seed: int, violation: BaseException, trace: list[str]) -> None:
        super().__init__(f"seed {seed}: {violation}")
        self.seed = seed
        self.violation = violation
        self.trace = trace


class World:
    """Three nodes, a controller, clients and faults, all of one seed."""

    def __init__(self, seed: int, root: Path) -> None:
        self.seed = seed
        self.scheduler = Scheduler(seed)
        self.coverage: Counter[tuple[str, str]] = Counter()
        self.accepts = self.scheduler.random.random() < 0.5
        self.min_insync = self.scheduler.random.choice((1, 2, 2))
        self.network = Network(self.scheduler, self.coverage, self._role)
        self.nodes = [Node(number, self, root) for number in range(3)]
        self.checker = Checker()
        self.late = LateMessages(self)
        self.controller = Controller(self)
        self.checker.elected(self.controller.state.leader_epoch, self.controller.state.leader)
        self.begins_at = self.scheduler.random.choice((0, 0, 1000))
        self.checker.truth.begin_at(self.begins_at)
        self.clients = Clients(self)
        self.power_losses = 0
        self.is_calm = False

    def _role(self, number: int) -> str:
        return self.nodes[number].role if number >= 0 else "controller"

    # ------------------------------------------------------------------------------------------------ the run

    def run(self) -> None:
        for node in self.nodes:
            self._start(node)
        self.scheduler.after(0.05, "", self._ask)
        self.scheduler.after(0.1, "", self._client)
        self.scheduler.after(0.5, "", self._fault)
        self.scheduler.after(1.0, "", self._upkeep)
        self.scheduler.after(1.0, "", self.late.deliver_one)
        self._order_what_no_run_lacks()
        self._go_until(self._has_had_enough, 200.0)
        self._heal()
        self._go_until(self._is_at_rest, self.scheduler.now + CALM)
        if not self._is_at_rest():
            raise Violation("the replicas did not come to rest")
        self._look()
        leader = self.nodes[self.controller.state.leader]
        self.checker.survived(leader)
        fetch_at_last(self.clients, leader, self.scheduler.step)

    def _order_what_no_run_lacks(self) -> None:
        draw = self.scheduler.random
        for at in (2.0, 5.0, 8.0):
            self.scheduler.after(at + draw.random(), "an election is ordered", self.controller.elect_other)
        self.scheduler.after(3.0 + 4 * draw.random(), "", self._lose_power)
        if draw.random() < 0.3:
            at = 2.0 + 7 * draw.random()
            self.scheduler.after(at, "", self._slow_leader)
            self.scheduler.after(at + 0.6 * draw.random(), "", self._outage)

    def _lose_power(self) -> None:
        if self.power_losses == 0 and not self._crash(power=True):
            self.scheduler.after(0.2, "", self._lose_power)

    def _slow_leader(self) -> None:
        for node in self.nodes:
            if node.role == "leader":
                self._spoil("slow", node, 1.0)

    def _outage(self) -> None:
        """All lose power at once: what is committed is on every disk in sync."""
        for node in self.nodes:
            if node.is_up:
                self._crash(power=True, node=node)

    def _has_had_enough(self) -> bool:
        return (
            self.clients.operations >= OPERATIONS
            and self.scheduler.now > 10
            and self.controller.elections >= ELECTIONS
            and self.power_losses > 0
        )

    def _go_until(self, done: Callable[[], bool], limit: float) -> None:
        while not done() and self.scheduler.now < limit:
            if not self.scheduler.step():
                break
            for violation in self.clients.violations:
                raise violation
            if self.scheduler.steps % LOOK_STEPS == 0:
                self._look()

    def _look(self) -> None:
        for node in self.nodes:
            if node.is_up:
                look(self.checker, node)

    def _is_at_rest(self) -> bool:
        state = self.controller.state
        if len(state.in_sync) < 3 or self.controller.is_due():
            return False
        if not all(node.is_up for node in self.nodes):
            return False
        leader = self.nodes[state.leader]
        if leader.role != "leader" or leader.core.core.partition(0) is None:
            return False
        if leader.core.core.partition(0).role != "active":
            return False
        ends = {node.manager.positions(0)[1:] for node in self.nodes if node.manager is not None}
        return len(ends) == 1 and len(set(next(iter(ends)))) == 1

    # ------------------------------------------------------------------------------------------------ nodes

    def _start(self, node: Node) -> None:
        if node.is_up:
            return
        is_spoiled = self._spoil_disk(node)
        node.start()
        self.scheduler.note(f"node {node.number} starts")
        register = partial(self.controller.on_registered, node.number, node.life)
        if is_spoiled:
            register()
        else:
            self.scheduler.after(0.01, "", register)

    def _crash(self, *, power: bool, node: Node | None = None) -> bool:
        up = [each for each in self.nodes if each.is_up]
        if node is None:
            if len(up) < 2:
                return False
            node = self._one_of(up)
        kind = "power loss" if power else "crash"
        self.coverage[kind, node.role] += 1
        self.power_losses += power
        self.scheduler.note(f"{kind} of node {node.number}, a {node.role}")
        look(self.checker, node)
        node.stop(power=power)
        self._is_down(node)
        return True

    def _is_down(self, node: Node) -> None:
        life, draw = node.life, self.scheduler.random.random
        if draw() < 0.8:
            self.scheduler.after(0.3 + draw(), "", lambda: self._lost(node.number, life))
        # Some come back before anybody has noticed.
        down = 0.02 + 0.1 * draw() if draw() < 0.3 else 0.2 + 3 * draw()
        self.scheduler.after(down, "", lambda: self._start(node))

    def _spoil_disk(self, node: Node) -> bool:
        """A node may come back with another disk, where others have all that is committed."""
        controller, draw = self.controller, self.scheduler.random
        others = controller.state.in_sync & frozenset(controller.live) - {node.number}
        if node.life == 0 or self.is_calm or not others or draw.random() > 0.3:
            return False
        if draw.random() < 0.5:
            node.replace_disk()
            self.scheduler.note(f"node {node.number} has an empty disk")
        else:
            node.rewinds = True
        return True

    def _one_of(self, nodes: list[Node]) -> Node:
        # Leaders meet as many faults as the others together.
        leaders = [node for node in nodes if node.role == "leader"]
        if leaders and self.scheduler.random.random() < 0.4:
            return self.scheduler.random.choice(leaders)
        return self.scheduler.random.choice(nodes)

    def _lost(self, number: int, life: int) -> None:
        node = self.nodes[number]
        if not node.is_up and node.life == life:
            self.controller.on_lost(number)

    def on_failed(self, number: int) -> None:
        """A replica cannot go on: its process is restarted, or an election has its log opened again."""
        node = self.nodes[number]
        life = node.life
        if self.scheduler.random.random() < 0.5:
            self.scheduler.after(0.1, "", lambda: self._restart_failed(node, life))
            return
        self.coverage["opened again", node.role] += 1
        self.scheduler.after(0.1, "an election is to open a log again", self.controller.elect_other)
        self.scheduler.after(3.0, "", lambda: self._restart_failed(node, life))

    def _restart_failed(self, node: Node, life: int) -> None:
        if node.is_up and node.life == life and node.host is not None and node.host.failure is not None:
            self._crash(power=False, node=node)

    def _ask(self) -> None:
        # The controller's words may be lost; nodes ask for them.
        self.controller.announce()
        self.scheduler.after(0.25, "", self._ask)

    # ------------------------------------------------------------------------------------------------ faults

    def _fault(self) -> None:
        if self.is_calm:
            return
        draw = self.scheduler.random
        kind = draw.choice(FAULTS)
        node = self._one_of(self.nodes)
        lasts = 0.2 + 1.5 * draw.random()
        if kind == "loss":
            self.network.loss = 0.3
            self.scheduler.after(lasts, "the network is right again", lambda: setattr(self.network, "loss", 0.0))
        elif kind == "duplication":
            self.network.duplication = 0.3
            self.scheduler.after(lasts, "", lambda: setattr(self.network, "duplication", 0.0))
        elif kind == "partition":
            self._partition(node, lasts)
        elif kind in ("crash", "power"):
            self._crash(power=kind == "power")
        elif kind == "elect":
            self.controller.elect_other()
        elif node.is_up:
            self._spoil(kind, node, lasts)
        self.scheduler.after(0.3 + draw.random(), "", self._fault)

    def _upkeep(self) -> None:
        """Does something that brokers do unasked, or their operators."""
        if self.is_calm:
            return
        draw = self.scheduler.random
        self.scheduler.after(0.5 + 2 * draw.random(), "", self._upkeep)
        node = self._one_of(self.nodes)
        if not node.is_up:
            return
        kind = draw.choice(("stop", "clean", "clean", "snapshot", "snapshot", "error"))
        if kind == "stop":
            self._stop_cleanly(node)
        elif kind == "error":
            self._fail_once(node)
        else:
            self._look_after(kind, node)

    def on_elected(self, number: int) -> None:
        """A leader is elected; some find that they cannot store it."""
        draw = self.scheduler.random
        if not self.is_calm and draw.random() < 0.06 and number >= 0 and self.nodes[number].is_up:
            self._fail_once(self.nodes[number], within=6)

    def _fail_once(self, node: Node, within: int = 30) -> None:
        """One of the next operations of a disk fails, or one of its next flushes."""
        draw, fs = self.scheduler.random, node.fs
        if draw.random() < 0.5:
            why = draw.choice((errno.EIO, errno.ENOSPC))
            fs.fail_at(fs.operations + draw.randint(1, within), why)
        else:
            fs.fail_flush(fs.flushes + draw.randint(1, 4), errno.EIO)
        self.coverage["disk error", node.role] += 1
        self.scheduler.note(f"the disk of node {node.number}, a {node.role}, fails once")

    def _look_after(self, kind: str, node: Node) -> None:
        """Cleans a log, or writes a snapshot."""
        role = node.role
        look(self.checker, node)        # before records go that nobody has seen
        try:
            if kind == "snapshot":
                node.snapshot()
            elif node.clean():
                self.checker.cleaned(node)
            else:
                return
        except OffsetLogError as failure:
            self.coverage[type(failure).__name__, role] += 1
            if role == "leader":
                self.checker.cleaned(node)      # parts cleaned before it failed stay cleaned
            return
        self.coverage[{"clean": "cleaning", "snapshot": "snapshot"}[kind], role] += 1
        self.scheduler.note(f"{kind}: node {node.number}, a {role}")

    def _stop_cleanly(self, node: Node) -> None:
        if sum(each.is_up for each in self.nodes) > 1:
            self.coverage["stop", node.role] += 1
            self.scheduler.note(f"node {node.number}, a {node.role}, is stopped")
            node.stop_cleanly()
            self._is_down(node)

    def _partition(self, node: Node, lasts: float) -> None:
        others = [each.number for each in self.nodes if each is not node] + [-1]
        one_way = self.scheduler.random.random() < 0.3
        cut = {(node.number, other) for other in others}
        if not one_way:
            cut |= {(other, node.number) for other in others}
        self.network.cut |= cut
        self.coverage["partition", node.role] += 1
        self.scheduler.note(f"node {node.number}, a {node.role}, is cut off{' one way' if one_way else ''}")
        life = node.life
        noticed = 0.3 + 0.5 * self.scheduler.random.random()
        if lasts > noticed:
            self.scheduler.after(noticed, "", lambda: self._out_of_reach(node, life))
        self.scheduler.after(lasts, f"node {node.number} is reached again", lambda: self._reach(node, cut, life))

    def _out_of_reach(self, node: Node, life: int) -> None:
        if node.life == life and len(self.controller.live) > 1:
            self.controller.on_lost(node.number)

    def _reach(self, node: Node, cut: set[tuple[int, int]], life: int) -> None:
        self.network.cut -= cut
        if node.is_up and node.life == life and node.number not in self.controller.live:
            self.controller.on_back(node.number, life)

    def _spoil(self, kind: str, node: Node, lasts: float) -> None:
        assert node.executor is not None
        self.coverage[SPOILS[kind], node.role] += 1
        self.scheduler.note(f"{kind}: node {node.number}, a {node.role}")
        executor, fs, life = node.executor, node.fs, node.life
        if kind == "slow":
            executor.slowness = self.scheduler.random.choice((0.3, 0.3, 1.5))
            self.scheduler.after(lasts, "", lambda: setattr(executor, "slowness", 0.002))
        elif kind == "clock":
            node.clock_ms += self.scheduler.random.choice((-3_600_000, -1000, 1000, 3000, 86_400_000))
            node.show_time()
            executor.skew += self.scheduler.random.random() * 0.5
        else:
            fs.fill(fs.operations + 1)
            self.scheduler.after(lasts, "", lambda: fs.fill(0) if node.life == life and node.is_up else None)

    def _heal(self) -> None:
        self.is_calm = True
        self.scheduler.note("the faults end")
        self.network.cut.clear()
        self.network.loss = self.network.duplication = 0.0
        for node in self.nodes:
            if node.is_up:
                assert node.executor is not None
                node.executor.slowness = 0.002
                node.fs.fill(0)
                node.fs.fail_at(0, 0)
                node.fs.fail_flush(0, 0)
                if node.host is not None and node.host.failure is not None:
                    self._crash(power=False, node=node)
                elif node.number not in self.controller.live:
                    self.controller.on_back(node.number, node.life)

    # -------------------------------------------------------------------------------------- clients

    def _client(self) -> None:
        draw = self.scheduler.random
        self.scheduler.after(0.005 + 0.08 * draw.random(), "", self._client)
        if not self.is_calm or self.clients.operations < OPERATIONS + 20:
            self.clients.call()


def simulate(seed: int) -> World:
    """Runs one seed, and returns the world at its end.

    Raises:
        Failure: a promise was broken; carries the trace, which the same seed makes again.
    """
    root = Path(tempfile.mkdtemp(prefix="offsetlog-simulation-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    world = World(seed, root)
    try:
        world.run()
    except Exception as violation:
        raise Failure(seed, violation, world.scheduler.trace) from violation
    finally:
        for node in world.nodes:
            if node.is_up:
                node.stop(power=False)
        shutil.rmtree(root, ignore_errors=True)
    return world
