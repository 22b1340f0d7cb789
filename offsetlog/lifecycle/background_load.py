"""Loads log partitions in the background.  Those that a call waits for are loaded first."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from offsetlog._native.partition import Partition
from offsetlog.errors import ClosedError, StorageError


class LoadProgress(NamedTuple):
    """The progress of loading a store.

    Attributes:
        partitions: the number of log partitions that existed when the store was opened.
        ready: the number of log partitions that are loaded and can be used.
        failed: the number of log partitions that could not be loaded.
        bytes: the bytes of the logs that have been read so far.  If a snapshot replaces a part of a log, this part is
            not read.
        bytes_total: the bytes of the logs that must be read, in the partitions whose loads have begun.
        seconds: the time since the loading began; after its end, the time that it took.
    """

    partitions: int
    ready: int
    failed: int
    bytes: int
    bytes_total: int
    seconds: float

    @property
    def done(self) -> bool:
        """Whether loading is complete."""
        return self.ready + self.failed == self.partitions


class BackgroundLoad:
    """Loads partitions whose logs are open, several at a time.  Any thread may use the object.

    The partitions belong to their owner (`OpenPartitions`).  This object uses them until they are loaded.

    Args:
        partitions: the partitions, which are open and not loaded.
        load: a function that loads one partition.
        workers: how many partitions are loaded at a time.
        unreadable: the errors of the other partitions, whose logs the disk could not read.
    """

    def __init__(
        self,
        partitions: list[Partition],
        load: Callable[[Partition], None],
        workers: int,
        unreadable: Mapping[int, StorageError],
    ) -> None:
        self._partitions = {partition.number: partition for partition in partitions}
        self._unreadable = dict(unreadable)
        self._load = load
        self._changed = threading.Condition()
        self._queue = list(reversed(self._partitions))
        self._failures: dict[int, BaseException | None] = {**unreadable}
        self._count = len(partitions) + len(unreadable)
        self._workers = min(workers, len(partitions))
        self._threads: list[threading.Thread] = []
        self._stopped = False
        self._begun = time.monotonic()
        self._final: LoadProgress | None = None

    def start(self) -> None:
        """Starts loading."""
        for _ in range(self._workers):
            thread = threading.Thread(target=self._run, name="offsetlog-load", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._queue:
                    return
                number = self._queue.pop()
            failure: BaseException | None = None
            try:
                self._load(self._partitions[number])
            except BaseException as raised:
                failure = raised
            with self._changed:
                self._failures[number] = failure
                if isinstance(failure, StorageError) and failure.is_unreadable:
                    self._unreadable[number] = failure
                if len(self._failures) == self._count:
                    self._final = self._measure(time.monotonic())
                self._changed.notify_all()

    def forget_unreadable(self) -> None:
        """Removes the errors of unreadable partitions, after another owner has tried to read these partitions again."""
        with self._changed:
            self._failures.update(dict.fromkeys(self._unreadable))
            self._unreadable = {}

    # -------------------------------------------------------------------------------------- queries

    def numbers(self, *, loaded: bool = False) -> list[int]:
        """Returns the numbers of the partitions of this object; with `loaded`, only of the loaded ones."""
        with self._changed:
            if not loaded:
                return sorted({*self._partitions, *self._unreadable})
            return [number for number in self._partitions if self._is_loaded(number)]

    def _is_loaded(self, number: int) -> bool:
        return self._failures.get(number, self) is None

    def unreadable(self) -> dict[int, StorageError]:
        """Returns, by number, the errors found so far of partitions that the disk cannot read."""
        with self._changed:
            return dict(self._unreadable)

    def get(self, number: int) -> Partition | None:
        """Waits until a partition is loaded, and returns it; returns None if this object does not have it.

        If the load of the partition has not begun, it is the next to begin.

        Raises:
            ClosedError: loading was stopped.
            OffsetLogError: the partition could not be loaded.
        """
        with self._changed:
            if number in self._unreadable:
                raise self._unreadable[number]
            partition = self._partitions.get(number)
            if partition is None:
                return None
            if number in self._queue:
                self._queue.remove(number)
                self._queue.append(number)
            while number not in self._failures:
                if self._stopped:
                    raise ClosedError("the store is closed")
                self._changed.wait()
            failure = self._failures[number]
        if failure is not None:
            raise failure
        return partition

    def wait(self, timeout: float | None = None) -> bool:
        """Waits at most `timeout` seconds until everything is loaded; returns whether it is loaded.

        The errors of partitions that the disk cannot read are not raised, because the other partitions can still be
        used.

        Raises:
            OffsetLogError: the first error of a partition that could not be loaded for another reason.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while len(self._failures) < self._count:
                left = None if deadline is None else deadline - time.monotonic()
                if self._stopped:
                    raise ClosedError("the store is closed")
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
            failures = [
                failure
                for number, failure in sorted(self._failures.items())
                if failure is not None and number not in self._unreadable
            ]
        if failures:
            raise failures[0]
        return True

    def progress(self) -> LoadProgress:
        """Returns the progress so far."""
        with self._changed:
            return self._measure(time.monotonic()) if self._final is None else self._final

    def _measure(self, now: float) -> LoadProgress:
        failed = sum(failure is not None for failure in self._failures.values())
        read = total = 0
        for partition in self._partitions.values():
            with contextlib.suppress(ClosedError):
                measured = partition.progress()
                read += measured["bytes"]
                total += max(measured["bytes_total"], measured["bytes"])
        return LoadProgress(
            self._count, len(self._failures) - failed, failed, read, total, now - self._begun
        )

    # ------------------------------------------------------------------------------- release and stop

    def release(self) -> None:
        """Drops the partitions if all of them are loaded.

        The errors of the partitions that the disk could not read are kept.
        """
        with self._changed:
            if self._final is not None:
                self._partitions = {}

    def stop(self) -> None:
        """Starts no more loads.  A call that waits for a load raises ClosedError."""
        with self._changed:
            self._queue.clear()
            self._stopped = True
            self._changed.notify_all()

    def join(self) -> None:
        """Waits for the loads that are still in progress after `stop`."""
        for thread in self._threads:
            thread.join()
