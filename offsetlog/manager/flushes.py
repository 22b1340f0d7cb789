"""Flushes for callers that wait without a thread; one flush serves all callers that came before it began."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from offsetlog._native.histogram import Histogram
from offsetlog._native.parking import Parking
from offsetlog._native.partition import Partition
from offsetlog._native.replica import Replica
from offsetlog.errors import ClosedError
from offsetlog.manager.executor import Executor
from offsetlog.manager.transition import PartitionTransition


def parkings(count: int, executor: Executor, *, replicated: bool) -> list[Parking]:
    """Returns one queue of writes for each partition.

    If `replicated`, the writes wait for the high watermark (W); otherwise they wait for the disk.
    """
    return [Parking(replicated, executor.now, executor.call_later) for _ in range(count)]


class Flushes:
    """Runs the flushes of all partitions of one manager.  Thread-safe.

    Args:
        executor: runs the flushes.
        replica_of: returns the Replica of a partition, or None if the partition has no directory;
            raises ClosedError once the manager is stopped.
        epoch_of: returns the newest leader epoch of a partition.
        for_disk: the queue of each partition, by its number, for the writes that wait for the disk.
        for_watermark: the queue of each partition, by its number, for the writes that wait for W.
            These writes fail when the log fails.

    Attributes:
        times: the durations of the flushes.
    """

    def __init__(
        self,
        executor: Executor,
        replica_of: Callable[[int], Replica | None],
        epoch_of: Callable[[int], int],
        for_disk: Sequence[Parking],
        for_watermark: Sequence[Parking],
    ) -> None:
        self._executor = executor
        self._replica_of = replica_of
        self._epoch_of = epoch_of
        self._for_disk = for_disk
        self._for_watermark = for_watermark
        self._lock = threading.Lock()
        self.times = Histogram()
        self._transitions: dict[int, PartitionTransition] = {}
        self._closed = False

    def order(self, number: int) -> None:
        """Schedules a flush of a partition, for writes that wait until they are on disk.

        Raises:
            CapacityError: the executor cannot run it.
        """
        self._executor.submit(partial(self._flush, number))

    def flush(self, number: int) -> PartitionTransition:
        """See OffsetManager.flush."""
        fresh = PartitionTransition(number, self._epoch_of(number), _unmeasured)
        if self._replica_of(number) is None:
            fresh.succeed(0)
            return fresh
        with self._lock:
            if self._closed:
                raise ClosedError("the manager is stopped")
            # A flush that has not begun covers everything that has been written by now.
            transition = self._transitions.setdefault(number, fresh)
        if self._for_disk[number].wants_flush():
            try:
                self.order(number)
            except Exception as failure:
                self._begin(number)
                transition.fail(failure)
        return transition

    def _begin(self, number: int) -> PartitionTransition | None:
        # The order matters: once `begin_flush` has been called, a new caller orders another flush.
        self._for_disk[number].begin_flush()
        with self._lock:
            return self._transitions.pop(number, None)

    def _flush(self, number: int) -> None:
        transition = self._begin(number)
        reached = -1
        try:
            replica = self._replica_of(number)
            if replica is None:
                raise ClosedError(f"log partition {number} is closed")
            reached = replica.positions().log_end
            flushed = self._measured(replica.partition)
        except Exception as failure:
            self._fail(number, reached, failure)
            if transition is not None:
                transition.fail(failure)
        else:
            self._for_disk[number].settle(flushed)
            if transition is not None:
                transition.succeed(flushed)

    def _measured(self, partition: Partition) -> int:
        began = time.monotonic()
        flushed = partition.flush()
        seconds = time.monotonic() - began
        with self._lock:
            self.times.observe(seconds)
        return flushed

    def _fail(self, number: int, reached: int, failure: Exception) -> None:
        # Writes above `reached` came later and have ordered another flush.  If the log has failed
        # for good, all writes get the answers of the engine.
        self._for_disk[number].settle()
        self._for_watermark[number].settle()
        self._for_disk[number].refuse(failure, reached)

    def close(self) -> None:
        """Fails the flushes that have not run; call this method after the executor has stopped."""
        with self._lock:
            self._closed = True
            transitions = list(self._transitions.values())
            self._transitions.clear()
        for transition in transitions:
            transition.fail(ClosedError("the manager is stopped"))


def _unmeasured() -> float:
    return 0.0
