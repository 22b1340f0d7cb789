"""Opens a store for a command; never creates a directory by mistake, and reports what recovery did."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Annotated, Literal

import typer

import offsetlog
from offsetlog import opening
from offsetlog._native.files import FileSystem
from offsetlog.cli.output import complain, count_text
from offsetlog.config import PARTITIONS_DEFAULT, MaintenanceConfig
from offsetlog.directory.checkpoint_record import NAME as RECORD
from offsetlog.directory.log_directory import PROPERTIES, TOPIC, LogDirectory
from offsetlog.errors import InvalidArgumentError, LockedError, MissingFileError, PartitionCountError
from offsetlog.moments import parse_duration

#: A command does only its own work: nothing is cleaned while a question waits for its answer, especially not with
#: settings other than those of the log's owner.
BY_HAND = MaintenanceConfig(enabled=False)
#: The advice for a command that finds the lock of a store taken.
LOCKED_ADVICE = "stop it first, or wait with --lock-timeout TIME; commands that only read do not need the lock"

PartitionCount = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        metavar="N",
        help="Number of partitions of the offsets topic. Needed only for a directory that Kafka wrote.",
    ),
]

#: The same option for a command that can create a directory.
NewPartitionCount = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        metavar="N",
        help="Number of partitions of the offsets topic, for a new directory (the default is "
        f"{PARTITIONS_DEFAULT}) or for a directory that Kafka wrote.",
    ),
]

#: The same option for a command that works on each log partition by itself.
CheckedPartitionCount = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        metavar="N",
        help="Number of partitions of the offsets topic. The command does not need it, but checks it if it is given.",
    ),
]



def _lock_seconds(text: str | float) -> float:
    if isinstance(text, float):  # the default, which the parser of arguments hands over as well
        return text
    try:
        seconds = parse_duration(text) / 1000
    except InvalidArgumentError as failure:
        raise typer.BadParameter(str(failure)) from None
    if seconds > 86_400:
        raise typer.BadParameter(f"{text!r} is too long; the limit is 24h")
    return seconds


LockTimeout = Annotated[
    float,
    typer.Option(
        "--lock-timeout",
        metavar="TIME",
        parser=_lock_seconds,
        help="Wait up to this long (e.g. 30s) for another program that has the directory open for writing.",
        show_default=False,
    ),
]


def open_writable(
    path: Path,
    partitions: int | None,
    durability: Literal["process", "disk"],
    *,
    create: bool,
    maintenance: MaintenanceConfig = BY_HAND,
    by_partition: bool = False,
    lock_timeout: float = 0.0,
) -> offsetlog.OffsetStore:
    """Opens the store in a directory for writing.

    Args:
        path: the log directory.
        partitions: the value of `--partitions`.
        durability: the durability of writes.
        create: whether a log directory may be created at a path that does not exist or is an empty directory.  If the
            directory has other files, `partitions` must be given as well.
        maintenance: the work that the store does by itself while it is open; none by default.
        by_partition: whether the command works on log partitions and looks up no group.  A directory of Kafka is then
            opened without its number of partitions, and no number is stored there.
        lock_timeout: the value of `--lock-timeout`, in seconds.

    Raises:
        InvalidArgumentError: the path is inside a log directory.
        MissingFileError: the directory holds no log.
        PartitionCountError: the directory has another number of partitions, or the number must be given.
        OffsetLogError: any error that `offsetlog.open` raises.
    """
    is_log = check_log(path, partitions, create=create)
    if is_log and not by_partition and needs_count(path, partitions):
        # This check comes before the open, because the open would leave a new file for the lock.
        raise PartitionCountError(unknown_count(path), path=path)
    if is_log:
        _warn_of_owner(path)
    try:
        store = opening.open_with(
            path,
            partitions,
            durability,
            maintenance=maintenance,
            by_partition=by_partition,
            lock_timeout=lock_timeout,
            create="anywhere",  # `check_log` has refused a directory with other files, unless `partitions` is given
        )
    except LockedError as failure:
        raise failure.advise(LOCKED_ADVICE) from None
    if not is_log:
        complain(f"created a new log directory with {count_text(store.partitions, 'partition')} ({path})")
    _tell_recovery(store)
    return store


def _warn_of_owner(path: Path) -> None:
    # If a disk is mounted here, the directory itself may belong to root, but its contents to the broker's user.
    numbers = LogDirectory(path, FileSystem()).partition_numbers()
    owner = (path / f"{TOPIC}-{min(numbers)}" if numbers else path).stat().st_uid
    if owner != os.geteuid():
        name, own = _user_name(owner), _user_name(os.geteuid())
        complain(
            f"the logs in {path} belong to user {name}, but new files will belong to {own}, and a broker of {name} may "
            f"not be able to open the new files; run the command as {name} instead (with sudo -u)"
        )


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def unknown_count(path: Path) -> str:
    """Returns why the number of partitions of a directory must be given."""
    if (path / RECORD).exists():
        return (
            f"{PROPERTIES}, which holds the number of partitions of the offsets topic, is missing from this directory; "
            "put it back, or give --partitions N"
        )
    return (
        "this directory was written by Kafka and does not say how many partitions its offsets topic has; "
        "give --partitions N (the broker's offsets.topic.num.partitions, 50 by default)"
    )


def open_readable(path: Path, partitions: int | None, *, by_partition: bool = False) -> offsetlog.OffsetStore:
    """Opens the store in a directory read-only, and reports damage; for arguments and errors see `open_writable`."""
    check_log(path, partitions, create=False)
    store = opening.open_with(path, partitions, read_only=True, by_partition=by_partition)
    for problem in store.problems():
        complain(str(problem))
    return store


def look_into(path: Path, partitions: int | None, *, writes: bool) -> offsetlog.OffsetStore:
    """Opens the store in a directory read-only, before a command opens it for writing; prints nothing.

    If `writes` is True and the number of partitions is not known, raises the same error as `open_writable`.
    """
    check_log(path, partitions, create=False)
    if writes and needs_count(path, partitions):
        raise PartitionCountError(unknown_count(path), path=path)
    return opening.open_with(path, partitions, read_only=True)


def needs_count(path: Path, partitions: int | None) -> bool:
    """Returns whether opening for writing would need `--partitions`, which was not given."""
    return partitions is None and LogDirectory(path, FileSystem()).known_properties() is None


def check_log(path: Path, partitions: int | None, *, create: bool) -> bool:
    """Returns whether a directory holds a log; never creates one.  For arguments and errors see `open_writable`."""
    directory = LogDirectory(path, FileSystem())
    directory.check_is_none_of_its_parts()
    if directory.holds_log():
        return True
    if not create:
        what = "there is no log in this directory" if directory.exists() else "there is no log directory"
        raise MissingFileError(what, path=path)
    if partitions is None and path.exists() and any(path.iterdir()):
        raise MissingFileError(
            "this directory holds files, but no log; to create a log in this directory, give --partitions N",
            path=path,
        )
    return False


def _tell_recovery(store: offsetlog.OffsetStore) -> None:
    for found in store.recoveries().values():
        if found["torn_bytes"]:
            complain(
                f"removed an unfinished tail of {found['torn_bytes']} bytes, from byte {found['torn_position']} of "
                f"{found['torn_path']} on; a copy is in {found['broken_path']}"
            )
    named = set()
    for problem in store.problems():
        if (problem.path, problem.position) not in named:
            named.add((problem.path, problem.position))
            complain(str(problem))
