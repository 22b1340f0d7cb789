"""All partitions of ordinary topics in a log directory: found, opened, made, deleted, closed."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from offsetlog._native.decompress import Decompressor
from offsetlog._native.topic_log import TopicLog
from offsetlog.directory.log_directory import (
    CLEANER_POINTS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    LogDirectory,
)
from offsetlog.errors import OffsetLogError, StorageError
from offsetlog.histogram import Histogram
from offsetlog.topics.compaction import Compaction, CompactionSettings
from offsetlog.topics.deletion import DeletedDirectories
from offsetlog.topics.flushing import Flushing
from offsetlog.topics.found_topics import FoundTopic
from offsetlog.topics.partition_log import PartitionLog
from offsetlog.topics.retention import DeletedFiles, Kept, delete_old_segments
from offsetlog.topics.settings import TopicLogSettings

_log = logging.getLogger(__name__)

@dataclass(frozen=True, slots=True)
class TopicOptions:
    """A topic, as its logs are opened.

    Attributes:
        topic_id: 16 bytes.
        settings: of its logs.
    """

    topic_id: bytes
    settings: TopicLogSettings


class TopicLogs:
    """The open logs of one directory.

    It belongs to one event loop, but for `write_checkpoints`, `delete_old_segments`, `compact`,
    `stop_compaction` and `close`, which may run on any thread.

    Args:
        directory: locked, and begun to be written.
        loop: on which everything else runs.
        options_of: how the logs of the topic of a name are opened; asked whenever one is opened or made.
        waits_for_disk: whether producers are answered after a flush.
        compaction: how topics are compacted.
    """

    def __init__(
        self,
        directory: LogDirectory,
        loop: asyncio.AbstractEventLoop,
        options_of: Callable[[str], TopicOptions],
        *,
        waits_for_disk: bool,
        compaction: CompactionSettings | None = None,
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
        self._partitions: dict[tuple[str, int], PartitionLog] = {}
        #: Held while the entries of logs are written to checkpoints, or taken out of them: what was
        #: asked of a log before its topic was deleted must not be written after.
        self._checkpointing = threading.Lock()

    # ---------------------------------------------------------------------------------------------- life

    async def open(self, topics: Mapping[str, FoundTopic]) -> None:
        """Opens the logs of partitions that have directories, by topic; removes what was deleted.

        A log that cannot be opened is reported, and refuses its clients; the others serve.

        Raises:
            StorageError: the log directory cannot be read.
        """
        options = {name: self._options_of(name) for name in topics}
        found = [(name, number) for name, topic in topics.items() for number in topic.numbers]
        opened = await self._loop.run_in_executor(None, self._open_all, found, options)
        for key, result in opened.items():
            partition = self.get(*key)
            if isinstance(result, TopicLog):
                partition.attach(result)
                continue
            _log.error("%s-%d: not opened: %s", *key, result)
            partition.refuse(result)
            self._directory.is_sound_elsewhere = False

    def _open_all(
        self, found: list[tuple[str, int]], options: Mapping[str, TopicOptions]
    ) -> dict[tuple[str, int], TopicLog | OffsetLogError]:
        self._deleted.remove_left()
        points = self._directory.read_checkpoint(RECOVERY_POINTS)
        starts = self._directory.read_checkpoint(LOG_STARTS)
        self._directory.recovered_elsewhere.update(f"{topic}-{number}" for topic, number in found)

        def opened(key: tuple[str, int]) -> TopicLog | OffsetLogError:
            try:
                return self._open(key, options[key[0]], points.get(key, -1), starts.get(key, -1))
            except OffsetLogError as failure:
                return failure

        with ThreadPoolExecutor(os.cpu_count() or 1, "offsetlog-topic-open") as pool:
            return dict(zip(found, pool.map(opened, found), strict=True))

    def _open(
        self, key: tuple[str, int], options: TopicOptions, recovery_point: int = -1, start: int = -1
    ) -> TopicLog:
        log = TopicLog(
            self._path(key),
            self._directory.fs,
            self._decompressor,
            options.settings,
            topic_id=options.topic_id,
            clean=self._directory.was_clean,
            recovery_point=recovery_point,
            log_start_offset=start,
        )
        if log.recovery["torn_bytes"]:
            _log.warning("%s-%d: cut %d torn bytes", *key, log.recovery["torn_bytes"])
        if not log.is_writable:
            _log.error("%s-%d: read-only: %s", *key, log.recovery["corruption"])
        return log

    def _path(self, key: tuple[str, int]) -> Path:
        return self._directory.path / f"{key[0]}-{key[1]}"

    def write_checkpoints(self) -> None:
        """Writes the recovery points, so that a start after a crash reads no more than it must."""
        with self._checkpointing:
            flushed = {key: log.flushed for key, log in self._open_logs()}
            if flushed:
                self._directory.write_entries(RECOVERY_POINTS, flushed)

    def delete_old_segments(self, now_ms: int) -> list[DeletedFiles]:
        """Deletes what the settings of topics do not keep, and returns the files that are to be removed.

        One call at a time.  What fails is reported, and tried again by the next call.

        Args:
            now_ms: the time of day, in ms since 1970.
        """
        held = [each for each in self._kept() if each[0].maintenance.acquire(blocking=False)]
        try:
            return delete_old_segments(held, self._store_starts, now_ms)
        finally:
            for partition, _, _ in held:
                partition.maintenance.release()

    def compact(self, now_ms: int) -> None:
        """Compacts what is due by the settings of topics.

        One call at a time.  What fails is reported, and tried again by the next call.

        Args:
            now_ms: the time of day, in ms since 1970.
        """
        self._compaction.compact(self._kept(), now_ms)

    def stop_compaction(self) -> None:
        """Ends a call of `compact` soon; later ones do nothing."""
        self._compaction.stop()

    def _kept(self) -> list[Kept]:
        """The partitions that have open logs, with the settings of their topics."""
        settings: dict[str, TopicLogSettings] = {}
        partitions = []
        for (topic, _), partition in list(self._partitions.items()):
            with suppress(OffsetLogError):  # it could not be opened, or was deleted
                if topic not in settings:
                    settings[topic] = self._options_of(topic).settings
                if partition.log is not None:
                    partitions.append((partition, partition.log, settings[topic]))
        return partitions

    def _store_compacted(self, partition: PartitionLog, offset: int) -> None:
        with self._checkpointing:
            key = partition.topic, partition.number
            # Not that of a topic that was deleted meanwhile.
            if self._partitions.get(key) is partition:
                self._directory.write_entries(CLEANER_POINTS, {key: offset})

    def _store_starts(self, starts: Mapping[PartitionLog, int]) -> None:
        with self._checkpointing:
            # Not those of a topic that was deleted meanwhile.
            entries = {
                (partition.topic, partition.number): start
                for partition, start in starts.items()
                if self._partitions.get((partition.topic, partition.number)) is partition
            }
            if entries:
                self._directory.write_entries(LOG_STARTS, entries)

    def close(self) -> None:
        """Flushes and closes all logs, and writes their checkpoints.  Failures are reported, not raised."""
        self._compaction.stop()
        self._flushing.close()
        self._deleted.close()
        with self._checkpointing:
            self._close_logs()

    def _close_logs(self) -> None:
        ends: dict[tuple[str, int], int] = {}
        for key, log in self._open_logs():
            was_writable = log.is_writable
            try:
                ends[key] = log.close()
            except OffsetLogError as failure:
                _log.error("%s-%d: not closed cleanly: %s", *key, failure)
                was_writable = False
            self._directory.is_sound_elsewhere &= was_writable
        self._partitions.clear()
        try:
            if ends:
                self._directory.write_entries(RECOVERY_POINTS, ends)
                self._directory.write_entries(HIGH_WATERMARKS, ends)
        except StorageError as failure:
            _log.error("checkpoints of topics were not written: %s", failure)

    # ------------------------------------------------------------------------------------- from outside

    @property
    def flush_times(self) -> Histogram:
        """How long flushes took; any thread may read it."""
        return self._flushing.times

    def unwritable(self) -> dict[tuple[str, int], str]:
        """Returns why partitions take no records, by topic and number; from any thread."""
        found = {}
        for key, partition in self._partitions.copy().items():
            try:
                log = partition.log
            except OffsetLogError as failure:
                found[key] = str(failure)
                continue
            if log is not None and not log.is_writable:
                found[key] = str(log.recovery["corruption"] or "a write or a flush failed")
        return found

    # -------------------------------------------------------------------------------------------- access

    def get(self, topic: str, number: int) -> PartitionLog:
        """A partition of a topic that is there."""
        key = (topic, number)
        partition = self._partitions.get(key)
        if partition is None:
            partition = self._partitions[key] = PartitionLog(
                topic,
                number,
                lambda: self._make(key),
                self._flushing,
                waits_for_disk=self._waits_for_disk,
            )
        return partition

    def leader_epoch(self, topic: str, number: int) -> int:
        """The epoch in which this process leads a partition."""
        partition = self._partitions.get((topic, number))
        try:
            return 0 if partition is None else partition.leader_epoch
        except OffsetLogError:
            return 0

    def highest_producer_id(self) -> int:
        """The greatest producer id in the logs that are open, -1 for none."""
        return max((log.highest_producer_id for _, log in self._open_logs()), default=-1)

    def change_settings(self, topic: str) -> None:
        """Has the open logs of a topic follow its settings, which have changed."""
        settings = self._options_of(topic).settings
        for key, log in self._open_logs():
            if key[0] != topic:
                continue
            try:
                log.change_settings(settings)
            except OffsetLogError as failure:
                _log.error("%s-%d: follows its changed settings with the next start: %s", *key, failure)

    def _make(self, key: tuple[str, int]) -> TopicLog:
        made = self._open(key, self._options_of(key[0]))
        self._directory.recovered_elsewhere.add(self._path(key).name)
        return made

    def _open_logs(self) -> list[tuple[tuple[str, int], TopicLog]]:
        found = []
        for key, partition in list(self._partitions.items()):
            with suppress(OffsetLogError):
                log = partition.log
                if log is not None:
                    found.append((key, log))
        return found

    # -------------------------------------------------------------------------------------------- delete

    def delete(self, topic: str, topic_id: bytes) -> None:
        """Deletes the logs of a topic: their directories get other names now, and are removed soon.

        Raises:
            StorageError: a directory could not be renamed; the call can be repeated.
        """
        renamed: list[Path] = []
        self._compaction.interrupt(topic)
        try:
            with self._checkpointing:
                self._rename(topic, topic_id, renamed)
        finally:
            self._deleted.remove(renamed)

    def _rename(self, topic: str, topic_id: bytes, renamed: list[Path]) -> None:
        numbers = [number for name, number in self._partitions if name == topic]
        for number in numbers:
            log = self._partitions[topic, number].detach()
            if log is not None:
                log.abandon()
            path = self._deleted.rename(topic, number, topic_id)
            if path is not None:
                renamed.append(path)
            # Not before: the call that follows a failed one must find what is left.
            del self._partitions[topic, number]
            self._directory.recovered_elsewhere.discard(f"{topic}-{number}")
        if numbers:
            self._directory.fs.flush_directory(self._directory.path)
            names = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_POINTS)
            self._directory.forget_entries(names, numbers, topic)
