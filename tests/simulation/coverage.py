"""Faults that the runs of many seeds met, by the role of the node that met them."""

from __future__ import annotations

from collections import Counter
from typing import Any

FAULTS = (
    "loss",
    "reordering",
    "duplication",
    "partition",
    "crash",
    "power loss",
    "disk full",
    "slow disk",
    "clock jump",
)
#: Other events that the runs must meet now and then.
EVENTS = ("disk error", "late message", "cleaning", "snapshot", "stop", "truncation", "rewind", "new start", "expiry")
ROLES = ("leader", "follower")


class Coverage:
    """Counts over worlds."""

    def __init__(self) -> None:
        self.met: Counter[tuple[str, str]] = Counter()
        self.fetches = self.shown = 0
        self.runs = self.operations = self.acknowledged = self.elections = self.power_losses = 0
        #: The least that one seed had.
        self.least: dict[str, int] = {}

    def add(self, world: Any) -> None:
        """Counts what one world met."""
        self.met += world.coverage
        self.runs += 1
        self._count("operations", world.clients.operations)
        self._count("acknowledged", world.clients.acknowledged)
        self._count("power_losses", world.power_losses)
        self.fetches += world.checker.fetches
        self.shown += world.checker.shown
        self._count("elections", world.controller.elections)

    def _count(self, name: str, value: int) -> None:
        setattr(self, name, getattr(self, name) + value)
        self.least[name] = min(value, self.least.get(name, value))

    def lacking(self, least: int) -> list[tuple[str, str]]:
        """Returns the faults and roles that were met less often."""
        return [(fault, role) for fault in FAULTS for role in ROLES if self.met[fault, role] < least]

    def __str__(self) -> str:
        lines = [
            f"{self.runs} seeds: {self.operations} operations, {self.acknowledged} acknowledged, "
            f"{self.elections} elections, {self.fetches} fetches, {self.shown} that found nothing to do",
            f"the least of one seed: {self.least}",
            f"{'fault':<14}{ROLES[0]:>10}{ROLES[1]:>10}",
        ]
        for name in (*FAULTS, *EVENTS):
            counts = (f"{self.met[name, role]:>10}" for role in ROLES)
            lines.append(f"{name:<14}{''.join(counts)}")
        return "\n".join(lines)
