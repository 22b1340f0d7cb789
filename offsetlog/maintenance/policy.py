"""The decisions of maintenance: pure functions of facts about a log (docs/format/cleaner.md §8.1, docs/maintenance.md).

Nothing here opens a file, asks a clock or holds state, so that every decision can be explained,
tested and repeated.  Beyond Kafka, an active segment is closed when cleaning it pays, and a
log that is small is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from offsetlog.config import MaintenanceConfig

NO_LIMIT = 2**63 - 1

#: A log of at most this many times the live bytes in it is not worth closing an active segment for.
LIVE_TIMES_MAX = 2

#: How much of a log one core replays in a second at least: batches of one record each.
REPLAYED_BYTES_PER_SECOND = 300_000_000
#: At most so many bytes of snapshots are written for each byte of a log.
SNAPSHOT_TIMES_MAX = 2

#: Between two checks for snapshots that are due, in milliseconds, while logs grow.
SNAPSHOT_CHECK_MS_MIN = 100

Action = Literal["none", "roll", "clean", "again"]


class Segment(NamedTuple):
    """One segment of a log.

    Attributes:
        base_offset: its first log offset.
        size: bytes of its batches.
        active: whether commits are appended to it.
        first_timestamp: of its first batch, in milliseconds since 1970, -1 unknown.
        largest_timestamp: of all its batches, -1 unknown.
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
        number: of the log partition.
        segments: ascending; the last one is active.
        start: the log's first offset.
        end: the log's end.
        stable: the first offset that can still be taken back: of the oldest open transaction, or
            the watermark.
        checkpoint: the first offset that was not cleaned yet, None where it was never cleaned.
        entries: committed positions and records of groups; -1 unknown, where nothing is loaded.
        limit: nothing at or above this offset is cleaned, since its history is kept.
        held: from here on records of groups whose history is kept were held back by the cleanings
            so far, though they lie below the checkpoint.
        freed: up to here they need not be held back any more; at or below `held` where they all do.
        idle_ms: for how long nothing was appended.
        record_bytes: of one record, as the last cleaning left them; 0 unknown.
        rested_ms: since that cleaning; -1 unknown.
        snapshot: the offset of the snapshot that the next open can go on from, -1 none.
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
        """The segment that commits are appended to."""
        return self.segments[-1]

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)


class Plan(NamedTuple):
    """The work to be done on one log, and why.

    Attributes:
        number: of the log partition.
        action: "none"; "clean"; "roll": close the active segment, then clean; or "again": clean,
            and what was cleaned before, too.
        reason: one sentence.
        first_dirty: the first offset that was not cleaned yet, or that was held back then and is
            not any more.
        is_reset: whether the checkpoint lay outside of the log, so that it counts as never cleaned.
        uncleanable: the base offset of the first segment that is not cleaned.
        clean_bytes: of segments that begin below the checkpoint, without what is not held back any
            more.
        cleanable_bytes: from the segment that holds the checkpoint up to `uncleanable`, and what is
            not held back any more.
        size: bytes of the log.
        segments: files of the log.
        live_bytes: an estimate of what is left when all of it is cleaned.
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
        """How much of what can be cleaned is dirty, from 0 to 1."""
        whole = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / whole if whole else 0.0


# ---------------------------------------------------------------------------------------- measuring


def first_dirty(log: LogFacts) -> tuple[int, bool]:
    """Returns the first offset that was not cleaned, and whether the checkpoint said something that cannot be."""
    if log.checkpoint is None:
        return log.start, False
    if log.start <= log.checkpoint <= log.end:
        return log.checkpoint, False
    return log.start, True


def _freed_bytes(log: LogFacts, below: int, end: int) -> int:
    # Bytes that were held back in segments below an offset and may go by now: by log offsets, since
    # a whole segment for each step of the clock would be cleaned again and again.
    freed = 0
    ends = (*(segment.base_offset for segment in log.segments[1:]), log.end)
    for segment, segment_end in zip(log.segments, ends, strict=True):
        low, high = max(log.held, segment.base_offset), min(log.freed, segment_end, end)
        if segment.base_offset < below and low < high:
            freed += -(-segment.size * (high - low) // (segment_end - segment.base_offset))
    return freed


def _first_young(log: LogFacts, dirty: int, now_ms: int, lag_ms: int) -> int:
    # The first segment with something dirty in it that is too young.
    if lag_ms > 0:
        for segment in log.segments:
            if (
                segment.base_offset >= _holding(log, dirty)
                and segment.largest_timestamp > now_ms - lag_ms
            ):
                return segment.base_offset
    return NO_LIMIT


def _holding(log: LogFacts, offset: int) -> int:
    # The base of the segment that contains an offset: it is left out as a whole.
    base = log.segments[0].base_offset
    for segment in log.segments:
        if segment.base_offset > offset:
            break
        base = segment.base_offset
    return base


def live_bytes(log: LogFacts, dirty: int) -> int:
    """Estimates what is live in a log: its entries, of the size that records have lately; at most the log."""
    base = _holding(log, dirty)
    records = log.end - base
    written = sum(segment.size for segment in log.segments if segment.base_offset >= base)
    if records <= 0 or written == 0 or log.entries < 0:
        return log.size
    return min(log.size, log.entries * written // records)


def measure(log: LogFacts, config: MaintenanceConfig, now_ms: int, *, rolled: bool = False) -> Plan:
    """Measures what of a log is clean and what can be cleaned, as Kafka does; decides nothing.

    Args:
        log: the facts.
        config: of which the lag counts.
        now_ms: the time, in milliseconds since 1970.
        rolled: as if the active segment had been closed at its end.
    """
    checkpoint, is_reset = first_dirty(log)
    dirty = min(checkpoint, log.held) if log.freed > log.held else checkpoint
    closed_end = log.end if rolled else log.active.base_offset
    limit = min(
        log.stable, log.limit, _first_young(log, checkpoint, now_ms, config.min_compaction_lag_ms)
    )
    # The part that nothing can take back any more reaches the end of a segment, or the segment is
    # left out.
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
        return "something is older than max_compaction_lag_ms"
    if (
        plan.ratio > config.min_cleanable_dirty_ratio
        and plan.cleanable_bytes >= config.min_cleanable_bytes
    ):
        return f"{plan.ratio:.0%} of it is dirty"
    return None


def _why_roll(log: LogFacts, plan: Plan, config: MaintenanceConfig, now_ms: int) -> str | None:
    active = log.active.size
    if active == 0 or plan.uncleanable < log.end:
        return None
    if _is_old(log.active, config, now_ms):
        return "the active segment is old"
    if log.idle_ms >= config.idle_roll_ms and plan.size > LIVE_TIMES_MAX * plan.live_bytes:
        return f"nothing was committed for {log.idle_ms // 1000} s"
    if active >= config.roll_bytes and active > LIVE_TIMES_MAX * plan.live_bytes:
        return f"the active segment alone is more than {LIVE_TIMES_MAX} times the live bytes"
    return None


def _why_again(log: LogFacts, plan: Plan, config: MaintenanceConfig) -> str | None:
    # Tombstones are no longer dirty once they were cleaned; without commits nothing would ever drop
    # them.
    if log.record_bytes <= 0 or log.rested_ms < max(config.delete_retention_ms, config.interval_ms):
        return None
    if log.entries < 0:
        return None
    closed = plan.size - log.active.size
    if closed <= LIVE_TIMES_MAX * int(log.entries * log.record_bytes) + config.min_cleanable_bytes:
        return None
    return "deleted records are past their time"


def _why_not(log: LogFacts, plan: Plan, config: MaintenanceConfig) -> str:
    dirty = log.end > plan.first_dirty
    if not dirty and log.held < log.end:
        return f"history of some groups is kept from {log.held} on"
    if not dirty:
        return "nothing was written since it was cleaned"
    if log.stable < log.end and plan.uncleanable <= _holding(log, log.stable):
        return f"an open transaction holds it from {log.stable} on"
    if log.limit < log.end and plan.uncleanable <= _holding(log, log.limit):
        return f"history is kept from {log.limit} on"
    if plan.cleanable_bytes == 0:
        return "the dirty part is in the active segment, or too young"
    if plan.cleanable_bytes < config.min_cleanable_bytes:
        return f"only {plan.cleanable_bytes} bytes can be cleaned"
    return f"{plan.ratio:.0%} of it is dirty"


def decide(log: LogFacts, config: MaintenanceConfig, now_ms: int) -> Plan:
    """Decides what is done with a log unasked.

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
    # Closing a segment that is not cleaned then would only make more files.
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
    """Decides what is done with a log when somebody asked for it: whatever its size.

    Args:
        log: the facts.
        config: of which the lag counts.
        now_ms: the time, in milliseconds since 1970.
        roll: whether the active segment may be closed; it is not where every record of the log is
            live.
        ratio: cleaned is only what is dirtier; at 0 anything that is dirty.
    """
    has_dead = log.entries < log.end - log.start
    if roll and log.active.size > 0 and has_dead:
        rolled = measure(log, config, now_ms, rolled=True)
        if rolled.uncleanable >= log.end and rolled.cleanable_bytes > 0 and rolled.ratio > ratio:
            return rolled._replace(action="roll", reason="asked for")
    plan = measure(log, config, now_ms)
    if plan.cleanable_bytes > 0 and plan.ratio > ratio:
        return plan._replace(action="clean", reason="asked for")
    if roll and not has_dead and log.end > plan.first_dirty:
        return plan._replace(reason="nothing of it was superseded")
    return plan._replace(reason=_why_not(log, plan, config))


def loses_snapshot(log: LogFacts, plan: Plan) -> bool:
    """Tells whether cleaning would make the snapshot useless: its place in the log would be cleaned."""
    return 0 <= log.snapshot < plan.uncleanable


class Tail(NamedTuple):
    """The part of a log that follows its last snapshot, which an open replays.

    Attributes:
        number: of the log partition.
        bytes: of the tail, about.
        state_bytes: of the table, the records of groups and the values of open transactions, which a snapshot holds as
            they lie in memory; -1 unknown, where nothing is loaded.
        log_bytes: of the whole log.
    """

    number: int
    bytes: int
    state_bytes: int = -1
    log_bytes: int = 0

    @property
    def snapshot_bytes(self) -> int:
        """About the size of a snapshot, rather more than less."""
        return self.state_bytes if self.state_bytes >= 0 else self.log_bytes // 2


def snapshots_due(tails: Iterable[Tail], config: MaintenanceConfig) -> set[int]:
    """Returns the logs that get a snapshot now.

    The logs share the time of a replay: the longest tails go first, until the others are replayed in time.  A tail
    that is short beside the snapshot stays, so that a large table is not written for a few commits.
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
    """Returns how many bytes can be written, to whichever logs, before a snapshot may be due; at least 0.

    The tails have to be too long together, and one of them worth its snapshot.
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

    So the check of a store that rests is rare, and that of one that is written to comes when it can find something.

    Args:
        left: bytes until a snapshot may be due, as `bytes_until_due`.
        grown: bytes by which the tails have grown since the last check.
        elapsed_ms: milliseconds since then.
        longest_ms: the answer while nothing grows.
    """
    if grown <= 0:
        return longest_ms
    return min(longest_ms, max(SNAPSHOT_CHECK_MS_MIN, int(left * elapsed_ms / grown)))


def filthiest_first(plans: Iterable[Plan]) -> list[Plan]:
    """Returns what is to be done, the log with the highest dirty ratio first."""
    wanted = [plan for plan in plans if plan.action != "none"]
    return sorted(wanted, key=lambda plan: (-plan.ratio, plan.number))


# ----------------------------------------------------------------------------------------- by group


def split_pattern(pattern: str) -> tuple[str, bool]:
    """Returns the group, or the prefix, that a key of a mapping by group names, and whether it is a prefix."""
    return (pattern[:-1], True) if pattern.endswith("*") else (pattern, False)


def longer_histories(config: MaintenanceConfig) -> dict[str, int]:
    """Returns the entries of `min_history` that ask for more than `min_history_ms`."""
    times: Mapping[str, int] = config.min_history
    return {pattern: ms for pattern, ms in times.items() if ms > config.min_history_ms}


# ------------------------------------------------------------------------------- stuck transactions


class StuckTransaction(NamedTuple):
    """An open transaction older than it should be; nothing after its beginning can be cleaned.

    `OffsetStore.abort_transaction` ends it, if its producer is gone.

    Attributes:
        log_partition: of the offsets topic.
        producer_id: whose.
        producer_epoch: the producer's epoch.
        start_offset: the log offset of its first record.
        age_ms: for how long it is known to be open.
        groups: the groups of its positions.
        pinned_bytes: bytes of log from the segment that holds its first record on.
    """

    log_partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    age_ms: int
    groups: tuple[str, ...]
    pinned_bytes: int


def pinned_bytes(log: LogFacts, start_offset: int) -> int:
    """Returns the bytes of log that a transaction keeps from being cleaned."""
    base = _holding(log, start_offset)
    return sum(segment.size for segment in log.segments if segment.base_offset >= base)
