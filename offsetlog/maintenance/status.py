"""The state of maintenance: facts about each log, decisions, results and failures.

Decisions, results and failures are also logged, through
`logging.getLogger("offsetlog.maintenance")`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from offsetlog.directory.log_directory import TOPIC
from offsetlog.errors import OffsetLogError
from offsetlog.maintenance import policy
from offsetlog.maintenance.policy import Plan, StuckTransaction
from offsetlog.types import CleaningReport, QuarantinedSegment

LOGGER = logging.getLogger("offsetlog.maintenance")

#: Seconds after which a persisting condition is logged again.
LOG_AGAIN_SECONDS = 3600.0
#: The longest time between two attempts at failing work, in seconds.
RETRY_SECONDS_MAX = 3600.0
#: How many decisions are kept.
DECISIONS_KEPT = 256


class Decision(NamedTuple):
    """A decision about a log.

    Attributes:
        timestamp: when it was made, in milliseconds since 1970.
        plan: the action and its reason.
    """

    timestamp: int
    plan: Plan


class MaintenanceStatus(NamedTuple):
    """The work of maintenance, now and since the store was opened.

    Attributes:
        running: whether maintenance runs by itself.
        cleaning: the log partition that is being cleaned now; None if none is being cleaned.
        progress: how far this cleaning has come: bytes_read, bytes_total and more.
        counters: how often each kind of work was done, and counts of its bytes and records.
        plans: the last decision about each log, by log partition.
        reports: the report of the last cleaning of each log, by log partition.
        failures: by log partition, the last error of work that has not succeeded since.  The work
            is tried again.
        stuck: transactions that have been open for too long.
        expiry_refused: the error that prevents positions from expiring, such as a ClockError if the
            clock cannot be right; None if the last check for expired positions was not refused.
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


#: Kinds of work on a log.  If one kind fails, the others still run.
Work = Literal["inspect", "clean", "snapshot", "expire"]


@dataclass(slots=True)
class Trouble:
    """Work that fails: the last error, the number of failures in a row, and the next try."""

    failure: Exception
    times: int
    failed_at: float
    retry_at: float


@dataclass(slots=True)
class KnownLog:
    """Facts about one log that are kept from one inspection to the next."""

    plan: Plan | None = None
    report: CleaningReport | None = None
    troubles: dict[Work, Trouble] = field(default_factory=dict)
    stuck: list[StuckTransaction] = field(default_factory=list)
    #: The start and the intended end of a cleaning that changed nothing.
    futile: tuple[int, int] | None = None
    #: (producer id, first offset) of an open transaction -> the earliest time at which it is known
    #: to be open, in ms since 1970.
    opened: dict[tuple[int, int], int] = field(default_factory=dict)

    def waits(self, work: Work) -> bool:
        """Whether this work failed and it is too early to try it again."""
        trouble = self.troubles.get(work)
        return trouble is not None and time.monotonic() < trouble.retry_at

    def last_failure(self) -> Exception | None:
        """Returns the most recent failure."""
        troubles = list(self.troubles.values())
        return max(troubles, key=lambda each: each.failed_at).failure if troubles else None


_IN_WORDS: dict[policy.Action, str] = {
    "none": "left alone",
    "roll": "closed and cleaned",
    "clean": "cleaned",
    "again": "cleaned once more",
}


def log_name(number: int) -> str:
    """Returns the name of a log partition's directory."""
    return f"{TOPIC}-{number}"


class MaintenanceRecord:
    """The facts, decisions and results of maintenance in one store.  Safe from any thread."""

    def __init__(self) -> None:
        #: The error that prevents positions from expiring; None if the last check was made.
        self.expiry_refused: Exception | None = None
        self._known: dict[int, KnownLog] = {}
        self._counters: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._decisions: deque[Decision] = deque(maxlen=DECISIONS_KEPT)
        self._logged: dict[object, float] = {}

    def of(self, number: int) -> KnownLog:
        """Returns the facts about a log."""
        return self._known.setdefault(number, KnownLog())

    def count(self, **done: int) -> None:
        """Adds to the counters."""
        # The store's thread and callers may count at the same time.
        with self._counting:
            self._counters.update(done)

    def status(
        self, *, running: bool, current: tuple[int, dict[str, int]] | None
    ) -> MaintenanceStatus:
        """Returns the work in progress and done.  Takes no lock, so no cleaning delays the call."""
        known = dict(self._known)
        return MaintenanceStatus(
            running=running,
            cleaning=None if current is None else current[0],
            progress={} if current is None else current[1],
            counters=dict(self._counters),
            plans={number: log.plan for number, log in known.items() if log.plan is not None},
            reports={number: log.report for number, log in known.items() if log.report is not None},
            failures={
                number: each
                for number, log in known.items()
                if (each := log.last_failure()) is not None
            },
            stuck=[transaction for log in known.values() for transaction in log.stuck],
            expiry_refused=self.expiry_refused,
        )

    def decisions(self) -> list[Decision]:
        """Returns the last decisions, oldest first; repeated decisions to leave a log alone are omitted."""
        return list(self._decisions)

    def is_new(self, what: object) -> bool:
        """Whether a condition was not logged in the last hour; if so, marks it as logged now."""
        now = time.monotonic()
        for known, logged_at in list(self._logged.items()):
            if now - logged_at >= LOG_AGAIN_SECONDS:
                self._logged.pop(known, None)    # another thread may have removed it
        if what in self._logged:
            return False
        self._logged[what] = now
        return True

    # ------------------------------------------------------------------------------------ recording

    def record_decision(self, known: KnownLog, plan: Plan, now_ms: int) -> None:
        """Records a decision about a log, and logs it."""
        before, known.plan = known.plan, plan
        self.count(**{f"decided_{plan.action}": 1})
        if plan.action == "none" and before is not None and before[:3] == plan[:3]:
            return
        self._decisions.append(Decision(now_ms, plan))
        level = logging.DEBUG if plan.action == "none" else logging.INFO
        LOGGER.log(
            level,
            "%s: %s: %s (%d of %d bytes can be cleaned, about %d are live)",
            log_name(plan.number),
            _IN_WORDS[plan.action],
            plan.reason,
            plan.cleanable_bytes,
            plan.size,
            plan.live_bytes,
            extra={"partition": plan.number, "action": plan.action},
        )

    def record_report(self, known: KnownLog, report: CleaningReport) -> None:
        """Records the result of a cleaning, and logs it."""
        known.report = report
        same = ("bytes_read", "bytes_written", "superseded", "tombstones_dropped", "quarantined")
        self.count(
            cleaned=1,
            rolled=report.rolled,
            stopped=report.stopped,
            bytes_freed=max(0, report.bytes_before - report.bytes_after),
            **{name: getattr(report, name) for name in same},
        )
        LOGGER.info(
            "%s: cleaned%s up to log offset %d in %.3f s: %d bytes became %d; kept %d of %d records",
            log_name(report.log_partition),
            " (stopped early)" if report.stopped else "",
            report.checkpoint,
            report.seconds,
            report.bytes_before,
            report.bytes_after,
            report.records_kept,
            report.records_read,
            extra={
                "partition": report.log_partition,
                "seconds": report.seconds,
                "bytes_before": report.bytes_before,
                "bytes_after": report.bytes_after,
            },
        )

    def record_trouble(
        self, kind: Work, number: int, known: KnownLog, failure: Exception, interval_ms: int
    ) -> None:
        """Records and logs that work on a log failed, and when it will be tried again."""
        before, now = known.troubles.get(kind), time.monotonic()
        times = before.times + 1 if before is not None else 1
        seconds = min(interval_ms / 1000 * 2**times, RETRY_SECONDS_MAX)
        known.troubles[kind] = Trouble(failure, times, now, now + seconds)
        self.count(failed=1)
        if self.is_new((number, type(failure), str(failure))):
            # Any other exception is a bug in offsetlog, and is logged with its traceback.
            LOGGER.warning(
                "%s: maintenance failed and will be tried again in %.0f s: %s: %s",
                log_name(number),
                seconds,
                type(failure).__name__,
                failure,
                exc_info=None if isinstance(failure, OffsetLogError) else failure,
                extra={"partition": number, "work": kind},
            )

    def record_expiry(self, number: int, counted: dict[str, int]) -> None:
        """Records and logs the deletions of one check of a log for expired positions."""
        self.count(positions_expired=counted["positions_expired"])
        self.count(groups_removed=counted["groups_removed"])
        if counted["positions_expired"] or counted["groups_removed"]:
            LOGGER.info(
                "%s: %d positions expired, %d groups were removed",
                log_name(number),
                counted["positions_expired"],
                counted["groups_removed"],
                extra={"partition": number, **counted},
            )

    def record_refused_expiry(self, failure: Exception) -> None:
        """Records and logs why no position expires."""
        self.count(expiry_checks_failed=1)
        self.expiry_refused = failure
        if self.is_new((type(failure), "expire")):
            LOGGER.warning("expiry is suspended: %s", failure)

    def record_failed_round(self, failure: Exception) -> None:
        """Records and logs that a whole round of maintenance failed."""
        self.count(failed=1)
        if self.is_new((type(failure), str(failure))):
            LOGGER.warning("a round of maintenance failed; it will be tried again: %r", failure, exc_info=failure)

    def report_damage(self, number: int, segment: QuarantinedSegment) -> None:
        """Warns, at most once an hour, of a damaged segment that a cleaning left unchanged."""
        if self.is_new((number, segment.base_offset, segment.position)):
            LOGGER.warning(
                "%s: a segment is damaged and was left unchanged: %s (%s, byte %d, log offset %d)",
                log_name(number),
                segment.reason,
                segment.path,
                segment.position,
                segment.log_offset,
            )

    def report_stuck(self, found: StuckTransaction) -> None:
        """Warns, at most once an hour, of a transaction that has been open for too long."""
        if self.is_new((found.log_partition, found.producer_id, found.start_offset)):
            self.count(stuck_told=1)
            LOGGER.warning(
                "%s: the transaction of producer %d (epoch %d) has been open for %d s, "
                "since log offset %d, and keeps %d bytes from being cleaned. "
                "Groups of the transaction: %s. "
                "If the producer is gone, end the transaction with abort_transaction(%d)",
                log_name(found.log_partition),
                found.producer_id,
                found.producer_epoch,
                found.age_ms // 1000,
                found.start_offset,
                found.pinned_bytes,
                ", ".join(map(repr, found.groups)) or "none",
                found.producer_id,
            )
