"""Finds free names for files that are kept as evidence, so that no such file overwrites an earlier one."""

from __future__ import annotations

from pathlib import Path

from offsetlog._native.files import FileSystem


def untaken(fs: FileSystem, path: Path) -> Path:
    """Returns `path` if the name is free, otherwise the first free one of `path.1`, `path.2` and so on.

    Raises:
        StorageError: the directory could not be read.
    """
    number, found = 0, path
    while fs.exists(found):
        number += 1
        found = path.with_name(f"{path.name}.{number}")
    return found
