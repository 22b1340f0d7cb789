"""Closes a store once: when `close` is called, or when no code can reach the store any more."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
import warnings
import weakref

from offsetlog._native.partition import Partition
from offsetlog._native.store_core import StoreCore
from offsetlog.directory import snapshots
from offsetlog.directory.log_bounds import checkpoint_bounds
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.errors import OffsetLogError
from offsetlog.lifecycle.awaitable_tickets import TicketWaiter
from offsetlog.lifecycle.open_partitions import OpenPartitions
from offsetlog.maintenance.cleaning import tails_of
from offsetlog.maintenance.policy import snapshots_due
from offsetlog.maintenance.scheduler import Maintenance
from offsetlog.maintenance.threads import on_maintenance_thread

LOGGER = logging.getLogger("offsetlog.snapshot")

#: Seconds between two writes of the recovery points, as Kafka's
#: `log.flush.offset.checkpoint.interval.ms`.
CHECKPOINT_SECONDS = 60.0


class StoreCloser:
    """Closes one store, once.  The core has a reference to its closer, but the closer has none to the core.

    The closer therefore does not keep the store open.  The store stays open as long as an object exists that can commit
    to it, such as the method `store.commit_one`.  It is closed as soon as the last of these objects is gone.

    Args:
        directory: the log directory, which is locked if the store is writable.
        partitions: the owner of the store's partitions.
        waiter: the TicketWaiter that waits for the store's tickets.
        maintenance: the maintenance of the store.
        read_only: whether the store must not write.
    """

    def __init__(
        self,
        directory: LogDirectory,
        partitions: OpenPartitions,
        waiter: TicketWaiter,
        maintenance: Maintenance,
        *,
        read_only: bool,
    ) -> None:
        self._directory = directory
        self._partitions = partitions
        self._waiter = waiter
        self._maintenance = maintenance
        self._read_only = read_only
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._stop = threading.Event()
        self._keeper: threading.Thread | None = None

    def watch(self, core: StoreCore) -> None:
        """Makes the store close when no code can reach it any more, or when the program ends."""
        core.closer = self
        _open_stores[core] = self

    def keep_checkpoints(self, core: StoreCore) -> None:
        """Starts a thread that writes the recovery points every minute, until the store is closed."""
        keeper = threading.Thread(
            target=_keep_checkpoints,
            args=(weakref.ref(core), self._directory, self._stop),
            name="offsetlog-keeper",
            daemon=True,
        )
        keeper.start()
        self._keeper = keeper

    def close(self, core: StoreCore) -> None:
        """Closes cleanly; see OffsetStore.close."""
        if os.getpid() != self._pid:
            return  # a forked child has nothing to close
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._stop_and_close(core)
            finally:
                self._directory.unlock()
                _open_stores.pop(core, None)

    def _stop_and_close(self, core: StoreCore) -> None:
        # If a step fails or Ctrl-C interrupts it, the later steps are still done.
        failures: list[BaseException] = []
        self._stop.set()
        # Loading is stopped first, because a call that waits for a load occupies a thread.
        self._partitions.stop_loading()
        for step in (self._maintenance.stop, self._stop_keeper, self._partitions.stop):
            try:
                step()
            except BaseException as failure:
                failures.append(failure)
        # No partition may be closed while calls can still begin, not even after an interrupt.
        while not core.closed:
            try:
                core.close()
            except BaseException as failure:
                failures.append(failure)
        try:
            self._waiter.stop()
        except BaseException as failure:
            failures.append(failure)
        self._partitions.abandon_failed()
        self._close_partitions(self._partitions.all(), failures)
        if failures:
            first = next(
                (failure for failure in failures if not isinstance(failure, Exception)), failures[0]
            )
            for other in failures:
                if other is not first:
                    first.add_note(f"and: {str(other) or type(other).__name__}")
            raise first

    def _stop_keeper(self) -> None:
        # The keeper's own thread may briefly hold the last reference.
        if self._keeper is not None and self._keeper is not threading.current_thread():
            self._keeper.join()

    def close_unreachable(self, core: StoreCore) -> None:
        """Closes a store that no code can reach any more.  Issues a ResourceWarning, as Python does for files."""
        # While the interpreter shuts down, threads that worked in the store may have ended with
        # locks held, so nothing may wait for these locks.  Only a store that was opened after
        # `_close_all` ran can still be open then.
        if self._closed or os.getpid() != self._pid or sys.is_finalizing():
            return
        path = self._directory.path
        try:
            warnings.warn(
                f"the store in {path} was not closed", ResourceWarning, source=core, stacklevel=2
            )
        finally:  # even if a filter turns the warning into an error
            if on_maintenance_thread():
                # A maintenance thread may have held the last reference, or may be collecting garbage.  Another thread
                # then closes the store.
                threading.Thread(target=self.close, args=(core,), name="offsetlog-close").start()
            else:
                self.close(core)

    def abandon(self, core: StoreCore) -> None:
        """Releases everything without writing a byte, as the end of the process would."""
        with self._lock:
            self._closed = True
            self._stop.set()
            self._partitions.stop_loading()
            try:
                self._maintenance.stop()
                core.close()
                self._partitions.abandon()
                self._waiter.stop()
            finally:
                self._directory.unlock()
                _open_stores.pop(core, None)

    def _close_partitions(self, partitions: list[Partition], failures: list[BaseException]) -> None:
        ends: dict[int, int] = {}
        watermarks: dict[int, int] = {}
        refused = len(self._partitions.unreadable()) + len(self._partitions.failed())
        left = list(reversed(partitions))
        due: set[int] = set()
        try:
            due = self._snapshots_due(partitions)
        except BaseException as failure:
            failures.append(failure)
        while left:
            try:
                while left:
                    refused += not self._close_one(left[-1], due, ends, watermarks)
                    left.pop()
            except BaseException as failure:
                failures.append(failure)
                # An interrupt may come before the close, or between the close and the `pop`.
                if left and left[-1].closed:
                    left.pop()
        try:
            if not self._read_only:
                sound = not refused and not failures
                self._directory.finish(ends, sound=sound, watermarks=watermarks)
        except BaseException as failure:
            failures.append(failure)

    def _write_snapshot(self, partition: Partition) -> None:
        snapshots.write_last(partition, self._directory.fs)

    def _write_replica_snapshot(self, partition: Partition) -> None:
        # A replica's state ends at W while its log continues, so the state cannot be used unchanged.
        try:
            snapshots.write(partition, self._directory)
        except OffsetLogError as failure:
            LOGGER.warning("%s: no snapshot was written: %s", partition.path, failure)

    def _snapshots_due(self, partitions: list[Partition]) -> set[int]:
        config = self._maintenance.config
        if self._read_only or not config.enabled:
            return set()
        closed_cleanly = [each for each in partitions if self._is_sound(each)]
        return snapshots_due(tails_of(closed_cleanly), config)

    def _is_sound(self, partition: Partition) -> bool:
        return not partition.read_only and partition.number not in self._partitions.unreadable()

    def _close_one(
        self,
        partition: Partition,
        due: set[int],
        ends: dict[int, int],
        watermarks: dict[int, int],
    ) -> bool:
        # Returns the log end and W, and whether it was closed cleanly.
        if self._read_only or not self._is_sound(partition):
            partition.abandon()
            return False
        is_due = partition.number in due
        watermark = partition.log_facts()["watermark"]
        if is_due and partition.replicated:
            self._write_replica_snapshot(partition)
        partition.close(self._write_snapshot if is_due and not partition.replicated else None)
        ends[partition.number] = partition.closed_at
        watermarks[partition.number] = watermark if partition.replicated else partition.closed_at
        return True


def _keep_checkpoints(
    known: weakref.ref[StoreCore], directory: LogDirectory, stop: threading.Event
) -> None:
    # A recovery after a crash starts at the recovery point.  Without this thread, that would be the
    # log end at the last clean stop.
    while not stop.wait(CHECKPOINT_SECONDS):
        try:
            core = known()
            if core is None:
                return
            checkpoint_bounds(directory, core.attached(wait=False))
        except OffsetLogError:
            # The next commit will meet the same failure and report it; a checkpoint only makes
            # recovery faster.
            pass
        finally:
            core = None


#: The stores to close when the program ends.
_open_stores: weakref.WeakKeyDictionary[StoreCore, StoreCloser] = weakref.WeakKeyDictionary()


def _close_all() -> None:
    # Each store is closed, even if the close of another fails.
    with contextlib.ExitStack() as steps:
        for core, closer in list(_open_stores.items()):
            steps.callback(closer.close_unreachable, core)


# Runs before the interpreter shuts down, while daemon threads still run.  All other threads, which
# may commit until their end, have ended before.
atexit.register(_close_all)
