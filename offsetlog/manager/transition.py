"""Changes of leadership, and flushes, that are in progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsetlog._native.completion import Completion
from offsetlog.errors import FencedLeaderEpochError


class PartitionTransition(Completion[int]):
    """A change of leadership of a partition, or a flush; see Transition.

    Args:
        partition: the log partition.
        epoch: the leader epoch.
        measure: returns the progress, from 0 to 1.
    """

    __slots__ = ("_measure", "epoch", "partition")

    def __init__(self, partition: int, epoch: int, measure: Callable[[], float]) -> None:
        super().__init__()
        self.partition = partition
        self.epoch = epoch
        self._measure = measure

    @property
    def progress(self) -> float:
        """The progress of the transition, from 0 to 1: the part of the log that has been read."""
        return 1.0 if self.done() else self._measure()

    def supersede(self, epoch: int) -> None:
        """Ends the transition if it has not ended, because a later change supersedes it."""
        self.fail(
            FencedLeaderEpochError(
                f"log partition {self.partition}: the change to leader epoch {self.epoch} was replaced "
                f"by the change to leader epoch {epoch}"
            )
        )

    def __repr__(self) -> str:
        state: Any = "done" if self.done() else f"{self.progress:.0%}"
        return f"<Transition partition={self.partition} epoch={self.epoch} {state}>"
