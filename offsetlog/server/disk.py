"""The disk of the log directory: its free space, and whether it can be written to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Disk(NamedTuple):
    """The file system of a directory.

    Attributes:
        free_bytes: space left to a user without privileges.
        is_read_only: whether the file system is read-only, by its mount or because the kernel made
            it so after an error.
    """

    free_bytes: int
    is_read_only: bool


def disk_of(path: Path) -> Disk:
    """Reads the state of a file system; may block.  Any thread may call this.

    Raises:
        OSError: the directory does not exist, or its device does not answer.
    """
    found = os.statvfs(path)
    return Disk(found.f_bavail * found.f_frsize, bool(found.f_flag & os.ST_RDONLY))


def why_unwritable(path: Path) -> str | None:
    """Returns why a directory cannot be written to, or None if its file system says it can."""
    try:
        disk = disk_of(path)
    except OSError as failure:
        return f"cannot read the log directory {path}: {failure.strerror}; check its disk"
    if disk.is_read_only:
        return (
            f"the file system of {path} is read-only: no commit can be written; "
            "check its disk and mount it for writing"
        )
    return None


def why_short(path: Path, reserve_bytes: int) -> str | None:
    """Returns why a disk has too little free space; None if it has `reserve_bytes`, or if it cannot be read."""
    try:
        free = disk_of(path).free_bytes
    except OSError:
        return None
    if free >= reserve_bytes:
        return None
    return (
        f"the disk of {path} has {free} bytes left, less than the reserve of {reserve_bytes} "
        "(disk.reserve.bytes); free some space before writes fail"
    )
