"""Numbers of log partitions as text, in runs: "0-3,7"."""

from __future__ import annotations

from collections.abc import Iterable

from offsetlog.config import PARTITIONS_MAX


def format_numbers(numbers: Iterable[int]) -> str:
    """Returns the text for `numbers`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def parse_numbers(text: str) -> frozenset[int]:
    """Returns the numbers that a text has.

    Raises:
        ValueError: it has something else, runs that do not ascend, or numbers that no topic has.
    """
    numbers: list[int] = []
    for run in text.split(",") if text else ():
        low, dash, high = run.partition("-")
        first, last = int(low), int(high if dash else low)
        # Each number once: a short text must not make work without end.
        if not (numbers[-1] if numbers else -1) < first <= last < PARTITIONS_MAX:
            raise ValueError(f"partitions {run} cannot be")
        numbers.extend(range(first, last + 1))
    return frozenset(numbers)
