"""Finds, opens, creates, deletes and closes all partitions of ordinary topics in a log directory."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

from offsetlog._native.decompress import Decompressor
from offsetlog._native.histogram import Histogram
from offsetlog._native.topic_log import RecentBatches, TopicLog
from offsetlog.directory.log_directory import (
    CLEANER_POINTS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    LogDirectory,
)
from offsetlog.errors import ClosedError, InvalidArgumentError, OffsetLogError, StorageError
from offsetlog.topics.clean_stop import CleanStop, StoppedLog, read_clean_stop, write_clean_stop
from offsetlog.topics.compaction import Compaction, CompactionSettings
from offsetlog.topics.deletion import DeletedDirectories
from offsetlog.topics.flushing import Flushing
from offsetlog.topics.found_topics import CLUSTER_METADATA, FoundTopic, check_place, topic_id_of
from offsetlog.topics.opening import Openings
from offsetlog.topics.partition_log import PartitionLog, Unopened
from offsetlog.topics.retention import DeletedFiles, Kept, delete_old_segments
from offsetlog.topics.settings import TopicLogSettings

_log = logging.getLogger(__name__)

Key = tuple[str, int]
#: The time at which each partition was last checked, in ms since 1970.
Judged = MutableMapping[PartitionLog, int]
Done = TypeVar("Done")

#: The interval at which an unused log is opened to delete segments that exceed its retention.
JUDGED_AGAIN_MS = 3_600_000
#: How long the deletion of old segments waits for another user of a log's segments; a compaction
#: takes longer.
RESERVED_WITHIN_SECONDS = 0.1
#: Flushes that run at the same time share one flush of the disk.
CLOSING_THREADS = 8


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """The options for opening the logs of a topic.

    Attributes:
        topic_id: 16 bytes.
        settings: the settings of the topic's logs.
    """

    topic_id: bytes
    settings: TopicLogSettings


class TopicLogs:
    """The logs of topics in one directory.  After a clean stop, each log is opened at its first use.

    Call the methods on one event loop, except `write_checkpoints`, `delete_old_segments`, `compact`, `stop_compaction`,
    `close`, and those that allow any thread.

    Args:
        directory: the log directory, already locked and marked as being written.
        loop: the event loop on which the methods are called, with the exceptions above.
        options_of: returns a topic's options by its name; called whenever a log is opened or created.
        waits_for_disk: whether producers are answered only after a flush.
        compaction: the settings of the compaction.
        open_logs_max: number of open logs above which unused ones are closed.
        decompressed_bytes_max: limit for decompressing one batch to find a record by its time, in bytes.
    """

    def __init__(
        self,
        directory: LogDirectory,
        loop: asyncio.AbstractEventLoop,
        options_of: Callable[[str], TopicOptions],
        *,
        waits_for_disk: bool,
        compaction: CompactionSettings | None = None,
        open_logs_max: int = 1 << 20,
        decompressed_bytes_max: int = TopicLogSettings().decompressed_bytes_max,
    ) -> None:
        self._directory = directory
        self._loop = loop
        self._options_of = options_of
        self._waits_for_disk = waits_for_disk
        self._decompressor = Decompressor(decompressed_bytes_max)
        self._flushing = Flushing(loop)
        self._deleted = DeletedDirectories(directory)
        self._compaction = Compaction(
            compaction or CompactionSettings(),
            lambda: directory.read_checkpoint(CLEANER_POINTS),
            self._store_compacted,
        )
        self._partitions: dict[Key, PartitionLog] = {}
        self._openings = Openings(
            loop, self._open_partition, self._close, self._follow_settings, open_logs_max
        )
        self._deleting: set[str] = set()
        self._known_producer_id = -1
        self._counting = threading.Lock()
        #: When logs that are not open were last checked for retention and for compaction, in ms
        #: since 1970.
        self._swept: Judged = WeakKeyDictionary()
        self._compacted: Judged = WeakKeyDictionary()
        #: Held while entries of logs are written to checkpoints or removed from them: an entry that
        #: was read before the deletion of a topic must not be written after it.
        self._checkpointing = threading.Lock()

    # ---------------------------------------------------------------------------------------------- life

    async def open(self, topics: Mapping[str, FoundTopic]) -> None:
        """Opens the logs of the found topics that need recovery, and removes the directories of deleted partitions.

        A log that the last stop closed cleanly is opened at its first use, and every other log is opened now.  If a log
        cannot be opened, the error is logged, and requests for its partition are refused.  The other logs are served.

        Raises:
            StorageError: the log directory cannot be read.
        """
        options = {name: self._options_of(name) for name in topics}
        found = [(name, number) for name, topic in topics.items() for number in topic.numbers]
        unfinished = {(name, number) for name, topic in topics.items() for number in topic.unfinished}
        opened = await self._loop.run_in_executor(None, self._open_found, found, options, unfinished)
        for key, result in opened.items():
            if isinstance(result, Unopened):
                self._partitions[key] = self._new(key, result)
                continue
            partition = self.get(*key)
            partition.has_directory = True
            if isinstance(result, TopicLog):
                self._openings.attach(partition, result)
                continue
            _log.error("%s-%d: the log could not be opened: %s", *key, result)
            partition.refuse(result)

    def _open_found(
        self, found: list[Key], options: Mapping[str, TopicOptions], unfinished: set[Key]
    ) -> dict[Key, TopicLog | Unopened | OffsetLogError]:
        self._deleted.remove_left()
        directory = self._directory
        points = directory.read_checkpoint(RECOVERY_POINTS)
        starts = directory.read_checkpoint(LOG_STARTS)
        directory.recovered_elsewhere.update(f"{topic}-{number}" for topic, number in found)
        stop = CleanStop()
        if directory.was_clean:
            stop = read_clean_stop(directory.path, directory.fs)
        self._known_producer_id = stop.highest_producer_id

        numbers, most = itertools.count(), self._openings.open_logs_max

        def opened(key: Key) -> TopicLog | Unopened | OffsetLogError:
            unopened = Unopened(points.get(key, -1), starts.get(key, -1), 0, directory.was_clean)
            stopped = None if key in unfinished else stop.logs.get(key)
            topic_id = options[key[0]].topic_id
            # If a broker has appended since then, it has changed the checkpoint.
            if stopped is not None and (stopped.topic_id, stopped.end) == (topic_id, unopened.recovery_point):
                return unopened._replace(leader_epoch=stopped.leader_epoch)
            try:
                log = self._open(key, options[key[0]], unopened)
                # A log that was opened only for recovery need not stay open.
                return log if next(numbers) < most or not log.is_writable else self._close(log)
            except OffsetLogError as failure:
                return failure

        with ThreadPoolExecutor(os.cpu_count() or 1, "offsetlog-topic-open") as pool:
            return dict(zip(found, pool.map(opened, found), strict=True))

    def _open(self, key: Key, options: TopicOptions, unopened: Unopened) -> TopicLog:
        log = TopicLog(
            self._path(key),
            self._directory.fs,
            self._decompressor,
            options.settings,
            topic_id=options.topic_id,
            clean=unopened.is_clean,
            recovery_point=unopened.recovery_point,
            log_start_offset=unopened.start,
        )
        if unopened.recent is not None:
            log.swap_recent_batches(unopened.recent)
        if log.recovery["torn_bytes"]:
            _log.warning("%s-%d: truncated %d bytes of a torn tail", *key, log.recovery["torn_bytes"])
        if not log.is_writable:
            _log.error("%s-%d: the log is read-only: %s", *key, log.recovery["corruption"])
        return log

    def _open_partition(self, partition: PartitionLog, unopened: Unopened | None) -> TopicLog:
        # Runs on a thread; see OpenLog.
        key = (partition.topic, partition.number)
        options = self._options_of(partition.topic)
        if unopened is None:
            check_place(self._directory, *key)
        log = self._open(key, options, unopened or Unopened(-1, -1, 0, self._directory.was_clean))
        if unopened is None:
            self._directory.recovered_elsewhere.add(self._path(key).name)
        return log

    def _path(self, key: tuple[str, int]) -> Path:
        return self._directory.path / f"{key[0]}-{key[1]}"

    def write_checkpoints(self) -> None:
        """Writes the recovery points, so that a start after a crash reads as little as possible."""
        with self._checkpointing:
            flushed = {
                key: unopened.recovery_point
                for key, partition in list(self._partitions.items())
                if (unopened := partition.unopened) is not None and unopened.is_clean
            }
            for key, log in self._open_logs():
                with suppress(ClosedError):
                    flushed[key] = log.flushed
            if flushed:
                self._directory.write_entries(RECOVERY_POINTS, flushed)

    def delete_old_segments(self, now_ms: int) -> list[DeletedFiles]:
        """Deletes segments that exceed their topic's retention, and returns the files to remove later.

        Call this on a thread other than the event loop's, one call at a time; the event loop must
        be running.  A log that is not open is opened and checked once an hour.  Failures are
        logged, and a later call tries again.

        Args:
            now_ms: the time of day, in ms since 1970.
        """
        partitions = list(self._partitions.values())
        deleted = self._delete_old_segments(partitions, now_ms)
        for partition in self._unopened_due(partitions, self._swept, now_ms):
            with suppress(OffsetLogError):  # the topic was deleted
                # A log that is not opened here has nothing to delete.  There may be very many such
                # logs.
                if self._settings_of(partition.topic).deletes_anything:
                    work = partial(self._delete_old_segments, [partition], now_ms)
                    deleted += self._run_opened(partition, work)
        return deleted

    def _delete_old_segments(self, partitions: Iterable[PartitionLog], now_ms: int) -> list[DeletedFiles]:
        reserved = [each for each in partitions if each.reserve(RESERVED_WITHIN_SECONDS) is not None]
        try:
            return delete_old_segments(self._kept(reserved), self._store_starts, now_ms)
        finally:
            for partition in reserved:
                partition.release()

    def compact(self, now_ms: Callable[[], int]) -> None:
        """Compacts the logs that are due according to their topics' settings.

        Call this on a thread other than the event loop's, one call at a time; the event loop must
        be running.  A log that is not open is opened and checked once an hour.  Failures are
        logged, and a later call tries again.

        Args:
            now_ms: returns the time of day, in ms since 1970.
        """
        partitions = list(self._partitions.values())
        self._compaction.compact(partitions, self._settings_of, now_ms)
        checkpoints = self._compaction.read_checkpoints()
        for partition in self._unopened_due(partitions, self._compacted, now_ms()):
            with suppress(OffsetLogError):  # the topic was deleted
                if self._settings_of(partition.topic).compacts:
                    given = [partition], self._settings_of, now_ms, checkpoints
                    self._run_opened(partition, partial(self._compaction.compact, *given))

    def _settings_of(self, topic: str) -> TopicLogSettings:
        return self._options_of(topic).settings

    def stop_compaction(self) -> None:
        """Interrupts a running `compact`; later calls do nothing."""
        self._compaction.stop()

    def _unopened_due(
        self, partitions: Iterable[PartitionLog], judged: Judged, now_ms: int
    ) -> Iterator[PartitionLog]:
        for partition in partitions:
            # The clock may have been set back.
            is_due = abs(now_ms - judged.get(partition, -JUDGED_AGAIN_MS)) >= JUDGED_AGAIN_MS
            if partition.unopened is not None and is_due and not self._openings.is_stopped:
                judged[partition] = now_ms
                yield partition

    def _run_opened(self, partition: PartitionLog, work: Callable[[], Done]) -> Done:
        return asyncio.run_coroutine_threadsafe(self._while_open(partition, work), self._loop).result()

    async def _while_open(self, partition: PartitionLog, work: Callable[[], Done]) -> Done:
        async with self.use((partition,), makes=False):
            done = await self._loop.run_in_executor(None, work)
        self._openings.close_unused(partition)
        return done

    def _kept(self, partitions: Iterable[PartitionLog]) -> list[Kept]:
        # Returns the partitions that have open logs.
        settings: dict[str, TopicLogSettings] = {}
        kept = []
        for partition in partitions:
            with suppress(OffsetLogError):  # the log could not be opened, or was deleted
                if partition.topic not in settings:
                    settings[partition.topic] = self._options_of(partition.topic).settings
                if partition.log is not None:
                    kept.append((partition, partition.log, settings[partition.topic]))
        return kept

    def _store_compacted(self, partition: PartitionLog, offset: int) -> None:
        with self._checkpointing:
            key = partition.topic, partition.number
            # Skips a topic that was deleted in the meantime.
            if self._partitions.get(key) is partition:
                self._directory.write_entries(CLEANER_POINTS, {key: offset})

    def _store_starts(self, starts: Mapping[PartitionLog, int]) -> None:
        with self._checkpointing:
            # Skips topics that were deleted in the meantime.
            entries = {
                (partition.topic, partition.number): start
                for partition, start in starts.items()
                if self._partitions.get((partition.topic, partition.number)) is partition
            }
            if entries:
                self._directory.write_entries(LOG_STARTS, entries)

    async def stop(self) -> None:
        """Opens no more logs, and waits until none is being opened; call this before `close`."""
        await self._openings.stop()

    def close(self) -> None:
        """Flushes and closes all logs, and writes their checkpoints.  Failures are logged, not raised."""
        self._compaction.stop()
        self._flushing.close()
        self._deleted.close()
        with self._checkpointing:
            self._close_logs()

    def _close_logs(self) -> None:
        with ThreadPoolExecutor(CLOSING_THREADS, "offsetlog-topic-close") as pool:
            closed = pool.map(self._close_log, self._partitions, self._partitions.values())
            stopped = {key: log for key, log in zip(self._partitions, closed, strict=True) if log}
        self._partitions.clear()
        ends = {key: log.end for key, log in stopped.items()}
        try:
            if ends:
                self._directory.write_entries(RECOVERY_POINTS, ends)
                self._directory.write_entries(HIGH_WATERMARKS, ends)
            write_clean_stop(self._directory.path, self._directory.fs, CleanStop(stopped, self._known_producer_id))
        except StorageError as failure:
            _log.error("checkpoints of topics could not be written: %s", failure)

    def _close_log(self, key: Key, partition: PartitionLog) -> StoppedLog | None:
        # Returns None if there is no log, or if it is not clean.
        if partition.is_unsound:
            # The log could not be opened, created or closed, and that was logged.
            if partition.unopened is not None or self._path(key).exists():
                self._directory.is_sound_elsewhere = False
            return None
        unopened, log = partition.unopened, partition.log
        if log is not None:
            unopened = self._close_opened(key, log)
        if unopened is None:
            return None
        if not unopened.is_clean:
            self._directory.is_sound_elsewhere = False
            return None
        topic_id = self._options_of(key[0]).topic_id
        return StoppedLog(topic_id, unopened.recovery_point, unopened.leader_epoch)

    def _close_opened(self, key: Key, log: TopicLog) -> Unopened:
        try:
            is_clean, closed = log.is_writable, self._close(log)
        except OffsetLogError as failure:
            _log.error("%s-%d: the log was not closed cleanly: %s", *key, failure)
            return Unopened(-1, -1, 0, is_clean=False)
        return closed._replace(is_clean=is_clean)

    def _close(self, log: TopicLog) -> Unopened:
        start, epoch, producer_id = log.start, log.leader_epoch, log.highest_producer_id
        recent = RecentBatches()
        log.swap_recent_batches(recent)
        end = log.close()
        with self._counting:
            self._known_producer_id = max(self._known_producer_id, producer_id)
        return Unopened(end, start, epoch, is_clean=True, recent=recent)

    # ------------------------------------------------------------------------------------- from outside

    @property
    def flush_times(self) -> Histogram:
        """Durations of flushes; any thread may read it."""
        return self._flushing.times

    @property
    def open_count(self) -> int:
        """Number of open logs; any thread may read it."""
        return self._openings.count

    def unwritable(self) -> dict[tuple[str, int], str]:
        """Returns why partitions accept no records, by topic and partition number.  Any thread may call this."""
        found = {}
        for key, partition in self._partitions.copy().items():
            try:
                log = partition.log
                if log is not None and not log.is_writable:
                    found[key] = str(log.recovery["corruption"] or "a write or a flush failed")
            except ClosedError:
                continue
            except OffsetLogError as failure:
                found[key] = str(failure)
        return found

    # -------------------------------------------------------------------------------------------- access

    def get(self, topic: str, number: int) -> PartitionLog:
        """Returns a partition of an existing topic.

        Raises:
            InvalidArgumentError: the topic is the log of the brokers' own metadata.
        """
        if topic == CLUSTER_METADATA:
            raise InvalidArgumentError(f"{topic} is the log of the brokers' own metadata, not a topic")
        key = (topic, number)
        partition = self._partitions.get(key)
        if partition is not None:
            return partition
        partition = self._new(key)
        if topic in self._deleting:
            partition.detach()
        else:
            self._partitions[key] = partition
        return partition

    def _new(self, key: Key, unopened: Unopened | None = None) -> PartitionLog:
        return PartitionLog(
            *key, self._flushing, waits_for_disk=self._waits_for_disk, unopened=unopened
        )

    def use(
        self, partitions: Collection[PartitionLog], *, makes: bool
    ) -> AbstractAsyncContextManager[None]:
        """Opens logs and keeps them open; see Openings.use."""
        return self._openings.use(partitions, makes=makes)

    def leader_epoch(self, topic: str, number: int) -> int:
        """Returns the epoch in which this process leads a partition."""
        partition = self._partitions.get((topic, number))
        try:
            return 0 if partition is None else partition.leader_epoch
        except OffsetLogError:
            return 0

    def highest_producer_id(self) -> int:
        """The highest producer id in the logs, -1 for none."""
        found = [log.highest_producer_id for _, log in self._open_logs()]
        self._known_producer_id = max(self._known_producer_id, *found, -1)
        return self._known_producer_id

    def change_settings(self, topic: str) -> None:
        """Applies the changed settings of a topic to its open logs."""
        self._openings.settings_have_changed()
        for key, log in self._open_logs():
            if key[0] == topic:
                self._follow_settings(self._partitions[key], log)

    def _follow_settings(self, partition: PartitionLog, log: TopicLog) -> None:
        try:
            log.change_settings(self._settings_of(partition.topic))
        except ClosedError:
            pass  # the topic was deleted
        except OffsetLogError as failure:
            place = f"{partition.topic}-{partition.number}"
            _log.error("%s: cannot apply the changed settings before the next start: %s", place, failure)

    def _open_logs(self) -> list[tuple[tuple[str, int], TopicLog]]:
        found = []
        for key, partition in list(self._partitions.items()):
            with suppress(OffsetLogError):
                log = partition.log
                if log is not None:
                    found.append((key, log))
        return found

    # -------------------------------------------------------------------------------------------- delete

    @asynccontextmanager
    async def deleted(self, topic: str, topic_id: bytes) -> AsyncIterator[None]:
        """Deletes the logs of a topic: renames their directories now, and removes them afterwards.

        Within the context, the topic accepts no records, so that its metadata can be removed.

        Raises:
            StorageError: a directory could not be renamed; the call can be repeated.
        """
        self._deleting.add(topic)
        partitions = {key: each for key, each in list(self._partitions.items()) if key[0] == topic}
        try:
            for partition in partitions.values():
                partition.begin_delete()
            # The interrupt comes after `begin_delete`, so that no other log of the topic is
            # compacted from then on.
            self._compaction.interrupt(topic)
            await self._openings.settle(partitions.values())
            logs = {key[1]: each.detach() for key, each in partitions.items()}
            try:
                await self._loop.run_in_executor(None, self._delete_files, topic, topic_id, logs)
            finally:
                for key, partition in partitions.items():
                    if key in self._partitions:
                        partition.restore()
            yield
        finally:
            self._deleting.discard(topic)

    def _delete_files(self, topic: str, topic_id: bytes, logs: Mapping[int, TopicLog | None]) -> None:
        renamed: list[Path] = []
        # This waits for a running compaction; the lock is not taken yet, so that other logs can
        # write their checkpoints.
        for log in logs.values():
            if log is not None:
                log.abandon()
        try:
            with self._checkpointing:
                self._rename(topic, topic_id, tuple(logs), renamed)
        finally:
            self._deleted.remove(renamed)

    def _rename(
        self, topic: str, topic_id: bytes, numbers: Collection[int], renamed: list[Path]
    ) -> None:
        for number in numbers:
            if self._is_own(topic, number, topic_id):
                path = self._deleted.rename(topic, number, topic_id)
                if path is not None:
                    renamed.append(path)
            # The partition is removed only now.  If a call fails, the next call then finds the
            # partitions that are left.
            del self._partitions[topic, number]
            self._directory.recovered_elsewhere.discard(f"{topic}-{number}")
        if numbers:
            self._directory.fs.flush_directory(self._directory.path)
            names = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_POINTS)
            self._directory.forget_entries(names, numbers, topic)

    def _is_own(self, topic: str, number: int, topic_id: bytes) -> bool:
        # Returns whether a partition's directory is deleted with its topic.  The log in it may not
        # have been opened completely, but a directory without anything of this topic may belong to
        # something else.
        own = self._partitions[topic, number].has_directory
        return own or topic_id_of(self._directory, topic, number) == topic_id
