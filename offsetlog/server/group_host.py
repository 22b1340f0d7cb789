"""Runs the coordinator: supplies the time and new ids, writes the records, and sends the answers."""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from offsetlog._native.encoding import encode_key
from offsetlog._native.front import Front
from offsetlog._native.records import decode_key
from offsetlog.coordinator.call import Call
from offsetlog.coordinator.coordinator import Coordinator, CoordinatorConfig, OtherGroup
from offsetlog.coordinator.group_record import KEY_TYPE, Expiry, Fence, GroupRecord
from offsetlog.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    UNKNOWN_SERVER_ERROR,
    ErrorCode,
)
from offsetlog.errors import (
    CorruptionError,
    NotCoordinatorError,
    OffsetLogError,
    PartitionFailedError,
    StorageError,
    StringTooLongError,
    TooLargeError,
    UnsupportedVersionError,
)
from offsetlog.manager.group_expiry import Expired
from offsetlog.manager.interface import Pending, Transition
from offsetlog.manager.log_manager import LogManager
from offsetlog.server.clock import Clock, Timer
from offsetlog.server.exchange import Exchange
from offsetlog.server.group_expiry import GroupExpiry
from offsetlog.server.group_fences import FenceOrder, GroupFences

_log = logging.getLogger(__name__)


def write_error(failure: OffsetLogError) -> ErrorCode:
    """Returns the error for a request whose record could not be written (docs/format/coordinator.md §5.0)."""
    if isinstance(failure, TooLargeError | StringTooLongError):
        return UNKNOWN_SERVER_ERROR
    if isinstance(failure, NotCoordinatorError | PartitionFailedError | StorageError):
        return NOT_COORDINATOR
    return COORDINATOR_NOT_AVAILABLE

#: A deadline that is handled later than this shows that the event loop was held up.
LATE_SECONDS = 0.1
#: How long sessions stay open after the event loop was held up, so that requests that have already
#: arrived are handled first.
GRACE_SECONDS = 0.1


class GroupHost:
    """Hosts the coordinator of this process; call every method on the event loop.

    Args:
        manager: keeps positions and records; must be started.
        config: the coordinator's settings.
        loop: the event loop on which everything runs.
        front: answers the requests that the coordinator has admitted.
        clock: times sessions and rebalances.

    Attributes:
        expiry: deletes expired positions.
        failed_loads: why log partitions could not be loaded, by partition number; any thread may
            read it.
        failed_writes: the error of the first write that made a log partition fail since this process
            became its leader, by partition number; any thread may read it.
    """

    def __init__(
        self,
        manager: LogManager,
        config: CoordinatorConfig,
        loop: asyncio.AbstractEventLoop,
        front: Front,
        clock: Clock,
    ) -> None:
        self._manager = manager
        self._loop = loop
        self._front = front
        self._clock = clock
        self._unsettled = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self._replies: dict[Call, Callable[[Any], None]] = {}
        self._timer: Timer | None = None
        self._timer_at = 0.0
        #: The time of the coordinator, in seconds.
        self.now = clock.time
        # No session ends before this time.
        self._grace_until = -math.inf
        self._is_in_grace = False
        self.failed_loads: dict[int, str] = {}
        self.failed_writes: dict[int, str] = {}
        self.coordinator = Coordinator(config, self, self.partition_for)
        self.expiry = GroupExpiry(manager, self, loop, clock)
        manager.group_expiry.leave_to(self.expiry)
        manager.group_log.leave_fences_to(GroupFences(self, loop))

    def partition_for(self, group_id: str) -> int:
        """Returns the log partition responsible for a group, even for a name too long for a record."""
        try:
            return self._manager.partition_for(group_id)
        except StringTooLongError:
            return 0    # any log will report that it cannot have a group of this name

    # ----------------------------------------------------------------------------------------- leading

    def lead(self, partition: int, epoch: int) -> None:
        """Makes this process the leader of a log partition; requests for its groups succeed once it is loaded."""
        self.failed_loads.pop(partition, None)
        self.failed_writes.pop(partition, None)
        self.begin_work()
        self.coordinator.begin_load(partition)
        transition = self._manager.become_leader(partition, epoch)
        transition.add_done_callback(
            lambda done: self._loop.call_soon_threadsafe(self._loaded, partition, done)
        )

    def _loaded(self, partition: int, transition: Transition) -> None:
        self.end_work()
        try:
            transition.result(0)
            records = self._manager.group_log.records(partition)
        except OffsetLogError as failure:
            self.failed_loads[partition] = str(failure)
            fields = {"partition": partition}
            _log.exception("log partition %d could not be loaded", partition, extra=fields)
            self.coordinator.resign(partition)
            return
        self.coordinator.loaded(
            partition, _groups_of(partition, records), self._clock.time(), _others_of(records)
        )
        _log.info("log partition %d is loaded", partition, extra={"partition": partition})
        self._arm()

    # ----------------------------------------------------------------------------------------- running

    def run(
        self, exchange: Exchange, handle: Callable[[Any, Call, float], None]
    ) -> None:
        """Passes a request to the coordinator, which may answer later."""
        exchange.on_abandoned(partial(self._forget, exchange.call))
        self._ask(exchange.call, exchange.reply, partial(handle, exchange.request.message))

    def delete(self, group_id: str, finished: Callable[[ErrorCode | None], None]) -> None:
        """Deletes a group without members; calls `finished` with the error, or None."""
        self._ask(Call(0), finished, partial(self.coordinator.delete, group_id))

    def expire(self, group_id: str, finished: Callable[[ErrorCode | None], None]) -> None:
        """Deletes a group's expired positions; calls `finished` with the error, or None."""
        self._ask(Call(0), finished, partial(self.coordinator.expire, group_id))

    def fence(
        self, group_id: str, order: FenceOrder, finished: Callable[[ErrorCode | int], None]
    ) -> None:
        """Ends a group's generation; calls `finished` with the new one, or the error."""
        self._ask(Call(0), finished, partial(self.coordinator.fence, group_id, order))

    def _ask(
        self, call: Call, reply: Callable[[Any], None], handle: Callable[[Call, float], None]
    ) -> None:
        self._replies[call] = reply
        try:
            handle(call, self._clock.time())
        except BaseException:
            self._forget(call)
            raise
        finally:
            self._arm()

    def _forget(self, call: Call) -> None:
        # No caller waits for the answer any more.
        self._replies.pop(call, None)

    def _arm(self) -> None:
        deadline = self.coordinator.next_deadline()
        if deadline is not None:
            deadline = max(deadline, self._grace_until)
        if self._timer is not None:
            if deadline is not None and self._timer_at <= deadline:
                return
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer_at = deadline
            self._timer = self._clock.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._clock.time()
        self._is_in_grace = not self._is_in_grace and now - self._timer_at > LATE_SECONDS
        if self._is_in_grace:
            # The event loop was held up.  Heartbeats that have arrived since are read before
            # sessions end.
            self._grace_until = now + GRACE_SECONDS
            self._arm()
            return
        try:
            self.coordinator.tick(now)
        except ExceptionGroup:
            _log.exception("some expired deadlines of groups could not be handled; the server will try again")
        finally:
            self._arm()

    def close(self) -> None:
        """Stops the timers and refuses waiting requests, so that another coordinator can take over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for partition in range(self._manager.partitions):
            self.coordinator.resign(partition)

    # ------------------------------------------------------------------------------------------- ports

    def answer(self, call: Call, message: Any) -> None:
        """See Ports."""
        reply = self._replies.pop(call, None)
        if reply is not None:
            reply(message)

    def append(
        self,
        partition: int,
        group_id: str,
        record: GroupRecord | Expiry | Fence | None,
        token: object,
    ) -> None:
        """See Ports."""
        self.begin_work()
        if isinstance(record, Expiry):
            self.expiry.take(partition, group_id, record, token)
            return
        finished = partial(self._written, partition, group_id, token)
        try:
            pending = self._begin_write(group_id, record)
        except OffsetLogError as failure:
            text = "group %r: the group record could not be written: %s"
            _log.warning(text, group_id, failure, extra={"partition": partition, "group": group_id})
            error = write_error(failure)
            self._loop.call_soon(finished, error)
            return
        pending.add_done_callback(
            lambda done: self._loop.call_soon_threadsafe(self._appended, group_id, done, finished)
        )

    def _begin_write(self, group_id: str, record: GroupRecord | Fence | None) -> Pending[int]:
        if record is None:
            return self._manager.delete_group_async(group_id, timeout=math.inf)
        group = record.record if isinstance(record, Fence) else record
        key = encode_key(KEY_TYPE, {"group": group_id})
        records: list[tuple[bytes, bytes | None]] = [(key, group.to_value())]
        write = partial(self._manager.group_log.write_async, group_id, records, timeout=math.inf)
        if not isinstance(record, Fence):
            return write()
        order: FenceOrder = record.order
        return order.written_by(partial(write, offsets=order.offsets))

    def _appended(
        self, group_id: str, pending: Pending[int], finished: Callable[[ErrorCode | None], None]
    ) -> None:
        error = None
        try:
            pending.result(0)
        except OffsetLogError as failure:
            error = self.write_failed(group_id, failure)
        finished(error)

    def write_failed(self, group_id: str, failure: OffsetLogError) -> ErrorCode:
        """Returns the error for a failed write of a group; if the log failed, logs and keeps the cause."""
        partition = self.partition_for(group_id)
        is_final = isinstance(failure, PartitionFailedError | StorageError)
        if is_final and partition not in self.failed_writes:
            self.failed_writes[partition] = str(failure)
            fields = {"partition": partition}
            _log.error("a write to log partition %d failed: %s", partition, failure, extra=fields)
        return write_error(failure)

    def expired(self, partition: int, result: Expired, token: object) -> None:
        """Reports the outcome of a group's expiry to the coordinator."""
        error = None if result.failure is None else write_error(result.failure)
        self._written(partition, result.group, token, error, is_gone=result.is_gone)

    def _written(
        self,
        partition: int,
        group_id: str,
        token: object,
        error: ErrorCode | None,
        *,
        is_gone: bool = False,
    ) -> None:
        self.end_work()
        now = self._clock.time()
        try:
            self.coordinator.written(
                partition, group_id, error, now, token=token, is_gone=is_gone
            )
        finally:
            self._arm()

    def begin_work(self) -> None:
        """Marks the start of work; `settle` waits until `end_work` marks its end."""
        self._unsettled += 1
        self._settled.clear()

    def end_work(self) -> None:
        """Marks the end of work."""
        self._unsettled -= 1
        if self._unsettled == 0:
            self._settled.set()

    async def settle(self) -> None:
        """Waits until no log partition is loading, no expiry runs, and no appended record waits to take effect."""
        while self._unsettled:
            await self._settled.wait()

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Schedules a callable on the event loop.  Any thread may call this."""
        self._loop.call_soon_threadsafe(callback, *arguments)

    def admit(
        self, group_id: str, generation: int, member_id: str, group_instance_id: str | None
    ) -> None:
        """See Ports."""
        # If no record can hold the name, the write of each commit reports that.
        with suppress(StringTooLongError):
            self._front.admit(group_id, generation, member_id, group_instance_id)

    def revoke(self, group_id: str) -> list[tuple[str, float]]:
        """See Ports."""
        return self._front.revoke(group_id)

    def set_led(self, partition: int, is_led: bool) -> None:
        """See Ports."""
        self._front.set_led(partition, is_led)

    def now_ms(self) -> int:
        """See Ports."""
        return self._clock.now_ms()

    def new_id(self) -> str:
        """See Ports."""
        return str(uuid.uuid4())

    def has_offsets(self, group_id: str) -> bool:
        """See Ports."""
        try:
            return self._manager.group_log.has_offsets(group_id)
        except StringTooLongError:
            return False    # no record can hold the name
        except OffsetLogError:
            return True    # unknown; the next write reports why the log failed


#: The key types of the records of groups of other kinds, and of their members.
OTHER_GROUPS = {3: "consumer", 11: "share", 17: "streams"}
OTHER_MEMBERS = {5: "consumer", 10: "share", 19: "streams"}


def _others_of(records: list[tuple[bytes, bytes]]) -> dict[str, OtherGroup]:
    found: dict[str, OtherGroup] = {}
    for key, _ in records:
        number = int.from_bytes(key[:2], "big")
        if number not in OTHER_GROUPS and number not in OTHER_MEMBERS:
            continue
        name = decode_key(key)
        assert name is not None
        group_id = name["data"]["groupId"]
        group_type = OTHER_GROUPS.get(number) or OTHER_MEMBERS[number]
        before = found.get(group_id)
        has_members = number in OTHER_MEMBERS or (before is not None and before.has_members)
        found[group_id] = OtherGroup(group_type, has_members)
    return found


def _groups_of(
    partition: int, records: list[tuple[bytes, bytes]]
) -> list[tuple[str, GroupRecord]]:
    found = []
    for key, value in records:
        name = decode_key(key)
        if name is None or name["type"] != str(KEY_TYPE):
            continue    # of another kind of group
        group_id = name["data"]["group"]
        try:
            found.append((group_id, GroupRecord.from_value(value)))
        except (CorruptionError, UnsupportedVersionError) as failure:
            _log.warning(
                "log partition %d, group %r: ignoring an unreadable group record: %s",
                partition, group_id, failure, extra={"partition": partition, "group": group_id},
            )
    return found
