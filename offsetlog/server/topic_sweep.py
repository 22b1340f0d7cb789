"""Deletes old segments of topics at intervals, on its own thread."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from offsetlog._native.files import FileSystem
from offsetlog.server.clock import Clock
from offsetlog.topics.retention import DeletedFiles
from offsetlog.topics.topic_logs import TopicLogs

#: The longest time from the start to the first sweep, as in Kafka.
FIRST_SECONDS = 30.0


class TopicSweep:
    """Deletes old segments at intervals, and removes their files after a delay.

    Call every method but `close` on the event loop.  The server's clock decides which segments are
    old and how long their files have stayed.  The event loop's time decides when to sweep, so a
    server clock that jumps ahead by years causes only one sweep.

    Args:
        topics: the logs.
        fs: the file port that removes files.
        clock: the server's clock.
        loop: the server's event loop.
        interval: time between sweeps, in seconds.
    """

    def __init__(
        self,
        topics: TopicLogs,
        fs: FileSystem,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        interval: float,
    ) -> None:
        self._topics = topics
        self._fs = fs
        self._clock = clock
        self._loop = loop
        self._interval = interval
        self._pool = ThreadPoolExecutor(1, "offsetlog-topic-retention")
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        #: The deleted files by the time of day when they are removed, in ms; used only on the
        #: thread.
        self._deleted: list[tuple[int, int, DeletedFiles]] = []
        self._numbers = itertools.count()
        self._is_closed = False

    def start(self) -> None:
        """Starts the sweeps."""
        self._timer = self._loop.call_later(min(FIRST_SECONDS, self._interval), self._begin)

    async def run(self) -> None:
        """Sweeps now, and returns when done."""
        for delay_ms in await self._loop.run_in_executor(self._pool, self._sweep):
            self._loop.call_later(delay_ms / 1000, self._order_removal)

    def _begin(self) -> None:
        self._timer = self._loop.call_later(self._interval, self._begin)
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self.run())

    def _order_removal(self) -> None:
        with suppress(RuntimeError):  # the pool is closed
            self._pool.submit(self._remove_due)

    def _sweep(self) -> set[int]:
        self._remove_due()
        found = self._topics.delete_old_segments(self._clock.now_ms())
        for files in found:
            due_ms = self._clock.now_ms() + files.delay_ms
            heapq.heappush(self._deleted, (due_ms, next(self._numbers), files))
        self._remove_due()
        return {files.delay_ms for files in found}

    def _remove_due(self) -> None:
        while self._deleted and self._deleted[0][0] <= self._clock.now_ms():
            heapq.heappop(self._deleted)[2].remove(self._fs)

    def stop(self) -> None:
        """Starts no more sweeps."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Waits until a running sweep ends; call this after `stop`, on any thread.

        The next start of the server removes the files of deleted segments that are left.
        """
        self._pool.shutdown(wait=True, cancel_futures=True)
