"""Quotas as they are meant: token buckets in fractions, without rounding and without a bound on memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class Level:
    """One limit in fractions; a rate of None is no limit."""

    rate: Fraction | None
    burst: Fraction
    balance: Fraction = field(init=False)

    def __post_init__(self) -> None:
        self.balance = self.burst

    def gain(self, seconds: Fraction) -> None:
        if self.rate is not None:
            self.balance = min(self.burst, self.balance + self.rate * seconds)

    def wait(self) -> Fraction:
        return Fraction(0) if self.rate is None or self.balance >= 0 else -self.balance / self.rate

    def take(self, amount: int) -> None:
        if self.rate is not None:
            self.balance -= amount

    def change(self, rate: float | None, burst_seconds: float) -> None:
        old, was_full = self.balance, self.rate is None or self.balance == self.burst
        self.__init__(*limit_of(rate, burst_seconds))
        if not was_full and self.rate is not None:
            self.balance = min(old, self.burst)


def limit_of(rate: float | None, burst_seconds: float) -> tuple[Fraction | None, Fraction]:
    return (None, Fraction(0)) if rate is None else (Fraction(rate), Fraction(rate) * Fraction(burst_seconds))


class Model:
    """The limits of every group and client.

    Args:
        rates: commits and bytes a second of each name of a kind, "group" or "client"; None is no limit.
        burst_seconds: a bucket holds its rate times this.
    """

    def __init__(self, rates: dict[str, tuple[float | None, float | None]], burst_seconds: float) -> None:
        self.rates = rates
        self.burst_seconds = burst_seconds
        self.levels: dict[tuple[str, str], list[Level]] = {}

    def levels_of(self, kind: str, name: str) -> list[Level]:
        if (kind, name) not in self.levels:
            self.levels[kind, name] = [Level(*limit_of(rate, self.burst_seconds)) for rate in self.rates[kind]]
        return self.levels[kind, name]

    def move(self, seconds: Fraction) -> None:
        for levels in self.levels.values():
            for level in levels:
                level.gain(seconds)

    def wait(self, names: dict[str, str]) -> Fraction:
        return max(level.wait() for kind, name in names.items() for level in self.levels_of(kind, name))

    def take(self, kind: str, name: str, count: int, nbytes: int) -> None:
        for level, amount in zip(self.levels_of(kind, name), (count, nbytes), strict=True):
            level.take(amount)

    def change(self, kind: str, name: str, rates: tuple[float | None, float | None]) -> None:
        for level, rate in zip(self.levels_of(kind, name), rates, strict=True):
            level.change(rate, self.burst_seconds)
