"""How long things took: a histogram with fixed buckets, at the cost of two additions a measurement."""

from __future__ import annotations

from array import array
from bisect import bisect_left

#: The upper bounds of the buckets, in seconds; one more bucket holds what took longer.
BOUNDS = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip


class Histogram:
    """Durations by bucket.

    One thread at a time measures.  Any thread reads: each number is right, and the last measurement
    may be in one of them and not yet in another.

    Attributes:
        counts: of each bucket, that of the longest durations last.
        seconds: of all together.
    """

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = array("Q", bytes(8 * (len(BOUNDS) + 1)))
        self.seconds = 0.0

    def observe(self, seconds: float, times: int = 1) -> None:
        """Counts a duration, of as many things at a time."""
        self.counts[bisect_left(BOUNDS, seconds)] += times
        self.seconds += seconds * times

    def cumulative(self) -> list[tuple[float, int]]:
        """The number of durations up to each bound, the last of which is infinite."""
        result, total = [], 0
        for bound, count in zip((*BOUNDS, float("inf")), self.counts, strict=True):
            total += count
            result.append((bound, total))
        return result
