"""Deletes expired positions and groups without interfering with the coordinator's changes of groups."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from offsetlog._native.completion import Completion
from offsetlog.coordinator.group_record import Expiry
from offsetlog.errors import ClosedError, InternalError, OffsetLogError
from offsetlog.manager.group_expiry import Expired, GroupToExpire
from offsetlog.manager.log_manager import LogManager
from offsetlog.server.clock import Clock, Timer

if TYPE_CHECKING:
    from offsetlog.server.group_host import GroupHost

_log = logging.getLogger(__name__)

#: The most groups that are kept unchanged at a time while their positions expire.
GROUPS_AT_ONCE = 256


class _Frozen(NamedTuple):
    # A group that does not change until the coordinator gets the token back.
    group: GroupToExpire
    token: object


class GroupExpiry:
    """Deletes expired positions at intervals; call every method but `expire_async` on the event loop.

    Groups without members are found in the log, and groups with members in the coordinator.  While
    another thread writes a group's tombstones, no other change of the group runs.

    Args:
        manager: keeps the positions; must be started.
        groups: runs the coordinator.
        loop: runs everything except the work on logs.
        clock: times the intervals between checks.  It does not decide which positions have
            expired; the manager's clock does.

    Attributes:
        expired_positions: number of positions deleted by all checks; any thread may read it.
    """

    def __init__(
        self,
        manager: LogManager,
        groups: GroupHost,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
    ) -> None:
        self._manager = manager
        self._groups = groups
        self._loop = loop
        self._clock = clock
        self._timer: Timer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self._is_closed = False
        # The running check: its time, the groups to write tombstones for, and its results.
        self._now = 0
        self._frozen: dict[int, list[_Frozen]] = {}
        self._deleted = 0
        self.expired_positions = 0
        self._failures: list[OffsetLogError] = []

    # ------------------------------------------------------------------------------------------ checks

    def start(self) -> None:
        """Schedules the next check for one interval from now, if anything can expire."""
        expiry = self._manager.group_expiry
        if expiry.is_wanted and not self._is_closed:
            when = self._clock.time() + expiry.interval_ms / 1000
            self._timer = self._clock.call_at(when, self._begin)

    async def close(self) -> None:
        """Schedules no more checks, and waits for a running check, which ends early."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*self._tasks)

    def _begin(self) -> None:
        self._timer = None
        self._groups.begin_work()
        self._keep(self._loop.create_task(self._run()))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        try:
            await self.expire()
        except OffsetLogError as failure:
            # If the failure is about the clock, the manager has already logged it.
            _log.info("the check for expired positions ended early: %s", failure)
        except Exception:
            _log.exception("the check for expired positions failed")
        finally:
            # The interval begins at the end of a check, so a long check is not followed by another
            # at once.
            self.start()
            self._groups.end_work()

    def expire_async(self, timeout: float | None) -> Completion[int]:
        """Starts a check now; any thread may call this (see offsetlog.manager.sweep.GroupCoordinator).

        The result is the number of deleted positions.  `timeout` has no effect, because only the
        manager's settings limit the wait for the writes.
        """
        answer: Completion[int] = Completion()

        async def run() -> None:
            try:
                answer.succeed(await self.expire())
            except Exception as failure:
                answer.fail(failure)

        def begin() -> None:
            if self._is_closed:
                answer.fail(ClosedError("the server is stopped"))
            else:
                self._keep(self._loop.create_task(run()))

        self._groups.call_soon(begin)
        return answer

    async def expire(self, *, also_bare: bool = True) -> int:
        """Deletes expired positions, waits until the deletion is durable, and returns how many were deleted.

        If `also_bare` is True, also deletes groups that have neither members nor positions, as
        Kafka does.

        Raises:
            ClockError: the clock is certainly wrong; nothing was deleted.
            ClosedError: the server is being stopped.
            OffsetLogError: a group failed; all others were handled.
        """
        async with self._turn:
            self._now, found = await self._loop.run_in_executor(None, self._find)
            self._deleted = 0
            self._failures.clear()
            has_offsets = self._groups.has_offsets
            live = self._groups.coordinator.live_groups()
            names = itertools.chain(*found.values(), *live.values())
            for batch in _batches(each for each in names if also_bare or has_offsets(each)):
                if self._is_closed:
                    raise ClosedError("the server is being stopped")
                await asyncio.gather(*map(self._expire_one, batch))
            if self._failures:
                self._failures[0].add_note(f"{self._deleted} positions were deleted")
                raise self._failures[0]
            return self._deleted

    def _find(self) -> tuple[int, dict[int, list[str]]]:
        expiry = self._manager.group_expiry
        now = expiry.now()
        return now, expiry.find(now)

    async def _expire_one(self, group_id: str) -> None:
        finished: asyncio.Future[object] = self._loop.create_future()
        self._groups.expire(group_id, finished.set_result)
        await finished

    # ------------------------------------------------------------------------------------ for one batch

    def take(self, partition: int, group_id: str, expiry: Expiry, token: object) -> None:
        """Accepts a group for expiry; the group does not change until `GroupHost.expired` is called for it."""
        if not self._frozen:
            self._loop.call_soon(self._write)
        frozen = self._frozen.setdefault(partition, [])
        frozen.append(_Frozen(GroupToExpire(group_id, expiry.subscribed), token))

    def _write(self) -> None:
        frozen, self._frozen = self._frozen, {}
        for partition, groups in frozen.items():
            self._keep(self._loop.create_task(self._write_in(partition, groups)))

    async def _write_in(self, partition: int, frozen: list[_Frozen]) -> None:
        expire = self._manager.group_expiry.expire
        tokens = {each.group.group: each.token for each in frozen}
        groups = [each.group for each in frozen]
        try:
            results = await self._loop.run_in_executor(None, expire, partition, groups, self._now)
        except Exception as failure:
            # After any failure, the groups must become changeable again.
            if not isinstance(failure, OffsetLogError):
                _log.exception("log partition %d: the check for expired positions failed", partition)
                failure = InternalError(f"the check for expired positions failed: {failure!r}")
            results = [Expired(each.group, 0, False, failure) for each in groups]
        for each in results:
            self._deleted += each.positions
            self.expired_positions += each.positions
            if each.failure is not None:
                self._failures.append(each.failure)
            self._groups.expired(partition, each, tokens[each.group])


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    left = iter(names)
    while batch := list(itertools.islice(left, GROUPS_AT_ONCE)):
        yield batch
