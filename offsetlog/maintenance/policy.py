"""The decisions of maintenance: pure functions of facts (docs/format/cleaner.md §8.1, docs/maintenance.md).

This module opens no file, reads no clock and holds no state, so that every decision can be
explained, tested and repeated.  The policy differs from Kafka's in three ways.  It closes an active
segment that is worth cleaning, it does not clean small logs, and it cleans a log once more when its
tombstones are past their retention.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from offsetlog.config import MaintenanceConfig

NO_LIMIT = 2**63 - 1

#: An active segment is not closed while the log is at most this many times as large as its live
#: bytes.
LIVE_TIMES_MAX = 2

#: A low estimate of how much of a log one core replays in a second: measured with batches of one
#: record.
REPLAYED_BYTES_PER_SECOND = 300_000_000
#: At most this many bytes of snapshots are written for each byte of a log.
SNAPSHOT_TIMES_MAX = 2

#: The shortest time between two checks for due snapshots, in milliseconds, while logs grow.
SNAPSHOT_CHECK_MS_MIN = 100

Action = Literal["none", "roll", "clean", "again"]


class Segment(NamedTuple):
    """One segment of a log.

    Attributes:
        base_offset: its first log offset.
        size: the bytes of its batches.
        active: whether commits are appended to it.
        first_timestamp: the time of its first batch, in milliseconds since 1970; -1 if unknown.
        largest_timestamp: the latest time of its batches, in milliseconds since 1970; -1 if unknown.
    """

    base_offset: int
    size: int
    active: bool = False
    first_timestamp: int = -1
    largest_timestamp: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """The facts about one log at one moment.

    Attributes:
        number: the number of the log partition.
        segments: in ascending order; the last one is active.
        start: the first log offset.
        end: the log end.
        stable: the first offset whose record is not final yet: the start of the oldest open
            transaction, or the high watermark.
        checkpoint: the first offset that was not cleaned yet; None if the log was never cleaned.
        entries: the number of committed positions and group records; -1 if nothing is loaded.
        limit: the history of all groups is kept from this offset on, so records at or above it are
            not cleaned.
        held: the history of some groups is kept, so earlier cleanings left superseded records of
            these groups from this offset on.  The offset is below the checkpoint.
        freed: the records that were left from `held` up to this offset need not be kept any longer.
            If all of them must still be kept, this offset is not above `held`.
        idle_ms: milliseconds since the last append.
        record_bytes: the bytes per record that the last cleaning left; 0 if unknown.
        rested_ms: milliseconds since the last cleaning; -1 if unknown.
        snapshot: the offset of the snapshot that the next open can use; -1 if it can use none.
    """

    number: int
    segments: tuple[Segment, ...]
    start: int
    end: int
    stable: int
    checkpoint: int | None = None
    entries: int = 0
    limit: int = NO_LIMIT
    held: int = NO_LIMIT
    freed: int = 0
    idle_ms: int = 0
    record_bytes: float = 0.0
    rested_ms: int = -1
    snapshot: int = -1

    @property
    def active(self) -> Segment:
        """The segment to which commits are appended."""
        return self.segments[-1]

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return sum(segment.size for segment in self.segments)


class Plan(NamedTuple):
    """The work to be done on one log, and why.

    Attributes:
        number: the number of the log partition.
        action: "none"; "clean"; "roll": close the active segment, then clean; or "again": clean
            even what was cleaned before.
        reason: why the work is to be done, or is not to be done, as text.
        first_dirty: the first offset to clean.  Its record was not cleaned yet, or was kept as
            history and need not be kept any longer.
        is_reset: whether the checkpoint was outside the log, so that the log counts as never
            cleaned.
        uncleanable: the base offset of the first segment that cannot be cleaned.
        clean_bytes: the bytes of segments that begin below the checkpoint, except those that need
            not be kept as history any longer.
        cleanable_bytes: the bytes from the segment that contains the checkpoint up to
            `uncleanable`, and those that need not be kept as history any longer.
        size: the bytes of the log.
        segments: the number of segments of the log.
        live_bytes: an estimate of the bytes that are left once the whole log is cleaned.
    """

    number: int
    action: Action
    reason: str
    first_dirty: int
    is_reset: bool
    uncleanable: int
    clean_bytes: int
    cleanable_bytes: int
    size: int
    segments: int
    live_bytes: int

    @property
    def ratio(self) -> float:
        """The dirty share of the bytes below `uncleanable`, from 0 to 1."""
        whole = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / whole if whole else 0.0


# ---------------------------------------------------------------------------------------- measuring


def first_dirty(log: LogFacts) -> tuple[int, bool]:
    """Returns the first offset not cleaned yet, and whether the checkpoint is outside the log."""
    if log.checkpoint is None:
        return log.start, False
    if log.start <= log.checkpoint <= log.end:
        return log.checkpoint, False
    return log.start, True


def _freed_bytes(log: LogFacts, below: int, end: int) -> int:
    # The bytes, in segments below an offset, that were held and no longer are.  They are counted in
    # proportion to log offsets: if whole segments were counted, each step of the clock would lead
    # to another cleaning.
    freed = 0
    ends = (*(segment.base_offset for segment in log.segments[1:]), log.end)
    for segment, segment_end in zip(log.segments, ends, strict=True):
        low, high = max(log.held, segment.base_offset), min(log.freed, segment_end, end)
        if segment.base_offset < below and low < high:
            freed += -(-segment.size * (high - low) // (segment_end - segment.base_offset))
    return freed


def _first_young(log: LogFacts, dirty: int, now_ms: int, lag_ms: int) -> int:
    # The base offset of the first segment that has dirty records and is too young to be cleaned.
    if lag_ms > 0:
        for segment in log.segments:
            if (
                segment.base_offset >= _holding(log, dirty)
                and segment.largest_timestamp > now_ms - lag_ms
            ):
                return segment.base_offset
    return NO_LIMIT


def _holding(log: LogFacts, offset: int) -> int:
    # The base offset of the segment that contains an offset.  A segment is cleaned as a whole or
    # not at all.
    base = log.segments[0].base_offset
    for segment in log.segments:
        if segment.base_offset > offset:
            break
        base = segment.base_offset
    return base


def live_bytes(log: LogFacts, dirty: int) -> int:
    """Estimates the live bytes of a log from its entries and the size of its recent records.

    The estimate is at most the size of the log.
    """
    base = _holding(log, dirty)
    records = log.end - base
    written = sum(segment.size for segment in log.segments if segment.base_offset >= base)
    if records <= 0 or written == 0 or log.entries < 0:
        return log.size
    return min(log.size, log.entries * written // records)


def measure(log: LogFacts, config: MaintenanceConfig, now_ms: int, *, rolled: bool = False) -> Plan:
    """Measures, as Kafka does, how much of a log is clean and how much can be cleaned.

    The plan that is returned decides nothing: its action is "none".

    Args:
        log: the facts.
        config: the settings; only `min_compaction_lag_ms` is used.
        now_ms: the time, in milliseconds since 1970.
        rolled: whether to measure as if the active segment had been closed at its end.
    """
    checkpoint, is_reset = first_dirty(log)
    dirty = min(checkpoint, log.held) if log.freed > log.held else checkpoint
    closed_end = log.end if rolled else log.active.base_offset
    limit = min(
        log.stable, log.limit, _first_young(log, checkpoint, now_ms, config.min_compaction_lag_ms)
    )
    # A segment with a record that is not final yet is left out as a whole.
    uncleanable = closed_end if limit >= closed_end else _holding(log, max(limit, dirty))
    clean = sum(segment.size for segment in log.segments if segment.base_offset < checkpoint)
    from_base = _holding(log, checkpoint) if checkpoint < uncleanable else uncleanable
    cleanable = sum(
        segment.size for segment in log.segments if from_base <= segment.base_offset < uncleanable
    )
    freed = _freed_bytes(log, from_base, uncleanable)
    clean, cleanable = clean - freed, cleanable + freed
    live, segments = live_bytes(log, checkpoint), len(log.segments)
    return Plan(
        log.number,
        "none",
        "",
        dirty,
        is_reset,
        uncleanable,
        clean,
        cleanable,
        log.size,
        segments,
        live,
    )


# ----------------------------------------------------------------------------------------- deciding


def _is_old(segment: Segment, config: MaintenanceConfig, now_ms: int) -> bool:
    return 0 <= segment.first_timestamp < now_ms - config.max_compaction_lag_ms


def _exceeds_lag(log: LogFacts, plan: Plan, config: MaintenanceConfig, now_ms: int) -> bool:
    base = _holding(log, first_dirty(log)[0])
    return any(
        _is_old(segment, config, now_ms)
        for segment in log.segments
        if base <= segment.base_offset < plan.uncleanable
    )


def _why_clean(log: LogFacts, plan: Plan, config: MaintenanceConfig, now_ms: int) -> str | None:
    if plan.cleanable_bytes == 0:
        return None
    if _exceeds_lag(log, plan, config, now_ms):
        return "a segment is older than max_compaction_lag_ms"
    if (
        plan.ratio > config.min_cleanable_dirty_ratio
        and plan.cleanable_bytes >= config.min_cleanable_bytes
    ):
        return f"{plan.ratio:.0%} of the log is dirty"
    return None


def _why_roll(log: LogFacts, plan: Plan, config: MaintenanceConfig, now_ms: int) -> str | None:
    active = log.active.size
    if active == 0 or plan.uncleanable < log.end:
        return None
    if _is_old(log.active, config, now_ms):
        return "the active segment is older than max_compaction_lag_ms"
    if log.idle_ms >= config.idle_roll_ms and plan.size > LIVE_TIMES_MAX * plan.live_bytes:
        return f"there was no commit for {log.idle_ms // 1000} s"
    if active >= config.roll_bytes and active > LIVE_TIMES_MAX * plan.live_bytes:
        return f"the active segment alone is more than {LIVE_TIMES_MAX} times the live bytes"
    return None


def _why_again(log: LogFacts, plan: Plan, config: MaintenanceConfig) -> str | None:
    # A tombstone that was cleaned once is no longer dirty.  In a log without new commits, only this
    # rule leads to a cleaning that drops it.
    if log.record_bytes <= 0 or log.rested_ms < max(config.delete_retention_ms, config.interval_ms):
        return None
    if log.entries < 0:
        return None
    closed = plan.size - log.active.size
    if closed <= LIVE_TIMES_MAX * int(log.entries * log.record_bytes) + config.min_cleanable_bytes:
        return None
    return "tombstones are past their retention"


def _why_not(log: LogFacts, plan: Plan, config: MaintenanceConfig) -> str:
    dirty = log.end > plan.first_dirty
    if not dirty and log.held < log.end:
        return f"the history of some groups is kept from log offset {log.held} on"
    if not dirty:
        return "nothing was written since the last cleaning"
    if log.stable < log.end and plan.uncleanable <= _holding(log, log.stable):
        return f"a transaction has been open since log offset {log.stable}"
    if log.limit < log.end and plan.uncleanable <= _holding(log, log.limit):
        return f"the history is kept from log offset {log.limit} on"
    if plan.cleanable_bytes == 0:
        return "the dirty part is too young, or in the active segment"
    if plan.cleanable_bytes < config.min_cleanable_bytes:
        return f"only {plan.cleanable_bytes} bytes can be cleaned"
    return f"{plan.ratio:.0%} of the log is dirty"


def decide(log: LogFacts, config: MaintenanceConfig, now_ms: int) -> Plan:
    """Decides what maintenance does with a log by itself.

    Args:
        log: the facts.
        config: the settings.
        now_ms: the time, in milliseconds since 1970.
    """
    rolled = measure(log, config, now_ms, rolled=True)
    why_roll, why_clean = (
        _why_roll(log, rolled, config, now_ms),
        _why_clean(log, rolled, config, now_ms),
    )
    # A segment is closed only to be cleaned: closing it alone would only add files.
    if why_roll is not None and why_clean is not None:
        return rolled._replace(action="roll", reason=f"{why_roll}; {why_clean}")
    plan = measure(log, config, now_ms)
    why_clean = _why_clean(log, plan, config, now_ms)
    if why_clean is not None:
        return plan._replace(action="clean", reason=why_clean)
    why_again = _why_again(log, plan, config)
    if why_again is not None:
        return plan._replace(action="again", reason=why_again)
    return plan._replace(reason=_why_not(log, plan, config))


def decide_asked(
    log: LogFacts, config: MaintenanceConfig, now_ms: int, *, roll: bool, ratio: float = 0.0
) -> Plan:
    """Decides what to do with a log on request; even a small log is cleaned.

    Args:
        log: the facts.
        config: the settings; only `min_compaction_lag_ms` is used.
        now_ms: the time, in milliseconds since 1970.
        roll: whether the active segment may be closed; it is left open if every record of the log
            is live.
        ratio: a log is cleaned only if its dirty share is larger than this number.  If the number
            is 0, a log is cleaned if any of its bytes are dirty.
    """
    has_dead = log.entries < log.end - log.start
    if roll and log.active.size > 0 and has_dead:
        rolled = measure(log, config, now_ms, rolled=True)
        if rolled.uncleanable >= log.end and rolled.cleanable_bytes > 0 and rolled.ratio > ratio:
            return rolled._replace(action="roll", reason="requested")
    plan = measure(log, config, now_ms)
    if plan.cleanable_bytes > 0 and plan.ratio > ratio:
        return plan._replace(action="clean", reason="requested")
    if roll and not has_dead and log.end > plan.first_dirty:
        return plan._replace(reason="no record was superseded")
    return plan._replace(reason=_why_not(log, plan, config))


def loses_snapshot(log: LogFacts, plan: Plan) -> bool:
    """Returns whether a cleaning would make the snapshot useless by cleaning past its offset."""
    return 0 <= log.snapshot < plan.uncleanable


class Tail(NamedTuple):
    """The part of a log after its last snapshot, which an open replays.

    Attributes:
        number: the number of the log partition.
        bytes: the approximate bytes of the tail.
        state_bytes: the bytes of the table, of group records and of the values of open
            transactions; a snapshot stores them as they are in memory.  -1 if nothing is loaded.
        log_bytes: the bytes of the whole log.
    """

    number: int
    bytes: int
    state_bytes: int = -1
    log_bytes: int = 0

    @property
    def snapshot_bytes(self) -> int:
        """An estimate of the size of a snapshot, more likely too high than too low."""
        return self.state_bytes if self.state_bytes >= 0 else self.log_bytes // 2


def snapshots_due(tails: Iterable[Tail], config: MaintenanceConfig) -> set[int]:
    """Returns the logs that get a snapshot now.

    An open must be able to replay the tails of all logs within `snapshot_replay_ms`.  The logs with
    the longest tails get a snapshot first, until the remaining tails together are short enough.  A
    log whose tail is short compared with the size of its snapshot gets none, so that a large table
    is not written for a few commits.

    If `snapshot_tail_bytes` is set, each log whose tail has at least that size gets a snapshot, and
    no other log does.
    """
    if not config.snapshots:
        return set()
    if config.snapshot_tail_bytes is not None:
        return {tail.number for tail in tails if tail.bytes >= config.snapshot_tail_bytes}
    longest = sorted(tails, key=lambda tail: (-tail.bytes, tail.number))
    left = sum(tail.bytes for tail in longest)
    allowed = config.snapshot_replay_ms * REPLAYED_BYTES_PER_SECOND // 1000
    due = set()
    for tail in longest:
        if left <= allowed:
            break
        if tail.bytes * SNAPSHOT_TIMES_MAX >= tail.snapshot_bytes:
            due.add(tail.number)
            left -= tail.bytes
    return due


def bytes_until_due(tails: Iterable[Tail], config: MaintenanceConfig) -> int:
    """Returns how many bytes the logs can grow before a snapshot may be due; at least 0.

    If `snapshot_tail_bytes` is set, a snapshot is due once a tail has that size.  Otherwise, a
    snapshot is due once an open could not replay all tails within `snapshot_replay_ms`, and one
    tail is long enough compared with its snapshot.
    """
    tails = list(tails)
    if config.snapshot_tail_bytes is not None:
        return max(0, config.snapshot_tail_bytes - max((tail.bytes for tail in tails), default=0))
    allowed = config.snapshot_replay_ms * REPLAYED_BYTES_PER_SECOND // 1000
    until_long = allowed - sum(tail.bytes for tail in tails)
    until_worth = min((-(-tail.snapshot_bytes // SNAPSHOT_TIMES_MAX) - tail.bytes for tail in tails), default=0)
    return max(0, until_long, until_worth)


def check_again_ms(left: int, grown: int, elapsed_ms: float, longest_ms: int) -> int:
    """Returns after how many milliseconds to check again whether snapshots are due.

    A store that is idle is rarely checked.  A store that is written to is checked at about the time
    at which a snapshot may become due.

    Args:
        left: bytes until a snapshot may be due, from `bytes_until_due`.
        grown: bytes by which the tails grew since the last check.
        elapsed_ms: milliseconds since the last check.
        longest_ms: the result if nothing grows.
    """
    if grown <= 0:
        return longest_ms
    return min(longest_ms, max(SNAPSHOT_CHECK_MS_MIN, int(left * elapsed_ms / grown)))


def filthiest_first(plans: Iterable[Plan]) -> list[Plan]:
    """Returns the plans with an action, the log with the highest dirty share first."""
    wanted = [plan for plan in plans if plan.action != "none"]
    return sorted(wanted, key=lambda plan: (-plan.ratio, plan.number))


# ----------------------------------------------------------------------------------------- by group


def split_pattern(pattern: str) -> tuple[str, bool]:
    """Splits a key such as "orders" or "orders*" into the name and whether it is a prefix."""
    return (pattern[:-1], True) if pattern.endswith("*") else (pattern, False)


def longer_histories(config: MaintenanceConfig) -> dict[str, int]:
    """Returns the entries of `min_history` that are longer than `min_history_ms`."""
    times: Mapping[str, int] = config.min_history
    return {pattern: ms for pattern, ms in times.items() if ms > config.min_history_ms}


# ------------------------------------------------------------------------------- stuck transactions


class StuckTransaction(NamedTuple):
    """A transaction that has been open for too long; no record after its start can be cleaned.

    If the producer of the transaction is gone, `OffsetStore.abort_transaction` ends it.

    Attributes:
        log_partition: the partition of the offsets topic.
        producer_id: the id of its producer.
        producer_epoch: the producer's epoch.
        start_offset: the log offset of its first record.
        age_ms: how long it is known to have been open, in milliseconds.
        groups: the groups of its positions.
        pinned_bytes: the bytes of the log from the segment that contains its first record to the
            log end.
    """

    log_partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    age_ms: int
    groups: tuple[str, ...]
    pinned_bytes: int


def pinned_bytes(log: LogFacts, start_offset: int) -> int:
    """Returns how many bytes of a log cannot be cleaned because of a transaction."""
    base = _holding(log, start_offset)
    return sum(segment.size for segment in log.segments if segment.base_offset >= base)
