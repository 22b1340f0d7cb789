"""Lists the segments of a partition directory, even while a cleaner swaps them for others.

This module does not need a store, so that processes that only read logs, such as Spark's executors, can use it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from offsetlog._native.files import FileSystem
from offsetlog.errors import MissingFileError, StorageError

#: The name of a segment, with its base offset; `.log.deleted` and similar names do not match.
SEGMENT = re.compile(r"(\d{20})\.log")
#: The name of a file that holds a segment; a `.log.swap` file is complete, so it matches too.
_SEGMENT_FILE = re.compile(r"(\d{20})\.log(?:\.swap)?")
#: How often a partition is read again if its files were removed meanwhile.
TRIES = 3
#: How often a directory is listed while a swap in it is unfinished, and the pause between listings in seconds.  A
#: running writer finishes a swap in some milliseconds.
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

    Files such as `.log.deleted` are left out.  While a cleaner swaps segments, the old ones disappear before the new
    one has its name.  If a swap does not end within a fraction of a second, a crash may have interrupted it.  The
    result is then the list of segments that recovery will keep, and may contain a `.log.swap` file
    (docs/format/recovery.md §9.1).

    Raises:
        MissingFileError: the directory does not exist.
        StorageError: the directory cannot be read, or segments are replaced faster than they can be listed.
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
            continue  # the swap is finished
        # The plan is based on a second listing, which may lack a file too.
        if listing() == names:
            return tuple(directory / now for name, now in planned if SEGMENT.fullmatch(name))
    raise swapped_too_fast(directory)


def settled(
    directory: str | Path,
    listing: Callable[[], list[Entry]],
    name_of: Callable[[Entry], str],
    left_behind: set[Entry],
) -> list[Entry]:
    """Lists a directory until the result no longer changes, and returns the last listing.

    The system lists a large directory in parts, and a file that is renamed meanwhile may be missing from all parts.
    Two equal listings in a row are therefore needed.  If a listing has the files of an unfinished swap, many equal
    listings in a row are needed.

    Args:
        directory: the path of the directory, for the error.
        listing: lists the directory.
        name_of: returns the name of an entry.
        left_behind: entries of swaps for whose end this function does not wait.  Entries of swaps that did not end
            during the call are added.

    Raises:
        StorageError: the listing keeps changing.
    """
    known: list[str] = []
    same = 0
    for _ in range(5 * SWAP_LISTINGS):
        # No pause between the two listings: a cleaner that works without a rest could change the directory within it.
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
    """Returns the error for a directory whose listing keeps changing."""
    return StorageError("segments are replaced faster than they can be listed; try again", path=directory)
