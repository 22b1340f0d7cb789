"""Deletes the positions of deleted topics in both storages, so that neither copies them back to the other.

During the deletion, a commit, a rewind or a catch-up may copy positions from one storage to the other.  Suppose that
the deletion first handled all of ZooKeeper, and then all of the log.  ZooKeeper could then get a
copy of a position after the deletion in ZooKeeper, and before the position was deleted in the log.
Fetches would return that position, even for a topic of the same name that is created later.
Therefore both storages of a group are changed in the same turn.

After the last group, the topics are removed from all groups in ZooKeeper once more.  This removes the nodes above the
positions, and nodes that contain no offset.  If the log has positions of the topics at that time, they were committed
after their group was handled, so they are sent to ZooKeeper again.  If a group failed, this last step is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from offsetlog.errors import ClosedError, NotCoordinatorError, OffsetLogError, ZooKeeperUnavailableError
from offsetlog.manager.dual.both import Both
from offsetlog.manager.dual.catching_up import Leadership, unknown_partitions
from offsetlog.manager.dual.storage import Storage
from offsetlog.manager.interface import Pending


class TopicDeletion:
    """Deletes the positions of topics.  Thread-safe; the calls block.

    Args:
        log: the first storage.
        zookeeper: the second storage.
        both: changes both storages.
        groups: returns the groups that may have positions.
        in_turn: waits for the turn of a group, and then runs a call.
        look: returns the present leadership of each log partition.
    """

    def __init__(
        self,
        log: Storage,
        zookeeper: Storage,
        both: Both,
        groups: Callable[[], Iterable[str]],
        in_turn: Callable[[str, Callable[[], int], float | None], Pending[int]],
        look: Callable[[], Sequence[Leadership]],
    ) -> None:
        self._log, self._zookeeper, self._both = log, zookeeper, both
        self._groups, self._in_turn, self._look = groups, in_turn, look

    def delete(self, topics: Sequence[str], timeout: float | None) -> int:
        """Deletes the positions of these topics; returns the number of deleted positions.

        If a position is deleted, committed again, and deleted a second time, it counts twice.

        Raises:
            ZooKeeperUnavailableError: ZooKeeper does not answer; the remaining groups were not tried.
            CoordinatorLoadingError: a log partition is being loaded, or this process did not lead it during the whole
                call.  Some groups of the partition may have been skipped.
            OffsetLogError: the first failure.  The positions of every group that did not fail were deleted.
        """
        gone, before = frozenset(topics), self._look()
        failures: list[OffsetLogError] = []
        deleted = 0
        for group in sorted(self._groups()):
            delete = partial(self._both.delete_topics, group, gone, timeout)
            deleted += self._one(failures, group, delete, timeout)
        if not failures:
            deleted += self._sweep_zookeeper(failures, gone, timeout)
        unknown = unknown_partitions(before, self._look()).values()
        failures += [each for each in unknown if not isinstance(each, NotCoordinatorError)]
        if failures:
            raise failures[0]
        return deleted

    def _sweep_zookeeper(self, failures: list[OffsetLogError], gone: frozenset[str], timeout: float | None) -> int:
        deleted = 0
        try:
            deleted = self._zookeeper.on_topic_deleted(sorted(gone), timeout=timeout)
        except ClosedError:
            raise
        except OffsetLogError as failure:
            failures.append(failure)
        for group in self._log.groups():
            if self._both.has_topics(group, gone):
                self._one(failures, group, partial(self._both.follow_topics, group, gone), timeout)
        return deleted

    def _one(self, failures: list[OffsetLogError], group: str, call: Callable[[], int], timeout: float | None) -> int:
        try:
            return self._in_turn(group, call, timeout).result()
        except NotCoordinatorError:
            return 0  # the process that leads the group deletes them
        except (ClosedError, ZooKeeperUnavailableError):
            raise
        except OffsetLogError as failure:
            failures.append(failure)
            return 0
