"""Finds the process that holds a directory's lock, for the error message of a process that finds it taken.

The system does not show who holds a lock of an open file description, as ours are; /proc shows who has the file open.
"""

from __future__ import annotations

import os
from pathlib import Path

# The longest command line that is shown, in characters.
_COMMAND_CHARACTERS_MAX = 120


def other_owners(lock_file: Path) -> list[str]:
    """Returns the other processes that have a lock file open, such as "process 12 (python consumer.py)", by number.

    Processes of other users, of other containers and of other machines cannot be seen from here.
    """
    try:
        wanted = os.stat(lock_file)
        numbers = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return []
    place = (wanted.st_dev, wanted.st_ino)
    return [
        f"process {number}{_command(number)}"
        for number in numbers
        if number != os.getpid() and _has_open(number, lock_file.name, place)
    ]


def _has_open(number: int, name: str, place: tuple[int, int]) -> bool:
    folder = f"/proc/{number}/fd"
    try:
        descriptors = os.listdir(folder)
    except OSError:  # the process is another user's, or has gone
        return False
    for descriptor in descriptors:
        path = f"{folder}/{descriptor}"
        try:
            # Compare names first: a stat of every open file may wait for a file system that does not answer.
            if os.readlink(path).endswith(name):
                found = os.stat(path)
                if (found.st_dev, found.st_ino) == place:
                    return True
        except OSError:
            continue
    return False


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
