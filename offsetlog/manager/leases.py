"""Leases: how long a leader may answer from its own table without a check that it still leads."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from offsetlog.errors import NotCoordinatorError


class Leases:
    """The leases of all partitions of one manager.  Thread-safe.

    Args:
        count: number of partitions.
        now: returns the time in seconds.
    """

    def __init__(self, count: int, now: Callable[[], float]) -> None:
        self._until: list[float | None] = [None] * count
        self._now = now

    def grant(self, number: int, until: float) -> None:
        """Lets a partition answer until a time, but not after it."""
        self._until[number] = until

    def end(self, number: int) -> None:
        """Ends a lease, if any, when leadership may have ended.  To answer, the partition needs a new grant."""
        if self._until[number] is not None:
            self._until[number] = -inf

    def check(self, number: int) -> None:
        """Refuses an answer after the lease has ended; call it between the read and the answer.

        Raises:
            NotCoordinatorError: the lease has ended.
        """
        until = self._until[number]
        if until is not None and self._now() >= until:
            raise NotCoordinatorError(
                f"log partition {number}: this leader's lease has ended; another process may lead now"
            )
