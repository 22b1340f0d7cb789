"""Messages that are late, lost, repeated, out of order, or cut off by a partition of the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.simulation.scheduler import Scheduler

#: The controller's place in the network.
CONTROLLER = -1


class Network:
    """Carries calls between nodes.  `rates` are per message; `cut` holds the pairs that do not reach each other."""

    def __init__(self, scheduler: Scheduler, coverage: Counter[tuple[str, str]], role: Callable[[int], str]) -> None:
        self._scheduler = scheduler
        self._coverage = coverage
        self._role = role
        self.cut: set[tuple[int, int]] = set()
        self.loss = 0.0
        self.duplication = 0.0
        self.delay = 0.003
        #: How many messages are so late that others overtake them, and by how many seconds.
        self.late, self.lateness = scheduler.random.choice(
            ((0.05, 0.5), (0.05, 0.5), (0.25, 1.0), (0.1, 4.0))
        )

    def send(self, source: int, target: int, name: str, deliver: Callable[[], object]) -> None:
        """Delivers a message later, twice, or never."""
        draw = self._scheduler.random.random
        if (source, target) in self.cut:
            self._coverage["partition", self._role(target)] += 1
            return
        if draw() < self.loss:
            self._coverage["loss", self._role(target)] += 1
            return
        copies = 1
        if draw() < self.duplication:
            self._coverage["duplication", self._role(target)] += 1
            copies = 2
        for _ in range(copies):
            delay = self.delay * draw()
            if draw() < self.late:
                self._coverage["reordering", self._role(target)] += 1
                delay += draw() * self.lateness
            self._scheduler.after(delay, f"{name} {source}->{target}" if name else "", deliver)
