"""Work that keeps the time of its caller while it waits: for its turn, for a thread, for ZooKeeper to follow."""

from __future__ import annotations

import threading
import time
from typing import Any, TypeVar

from offsetlog.errors import CommitTimeoutError, OffsetLogError
from offsetlog.manager.dual.zookeeper_queue import Write
from offsetlog.manager.executor import Timer
from offsetlog.manager.work import Work
from offsetlog.types import Position

T = TypeVar("T")


class TimedWork(Work[T]):
    """Work with a deadline.  It is begun once, or given up before.

    Args:
        seconds: that its caller waits.
        given: as Work.

    Attributes:
        seconds: as given.
        timer: the call at its deadline, where one was ordered.
    """

    def __init__(self, seconds: float, *given: Any) -> None:
        super().__init__(*given)
        self.seconds = seconds
        self.timer: Timer | None = None
        self._deadline = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._is_begun = self._is_given_up = False

    @property
    def left(self) -> float:
        """The seconds up to its deadline."""
        return max(0.0, self._deadline - time.monotonic())

    def take(self) -> None:
        """Begins it: from now on something may be written.

        Raises:
            CommitTimeoutError: it was given up before.
        """
        with self._lock:
            if self._is_given_up:
                raise CommitTimeoutError("the call timed out before its work began")
            self._is_begun = True

    def give_up(self) -> None:
        """Answers that its time is over, where it was not begun."""
        with self._lock:
            self._is_given_up = not self._is_begun
        if self._is_given_up:
            self.fail(self.overdue())

    def overdue(self) -> OffsetLogError:
        """Returns the error of work that was not begun in time."""
        text = f"earlier calls for the same positions took longer than {self.seconds:g} s"
        return CommitTimeoutError(f"{text}; nothing was written or will be; try again")


class PendingCommit(TimedWork[Position]):
    """A commit under way; see PendingCommit of the interface.  Its log offset is -1 until the log is written.

    Attributes:
        position: where it stands in the log.
        followed: the write that ZooKeeper has of it, once the log has it.
    """

    def __init__(self, position: Position, seconds: float, *given: Any) -> None:
        self.position = position
        self.followed: Write | None = None
        super().__init__(seconds, *given)
