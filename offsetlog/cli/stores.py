"""Opening a store for a command: never a new directory by mistake, and with a word on what recovery did."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import offsetlog
from offsetlog import opening
from offsetlog._native.files import FileSystem
from offsetlog.cli.output import complain, count_text
from offsetlog.config import PARTITIONS_DEFAULT, MaintenanceConfig
from offsetlog.directory.checkpoint_record import NAME as RECORD
from offsetlog.directory.log_directory import PROPERTIES, LogDirectory
from offsetlog.errors import InvalidArgumentError, LockedError, MissingFileError, PartitionCountError
from offsetlog.moments import parse_duration

#: A command does what it was asked to, and nothing else: while a question waits for its answer nothing is cleaned,
#: least of all by settings that are not those of the log's owner.
BY_HAND = MaintenanceConfig(enabled=False)
#: For a command that finds a store's lock held.
LOCKED_ADVICE = "stop it first; commands that only read do not need the lock; --lock-timeout TIME waits for it"

PartitionCount = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        metavar="N",
        help="How many partitions the offsets topic has: for a new directory "
        f"({PARTITIONS_DEFAULT}), and for one of Kafka's, which does not say.",
    ),
]

#: The same for a command that does its work in each log partition by itself.
CheckedPartitionCount = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        metavar="N",
        help="How many partitions the offsets topic has; not needed, checked where it is given.",
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
        raise typer.BadParameter(f"{text!r} is too long; 24h at most")
    return seconds


LockTimeout = Annotated[
    float,
    typer.Option(
        "--lock-timeout",
        metavar="TIME",
        parser=_lock_seconds,
        help="Wait so long, as 30s, for another program that has the directory open for writing.",
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
        partitions: as `--partitions` was given.
        durability: of what is written.
        create: whether a log directory may be made: where nothing is, or an empty directory, always; in one that holds
            something else only with `partitions`.
        maintenance: the store's automatic work meanwhile, by default none.
        by_partition: the command looks for no group: a Kafka directory is opened without the number
            of partitions, and stays Kafka's.
        lock_timeout: as `--lock-timeout` was given.

    Raises:
        InvalidArgumentError: it is a part of a log directory.
        MissingFileError: it holds no log.
        PartitionCountError: its number of partitions is another, or has to be given.
        OffsetLogError: as `offsetlog.open`.
    """
    is_log = check_log(path, partitions, create=create)
    try:
        store = opening.open_with(
            path,
            partitions,
            durability,
            maintenance=maintenance,
            by_partition=by_partition,
            lock_timeout=lock_timeout,
            create="anywhere",  # `check_log` has refused what was not insisted on
        )
    except LockedError as failure:
        raise failure.advise(LOCKED_ADVICE) from None
    except PartitionCountError as failure:
        if failure.asked is not None or failure.actual is not None:
            raise
        raise PartitionCountError(unknown_count(path), path=path) from None
    if not is_log:
        complain(f"made a new log directory with {count_text(store.partitions, 'partition')} ({path})")
    _tell_recovery(store)
    return store


def unknown_count(path: Path) -> str:
    """Returns why the number of partitions of a directory must be given."""
    if (path / RECORD).exists():
        return (
            f"{PROPERTIES} is missing, which says how many partitions the offsets topic of this directory has; put it "
            "back, or give --partitions N"
        )
    return (
        "this is a directory of Kafka's, which does not say how many partitions its offsets topic has "
        "(the broker's offsets.topic.num.partitions, 50 by default); give --partitions N"
    )


def open_readable(path: Path, partitions: int | None, *, by_partition: bool = False) -> offsetlog.OffsetStore:
    """Opens the store in a directory to read only, and reports damage; arguments and failures as `open_writable`."""
    check_log(path, partitions, create=False)
    store = opening.open_with(path, partitions, read_only=True, by_partition=by_partition)
    for problem in store.problems():
        complain(str(problem))
    return store


def look_into(path: Path, partitions: int | None, *, writes: bool) -> offsetlog.OffsetStore:
    """Opens the store in a directory to read only, before a command opens it for writing; it prints nothing.

    With `writes` a directory that an open for writing would refuse for want of a number is refused, as by
    `open_writable`.
    """
    check_log(path, partitions, create=False)
    if writes and needs_count(path, partitions):
        raise PartitionCountError(unknown_count(path), path=path)
    return opening.open_with(path, partitions, read_only=True)


def needs_count(path: Path, partitions: int | None) -> bool:
    """Returns whether an open for writing needs `--partitions`, which was not given."""
    return partitions is None and LogDirectory(path, FileSystem()).known_properties() is None


def check_log(path: Path, partitions: int | None, *, create: bool) -> bool:
    """Returns whether there is a log in a directory; arguments and failures as `open_writable`, which makes one."""
    directory = LogDirectory(path, FileSystem())
    directory.check_is_none_of_its_parts()
    if directory.holds_log():
        return True
    if not create:
        what = "there is no log in this directory" if directory.exists() else "there is no log directory"
        raise MissingFileError(what, path=path)
    if partitions is None and path.exists() and any(path.iterdir()):
        raise MissingFileError(
            "there is no log in this directory, and something else is; --partitions N makes a log in it all the same",
            path=path,
        )
    return False


def _tell_recovery(store: offsetlog.OffsetStore) -> None:
    for found in store.recoveries().values():
        if found["torn_bytes"]:
            complain(
                f"cut an unfinished tail of {found['torn_bytes']} bytes, copied to {found['broken_path']} "
                f"({found['torn_path']}, byte {found['torn_position']})"
            )
    named = set()
    for problem in store.problems():
        if (problem.path, problem.position) not in named:
            named.add((problem.path, problem.position))
            complain(str(problem))
