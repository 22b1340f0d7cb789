"""Work that respects its caller's timeout while it waits for its turn, for a thread or for ZooKeeper."""

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
    """Work with a deadline: work that has not begun by its deadline is given up.

    Args:
        seconds: the time that its caller waits, in seconds.
        given: arguments of Work.

    Attributes:
        seconds: as given.
        timer: the timer for its deadline, if one was set.
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
        """The seconds that are left until the deadline."""
        return max(0.0, self._deadline - time.monotonic())

    def take(self) -> None:
        """Marks the work as begun: from now on, it may write.

        Raises:
            CommitTimeoutError: the work was given up before.
        """
        with self._lock:
            if self._is_given_up:
                raise CommitTimeoutError("the call timed out before its work began; nothing was written")
            self._is_begun = True

    def give_up(self) -> None:
        """Answers the work with a timeout, unless it has begun."""
        with self._lock:
            self._is_given_up = not self._is_begun
        if self._is_given_up:
            self.fail(self.overdue())

    def overdue(self) -> OffsetLogError:
        """Returns the error of work that did not begin in time."""
        text = f"earlier calls for the same positions took longer than {self.seconds:g} s"
        return CommitTimeoutError(f"{text}; nothing was written or will be; try again")


class PendingCommit(TimedWork[Position]):
    """A commit under way; see PendingCommit of the interface.  Its log offset is -1 until the log has it.

    Attributes:
        position: its position in the log.
        followed: its write to ZooKeeper, set once the log has it.
    """

    def __init__(self, position: Position, seconds: float, *given: Any) -> None:
        self.position = position
        self.followed: Write | None = None
        super().__init__(seconds, *given)
