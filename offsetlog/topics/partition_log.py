"""One partition of an ordinary topic, for those who append, read, and wait for what comes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from offsetlog._native.topic_log import TopicLog
from offsetlog.errors import ClosedError, OffsetLogError, OffsetOutOfRangeError
from offsetlog.topics.settings import AppendRules
from offsetlog.types import Appended, EpochEnd, TimedRecord

#: Of `flush.ms`: from here on, which is 24 days, nobody waits for it.
FLUSH_MS_LIMIT = 2**31


class FlushOrder(Protocol):
    """Flushes logs, on other threads."""

    def order(self, partition: PartitionLog) -> None:
        """Flushes what the log holds by now, and calls `advance` then."""

    def order_within(self, partition: PartitionLog, ms: int) -> None:
        """Flushes likewise in at most `ms` milliseconds; an earlier order of this kind counts for both."""


class PartitionLog:
    """A partition whose records are read up to its watermark; its log is made with the first of them.

    It belongs to one event loop, but for `record_at_time`.  With `waits_for_disk` the watermark is what is
    flushed, so that nobody reads, or is answered for, what a loss of power could take; without, it is
    the log end.  Every call raises the error of a log that could not be opened.

    Attributes:
        maintenance: held by the thread that deletes or replaces segments of the log.

    Args:
        topic, number: the partition.
        make: makes its log.
        flushes: where flushes are ordered.
        waits_for_disk: see above.
    """

    def __init__(
        self,
        topic: str,
        number: int,
        make: Callable[[], TopicLog],
        flushes: FlushOrder,
        *,
        waits_for_disk: bool,
    ) -> None:
        self.topic = topic
        self.number = number
        self._make = make
        self._flushes = flushes
        self._waits_for_disk = waits_for_disk
        self._log: TopicLog | None = None
        self._failure: OffsetLogError | None = None
        self._is_deleted = False
        self.maintenance = threading.Lock()
        self._watchers: dict[Callable[[], None], None] = {}

    # ----------------------------------------------------------------------------------------------- log

    @property
    def log(self) -> TopicLog | None:
        """The log; None where nothing was appended yet."""
        if self._failure is not None:
            raise self._failure
        return self._log

    def attach(self, log: TopicLog) -> None:
        """Has the partition use a log that was opened for it."""
        self._log = log
        self._is_deleted = False
        if self._waits_for_disk:
            log.expect_flushes()
            if log.flushed < log.end:
                self._flushes.order(self)

    def refuse(self, failure: OffsetLogError) -> None:
        """Has the partition refuse its clients, since its log could not be opened."""
        self._failure = failure

    @property
    def has_failed(self) -> bool:
        """Whether the log takes nothing more, after a failure of the disk."""
        return self._log is not None and not self._log.is_writable

    def detach(self) -> TopicLog | None:
        """Takes the log of a deleted partition away, and wakes who waits."""
        self._is_deleted = True
        log, self._log = self._log, None
        self.advance()
        return log

    # ----------------------------------------------------------------------------------------- positions

    @property
    def start(self) -> int:
        """The first offset."""
        log = self.log
        return 0 if log is None else log.start

    @property
    def watermark(self) -> int:
        """Everything below can be read."""
        log = self.log
        if log is None:
            return 0
        return log.flushed if self._waits_for_disk else log.end

    @property
    def last_stable_offset(self) -> int:
        """The watermark, or where the oldest open transaction begins."""
        log = self.log
        if log is None:
            return 0
        # An open transaction may have begun below what is kept.
        return max(log.start, min(self.watermark, log.first_unstable()))

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this process leads."""
        log = self.log
        return 0 if log is None else max(log.leader_epoch, 0)

    # ----------------------------------------------------------------------------------------- appending

    def produce(self, records: bytes, rules: AppendRules, now_ms: int, *, takes_zstd: bool) -> Appended:
        """Appends a producer's batch; see TopicLog.produce, which raises."""
        log = self.log
        if log is None:
            log = self._make()
            self.attach(log)
        appended = log.produce(
            records,
            batch_bytes_max=rules.batch_bytes_max,
            timestamp_min=now_ms - min(rules.before_max_ms, now_ms),
            timestamp_max=now_ms + min(rules.after_max_ms, 2**63 - 1 - now_ms),
            log_append_time=now_ms if rules.has_append_time else -1,
            takes_zstd=takes_zstd,
            needs_keys=rules.needs_keys,
        )
        if not appended.refusal:
            self._was_appended(log, appended, rules)
        return appended

    def _was_appended(self, log: TopicLog, appended: Appended, rules: AppendRules) -> None:
        if self._waits_for_disk:
            if appended.next_offset > log.flushed:
                self._flushes.order(self)
            return
        if log.wants_flush or appended.next_offset - log.flushed >= rules.flush_messages:
            self._flushes.order(self)
        elif rules.flush_ms < FLUSH_MS_LIMIT:
            self._flushes.order_within(self, rules.flush_ms)
        self.advance()

    # ------------------------------------------------------------------------------------------- waiting

    def watch(self, watcher: Callable[[], None]) -> None:
        """Has a function called whenever the watermark has moved."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Has it called no more."""
        self._watchers.pop(watcher, None)

    def advance(self) -> None:
        """Calls who watches: the watermark may have moved, or the log has ended."""
        for watcher in list(self._watchers):
            watcher()

    # ------------------------------------------------------------------------------------------- reading

    def read(self, offset: int, end: int, size_max: int, *, whole_first: bool = False) -> bytes:
        """Reads whole batches; see TopicLog.read, which raises."""
        log = self.log
        if log is None:
            return self._nothing_at(offset)
        return log.read(offset, end, size_max, whole_first=whole_first)

    def size_between(self, offset: int, end: int, size_max: int) -> int:
        """How many bytes `read` would find; see TopicLog.size_between, which raises."""
        log = self.log
        if log is None:
            return len(self._nothing_at(offset))
        return log.size_between(offset, end, size_max)

    def _nothing_at(self, offset: int) -> bytes:
        if offset != 0:
            raise OffsetOutOfRangeError(f"{self.topic}-{self.number} is empty, and {offset} is asked for")
        return b""

    def aborted(self, begin: int, end: int) -> tuple[tuple[int, int], ...]:
        """The aborted transactions that overlap [begin, end); see TopicLog.aborted."""
        log = self.log
        return () if log is None else log.aborted(begin, end)

    def record_at_time(self, time_ms: int, end: int) -> TimedRecord | None:
        """The first record below `end` that is not older; see TopicLog.record_at_time.

        May be called from any thread: it reads, and decompresses.

        Raises:
            ClosedError: the partition was deleted.
        """
        log = self.log
        if self._is_deleted:
            raise ClosedError(f"{self.topic}-{self.number} was deleted")
        return None if log is None else log.record_at_time(time_ms, end)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at an offset, -1 for unknown."""
        log = self.log
        return -1 if log is None else log.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where a leader epoch ends; see TopicLog.end_offset_for_epoch."""
        log = self.log
        if log is None:
            return EpochEnd(0, 0) if epoch >= 0 else EpochEnd(-1, -1)
        return log.end_offset_for_epoch(epoch)
