"""Flushes topics' logs on threads, one flush at a time for each log."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from offsetlog._native.histogram import Histogram
from offsetlog._native.topic_log import TopicLog
from offsetlog.errors import ClosedError, OffsetLogError
from offsetlog.topics.partition_log import PartitionLog

_log = logging.getLogger(__name__)

#: Flushes that run at the same time share one flush of the disk.
THREADS = 4


class Flushing:
    """Flushes the logs of a node's topics; call every method on the node's event loop.

    If one or more flushes of a log are requested while that log is being flushed, one more flush
    follows, which serves all of these requests.

    Attributes:
        times: durations of the flushes; any thread may read it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(THREADS, "offsetlog-topic-flush")
        #: The logs that are being flushed.  The value says whether another flush was requested
        #: since the start of the flush.
        self._running: dict[PartitionLog, bool] = {}
        #: Logs that will be flushed when their timers end.
        self._timers: dict[PartitionLog, asyncio.TimerHandle] = {}
        self._is_closed = False
        self.times = Histogram()

    def order(self, partition: PartitionLog) -> None:
        """See FlushOrder."""
        if self._is_closed:
            return
        if partition in self._running:
            self._running[partition] = True
            return
        self._begin(partition)

    def order_within(self, partition: PartitionLog, ms: int) -> None:
        """See FlushOrder."""
        if not self._is_closed and partition not in self._timers:
            self._timers[partition] = self._loop.call_later(ms / 1000, self._time_out, partition)

    def _time_out(self, partition: PartitionLog) -> None:
        del self._timers[partition]
        with suppress(OffsetLogError):  # the log has failed, or its topic was deleted
            log = partition.log
            if log is not None and log.flushed < log.end:
                self.order(partition)

    def _begin(self, partition: PartitionLog) -> None:
        log = partition.log
        if log is not None:
            self._running[partition] = False
            self._pool.submit(self._flush, partition, log)

    def _flush(self, partition: PartitionLog, log: TopicLog) -> None:
        began = time.monotonic()
        try:
            log.flush()
        except ClosedError:
            pass  # the topic was deleted meanwhile
        except OffsetLogError as failure:
            # The log accepts no more records, and reports that to the next producer.
            _log.error(
                "%s-%d: the flush failed, so the log accepts no more records: %s",
                partition.topic, partition.number, failure,
            )
        except Exception:
            # No code reads the future that the pool returns, so the error is logged here.  The next
            # request for a flush tries again.
            _log.exception("%s-%d: the flush failed", partition.topic, partition.number)
        finally:
            self._loop.call_soon_threadsafe(self._flushed, partition, time.monotonic() - began)

    def _flushed(self, partition: PartitionLog, seconds: float) -> None:
        self.times.observe(seconds)
        is_ordered_again = self._running.pop(partition)
        if is_ordered_again and not self._is_closed:
            self._begin(partition)
        partition.advance()

    def close(self) -> None:
        """Accepts no more orders, and waits for running flushes; any thread may call this."""
        self._is_closed = True
        self._pool.shutdown(wait=True)
