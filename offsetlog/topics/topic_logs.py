"""All partitions of ordinary topics in a log directory: found, opened, made, deleted, closed."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from offsetlog._native.decompress import Decompressor
from offsetlog._native.files import parse_directory_name
from offsetlog._native.topic_log import TopicLog
from offsetlog.directory.log_directory import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    LogDirectory,
    parse_partition_metadata,
)
from offsetlog.errors import CorruptionError, OffsetLogError, StorageError
from offsetlog.topics.flushing import Flushing
from offsetlog.topics.partition_log import PartitionLog
from offsetlog.topics.settings import TopicLogSettings

_log = logging.getLogger(__name__)

#: Brokers keep the log of their own metadata so; it is no topic of clients.
CLUSTER_METADATA = "__cluster_metadata"
DELETED = "-delete"


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic that has partition directories.

    Attributes:
        topic_id: of its partition.metadata files; None where they have none, or disagree.
        partitions: one more than the greatest number.
    """

    topic_id: bytes | None
    partitions: int


def find_topics(directory: LogDirectory) -> dict[str, FoundTopic]:
    """Returns the ordinary topics whose partitions lie in a log directory, by name.

    Raises:
        StorageError: the directory cannot be read.
    """
    found = {}
    for topic, numbers in directory.other_partitions().items():
        if topic == CLUSTER_METADATA:
            continue
        ids = {_topic_id(directory, topic, number) for number in numbers} - {None}
        found[topic] = FoundTopic(ids.pop() if len(ids) == 1 else None, numbers[-1] + 1)
    return found


def _topic_id(directory: LogDirectory, topic: str, number: int) -> bytes | None:
    content = directory.read_content(f"{topic}-{number}/{PARTITION_METADATA}")
    try:
        return None if content is None else parse_partition_metadata(content)
    except CorruptionError:
        return None


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
    """The open logs of one directory.  It belongs to one event loop, but for `close`.

    Args:
        directory: locked, and begun to be written.
        loop: on which everything else runs.
        waits_for_disk: whether producers are answered after a flush.
    """

    def __init__(
        self,
        directory: LogDirectory,
        loop: asyncio.AbstractEventLoop,
        *,
        waits_for_disk: bool,
        decompressed_bytes_max: int = TopicLogSettings().decompressed_bytes_max,
    ) -> None:
        self._directory = directory
        self._loop = loop
        self._waits_for_disk = waits_for_disk
        self._decompressor = Decompressor(decompressed_bytes_max)
        self._flushing = Flushing(loop)
        self._partitions: dict[tuple[str, int], PartitionLog] = {}

    # ---------------------------------------------------------------------------------------------- life

    async def open(self, topics: Mapping[str, TopicOptions]) -> None:
        """Opens the logs of all partitions that have directories, and removes what was deleted.

        A log that cannot be opened is reported, and refuses its clients; the others serve.

        Raises:
            StorageError: the log directory cannot be read.
        """
        opened = await self._loop.run_in_executor(None, self._open_all, topics)
        for key, result in opened.items():
            partition = self.get(*key, topics[key[0]])
            if isinstance(result, TopicLog):
                partition.attach(result)
                continue
            _log.error("%s-%d: not opened: %s", *key, result)
            partition.refuse(result)
            self._directory.is_sound_elsewhere = False

    def _open_all(
        self, topics: Mapping[str, TopicOptions]
    ) -> dict[tuple[str, int], TopicLog | OffsetLogError]:
        self.remove_deleted()
        points = self._directory.read_checkpoint(RECOVERY_POINTS)
        starts = self._directory.read_checkpoint(LOG_STARTS)
        found = [
            (topic, number)
            for topic, numbers in self._directory.other_partitions().items()
            for number in numbers
            if topic in topics
        ]
        self._directory.recovered_elsewhere.update(f"{topic}-{number}" for topic, number in found)

        def opened(key: tuple[str, int]) -> TopicLog | OffsetLogError:
            try:
                return self._open(key, topics[key[0]], points.get(key, -1), starts.get(key, -1))
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
        flushed = {key: log.flushed for key, log in self._open_logs()}
        if flushed:
            self._directory.write_entries(RECOVERY_POINTS, flushed)

    def close(self) -> None:
        """Flushes and closes all logs, and writes their checkpoints.  Failures are reported, not raised."""
        self._flushing.close()
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

    # -------------------------------------------------------------------------------------------- access

    def get(self, topic: str, number: int, options: TopicOptions) -> PartitionLog:
        """A partition of a topic that is there."""
        key = (topic, number)
        partition = self._partitions.get(key)
        if partition is None:
            partition = self._partitions[key] = PartitionLog(
                topic,
                number,
                lambda: self._make(key, options),
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

    def _make(self, key: tuple[str, int], options: TopicOptions) -> TopicLog:
        made = self._open(key, options)
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
        """Deletes the logs of a topic: their directories get other names now, and go with `remove_deleted`.

        Raises:
            StorageError: a directory could not be renamed; the call can be repeated.
        """
        keys = [key for key in self._partitions if key[0] == topic]
        for key in keys:
            log = self._partitions.pop(key).detach()
            if log is not None:
                log.abandon()
            path = self._path(key)
            if self._directory.fs.exists(path):
                self._directory.fs.rename(path, self._deleted_path(key, topic_id))
            self._directory.recovered_elsewhere.discard(path.name)
        if keys:
            self._directory.fs.flush_directory(self._directory.path)
            numbers = [number for _, number in keys]
            names = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)
            self._directory.forget_entries(names, numbers, topic)

    def _deleted_path(self, key: tuple[str, int], topic_id: bytes) -> Path:
        # As Kafka names them: the topic is shortened, so that the name stays one of a file.
        suffix = f"-{key[1]}.{topic_id.hex()}{DELETED}"
        return self._directory.path / (key[0][: 255 - len(suffix)] + suffix)

    def remove_deleted(self) -> None:
        """Removes the directories of deleted partitions; what cannot be removed stays for the next start."""
        for name in self._directory.fs.list(self._directory.path):
            parsed = parse_directory_name(name)
            if parsed is None or not name.endswith(DELETED) or parsed[2] == 0:
                continue
            shutil.rmtree(self._directory.path / name, ignore_errors=True)
