"""Compacts the logs of topics, those with the largest dirty share first (docs/format/topics.md §17.7)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from offsetlog._native.cleaner import CleanControl
from offsetlog._native.topic_cleaner import clean_topic, segment_times, segments_of
from offsetlog._native.topic_log import TopicLog
from offsetlog.errors import ClosedError, OffsetLogError
from offsetlog.topics.compaction_policy import Dirt, LogState, SegmentTimes, dirt_of
from offsetlog.topics.partition_log import PartitionLog
from offsetlog.topics.settings import TopicLogSettings

_log = logging.getLogger(__name__)

#: After this time of compacting, the remaining logs are put in order again.
LISTED_AGAIN_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """Settings of compaction, with Kafka's names in parentheses.

    Attributes:
        enabled: whether topics are compacted (``log.cleaner.enable``).
        backoff_ms: time between checks for logs to compact (``log.cleaner.backoff.ms``).
        map_bytes: memory for the keys of one pass (``log.cleaner.dedupe.buffer.size``).
        bytes_per_second: limit on bytes read plus written (``log.cleaner.io.max.bytes.per.second``).
    """

    enabled: bool = True
    backoff_ms: int = 15_000
    map_bytes: int = 128 << 20
    bytes_per_second: int = 2**63 - 1


class _Candidate(NamedTuple):
    partition: PartitionLog
    log: TopicLog
    settings: TopicLogSettings
    dirt: Dirt


#: The offset up to which each log is compacted, by topic and partition number.
Checkpoints = Mapping[tuple[str, int], int]


class Compaction:
    """Compacts one log at a time; call `compact` on one thread, and the other methods on any thread.

    Args:
        settings: see CompactionSettings.
        read_checkpoints: returns the offset up to which each log is compacted, by topic and
            partition number.
        store_checkpoint: writes this offset for one log, unless its topic has been deleted.
    """

    def __init__(
        self,
        settings: CompactionSettings,
        read_checkpoints: Callable[[], Checkpoints],
        store_checkpoint: Callable[[PartitionLog, int], None],
    ) -> None:
        self._settings = settings
        self._read_checkpoints = read_checkpoints
        self._store_checkpoint = store_checkpoint
        #: Guards the fields below.
        self._lock = threading.Lock()
        self._current: tuple[PartitionLog, CleanControl] | None = None
        self._is_stopped = False

    # --------------------------------------------------------------------------------------------- stops

    def stop(self) -> None:
        """Interrupts a running compaction, and starts no more."""
        with self._lock:
            self._is_stopped = True
            if self._current is not None:
                self._current[1].stop()

    def interrupt(self, topic: str) -> None:
        """Interrupts a running compaction of one of the topic's logs; logs being deleted are not compacted again."""
        with self._lock:
            if self._current is not None and self._current[0].topic == topic:
                self._current[1].stop()

    def _begin(self, partition: PartitionLog) -> CleanControl | None:
        with self._lock:
            if self._is_stopped or partition.is_deleted:
                return None
            control = CleanControl()
            self._current = partition, control
            return control

    def _end(self) -> None:
        with self._lock:
            self._current = None

    # ----------------------------------------------------------------------------------------------- run

    def compact(
        self,
        partitions: Iterable[PartitionLog],
        settings_of: Callable[[str], TopicLogSettings],
        now_ms: Callable[[], int],
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """Compacts all open logs that are due, the dirtiest first; compacts each log once.

        Whether a log is due is decided immediately before its compaction, by the time and the
        settings at that moment.  Failures are logged, and the next call tries again.

        Args:
            partitions: the candidates; those whose topics are not compacted are skipped.
            settings_of: returns the settings of a topic; raises ClosedError if the topic was
                deleted.
            now_ms: returns the time of day, in ms since 1970.
            checkpoints: the result of `read_checkpoints`; None makes this call read them.
        """
        left = dict.fromkeys(partitions)
        while self._compact_listed(left, settings_of, now_ms, checkpoints):
            checkpoints = None

    def read_checkpoints(self) -> Checkpoints:
        """Returns the offset up to which each log is compacted, by topic and partition number."""
        return self._read_checkpoints()

    def _compact_listed(
        self,
        left: dict[PartitionLog, None],
        settings_of: Callable[[str], TopicLogSettings],
        now_ms: Callable[[], int],
        checkpoints: Checkpoints | None,
    ) -> bool:
        # Compacts logs that are due and removes them from `left`; returns True if the rest must be
        # put in order again.
        if checkpoints is None:
            checkpoints = self._read_checkpoints()
        listed_at, settings_then = time.monotonic(), cache(settings_of)
        due = []
        for partition in left:
            with self._judged(partition, settings_then, now_ms(), checkpoints) as candidate:
                if candidate is not None:
                    due.append((candidate.dirt.ratio, partition))
        for _, partition in sorted(due, key=itemgetter(0), reverse=True):
            del left[partition]
            began_ms = now_ms()
            with self._judged(partition, settings_of, began_ms, checkpoints) as candidate:
                if candidate is not None:
                    self._compact(candidate, began_ms)
            if time.monotonic() - listed_at >= LISTED_AGAIN_SECONDS:
                return not self._is_stopped
        return False

    @contextmanager
    def _judged(
        self,
        partition: PartitionLog,
        settings_of: Callable[[str], TopicLogSettings],
        now_ms: int,
        checkpoints: Checkpoints,
    ) -> Iterator[_Candidate | None]:
        # Yields a log if it is due.  Within the context, the log is not closed and its old segments
        # are not deleted.
        log = partition.reserve()
        if log is None:
            yield None
            return
        try:
            yield self._due(partition, log, settings_of, now_ms, checkpoints)
        finally:
            partition.release()

    def _due(
        self,
        partition: PartitionLog,
        log: TopicLog,
        settings_of: Callable[[str], TopicLogSettings],
        now_ms: int,
        checkpoints: Checkpoints,
    ) -> _Candidate | None:
        try:
            settings = settings_of(partition.topic)
            if not settings.compacts or not log.is_writable:
                return None
            dirt = _dirt(partition, log, settings, checkpoints, now_ms)
        except ClosedError:
            return None  # the topic was deleted
        except OffsetLogError as failure:
            _report(partition, failure)
            return None
        return _Candidate(partition, log, settings, dirt) if dirt.is_due else None

    def _compact(self, candidate: _Candidate, now_ms: int) -> None:
        partition, log, settings, dirt = candidate
        control = self._begin(partition)
        if control is None:
            return
        try:
            report, failure = clean_topic(
                log,
                control,
                now_ms=now_ms,
                first_dirty=dirt.first_dirty,
                end_max=dirt.end,
                delete_retention_ms=settings.delete_retention_ms,
                map_bytes=self._settings.map_bytes,
                bytes_per_second=self._settings.bytes_per_second,
            )
        except ClosedError:
            return  # the topic was deleted
        finally:
            self._end()
        if failure is not None:
            _report(partition, failure)
        try:
            if report["end"] > dirt.first_dirty:
                self._store_checkpoint(partition, report["end"])
        except OffsetLogError as unwritten:
            _report(partition, unwritten)
        _describe(partition, report)


def _dirt(
    partition: PartitionLog,
    log: TopicLog,
    settings: TopicLogSettings,
    checkpoints: Checkpoints,
    now_ms: int,
) -> Dirt:
    state = LogState(
        segments=segments_of(log),
        start=log.start,
        end=log.end,
        stable=partition.last_stable_of(log),
        checkpoint=checkpoints.get((partition.topic, partition.number)),
    )
    return dirt_of(state, settings, now_ms, lambda base: SegmentTimes(*segment_times(log, base)))


def _describe(partition: PartitionLog, report: Mapping[str, Any]) -> None:
    for base, damage in report["quarantine"]:
        _log.error(
            "%s-%d: the segment at offset %d is damaged and was not compacted: %s",
            partition.topic, partition.number, base, damage,
        )
    _log.info(
        "%s-%d: compacted up to offset %d (target: offset %d); %d bytes became %d",
        partition.topic, partition.number, report["end"], report["target"],
        report["bytes_before"], report["bytes_after"],
        extra={"topic": partition.topic, "number": partition.number},
    )


def _report(partition: PartitionLog, failure: OffsetLogError) -> None:
    _log.error(
        "%s-%d: compaction failed: %s", partition.topic, partition.number, failure,
        extra={"topic": partition.topic, "number": partition.number},
    )
