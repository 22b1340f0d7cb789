"""Snapshots: the state of a log partition in a file beside its log, so that the next open reads only later records.

The engine defines the contents and decides whether a snapshot can be used (csrc/snapshot/snapshot.h).  This module
stores them in an Arrow IPC file of one row, with a column for each section.  A snapshot is a cache: at any doubt it is
discarded, the reason is logged, and the log is read from its start.
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

#: How many positions a report lists at most.
POSITIONS_LISTED_MAX = 1_000_000
#: How many keys with missing commits an error names at most.
KEYS_NAMED_MAX = 1000
_OFFSET_MAX = (1 << 63) - 1

#: How often a snapshot is attempted if the log is cleaned meanwhile.
_TRIES = 3


class LastKnown(NamedTuple):
    """A position in a snapshot.

    Attributes:
        group: the consumer group.
        topic: the topic.
        partition: the partition of the topic.
        offset: the committed offset.
        leader_epoch: the leader epoch of the commit, -1 if unknown.
        metadata: the metadata of the commit.
        commit_timestamp: the time of the commit, in milliseconds since 1970.
        log_offset: the log offset of the commit.
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
    """A snapshot of one log partition.

    Attributes:
        log_partition: the partition of the offsets topic.
        offset: the snapshot holds everything below this log offset.
        written: False if the existing snapshot has this offset already.
        since: the log offset of the earlier snapshot from which it was made; None if it was made from the whole log or
            the state in memory.
        positions: the number of committed positions in the snapshot.
        size: the size of the file in bytes.
        seconds: how long the snapshot took.
        copied: whether the state in memory was copied, without reading the log.
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
    """Loads an open partition: from its snapshot if that can be used, otherwise from the log alone.

    `partition.recovery` reports the result.  "snapshot" is the log offset of the snapshot that was loaded, or None;
    "snapshot_discarded" is the reason why an existing snapshot was not used, or None.

    Args:
        partition: a partition that is open and not loaded.
        fs: the file port.
        cleaned_to: the log offset up to which the log was cleaned; -1 if no cleaning is known.
        threads: how many threads check a large snapshot.
        keep: whether to keep a snapshot that cannot be used, as in another program's directory.

    Raises:
        StorageError, CapacityError: the load failed; the partition has failed.
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
        LOGGER.warning("%s: the snapshot was not used, and the whole log was read instead: %s", partition.path, reason)
        if partition.problems() and not keep:
            _keep_aside(partition, fs)
        elif not keep:
            _discard(partition)


def name_keys(partition: Partition, fs: FileSystem) -> None:
    """Adds to the partition's problems the positions that the snapshot has at the missing log offsets.

    Even a snapshot that the load cannot use shows these positions.  A position that was committed again later is not
    added.  No position is added to a PossibleLossError, because such a problem can concern every key.
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
    """Returns the commits at a range of log offsets that the log has lost, but that a readable snapshot still has.

    Args:
        partition: a partition that was loaded without a snapshot.
        fs: the file port.
        first: the first log offset.
        below: the end of the range, None for no end.
    """
    end = _OFFSET_MAX if below is None else below
    try:
        snapshot = native.open_file(fs, Path(partition.path) / FILE_NAME)
    except (CorruptionError, StorageError):
        return []
    found = snapshot.positions_between(first, end, POSITIONS_LISTED_MAX, partition, or_same=True)
    return [LastKnown(*each) for each in found]


def _keep_aside(partition: Partition, fs: FileSystem) -> None:
    # The snapshot is evidence, which a later snapshot must not overwrite.
    if partition.read_only:
        return
    path = Path(partition.path) / FILE_NAME
    try:
        fs.rename(path, untaken(fs, Path(f"{path}.kept")))
    except StorageError as failure:
        LOGGER.warning(
            "%s: cannot rename the snapshot to keep it as evidence of a loss: %s", partition.path, failure
        )


def _usable(
    partition: Partition, fs: FileSystem, cleaned_to: int, threads: int
) -> tuple[Snapshot | None, str | None]:
    # Returns a usable snapshot, or the reason why it is not; (None, None) if there is no file.
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
        # The next load will find the snapshot unusable again.
        LOGGER.warning("%s: cannot remove the unusable snapshot: %s", partition.path, failure)


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
    """Flushes a partition, then writes a snapshot of the flushed state; other threads can commit during the call.

    The snapshot is written from a second state, which needs as much memory as the partition's own.  This second state
    is either a copy of the partition's own state, or is read from the files: from the last snapshot and the log after
    it, or from the whole log.

    The high watermark W of a replicated log is checkpointed before its snapshot is published.  Otherwise a killed
    process could leave a snapshot above the checkpointed W, which the next open could not use.

    Args:
        partition: a partition with a writable log.  A partition without replicas must be loaded.  A replicated one need
            not be, because its table is not needed.
        directory: the log directory.
        cleaned_to: as in `load`.
        threads: how many threads check and sum up a large snapshot.
        stop: the call ends soon after any thread has set this.
        whole: whether the whole log may be read if the last snapshot cannot be used.  If this is True, the log must not
            be cleaned during the call.
        live: whether the partition's own state may be copied.  A copy takes a tenth of the time, but does not read the
            log again, and so does not notice damage in it.

    Returns:
        The report; None if `whole` is False and the whole log would have to be read.

    Raises:
        CorruptionError: the log is damaged or incomplete; a snapshot would hide it.
        ClosedError: `stop` was set, the log was truncated meanwhile, or the partition is closed.
        StateError, StorageError, CapacityError: the snapshot was not written; an earlier one
            remains.
    """
    begun = time.monotonic()
    if partition.read_only:
        raise CorruptionError(
            "no snapshot was written, because the log is damaged or incomplete: a new snapshot would hide the damage, "
            "and the last snapshot may be the only evidence of the lost records",
            path=partition.path,
        )
    fs = directory.fs
    copied = _copy(partition, stop) if live else None
    # After this flush, everything that was copied is on disk.
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
        "%s: wrote a snapshot of offset %d from %s: %d positions, %d bytes, %.3f s",
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
    return "the whole log" if report.since is None else f"the log from offset {report.since}"


def _positions_of(partition: Partition, fs: FileSystem) -> int:
    # If the partition is not active, another thread may read its table, or it has no table.  The snapshot file has the
    # number as well.
    if partition.role == "active":
        return partition.count()
    return native.open_file(fs, Path(partition.path) / FILE_NAME).facts()["positions"]


def _copy(partition: Partition, stop: StopFlag | None) -> Snapshot | None:
    if native.file_offset(partition) == partition.log_facts()["watermark"]:
        return None    # the last snapshot is enough, if there is one
    return native.copy(partition, stop)


def _go_on(
    partition: Partition,
    fs: FileSystem,
    up_to: int,
    cleaned_to: int,
    threads: int,
    stop: StopFlag | None,
) -> tuple[int | None, Snapshot | None]:
    # The state comes from the last snapshot, if that can be used, together with its log offset.
    snapshot, _ = _usable(partition, fs, cleaned_to, threads)
    if snapshot is not None:
        since = snapshot.facts()["offset"]
        try:
            if since <= up_to and snapshot.advance(partition, up_to, stop):
                return since, snapshot
        except CorruptionError as failure:
            LOGGER.info(
                "%s: the last snapshot cannot be extended: %s", partition.path, failure.message
            )
    return None, None


def _begin(partition: Partition, up_to: int, stop: StopFlag | None) -> Snapshot:
    # Otherwise the state comes from the whole log.
    for _ in range(_TRIES):
        snapshot = native.begin(partition)
        if snapshot.advance(partition, up_to, stop):
            return snapshot
    raise InternalError(
        f"no snapshot was written: the log was cleaned during each of {_TRIES} attempts", path=partition.path
    )


def write_last(partition: Partition, fs: FileSystem, *, threads: int = 1) -> SnapshotReport | None:
    """Writes the last snapshot of a partition; `Partition.close` calls this function before it closes the log.

    Returns None if no snapshot can be written, for example of a damaged partition.  A failure is logged, and does not
    prevent the close.
    """
    begun = time.monotonic()
    try:
        snapshot = native.borrow(partition)
        made = snapshot.facts()
        size = _store(snapshot, partition, fs, threads)
    except Exception as failure:
        # Arrow may be missing or fail, and memory may run out; the store is closed in spite of that.
        reason = str(failure) if isinstance(failure, OffsetLogError) else repr(failure)
        LOGGER.warning("%s: no snapshot was written: %s", partition.path, reason)
        return None
    seconds = time.monotonic() - begun
    return SnapshotReport(
        partition.number, made["offset"], True, None, made["positions"], size, seconds
    )


def _store(snapshot: Snapshot, partition: Partition, fs: FileSystem, threads: int) -> int:
    # Importing Arrow takes longer than most opens, which do not need it.
    from offsetlog.directory.snapshot_file import write_arrow

    # The file is written under another name, flushed and renamed.  A crash leaves the old file, the
    # new one, or a .tmp file that is never read.
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
        with contextlib.suppress(OffsetLogError):  # a remaining file is overwritten by the next
            fs.remove(temporary)
        raise
