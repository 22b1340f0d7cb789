"""Work on each partition that a manager leads, one after the other: expiry, and the deletion of topics' positions.

The work is called a sweep.  A sweep is answered when everything that it has written is as durable as a commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from copy import copy
from typing import Protocol

from offsetlog import arguments
from offsetlog._native import fetch_columns
from offsetlog._native.completion import Completion
from offsetlog._native.manager_core import ManagerCore
from offsetlog._native.parking import PendingWrite
from offsetlog._native.partition import Partition
from offsetlog.errors import ClosedError, OffsetLogError
from offsetlog.maintenance.retention import Expirer
from offsetlog.manager.executor import Executor
from offsetlog.manager.interface import Pending

#: The records that were written in one partition: for each term, their count and their end offset.
Written = dict[int, tuple[int, int]]


def add_written(written: Written, count: int, end_offset: int, term: int) -> None:
    """Adds written records to the counts and the highest end offset of their term.

    Once the log is durable up to the highest end offset, all of the counted records are durable.
    """
    if end_offset >= 0:
        before = written.get(term, (0, -1))
        written[term] = (before[0] + count, max(before[1], end_offset))


class GroupCoordinator(Protocol):
    """The coordinator that runs the groups of a manager.  The manager leaves work to it; any thread may call it."""

    def expire_async(self, timeout: float | None) -> Pending[int]:
        """Deletes expired positions; see OffsetManager.expire."""


class Sweep(Completion[int]):
    """One sweep over the partitions; its result is the number of deleted positions.

    If a partition fails, the sweep continues with the other partitions.  The answer is then the first failure, with a
    note that says how many positions were deleted.

    Args:
        partitions: the partitions, in the order of the work.
        work: does the work in one partition, and records what it wrote, even if it raises an error afterwards.
        core: waits until writes are durable.
        timeout: the seconds to wait until the writes are durable; None for the configured timeout.
        refused: the errors of the partitions in which the work cannot be done; each counts as a failure.

    Raises:
        InvalidArgumentError: the timeout is negative or not a number.
    """

    __slots__ = ("_core", "_deleted", "_failures", "_left", "_lock", "_timeout", "_unanswered", "_work")

    def __init__(
        self,
        partitions: Iterable[Partition],
        work: Callable[[Partition, Written], object],
        core: ManagerCore,
        timeout: float | None,
        refused: Iterable[BaseException] = (),
    ) -> None:
        super().__init__()
        core.check_timeout(timeout)
        self._left = list(partitions)
        self._left.reverse()
        self._work = work
        self._core = core
        self._timeout = timeout
        self._lock = threading.Lock()
        self._deleted = 0
        self._failures: list[BaseException] = [copy(failure) for failure in refused]
        self._unanswered = 1  # the work itself

    # ------------------------------------------------------------------------------- on this thread

    def run(self) -> int:
        """Does all the work, waits until the writes are durable, and returns the result or raises the failure."""
        written: list[tuple[int, int, int]] = []
        while self._left:
            partition = self._left.pop()
            for term, (_, end_offset) in self._step(partition).items():
                written.append((partition.number, end_offset, term))
        for number, end_offset, term in written:
            try:
                self._core.wait_for(number, end_offset, term, self._timeout)
            except Exception as failure:
                self._failures.append(failure)
        self._end()
        return self.result(0)

    # ------------------------------------------------------------------------------ on the executor

    def begin(self, executor: Executor) -> None:
        """Does the work on an executor, one partition at a time, so that the executor can do other work in between."""
        if self._left:
            try:
                executor.submit(lambda: self._do_next(executor))
                return
            except Exception as failure:
                self._failures.append(failure)
        self._answered(None)

    def _do_next(self, executor: Executor) -> None:
        if self.done():
            return
        partition = self._left.pop()
        for term, (count, end_offset) in self._step(partition).items():
            with self._lock:
                self._unanswered += 1
            try:
                pending = self._core.park(partition.number, end_offset, term, count, self._timeout)
            except Exception as failure:
                self._failures.append(failure)
                self._answered(None)
            else:
                pending.add_done_callback(self._answered)
        self.begin(executor)

    def _answered(self, pending: PendingWrite[int] | None) -> None:
        if pending is not None:
            try:
                pending.result(0)
            except Exception as failure:
                self._failures.append(failure)
        with self._lock:
            self._unanswered -= 1
            is_last = self._unanswered == 0
        if is_last:
            self._end()

    def stop(self) -> None:
        """Fails the sweep because the manager was stopped; what the sweep has written stays."""
        self.fail(ClosedError("the manager was stopped before everything was deleted; repeat the call later"))

    # ------------------------------------------------------------------------------------- for both

    def _step(self, partition: Partition) -> Written:
        written: Written = {}
        try:
            self._work(partition, written)
        except Exception as failure:
            self._failures.append(failure)
        self._deleted += sum(count for count, _ in written.values())
        return written

    def _end(self) -> None:
        if not self._failures:
            self.succeed(self._deleted)
            return
        failure = self._failures[0]
        failure.add_note(f"{self._deleted} positions were deleted")
        self.fail(failure)


class Sweeps:
    """The sweeps of one manager.  Thread-safe.

    Args:
        core: writes to the partitions, and waits until the writes are durable.
        executor: runs the sweeps whose callers do not block.
        expirer: determines which positions have expired.
        leads: returns whether this process leads a partition.
        failure_of: returns the error because of which an existing partition is not open, or None.
        check_lease: raises an error if another process may lead the partition now; the table of the partition may then
            be out of date.

    Attributes:
        coordinator: the coordinator of the groups, or None.  A coordinator expires the positions
            itself, in order with its other changes of each group.
    """

    def __init__(
        self,
        core: ManagerCore,
        executor: Executor,
        expirer: Expirer,
        leads: Callable[[int], bool],
        failure_of: Callable[[int], OffsetLogError | None],
        check_lease: Callable[[int], object],
    ) -> None:
        self._core = core
        self._executor = executor
        self._expirer = expirer
        self._leads = leads
        self._failure_of = failure_of
        self._check_lease = check_lease
        self._lock = threading.Lock()
        self._begun: set[Sweep] = set()
        self._stopped = False
        self.coordinator: GroupCoordinator | None = None

    def _there(self) -> list[Partition]:
        return self._core.core.attached(wait=False)

    def active(self) -> list[Partition]:
        """Returns the partitions that this process leads and has loaded."""
        return [each for each in self._there() if each.role == "active"]

    def groups(self) -> list[str]:
        """Returns the groups of the active partitions, sorted."""
        return sorted(group for partition in self.active() for group in partition.groups())

    def expire(self, timeout: float | None) -> int:
        """Deletes expired positions; see OffsetManager.expire."""
        if self.coordinator is not None:
            return self.coordinator.expire_async(timeout).result()
        return self.expiry(timeout).run()

    def expire_async(self, timeout: float | None) -> Pending[int]:
        """Deletes expired positions without waiting; see OffsetManager.expire_async."""
        if self.coordinator is not None:
            return self.coordinator.expire_async(timeout)
        return self.begin(self.expiry(timeout))

    def expiry(self, timeout: float | None) -> Sweep:
        """Returns the sweep for OffsetManager.expire, which handles the partitions that are active now.

        Raises:
            ClockError: the clock cannot be right.
        """
        active = self.active()
        now = self._expirer.now(active)

        def expire_one(partition: Partition, written: Written) -> None:
            counted = self._expirer.expire_one(partition, now)
            if counted["end_offset"] < 0:
                return
            deleted = counted["positions_expired"]
            add_written(written, deleted, counted["end_offset"], counted["term"])
            self._core.report_written(partition.number)

        return Sweep(active, expire_one, self._core, timeout)

    def removal(self, topics: Iterable[str], timeout: float | None) -> Sweep:
        """Returns the sweep for OffsetManager.on_topic_deleted, which handles all partitions that this process leads.

        If a partition is being loaded or is not open, the sweep fails, because nothing would delete the topics'
        positions in that partition later.

        Raises:
            ArgumentTypeError: the topics are not a list of names.
        """
        core, gone = self._core, frozenset(arguments.listed_topics(topics))

        def remove_from(partition: Partition, written: Written) -> None:
            for group in partition.groups():
                found = fetch_columns.fetch_group(core.core, group)
                keys = [key for key in found if key.topic in gone]
                if keys:
                    add_written(written, *core.delete_unanswered(group, keys))
            # The lease is checked after the read, as in a fetch, because the table may be that of a former leader.
            self._check_lease(partition.number)

        led = [number for number in range(core.core.count) if self._leads(number)]
        there = [each for each in self._there() if each.number in led]
        refused = [failure for number in led if (failure := self._failure_of(number)) is not None]
        return Sweep(there, remove_from, core, timeout, refused)

    def begin(self, sweep: Sweep) -> Sweep:
        """Starts a sweep on the executor, and returns it.

        Raises:
            ClosedError: the manager is stopped.
        """
        with self._lock:
            if self._stopped:
                raise ClosedError("the manager is stopped")
            self._begun.add(sweep)
        sweep.add_done_callback(self._begun.discard)
        sweep.begin(self._executor)
        return sweep

    def close(self) -> None:
        """Fails running sweeps; call it after the executor has stopped."""
        with self._lock:
            self._stopped = True
            begun = list(self._begun)
        for sweep in begun:
            sweep.stop()
