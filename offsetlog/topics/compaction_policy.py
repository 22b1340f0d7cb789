"""Decides when and how far a log is compacted, by Kafka's rules (docs/format/topics.md §17.7).  No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from offsetlog.topics.settings import TopicLogSettings


class SegmentTimes(NamedTuple):
    """Times of the records in a segment, in ms since 1970; -1 for none.

    Attributes:
        first: the time of the segment's first batch.
        largest: the latest time of all records in the segment.
    """

    first: int
    largest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The state of a log that the decision needs.

    Attributes:
        segments: (base offset, bytes), ascending; the last one is active.
        start, end: the log start offset and the log end offset.
        stable: the last stable offset.  Records at and above it are not compacted, because they are
            not readable yet, or because they follow the start of an open transaction.
        checkpoint: the offset up to which the log is compacted; None if it never was.
    """

    segments: Sequence[tuple[int, int]]
    start: int
    end: int
    stable: int
    checkpoint: int | None


@dataclass(frozen=True, slots=True)
class Dirt:
    """The part of a log that can be compacted.

    Attributes:
        first_dirty: the offset below which everything is already compacted.
        end: the offset from which nothing may be compacted yet.
        ratio: bytes from `first_dirty` to `end`, as a share of all bytes below `end`.
        is_due: whether the log should be compacted now.
    """

    first_dirty: int
    end: int
    ratio: float
    is_due: bool


def dirt_of(
    log: LogState, settings: TopicLogSettings, now_ms: int, times_of: Callable[[int], SegmentTimes]
) -> Dirt:
    """Returns the part of a log that can be compacted, and whether it is due.

    Args:
        log: the log.
        settings: the settings of its topic.
        now_ms: the time of day, in ms since 1970.
        times_of: returns the times of the segment with the given base offset; called only if a
            compaction lag is set.
    """
    first_dirty = log.start
    if log.checkpoint is not None and log.start <= log.checkpoint <= log.end:
        first_dirty = log.checkpoint
    dirty = [base for base, _ in _overlapping(log.segments[:-1], first_dirty)]
    end = min(log.stable, log.segments[-1][0])
    if settings.min_compaction_lag_ms > 0:
        young = (b for b in dirty if times_of(b).largest > now_ms - settings.min_compaction_lag_ms)
        end = min(end, next(young, end))
    # Segments are compacted whole.
    end = max([first_dirty, *(base for base, _ in log.segments if base <= end)])
    clean_bytes = sum(size for base, size in log.segments if base < first_dirty)
    dirty_bytes = sum(size for base, size in _overlapping(log.segments, first_dirty) if base < end)
    ratio = dirty_bytes / max(clean_bytes + dirty_bytes, 1)
    is_late = dirty_bytes > 0 and _is_late(dirty, settings, now_ms, times_of)
    is_due = end > first_dirty and (ratio > settings.min_cleanable_dirty_ratio or is_late)
    return Dirt(first_dirty, end, ratio, is_due)


def _overlapping(segments: Sequence[tuple[int, int]], offset: int) -> Sequence[tuple[int, int]]:
    """Returns the segment that contains an offset, and all later segments."""
    below = sum(base <= offset for base, _ in segments)
    return segments[max(below - 1, 0) :]


def _is_late(
    dirty: Sequence[int], settings: TopicLogSettings, now_ms: int, times_of: Callable[[int], SegmentTimes]
) -> bool:
    """Whether the oldest dirty record has waited longer than `max.compaction.lag.ms` allows."""
    lag_ms = max(settings.max_compaction_lag_ms, settings.min_compaction_lag_ms)
    if lag_ms >= now_ms:
        return False
    firsts = [first for first in (times_of(base).first for base in dirty) if first > 0]
    return bool(firsts) and min(firsts) < now_ms - lag_ms
