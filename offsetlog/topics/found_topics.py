"""Finds the ordinary topics in a log directory, whichever program created them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from offsetlog.config import PARTITIONS_MAX
from offsetlog.directory import segments
from offsetlog.directory.log_directory import (
    PARTITION_METADATA,
    LogDirectory,
    parse_partition_metadata,
)
from offsetlog.errors import CorruptionError, StorageError

_log = logging.getLogger(__name__)

#: The name under which brokers keep the log of their own metadata; it is not a topic for clients.
CLUSTER_METADATA = "__cluster_metadata"
#: Suffixes of files that an open of a log removes or completes.
UNFINISHED = (".deleted", ".cleaned", ".swap", ".tmp")


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic that has partition directories.

    Attributes:
        topic_id: the id in the partition.metadata files; None if they hold no id or different ones.
        numbers: the numbers of the partitions that have directories, ascending.
        unfinished: the numbers of partitions with leftover files, which an open removes or completes.
    """

    topic_id: bytes | None
    numbers: tuple[int, ...]
    unfinished: frozenset[int] = frozenset()

    @property
    def partitions(self) -> int:
        """The number of partitions: one more than the greatest partition number found."""
        return self.numbers[-1] + 1


def find_topics(directory: LogDirectory) -> dict[str, FoundTopic]:
    """Returns the ordinary topics that have partitions in a log directory, by name.

    Two kinds of directories with the name of a partition are logged and ignored:

    * those with neither partition.metadata nor a segment; since they hold nothing to recover, they
      do not prevent a clean stop;
    * those whose partition number is too high.

    Raises:
        StorageError: the directory cannot be read.
    """
    found = {}
    for topic, every_number in directory.other_partitions().items():
        if topic == CLUSTER_METADATA:
            continue
        names = {each: directory.fs.list(directory.path / f"{topic}-{each}") for each in every_number}
        numbers = tuple(each for each in every_number if _is_partition(directory, topic, each, names[each]))
        if not numbers:
            continue
        ids = {topic_id_of(directory, topic, number) for number in numbers} - {None}
        unfinished = frozenset(
            each for each in numbers if any(name.endswith(UNFINISHED) for name in names[each])
        )
        found[topic] = FoundTopic(ids.pop() if len(ids) == 1 else None, numbers, unfinished)
    return found


def _is_partition(directory: LogDirectory, topic: str, number: int, names: list[str]) -> bool:
    path = directory.path / f"{topic}-{number}"
    if not _has_log(names):
        _log.warning(
            "%s: ignored: the directory has neither %s nor a segment; move it out of the log directory if "
            "it is not a partition",
            path, PARTITION_METADATA,
        )
        directory.recovered_elsewhere.add(path.name)
        return False
    if number >= PARTITIONS_MAX:
        _log.warning(
            "%s: ignored: partition numbers must be below %d; move it out of the log directory",
            path, PARTITIONS_MAX,
        )
        return False
    return True


def _has_log(names: list[str]) -> bool:
    return PARTITION_METADATA in names or any(map(segments.SEGMENT.fullmatch, names))


def check_place(directory: LogDirectory, topic: str, number: int) -> None:
    """Checks that an existing directory is that of a partition, so that a log may be created there.

    Raises:
        StorageError: the directory has files but neither partition.metadata nor a segment, or
            cannot be read.
    """
    path = directory.path / f"{topic}-{number}"
    if not directory.fs.exists(path):
        return
    names = directory.fs.list(path)
    # A crash during the creation of a partition leaves only the temporary file.
    if not _has_log(names) and set(names) - {f"{PARTITION_METADATA}.tmp"}:
        raise StorageError(
            f"the directory has files but neither {PARTITION_METADATA} nor a segment, so it is not a partition; "
            "move it out of the log directory",
            path=path,
        )


def topic_id_of(directory: LogDirectory, topic: str, number: int) -> bytes | None:
    """Returns the topic id in a partition's partition.metadata; None if the file or the id is missing or invalid."""
    content = directory.read_content(f"{topic}-{number}/{PARTITION_METADATA}")
    try:
        return None if content is None else parse_partition_metadata(content)
    except CorruptionError:
        return None
