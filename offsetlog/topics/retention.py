"""Deletes segments that exceed a topic's retention, the oldest first (docs/format/topics.md §17.6)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from offsetlog._native.files import FileSystem
from offsetlog._native.topic_log import TopicLog
from offsetlog.errors import ClosedError, OffsetLogError
from offsetlog.topics.partition_log import PartitionLog
from offsetlog.topics.settings import TopicLogSettings

_log = logging.getLogger(__name__)

#: The suffix of a file that belonged to a deleted segment.
DELETED = ".deleted"


class DeletedFiles(NamedTuple):
    """Files of deleted segments that are to be removed.

    Attributes:
        directory: the directory of the partition.
        names: the names of the files in this directory.
        delay_ms: time before the files are removed.
    """

    directory: Path
    names: tuple[str, ...]
    delay_ms: int

    def remove(self, fs: FileSystem) -> None:
        """Removes the files that still exist; if a removal fails, the next sweep or start repeats it."""
        for name in self.names:
            try:
                if fs.exists(self.directory / name):
                    fs.remove(self.directory / name)
            except OffsetLogError as failure:
                _log.warning("%s: cannot remove this deleted file yet: %s", self.directory / name, failure)


Kept = tuple[PartitionLog, TopicLog, TopicLogSettings]


def delete_old_segments(
    partitions: Iterable[Kept], store_starts: Callable[[Mapping[PartitionLog, int]], None], now_ms: int
) -> list[DeletedFiles]:
    """Takes old segments out of the log, and returns their files, to be removed later.  Any thread may call this.

    Args:
        partitions: the partitions, with their open logs and settings.
        store_starts: makes the new log start offsets durable before anything below them is deleted.
        now_ms: the time of day, in ms since 1970.
    """
    starts: dict[PartitionLog, int] = {}
    judged = []
    for partition, log, settings in partitions:
        try:
            start, before = _retained_from(partition, log, settings, now_ms), log.start
        except ClosedError:
            continue  # the topic was deleted
        except OffsetLogError as failure:
            _report(partition, failure)
            continue
        if start > before:
            starts[partition] = start
        if start > 0:
            judged.append((partition, log, settings, start))
    try:
        store_starts(starts)
    except OffsetLogError as failure:
        _log.error("cannot write log start offsets, so no old segments are deleted: %s", failure)
        return []
    found = (_delete_below(*each) for each in judged)
    return [each for each in found if each.names]


def _retained_from(partition: PartitionLog, log: TopicLog, settings: TopicLogSettings, now_ms: int) -> int:
    # A log that accepts no writes does not lose records either.
    if not log.is_writable:
        return 0
    return log.retained_from(
        now_ms=now_ms,
        retention_ms=settings.retention_ms if settings.deletes else -1,
        retention_bytes=settings.retention_bytes if settings.deletes else -1,
        below=partition.watermark_of(log),
    )


def _delete_below(
    partition: PartitionLog, log: TopicLog, settings: TopicLogSettings, start: int
) -> DeletedFiles:
    directory = Path(log.path)
    try:
        before = log.start
        log.delete_below(start)
        if start > before:
            _log.info("%s-%d: deleted the records below offset %d", partition.topic, partition.number, start)
    except ClosedError:
        return DeletedFiles(directory, (), 0)
    except OffsetLogError as failure:
        _report(partition, failure)
    try:
        names = tuple(each.name for each in directory.iterdir() if each.name.endswith(DELETED))
    except OSError:
        names = ()  # the topic was deleted
    return DeletedFiles(directory, names, settings.file_delete_delay_ms)


def _report(partition: PartitionLog, failure: OffsetLogError) -> None:
    _log.error(
        "%s-%d: cannot delete old segments: %s", partition.topic, partition.number, failure,
        extra={"topic": partition.topic, "number": partition.number},
    )
