"""The result of a workload: the figures of each contender, and the goals that the figures must meet."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_benchmark.stats import Stats


@dataclass
class Figure:
    """One line of a report: a contender, its rate or size, and the digest of its state after the run.

    Attributes:
        low, high: the figures of the slowest and of the fastest round.
        rounds: the number of measured rounds, without the warm-up.
        operations: the number of operations in one round.
        digest: the digest of the positions that the contender has after the run; None if it keeps none.
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
        """Returns the figure in operations per second; `stats` has the seconds of each round."""
        rates = (operations / stats.median, operations / stats.max, operations / stats.min)
        return cls(name, unit, *rates, rounds=stats.rounds, operations=operations, note=note)


@dataclass
class Goal:
    """A condition that a figure must meet.  `wanted` is the lower bound, or the upper bound if `at_most`."""

    text: str
    wanted: float
    actual: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.actual <= self.wanted if self.at_most else self.actual >= self.wanted


@dataclass
class Report:
    """The report of one workload: its title, its conditions, and its results.

    Attributes:
        facts: numbers that show the work that was done, such as bytes read; the workload has checked them.
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
