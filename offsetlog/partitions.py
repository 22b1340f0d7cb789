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
from offsetlog.errors import ClosedError, PartitionCountError
from offsetlog.logdir import LOG_STARTS, RECOVERY_POINTS, TOPIC, LogDirectory, random_topic_id


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
        self._recovery_points = directory.read_checkpoint(RECOVERY_POINTS)
        self._log_starts = directory.read_checkpoint(LOG_STARTS)

    def open(self, number: int, *, create: bool = False) -> Partition:
        """Opens and loads one partition."""
        partition = Partition(
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
        try:
            partition.load()
        except BaseException:
            partition.abandon()
            raise
        return partition

    def open_all(self, numbers: list[int]) -> list[Partition]:
        """Opens and loads partitions side by side; when one cannot be opened, none stays open and its error is told."""
        if not numbers:
            return []
        with ThreadPoolExecutor(min(len(numbers), os.cpu_count() or 1), "offsetlog-load") as pool:
            jobs = [pool.submit(self.open, number) for number in numbers]
        failures = [job.exception() for job in jobs]
        opened = [job.result() for job, failure in zip(jobs, failures, strict=True) if failure is None]
        for failure in failures:
            if failure is not None:
                for partition in opened:
                    partition.abandon()
                raise failure
        if self.topic_id is None:
            self.topic_id = next((partition.topic_id for partition in opened if partition.topic_id is not None), None)
        return opened

    def __call__(self, number: int) -> Partition:
        """Makes the directory of a partition that is first needed now; many may ask at once and get the same one."""
        with self._lock:
            if self._ended:
                raise ClosedError("the store is closed")
            if number not in self._created:
                if self.topic_id is None:
                    self.topic_id = random_topic_id()
                self._created[number] = self.open(number, create=True)
            return self._created[number]

    def end(self) -> list[Partition]:
        """Makes no more partitions from now on; returns those that it made."""
        with self._lock:
            self._ended = True
            return list(self._created.values())


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
