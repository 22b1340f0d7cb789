"""Inspects the logs of a store and cleans them, one at a time, as `policy` decides.

The file `cleaner-offset-checkpoint`, which Kafka also uses, has, for each log, the first offset
that was not cleaned yet.  Kafka's cleaner and this one therefore continue where the other stopped.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from offsetlog._native import cleaner
from offsetlog._native import snapshot as native_snapshot
from offsetlog._native.partition import Partition
from offsetlog.cancellation import Control
from offsetlog.clock import wall_ms
from offsetlog.config import MaintenanceConfig
from offsetlog.directory import snapshots
from offsetlog.directory.history_floor import Hold, cutoff_offset, raise_floor, read_floor
from offsetlog.directory.log_directory import CLEANER_POINTS, TOPIC, LogDirectory
from offsetlog.directory.snapshots import SnapshotReport
from offsetlog.directory.surveying import whole_survey
from offsetlog.errors import ClosedError, OffsetLogError
from offsetlog.maintenance import policy
from offsetlog.maintenance.policy import LogFacts, Plan, Segment, Tail
from offsetlog.maintenance.turns import Turns
from offsetlog.types import CleaningReport, CleanShare, CleanSurvey, QuarantinedSegment

LOGGER = logging.getLogger("offsetlog.maintenance")

def quarantined(described: dict[str, Any]) -> tuple[QuarantinedSegment, ...]:
    """Returns the damaged segments that a run left unchanged, from the run's report."""
    return tuple(
        QuarantinedSegment(
            base,
            "" if failure.path is None else str(failure.path),
            -1 if failure.position is None else failure.position,
            -1 if failure.log_offset is None else failure.log_offset,
            failure.message,
        )
        for base, failure in described["quarantine"]
    )


#: How many snapshots are written at the same time.
SNAPSHOTS_AT_ONCE = 4
#: The size above which snapshots are written one at a time.
SMALL_SNAPSHOT_BYTES_MAX = 16 << 20


def tails_of(partitions: list[Partition]) -> list[Tail]:
    """Returns the tails of the open logs; one call of the engine measures all of them."""
    measured = zip(partitions, native_snapshot.tails(partitions), strict=True)
    return [Tail(each.number, *tail) for each, tail in measured if tail is not None]


class LogCleaner:
    """Cleans the logs of one directory, and writes their snapshots.  Any thread may call its methods.

    One log is cleaned at a time.  A few snapshots can be written at the same time.  A call waits
    for its turn (`Turns`) before it begins.  Cleanings and snapshots have separate turns.  A call
    that needs a turn of both kinds takes the turn for cleaning first.

    Args:
        directory: the log directory.
        config: the settings.
        clock: returns the time, in milliseconds since 1970.
    """

    def __init__(
        self,
        directory: LogDirectory,
        config: MaintenanceConfig,
        clock: Callable[[], int] = wall_ms,
    ) -> None:
        self.clock = clock
        self._directory = directory
        self._config = config
        self._checkpoints = self._read_checkpoints()
        #: number -> (log end, when the log end was first seen at this offset).
        self._ends: dict[int, tuple[int, float]] = {}
        #: number -> (bytes per record, time), both of the last cleaning.
        self._rests: dict[int, tuple[float, float]] = {}
        #: number -> the range whose records need not be kept any longer, but that a cleaning did
        #: not drop.
        self._stays: dict[int, tuple[int, int]] = {}
        #: number -> entries at the last count.  A replica may have no table to count now.
        self._entries: dict[int, int] = {}
        #: number -> the lowest offset to which its log was truncated during the current run.
        self._cuts: dict[int, int] = {}
        #: Guards `_cuts` and the checkpoint.  A truncation lowers the checkpoint, the end of a run
        #: raises it.
        self._recording = threading.Lock()
        #: number -> estimated bytes of memory that the snapshot in progress needs for the state
        #: that it builds.
        self._second_states: dict[int, int] = {}
        self._cleans = Turns()
        self._snapshots = Turns(SNAPSHOTS_AT_ONCE)
        self._large_snapshots = Turns()

    def _read_checkpoints(self) -> dict[int, int]:
        entries = self._directory.read_checkpoint(CLEANER_POINTS)
        return {number: offset for (topic, number), offset in entries.items() if topic == TOPIC}

    def admit(self, partitions: list[Partition]) -> None:
        """Drops checkpoints that lie outside their log, before the log can grow beyond them."""
        known = {}
        for partition in partitions:
            facts = partition.log_facts()
            offset = self._checkpoints.get(partition.number)
            if offset is not None and facts["start"] <= offset <= facts["end"]:
                known[partition.number] = offset
        self._checkpoints = known

    def cut(self, number: int, offset: int) -> None:
        """Lowers the checkpoint of a log that is truncated to an offset.

        The records that are appended after the truncation are not cleaned yet.

        Call this method before the truncation and again after it: a cleaning may begin and end in
        between.

        Raises:
            StorageError: the checkpoint could not be written; the log must not be truncated.
        """
        with self._recording:
            self._cuts[number] = min(offset, self._cuts.get(number, offset))
            if self._checkpoints.get(number, -1) > offset:
                self._directory.write_checkpoint(CLEANER_POINTS, {number: offset})
                self._checkpoints[number] = offset

    def interrupt(self, number: int) -> None:
        """Asks the current work on one log to stop.  Later work is not affected."""
        self._cleans.interrupt(number)
        self._snapshots.interrupt(number)

    # ----------------------------------------------------------------------------------- inspecting

    def inspect(self, partition: Partition) -> LogFacts:
        """Returns the facts about one log that `policy` needs.  Raises StateError, StorageError."""
        config = self._config
        ages = config.min_compaction_lag_ms > 0 or config.max_compaction_lag_ms < policy.NO_LIMIT
        found = cleaner.log_facts(partition, ages)
        *closed, active = (Segment(*segment) for segment in found["segments"])
        record_bytes, rested = self._rests.get(partition.number, (0.0, 0.0))
        held, freed = self._held(partition)
        if found["entries"] >= 0:
            self._entries[partition.number] = found["entries"]
        return LogFacts(
            number=partition.number,
            segments=(
                *(segment._replace(active=False) for segment in closed),
                active._replace(active=True),
            ),
            start=found["start"],
            end=found["end"],
            stable=found["stable"],
            checkpoint=self._checkpoints.get(partition.number),
            entries=self._entries.get(partition.number, -1),
            limit=self._history_end(partition, config.min_history_ms),
            held=held,
            freed=freed,
            idle_ms=self._idle_ms(partition.number, found["end"]),
            record_bytes=record_bytes,
            rested_ms=int((time.monotonic() - rested) * 1000) if record_bytes > 0 else -1,
            snapshot=native_snapshot.file_offset(partition),
        )

    def _idle_ms(self, number: int, end: int) -> int:
        now = time.monotonic()
        seen, since = self._ends.get(number, (-1, now))
        if seen != end:
            since = now
            self._ends[number] = (end, now)
        return int((now - since) * 1000)

    def _history_end(self, partition: Partition, history_ms: int) -> int:
        if history_ms == 0:
            return policy.NO_LIMIT
        return cutoff_offset(partition, self.clock() - history_ms)

    def _holds(self, partition: Partition) -> list[Hold]:
        longer = policy.longer_histories(self._config)
        return [
            (pattern, self._history_end(partition, history_ms))
            for pattern, history_ms in longer.items()
        ]

    def _held(self, partition: Partition) -> tuple[int, int]:
        # Records that were held are still in the log, even if Kafka's cleaner has run since: it
        # read no records below the checkpoint.
        floors = read_floor(self._directory.fs, Path(partition.path))
        found = floors.lifted(self._holds(partition)) if floors.groups else None
        if found is None:
            return policy.NO_LIMIT, 0
        stays = self._stays.get(partition.number)
        return (
            (found[0], found[0])
            if stays is not None and stays[0] == found[0] and stays[1] >= found[1]
            else found
        )

    def unheld(self, partition: Partition) -> list[str]:
        """Returns the groups and prefixes whose kept history the settings no longer keep.

        Groups that `min_history` names are left out.

        Raises StateError, StorageError.
        """
        floors = read_floor(self._directory.fs, Path(partition.path))
        if not floors.groups:
            return []
        limit = self._history_end(partition, self._config.min_history_ms)
        return floors.unheld(self._config.min_history, limit)

    def survey(self, partition: Partition, *, closes_active: bool) -> CleanSurvey:
        """Returns how a cleaning from the start of a log would change its records; changes nothing.

        The first read uses `cleaner_map_bytes` for the keys that are not in the table in memory.
        If the keys do not fit, the log is read again with more memory.

        Args:
            partition: the partition of the log, which must be loaded.
            closes_active: whether the cleaning would close the active segment first.  The active
                segment stays open if a transaction is open, or if history is kept.

        Raises:
            CapacityError: the keys do not fit, even in 16 times the memory that should be enough.
            ChangedFileError: another process changed the log while it was read.
            StateError, StorageError.
        """
        config, facts = self._config, self.inspect(partition)
        measured = policy.measure(facts, config, self.clock())
        # If history is kept, the cleaning ends before the active segment.
        closes_active = closes_active and facts.limit >= facts.end
        holds = [(*policy.split_pattern(pattern), end) for pattern, end in self._holds(partition)]
        report, shares = whole_survey(
            partition,
            config.cleaner_map_bytes,
            now_ms=self.clock(),
            closes_active=closes_active,
            end_max=policy.NO_LIMIT if closes_active else measured.uncleanable,
            holds=holds,
            delete_retention_ms=config.delete_retention_ms,
        )
        counts: list[Any] = [sum(column) for column in zip(*(share[1:] for share in shares), strict=True)]
        return CleanSurvey(CleanShare(None, *counts), quarantined(report))

    # ------------------------------------------------------------------------------------- cleaning

    def clean(
        self,
        partition: Partition,
        plan: Plan,
        *,
        again: bool = False,
        delete_retention_ms: int | None = None,
        control: Control | None = None,
    ) -> CleaningReport:
        """Carries out a plan for one log, and writes the checkpoint.

        Args:
            partition: the partition of the log.
            plan: a plan whose action is not "none".
            again: whether to clean again what was cleaned before, even if the plan does not say so.
            delete_retention_ms: replaces the setting of this name; None uses the setting.
            control: lets the caller stop the cleaning, even while it waits for its turn.

        Raises:
            ClosedError: the store is being closed, or the cleaning was stopped before it began.
            StateError, StorageError, CorruptionError, CapacityError: the cleaning failed.  Each
                segment is either unchanged or completely replaced.
        """
        started = time.monotonic()
        control = control if control is not None else Control()
        with self._cleans.of(partition.number, control):
            control.renew()
            before, segments_before = _extent(partition)
            if plan.action == "roll":
                cleaner.roll(partition)
            again = again or plan.action == "again"
            described = self._run(partition, control, again, delete_retention_ms)
            after, segments_after = _extent(partition)
            self._record_rest(partition.number, described, again)
        return CleaningReport(
            log_partition=partition.number,
            reason=plan.reason,
            cleaned=True,
            rolled=plan.action == "roll",
            checkpoint=self._checkpoints.get(partition.number, -1),
            bytes_before=before,
            bytes_after=after,
            segments_before=segments_before,
            segments_after=segments_after,
            quarantine=quarantined(described),
            seconds=time.monotonic() - started,
            **{name: described[name] for name in _SAME},
        )

    def _run(
        self, partition: Partition, control: Control, again: bool, delete_retention_ms: int | None
    ) -> dict[str, Any]:
        # The range in the plan may be out of date: closing the segment extended it, and another run
        # may have cleaned it while this one waited for its turn.
        config, fs, path = self._config, self._directory.fs, Path(partition.path)
        facts = self.inspect(partition)
        measured = policy.measure(facts, config, self.clock())
        if measured.is_reset:
            self._release_checkpoint(partition.number, facts.start)
        checkpoint = -1 if facts.checkpoint is None or measured.is_reset else facts.checkpoint
        with self._recording:
            self._cuts.pop(partition.number, None)
        holds = self._holds(partition)
        # A snapshot that is still being written may become useless, too.  In that case another one
        # must follow.
        is_below = policy.loses_snapshot(facts, measured) or self._snapshots.is_at(partition.number)
        if config.snapshots and is_below:
            self._renew_snapshot(partition, checkpoint, control)
        # Records that earlier cleanings held still count as dirty.
        held = read_floor(fs, path).groups.values()
        recorded = False

        def record_floor(floor: int) -> None:
            nonlocal recorded
            raise_floor(fs, path, checkpoint, floor, holds, log_end=facts.end)
            recorded = True

        described, failure = cleaner.clean(
            partition,
            control.clean,
            now_ms=self.clock(),
            first_dirty=-1 if again else min([checkpoint, *held]),
            end_max=measured.uncleanable,
            holds=[(*policy.split_pattern(pattern), end) for pattern, end in holds],
            delete_retention_ms=config.delete_retention_ms
            if delete_retention_ms is None
            else delete_retention_ms,
            map_bytes=config.cleaner_map_bytes,
            bytes_per_second=config.cleaner_bytes_per_second,
            raise_floor=record_floor,
        )
        if (holds or held) and not recorded and described["end"] > min([checkpoint, *held]):
            # Nothing was replaced.  The floor is recorded nevertheless, because the checkpoint
            # alone does not show which of the held records are still dirty.
            record_floor(described["end"])
        described["stopped"] |= described["truncated"] or described["load_began"]
        if not described["stopped"]:
            self._stays.pop(partition.number, None)
            held_end = self._held(partition)
            if held_end[1] > held_end[0] == facts.held:
                self._stays[partition.number] = held_end
        self._record_checkpoint(partition.number, described["end"])
        if failure is not None:
            raise failure
        return described

    def _renew_snapshot(self, partition: Partition, checkpoint: int, control: Control) -> None:
        try:
            with self._snapshots.of(partition.number, control):
                self._write_snapshot(partition, checkpoint, control, live=True)
        except ClosedError:
            raise
        except OffsetLogError as failure:
            # The cleaning continues without a snapshot, which is only a cache: the next open reads
            # the cleaned log.  The cleaning may even be needed to free disk space for a snapshot.
            LOGGER.warning(
                "%s: a new snapshot could not be written: %s. This cleaning makes the last snapshot "
                "useless, so opening the log means reading all of it until a snapshot is written",
                partition.path,
                failure,
            )

    def snapshot(
        self,
        partition: Partition,
        *,
        threads: int = 1,
        control: Control | None = None,
        live: bool = False,
        waits: bool = True,
    ) -> SnapshotReport | None:
        """Writes a snapshot of one log (`snapshots.write`).

        A snapshot may be written during a cleaning, even one of the same log, because the cleaning
        replaces nothing above the last snapshot.  Only a snapshot that must read the log from its
        start waits until the cleaning ends.  If `waits` is False, such a snapshot is not written,
        and the method returns None.  `control` is the same as in `clean`.
        """
        control = control if control is not None else Control()
        number = partition.number
        with self._snapshots.of(number, control):
            cleaned_to = self._checkpoints.get(number, -1)
            report = self._write_snapshot(
                partition, cleaned_to, control, threads=threads, whole=False, live=live
            )
        if report is None and not waits and self._cleans.is_taken:
            return None
        if report is None:
            with self._cleans.of(number, control), self._snapshots.of(number, control):
                cleaned_to = self._checkpoints.get(number, -1)
                report = self._write_snapshot(partition, cleaned_to, control, threads=threads)
        assert report is not None
        return report

    def _write_snapshot(
        self,
        partition: Partition,
        cleaned_to: int,
        control: Control,
        *,
        threads: int = 1,
        whole: bool = True,
        live: bool = False,
    ) -> SnapshotReport | None:
        # The caller holds the turn for a snapshot of this log.
        number = partition.number
        size = sum(tail.snapshot_bytes for tail in tails_of([partition]))
        with contextlib.ExitStack() as turn:
            if size > SMALL_SNAPSHOT_BYTES_MAX:
                turn.enter_context(self._large_snapshots.of(number, control))
            self._second_states[number] = size
            turn.callback(self._second_states.pop, number)
            return snapshots.write(
                partition,
                self._directory,
                cleaned_to=cleaned_to,
                threads=threads,
                stop=control.flag,
                whole=whole,
                live=live,
            )

    @property
    def snapshot_bytes(self) -> int:
        """The estimated memory of the snapshots in progress, in bytes."""
        return sum(self._second_states.copy().values())

    def _record_rest(self, number: int, described: dict[str, Any], again: bool) -> None:
        before, after, kept = (
            described["bytes_before"],
            described["bytes_after"],
            described["records_kept"],
        )
        # A cleaning that repeats another and drops little is not recorded: one more would drop
        # nothing either.
        if described["complete"] and described["passes"] == 1:
            self._entries.setdefault(number, kept)
        if described["complete"] and before > 0 and not (again and after > before * 9 // 10):
            self._rests[number] = (after / max(kept, 1), time.monotonic())
        else:
            self._rests.pop(number, None)

    def _release_checkpoint(self, number: int, first_dirty: int) -> None:
        self._checkpoints.pop(number, None)
        self._directory.write_checkpoint(CLEANER_POINTS, {number: first_dirty})

    def _record_checkpoint(self, number: int, end: int) -> None:
        with self._recording:
            # The truncation removed everything that the run cleaned at and above its offset.
            end = min(end, self._cuts.get(number, end))
            if end > self._checkpoints.get(number, -1):
                self._directory.write_checkpoint(CLEANER_POINTS, {number: end})
                self._checkpoints[number] = end

    def progress(self, control: Control | None = None) -> tuple[int, dict[str, int]] | None:
        """Returns the log being cleaned and its progress; None if no cleaning is in progress.

        If `control` is given, only a cleaning that was started with this control counts.
        """
        current = self._cleans.current
        if current is None or control not in (None, current[1]):
            return None
        return current[0], current[1].clean.progress()

    def stop(self) -> None:
        """Stops the cleaning and the snapshots in progress, and waits until they end.

        Later cleanings and snapshots are refused.
        """
        # One kind of work is stopped after the other.  Work that waits for a turn of another kind
        # is stopped by its own control.
        self._cleans.stop()
        self._large_snapshots.stop()
        self._snapshots.stop()


#: Fields that a run's report and a CleaningReport have under the same name.
_SAME = (
    "complete",
    "stopped",
    "floor",
    "bytes_read",
    "bytes_written",
    "records_read",
    "records_kept",
    "superseded",
    "tombstones_dropped",
    "aborted_dropped",
    "markers_dropped",
    "keyless_dropped",
    "passes",
    "quarantined",
)


def _extent(partition: Partition) -> tuple[int, int]:
    segments = cleaner.log_facts(partition)["segments"]
    return sum(segment[1] for segment in segments), len(segments)
