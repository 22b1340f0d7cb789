"""Work that is given up if its caller's timeout passes before the work has begun."""

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
    """Work with a deadline.  If the work has not begun by its deadline, it is given up.

    Args:
        seconds: the time for which the caller waits, in seconds.
        given: the arguments of Work.

    Attributes:
        seconds: the time for which the caller waits, in seconds.
        timer: the timer for the deadline, or None if no timer was set.
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
        """Marks the work as begun; from now on, the work may write.

        Raises:
            CommitTimeoutError: the work has already been given up.
        """
        with self._lock:
            if self._is_given_up:
                raise CommitTimeoutError("the call timed out before its work began; nothing was written")
            self._is_begun = True

    def give_up(self) -> None:
        """Answers the work with CommitTimeoutError if the work has not begun."""
        with self._lock:
            self._is_given_up = not self._is_begun
        if self._is_given_up:
            self.fail(self.overdue())

    def overdue(self) -> OffsetLogError:
        """Returns the error of work that did not begin in time."""
        text = f"earlier calls for the same positions took longer than {self.seconds:g} s"
        advice = "nothing was written, and nothing will be written later; try again"
        return CommitTimeoutError(f"{text}; {advice}")


class PendingCommit(TimedWork[Position]):
    """A commit in progress; see the interface's PendingCommit.

    Its log offset is -1 until the log has the commit.

    Attributes:
        position: the position of the commit in the log.
        followed: the write of the commit to ZooKeeper; set once the log has the commit.
    """

    def __init__(self, position: Position, seconds: float, *given: Any) -> None:
        self.position = position
        self.followed: Write | None = None
        super().__init__(seconds, *given)
