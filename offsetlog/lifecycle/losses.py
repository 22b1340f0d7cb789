"""Reports the losses, possible losses and damage that an open would find, to readers that do not open a store."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from offsetlog._native.files import FileSystem
from offsetlog.directory.completeness import Completeness
from offsetlog.directory.log_directory import LOCK
from offsetlog.errors import OffsetLogError

_FLOCK = "hhqqi4x"  # struct flock


def is_being_written(path: Path) -> bool:
    """Returns whether a process of offsetlog or a broker holds the lock of a log directory.  Does not take the lock."""
    try:
        with (path / LOCK).open("rb") as file:
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            found = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked))
    except OSError:
        return False
    return bool(found[0] != fcntl.F_UNLCK)


def losses_at_open(path: str | os.PathLike[str]) -> list[OffsetLogError]:
    """Opens the logs of a log directory for reading, without loading them, and returns their problems.

    The problems are errors that were not raised.  The call changes nothing and takes no lock.  The result covers only
    log partitions that this library wrote.  It is empty while a process writes to the directory, because the files
    would then be read at different times and contradict each other.

    Args:
        path: the log directory.
    """
    directory = Path(path).absolute()
    if is_being_written(directory):
        return []
    found = Completeness(directory, FileSystem())
    numbers = found.directory.partition_numbers()
    by_partition = [each for number in numbers for each in found.problems(number)]
    return [*found.findings, *found.missing(numbers), *by_partition]
