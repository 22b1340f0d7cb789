"""A survey of one log with as much memory for its keys as they need: the effect of a clean, whole or not at all.

Stands below maintenance, since the executors of Spark survey logs as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from offsetlog._native.clean_survey import survey
from offsetlog._native.partition import Partition
from offsetlog.directory.segments import segment_base, segments_of
from offsetlog.errors import CapacityError, ChangedFileError, MissingFileError
from offsetlog.types import CleanShare

#: Memory for the keys of a cleaner: more than enough for what is there, and some for what was deleted.
MAP_BYTES = 64 << 20
BYTES_PER_KEY = 48
#: How much more is taken at most, and how much more the next time.
GROWTH_MAX = 16
GROWTH = 4


def map_bytes_for(partition: Partition) -> int:
    """Returns the memory with which the keys of a log fit in all likelihood.  Raises StateError."""
    return MAP_BYTES + BYTES_PER_KEY * partition.count()


def whole_survey(partition: Partition, map_bytes: int, **asked: Any) -> tuple[dict[str, Any], list[CleanShare]]:
    """Surveys a log, again with a larger map where the keys did not fit.

    Args:
        partition: loaded.
        map_bytes: memory for the keys to begin with.
        asked: as `clean_survey.survey` takes it.

    Returns:
        the report, which is complete, and the shares of all groups.

    Raises:
        CapacityError: the keys do not fit 16 times the memory that is enough in all likelihood, or there is none left.
        ChangedFileError: another process replaced or cut a file while it was read.
        StateError, StorageError.
    """
    bound = GROWTH_MAX * max(map_bytes, map_bytes_for(partition))
    while True:
        try:
            report, shares = survey(partition, map_bytes=map_bytes, **asked)
        except ChangedFileError as failure:
            reason = f"another process replaced or cut the log while it was read: {failure.message}"
            raise ChangedFileError(reason, path=failure.path or partition.path) from failure
        if report["truncated"]:
            raise ChangedFileError("the log was cut while it was read", path=partition.path)
        if report["complete"]:
            return report, shares
        if map_bytes >= bound:
            raise CapacityError(f"the keys of the log do not fit {map_bytes} bytes", path=partition.path)
        map_bytes = min(GROWTH * map_bytes, bound)


# ---------------------------------------------------------------------------------------- beside another process's work


class FileState(NamedTuple):
    """A segment's file at one moment.

    Attributes:
        base_offset: of the segment.
        size: bytes.
        identity: changes when another file takes its place: inode (0 where there is none), modification in ns.
    """

    base_offset: int
    size: int
    identity: tuple[int, int]


def states_of(directory: Path) -> list[FileState]:
    """Returns the segments of a partition directory as they are now.

    Raises:
        MissingFileError: the directory is not there, or a file went meanwhile.
        StorageError: it cannot be read.
    """
    found = []
    for segment in segments_of(directory):
        try:
            info = segment.stat()
        except FileNotFoundError as failure:
            raise MissingFileError("the segment went while it was listed", path=segment) from failure
        found.append(FileState(segment_base(segment), info.st_size, (info.st_ino, info.st_mtime_ns)))
    return found


def are_replaced(before: Sequence[FileState], after: Sequence[FileState]) -> bool:
    """Tells whether another file took the place of one, or one was cut or went: not whether the log grew."""
    now = {each.base_offset: each for each in after}
    if not before:
        return False
    *closed, last = before
    found = now.get(last.base_offset)
    is_same = found is not None and found.identity[0] == last.identity[0] and found.size >= last.size
    return not is_same or any(now.get(each.base_offset) != each for each in closed)
