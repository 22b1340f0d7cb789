"""Opens, creates and closes the logs of topics on threads, so that the event loop never waits for the disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

from offsetlog._native.topic_log import TopicLog
from offsetlog.errors import ClosedError, CorruptionError, OffsetLogError
from offsetlog.topics.partition_log import PartitionLog, Unopened

_log = logging.getLogger(__name__)

#: How many logs are opened or closed at the same time.
THREADS = 4
#: How many logs are checked for closing before the event loop gets a turn.
LOOKED_AT_MAX = 100

#: Opens the log of a partition, or creates it if no existing log is given.  Any thread may call
#: this.
OpenLog = Callable[[PartitionLog, Unopened | None], TopicLog]


class Openings:
    """Opens and closes a node's logs; call every method on the node's event loop.

    Args:
        loop: the node's event loop.
        open_log, close_log: open and close a log; called on any thread.
        follow_settings: applies a topic's settings to its log; called on the event loop.
        open_logs_max: number of open logs above which unused ones are closed, the least recently
            used first.

    Attributes:
        open_logs_max: the limit that was given.
        is_stopped: whether `stop` was called, so that no more logs are opened.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        open_log: OpenLog,
        close_log: Callable[[TopicLog], Unopened],
        follow_settings: Callable[[PartitionLog, TopicLog], None],
        open_logs_max: int,
    ) -> None:
        self._loop = loop
        self._open_log = open_log
        self._close_log = close_log
        self._follow_settings = follow_settings
        self._settings_changes = 0
        self.open_logs_max = open_logs_max
        self._pool = ThreadPoolExecutor(THREADS, "offsetlog-topic-open")
        #: The running openings and closings.
        self._tasks: dict[PartitionLog, asyncio.Task[None]] = {}
        #: The open logs; the first is checked first when a log must be closed.
        self._open: dict[PartitionLog, None] = {}
        #: How many of the open logs are still to be checked in the search for logs to close.
        self._to_look_at = 0
        self.is_stopped = False

    @property
    def count(self) -> int:
        """Number of open logs; any thread may read it."""
        return len(self._open)

    def settings_have_changed(self) -> None:
        """Makes logs that are just being opened apply the changed settings of their topics."""
        self._settings_changes += 1

    def attach(self, partition: PartitionLog, log: TopicLog) -> None:
        """Gives a partition the log that was opened for it."""
        partition.attach(log)
        self._open[partition] = None

    @asynccontextmanager
    async def use(self, partitions: Collection[PartitionLog], *, makes: bool) -> AsyncIterator[None]:
        """Opens the logs of partitions, and keeps them open within the context.

        If `makes` is True, logs that do not exist are created.  If a log cannot be opened, the error is logged, and
        every use of the log within the context raises it.
        """
        for partition in partitions:
            partition.pin()
        try:
            await asyncio.gather(*(self._ready(each, makes=makes) for each in partitions))
            yield
        finally:
            for partition in partitions:
                partition.unpin()

    async def _ready(self, partition: PartitionLog, *, makes: bool) -> None:
        # A log that is being closed has to be opened again afterwards.
        while (task := self._tasks.get(partition)) is not None:
            await asyncio.shield(task)
        if partition.needs_opening(makes=makes) and not self.is_stopped:
            await asyncio.shield(self._begin(partition, self._opened(partition)))

    def _begin(self, partition: PartitionLog, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._tasks[partition] = self._loop.create_task(self._until_done(partition, work))
        return task

    async def _until_done(self, partition: PartitionLog, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            del self._tasks[partition]

    async def _opened(self, partition: PartitionLog) -> None:
        changes = self._settings_changes
        try:
            log = await self._loop.run_in_executor(
                self._pool, self._open_log, partition, partition.unopened
            )
        except ClosedError as failure:
            partition.refuse_once(failure)  # the topic was deleted
        except OffsetLogError as failure:
            _log.error("%s-%d: the log could not be opened: %s", partition.topic, partition.number, failure)
            # Later, the disk may have space again, or the limit on open files may no longer be
            # reached.
            is_damaged = isinstance(failure, CorruptionError)
            (partition.refuse if is_damaged else partition.refuse_once)(failure)
        else:
            self.attach(partition, log)
            if changes != self._settings_changes:
                self._follow_settings(partition, log)
            self._close_some()

    # ----------------------------------------------------------------------------------------- closing

    def _close_some(self) -> None:
        # A log that was used since the last check gets another chance; two rounds find every log
        # that can be closed.
        is_looking = self._to_look_at > 0
        self._to_look_at = 2 * len(self._open)
        if not is_looking:
            self._look_at_some()

    def _look_at_some(self) -> None:
        for partition in list(islice(self._open, min(LOOKED_AT_MAX, self._to_look_at))):
            if len(self._open) <= self.open_logs_max:
                break
            del self._open[partition]
            if not self.close_unused(partition) and partition.log is not None:
                self._open[partition] = None
            self._to_look_at -= 1
        if len(self._open) <= self.open_logs_max or self.is_stopped:
            self._to_look_at = 0
        if self._to_look_at > 0:
            self._loop.call_soon(self._look_at_some)

    def close_unused(self, partition: PartitionLog) -> bool:
        """Begins to close a partition's log if the log is unused; returns whether it began."""
        if self.is_stopped or partition in self._tasks or not partition.may_be_closed():
            return False
        log = partition.set_aside()
        if log is None:
            return False
        self._open.pop(partition, None)
        self._begin(partition, self._closed(partition, log))
        return True

    async def _closed(self, partition: PartitionLog, log: TopicLog) -> None:
        try:
            closed = await self._loop.run_in_executor(self._pool, self._close_log, log)
        except BaseException as failure:
            partition.not_closed()
            if not isinstance(failure, OffsetLogError):
                raise
            _log.error("%s-%d: the log was not closed cleanly: %s", partition.topic, partition.number, failure)
        else:
            partition.closed(closed)

    async def settle(self, partitions: Collection[PartitionLog]) -> None:
        """Waits until none of these logs is being opened or closed, then removes them from the list of open logs."""
        while tasks := [self._tasks[each] for each in partitions if each in self._tasks]:
            await asyncio.wait(tasks)
        for partition in partitions:
            self._open.pop(partition, None)

    async def stop(self) -> None:
        """Opens no more logs, and waits until no log is being opened or closed."""
        self.is_stopped = True
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))
        self._pool.shutdown(wait=False)
