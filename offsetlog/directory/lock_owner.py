"""Finds the process that holds a directory's lock, so that the error of a refused process can name it.

The locks of offsetlog belong to open file descriptions (F_OFD_SETLK).  The system does not report which process holds
such a lock.  Therefore this module reads /proc, which shows the processes that have the lock file open, and the
descriptors of this process that have a lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

#: The advice of a library call that finds the lock taken.
WAITING_ADVICE = "to wait up to 30 seconds for the lock, pass lock_timeout=30"
# The longest command line that is shown, in characters.
_COMMAND_CHARACTERS_MAX = 120


# struct flock: type, whence, start, length, process.
_FLOCK = "hhqqi0q"


def holder(lock_file: Path) -> str | None:
    """Returns the holder of a lock, as text for a sentence; None if it has no holder or the system does not show it.

    The call takes no lock and creates no file.
    """
    query = getattr(fcntl, "F_OFD_GETLK", None)
    if query is None:
        return " or ".join(other_owners(lock_file)) or None
    try:
        descriptor = os.open(lock_file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, query, asked))[0]
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if kind == fcntl.F_UNLCK:
        return None
    return " or ".join(other_owners(lock_file)) or "another process"


def other_owners(lock_file: Path) -> list[str]:
    """Returns the other processes that have a lock file open, in the order of their process ids.

    An example of an entry is "process 12 (python consumer.py)".  Processes of other users, of other containers and of
    other machines cannot be seen from here.  Thread-safe.
    """
    try:
        numbers = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return []
    return [
        f"process {number}{_command(number)}"
        for number in numbers
        if number != os.getpid() and any(_descriptors(number, lock_file))
    ]


def is_held_here(lock_file: Path) -> bool:
    """Returns whether this process holds the lock of a file; False if the system does not show it.  Thread-safe.

    The locks of each descriptor are checked, because a thread that only tries to take the lock has the file open as
    well.
    """
    for descriptor in _descriptors(os.getpid(), lock_file):
        with contextlib.suppress(OSError):  # it was closed meanwhile
            if "\nlock:" in Path(f"/proc/self/fdinfo/{descriptor}").read_text():
                return True
    return False


def _descriptors(number: int, file: Path) -> Iterator[str]:
    """Yields the descriptors with which a process has a file open; yields none if the process is not visible."""
    folder = f"/proc/{number}/fd"
    try:
        wanted = os.stat(file)
        descriptors = os.listdir(folder)
    except OSError:  # the process is another user's, or has gone
        return
    for descriptor in descriptors:
        path = f"{folder}/{descriptor}"
        try:
            # The name is checked first, because a stat of other open files may wait for a file system that does not
            # answer.
            if os.readlink(path).endswith(file.name):
                found = os.stat(path)
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    yield descriptor
        except OSError:
            continue


def _command(number: int) -> str:
    try:
        with open(f"/proc/{number}/cmdline", "rb") as file:
            words = file.read(4 * _COMMAND_CHARACTERS_MAX).decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    # A semicolon would end the reason in LockedError.advise.
    text = " ".join(word for word in words if word).replace(";", ",")
    shown = "".join(character if character.isprintable() else "?" for character in text)
    if len(shown) > _COMMAND_CHARACTERS_MAX:
        shown = shown[:_COMMAND_CHARACTERS_MAX] + "..."
    return f" ({shown})" if shown else ""
