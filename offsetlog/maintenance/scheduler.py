"""What an open store does by itself: looks at its logs, decides (`policy`), and cleans (design §8).

One thread a store.  It holds no reference to the store for longer than a moment, so that a forgotten store ends; what
goes wrong with one log is told, counted and tried again later, and never keeps it from the others.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeVar

from offsetlog._native.store_core import StoreCore
from offsetlog._native.partition import Partition
from offsetlog.cancellation import Control, LongCalls
from offsetlog.config import MaintenanceConfig
from offsetlog.directory.log_directory import TOPIC, LogDirectory
from offsetlog.directory.snapshots import SnapshotReport
from offsetlog.errors import ClockError, ClosedError, OffsetLogError, ReadOnlyError
from offsetlog.maintenance import policy
from offsetlog.maintenance.cleaning import LogCleaner
from offsetlog.maintenance.policy import LogFacts, Plan, StuckTransaction
from offsetlog.maintenance.retention import Expirer, checked_retention
from offsetlog.types import CleaningReport, QuarantinedSegment

LOGGER = logging.getLogger("offsetlog.maintenance")

#: Seconds after which what still is as it should not be is told again.
TELL_AGAIN_SECONDS = 3600.0
#: The longest time between two tries of what fails, in seconds.
RETRY_SECONDS_MAX = 3600.0
#: The longest sleep between two looks at the clock, in milliseconds; a lock cannot be waited for much longer.
SLEEP_MS_MAX = 86_400_000
#: Decisions that are kept.
DECISIONS_KEPT = 256

Result = TypeVar("Result")

#: Called while a cleaning goes on, with the log partition, the bytes read so far, and those that will be.
Progress = Callable[[int, int, int], None]


class Decision(NamedTuple):
    """One thing that was decided about a log.

    Attributes:
        timestamp: in milliseconds since 1970.
        plan: what, and why.
    """

    timestamp: int
    plan: Plan


class MaintenanceStatus(NamedTuple):
    """What maintenance is doing, and has done since the store was opened.

    Attributes:
        running: whether it works unasked.
        cleaning: the log partition that is being cleaned now, None where none is.
        progress: how far that is: bytes_read, bytes_total and more.
        counters: how often what was done.
        plans: by log partition, what was decided last.
        reports: by log partition, the last cleaning.
        failures: by log partition, what went wrong last and has not been done since; it is tried again.
        stuck: open transactions that are older than they should be.
        expiry_refused: why nothing expires at all, as the ClockError of a clock that cannot be right; None where the
            last check was made.
    """

    running: bool
    cleaning: int | None
    progress: dict[str, int]
    counters: dict[str, int]
    plans: dict[int, Plan]
    reports: dict[int, CleaningReport]
    failures: dict[int, Exception]
    stuck: list[StuckTransaction]
    expiry_refused: Exception | None = None


#: What is done to a log: what fails of it keeps nothing else from being done.
Work = Literal["look", "clean", "snapshot", "expire"]


@dataclass(slots=True)
class _Trouble:
    """What fails, how often in a row, since when, and when it is tried again."""

    failure: Exception
    times: int
    failed_at: float
    retry_at: float


@dataclass(slots=True)
class _Known:
    """What is known of one log from look to look."""

    plan: Plan | None = None
    report: CleaningReport | None = None
    troubles: dict[Work, _Trouble] = field(default_factory=dict)
    stuck: list[StuckTransaction] = field(default_factory=list)
    wants_snapshot: bool = False
    #: Where cleaning began and was to end, when it came to nothing.
    futile: tuple[int, int] | None = None
    #: (producer id, first offset) of an open transaction -> since when it is known to be open, in ms since 1970.
    opened: dict[tuple[int, int], int] = field(default_factory=dict)

    def waits(self, work: Work) -> bool:
        """Whether it failed, and it is too early to try it again."""
        trouble = self.troubles.get(work)
        return trouble is not None and time.monotonic() < trouble.retry_at

    def last_failure(self) -> Exception | None:
        """Returns what went wrong last."""
        troubles = list(self.troubles.values())
        return max(troubles, key=lambda each: each.failed_at).failure if troubles else None


_IN_WORDS: dict[policy.Action, str] = {
    "none": "left alone",
    "roll": "closed and cleaned",
    "clean": "cleaned",
    "again": "cleaned once more",
}


def _name(number: int) -> str:
    return f"{TOPIC}-{number}"


class Maintenance:
    """What a store does by itself, and what it is asked to; from `OffsetStore.maintenance`.

    Args:
        directory: the log directory.
        config: the settings.
        expirer: what checks a log for what has expired.
        read_only: whether nothing is to be written.
    """

    def __init__(
        self, directory: LogDirectory, config: MaintenanceConfig, expirer: Expirer, *, read_only: bool
    ) -> None:
        self.config = config
        self._expirer = expirer
        self._core: weakref.ref[StoreCore] | None = None
        self._read_only = read_only
        self._cleaner = LogCleaner(directory, config)
        #: What was asked for and takes long, so that an interrupt or the end of the store stops it.
        self.calls = LongCalls()
        self._known: dict[int, _Known] = {}
        self._counters: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._decisions: deque[Decision] = deque(maxlen=DECISIONS_KEPT)
        self._told: dict[object, float] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._expiry_refused: Exception | None = None

    # ------------------------------------------------------------------------------------------------ unasked

    def attach(self, core: StoreCore, opened: list[Partition]) -> None:
        """Takes a store, which is held weakly, and the partitions that are open, loaded or not."""
        self._core = weakref.ref(core)
        self._cleaner.admit(opened)

    def start(self) -> None:
        """Begins to work unasked, where that is wanted."""
        if self.config.enabled and not self._read_only:
            thread = threading.Thread(target=self._run, name="offsetlog-maintenance", daemon=True)
            thread.start()
            self._thread = thread

    def end(self) -> None:
        """Stops what is under way, soon, and waits for its end; does nothing the second time."""
        self._stop.set()
        self.calls.end()
        self._cleaner.end()
        self._expirer.end()
        # The thread itself may have held the last reference to the store for a moment.
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        config = self.config
        seconds = min(config.interval_ms, config.retention_check_interval_ms, SLEEP_MS_MAX) / 1000
        looked = checked = time.monotonic()
        while not self._stop.wait(seconds):
            now = time.monotonic()
            checks = config.expires and now >= checked + config.retention_check_interval_ms / 1000
            looks = now >= looked + config.interval_ms / 1000
            checked, looked = now if checks else checked, now if looks else looked
            try:
                self._round(checks=checks, looks=looks)
            except ClosedError:
                return
            except Exception as failure:
                # Whatever it is, the next round may do without: a thread that ended would not be missed for long.
                self._count(failed=1)
                if self._is_new((type(failure), str(failure))):
                    LOGGER.warning("maintenance failed, and goes on: %r", failure, exc_info=failure)

    def _round(self, *, checks: bool, looks: bool) -> None:
        # Those that are still being loaded are looked after later.
        partitions = self._open_core().attached(wait=False)
        # First what makes records dead, then what drops them.
        if checks:
            self.expire(partitions)
        if looks:
            self.look_after(partitions)

    def _open_core(self) -> StoreCore:
        core = None if self._core is None else self._core()
        if core is None:
            raise ClosedError("the store is closed")
        return core

    def look_after(self, partitions: list[Partition]) -> None:
        """Looks at every log once, and does what is decided, the filthiest log first."""
        self._count(rounds=1)
        plans: dict[Plan, Partition] = {}
        for partition in partitions:
            known = self._known.setdefault(partition.number, _Known())
            if self._stop.is_set():
                return
            if known.waits("look"):
                continue
            plan = self._trying("look", partition, known, self._decide)
            if plan is not None:
                plans[plan] = partition
        cleaned = policy.filthiest_first(plans)
        for plan in cleaned:
            if self._stop.is_set():
                return
            self._trying("clean", plans[plan], self._known[plan.number], self._clean_unasked)
        # Of what was cleaned the next look knows.
        for plan, partition in plans.items():
            known = self._known[plan.number]
            if self._stop.is_set():
                return
            wanted = known.wants_snapshot and plan not in cleaned and not partition.read_only
            if wanted and not known.waits("snapshot"):
                self._trying("snapshot", partition, known, self._snapshot)

    def _trying(
        self, kind: Work, partition: Partition, known: _Known, work: Callable[[Partition, _Known], Result]
    ) -> Result | None:
        try:
            result = work(partition, known)
        except ClosedError:
            return None
        except Exception as failure:
            self._note_trouble(kind, partition, known, failure)
            return None
        known.troubles.pop(kind, None)
        return result

    def _decide(self, partition: Partition, known: _Known) -> Plan:
        facts = self._cleaner.look(partition)
        plan = policy.decide(facts, self.config, self._cleaner.clock())
        if partition.read_only:
            plan = plan._replace(action="none", reason="it is damaged; only who asks for it has it cleaned")
        if plan.action == "clean" and known.futile == (plan.first_dirty, plan.uncleanable):
            plan = plan._replace(action="none", reason="what is dirty in it cannot be cleaned yet")
        known.wants_snapshot = policy.wants_snapshot(facts, self.config)
        self._look_for_stuck(partition, known, facts)
        for stuck in known.stuck:
            self._tell_stuck(stuck)
        if plan.action == "none":
            known.troubles.pop("clean", None)
        elif known.waits("clean"):
            plan = plan._replace(action="none", reason="cleaning it failed; it is tried again later")
        self._note_decision(known, plan)
        if not known.wants_snapshot:
            known.troubles.pop("snapshot", None)
        return plan

    def _clean_unasked(self, partition: Partition, known: _Known) -> CleaningReport:
        plan = known.plan
        assert plan is not None
        report = self._cleaner.clean(partition, plan)
        self._note_report(known, report)
        for segment in report.quarantine:
            self._tell_damaged(report.partition, segment)
        # A transaction that ends behind all that can be cleaned, say: it would be decided again and again.
        is_futile = not report.stopped and plan.action != "again" and report.checkpoint <= plan.first_dirty
        known.futile = (plan.first_dirty, plan.uncleanable) if is_futile else None
        return report

    def _snapshot(self, partition: Partition, known: _Known) -> None:
        report = self._cleaner.snapshot(partition)
        self._count(snapshots=report.written)

    def expire(self, partitions: list[Partition]) -> None:
        """Writes tombstones for what has expired, where the clock can be believed."""
        self._count(expiry_checks=1)
        try:
            now = self._expirer.now(partitions)
        except ClosedError:
            return
        except Exception as failure:
            self._count(expiry_checks_failed=1)
            self._expiry_refused = failure
            if self._is_new((type(failure), "expire")):
                LOGGER.warning("nothing expires: %s", failure)
            return
        self._expiry_refused = None
        for partition in partitions:
            if self._stop.is_set():
                return
            known = self._known.setdefault(partition.number, _Known())
            if not partition.read_only and not known.waits("expire"):
                self._trying("expire", partition, known, lambda each, _: self._expire_one(each, now))

    def _expire_one(self, partition: Partition, now: int) -> None:
        counted = self._expirer.expire_one(partition, now)
        self._count(positions_expired=counted["positions_expired"])
        self._count(groups_removed=counted["groups_removed"])
        if counted["positions_expired"] or counted["groups_removed"]:
            LOGGER.info(
                "%s: %d positions expired, %d groups are gone",
                _name(partition.number),
                counted["positions_expired"],
                counted["groups_removed"],
            )

    # ------------------------------------------------------------------------------------------------ asked

    def plans(
        self, partitions: Iterable[int] | None = None, *, roll: bool = True, ratio: float = 0.0, again: bool = False
    ) -> list[Plan]:
        """Returns what `OffsetStore.compact` with the same arguments would do, and does nothing.

        Raises:
            InvalidArgumentError: there is no such log partition.
            StateError, StorageError.
        """
        return [self._asked(partition, roll, ratio, again) for partition in self._chosen(partitions)]

    def clock_refusal(
        self, retention_ms: int | None = None, retention: Mapping[str, int | None] | None = None
    ) -> ClockError | None:
        """Returns why `OffsetStore.expire` with the same arguments would refuse the clock, None where it would not.

        Raises:
            ConfigError, GroupError: a retention is none.
            StateError, StorageError.
        """
        try:
            self._expirer.now(self._open_core().attached(), retention=checked_retention(retention_ms, retention))
        except ClockError as failure:
            return failure
        return None

    def unheld(self, partitions: Iterable[int] | None = None) -> list[str]:
        """Returns the groups, or prefixes, whose past earlier cleanings kept, and a cleaning by our settings will not.

        Those that `min_history` names are not among them, whatever time it says.

        Raises:
            InvalidArgumentError: there is no such log partition.
            StateError, StorageError.
        """
        return sorted({name for partition in self._chosen(partitions) for name in self._cleaner.unheld(partition)})

    def _chosen(self, numbers: Iterable[int] | None) -> list[Partition]:
        core = self._open_core()
        if numbers is None:
            return core.attached()
        found = (core.partition(number) for number in dict.fromkeys(numbers))
        return [partition for partition in found if partition is not None]

    def _is_damaged(self, partition: Partition) -> bool:
        return partition.progress()["problems"] > 0 if self._read_only else partition.read_only

    def _asked(self, partition: Partition, roll: bool, ratio: float, again: bool) -> Plan:
        facts = self._cleaner.look(partition)
        self._look_for_stuck(partition, self._known.setdefault(partition.number, _Known()), facts)
        if again:
            facts = replace(facts, checkpoint=None)
        # What is damaged takes no more commits, and closing a segment is one.
        may_roll = roll and not self._is_damaged(partition)
        return policy.decide_asked(facts, self.config, self._cleaner.clock(), roll=may_roll, ratio=ratio)

    def compact(
        self,
        partitions: Iterable[int] | None = None,
        *,
        roll: bool = True,
        ratio: float = 0.0,
        again: bool = False,
        delete_retention_ms: int | None = None,
        progress: Progress | None = None,
    ) -> list[CleaningReport]:
        """Cleans now; see OffsetStore.compact."""
        chosen = self._chosen(partitions)
        if self._read_only:
            raise ReadOnlyError("the store is open read-only")
        reports: list[CleaningReport] = []
        failures: list[Exception] = []

        def work(control: Control) -> None:
            for partition in chosen:
                if control.stopped:
                    return
                try:
                    plan = self._asked(partition, roll, ratio, again)
                    reports.append(self._compact_one(partition, plan, again, delete_retention_ms, control))
                except OffsetLogError as failure:
                    failures.append(failure)

        def look(control: Control) -> None:
            current = self._cleaner.progress(control)
            if progress is not None and current is not None:
                progress(current[0], current[1]["bytes_read"], current[1]["bytes_total"])

        self.calls.run(work, look)
        if failures:
            done = sum(report.cleaned for report in reports)
            failures[0].add_note(f"{done} other log partitions were cleaned")
            raise failures[0]
        if self._stop.is_set():
            raise ClosedError("the store was closed before everything was cleaned")
        return reports

    def _compact_one(
        self, partition: Partition, plan: Plan, again: bool, delete_retention_ms: int | None, control: Control
    ) -> CleaningReport:
        known = self._known.setdefault(partition.number, _Known())
        self._note_decision(known, plan)
        if plan.action == "none":
            return CleaningReport(
                partition.number,
                plan.reason,
                checkpoint=plan.first_dirty,
                bytes_before=plan.size,
                bytes_after=plan.size,
                segments_before=plan.segments,
                segments_after=plan.segments,
            )
        report = self._cleaner.clean(
            partition, plan, again=again, delete_retention_ms=delete_retention_ms, control=control
        )
        self._note_report(known, report)
        return report

    def snapshot(self, partitions: Iterable[int] | None = None) -> list[SnapshotReport]:
        """Writes snapshots now; see OffsetStore.snapshot."""
        chosen = self._chosen(partitions)
        if self._read_only:
            raise ReadOnlyError("the store is open read-only")
        threads = os.cpu_count() or 1
        reports: list[SnapshotReport] = []
        failures: list[OffsetLogError] = []

        def work(control: Control) -> None:
            for partition in chosen:
                if control.stopped:
                    return
                try:
                    reports.append(self._cleaner.snapshot(partition, threads=threads, control=control))
                except OffsetLogError as failure:
                    failures.append(failure)

        self.calls.run(work)
        self._count(snapshots=sum(report.written for report in reports))
        if failures:
            failures[0].add_note(f"of {len(reports)} other log partitions there is a snapshot")
            raise failures[0]
        if self._stop.is_set():
            raise ClosedError("the store was closed before there was a snapshot of everything")
        return reports

    # ------------------------------------------------------------------------------------------------ what is known

    def status(self) -> MaintenanceStatus:
        """Returns what is being done and what was done; takes no lock, so it answers while a log is cleaned."""
        known = dict(self._known)
        current = self._cleaner.progress()
        return MaintenanceStatus(
            running=self._thread is not None and self._thread.is_alive(),
            cleaning=None if current is None else current[0],
            progress={} if current is None else current[1],
            counters=dict(self._counters),
            plans={number: log.plan for number, log in known.items() if log.plan is not None},
            reports={number: log.report for number, log in known.items() if log.report is not None},
            failures={number: each for number, log in known.items() if (each := log.last_failure()) is not None},
            stuck=[transaction for log in known.values() for transaction in log.stuck],
            expiry_refused=self._expiry_refused,
        )

    def decisions(self) -> list[Decision]:
        """Returns the last decisions, oldest first; one that only repeats the one before is left out."""
        return list(self._decisions)

    def _count(self, **done: int) -> None:
        # What works unasked and who asks count at the same time.
        with self._counting:
            self._counters.update(done)

    def _note_decision(self, known: _Known, plan: Plan) -> None:
        before, known.plan = known.plan, plan
        self._count(**{f"decided_{plan.action}": 1})
        if plan.action == "none" and before is not None and before[:3] == plan[:3]:
            return
        self._decisions.append(Decision(self._cleaner.clock(), plan))
        level = logging.DEBUG if plan.action == "none" else logging.INFO
        LOGGER.log(
            level,
            "%s: %s: %s (%d of %d bytes can be cleaned, about %d are live)",
            _name(plan.number),
            _IN_WORDS[plan.action],
            plan.reason,
            plan.cleanable_bytes,
            plan.size,
            plan.live_bytes,
        )

    def _note_report(self, known: _Known, report: CleaningReport) -> None:
        known.report = report
        same = ("bytes_read", "bytes_written", "superseded", "tombstones_dropped", "quarantined")
        self._count(
            cleaned=1,
            rolled=report.rolled,
            stopped=report.stopped,
            bytes_freed=max(0, report.bytes_before - report.bytes_after),
            **{name: getattr(report, name) for name in same},
        )
        LOGGER.info(
            "%s: cleaned%s up to %d in %.3f s: %d bytes, now %d; %d of %d records kept",
            _name(report.partition),
            " (stopped on the way)" if report.stopped else "",
            report.checkpoint,
            report.seconds,
            report.bytes_before,
            report.bytes_after,
            report.records_kept,
            report.records_read,
        )

    def _tell_damaged(self, number: int, segment: QuarantinedSegment) -> None:
        if self._is_new((number, segment.base_offset, segment.position)):
            LOGGER.warning(
                "%s: a segment is damaged and was left as it is: %s (%s, byte %d, log offset %d)",
                _name(number),
                segment.reason,
                segment.path,
                segment.position,
                segment.log_offset,
            )

    def _note_trouble(self, kind: Work, partition: Partition, known: _Known, failure: Exception) -> None:
        before, now = known.troubles.get(kind), time.monotonic()
        times = before.times + 1 if before is not None else 1
        seconds = min(self.config.interval_ms / 1000 * 2**times, RETRY_SECONDS_MAX)
        known.troubles[kind] = _Trouble(failure, times, now, now + seconds)
        self._count(failed=1)
        if self._is_new((partition.number, type(failure), str(failure))):
            # What is not one of ours is a fault of ours: with where it came from.
            LOGGER.warning(
                "%s: maintenance failed, and is tried again in %.0f s: %s: %s",
                _name(partition.number),
                seconds,
                type(failure).__name__,
                failure,
                exc_info=None if isinstance(failure, OffsetLogError) else failure,
            )

    def _is_new(self, what: object) -> bool:
        now = time.monotonic()
        for known, told_at in list(self._told.items()):
            if now - told_at >= TELL_AGAIN_SECONDS:
                del self._told[known]
        if what in self._told:
            return False
        self._told[what] = now
        return True

    def _look_for_stuck(self, partition: Partition, known: _Known, facts: LogFacts) -> None:
        # Only looks; who works unasked tells, who was asked answers.
        if facts.stable >= facts.end:
            known.opened, known.stuck = {}, []
            return
        now = self._cleaner.clock()
        opened: dict[tuple[int, int], int] = {}
        stuck = []
        for producer_id, epoch, start_offset, last_timestamp, groups, _, _ in partition.transactions():
            key = (producer_id, start_offset)
            # When its newest batch was written is all that the log tells; it was open by then.
            opened[key] = min(known.opened.get(key, now), last_timestamp if last_timestamp >= 0 else now)
            age_ms = now - opened[key]
            if age_ms >= self.config.stuck_transaction_ms:
                pinned = policy.pinned_bytes(facts, start_offset)
                found = StuckTransaction(facts.number, producer_id, epoch, start_offset, age_ms, groups, pinned)
                stuck.append(found)
        known.opened, known.stuck = opened, stuck

    def _tell_stuck(self, found: StuckTransaction) -> None:
        if self._is_new((found.partition, found.producer_id, found.start_offset)):
            self._count(stuck_told=1)
            LOGGER.warning(
                "%s: the transaction of producer %d (epoch %d) has been open for %d s, since log offset %d; it keeps "
                "%d bytes from being cleaned. Its groups: %s. abort_transaction(%d) ends it, if its producer is gone",
                _name(found.partition),
                found.producer_id,
                found.producer_epoch,
                found.age_ms // 1000,
                found.start_offset,
                found.pinned_bytes,
                ", ".join(map(repr, found.groups)) or "none",
                found.producer_id,
            )
