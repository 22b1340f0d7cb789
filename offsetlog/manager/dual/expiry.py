"""Expiry in two storages that never lowers a position.

Each storage expires positions by its own retention time.  If the larger of two offsets expired first, fetches would
return the smaller one again.  Therefore, before any position of a group expires, the group is
levelled: each position that exists in both storages gets the larger offset in both.  The storage
whose offset is raised counts this as a change, and keeps the position for the whole retention time
from then on.  If a group cannot be levelled, it keeps all its positions in both storages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from offsetlog.errors import ClosedError, NotCoordinatorError, OffsetLogError, ZooKeeperUnavailableError
from offsetlog.manager.dual.storage import Storage
from offsetlog.manager.group_expiry import GroupExpiry, GroupToExpire
from offsetlog.manager.interface import Pending
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.zookeeper.manager import ZooKeeperManager


class Expiry:
    """Expires positions in both storages.  Thread-safe; the calls block.

    Args:
        log: the first storage.  If it is a log manager, it no longer expires positions on its own.
        zookeeper: the second storage.  If it is a ZooKeeper manager, it no longer expires positions on its own.
        level: waits for the turn of a group, levels the group (raises each position that exists in
            both storages to the larger value), and then makes a call in the same turn.
    """

    def __init__(
        self, log: Storage, zookeeper: Storage, level: Callable[[str, Callable[[], int]], Pending[int]]
    ) -> None:
        self._log, self._zookeeper, self._level = log, zookeeper, level
        if isinstance(zookeeper, ZooKeeperManager):
            zookeeper.leave_expiry()

    def attach(self, expire_async: Callable[[float | None], Pending[int]]) -> None:
        """Takes over the expiry of the log.

        The log must be started, and must not lead any partition yet.

        Args:
            expire_async: starts the expiry in both storages.  From now on, `LogManager.expire` calls it.
        """
        if isinstance(self._log, LogManager):
            self._log.group_expiry.leave_to(_Coordinator(expire_async))

    @property
    def interval_ms(self) -> int | None:
        """The time between two checks, in milliseconds; None if nothing expires automatically."""
        intervals = []
        if isinstance(self._log, LogManager) and self._log.settings.maintenance.enabled:
            of_log = self._log.group_expiry
            intervals += [of_log.interval_ms] if of_log.is_wanted else []
        if isinstance(self._zookeeper, ZooKeeperManager) and self._zookeeper.settings.retention_ms is not None:
            intervals.append(self._zookeeper.settings.retention_check_interval_ms)
        return min(intervals, default=None)

    def expire(self, timeout: float | None) -> int:
        """Expires positions in both storages; returns the number in the log or in ZooKeeper, whichever is larger.

        Raises:
            ClockError: the clock cannot be right.  If the log shows this, nothing was deleted.  If a group in
                ZooKeeper shows this, only that group keeps its positions there.
            ZooKeeperUnavailableError: ZooKeeper does not answer, so groups cannot be levelled; the remaining groups
                were not tried.
            OffsetLogError: the first failure.  The expiry of every group that did not fail is complete.
        """
        failures: list[OffsetLogError] = []
        of_log = of_zookeeper = 0
        try:
            for count in self._expire_in_log(failures, timeout):
                of_log += count
            of_zookeeper = self._expire_in_zookeeper(failures, timeout)
        except ZooKeeperUnavailableError as failure:
            failures.append(failure)
        if failures:
            failures[0].add_note(f"{max(of_log, of_zookeeper)} positions expired")
            raise failures[0]
        return max(of_log, of_zookeeper)

    def _expire_in_log(self, failures: list[OffsetLogError], timeout: float | None) -> Iterator[int]:
        if not isinstance(self._log, LogManager):
            yield self._log.expire(timeout=timeout)
            return
        expiry = self._log.group_expiry
        if not expiry.is_wanted:
            return
        now = expiry.now()
        for partition, groups in expiry.find(now).items():
            for group in groups:
                yield self._one(failures, group, partial(_expire_group, expiry, partition, group, now))

    def _expire_in_zookeeper(self, failures: list[OffsetLogError], timeout: float | None) -> int:
        zookeeper = self._zookeeper
        if isinstance(zookeeper, ZooKeeperManager):
            if zookeeper.settings.retention_ms is None:
                return 0
            groups = zookeeper.groups()
            return sum(
                self._one(failures, group, partial(zookeeper.expire_group, group, timeout=timeout))
                for group in groups
            )
        # Any other storage can only expire all its groups together, so it expires none unless every group could be
        # levelled.
        unlevel: list[OffsetLogError] = []
        for group in zookeeper.groups():
            self._one(unlevel, group, lambda: 0)
        failures += unlevel
        return 0 if unlevel else zookeeper.expire(timeout=timeout)

    def _one(self, failures: list[OffsetLogError], group: str, expire: Callable[[], int]) -> int:
        try:
            return self._level(group, expire).result()
        except NotCoordinatorError:
            return 0  # the process that leads the group expires it
        except (ClosedError, ZooKeeperUnavailableError):
            raise
        except OffsetLogError as failure:
            failures.append(failure)
            return 0


def _expire_group(expiry: GroupExpiry, partition: int, group: str, now: int) -> int:
    (expired,) = expiry.expire(partition, [GroupToExpire(group, None)], now)
    if expired.failure is not None:
        raise expired.failure
    return expired.positions


class _Coordinator:
    """The object to which the log leaves expiry, in the place of a coordinator; it calls the dual manager."""

    def __init__(self, expire_async: Callable[[float | None], Pending[int]]) -> None:
        self.expire_async = expire_async
