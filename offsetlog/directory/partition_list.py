"""Numbers of log partitions as text, written in runs such as "0-3,7"."""

from __future__ import annotations

from collections.abc import Iterable

from offsetlog.config import PARTITIONS_MAX


def format_numbers(numbers: Iterable[int]) -> str:
    """Writes numbers as runs, such as "0-3,7"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def parse_numbers(text: str) -> frozenset[int]:
    """Parses numbers that are written as runs, such as "0-3,7".

    Raises:
        ValueError: the text is malformed, its runs do not ascend, or a number is too large.
    """
    numbers: list[int] = []
    for run in text.split(",") if text else ():
        low, dash, high = run.partition("-")
        first, last = int(low), int(high if dash else low)
        # Ascending runs contain each number once, so that a short text cannot cause endless work.
        if not (numbers[-1] if numbers else -1) < first <= last < PARTITIONS_MAX:
            raise ValueError(f"{run!r} is not an ascending run of partition numbers below {PARTITIONS_MAX}")
        numbers.extend(range(first, last + 1))
    return frozenset(numbers)
