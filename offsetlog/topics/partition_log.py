"""One partition of an ordinary topic, for those who append, read, and wait for what comes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from offsetlog._native.topic_log import RecentBatches, TopicLog
from offsetlog.errors import ClosedError, InternalError, OffsetLogError, OffsetOutOfRangeError
from offsetlog.topics.settings import AppendRules
from offsetlog.types import Appended, EpochEnd, TimedRecord

#: A `flush.ms` of 24 days or more orders no flush.
FLUSH_MS_LIMIT = 2**31
#: The last records that this process appended to a partition, at least so many bytes of them, count as
#: being in memory.
WARM_BYTES = 4 << 20


class Unopened(NamedTuple):
    """A log that is there and not open.

    Attributes:
        recovery_point, start: of the checkpoints, -1 for none.
        leader_epoch: in which this process leads it, as far as is known.
        is_clean: whether it was closed cleanly.
        recent: the last batches of its producers, where this process has closed it.
    """

    recovery_point: int
    start: int
    leader_epoch: int
    is_clean: bool
    recent: RecentBatches | None = None


class FlushOrder(Protocol):
    """Flushes logs, on other threads."""

    def order(self, partition: PartitionLog) -> None:
        """Flushes what the log holds by now, and calls `advance` then."""

    def order_within(self, partition: PartitionLog, ms: int) -> None:
        """Flushes likewise in at most `ms` milliseconds; an earlier order of this kind counts for both."""


class PartitionLog:
    """A partition whose records are read up to its watermark.

    Its log is made with the first of them, and opened when it is first used: `TopicLogs.opened` does
    both, and comes before every other call.  It belongs to one event loop, but for what reads.  With
    `waits_for_disk` the watermark is what is flushed, so that nobody reads, or is answered for, what a
    loss of power could take; without, it is the log end.  Every call raises the error of a log that
    could not be opened.

    Attributes:
        maintenance: held by whoever deletes or replaces segments of the log, or closes it; see `reserve`.
        has_directory: whether the directory of its name is its own: a log was found or made in it.

    Args:
        topic, number: the partition.
        flushes: where flushes are ordered.
        waits_for_disk: see above.
        unopened: its log, where there is one; None: it is made with the first record.
    """

    def __init__(
        self,
        topic: str,
        number: int,
        flushes: FlushOrder,
        *,
        waits_for_disk: bool,
        unopened: Unopened | None = None,
    ) -> None:
        self.topic = topic
        self.number = number
        self._flushes = flushes
        self._waits_for_disk = waits_for_disk
        self._unopened = unopened
        self._log: TopicLog | None = None
        self._failure: OffsetLogError | None = None
        self._last_failure: OffsetLogError | None = None
        self._is_deleted = False
        self.maintenance = threading.Lock()
        self.has_directory = unopened is not None
        self._watchers: dict[Callable[[], None], None] = {}
        #: Everything from here on is in memory, and from the second on when the next bytes came.
        self._warm_from = self._next_warm_from = 0
        self._warm_bytes = 0
        self._pins = 0
        self._was_used = False
        self._had_log = False

    # ----------------------------------------------------------------------------------------------- log

    @property
    def log(self) -> TopicLog | None:
        """The open log; None where nothing was appended yet, or it is not open."""
        if self._failure is not None:
            raise self._failure
        return self._log

    @property
    def unopened(self) -> Unopened | None:
        """The log that is there and not open."""
        return self._unopened

    def needs_opening(self, *, makes: bool = False) -> bool:
        """Whether the log has to be opened before it is used; with `makes`, or made."""
        if self._log is not None or self._failure is not None or self._is_deleted:
            return False
        return makes or self._unopened is not None

    def attach(self, log: TopicLog) -> None:
        """Has the partition use a log that was opened for it."""
        self._log = log
        self.has_directory = True
        self._unopened = self._last_failure = None
        self._warm_from = self._next_warm_from = log.end
        if self._waits_for_disk:
            log.expect_flushes()
            if log.flushed < log.end:
                self._flushes.order(self)

    def refuse(self, failure: OffsetLogError) -> None:
        """Has the partition refuse its clients, since its log could not be opened."""
        self._failure = failure

    def refuse_once(self, failure: OffsetLogError) -> None:
        """Has it refuse them until the log could be opened, which the next use tries again."""
        self._last_failure = failure

    @property
    def has_failed(self) -> bool:
        """Whether the log takes nothing more, after a failure of the disk."""
        return self._log is not None and not self._log.is_writable

    @property
    def is_unsound(self) -> bool:
        """Whether the log could not be opened or made, and not later either, so that a start recovers it."""
        return self._failure is not None or self._last_failure is not None

    @property
    def is_deleted(self) -> bool:
        """Whether its topic was, or is being deleted."""
        return self._is_deleted

    def pin(self) -> None:
        """Keeps the log open until as many calls of `unpin`."""
        self._pins += 1

    def unpin(self) -> None:
        """See pin."""
        self._pins -= 1

    def may_be_closed(self) -> bool:
        """Whether nobody has used the log since the last call, or does now; not that of a deleted topic."""
        if self._is_deleted:
            return False  # its directory may be another topic's by the end of the closing
        was_used, self._was_used = self._was_used, False
        return not (was_used or self._pins or self._watchers or self._log is None or self.has_failed)

    def reserve(self, wait_seconds: float = 0) -> TopicLog | None:
        """Keeps the open log, and its segments, to the caller until `release`; from any thread.

        Returns:
            The log; None where it is not open, or somebody else has it for longer than the wait.
        """
        if not self.maintenance.acquire(timeout=wait_seconds):
            return None
        # Under the lock: a closing that had it first has taken the log away.
        log = self._log
        if log is None:
            self.maintenance.release()
        return log

    def release(self) -> None:
        """Ends what `reserve` began; on any thread."""
        self.maintenance.release()

    def set_aside(self) -> TopicLog | None:
        """Takes the open log away, which is to be closed; `closed` or `not_closed` follows.

        None where its segments are being deleted or replaced, for which its clients would have to wait.
        """
        log = self.reserve()
        if log is None:
            return None
        self._log = None
        self._unopened = Unopened(-1, log.start, log.leader_epoch, is_clean=False)
        return log

    def closed(self, unopened: Unopened) -> None:
        """Says that the log that was set aside is closed cleanly."""
        self._unopened = unopened
        self.release()

    def not_closed(self) -> None:
        """Says that it could not be."""
        self.release()

    def begin_delete(self) -> None:
        """Has the log not be opened any more, since the topic is deleted; `detach` follows."""
        self._is_deleted = True

    def detach(self) -> TopicLog | None:
        """Takes the log of a deleted partition away, and wakes who waits."""
        self._is_deleted = True
        self._had_log = self._log is not None or self._unopened is not None
        log, self._log = self._log, None
        self._unopened = None
        self.advance()
        return log

    def restore(self) -> None:
        """Has the partition take records again: its directory could not be removed."""
        self._is_deleted = False
        if self._had_log:
            self._unopened = Unopened(-1, -1, 0, is_clean=False)

    def _readable(self) -> TopicLog | None:
        # The log for one call; None where it is empty.
        self._was_used = True
        log = self.log
        if log is None:
            if self._is_deleted:
                raise ClosedError(f"{self.topic}-{self.number} was deleted")
            if self._unopened is not None:
                raise self._last_failure or InternalError(
                    f"{self.topic}-{self.number} was used before it was opened"
                )
        return log

    # ----------------------------------------------------------------------------------------- positions

    @property
    def start(self) -> int:
        """The first offset."""
        log = self._readable()
        return 0 if log is None else log.start

    @property
    def watermark(self) -> int:
        """Everything below can be read."""
        log = self._readable()
        return 0 if log is None else self.watermark_of(log)

    def watermark_of(self, log: TopicLog) -> int:
        """That of its open log, for maintenance: it does not count as use, and may be read on any thread."""
        return log.flushed if self._waits_for_disk else log.end

    @property
    def last_stable_offset(self) -> int:
        """The watermark, or where the oldest open transaction begins."""
        log = self._readable()
        return 0 if log is None else self.last_stable_of(log)

    def last_stable_of(self, log: TopicLog) -> int:
        """That of its open log; see watermark_of."""
        # An open transaction may have begun below what is kept.
        return max(log.start, min(self.watermark_of(log), log.first_unstable()))

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this process leads; known without an open log."""
        log = self.log
        if log is None:
            return 0 if self._unopened is None else max(self._unopened.leader_epoch, 0)
        return max(log.leader_epoch, 0)

    # ----------------------------------------------------------------------------------------- appending

    def produce(self, records: bytes, rules: AppendRules, now_ms: int, *, takes_zstd: bool) -> Appended:
        """Appends a producer's batch; see TopicLog.produce, which raises."""
        appended = self.append(records, rules, now_ms, takes_zstd=takes_zstd)
        self.was_appended(appended, rules, len(records))
        return appended

    def append(self, records: bytes, rules: AppendRules, now_ms: int, *, takes_zstd: bool) -> Appended:
        """The part of `produce` that any thread may do; `was_appended` follows on the event loop."""
        log = self._readable()
        if log is None:
            # It is empty still, so that only those who append are refused.
            raise self._last_failure or InternalError(
                f"{self.topic}-{self.number} has no log to append to"
            )
        return log.produce(
            records,
            batch_bytes_max=rules.batch_bytes_max,
            timestamp_min=now_ms - min(rules.before_max_ms, now_ms),
            timestamp_max=now_ms + min(rules.after_max_ms, 2**63 - 1 - now_ms),
            log_append_time=now_ms if rules.has_append_time else -1,
            takes_zstd=takes_zstd,
            needs_keys=rules.needs_keys,
        )

    def was_appended(self, appended: Appended, rules: AppendRules, size: int) -> None:
        """Has what `append` appended, `size` bytes of it, flushed and seen.

        Raises:
            ClosedError: the partition was deleted meanwhile.
        """
        log = self._readable()
        if appended.refusal or log is None:
            return
        self._keep_warm(appended, size)
        self._have_flushed(log, appended, rules)

    def _keep_warm(self, appended: Appended, size: int) -> None:
        self._warm_bytes += size
        if self._warm_bytes >= WARM_BYTES:
            self._warm_from, self._next_warm_from = self._next_warm_from, appended.next_offset
            self._warm_bytes = 0

    def _have_flushed(self, log: TopicLog, appended: Appended, rules: AppendRules) -> None:
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

    def is_warm(self, offset: int) -> bool:
        """Whether records from an offset on are read without the disk, or there are none to be read."""
        try:
            return offset >= min(self._warm_from, self.watermark)
        except OffsetLogError:
            return True  # it is refused at once

    def read(self, offset: int, end: int, size_max: int, *, whole_first: bool = False) -> bytes:
        """Reads whole batches; see TopicLog.read, which raises."""
        log = self._readable()
        if log is None:
            return self._nothing_at(offset)
        return log.read(offset, end, size_max, whole_first=whole_first)

    def size_between(self, offset: int, end: int, size_max: int) -> int:
        """How many bytes `read` would find; see TopicLog.size_between, which raises."""
        log = self._readable()
        if log is None:
            return len(self._nothing_at(offset))
        return log.size_between(offset, end, size_max)

    def _nothing_at(self, offset: int) -> bytes:
        if offset != 0:
            raise OffsetOutOfRangeError(f"{self.topic}-{self.number} is empty; offset {offset} is out of range")
        return b""

    def aborted(self, begin: int, end: int) -> tuple[tuple[int, int], ...]:
        """The aborted transactions that overlap [begin, end); see TopicLog.aborted."""
        log = self._readable()
        return () if log is None else log.aborted(begin, end)

    def record_at_time(self, time_ms: int, end: int) -> TimedRecord | None:
        """The first record below `end` that is not older; see TopicLog.record_at_time.

        May be called from any thread: it reads, and decompresses.

        Raises:
            ClosedError: the partition was deleted.
        """
        log = self._readable()
        return None if log is None else log.record_at_time(time_ms, end)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at an offset, -1 for unknown."""
        log = self._readable()
        return -1 if log is None else log.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where a leader epoch ends; see TopicLog.end_offset_for_epoch."""
        log = self._readable()
        if log is None:
            return EpochEnd(0, 0) if epoch >= 0 else EpochEnd(-1, -1)
        return log.end_offset_for_epoch(epoch)
