"""The segments of a partition directory, also while they are swapped.

Stands below the store, since processes that only read logs (Spark's executors) list them as well.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from offsetlog._native.files import FileSystem
from offsetlog.errors import MissingFileError, StorageError

#: The name of a segment, with its base offset; `.log.deleted` and the like are none.
SEGMENT = re.compile(r"(\d{20})\.log")
#: The name of a file that holds a segment: a `.log.swap` file is one as well, it is complete.
_SEGMENT_FILE = re.compile(r"(\d{20})\.log(?:\.swap)?")
#: How often a partition is read again whose files were removed while it was read.
TRIES = 3
#: How often a directory is listed in which a swap is not over, and the pause in between in seconds; a
#: writer needs some milliseconds for one.
SWAP_LISTINGS = 10
SWAP_SECONDS = 0.02
SWAP = ".log.swap"

Entry = TypeVar("Entry")


def base_offset_of(path: Path) -> int | None:
    """Returns the base offset in the name of a segment's file, None for any other name."""
    found = _SEGMENT_FILE.fullmatch(path.name)
    return None if found is None else int(found[1])


def segment_base(segment: Path) -> int:
    """Returns the base offset of a file that `segments_of` found."""
    return int(segment.name[:20])


def segments_of(directory: Path) -> tuple[Path, ...]:
    """Returns the segments of a partition directory by base offset.

    `.log.deleted` files and the like are none.
    While a cleaner swaps segments, the old ones go before the new one has its name.  Where that is
    not over in a moment, a crash may have ended it: then the list is what recovery will make of the
    directory, and a `.log.swap` file may be in it (docs/format/recovery.md §9.1).

    Raises:
        MissingFileError: there is no such directory.
        StorageError: it cannot be read, or segments are swapped faster than they can be listed.
    """
    fs = FileSystem()

    def listing() -> list[str]:
        return [name for name in fs.list(directory) if _SEGMENT_FILE.fullmatch(name)]

    for _ in range(TRIES):
        names = settled(directory, listing, str, set())
        if not any(name.endswith(SWAP) for name in names):
            return tuple(directory / name for name in names)
        try:
            planned = fs.planned_names(directory)
        except MissingFileError:
            continue  # the swap is over
        # The plan is made from a listing of its own, in which a file may be missing as well.
        if listing() == names:
            return tuple(directory / now for name, now in planned if SEGMENT.fullmatch(name))
    raise swapped_too_fast(directory)


def settled(
    directory: str | Path,
    listing: Callable[[], list[Entry]],
    name_of: Callable[[Entry], str],
    left_behind: set[Entry],
) -> list[Entry]:
    """Returns a listing that was the same twice, and for some time where a swap is not over.

    A large directory is read in pieces: a file that is renamed meanwhile may be in none of them.

    Args:
        directory: for the error.
        listing: lists it.
        name_of: the name of an entry.
        left_behind: entries of swaps that are not waited for; those that did not end are added.

    Raises:
        StorageError: it does not rest.
    """
    known: list[str] = []
    same = 0
    for _ in range(5 * SWAP_LISTINGS):
        # At once: a cleaner that never rests may change the directory within the pause.
        first, entries = list(map(name_of, listing())), listing()
        names = list(map(name_of, entries))
        same = same + 1 if names == known else 0
        known = names
        swaps = {entry for entry in entries if name_of(entry).endswith(SWAP)}
        if first == names and (swaps <= left_behind or same >= SWAP_LISTINGS):
            left_behind |= swaps
            return entries
        time.sleep(SWAP_SECONDS)
    raise swapped_too_fast(directory)


def swapped_too_fast(directory: str | Path) -> StorageError:
    """Returns the error of a directory that does not rest."""
    return StorageError("its segments are swapped faster than they can be listed", path=directory)
