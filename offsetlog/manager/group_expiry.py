"""Expiry of one group at a time, for a coordinator, which knows the members of the groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from offsetlog._native.manager_core import ManagerCore
from offsetlog._native.retention import ExpiringRows, expire_group
from offsetlog.errors import NotCoordinatorError, OffsetLogError
from offsetlog.maintenance.retention import Expirer
from offsetlog.maintenance.scheduler import Maintenance
from offsetlog.manager.sweep import GroupCoordinator, Sweeps, Written, add_written


class GroupToExpire(NamedTuple):
    """A group whose positions may expire; the coordinator does not change the group meanwhile.

    Attributes:
        group: the name of the group.
        subscribed: the topics to which the members of a stable consumer group are subscribed.
            None means that the group has no members; its records in the log then determine what
            expires.
    """

    group: str
    subscribed: frozenset[str] | None


class Expired(NamedTuple):
    """The result of the expiry of one group.

    Attributes:
        group: the name of the group.
        positions: the number of deleted positions.
        is_gone: whether no position was left, so that the records of the group were deleted, too.
        failure: the error that left the deletion incomplete, or that left it unknown whether the
            deletion is durable.  None means that the deletion is as durable as configured.
    """

    group: str
    positions: int
    is_gone: bool
    failure: OffsetLogError | None = None


class GroupExpiry:
    """Finds and deletes expired positions, one group at a time; see `LogManager.group_expiry`.

    The class is thread-safe.  Its calls block until their work is done.

    Args:
        core: waits until writes are durable.
        expirer: has the retention time, and checks the clock.
        maintenance: counts the deletions.
        sweeps: provides the partitions that this process leads and has loaded.
    """

    def __init__(
        self,
        core: ManagerCore,
        expirer: Expirer,
        maintenance: Maintenance,
        sweeps: Sweeps,
    ) -> None:
        self._core = core
        self._expirer = expirer
        self._maintenance = maintenance
        self._sweeps = sweeps

    def leave_to(self, coordinator: GroupCoordinator) -> None:
        """Leaves expiry to a coordinator; call this method before this process leads any partition.

        After this call, no position expires automatically, and `OffsetManager.expire` calls the
        coordinator.
        """
        self._maintenance.leave_expiry()
        self._sweeps.coordinator = coordinator

    @property
    def is_wanted(self) -> bool:
        """Whether any position can expire."""
        return self._expirer.retention.shortest_ms is not None

    @property
    def interval_ms(self) -> int:
        """The time between two checks for expired positions, in milliseconds."""
        return self._maintenance.config.retention_check_interval_ms

    def now(self) -> int:
        """Returns the present time for a check of expiry, in milliseconds since 1970.

        Raises:
            ClockError: the clock cannot be right.
        """
        return self._maintenance.expiry_time(self._sweeps.active())

    def find(self, now: int) -> dict[int, list[str]]:
        """Returns, for each partition, the groups that have no members and have expired positions.

        The list leaves out each group that has members according to its records.  The coordinator
        itself determines which of those groups have positions that may expire.
        """
        found = {}
        for partition in self._sweeps.active():
            rows = ExpiringRows()
            self._expirer.count_one(partition, now, rows, self._expirer.retention)
            if names := rows.groups():
                found[partition.number] = names
        return found

    def expire(self, partition: int, groups: Iterable[GroupToExpire], now: int) -> list[Expired]:
        """Deletes expired positions of groups of a partition; returns once the deletion is durable."""
        results: list[Expired] = []
        written: Written = {}
        for each in groups:
            try:
                counted = self._expire_one(partition, each, now)
            except OffsetLogError as failure:
                results.append(Expired(each.group, 0, False, failure))
                continue
            results.append(
                Expired(each.group, counted["positions_expired"], counted["groups_removed"] > 0)
            )
            add_written(written, counted["batches"], counted["end_offset"], counted["term"])
        if written:
            self._core.report_written(partition)
        try:
            for term, (_, end_offset) in written.items():
                self._core.wait_for(partition, end_offset, term, None)
        except OffsetLogError as failure:
            return [each._replace(is_gone=False, failure=each.failure or failure) for each in results]
        return results

    def _expire_one(self, number: int, group: GroupToExpire, now: int) -> dict[str, int]:
        partition = next((each for each in self._sweeps.active() if each.number == number), None)
        if partition is None:
            raise NotCoordinatorError(f"this process does not lead log partition {number}, or is still loading it")
        rules = self._expirer.retention.rules
        counted = expire_group(partition, rules, now, group.group, group.subscribed)
        self._maintenance.record_expiry(number, counted)
        return counted
