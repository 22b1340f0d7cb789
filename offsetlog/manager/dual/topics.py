"""Deletes the positions of deleted topics in both storages, so that neither brings them back.

A commit, a rewind or a catch-up during the deletion copies positions from one storage to the other.  If each storage
were swept separately, ZooKeeper could get a copy after its own sweep, before the log's sweep deletes the original.
Fetches would then return that position, even for a topic of the same name that is created later.  Therefore both
storages of a group are changed in the same turn.

After the last group, ZooKeeper is swept.  The sweep removes the nodes above the positions, and nodes that contain no
offset.  Positions that the log has at that time were committed after their group was done, so they are sent to
ZooKeeper again.  If a group failed, ZooKeeper is not swept.
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
        in_turn: runs a call in the turn of a group.
        look: returns the leadership of each log partition.
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
        """Deletes the positions; returns their number.

        A position that was committed again meanwhile, and deleted again, counts twice.

        Raises:
            ZooKeeperUnavailableError: ZooKeeper does not answer; the remaining groups were not tried.
            CoordinatorLoadingError: a partition is being loaded or was not led throughout, so some of its groups may
                have been skipped.
            OffsetLogError: the first failure; the positions of every group that did not fail were deleted.
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
