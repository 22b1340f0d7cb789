"""Surveys one log with enough memory for all its keys: computes the complete effect of a clean, or raises an error.

This module does not need the maintenance of a store, so that Spark's executors can use it.
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

#: Memory for the keys of a cleaner: more than enough for the live ones, and some for deleted ones.
MAP_BYTES = 64 << 20
BYTES_PER_KEY = 48
#: The largest factor by which the memory may grow, and the factor of each attempt.
GROWTH_MAX = 16
GROWTH = 4


def map_bytes_for(partition: Partition) -> int:
    """Returns the bytes of memory in which the keys of a log almost certainly fit.  Raises StateError."""
    return MAP_BYTES + BYTES_PER_KEY * partition.count()


def whole_survey(partition: Partition, map_bytes: int, **asked: Any) -> tuple[dict[str, Any], list[CleanShare]]:
    """Surveys a log; if the keys do not fit in the map, surveys it again with a larger map.

    Args:
        partition: a loaded partition.
        map_bytes: the size of the map of keys in the first attempt, in bytes.
        asked: the other arguments of `clean_survey.survey`.

    Returns:
        The report, which is complete, and the shares of all groups.

    Raises:
        CapacityError: the keys do not fit in 16 times the memory that should be enough, or memory ran out.
        ChangedFileError: another process replaced or truncated a file while it was read.
        StateError, StorageError.
    """
    bound = GROWTH_MAX * max(map_bytes, map_bytes_for(partition))
    while True:
        try:
            report, shares = survey(partition, map_bytes=map_bytes, **asked)
        except ChangedFileError as failure:
            reason = f"another process replaced or truncated the log while it was read: {failure.message}"
            raise ChangedFileError(reason, path=failure.path or partition.path) from failure
        if report["truncated"]:
            raise ChangedFileError("the log was truncated while it was read", path=partition.path)
        if report["complete"]:
            return report, shares
        if map_bytes >= bound:
            raise CapacityError(f"the keys of the log do not fit in {map_bytes} bytes", path=partition.path)
        map_bytes = min(GROWTH * map_bytes, bound)


# --------------------------------------------------------------------- while another process works on the log


class FileState(NamedTuple):
    """A segment's file at one moment.

    Attributes:
        base_offset: the segment's base offset.
        size: the size of the file in bytes.
        identity: the inode of the file (0 if unknown) and its modification time in ns.  They change if another file
            replaces the file.
    """

    base_offset: int
    size: int
    identity: tuple[int, int]


def states_of(directory: Path) -> list[FileState]:
    """Returns the present segments of a partition directory.

    Raises:
        MissingFileError: the directory does not exist, or a file disappeared meanwhile.
        StorageError: the directory cannot be read.
    """
    found = []
    for segment in segments_of(directory):
        try:
            info = segment.stat()
        except FileNotFoundError as failure:
            raise MissingFileError("the segment disappeared while the directory was listed", path=segment) from failure
        found.append(FileState(segment_base(segment), info.st_size, (info.st_ino, info.st_mtime_ns)))
    return found


def are_replaced(before: Sequence[FileState], after: Sequence[FileState]) -> bool:
    """Returns whether a file was replaced, truncated or deleted; growth of the log does not count."""
    now = {each.base_offset: each for each in after}
    if not before:
        return False
    *closed, last = before
    found = now.get(last.base_offset)
    is_same = found is not None and found.identity[0] == last.identity[0] and found.size >= last.size
    return not is_same or any(now.get(each.base_offset) != each for each in closed)
