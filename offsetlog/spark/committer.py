"""A thread that commits the newest position of each partition, and retries until the target accepts it.

A caller puts its positions and continues.  The positions wait in a map with one value for each group, topic and
partition.  A newer value replaces an older one that was not committed yet, since offsets are absolute.  If a target is
down for a day, the waiting positions therefore take the memory of one value per partition, and the first successful
commit brings the target up to date.
"""

from __future__ import annotations

import atexit
import logging
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from offsetlog.errors import (
    ActiveGroupError,
    CapacityError,
    ClosedError,
    ClusterError,
    ConditionError,
    InvalidArgumentError,
    ReadOnlyError,
    TooLargeError,
)
from offsetlog.spark.targets import Committed, Target
from offsetlog.types import OffsetAndMetadata, TopicPartition

LOGGER = logging.getLogger("offsetlog.spark")

#: How long the end of the process waits for positions that were not committed yet, in seconds.
EXIT_SECONDS = 5.0
_GROUPS_KEPT = 1000


class CommitFailure(NamedTuple):
    """Positions that could not be committed.

    Attributes:
        time: the time of the failure, in UTC.
        group: the consumer group; None if the failure is not that of a group, or if the group was not known yet.
        positions: how many positions failed.
        error: the reason.
        retried: whether the commit is tried again.  If not, the positions were dropped, and the group gets only newer
            positions.
    """

    time: datetime
    group: str | None
    positions: int
    error: Exception
    retried: bool


_Entries = dict[TopicPartition, tuple[int, OffsetAndMetadata]]


@dataclass(slots=True)
class _Waiting:
    """The waiting positions of one group.

    Each entry has a number and a position.  The calls of `put` are numbered from 1.  The number of an entry is that of
    the call that created it; a later call that replaces the waiting position does not change the number.
    """

    entries: _Entries = field(default_factory=dict)
    due: float = 0.0
    urgent: bool = False
    back_off: float = 0.0


class PositionCommitter:
    """A thread that commits to one target.  Every method can be called from any thread.

    Args:
        target: the target that receives the commits; it is closed together with the committer.
        interval_seconds: the time between two commits of one group.
        back_off_seconds: the first and the longest pause before a failed commit is tried again.  The pause doubles with
            each failure.
        positions_max: how many positions may wait.  Further positions are dropped, which is recorded as a failure.
        failures_max: how many failures are kept: the newest ones.
    """

    def __init__(
        self,
        target: Target,
        *,
        interval_seconds: float = 1.0,
        back_off_seconds: tuple[float, float] = (0.25, 30.0),
        positions_max: int = 1_000_000,
        failures_max: int = 100,
    ) -> None:
        self.target = target
        self.commits = 0
        self.failure_count = 0
        self.last_error: Exception | None = None
        self._interval = interval_seconds
        self._back_off = back_off_seconds
        self._positions_max = positions_max
        self._failures: deque[CommitFailure] = deque(maxlen=failures_max)
        self._changed = threading.Condition()
        self._groups: dict[str, _Waiting] = {}
        self._waiting = 0
        self._number = 0
        self._in_flight: int | None = None
        self._dropped = 0
        # How many positions had been dropped when the last flush completed.
        self._dropped_reported = 0
        self._closing = False
        self._closed = False
        self._thread: threading.Thread | None = None
        _COMMITTERS.add(self)

    # ------------------------------------------------------------------------------------------------ from outside

    @property
    def failures(self) -> tuple[CommitFailure, ...]:
        """The newest failures, oldest first."""
        with self._changed:
            return tuple(self._failures)

    @property
    def pending(self) -> dict[str, Committed]:
        """The positions that wait to be committed, by group, without those of a commit in progress."""
        with self._changed:
            return {
                group: {key: value for key, (_, value) in waiting.entries.items()}
                for group, waiting in self._groups.items()
                if waiting.entries
            }

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    def put(self, group: str, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Queues positions, which replace older ones that still wait; does not block.  Raises ClosedError if closed."""
        with self._changed:
            if self._closing:
                raise ClosedError("the committer is closed")
            self._number += 1
            waiting = self._groups.get(group)
            if waiting is None:
                self._forget_idle()
                waiting = self._groups[group] = _Waiting()
            left_out = 0
            for key, value in positions.items():
                earlier = waiting.entries.get(key)
                if earlier is None and self._waiting >= self._positions_max:
                    left_out += 1
                    continue
                self._waiting += earlier is None
                waiting.entries[key] = (self._number if earlier is None else earlier[0], value)
            if left_out:
                self._dropped += left_out
                error = CapacityError(
                    f"{self._waiting} positions already wait for a commit; the limit is {self._positions_max}"
                )
                self._record(group, left_out, error, retried=False)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="offsetlog-spark-commits", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def hurry(self, group: str) -> None:
        """Makes the thread commit a group's waiting positions now; does not wait for the commit."""
        with self._changed:
            waiting = self._groups.get(group)
            if waiting is not None:
                waiting.urgent = True
                self._changed.notify_all()

    def fail(self, group: str | None, positions: int, error: Exception) -> None:
        """Records a failure that happened before a commit was tried."""
        with self._changed:
            self._record(group, positions, error, retried=False)

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the positions that were put before this call, or newer ones that replaced them, are committed.

        Positions whose commit failed before are tried again at once.  Returns False if the wait took longer than
        `timeout` seconds.  Also returns False if a position was refused for good since the last flush that completed
        in time, on any thread; `failures` contains the reason.
        """
        done, clean = self._flush(timeout)
        return done and clean

    def _flush(self, timeout: float | None) -> tuple[bool, bool]:
        """Returns whether the flush completed in time, and whether no position was refused for good."""
        with self._changed:
            upto, reported = self._number, self._dropped_reported
            for waiting in self._groups.values():
                waiting.urgent = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: self._closed or self._oldest() > upto, timeout)
            done = done and self._oldest() > upto
            clean = reported == self._dropped
            if done:
                self._dropped_reported = self._dropped
            return done, clean

    def close(self, timeout: float | None = 10.0) -> bool:
        """Flushes, ends the thread, and closes the target.  Returns the result of the flush.

        Positions that are not committed within `timeout` seconds are recorded as a failure.  A second call does
        nothing, and returns whether no positions are waiting.
        """
        with self._changed:
            if self._closing:
                return not self._waiting
        done, clean = self._flush(timeout)
        with self._changed:
            self._closing = True
            thread = self._thread
            self._changed.notify_all()
        if thread is None:
            self._end()
        elif thread is not threading.current_thread():
            # If a commit is still in progress, it gets no more time.  The thread ends when that commit returns.
            thread.join(timeout if done else 1.0)
        return done and clean

    # ------------------------------------------------------------------------------------------------ the thread

    def _run(self) -> None:
        used = False
        while True:
            with self._changed:
                group, taken = self._take_due(wait=not used)
            if group is not None:
                self._attempt(group, taken)
                used = True
            elif used:
                self._call(self.target.release)
                used = False
            else:
                break
        self._end()

    def _take_due(self, *, wait: bool) -> tuple[str | None, _Entries]:
        """Returns the group that is due first, and its positions.

        Without `wait`, returns None and no positions if no group is due.  With `wait`, waits until one is due.  Returns
        None and no positions after a close.
        """
        while not self._closing:
            ready = [
                (0.0 if waiting.urgent else waiting.due, group)
                for group, waiting in self._groups.items()
                if waiting.entries
            ]
            due, group = min(ready, default=(math.inf, ""))
            pause = due - time.monotonic()
            if pause <= 0:
                waiting = self._groups[group]
                taken, waiting.entries = waiting.entries, {}
                waiting.urgent = False
                self._waiting -= len(taken)
                self._in_flight = min(number for number, _ in taken.values())
                return group, taken
            if not wait:
                break
            self._changed.wait(pause if ready else None)
        return None, {}

    def _attempt(self, group: str, taken: _Entries) -> None:
        try:
            refused: Mapping[TopicPartition, Exception] = self.target.commit(
                group, {key: value for key, (_, value) in taken.items()}
            )
        except Exception as error:  # the thread records every error and continues
            refused = dict.fromkeys(taken, error)
        with self._changed:
            self._in_flight = None
            waiting = self._groups.setdefault(group, _Waiting())
            again = {key for key, error in refused.items() if not _is_lasting(error)}
            for key in again:
                newer = waiting.entries.get(key)
                self._waiting += newer is None
                waiting.entries[key] = taken[key] if newer is None else (taken[key][0], newer[1])
            self.commits += len(refused) < len(taken)
            waiting.back_off = min(max(waiting.back_off * 2, self._back_off[0]), self._back_off[1]) if again else 0.0
            waiting.due = time.monotonic() + (waiting.back_off if again else self._interval)
            self._tell(group, refused, again)
            self._changed.notify_all()

    def _tell(self, group: str, refused: Mapping[TopicPartition, Exception], again: set[TopicPartition]) -> None:
        """Records the refused positions as failures, one failure for each kind of error."""
        kinds: dict[tuple[type[Exception], bool], list[Exception]] = {}
        for key, error in refused.items():
            kinds.setdefault((type(error), key in again), []).append(error)
        for (_, retried), errors in kinds.items():
            self._dropped += 0 if retried else len(errors)
            self._record(group, len(errors), errors[0], retried=retried)

    def _end(self) -> None:
        with self._changed:
            for group, waiting in self._groups.items():
                if waiting.entries:
                    error = ClosedError("the committer was closed before the target accepted the positions")
                    self._record(group, len(waiting.entries), error, retried=False)
            self._closing = True
        self._call(self.target.close)
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _call(self, release: Callable[[], None]) -> None:
        try:
            release()
        except Exception as error:  # no caller waits for it
            self.fail(None, 0, error)

    # ------------------------------------------------------------------------------------------------ under the lock

    def _oldest(self) -> int:
        """Returns the number of the oldest call of `put` that has a waiting position, or the number of the next call.

        A position that is being committed counts as waiting.
        """
        numbers = [number for waiting in self._groups.values() for number, _ in waiting.entries.values()]
        if self._in_flight is not None:
            numbers.append(self._in_flight)
        return min(numbers, default=self._number + 1)

    def _forget_idle(self) -> None:
        if len(self._groups) >= _GROUPS_KEPT:
            self._groups = {group: waiting for group, waiting in self._groups.items() if waiting.entries}

    def _record(self, group: str | None, positions: int, error: Exception, *, retried: bool) -> None:
        self.failure_count += 1
        self.last_error = error
        self._failures.append(CommitFailure(datetime.now(UTC), group, positions, error, retried))
        then = "will be tried again" if retried else "were dropped"
        LOGGER.warning("%d positions of group %r were not committed and %s: %s", positions, group, then, error)


def _is_lasting(error: Exception) -> bool:
    """Returns whether the same commit would fail again.  If so, its positions are dropped."""
    if isinstance(error, ClusterError):
        return not error.retriable and not isinstance(error, ActiveGroupError)
    return isinstance(error, InvalidArgumentError | TooLargeError | ConditionError | ClosedError | ReadOnlyError)


_COMMITTERS: weakref.WeakSet[PositionCommitter] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes every committer when the process ends.  All committers together get at most EXIT_SECONDS."""
    deadline = time.monotonic() + EXIT_SECONDS
    for committer in list(_COMMITTERS):
        committer.close(max(0.0, deadline - time.monotonic()))
