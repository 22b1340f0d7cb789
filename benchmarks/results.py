"""The result of a workload: figures of each contender, and the goals that they are held against."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_benchmark.stats import Stats


@dataclass
class Figure:
    """One line: who, how fast (or how large), and the digest of the state that was left.

    Attributes:
        low, high: the slowest and the fastest round.
        rounds: measured rounds, without the warm-up.
        operations: operations in one round.
        digest: of what the contender holds after the run, None where it holds nothing.
    """

    name: str
    unit: str
    median: float
    low: float
    high: float
    rounds: int = 1
    operations: int = 0
    digest: str | None = None
    note: str = ""

    @classmethod
    def of_rounds(cls, name: str, unit: str, stats: Stats, operations: int, note: str = "") -> Figure:
        """From the seconds of each round, as pytest-benchmark keeps them."""
        rates = (operations / stats.median, operations / stats.max, operations / stats.min)
        return cls(name, unit, *rates, rounds=stats.rounds, operations=operations, note=note)


@dataclass
class Goal:
    """One thing that must hold; the wanted figure is a lower bound, or an upper one."""

    text: str
    wanted: float
    actual: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.actual <= self.wanted if self.at_most else self.actual >= self.wanted


@dataclass
class Report:
    """One workload: its work, its input, and its result.

    Attributes:
        facts: observed work of the workload, such as bytes read; each was compared with the claim of its title.
    """

    name: str
    title: str
    conditions: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    facts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    profile: str = ""

    def figure(self, name: str) -> Figure:
        return next(figure for figure in self.figures if figure.name == name)

    def ratio(self, ours: str, peer: str) -> float:
        return self.figure(ours).median / self.figure(peer).median

    def goal_rate(self, ours: str, wanted: float) -> None:
        figure = self.figure(ours)
        self.goals.append(Goal(f"{ours}: >= {wanted:,.0f} {figure.unit}", wanted, figure.median))

    def goal_ratio(self, ours: str, peer: str, wanted: float) -> None:
        self.goals.append(Goal(f"{ours}: >= {wanted:g} x {peer}", wanted, self.ratio(ours, peer)))

    def goal_size(self, ours: str, wanted: float) -> None:
        figure = self.figure(ours)
        self.goals.append(Goal(f"{ours}: <= {wanted:g} {figure.unit}", wanted, figure.median, at_most=True))

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "goals": [{**asdict(goal), "met": goal.met} for goal in self.goals]}
