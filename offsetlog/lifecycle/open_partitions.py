"""The owner of a directory's open partitions.  It creates a new partition when the partition is first needed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

from offsetlog._native.partition import Partition
from offsetlog._native.replica import Replica
from offsetlog.errors import (
    ClosedError,
    CoordinatorLoadingError,
    DataLossError,
    OffsetLogError,
    PartitionFailedError,
    StorageError,
)
from offsetlog.lifecycle.background_load import BackgroundLoad, LoadProgress
from offsetlog.lifecycle.partition_opener import PartitionOpener


@dataclass(slots=True)
class _Failed:
    """A replica whose log failed, and has not been opened again yet."""

    refusal: OffsetLogError
    watermark: int = -1
    term: int = 0
    partition: Partition | None = None

    def refuse(self, refusal: OffsetLogError) -> None:
        self.refusal = refusal
        if self.partition is not None:
            self.partition.retire(refusal)


class OpenPartitions:
    """Owns the open partitions of one directory.  Any thread may call its methods.

    This object owns a partition from the opening of its log until its close.  Other objects only use it: a background
    load until the partition is loaded, and the core for its calls.  When the store is closed, the closer gets the open
    partitions from this owner.

    Args:
        opener: the opener of the partitions.
    """

    def __init__(self, opener: PartitionOpener) -> None:
        self._opener = opener
        self._lock = threading.Lock()
        self._owned: dict[int, Partition] = {}
        self._missing: dict[int, DataLossError] = {}
        self._unopened: dict[int, StorageError] = {}
        self._failed: dict[int, _Failed] = {}
        self._load: BackgroundLoad | None = None
        self._stopped = False

    def all(self) -> list[Partition]:
        """Returns the open partitions, loaded or not, by number."""
        return [partition for _, partition in sorted(self._owned.items())]

    def failed(self) -> list[int]:
        """Returns the numbers of the replicas that failed and have not been opened again."""
        return sorted(self._failed)

    def missing(self) -> dict[int, DataLossError]:
        """Returns, by number, an error for each partition whose directory is missing."""
        return dict(self._missing)

    def findings(self) -> list[OffsetLogError]:
        """Returns the faults that were found in the checkpoints of the directory, as errors that were not raised."""
        return list(self._opener.findings)

    def problems(self) -> list[OffsetLogError]:
        """Returns the problems of the directory, and the errors of the partitions that the disk cannot read."""
        return [*self._missing.values(), *self.findings(), *self.unreadable().values()]

    def readable(self) -> list[Partition]:
        """Returns the open partitions that are loaded or can still be loaded."""
        unreadable = self.unreadable()
        return [partition for partition in self.all() if partition.number not in unreadable]

    def unreadable(self) -> dict[int, StorageError]:
        """Returns, by number, the errors of the partitions that the disk could not read.

        Calls about these partitions raise them.
        """
        return dict(self._unopened) if self._load is None else self._load.unreadable()

    def open_all(self, numbers: list[int], *, wait: bool = True, isolate: bool = False) -> None:
        """Opens and loads partitions in parallel.  If one of them cannot be opened, none stays open.

        Args:
            numbers: the numbers of the partitions.
            wait: whether the call waits for the loads and raises the first failure.  If not, the partitions are loaded
                in the background.
            isolate: whether the other partitions are opened if the disk cannot read one partition; see `unreadable`.

        Raises:
            StorageError, CorruptionError, CapacityError: a partition could not be opened, or, with `wait`, could not be
                loaded.
        """
        cores = os.cpu_count() or 1
        self._missing = self._opener.missing(numbers)
        opened, unreadable = self._opener.open_logs(numbers, cores)
        self._owned = {partition.number: partition for partition in opened}
        # All cores check a single large partition; several partitions are loaded in parallel.
        threads = max(1, cores // max(1, len(opened)))
        load = self._load = BackgroundLoad(
            opened, lambda each: self._opener.load(each, threads), cores, unreadable
        )
        try:
            load.start()
            if wait:
                load.wait()
                if not isolate:
                    self._refuse_unreadable()
                load.release()
        except BaseException:
            self.abandon()
            raise

    def open_logs(self, numbers: list[int]) -> None:
        """Opens logs in parallel, without loading them.  The host loads each one with `load`.

        Raises:
            StorageError, CorruptionError, CapacityError: a log could not be opened.  If the disk cannot read a log, the
                call raises nothing; see `unreadable`.
        """
        self._missing = self._opener.missing(numbers)
        opened, self._unopened = self._opener.open_logs(numbers, os.cpu_count() or 1)
        self._owned = {partition.number: partition for partition in opened}

    def load(self, partition: Partition) -> None:
        """Loads a partition that was opened by `open_logs`, or whose table was dropped."""
        self._opener.load(partition)

    def get(self, number: int) -> Partition | None:
        """Returns a partition that is open, whether or not it is loaded; None if it does not exist.

        Raises:
            DataLossError: the directory of the partition is missing although it must exist.
            StorageError: the disk cannot read the partition.
            CoordinatorLoadingError: the partition failed, and is being opened again.
            PartitionFailedError: the partition failed, and could not be opened again.
        """
        partition = self._owned.get(number)
        failure = self.failure_of(number)
        if partition is None and failure is not None:
            raise copy(failure)
        return partition

    def failure_of(self, number: int) -> OffsetLogError | None:
        """Returns the error of an existing partition that is not open; None if it is open or does not exist."""
        failed = self._failed.get(number)
        if failed is not None:
            return failed.refusal
        return self._missing.get(number) or self._unopened.get(number)

    def open_again(self, number: int, release: Callable[[Partition], None]) -> Partition:
        """Opens a log again after its replica failed, or after the disk could not read the log.  Does not load it.

        Until the log is open, calls about this partition raise CoordinatorLoadingError, and so do calls of the failed
        Partition.  If the log cannot be opened, they raise PartitionFailedError.  Only one thread at a time may open a
        partition again.

        Args:
            number: the number of the partition.
            release: a function that ends the use of the failed Partition, which is its argument.  When it is called,
                the failed Partition already refuses all calls.

        Raises:
            ClosedError: the store is closed.
            OffsetLogError: the log could not be opened.  The call can be repeated.
        """
        failed = self._taken_aside(number)
        if failed.partition is not None:
            release(failed.partition)
            failed.partition.abandon()
        try:
            fresh = self._opener.open_log_again(
                number, watermark=failed.watermark, term=failed.term
            )
        except OffsetLogError as failure:
            failed.refuse(
                PartitionFailedError(
                    f"the partition failed, and could not be opened again: {failure.message}",
                    path=failure.path,
                )
            )
            raise
        with self._lock:
            if not self._stopped:
                self._owned[number] = fresh
                self._failed.pop(number)
                self._unopened.pop(number, None)
                return fresh
        fresh.abandon()
        raise ClosedError("the store is closed")

    def set_aside(self, number: int) -> None:
        """Makes calls about a failed partition raise CoordinatorLoadingError until `open_again` has opened it.

        Raises:
            ClosedError: the store is closed.
            DataLossError: the directory of the partition is missing.
        """
        self._taken_aside(number)

    def _taken_aside(self, number: int) -> _Failed:
        with self._lock:
            if self._stopped:
                raise ClosedError("the store is closed")
            if number in self._missing:
                raise copy(self._missing[number])
            refusal = CoordinatorLoadingError("the partition failed, and is being opened again")
            failed = self._failed.setdefault(number, _Failed(refusal))
            partition = self._owned.pop(number, None)
            if partition is not None:
                # Callers may still wait for commits of the failed partition, which must not be confused with later
                # ones.
                failed.term = Replica(partition).leadership.term + 1
                failed.watermark = partition.log_facts()["watermark"]
                failed.partition = partition
            failed.refuse(refusal)
            return failed

    def _refuse_unreadable(self) -> None:
        for failure in self.unreadable().values():
            raise failure

    # --------------------------------------------------------------------------------- for the core

    def make(self, number: int) -> Partition:
        """Returns a partition, which is the same object for all callers.

        Creates its directory if it does not exist.
        """
        found = None if self._load is None else self._load.get(number)
        if found is not None:
            return found
        with self._lock:
            if self._stopped:
                raise ClosedError("the store is closed")
            if number in self._failed:
                raise copy(self._failed[number].refusal)
            if number not in self._owned:
                self._owned[number] = self._opener.create(number)
            return self._owned[number]

    def loading(self, wait: bool = True) -> list[int]:
        """Returns the numbers of the partitions in the background load; with wait=False, only of the loaded ones."""
        return [] if self._load is None else self._load.numbers(loaded=not wait)

    def loaded(self, number: int) -> Partition | None:
        """Waits until the background load has loaded a partition, and returns it; None if the partition does not exist.

        Raises:
            DataLossError: the directory of the partition is missing although it must exist.
        """
        missing = self._missing.get(number)
        if missing is not None and number not in self._owned:
            raise copy(missing)
        return None if self._load is None else self._load.get(number)

    # ------------------------------------------------------------------------------------- the load

    def wait_loaded(self, timeout: float | None = None) -> bool:
        """Waits for the background load; see BackgroundLoad.wait."""
        return self._load is None or self._load.wait(timeout)

    def progress(self) -> LoadProgress:
        """Returns the progress of the load."""
        return LoadProgress(0, 0, 0, 0, 0, 0.0) if self._load is None else self._load.progress()

    def stop_loading(self) -> None:
        """Starts no more loads.  A call that waits for a load raises ClosedError."""
        if self._load is not None:
            self._load.stop()

    def finish_loading(self) -> None:
        """Ends the background load's use of the partitions, after the core has taken all of them."""
        if self._load is not None:
            self._load.release()

    # ----------------------------------------------------------------------------- replacing, closing

    def replace_by(self, fresh: OpenPartitions) -> None:
        """Takes over the partitions of another owner.  Calls in progress finish on the old partitions."""
        with self._lock:
            if not self._stopped:
                self._owned, fresh._owned = fresh._owned, {}
                self._missing, self._opener = fresh._missing, fresh._opener
                if self._load is not None:
                    self._load.forget_unreadable()  # the new owner has read them
        fresh.abandon()  # its remaining partitions: the store was closed meanwhile

    def stop(self) -> None:
        """Stops creating and loading partitions, and waits for the loads in progress."""
        with self._lock:
            self._stopped = True
        if self._load is not None:
            self._load.stop()
            self._load.join()

    def abandon(self) -> None:
        """Stops, and then releases every partition without writing a byte."""
        self.stop()
        self.abandon_failed()
        for partition in self.all():
            partition.abandon()

    def abandon_failed(self) -> None:
        """Releases the failed replicas that have not been opened again, as soon as no call uses them."""
        for failed in list(self._failed.values()):
            if failed.partition is not None:
                failed.partition.abandon()
