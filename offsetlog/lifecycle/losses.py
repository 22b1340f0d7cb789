"""What an open would report as missing, in doubt or damaged, for those who read a directory without opening a store."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from offsetlog._native.files import FileSystem
from offsetlog.config import StoreConfig
from offsetlog.directory.log_directory import LOCK, MANIFEST, LogDirectory
from offsetlog.errors import CorruptionError, OffsetLogError
from offsetlog.lifecycle.partition_opener import PartitionOpener

_FLOCK = "hhqqi4x"  # struct flock


def is_being_written(path: Path) -> bool:
    """Tells whether a process holds the lock of a log directory, one of ours or a broker; takes none."""
    try:
        with (path / LOCK).open("rb") as file:
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            found = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked))
    except OSError:
        return False
    return bool(found[0] != fcntl.F_UNLCK)


def losses_at_open(path: str | os.PathLike[str]) -> list[OffsetLogError]:
    """Opens the logs of a log directory for reading, without loading them, and returns what is wrong with them.

    As errors that were not raised; nothing is changed, and no lock is taken.  Looked at are log partitions that this
    library wrote, in a directory that nobody writes to now: beside a writer files and witnesses are of two moments.

    Args:
        path: the log directory.
    """
    directory = LogDirectory(Path(path).absolute(), FileSystem())
    if is_being_written(directory.path):
        return []
    found: list[OffsetLogError] = []
    existing = None
    try:
        properties = directory.read_properties()
        existing = None if properties is None else properties.existing
    except CorruptionError as failure:
        found.append(failure)
    numbers = directory.partition_numbers()
    opener = PartitionOpener(directory, StoreConfig(), writable=False, existing=existing)
    found += opener.missing(numbers).values()
    for number in numbers:
        if number in (existing or ()) or (directory.partition_path(number) / MANIFEST).exists():
            found += _problems_of(opener, number)
    return found


def _problems_of(opener: PartitionOpener, number: int) -> list[OffsetLogError]:
    try:
        partition = opener.open_log(number)
    except OffsetLogError as failure:
        return [failure]
    try:
        return partition.problems()
    finally:
        partition.abandon()
