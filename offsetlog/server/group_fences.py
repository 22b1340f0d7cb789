"""Fences, which begin a new generation of a group: the storage plugin asks for them, the coordinator writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsetlog import error_codes
from offsetlog._native.completion import Completion
from offsetlog.error_codes import ErrorCode
from offsetlog.errors import (
    CommitTimeoutError,
    CoordinatorLoadingError,
    InvalidArgumentError,
    LimitError,
    NotCoordinatorError,
    OffsetLogError,
)
from offsetlog.manager.interface import Pending
from offsetlog.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from offsetlog.server.group_host import GroupHost


class FenceOrder:
    """An order to fence a group, that is, to begin a new generation; its caller waits for the result.

    Args:
        offsets: the positions that are written in one batch with the fence.

    Attributes:
        answer: is completed with the new generation once its record is as durable as configured.
    """

    def __init__(self, offsets: dict[TopicPartition, int | OffsetAndMetadata]) -> None:
        self.offsets = offsets
        self.answer: Completion[int] = Completion()
        self._failure: OffsetLogError | None = None

    def written_by(self, write: Callable[[], Pending[int]]) -> Pending[int]:
        """Calls `write`; if the write fails, keeps the error.  Raises the errors of `write`."""
        try:
            pending = write()
        except OffsetLogError as failure:
            self._failure = failure
            raise
        # This callback is added first, so that it runs before the callback that informs the
        # coordinator.
        pending.add_done_callback(self._written)
        return pending

    def _written(self, pending: Pending[int]) -> None:
        try:
            pending.result(0)
        except OffsetLogError as failure:
            self._failure = failure

    def finish(self, group: str, result: ErrorCode | int) -> None:
        """Ends the caller's wait with the coordinator's answer."""
        if isinstance(result, int):
            self.answer.succeed(result)
        else:
            self.answer.fail(self._failure or _failure_of(group, result))


def _failure_of(group: str, error: ErrorCode) -> OffsetLogError:
    if error is error_codes.COORDINATOR_LOAD_IN_PROGRESS:
        return CoordinatorLoadingError(f"group {group!r}: its log partition is being loaded; ask again")
    if error is error_codes.NOT_COORDINATOR:
        return NotCoordinatorError(f"group {group!r}: this process does not lead its log partition")
    if error is error_codes.INCONSISTENT_GROUP_PROTOCOL:
        return InvalidArgumentError(
            f"group {group!r} cannot be fenced as a whole: it is not a classic group"
        )
    if error is error_codes.INVALID_REQUEST:
        return LimitError(f"group {group!r} cannot be fenced: its generation number is at its maximum")
    return CommitTimeoutError(f"group {group!r}: the fence was not written in time; it may still take effect")


class GroupFences:
    """Ends generations through the coordinator; see offsetlog.manager.group_log.Fences.

    Args:
        groups: runs the coordinator.
        loop: the coordinator's event loop.
    """

    def __init__(self, groups: GroupHost, loop: asyncio.AbstractEventLoop) -> None:
        self._groups = groups
        self._loop = loop

    def fence_async(
        self,
        group: str,
        offsets: dict[TopicPartition, int | OffsetAndMetadata],
        timeout: float | None,
    ) -> Completion[int]:
        """Ends the group's generation; any thread may call this.

        The result is the new generation.  Both `timeout`, in seconds, and the coordinator's
        `offsets.commit.timeout.ms` limit the wait; a fence that is not answered in time may still
        take effect.
        """
        order = FenceOrder(offsets)

        def begin() -> None:
            if timeout is not None:
                late = error_codes.COORDINATOR_NOT_AVAILABLE
                limit = self._loop.call_later(timeout, order.finish, group, late)
                order.answer.add_done_callback(lambda _: self._groups.call_soon(limit.cancel))
            self._groups.fence(group, order, lambda result: order.finish(group, result))

        self._groups.call_soon(begin)
        return order.answer
