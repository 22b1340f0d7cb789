"""The file in which a clean stop records the topics' logs, so that the next start need not open them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from offsetlog._native.files import FileSystem, format_uuid, parse_uuid
from offsetlog.directory.checked_journal import CheckedJournal
from offsetlog.errors import CorruptionError

FILE = "offsetlog-topics.json"

Key = tuple[str, int]


class StoppedLog(NamedTuple):
    """The state of a log when it was closed cleanly.

    Attributes:
        topic_id: 16 bytes.
        end: the log end offset; everything below it is on disk.
        leader_epoch: the leader epoch at the close.
    """

    topic_id: bytes
    end: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class CleanStop:
    """The logs that a stop closed cleanly.

    Attributes:
        logs: the logs by topic and partition number.
        highest_producer_id: the highest producer id in any of the logs, -1 for none.
    """

    logs: Mapping[Key, StoppedLog] = field(default_factory=dict)
    highest_producer_id: int = -1


def read_clean_stop(directory: Path, fs: FileSystem) -> CleanStop:
    """Returns the record of the last stop; an empty record if the file is missing or damaged.

    A start of the server opens every log that the record does not name.  If the file is lost, the start takes longer.

    Raises:
        StorageError: the file cannot be read.
    """
    path = directory / FILE
    if not fs.exists(path):
        return CleanStop()
    try:
        content, _ = CheckedJournal(path, fs).read()
        logs = {
            (str(topic), int(number)): StoppedLog(parse_uuid(topic_id), int(end), int(epoch))
            for topic, topic_id, partitions in content["topics"]
            for number, end, epoch in partitions
        }
        return CleanStop(logs, int(content["highest_producer_id"]))
    except (CorruptionError, ValueError, KeyError, TypeError):
        return CleanStop()


def write_clean_stop(directory: Path, fs: FileSystem, stop: CleanStop) -> None:
    """Replaces the file.

    Raises:
        StorageError: the file was not written; an outdated file of an earlier stop may remain.
    """
    topics: dict[tuple[str, bytes], list[tuple[int, int, int]]] = {}
    for (topic, number), log in stop.logs.items():
        topics.setdefault((topic, log.topic_id), []).append((number, log.end, log.leader_epoch))
    CheckedJournal(directory / FILE, fs).replace(
        {
            "highest_producer_id": stop.highest_producer_id,
            "topics": [
                [topic, format_uuid(topic_id), numbers] for (topic, topic_id), numbers in topics.items()
            ],
        }
    )
