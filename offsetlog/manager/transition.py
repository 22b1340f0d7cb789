"""Changes of leadership and flushes on their way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsetlog._native.completion import Completion
from offsetlog.errors import FencedLeaderEpochError


class PartitionTransition(Completion[int]):
    """A change of leadership of one partition, or a flush; see Transition.

    Args:
        partition: the log partition.
        epoch: the leader epoch.
        measure: returns how far it is, from 0 to 1.
    """

    __slots__ = ("_measure", "epoch", "partition")

    def __init__(self, partition: int, epoch: int, measure: Callable[[], float]) -> None:
        super().__init__()
        self.partition = partition
        self.epoch = epoch
        self._measure = measure

    @property
    def progress(self) -> float:
        """From 0 to 1: the part of the log that is read."""
        return 1.0 if self.done() else self._measure()

    def supersede(self, epoch: int) -> None:
        """Ends it where it has not ended: a change of a later epoch takes its place."""
        self.fail(
            FencedLeaderEpochError(
                f"log partition {self.partition}: the transition of leader epoch {self.epoch} was replaced "
                f"by one of epoch {epoch}"
            )
        )

    def __repr__(self) -> str:
        state: Any = "done" if self.done() else f"{self.progress:.0%}"
        return f"<Transition partition={self.partition} epoch={self.epoch} {state}>"
