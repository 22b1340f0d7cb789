"""Deletes the positions of deleted topics in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from offsetlog.errors import OffsetLogError
from offsetlog.manager.interface import Pending
from offsetlog.manager.log_manager import LogManager

_log = logging.getLogger(__name__)


class DeletedPositions:
    """Deletes the positions of deleted topics in the background, and keeps track of the topics not done yet.

    Positions belong to a topic's name.  If a new topic got the name of a deleted topic too early,
    the deletion would include positions that were committed for the new topic.  The server
    therefore creates a topic of that name only after the deletion.  Call every method on one event
    loop.

    Args:
        manager: keeps the positions.
    """

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def delete(self, topics: Sequence[str]) -> None:
        """Begins to delete the positions of topics that no longer exist; logs failures."""
        try:
            pending = self._manager.on_topic_deleted_async(topics)
        except OffsetLogError as failure:
            _report(failure)
            return
        task = asyncio.get_running_loop().create_task(self._until_done(topics, pending))
        self._tasks.update(dict.fromkeys(topics, task))

    async def _until_done(self, topics: Sequence[str], pending: Pending[int]) -> None:
        try:
            await pending
        except OffsetLogError as failure:
            _report(failure)
        finally:
            for topic in topics:
                del self._tasks[topic]

    def is_deleting(self, topics: Iterable[str]) -> bool:
        """Whether positions of one of these topics are being deleted."""
        return any(each in self._tasks for each in topics)

    async def settle(self, topics: Iterable[str]) -> None:
        """Waits until running deletions for these topics have ended."""
        tasks = {self._tasks[each] for each in topics if each in self._tasks}
        if tasks:
            await asyncio.wait(tasks)


def _report(failure: OffsetLogError) -> None:
    # The positions expire some day; until then, a new topic of the same name would have them.
    _log.warning(
        "some positions of deleted topics remain, and new topics with the same names may get these positions; the "
        "deletion failed: %s",
        failure,
    )
