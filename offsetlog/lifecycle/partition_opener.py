"""Opens the log of one partition of a directory, and loads its state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from offsetlog._native.clocks import ManualClock
from offsetlog._native.decompress import Decompressor
from offsetlog._native.partition import Partition
from offsetlog.config import StoreConfig
from offsetlog.directory import snapshots
from offsetlog.directory.log_directory import (
    CLEANER_POINTS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    TOPIC,
    LogDirectory,
    Properties,
    random_topic_id,
)
from offsetlog.directory.witnesses import CLEANED_UNKNOWN, Witness, Witnesses
from offsetlog.errors import DataLossError, OffsetLogError, ReadOnlyError, StorageError


@dataclass(frozen=True, slots=True)
class ReplicaOptions:
    """Options for partitions whose host decides about their leadership and their high watermark W.

    Attributes:
        refuse_while_loading: whether commits are refused, as other calls are, until the partition is active.
        clock: the ManualClock that gives the time of day; None for the system's clock.
    """

    refuse_while_loading: bool = False
    clock: ManualClock | None = None


class PartitionOpener:
    """Opens and loads partitions of one directory, but does not keep them.  Any thread may use the object.

    Args:
        directory: the log directory.  If `writable` is set, the caller has locked it and has called `begin_writing`.
        config: the settings.
        writable: whether partitions are opened for writing.
        topic_id: the topic id for new partition directories; None to use the id of the existing partitions, or a new id
            if there are none.
        existing: the partitions that must have a directory with this library's files; None if they are unknown.
        use_snapshots: whether a load may begin with a snapshot; if not, it reads the whole log.
        replication: the options for partitions whose host sets the high watermark; None for the partitions of a store
            that has no replicas.
    """

    def __init__(
        self,
        directory: LogDirectory,
        config: StoreConfig,
        *,
        writable: bool,
        topic_id: bytes | None = None,
        existing: frozenset[int] | None = None,
        use_snapshots: bool = True,
        replication: ReplicaOptions | None = None,
    ) -> None:
        self.topic_id = topic_id
        self._replication = replication
        self._use_snapshots = use_snapshots
        self._directory = directory
        self._config = config
        self._writable = writable
        self._decompressor = Decompressor(config.decompressed_bytes_max)
        self._witnesses = Witnesses(directory, existing)

    @property
    def findings(self) -> list[OffsetLogError]:
        """The faults that were found in the checkpoints of the directory, as errors that were not raised."""
        return self._witnesses.findings

    def settled_topic_id(self) -> bytes:
        """Returns the topic id for new partition directories; generates one if none is known."""
        if self.topic_id is None:
            self.topic_id = random_topic_id()
        return self.topic_id

    def missing(self, numbers: list[int]) -> dict[int, DataLossError]:
        """Returns, by number, an error for each partition that must exist but is not in `numbers`."""
        return self._witnesses.missing(numbers)

    def adopt(self, opened: list[Partition], properties: Properties | None) -> None:
        """Records the checkpoints and the partitions, so that the next open can compare them.

        All logs must be open for writing.

        Args:
            opened: the partitions.
            properties: the properties to write; None to write none.
        """
        closed = {*self._directory.partition_numbers(), *self._witnesses.existing}.difference(
            each.number for each in opened
        )
        others = self._witnesses.worked_on(closed)
        for each in opened:
            if each.read_only and each.recovery["others_worked"]:
                others[each.number] = self._witnesses.of(each.number).cleaned_by_others
        refused = [each.number for each in opened if each.recovery["log_start_refused"]]
        if refused:
            self._directory.refuse_log_starts(refused)
        if properties is not None:
            sound = (each.number for each in opened if not each.read_only)
            existing = self._witnesses.existing.union(sound)
            kept = replace(properties, existing=existing)
            self._directory.adopt_checkpoints(others, existing)
            self._directory.write_properties(kept)
            self._directory.record_properties(kept)
            self._witnesses.existing = existing

    def open_log(self, number: int, *, create: bool = False) -> Partition:
        """Opens the log of a partition, without loading it."""
        return self._open(
            number,
            create=create,
            clean=self._directory.was_clean,
            recovery_point=self._witnesses.offset_in(RECOVERY_POINTS, number),
            log_start_offset=self._witnesses.offset_in(LOG_STARTS, number),
            # If no snapshot can be used, the load reads and checks all of the log.
            goes_on_from_snapshot=self._use_snapshots,
            witness=None if create else self._witnesses.of(number),
            topic_id=self.settled_topic_id() if create else None,
            watermark=self._witnesses.offset_in(HIGH_WATERMARKS, number),
        )

    def open_log_again(self, number: int, *, watermark: int, term: int) -> Partition:
        """Opens the log of a replica that failed, or that the disk could not read, as an open after a crash would.

        Bytes that may not be on disk are written again and flushed (docs/durability.md).  The checkpoints are not
        compared with their record: this process has held the lock of the directory since it opened the log, so no other
        program has written them.

        Args:
            number: the number of the partition.
            watermark: the high watermark W that the failed partition had; -1 to use the one in the checkpoint file.
            term: the first term of the newly opened partition.  It must be above all terms of the failed partition.

        Raises:
            StorageError, CorruptionError, CapacityError: the log was not opened.  The call can be repeated.
        """
        here = (TOPIC, number)
        read = self._directory.read_checkpoint
        if watermark < 0:
            watermark = read(HIGH_WATERMARKS).get(here, -1)
        return self._open(
            number,
            recovery_point=read(RECOVERY_POINTS).get(here, -1),
            log_start_offset=read(LOG_STARTS).get(here, -1),
            witness=Witness(number in self._witnesses.existing, topic_id=self.topic_id),
            watermark=watermark,
            term=term,
        )

    def _open(self, number: int, **given: Any) -> Partition:
        replication = self._replication or ReplicaOptions()
        return Partition(
            self._directory.partition_path(number),
            number,
            self._directory.fs,
            self._decompressor,
            self._config,
            writable=self._writable,
            replicated=self._replication is not None,
            refuse_while_loading=replication.refuse_while_loading,
            clock=replication.clock,
            **given,
        )

    def open_logs(
        self, numbers: list[int], workers: int
    ) -> tuple[list[Partition], dict[int, StorageError]]:
        """Opens several logs in parallel.

        Returns:
            The opened partitions, and the errors of the logs that the disk could not read.

        Raises:
            StorageError, CorruptionError, CapacityError: a log could not be opened for another reason.  No log stays
                open.
        """
        if not numbers:
            return [], {}
        with ThreadPoolExecutor(min(len(numbers), workers), "offsetlog-open") as pool:
            jobs = {number: pool.submit(self.open_log, number) for number in numbers}
        opened: list[Partition] = []
        unreadable: dict[int, StorageError] = {}
        failures: list[BaseException] = []
        for number, job in jobs.items():
            failure = job.exception()
            if failure is None:
                opened.append(job.result())
            elif isinstance(failure, StorageError) and failure.is_unreadable:
                unreadable[number] = failure
            else:
                failures.append(failure)
        if failures:
            for partition in opened:
                partition.abandon()
            raise failures[0]
        if self.topic_id is None:
            self.topic_id = next(
                (each.topic_id for each in opened if each.topic_id is not None), None
            )
        return opened, unreadable

    def load(self, partition: Partition, threads: int = 1) -> None:
        """Loads a partition whose log is open.  If its snapshot is large, `threads` threads check the snapshot."""
        if not self._use_snapshots:
            partition.load()
            snapshots.name_keys(partition, self._directory.fs)
            return
        snapshots.load(
            partition,
            self._directory.fs,
            cleaned_to=self._cleaned_to(partition.number),
            threads=threads,
            keep=not self._writable,
        )

    def _cleaned_to(self, number: int) -> int:
        # A replica may be loaded many times, and its log may be cleaned and truncated in between.
        if self._replication is None:
            return self._witnesses.cleaned_to(number)
        try:
            return self._directory.read_checkpoint(CLEANER_POINTS).get((TOPIC, number), -1)
        except StorageError:
            return CLEANED_UNKNOWN

    def create(self, number: int) -> Partition:
        """Creates the directory of a new partition, opens its log and loads it.

        Raises:
            ReadOnlyError: the partition existed before, but its directory is missing.
        """
        if number in self._witnesses.existing:
            raise ReadOnlyError(
                "the directory of the log partition is missing; `offsetlog repair` accepts the loss",
                path=self._directory.partition_path(number),
            )
        partition = self.open_log(number, create=True)
        try:
            self.load(partition)
            self._directory.add_existing(number)
        except BaseException:
            partition.abandon()
            raise
        self._witnesses.existing = self._witnesses.existing.union({number})
        return partition
