"""The one owner of a directory's open partitions; it creates new ones when they are first needed."""

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
    """A replica whose log failed and is not open again yet."""

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

    This object owns a partition from the opening of its log until its close.  Others borrow it: a background load until
    it is loaded, and the core while calls use it.  To close the store, the closer gets the open partitions from this
    owner.

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
        """Returns by number an error for each partition whose directory is missing."""
        return dict(self._missing)

    def findings(self) -> list[OffsetLogError]:
        """Returns the faults of the directory's checkpoints, as errors that were not raised."""
        return list(self._opener.findings)

    def problems(self) -> list[OffsetLogError]:
        """Returns the problems of the directory, and the errors of unreadable partitions."""
        return [*self._missing.values(), *self.findings(), *self.unreadable().values()]

    def readable(self) -> list[Partition]:
        """Returns the open partitions that are loaded or can still be loaded."""
        unreadable = self.unreadable()
        return [partition for partition in self.all() if partition.number not in unreadable]

    def unreadable(self) -> dict[int, StorageError]:
        """Returns by number the errors of partitions that the disk could not read; calls about them raise these."""
        return dict(self._unopened) if self._load is None else self._load.unreadable()

    def open_all(self, numbers: list[int], *, wait: bool = True, isolate: bool = False) -> None:
        """Opens and loads partitions in parallel; if one cannot be opened, none stays open.

        Args:
            numbers: the numbers of the partitions.
            wait: whether to wait for the loads and raise the first failure; otherwise they run in the background.
            isolate: whether to open the other partitions if the disk cannot read one; see `unreadable`.

        Raises:
            StorageError, CorruptionError, CapacityError: a partition cannot be opened or, with `wait`, not be loaded.
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
        """Opens logs in parallel without loading them; the host loads each with `load`.

        Raises:
            StorageError, CorruptionError, CapacityError: a log cannot be opened.  A log that the disk cannot read
                raises nothing; see `unreadable`.
        """
        self._missing = self._opener.missing(numbers)
        opened, self._unopened = self._opener.open_logs(numbers, os.cpu_count() or 1)
        self._owned = {partition.number: partition for partition in opened}

    def load(self, partition: Partition) -> None:
        """Loads a partition that `open_logs` opened, or whose table was dropped."""
        self._opener.load(partition)

    def get(self, number: int) -> Partition | None:
        """Returns a partition that is open, loaded or not; None if it does not exist.

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
        """Returns why an existing partition is not open; None if it is open or does not exist."""
        failed = self._failed.get(number)
        if failed is not None:
            return failed.refusal
        return self._missing.get(number) or self._unopened.get(number)

    def open_again(self, number: int, release: Callable[[Partition], None]) -> Partition:
        """Opens the log of a replica that failed, or that the disk could not read; loads nothing.

        Until the log is open, calls for this partition, or on the failed object, raise CoordinatorLoadingError.  If the
        log cannot be opened, they raise PartitionFailedError.  Only one thread at a time may open a partition again.

        Args:
            number: the number of the partition.
            release: called with the failed partition, which accepts no more calls, to end its use.

        Raises:
            ClosedError: the store is closed.
            OffsetLogError: the log could not be opened; the call can be repeated.
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
        """Makes calls for a failed partition raise CoordinatorLoadingError until `open_again` has opened it.

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
        """Returns a partition, the same object for all callers; creates its directory if it does not exist."""
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
        """Returns the partition numbers that `loaded` knows; with wait=False, those that it returns without waiting."""
        return [] if self._load is None else self._load.numbers(loaded=not wait)

    def loaded(self, number: int) -> Partition | None:
        """Returns a partition once the background load has loaded it; None if it does not exist.

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
        """Starts no more loads; a call that waits for one raises ClosedError."""
        if self._load is not None:
            self._load.stop()

    def finish_loading(self) -> None:
        """Releases the background load, once the core has all its partitions."""
        if self._load is not None:
            self._load.release()

    # ----------------------------------------------------------------------------- replacing, closing

    def replace_by(self, fresh: OpenPartitions) -> None:
        """Takes over the partitions of another owner; calls in progress finish on the old partitions."""
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
        """Stops, and releases every partition without writing a byte."""
        self.stop()
        self.abandon_failed()
        for partition in self.all():
            partition.abandon()

    def abandon_failed(self) -> None:
        """Releases the replicas that were set aside and not opened again, once no call uses them."""
        for failed in list(self._failed.values()):
            if failed.partition is not None:
                failed.partition.abandon()
