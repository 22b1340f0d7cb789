"""Changes of leadership that have ended once they have in both storages."""

from __future__ import annotations

import threading

from offsetlog.errors import OffsetLogError
from offsetlog.manager.interface import Transition
from offsetlog.manager.transition import PartitionTransition


class Transitions:
    """The last change of each partition, of both storages.  Safe from any thread.

    A leader that gives a partition up waits for the log as well as for what is on its way to ZooKeeper: a write that
    arrives there after the next leader has written would take its position back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[int, tuple[Transition, Transition, PartitionTransition]] = {}

    def of(self, log: Transition, zookeeper: Transition) -> Transition:
        """Returns the change that ends when both have; the same one for the same changes.

        Its result is that of the log.  It fails as the first of them that fails, and a later change takes its place.
        """
        with self._lock:
            before = self._last.get(log.partition)
            if before is not None and before[0] is log and before[1] is zookeeper:
                return before[2]
            both = PartitionTransition(log.partition, log.epoch, lambda: log.progress)
            self._last[log.partition] = log, zookeeper, both
        if before is not None:
            before[2].supersede(log.epoch)

        def ended(_: Transition) -> None:
            try:
                results = [each.result(0) for each in (log, zookeeper) if each.done()]
            except OffsetLogError as failure:
                both.fail(failure)
            else:
                if len(results) == 2:
                    both.succeed(results[0])

        log.add_done_callback(ended)
        zookeeper.add_done_callback(ended)
        return both
