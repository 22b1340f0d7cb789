"""Retention: which positions expire, whether the clock can be trusted, and the report of a check.

Source: docs/retention.md, docs/format/coordinator.md §5.13.

`Retention` says how long each group keeps its positions.  `ClockGuard` decides whether the clock
can be trusted.  `Expirer` checks the partitions of a store for expired positions.  For each
position, the C code decides whether the state of its group allows the position to expire.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from offsetlog._native.partition import Partition
from offsetlog._native.retention import ExpiringRows, ExpiryRules, ExpiryStop, newest_timestamp
from offsetlog._native.retention import expire as expire_partition
from offsetlog._native.store_core import StoreCore
from offsetlog._native.tickets import check_durability
from offsetlog.clock import wall_ms
from offsetlog.config import MaintenanceConfig
from offsetlog.errors import (
    ArgumentTypeError,
    ClockError,
    ClosedError,
    ConfigError,
    OffsetLogError,
    ReadOnlyError,
)
from offsetlog.types import ExpiryReport

if TYPE_CHECKING:
    import pyarrow

#: A change of the clock by at most this is not a jump, however short the retention is.
JUMP_MS_MIN = 60_000
#: The latest time that can be queried: the last millisecond that a datetime can hold.
_TIME_MS_MAX = 253_402_300_799_999


class Retention:
    """Says which groups' positions expire, and after how long.  Immutable.

    Args:
        default_ms: the retention in milliseconds of every group that `groups` does not name; None:
            their positions never expire.
        groups: the retention in milliseconds by group, or by "prefix*" for every group whose name
            begins with the prefix; None for groups that never expire.  A group's own name takes
            precedence over a prefix, and a longer prefix over a shorter one.

    A group that never expires keeps all its positions, even those whose record has an expiry time
    (`expire_timestamp`).  In any other group, such a position expires at that time.

    Raises:
        ConfigError: a time is out of range.
        GroupError: a name cannot be a group's name.
    """

    def __init__(
        self, default_ms: int | None = None, groups: Mapping[str, int | None] | None = None
    ) -> None:
        checked = MaintenanceConfig(
            retention_ms=default_ms, retention=groups if groups is not None else {}
        )
        self.default_ms = checked.retention_ms
        self.groups = dict(checked.retention)
        self.names = list(self.groups)
        self.rules = ExpiryRules(
            [
                (name.removesuffix("*"), name.endswith("*"), value)
                for name, value in self.groups.items()
            ],
            default_ms,
        )

    @classmethod
    def of(cls, config: MaintenanceConfig) -> Retention:
        """Returns the retention that the settings of maintenance define."""
        return cls(config.retention_ms, config.retention)

    @property
    def shortest_ms(self) -> int | None:
        """The shortest time for which any position is kept; None if none expires."""
        times = [value for value in (self.default_ms, *self.groups.values()) if value is not None]
        return min(times, default=None)

    def __repr__(self) -> str:
        return f"Retention({self.default_ms}, {self.groups})"


# ---------------------------------------------------------------------------------------- the clock


def steady_ms() -> int:
    """Returns the milliseconds of a clock that cannot be set and includes the machine's sleep."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def _time_text(timestamp_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(" ", "milliseconds").replace("+00:00", " UTC")


class ClockGuard:
    """Refuses a time of day that cannot be right: a wrong clock would expire positions irrevocably.

    A time is refused if it is before the newest record, or if the clock has jumped since the last
    check.  At the first check, a jump since the guard was created counts.  The clock has jumped if
    it moved against a steady clock by more than half of the shortest retention, and by more than a
    minute.  After a jump, every time is refused until the clock is corrected or the caller confirms
    it.  A jump before the guard was created is not detected: if the newest record is old, the log
    may just have been idle.

    Args:
        wall: returns the time of day in milliseconds since 1970.
        steady: returns the milliseconds of a clock that cannot be set and runs at the same rate.
    """

    def __init__(
        self, wall: Callable[[], int] = wall_ms, steady: Callable[[], int] = steady_ms
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._lock = threading.Lock()
        self._difference_ms = wall() - steady()

    def now(self) -> int:
        """Returns the time of day, unchecked."""
        return self._wall()

    def check(self, newest_ms: int, shortest_ms: int | None, *, trust_clock: bool = False) -> int:
        """Returns the time of day.

        Args:
            newest_ms: the time of the newest record.  The caller must read it before the call, so
                that it is not later than the time that the call reads from the clock.
            shortest_ms: the shortest retention; None if nothing expires.
            trust_clock: whether the caller confirms the clock.  If so, its time is not refused, and
                the next check looks for a jump since this call.

        Raises:
            ClockError: the time cannot be right.
        """
        with self._lock:
            now = self._wall()
            difference = now - self._steady()
            if not trust_clock:
                self._refuse(now, newest_ms, shortest_ms, difference - self._difference_ms)
            self._difference_ms = difference
            return now

    @staticmethod
    def _refuse(now: int, newest_ms: int, shortest_ms: int | None, jump_ms: int) -> None:
        if now < newest_ms:
            raise ClockError(
                f"this machine's clock shows {_time_text(now)}, but the newest record is from "
                f"{_time_text(newest_ms)}: one of the two is wrong. "
                "Nothing expires until you correct the clock, or confirm its time with trust_clock",
                now=now,
                newest=newest_ms,
            )
        if shortest_ms is not None and abs(jump_ms) > max(shortest_ms // 2, JUMP_MS_MIN):
            way = "forward" if jump_ms > 0 else "back"
            raise ClockError(
                f"this machine's clock shows {_time_text(now)}; since the last check the clock was set {way} by "
                f"{timedelta(milliseconds=abs(jump_ms))}, which is more than half of the shortest retention. "
                "Nothing expires until you correct the clock, or confirm its time with trust_clock",
                now=now,
                newest=newest_ms,
            )


# --------------------------------------------------------------------------------------- the checks


class Expirer:
    """Checks partitions of one store for expired positions.

    Any thread may use this object.  A position that two checks find at the same time is deleted
    only once.

    Args:
        retention: the retention of every check that does not give another.
        guard: checks the clock; None creates one.
    """

    def __init__(self, retention: Retention, guard: ClockGuard | None = None) -> None:
        self.retention = retention
        self.guard = guard if guard is not None else ClockGuard()
        self._stop = ExpiryStop()

    def stop(self) -> None:
        """Stops the checks in progress at their next group, and refuses later ones."""
        self._stop.set()

    def now(
        self,
        partitions: list[Partition],
        *,
        retention: Retention | None = None,
        trust_clock: bool = False,
    ) -> int:
        """Returns the time to use for expiring positions of these partitions.

        Raises:
            ClockError: the clock cannot be right.
        """
        retention = retention if retention is not None else self.retention
        newest = max((newest_timestamp(partition) for partition in partitions), default=-1)
        return self.guard.check(newest, retention.shortest_ms, trust_clock=trust_clock)

    def expire_one(
        self, partition: Partition, now: int, *, retention: Retention | None = None
    ) -> dict[str, int]:
        """Deletes the expired positions of one partition; returns the counts of this check by name.

        Raises:
            ClosedError: the store is being closed.
            StateError, StorageError, TooLargeError, CapacityError: the check failed; the groups
                before the failure are done.
        """
        retention = retention if retention is not None else self.retention
        counted = expire_partition(partition, retention.rules, now, self._stop)
        if counted["stopped"]:
            raise ClosedError(
                "the store is being closed; the next check expires the remaining positions"
            )
        return counted

    def count_one(
        self, partition: Partition, until: int, rows: ExpiringRows, retention: Retention
    ) -> dict[str, int]:
        """Adds a partition's positions that expire by `until` to `rows`; returns the counts."""
        counted = rows.add(partition, retention.rules, until, self._stop)
        if counted["stopped"]:
            raise ClosedError("the store is being closed")
        return counted


_COUNTED = (
    "groups",
    "groups_never",
    "groups_held",
    "groups_removed",
    "positions_expired",
    "positions_pending",
)


def _report(now: int, dry_run: bool, counted: list[dict[str, int]], started: float) -> ExpiryReport:
    sums = {name: sum(each[name] for each in counted) for name in _COUNTED}
    return ExpiryReport(
        timestamp=now,
        dry_run=dry_run,
        partitions=len(counted),
        **sums,
        seconds=time.monotonic() - started,
    )


def expire(
    core: StoreCore,
    expirer: Expirer,
    retention: Retention | None,
    *,
    dry_run: bool = False,
    trust_clock: bool = False,
    durability: str | None = None,
) -> ExpiryReport:
    """Checks every partition of a store; see OffsetStore.expire."""
    retention = retention if retention is not None else expirer.retention
    started = time.monotonic()
    partitions = core.attached()
    if dry_run:
        now = expirer.guard.now()
        rows = ExpiringRows()
        return _report(
            now,
            True,
            [expirer.count_one(each, now, rows, retention) for each in partitions],
            started,
        )
    if core.read_only:
        raise ReadOnlyError("the store is open read-only")
    check_durability(durability)
    now = expirer.now(partitions, retention=retention, trust_clock=trust_clock)
    counted: list[dict[str, int]] = []
    waits: list[tuple[int, int, int]] = []
    failures: list[OffsetLogError] = []
    for partition in partitions:
        try:
            counted.append(expirer.expire_one(partition, now, retention=retention))
            if counted[-1]["end_offset"] >= 0:
                waits.append((partition.number, counted[-1]["end_offset"], counted[-1]["term"]))
        except OffsetLogError as failure:
            failures.append(failure)
            if isinstance(failure, ClosedError):
                break
    core.wait_durable_all(waits, durability)
    report = _report(now, False, counted, started)
    if failures:
        failures[0].add_note(
            f"{report.positions_expired} positions expired in {len(counted)} other log partitions"
        )
        raise failures[0]
    return report


def expiring(
    core: StoreCore, expirer: Expirer, within_ms: int, retention: Retention | None = None
) -> pyarrow.Table:
    """Returns the positions that expire within a period from now; see OffsetStore.expiring."""
    retention = retention if retention is not None else expirer.retention
    until = min(expirer.guard.now() + within_ms, _TIME_MS_MAX)
    rows = ExpiringRows()
    for partition in core.attached():
        expirer.count_one(partition, until, rows, retention)
    return rows.to_arrow(retention.names)


# ------------------------------------------------------------------------------------ the arguments


def checked_within(within: timedelta) -> int:
    """Returns a timedelta in milliseconds; refuses a negative one."""
    if not isinstance(within, timedelta):
        raise ArgumentTypeError(f"within must be a datetime.timedelta, not {type(within).__name__}")
    if within < timedelta(0):
        raise ConfigError(f"within must not be negative, but is {within}")
    return within // timedelta(milliseconds=1)


def checked_retention(
    retention_ms: int | None, groups: Mapping[str, int | None] | None
) -> Retention | None:
    """Returns the retention that the arguments of a call define; None if they define none."""
    if retention_ms is None and groups is None:
        return None
    return Retention(retention_ms, groups)
