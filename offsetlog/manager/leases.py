"""Leases: until when a leader may answer from memory without a check that it leads."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from offsetlog.errors import NotCoordinatorError


class Leases:
    """The leases of all partitions of one manager.  Thread-safe.

    Args:
        count: the number of partitions.
        now: returns the time in seconds.
    """

    def __init__(self, count: int, now: Callable[[], float]) -> None:
        self._until: list[float | None] = [None] * count
        self._now = now

    def grant(self, number: int, until: float) -> None:
        """Allows a leader to answer for a partition before this time, but not at or after it."""
        self._until[number] = until

    def end(self, number: int) -> None:
        """Ends the lease of a partition, if it has one, when this process may no longer lead.

        If the partition had a lease, requests for it are refused until a new lease is granted.
        """
        if self._until[number] is not None:
            self._until[number] = -inf

    def check(self, number: int) -> None:
        """Raises an error if the lease of a partition has ended.

        Call this method after the table of positions was read, and before the answer is given.

        Raises:
            NotCoordinatorError: the lease has ended.
        """
        until = self._until[number]
        if until is not None and self._now() >= until:
            raise NotCoordinatorError(
                f"log partition {number}: this leader's lease has ended; another process may lead now"
            )
