"""Opens the partitions of a log directory: those that are there, and new ones when they are first needed."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from offsetlog._native.codec import partition_for
from offsetlog._native.decompress import Decompressor
from offsetlog._native.files import FileSystem
from offsetlog._native.partition import Partition
from offsetlog.config import StoreConfig
from offsetlog.directory import snapshots
from offsetlog.directory.log_directory import (
    CLEANER_POINTS,
    LOG_STARTS,
    RECOVERY_POINTS,
    TOPIC,
    LogDirectory,
    random_topic_id,
)
from offsetlog.errors import ClosedError, PartitionCountError
from offsetlog.lifecycle.background_load import BackgroundLoads, LoadProgress


class PartitionOpener:
    """Opens and loads partitions of one directory.  Safe to call from any thread.

    Args:
        directory: the log directory; when `writable`, locked and begun.
        config: the settings.
        writable: whether partitions are opened for writing.
        topic_id: the id for new partition directories; None takes that of the partitions there are, or makes one.
    """

    def __init__(
        self,
        directory: LogDirectory,
        fs: FileSystem,
        config: StoreConfig,
        *,
        writable: bool,
        topic_id: bytes | None = None,
    ) -> None:
        self.topic_id = topic_id
        self._directory = directory
        self._fs = fs
        self._config = config
        self._writable = writable
        self._decompressor = Decompressor(config.decompressed_bytes_max)
        self._lock = threading.Lock()
        self._created: dict[int, Partition] = {}
        self._ended = False
        self._loads: BackgroundLoads | None = None
        self._threads = 1
        self._recovery_points = directory.read_checkpoint(RECOVERY_POINTS)
        self._log_starts = directory.read_checkpoint(LOG_STARTS)
        self._cleaned_to = directory.read_checkpoint(CLEANER_POINTS)

    def _open_log(self, number: int, *, create: bool = False) -> Partition:
        return Partition(
            self._directory.partition_path(number),
            number,
            self._fs,
            self._decompressor,
            self._config,
            writable=self._writable,
            create=create,
            clean=self._directory.was_clean,
            recovery_point=self._recovery_points.get((TOPIC, number), -1),
            log_start_offset=self._log_starts.get((TOPIC, number), -1),
            topic_id=self.topic_id if create else None,
        )

    def _load(self, partition: Partition) -> None:
        snapshots.load(
            partition,
            self._fs,
            cleaned_to=self._cleaned_to.get((TOPIC, partition.number), -1),
            threads=self._threads,
            keep=not self._writable,
        )

    def open(self, number: int, *, create: bool = False) -> Partition:
        """Opens and loads one partition."""
        partition = self._open_log(number, create=create)
        try:
            self._load(partition)
        except BaseException:
            partition.abandon()
            raise
        return partition

    def open_all(self, numbers: list[int], *, wait: bool = True) -> list[Partition]:
        """Opens partitions and loads them, side by side; when one cannot be opened, none stays open.

        Args:
            numbers: which.
            wait: for the loads, too, of which none may fail; else they go on in the background, and `loaded` and `end`
                give the partitions.

        Returns:
            The partitions, loaded only with `wait`.

        Raises:
            StorageError, CorruptionError, CapacityError: of the first that cannot be opened.
        """
        cores = os.cpu_count() or 1
        opened = self._open_logs(numbers, cores)
        if self.topic_id is None:
            self.topic_id = next((partition.topic_id for partition in opened if partition.topic_id is not None), None)
        # A large one alone is checked by all cores; many are loaded side by side.
        self._threads = max(1, cores // max(1, len(opened)))
        loads = self._loads = BackgroundLoads(opened, self._load, cores)
        try:
            loads.start()
            if wait:
                loads.wait()
                loads.forget()
        except BaseException:
            loads.end()
            self._loads = None
            for partition in opened:
                partition.abandon()
            raise
        return opened

    def _open_logs(self, numbers: list[int], workers: int) -> list[Partition]:
        if not numbers:
            return []
        with ThreadPoolExecutor(min(len(numbers), workers), "offsetlog-open") as pool:
            jobs = [pool.submit(self._open_log, number) for number in numbers]
        failures = [job.exception() for job in jobs]
        opened = [job.result() for job, failure in zip(jobs, failures, strict=True) if failure is None]
        for failure in failures:
            if failure is not None:
                for partition in opened:
                    partition.abandon()
                raise failure
        return opened

    def loading(self, wait: bool = True) -> list[int]:
        """Returns the partitions that `loaded` gives; with wait=False those that it gives at once."""
        return [] if self._loads is None else self._loads.numbers(loaded=not wait)

    def loaded(self, number: int) -> Partition | None:
        """Returns a partition that is loaded in the background, once it is; None for one that is not."""
        return None if self._loads is None else self._loads.get(number)

    def wait_loaded(self, timeout: float | None = None) -> bool:
        """Waits for the background; see BackgroundLoads.wait."""
        return self._loads is None or self._loads.wait(timeout)

    def progress(self) -> LoadProgress:
        """Returns how far loading is."""
        return LoadProgress(0, 0, 0, 0, 0, 0.0) if self._loads is None else self._loads.progress()

    def stop_loading(self) -> None:
        """Begins no more loads; who waits for one is refused."""
        if self._loads is not None:
            self._loads.stop()

    def forget(self) -> None:
        """Lets go what was loaded and is somebody else's by now."""
        if self._loads is not None:
            self._loads.forget()

    def __call__(self, number: int) -> Partition:
        """Makes the directory of a partition that is first needed now; many may ask at once and get the same one."""
        found = self.loaded(number)
        if found is not None:
            return found
        with self._lock:
            if self._ended:
                raise ClosedError("the store is closed")
            if number not in self._created:
                if self.topic_id is None:
                    self.topic_id = random_topic_id()
                self._created[number] = self.open(number, create=True)
            return self._created[number]

    def end(self) -> list[Partition]:
        """Makes and loads no more partitions from now on; returns those that it made, and those it has in hand."""
        with self._lock:
            self._ended = True
            created = list(self._created.values())
        return created if self._loads is None else [*created, *self._loads.end()]


def check_groups(partitions: list[Partition], count: int) -> None:
    """Raises PartitionCountError unless every group is where `count` partitions would put it (trap 38)."""
    for partition in partitions:
        for group in partition.groups():
            if partition_for(group, count) != partition.number:
                raise PartitionCountError(
                    f"with partitions={count} the group {group!r} would be in {TOPIC}-{partition_for(group, count)}, "
                    f"it is in {TOPIC}-{partition.number}",
                    asked=count,
                    path=partition.path,
                )
