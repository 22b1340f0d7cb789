"""Compacts topics at intervals, on its own thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from offsetlog.server.clock import Clock
from offsetlog.topics.topic_logs import TopicLogs


class TopicCompaction:
    """Compacts topics at intervals.

    Call every method but `close` on the event loop.  The server's clock decides which records are
    old; the event loop's time decides when to check.

    Args:
        topics: the logs.
        clock: the server's clock.
        loop: the server's event loop.
        interval: time between checks, in seconds.
    """

    def __init__(
        self, topics: TopicLogs, clock: Clock, loop: asyncio.AbstractEventLoop, interval: float
    ) -> None:
        self._topics = topics
        self._clock = clock
        self._loop = loop
        self._interval = interval
        self._pool = ThreadPoolExecutor(1, "offsetlog-topic-compaction")
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the checks."""
        self._timer = self._loop.call_later(self._interval, self._begin)

    async def run(self) -> None:
        """Compacts all logs that are due, and returns when done."""
        await self._loop.run_in_executor(self._pool, self._topics.compact, self._clock.now_ms)

    def _begin(self) -> None:
        self._timer = self._loop.call_later(self._interval, self._begin)
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self.run())

    def stop(self) -> None:
        """Starts no more compactions, and interrupts a running compaction."""
        self._topics.stop_compaction()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Waits for a running compaction to end; call it after `stop`, on any thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)
