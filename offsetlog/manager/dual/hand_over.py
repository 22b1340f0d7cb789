"""Changes of leadership that have ended once they have in both storages."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from offsetlog.errors import OffsetLogError
from offsetlog.manager.interface import Transition
from offsetlog.manager.transition import PartitionTransition
from offsetlog.manager.work import Awaited


class Transitions:
    """The last change of each partition, of both storages.  Safe from any thread.

    A leader that gives a partition up waits for the log as well as for what is on its way to ZooKeeper: a write that
    arrives there after the next leader has written would take its position back.  It also waits for work that has begun
    and has sent nothing yet: its older reading could come to ZooKeeper once this process leads again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[int, tuple[Transition, Transition, PartitionTransition]] = {}

    def of(self, log: Transition, zookeeper: Transition, begun: Sequence[Awaited] = ()) -> Transition:
        """Returns the change that ends when both have; the same one for the same changes.

        Its result is that of the log.  It fails as the first of them that fails, and a later change takes its place.

        Args:
            log: the change of the log.
            zookeeper: that of ZooKeeper.
            begun: work that has begun before them, and ends by itself, well or badly.
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
