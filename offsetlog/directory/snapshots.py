"""Snapshots: the state of a log partition in a file beside its log, so that the next open reads only what came since.

The engine says what is in it and whether it can be used (csrc/snapshot/snapshot.h); here it is put into
an Arrow IPC file of one row, with a column for each of its sections, and taken from there.  A
snapshot is a cache: any doubt discards it, with a word why, and the log is read from
its start.
"""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from offsetlog._native import snapshot as native
from offsetlog._native.files import FileSystem
from offsetlog._native.partition import Partition
from offsetlog._native.snapshot import OutputFile, Snapshot, StopFlag
from offsetlog.directory.evidence import untaken
from offsetlog.directory.log_bounds import checkpoint_bounds
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.errors import (
    ClosedError,
    CorruptionError,
    InternalError,
    MissingFileError,
    OffsetLogError,
    PossibleLossError,
    StorageError,
)

LOGGER = logging.getLogger("offsetlog.snapshot")

FILE_NAME = native.FILE_NAME
TEMPORARY_NAME = FILE_NAME + ".tmp"

#: How many positions a report lists.
POSITIONS_LISTED_MAX = 1_000_000
#: How many keys are named of those whose commits are missing.
KEYS_NAMED_MAX = 1000
_OFFSET_MAX = (1 << 63) - 1

#: How often a snapshot is begun again when the log is cleaned while it is made.
_TRIES = 3


class LastKnown(NamedTuple):
    """A position as a snapshot has it.

    Attributes:
        group: the consumer group.
        topic: its topic.
        partition: its partition.
        offset: the committed one.
        leader_epoch: with it, -1 for none.
        metadata: likewise.
        commit_timestamp: in milliseconds since 1970.
        log_offset: of the commit.
    """

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    log_offset: int


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """The snapshot that was written for one log partition.

    Attributes:
        log_partition: of the offsets topic.
        offset: everything below this log offset is in it.
        written: False when the snapshot that was there already is of this offset.
        since: the offset of the earlier snapshot that it was made from; None when the whole log was
            read, or the state in memory taken.
        positions: committed positions in it.
        size: bytes of the file.
        seconds: how long it took.
        copied: whether the state in memory was copied, and nothing of the log read.
    """

    log_partition: int
    offset: int
    written: bool
    since: int | None
    positions: int
    size: int
    seconds: float
    copied: bool = False


# ------------------------------------------------------------------------------------------ loading


def load(
    partition: Partition,
    fs: FileSystem,
    *,
    cleaned_to: int = -1,
    threads: int = 1,
    keep: bool = False,
) -> None:
    """Loads a partition that was opened: from its snapshot, where that can be used, else from the log alone.

    `partition.recovery` reports the fate of the snapshot: under "snapshot" the offset that the
    load went on from, or None; under "snapshot_discarded" why one that was there was not used, or
    None.

    Args:
        partition: open, not loaded.
        fs: the file port.
        cleaned_to: the offset up to which somebody cleaned the log; -1 where nobody is known to
            have.
        threads: how many threads check a large one.
        keep: do not remove one that cannot be used, as in a directory of somebody else's.

    Raises:
        StorageError, CapacityError: the partition has failed.
    """
    snapshot, reason = _usable(partition, fs, cleaned_to, threads)
    offset: int | None = None
    if snapshot is None:
        partition.load()
    else:
        offset = snapshot.facts()["offset"]
        reason = snapshot.load(partition)
    partition.recovery["snapshot"] = offset if reason is None else None
    partition.recovery["snapshot_discarded"] = reason
    name_keys(partition, fs)
    if reason is not None:
        LOGGER.warning("%s: the snapshot was discarded: %s", partition.path, reason)
        if partition.problems() and not keep:
            _keep_aside(partition, fs)
        elif not keep:
            _discard(partition)


def name_keys(partition: Partition, fs: FileSystem) -> None:
    """Lets a partition's problems name what its snapshot has of the log offsets that are missing.

    Also a snapshot that is of no use to the load has them.  Keys committed again later are not named.  Doubts
    concern every key, and name none.
    """
    lost = {
        (each.lost_from, each.lost_below)
        for each in partition.problems()
        if isinstance(each, CorruptionError)
        and not isinstance(each, PossibleLossError)
        and each.lost_from is not None
    }
    if not lost:
        return
    try:
        snapshot = native.open_file(fs, Path(partition.path) / FILE_NAME)
    except (CorruptionError, StorageError):
        return
    for first, below in lost:
        end = _OFFSET_MAX if below is None else below
        positions = snapshot.positions_between(first, end, KEYS_NAMED_MAX, partition)
        partition.lost_keys[first, below] = tuple((each[0], each[1], each[2]) for each in positions)


def last_known(
    partition: Partition, fs: FileSystem, first: int, below: int | None
) -> list[LastKnown]:
    """Returns what a snapshot that can be read has, and the log has not, of the commits in [first, below).

    Args:
        partition: loaded from its log alone.
        fs: the file port.
        first: the first log offset.
        below: their end, None for all that follow.
    """
    end = _OFFSET_MAX if below is None else below
    try:
        snapshot = native.open_file(fs, Path(partition.path) / FILE_NAME)
    except (CorruptionError, StorageError):
        return []
    found = snapshot.positions_between(first, end, POSITIONS_LISTED_MAX, partition, or_same=True)
    return [LastKnown(*each) for each in found]


def _keep_aside(partition: Partition, fs: FileSystem) -> None:
    # It is evidence; a later snapshot must not take its place.
    if partition.read_only:
        return
    path = Path(partition.path) / FILE_NAME
    try:
        fs.rename(path, untaken(fs, Path(f"{path}.kept")))
    except StorageError as failure:
        LOGGER.warning("%s: the snapshot cannot be kept aside: %s", partition.path, failure)


def _usable(
    partition: Partition, fs: FileSystem, cleaned_to: int, threads: int
) -> tuple[Snapshot | None, str | None]:
    # One that can be used, or why there is none; neither where there is no file.
    try:
        snapshot = native.open_file(fs, Path(partition.path) / FILE_NAME, threads)
        reason = snapshot.check(partition, cleaned_to)
    except MissingFileError:
        return None, None
    except (CorruptionError, StorageError) as failure:
        return None, failure.message
    return (snapshot, None) if reason is None else (None, reason)


def _discard(partition: Partition) -> None:
    try:
        native.remove(partition)
    except OffsetLogError as failure:
        # It will be found of no use again.
        LOGGER.warning("%s: the snapshot cannot be removed: %s", partition.path, failure)


# ------------------------------------------------------------------------------------------ writing


def write(
    partition: Partition,
    directory: LogDirectory,
    *,
    cleaned_to: int = -1,
    threads: int = 1,
    stop: StopFlag | None = None,
    whole: bool = True,
    live: bool = False,
) -> SnapshotReport | None:
    """Writes a snapshot of what is flushed now, while commits go on; flushes first.

    A second state is made beside the partition's: a copy of it, or of the last snapshot and the log
    after it, or of the whole log.  It takes as much memory as the first for that time.

    W of a replicated log is checkpointed before its snapshot is there: a kill must not leave one
    that the next open finds above W, and may not use.

    Args:
        partition: of a writable log; loaded, unless it is replicated.  Its table is not needed.
        directory: that of the log.
        cleaned_to: as for `load`.
        threads: how many threads check and sum up a large one.
        stop: ends it soon.
        whole: whether all of the log may be read, where the last snapshot is of no use; nobody may
            clean the log meanwhile.
        live: whether a partition's own state may be copied.  That takes a tenth of the time, and
            does not read the log again, so it does not notice damage there.

    Returns:
        None only without `whole`: all of the log would have to be read.

    Raises:
        CorruptionError: the log is damaged, or something of it is missing; a snapshot would hide it.
        ClosedError: `stop` was set, or the partition is closed.
        StateError, StorageError, CapacityError: the snapshot that was there, if any, is there
            still.
    """
    begun = time.monotonic()
    if partition.read_only:
        raise CorruptionError(
            "something of the log is damaged or missing: a snapshot would hide it, and the last one may be all that "
            "knows of it",
            path=partition.path,
        )
    fs = directory.fs
    copied = _copy(partition, stop) if live else None
    # Then everything that was copied is on disk.
    partition.flush()
    facts = partition.log_facts()
    up_to = min(facts["flushed"], facts["watermark"])
    if native.file_offset(partition) == up_to and fs.exists(Path(partition.path) / FILE_NAME):
        positions = _positions_of(partition, fs)
        return SnapshotReport(
            partition.number, up_to, False, up_to, positions, 0, time.monotonic() - begun
        )
    since, snapshot = (
        (None, copied)
        if copied is not None
        else _go_on(partition, fs, up_to, cleaned_to, threads, stop)
    )
    if snapshot is None:
        if not whole:
            return None
        snapshot = _begin(partition, up_to, stop)
    made = snapshot.facts()
    if partition.replicated:
        checkpoint_bounds(directory, [partition])
    size = _store(snapshot, partition, fs, threads)
    report = SnapshotReport(
        partition.number,
        made["offset"],
        True,
        since,
        made["positions"],
        size,
        time.monotonic() - begun,
        copied is not None,
    )
    LOGGER.info(
        "%s: a snapshot of offset %d, made from %s: %d positions, %d bytes, %.3f s",
        partition.path,
        report.offset,
        _source_of(report),
        report.positions,
        report.size,
        report.seconds,
    )
    return report


def _source_of(report: SnapshotReport) -> str:
    if report.copied:
        return "the state in memory"
    return "the whole log" if report.since is None else f"the log from offset {report.since} on"


def _positions_of(partition: Partition, fs: FileSystem) -> int:
    # Its table may be another's to read, or not be there; its snapshot is.
    if partition.role == "active":
        return partition.count()
    return native.open_file(fs, Path(partition.path) / FILE_NAME).facts()["positions"]


def _copy(partition: Partition, stop: StopFlag | None) -> Snapshot | None:
    if native.file_offset(partition) == partition.log_facts()["watermark"]:
        return None    # the last snapshot will do, if it is there
    return native.copy(partition, stop)


def _go_on(
    partition: Partition,
    fs: FileSystem,
    up_to: int,
    cleaned_to: int,
    threads: int,
    stop: StopFlag | None,
) -> tuple[int | None, Snapshot | None]:
    # From the last snapshot, whose offset comes with it, where that does.
    snapshot, _ = _usable(partition, fs, cleaned_to, threads)
    if snapshot is not None:
        since = snapshot.facts()["offset"]
        try:
            if since <= up_to and snapshot.advance(partition, up_to, stop):
                return since, snapshot
        except CorruptionError as failure:
            LOGGER.info(
                "%s: nothing can be added to the last snapshot: %s", partition.path, failure.message
            )
    return None, None


def _begin(partition: Partition, up_to: int, stop: StopFlag | None) -> Snapshot:
    # From the whole log.
    for _ in range(_TRIES):
        snapshot = native.begin(partition)
        if snapshot.advance(partition, up_to, stop):
            return snapshot
    raise InternalError(
        "the log is cleaned again and again while a snapshot is made", path=partition.path
    )


def write_last(partition: Partition, fs: FileSystem, *, threads: int = 1) -> SnapshotReport | None:
    """Writes a snapshot of a partition's own state, for `Partition.close` to call before it closes.

    Returns None where that is not possible, as for a damaged partition.  A failure goes to the
    logger, and keeps nothing from being closed.
    """
    begun = time.monotonic()
    try:
        snapshot = native.borrow(partition)
        made = snapshot.facts()
        size = _store(snapshot, partition, fs, threads)
    except Exception as failure:
        # Arrow may be missing or fail, memory may run out: a store is closed all the same.
        reason = str(failure) if isinstance(failure, OffsetLogError) else repr(failure)
        LOGGER.warning("%s: no snapshot was written: %s", partition.path, reason)
        return None
    seconds = time.monotonic() - begun
    return SnapshotReport(
        partition.number, made["offset"], True, None, made["positions"], size, seconds
    )


def _store(snapshot: Snapshot, partition: Partition, fs: FileSystem, threads: int) -> int:
    # Importing Arrow takes longer than most opens, which need none of it.
    from offsetlog.directory.snapshot_file import write_arrow

    # Beside its place, flushed, then into it: a crash leaves the old one, the new one, or a .tmp
    # that nobody reads.
    temporary = Path(partition.path) / TEMPORARY_NAME
    try:
        output = OutputFile(fs, temporary)
        try:
            write_arrow(snapshot, output, threads)
        finally:
            output.close()
        if not snapshot.publish(partition, temporary):
            raise ClosedError("the log was truncated while a snapshot was made", path=temporary)
        return output.size
    except BaseException:
        with contextlib.suppress(OffsetLogError):  # one that stays is overwritten by the next
            fs.remove(temporary)
        raise
