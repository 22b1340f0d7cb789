"""The logs of all partitions as consumers read them: ordinary topics and the offsets topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from offsetlog._native.replica import Replica
from offsetlog.errors import OffsetLogError
from offsetlog.manager.log_manager import LogManager
from offsetlog.server.metadata_store import OFFSETS_TOPIC, Topic
from offsetlog.topics.partition_log import PartitionLog
from offsetlog.topics.topic_logs import TopicLogs
from offsetlog.types import EpochEnd, TimedRecord

#: The interval at which the watermark of the offsets topic's log is polled while a client waits.
LOOK_SECONDS = 0.05


class ReadableLog(Protocol):
    """A log that consumers read; its methods raise the same errors as TopicLog's."""

    @property
    def start(self) -> int:
        """The first offset."""

    @property
    def watermark(self) -> int:
        """The offset below which everything can be read."""

    @property
    def last_stable_offset(self) -> int:
        """The watermark, or the start of the oldest open transaction if that is lower."""

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader."""

    def read(self, offset: int, end: int, size_max: int, *, whole_first: bool = False) -> bytes:
        """Reads whole batches."""

    def is_warm(self, offset: int) -> bool:
        """Whether all records from an offset on are in memory; True if there are none."""

    def size_between(self, offset: int, end: int, size_max: int) -> int:
        """Returns how many bytes `read` would return."""

    def aborted(self, begin: int, end: int) -> tuple[tuple[int, int], ...]:
        """Returns the aborted transactions that overlap [begin, end)."""

    def record_at_time(self, time_ms: int, end: int) -> TimedRecord | None:
        """Returns the first record below `end` that is not older than a time.  Any thread may call this."""

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at an offset, -1 for unknown."""

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Returns the end offset of a leader epoch."""

    def pin(self) -> None:
        """Keeps the log open; each call needs one later call of `unpin`."""

    def unpin(self) -> None:
        """See pin."""

    def watch(self, watcher: Callable[[], None]) -> None:
        """Registers a function that is called when the watermark has moved."""

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Removes a function that `watch` registered."""


class PositionsLog:
    """One partition of the offsets topic as a log that clients can consume.

    Other threads move the watermark, so the server polls it while a client waits for new records.
    """

    def __init__(
        self, manager: LogManager, number: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._manager = manager
        self._number = number
        self._loop = loop
        self._watchers: dict[Callable[[], None], None] = {}
        self._seen: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def _replica(self) -> Replica | None:
        return self._manager.replica(self._number)

    @property
    def start(self) -> int:
        """See ReadableLog."""
        return self._manager.positions(self._number).log_start

    @property
    def watermark(self) -> int:
        """See ReadableLog."""
        return self._manager.positions(self._number).watermark

    @property
    def last_stable_offset(self) -> int:
        """See ReadableLog."""
        replica = self._replica
        return 0 if replica is None else replica.last_stable_offset()

    @property
    def leader_epoch(self) -> int:
        """See ReadableLog."""
        return max(self._manager.leader_epoch(self._number), 0)

    def read(self, offset: int, end: int, size_max: int, *, whole_first: bool = False) -> bytes:
        """See ReadableLog."""
        replica = self._replica
        return b"" if replica is None else replica.read(offset, end, size_max, whole_first=whole_first)

    def is_warm(self, offset: int) -> bool:
        """See ReadableLog; returns False if there are records to read, because they may not be in memory."""
        watermark = self._watermark_or_none()
        return watermark is None or offset >= watermark  # without a watermark, the read is refused at once

    def size_between(self, offset: int, end: int, size_max: int) -> int:
        """See ReadableLog."""
        replica = self._replica
        return 0 if replica is None else replica.size_between(offset, end, size_max)

    def aborted(self, begin: int, end: int) -> tuple[tuple[int, int], ...]:
        """See ReadableLog."""
        replica = self._replica
        return () if replica is None else replica.aborted(begin, end)

    def record_at_time(self, time_ms: int, end: int) -> TimedRecord | None:
        """See ReadableLog."""
        replica = self._replica
        return None if replica is None else replica.record_at_time(time_ms, end)

    def epoch_at(self, offset: int) -> int:
        """See ReadableLog."""
        replica = self._replica
        return -1 if replica is None else replica.epoch_before(offset + 1)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """See ReadableLog."""
        return self._manager.end_offset_for_epoch(self._number, epoch)

    def pin(self) -> None:
        """See ReadableLog; the log is open as long as the manager leads the partition."""

    def unpin(self) -> None:
        """See ReadableLog."""

    def watch(self, watcher: Callable[[], None]) -> None:
        """See ReadableLog."""
        if self._timer is None:
            self._seen = self._watermark_or_none()
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        self._watchers[watcher] = None

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """See ReadableLog."""
        self._watchers.pop(watcher, None)
        if not self._watchers and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watermark_or_none(self) -> int | None:
        # Returns None if the log has failed, or if this process no longer leads it.
        try:
            return self.watermark
        except OffsetLogError:
            return None

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        watermark = self._watermark_or_none()
        # A reader that waits for a failed log learns that by reading.
        if watermark is None or watermark != self._seen:
            self._seen = watermark
            for watcher in list(self._watchers):
                watcher()


class PartitionLogs:
    """Finds the log of a partition of an existing topic.

    Args:
        manager: keeps the offsets topic.
        topics: keeps all other topics.
        loop: the server's event loop.
    """

    def __init__(
        self,
        manager: LogManager,
        topics: TopicLogs,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._topics = topics
        self._positions = [PositionsLog(manager, number, loop) for number in range(manager.partitions)]

    def readable(self, topic: Topic, number: int) -> ReadableLog:
        """Returns the log of a topic's partition for reading."""
        if topic.name == OFFSETS_TOPIC:
            return self._positions[number]
        return self.writable(topic, number)

    def writable(self, topic: Topic, number: int) -> PartitionLog:
        """Returns the log of an ordinary topic's partition for appending."""
        return self._topics.get(topic.name, number)

    def unopened(self, wanted: Iterable[tuple[Topic, int]]) -> list[PartitionLog]:
        """Returns the partitions of ordinary topics whose logs the caller must open before a read.

        If all logs are open, the result is empty.  If any log is closed, the result has all wanted
        partitions, also those with open logs, because these logs must stay open until the read.

        Args:
            wanted: the topics and numbers of the partitions to read; partitions that do not exist
                are ignored.
        """
        found = [
            self.writable(topic, number)
            for topic, number in wanted
            if topic.name != OFFSETS_TOPIC and 0 <= number < topic.partitions
        ]
        return found if any(each.needs_opening() for each in found) else []

    def use(
        self, partitions: Collection[PartitionLog], *, makes: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Opens logs, and keeps them open within the context; if `makes` is True, also creates missing logs."""
        return self._topics.use(partitions, makes=makes)

    def leader_epoch(self, topic: Topic, number: int) -> int:
        """Returns the leader epoch of a topic's partition on this node."""
        if topic.name == OFFSETS_TOPIC:
            return self._positions[number].leader_epoch
        return self._topics.leader_epoch(topic.name, number)
