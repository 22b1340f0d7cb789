"""Where evidence is kept: under a name that nothing has, so that a second incident does not overwrite the first."""

from __future__ import annotations

from pathlib import Path

from offsetlog._native.files import FileSystem


def untaken(fs: FileSystem, path: Path) -> Path:
    """Returns `path`, or where something has that name `path.1` and so on.

    Raises:
        StorageError: it cannot be looked up.
    """
    number, found = 0, path
    while fs.exists(found):
        number += 1
        found = path.with_name(f"{path.name}.{number}")
    return found
