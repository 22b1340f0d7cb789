"""Changes of leadership that end once they have ended in both storages."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from offsetlog.errors import OffsetLogError
from offsetlog.manager.interface import Transition
from offsetlog.manager.transition import PartitionTransition
from offsetlog.manager.work import Awaited


class Transitions:
    """The last change of each partition in both storages.  Thread-safe.

    A leader that gives a partition up waits for the log and for its writes on the way to ZooKeeper: a write arriving
    there after the next leader's write would lower that position again.  It also waits for work that has begun but sent
    nothing yet: the values it has read could reach ZooKeeper once this process leads again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[int, tuple[Transition, Transition, PartitionTransition]] = {}

    def of(self, log: Transition, zookeeper: Transition, begun: Sequence[Awaited] = ()) -> Transition:
        """Returns the change that ends when both have ended; the same object for the same changes.

        Its result is that of the log.  It fails with the first failure of either; a later change supersedes it.

        Args:
            log: the change in the log.
            zookeeper: the change in ZooKeeper.
            begun: work that began before them, and ends by itself with success or failure.
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
