"""One partition of an ordinary topic: appends, reads, and waits for new records."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from offsetlog._native.topic_log import RecentBatches, TopicLog
from offsetlog.errors import ClosedError, InternalError, OffsetLogError, OffsetOutOfRangeError
from offsetlog.topics.settings import AppendRules
from offsetlog.types import Appended, EpochEnd, TimedRecord

#: If `flush.ms` is this long (24 days) or longer, it requests no flush.
FLUSH_MS_LIMIT = 2**31
#: At least this many bytes, the last that this process appended to a partition, count as being in
#: memory.
WARM_BYTES = 4 << 20


class Unopened(NamedTuple):
    """An existing log that is not open.

    Attributes:
        recovery_point, start: offsets from the checkpoint files, -1 for none.
        leader_epoch: the epoch in which this process leads the partition, as far as known.
        is_clean: whether the log was closed cleanly.
        recent: the last batches of the log's producers, if this process closed the log.
    """

    recovery_point: int
    start: int
    leader_epoch: int
    is_clean: bool
    recent: RecentBatches | None = None


class FlushOrder(Protocol):
    """Flushes logs on other threads."""

    def order(self, partition: PartitionLog) -> None:
        """Requests a flush of everything that the log holds now; `advance` is called after the flush."""

    def order_within(self, partition: PartitionLog, ms: int) -> None:
        """Requests a flush after `ms` milliseconds; has no effect if such a request is already waiting."""


class PartitionLog:
    """A partition whose records are read up to its watermark.

    The log is created with the first record and opened at its first use.  `TopicLogs.use` creates
    and opens it, and must precede every other call.  Call all methods but reads on one event loop.
    If the log could not be opened, every call raises the error of that open.

    If `waits_for_disk` is True, the watermark is the offset up to which records are flushed.  A
    record that a loss of power could destroy is then not read by consumers, and its producer gets
    no answer yet.  If it is False, the watermark is the log end offset.

    Attributes:
        maintenance: the lock that is held while segments are deleted or replaced, or the log is
            closed; see `reserve`.
        has_directory: whether the partition's log was found in its directory or created there.

    Args:
        topic, number: the topic and the number of the partition.
        flushes: takes the requests for flushes.
        waits_for_disk: whether records become readable, and producers are answered, only after a
            flush.
        unopened: the existing log; None means that the log is created with the first record.
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
        #: Two offsets.  All records at and above the first offset are in memory.  After WARM_BYTES
        #: more bytes, the first offset becomes the second one.
        self._warm_from = self._next_warm_from = 0
        self._warm_bytes = 0
        self._pins = 0
        self._was_used = False
        self._had_log = False

    # ----------------------------------------------------------------------------------------------- log

    @property
    def log(self) -> TopicLog | None:
        """The log if it is open; None if it is not open, or if nothing was appended yet."""
        if self._failure is not None:
            raise self._failure
        return self._log

    @property
    def unopened(self) -> Unopened | None:
        """The existing log while it is not open, else None."""
        return self._unopened

    def needs_opening(self, *, makes: bool = False) -> bool:
        """Whether the log must be opened before use, or, if `makes` is True, must be created."""
        if self._log is not None or self._failure is not None or self._is_deleted:
            return False
        return makes or self._unopened is not None

    def attach(self, log: TopicLog) -> None:
        """Gives the partition the log that was opened for it."""
        self._log = log
        self.has_directory = True
        self._unopened = self._last_failure = None
        self._warm_from = self._next_warm_from = log.end
        if self._waits_for_disk:
            log.expect_flushes()
            if log.flushed < log.end:
                self._flushes.order(self)

    def refuse(self, failure: OffsetLogError) -> None:
        """Makes the partition refuse clients because its log could not be opened."""
        self._failure = failure

    def refuse_once(self, failure: OffsetLogError) -> None:
        """Makes the partition refuse clients until its log is open; the next use tries to open it again."""
        self._last_failure = failure

    @property
    def has_failed(self) -> bool:
        """Whether the log accepts no more records after a failure of the disk."""
        return self._log is not None and not self._log.is_writable

    @property
    def is_unsound(self) -> bool:
        """Whether the last attempt to open or create the log failed; the next start must then recover the log."""
        return self._failure is not None or self._last_failure is not None

    @property
    def is_deleted(self) -> bool:
        """Whether the partition's topic was deleted or is being deleted."""
        return self._is_deleted

    def pin(self) -> None:
        """Keeps the log open; each call needs one later call of `unpin`."""
        self._pins += 1

    def unpin(self) -> None:
        """See pin."""
        self._pins -= 1

    def may_be_closed(self) -> bool:
        """Whether the log is not in use and was not used since the last call of this method.

        Returns False if the log has failed or its topic was deleted.
        """
        if self._is_deleted:
            return False  # by the end of the close, another topic may own the directory
        was_used, self._was_used = self._was_used, False
        return not (was_used or self._pins or self._watchers or self._log is None or self.has_failed)

    def reserve(self, wait_seconds: float = 0) -> TopicLog | None:
        """Reserves the open log and its segments for the caller, until `release`.  Any thread may call this.

        Returns:
            The log; None if it is not open, or is reserved for longer than `wait_seconds`.
        """
        if not self.maintenance.acquire(timeout=wait_seconds):
            return None
        # This is checked while the lock is held, because a close that held the lock before may have
        # detached the log.
        log = self._log
        if log is None:
            self.maintenance.release()
        return log

    def release(self) -> None:
        """Ends a reservation.  Any thread may call this."""
        self.maintenance.release()

    def set_aside(self) -> TopicLog | None:
        """Detaches the open log so that it can be closed; `closed` or `not_closed` must follow.

        Returns the log.  Returns None if it is not open, or if its segments are being deleted or
        replaced, because clients would have to wait until that work ends.
        """
        log = self.reserve()
        if log is None:
            return None
        self._log = None
        self._unopened = Unopened(-1, log.start, log.leader_epoch, is_clean=False)
        return log

    def closed(self, unopened: Unopened) -> None:
        """Reports that the detached log was closed cleanly."""
        self._unopened = unopened
        self.release()

    def not_closed(self) -> None:
        """Reports that the detached log could not be closed."""
        self.release()

    def begin_delete(self) -> None:
        """Prevents further opens of the log, since the topic is being deleted; `detach` must follow."""
        self._is_deleted = True

    def detach(self) -> TopicLog | None:
        """Detaches the log of a deleted partition, and wakes waiting clients."""
        self._is_deleted = True
        self._had_log = self._log is not None or self._unopened is not None
        log, self._log = self._log, None
        self._unopened = None
        self.advance()
        return log

    def restore(self) -> None:
        """Makes the partition accept records again after a failed deletion of its directory."""
        self._is_deleted = False
        if self._had_log:
            self._unopened = Unopened(-1, -1, 0, is_clean=False)

    def _readable(self) -> TopicLog | None:
        # Returns the log for one call; None if the log is empty.
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
        """The offset below which everything can be read."""
        log = self._readable()
        return 0 if log is None else self.watermark_of(log)

    def watermark_of(self, log: TopicLog) -> int:
        """Returns the watermark of the partition's open log; does not count as use.  Any thread may call this."""
        return log.flushed if self._waits_for_disk else log.end

    @property
    def last_stable_offset(self) -> int:
        """The watermark, or the start of the oldest open transaction if that is lower."""
        log = self._readable()
        return 0 if log is None else self.last_stable_of(log)

    def last_stable_of(self, log: TopicLog) -> int:
        """Returns the last stable offset of the partition's open log; see watermark_of."""
        # An open transaction may have begun below the log start offset.
        return max(log.start, min(self.watermark_of(log), log.first_unstable()))

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this process leads; known even if the log is not open."""
        log = self.log
        if log is None:
            return 0 if self._unopened is None else max(self._unopened.leader_epoch, 0)
        return max(log.leader_epoch, 0)

    # ----------------------------------------------------------------------------------------- appending

    def produce(self, records: bytes, rules: AppendRules, now_ms: int, *, takes_zstd: bool) -> Appended:
        """Appends a producer's batch; raises the errors of TopicLog.produce."""
        appended = self.append(records, rules, now_ms, takes_zstd=takes_zstd)
        self.was_appended(appended, rules, len(records))
        return appended

    def append(self, records: bytes, rules: AppendRules, now_ms: int, *, takes_zstd: bool) -> Appended:
        """Appends a batch on any thread; the caller must then call `was_appended` on the event loop."""
        log = self._readable()
        if log is None:
            # The log is still empty, so only appends are refused, and reads are not.
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
        """Finishes an append of `size` bytes: requests a flush if one is due, and makes the records readable.

        If `waits_for_disk` is True, the records become readable after a flush.  The flush is requested here, unless
        the batch is already flushed.

        Raises:
            ClosedError: the partition has been deleted.
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
        """Registers a function that is called whenever the watermark has moved."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Removes a function that `watch` registered."""
        self._watchers.pop(watcher, None)

    def advance(self) -> None:
        """Calls the functions that `watch` registered; to be called when the watermark moves or the log is gone."""
        for watcher in list(self._watchers):
            watcher()

    # ------------------------------------------------------------------------------------------- reading

    def is_warm(self, offset: int) -> bool:
        """Whether all records from an offset on are in memory; True if there are none."""
        try:
            return offset >= min(self._warm_from, self.watermark)
        except OffsetLogError:
            return True  # the read is refused at once

    def read(self, offset: int, end: int, size_max: int, *, whole_first: bool = False) -> bytes:
        """Reads whole batches; raises the errors of TopicLog.read."""
        log = self._readable()
        if log is None:
            return self._nothing_at(offset)
        return log.read(offset, end, size_max, whole_first=whole_first)

    def size_between(self, offset: int, end: int, size_max: int) -> int:
        """Returns how many bytes `read` would return; raises the errors of TopicLog.size_between."""
        log = self._readable()
        if log is None:
            return len(self._nothing_at(offset))
        return log.size_between(offset, end, size_max)

    def _nothing_at(self, offset: int) -> bytes:
        if offset != 0:
            raise OffsetOutOfRangeError(f"{self.topic}-{self.number} is empty; offset {offset} is out of range")
        return b""

    def aborted(self, begin: int, end: int) -> tuple[tuple[int, int], ...]:
        """Returns the aborted transactions that overlap [begin, end); see TopicLog.aborted."""
        log = self._readable()
        return () if log is None else log.aborted(begin, end)

    def record_at_time(self, time_ms: int, end: int) -> TimedRecord | None:
        """Returns the first record below `end` that is not older than a time; see TopicLog.record_at_time.

        Any thread may call this.  The call reads from the disk and decompresses.

        Raises:
            ClosedError: the partition was deleted.
        """
        log = self._readable()
        return None if log is None else log.record_at_time(time_ms, end)

    def epoch_at(self, offset: int) -> int:
        """Returns the leader epoch of the record at an offset, -1 if unknown."""
        log = self._readable()
        return -1 if log is None else log.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Returns the end offset of a leader epoch; see TopicLog.end_offset_for_epoch."""
        log = self._readable()
        if log is None:
            return EpochEnd(0, 0) if epoch >= 0 else EpochEnd(-1, -1)
        return log.end_offset_for_epoch(epoch)
