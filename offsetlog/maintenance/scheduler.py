"""Maintenance of an open store, by itself and on request (docs/maintenance.md).

A store has two threads.  One inspects the logs, decides what to do (`policy`), cleans logs and
expires positions.  The other writes snapshots, so that these stay recent even while a large log is
cleaned.  If several snapshots are due, it starts temporary threads (`snapshot_round`).

A thread holds a reference to the store only briefly, so that Python can collect a store that is no
longer used.  If work on one log fails, the failure is logged and counted, the work is tried again
later, and the thread continues with the other logs.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeVar

from offsetlog._native.partition import Partition
from offsetlog._native.store_core import StoreCore
from offsetlog.cancellation import Control, LongCalls
from offsetlog.config import MaintenanceConfig
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.directory.snapshots import SnapshotReport
from offsetlog.errors import (
    ClockError,
    ClosedError,
    CoordinatorLoadingError,
    NotCoordinatorError,
    OffsetLogError,
    ReadOnlyError,
)
from offsetlog.maintenance import policy
from offsetlog.maintenance.cleaning import LogCleaner, tails_of
from offsetlog.maintenance.policy import LogFacts, Plan, StuckTransaction, Tail
from offsetlog.maintenance.retention import Expirer, checked_retention
from offsetlog.maintenance.snapshot_round import SnapshotRound
from offsetlog.maintenance.status import (
    Decision,
    KnownLog,
    MaintenanceRecord,
    MaintenanceStatus,
    Work,
)
from offsetlog.maintenance.threads import MaintenanceThread, on_maintenance_thread
from offsetlog.types import CleaningReport, CleanSurvey

#: The longest sleep between two checks of the clock, in milliseconds.  The settings allow intervals
#: that are longer than `threading` can wait (`TIMEOUT_MAX`).
SLEEP_MS_MAX = 86_400_000

#: The time between two checks for due snapshots, in milliseconds, while nothing is written.
SNAPSHOT_CHECK_MS = 2000

Result = TypeVar("Result")

#: Called during a cleaning with the log partition, the bytes read so far, and all bytes to read.
Progress = Callable[[int, int, int], None]


class Maintenance:
    """The maintenance that a store does by itself or on request; see `OffsetStore.maintenance`.

    Args:
        directory: the log directory.
        config: the settings.
        expirer: checks a log for expired positions.
        read_only: whether nothing may be written.
    """

    def __init__(
        self,
        directory: LogDirectory,
        config: MaintenanceConfig,
        expirer: Expirer,
        *,
        read_only: bool,
    ) -> None:
        self.config = config
        self._expirer = expirer
        self._core: weakref.ref[StoreCore] | None = None
        self._read_only = read_only
        self._leaves_expiry = False
        self._cleaner = LogCleaner(directory, config)
        #: Long calls, which stop when the caller is interrupted or the store is closed.
        self.calls = LongCalls()
        self._record = MaintenanceRecord()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    # ----------------------------------------------------------------------------------- by itself

    def attach(self, core: StoreCore, opened: list[Partition]) -> None:
        """Sets the store (a weak reference) and its open partitions, loaded or not."""
        self._core = weakref.ref(core)
        self._cleaner.admit(opened)

    def cut(self, number: int, offset: int) -> None:
        """Records that a log is truncated to an offset; call it before and after the truncation.

        Raises:
            StorageError: the checkpoint could not be written; the log must not be truncated.
        """
        self._cleaner.cut(number, offset)

    def leave_expiry(self) -> None:
        """Leaves expiry to a coordinator, which expires positions group by group."""
        self._leaves_expiry = True

    def interrupt(self, number: int) -> None:
        """Asks the work in progress on one log to stop; later work is not affected."""
        self._cleaner.interrupt(number)

    def start(self) -> None:
        """Starts the threads, if the settings enable them."""
        if not self.config.enabled or self._read_only:
            return
        works = [("offsetlog-maintenance", self._run)]
        if self.config.snapshots:
            works.append(("offsetlog-snapshots", self._keep_snapshots))
        for name, work in works:
            thread = MaintenanceThread(work, name)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Stops the work in progress; waits until it ends, except on a maintenance thread."""
        self._stop.set()
        self._expirer.stop()
        self.calls.stop()
        self._cleaner.stop()
        if on_maintenance_thread():
            # The caller is a maintenance thread, for example in a handler of the `logging` module.
            # It would wait for itself, or for a thread that waits for it.  The threads end soon,
            # and the store refuses their further calls.
            return
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        config = self.config
        seconds = min(config.interval_ms, config.retention_check_interval_ms, SLEEP_MS_MAX) / 1000
        inspected = checked = time.monotonic()
        while not self._stop.wait(seconds):
            now = time.monotonic()
            expires = config.expires and not self._leaves_expiry
            checks = expires and now >= checked + config.retention_check_interval_ms / 1000
            inspects = now >= inspected + config.interval_ms / 1000
            checked, inspected = now if checks else checked, now if inspects else inspected
            try:
                self._round(checks=checks, inspects=inspects)
            except ClosedError:
                return
            except Exception as failure:
                # Whatever the failure was, the next round may succeed.  If the thread ended here,
                # maintenance would stop unnoticed.
                self._record.record_failed_round(failure)

    def _keep_snapshots(self) -> None:
        longest_ms = wait_ms = min(self.config.interval_ms, SNAPSHOT_CHECK_MS)
        known, checked = 0, time.monotonic()
        while not self._stop.wait(wait_ms / 1000):
            try:
                partitions = self._growing()
                grown = sum(tail.bytes for tail in tails_of(partitions)) - known
                elapsed_ms = (time.monotonic() - checked) * 1000
                tails = self.renew_snapshots(partitions)
            except ClosedError:
                return
            except Exception as failure:
                self._record.record_failed_round(failure)
                continue
            known, checked = sum(tail.bytes for tail in tails), time.monotonic()
            left = policy.bytes_until_due(tails, self.config)
            wait_ms = policy.check_again_ms(left, grown, elapsed_ms, longest_ms)

    def _growing(self) -> list[Partition]:
        # Logs that are still being loaded come in a later round.  All others may grow, even those
        # of replicas that follow or have no table.
        attached = self._open_core().attached(wait=False)
        return [each for each in attached if each.role != "loading"]

    def _round(self, *, checks: bool, inspects: bool) -> None:
        partitions = self._growing()
        # Expire before cleaning, so that the cleaning drops the records of expired positions.  Only
        # a leader expires positions; its followers copy the tombstones.
        if checks:
            self.expire([each for each in partitions if each.role == "active"])
        if inspects:
            self.look_after(partitions)

    def _open_core(self) -> StoreCore:
        core = None if self._core is None else self._core()
        if core is None:
            raise ClosedError("the store is closed")
        return core

    def look_after(self, partitions: list[Partition]) -> None:
        """Inspects every log once, and carries out the plans; the dirtiest log comes first."""
        self._record.count(rounds=1)
        plans: dict[Plan, Partition] = {}
        for partition in partitions:
            known = self._record.of(partition.number)
            if self._stop.is_set():
                return
            if known.waits("inspect"):
                continue
            plan = self._trying("inspect", partition, known, self._decide)
            if plan is not None:
                plans[plan] = partition
        # Logs that are cleaned here are inspected again in the next round.
        for plan in policy.filthiest_first(plans):
            if self._stop.is_set():
                return
            known = self._record.of(plan.number)
            self._trying("clean", plans[plan], known, self._clean_unasked)

    def renew_snapshots(self, partitions: list[Partition]) -> list[Tail]:
        """Writes the due snapshots, at most one for each log; see SnapshotRound.

        Returns:
            The tails of the logs, measured after the snapshots were written.

        Raises:
            ClosedError: the store is being closed.
        """
        by_number = {each.number: each for each in partitions}
        tails = SnapshotRound(
            partitions, lambda tails, left: self._due(tails, left, by_number), self._renew_snapshot
        ).run()
        if self._stop.is_set():
            raise ClosedError("the store is being closed")
        return tails

    def _due(
        self, tails: list[Tail], left: AbstractSet[int], partitions: Mapping[int, Partition]
    ) -> list[Tail]:
        if self._stop.is_set():
            return []
        due = policy.snapshots_due(tails, self.config)
        for number in left - due:
            self._record.of(number).troubles.pop("snapshot", None)
        # These logs are due, and nothing prevents a snapshot of them now.
        able = [
            tail
            for tail in tails
            if tail.number in due
            and tail.number in left
            and not partitions[tail.number].read_only
            and not self._record.of(tail.number).waits("snapshot")
        ]
        return sorted(able, key=lambda tail: (-tail.bytes, tail.number))

    def _renew_snapshot(self, partition: Partition) -> None:
        known = self._record.of(partition.number)
        self._trying("snapshot", partition, known, self._snapshot)

    def _trying(
        self,
        kind: Work,
        partition: Partition,
        known: KnownLog,
        work: Callable[[Partition, KnownLog], Result],
    ) -> Result | None:
        try:
            result = work(partition, known)
        except (ClosedError, CoordinatorLoadingError, NotCoordinatorError):
            # The role of the partition has changed; the next round inspects it again.
            return None
        except Exception as failure:
            self._record.record_trouble(
                kind, partition.number, known, failure, self.config.interval_ms
            )
            return None
        known.troubles.pop(kind, None)
        return result

    def _decide(self, partition: Partition, known: KnownLog) -> Plan:
        facts = self._cleaner.inspect(partition)
        plan = policy.decide(facts, self.config, self._cleaner.clock())
        if partition.read_only:
            plan = plan._replace(
                action="none", reason="the log is damaged, so it is cleaned only on request"
            )
        if plan.action == "clean" and known.futile == (plan.first_dirty, plan.uncleanable):
            plan = plan._replace(action="none", reason="its dirty part cannot be cleaned yet")
        self._find_stuck(partition, known, facts)
        for stuck in known.stuck:
            self._record.report_stuck(stuck)
        if plan.action == "none":
            known.troubles.pop("clean", None)
        elif known.waits("clean"):
            plan = plan._replace(
                action="none", reason="the last cleaning failed; it will be tried again later"
            )
        self._record.record_decision(known, plan, self._cleaner.clock())
        return plan

    def _clean_unasked(self, partition: Partition, known: KnownLog) -> CleaningReport:
        plan = known.plan
        assert plan is not None
        report = self._cleaner.clean(partition, plan)
        self._record.record_report(known, report)
        for segment in report.quarantine:
            self._record.report_damage(report.log_partition, segment)
        # A cleaning may change nothing, for example because a transaction ends above the range that
        # can be cleaned.  Without this mark the same cleaning would be tried again in every round.
        is_futile = (
            not report.stopped and plan.action != "again" and report.checkpoint <= plan.first_dirty
        )
        known.futile = (plan.first_dirty, plan.uncleanable) if is_futile else None
        return report

    def _snapshot(self, partition: Partition, known: KnownLog) -> None:
        # A snapshot that must read the whole log is skipped, because it would delay the cleaning of
        # others.
        report = self._cleaner.snapshot(partition, live=True, waits=False)
        if report is not None:
            self._record.count(snapshots=report.written, snapshots_copied=report.copied)

    def expire(self, partitions: list[Partition]) -> None:
        """Deletes expired positions, if the clock can be trusted."""
        try:
            now = self.expiry_time(partitions)
        except Exception:
            return    # expiry_time has recorded it
        for partition in partitions:
            if self._stop.is_set():
                return
            known = self._record.of(partition.number)
            if not partition.read_only and not known.waits("expire"):
                self._trying(
                    "expire", partition, known, lambda each, _: self._expire_one(each, now)
                )

    def expiry_time(self, partitions: list[Partition]) -> int:
        """Returns the time to use for expiring positions, and counts this check.

        Raises:
            ClockError: the clock cannot be right; the error is recorded.
            ClosedError: the store is being closed.
        """
        self._record.count(expiry_checks=1)
        try:
            now = self._expirer.now(partitions)
        except ClosedError:
            raise
        except Exception as failure:
            self._record.record_refused_expiry(failure)
            raise
        self._record.expiry_refused = None
        return now

    def _expire_one(self, partition: Partition, now: int) -> None:
        self.record_expiry(partition.number, self._expirer.expire_one(partition, now))

    def record_expiry(self, number: int, counted: dict[str, int]) -> None:
        """Counts and logs the positions that expired in one log."""
        self._record.record_expiry(number, counted)

    # ---------------------------------------------------------------------------------- on request

    def plans(
        self,
        log_partitions: Iterable[int] | None = None,
        *,
        roll: bool = True,
        ratio: float = 0.0,
        again: bool = False,
    ) -> list[Plan]:
        """Returns the plans that `OffsetStore.compact` would carry out with these arguments.

        Raises:
            InvalidArgumentError: a log partition does not exist.
            StateError, StorageError.
        """
        return [
            self._asked(partition, roll, ratio, again) for partition in self._chosen(log_partitions)
        ]

    def survey(self, plan: Plan) -> CleanSurvey:
        """Returns how a cleaning from the start would change the records of a plan's log.

        Raises:
            InvalidArgumentError: the log partition does not exist.
            CapacityError: the keys do not fit, even in 16 times the memory that should be enough.
            ChangedFileError: another process changed the log while it was read.
            StateError, StorageError.
        """
        (partition,) = self._chosen([plan.number])
        return self._cleaner.survey(partition, closes_active=plan.action == "roll")

    def clock_refusal(
        self, retention_ms: int | None = None, retention: Mapping[str, int | None] | None = None
    ) -> ClockError | None:
        """Returns the error with which `OffsetStore.expire` would refuse the clock, or None.

        Raises:
            ConfigError, GroupError: a retention is not valid.
            StateError, StorageError.
        """
        try:
            self._expirer.now(
                self._open_core().attached(), retention=checked_retention(retention_ms, retention)
            )
        except ClockError as failure:
            return failure
        return None

    def unheld(self, log_partitions: Iterable[int] | None = None) -> list[str]:
        """Returns the groups and prefixes whose kept history the next cleaning would drop.

        Groups that `min_history` names are left out, whatever time it gives them.

        Raises:
            InvalidArgumentError: a log partition does not exist.
            StateError, StorageError.
        """
        return sorted(
            {
                name
                for partition in self._chosen(log_partitions)
                for name in self._cleaner.unheld(partition)
            }
        )

    def _chosen(self, numbers: Iterable[int] | None) -> list[Partition]:
        core = self._open_core()
        if numbers is None:
            return core.attached()
        found = (core.partition(number) for number in dict.fromkeys(numbers))
        return [partition for partition in found if partition is not None]

    def _is_damaged(self, partition: Partition) -> bool:
        return partition.progress()["problems"] > 0 if self._read_only else partition.read_only

    def _asked(self, partition: Partition, roll: bool, ratio: float, again: bool) -> Plan:
        facts = self._cleaner.inspect(partition)
        self._find_stuck(partition, self._record.of(partition.number), facts)
        if again:
            facts = replace(facts, checkpoint=None)
        # A damaged log accepts no appends, and closing its active segment would be an append.
        may_roll = roll and not self._is_damaged(partition)
        return policy.decide_asked(
            facts, self.config, self._cleaner.clock(), roll=may_roll, ratio=ratio
        )

    def compact(
        self,
        log_partitions: Iterable[int] | None = None,
        *,
        roll: bool = True,
        ratio: float = 0.0,
        again: bool = False,
        delete_retention_ms: int | None = None,
        progress: Progress | None = None,
    ) -> list[CleaningReport]:
        """Cleans now; see OffsetStore.compact."""
        chosen = self._chosen(log_partitions)
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
                    reports.append(
                        self._compact_one(partition, plan, again, delete_retention_ms, control)
                    )
                except OffsetLogError as failure:
                    failures.append(failure)

        def report(control: Control) -> None:
            current = self._cleaner.progress(control)
            if progress is not None and current is not None:
                progress(current[0], current[1]["bytes_read"], current[1]["bytes_total"])

        self.calls.run(work, report)
        if failures:
            done = sum(report.cleaned for report in reports)
            failures[0].add_note(f"{done} other log partitions were cleaned")
            raise failures[0]
        if self._stop.is_set():
            raise ClosedError("the store was closed before all logs were cleaned")
        return reports

    def _compact_one(
        self,
        partition: Partition,
        plan: Plan,
        again: bool,
        delete_retention_ms: int | None,
        control: Control,
    ) -> CleaningReport:
        known = self._record.of(partition.number)
        self._record.record_decision(known, plan, self._cleaner.clock())
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
        self._record.record_report(known, report)
        return report

    def snapshot(self, log_partitions: Iterable[int] | None = None) -> list[SnapshotReport]:
        """Writes snapshots now; see OffsetStore.snapshot."""
        chosen = self._chosen(log_partitions)
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
                    report = self._cleaner.snapshot(partition, threads=threads, control=control)
                    assert report is not None  # it waits for its turn
                    reports.append(report)
                except OffsetLogError as failure:
                    failures.append(failure)

        self.calls.run(work)
        self._record.count(snapshots=sum(report.written for report in reports))
        if failures:
            failures[0].add_note(f"{len(reports)} other log partitions now have a snapshot")
            raise failures[0]
        if self._stop.is_set():
            raise ClosedError("the store was closed before all snapshots were written")
        return reports

    # --------------------------------------------------------------------------------------- status

    def status(self) -> MaintenanceStatus:
        """Returns the work in progress and done.  Takes no lock, so no cleaning delays the call."""
        running = any(thread.is_alive() for thread in self._threads)
        return self._record.status(running=running, current=self._cleaner.progress())

    @property
    def snapshot_bytes(self) -> int:
        """The estimated memory of the snapshots in progress, in bytes; 0 if none is written."""
        return self._cleaner.snapshot_bytes

    def decisions(self) -> list[Decision]:
        """Returns the last decisions, oldest first; repeated decisions to leave a log alone are omitted."""
        return self._record.decisions()

    def _find_stuck(self, partition: Partition, known: KnownLog, facts: LogFacts) -> None:
        # This method only records what it finds.  The maintenance thread logs the findings, and
        # callers read them in the status.  Only the leader may end a transaction.
        if facts.stable >= facts.end or partition.role != "active":
            known.opened, known.stuck = {}, []
            return
        now = self._cleaner.clock()
        opened: dict[tuple[int, int], int] = {}
        stuck = []
        for (
            producer_id,
            epoch,
            start_offset,
            last_timestamp,
            groups,
            _,
            _,
        ) in partition.transactions():
            key = (producer_id, start_offset)
            # The log shows only when the newest batch of the transaction was written; it was open
            # at that time.
            opened[key] = min(
                known.opened.get(key, now), last_timestamp if last_timestamp >= 0 else now
            )
            age_ms = now - opened[key]
            if age_ms >= self.config.stuck_transaction_ms:
                pinned = policy.pinned_bytes(facts, start_offset)
                found = StuckTransaction(
                    facts.number, producer_id, epoch, start_offset, age_ms, groups, pinned
                )
                stuck.append(found)
        known.opened, known.stuck = opened, stuck
