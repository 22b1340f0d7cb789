"""Changes of leadership that are complete once they are complete in both storages."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from offsetlog.errors import OffsetLogError
from offsetlog.manager.interface import Transition
from offsetlog.manager.transition import PartitionTransition
from offsetlog.manager.work import Awaited


class Transitions:
    """The last change of leadership of each partition, in both storages.  Thread-safe.

    When a leader gives up a partition, the change completes once the leader's writes to the log and
    to ZooKeeper have ended.  Otherwise, a write could reach ZooKeeper after a write of the next
    leader, and lower the position again.  The change also waits for calls that have begun but have
    not sent anything yet.  Otherwise, the values that these calls have read could reach ZooKeeper
    when this process leads again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[int, tuple[Transition, Transition, PartitionTransition]] = {}

    def of(self, log: Transition, zookeeper: Transition, begun: Sequence[Awaited] = ()) -> Transition:
        """Returns a change that completes when the changes in both storages have completed.

        The result of the returned change is that of the change in the log.  If the change in either
        storage fails, the returned change fails with the first of these failures.  A later change
        of the partition supersedes the returned one.  For the same two changes, the method returns
        the same object again.

        Args:
            log: the change in the log.
            zookeeper: the change in ZooKeeper.
            begun: work that began before the two changes.  This work ends by itself, successfully
                or not.
        """
        with self._lock:
            before = self._last.get(log.partition)
            if before is not None and before[0] is log and before[1] is zookeeper:
                return before[2]
            both = PartitionTransition(log.partition, log.epoch, lambda: log.progress)
            self._last[log.partition] = log, zookeeper, both
        if before is not None:
            before[2].supersede(log.epoch)

        def ended(_: object) -> None:
            try:
                results = [each.result(0) for each in (log, zookeeper) if each.done()]
            except OffsetLogError as failure:
                both.fail(failure)
            else:
                if len(results) == 2 and all(each.done() for each in begun):
                    both.succeed(results[0])

        for each in (log, zookeeper, *begun):
            each.add_done_callback(ended)
        return both
