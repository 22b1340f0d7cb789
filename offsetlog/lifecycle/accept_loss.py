"""Accepts a loss: reports what is known about it, keeps copies, and makes the log partitions accept commits again.

No record is restored.  If the log of a partition lacks records, the partition is read-only until somebody accepts the
loss, because later commits would hide the loss (docs/repair.md).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from offsetlog import arguments
from offsetlog._native.decompress import Decompressor
from offsetlog._native.files import FileSystem
from offsetlog._native.partition import Partition
from offsetlog.config import StoreConfig
from offsetlog.directory import snapshots
from offsetlog.directory.evidence import untaken
from offsetlog.directory.lock_owner import WAITING_ADVICE
from offsetlog.directory.log_directory import (
    CHECKPOINTS,
    LOG_STARTS,
    MANIFEST,
    RECOVERY_POINTS,
    LogDirectory,
    Properties,
)
from offsetlog.directory.snapshots import LastKnown
from offsetlog.directory.witnesses import Witnesses
from offsetlog.errors import (
    CorruptionError,
    DataLossError,
    InvalidArgumentError,
    LockedError,
    MissingFileError,
    OffsetLogError,
    PossibleLossError,
    StorageError,
)
from offsetlog.lifecycle.open_partitions import OpenPartitions
from offsetlog.lifecycle.partition_opener import PartitionOpener

#: The files that show which contents a log partition should have; a copy of each is kept.
EVIDENCE = (MANIFEST, "offsetlog.flushed", "leader-epoch-checkpoint", snapshots.FILE_NAME)


@dataclass(frozen=True, slots=True)
class AcceptedLoss:
    """The losses that `accept_loss` accepted, and the files that it kept.

    Attributes:
        losses: the missing, damaged and possibly incomplete parts, as errors that were not raised.
        report: the file that lists the losses; None if there were none.
        copies: the copies of changed files, except the `broken-...` copies of segments.
        unreadable: the errors of the log partitions that the disk cannot read.  These partitions were left unchanged.
    """

    losses: list[OffsetLogError]
    report: Path | None = None
    copies: list[Path] = field(default_factory=list)
    unreadable: list[StorageError] = field(default_factory=list)


def find_losses(path: str | os.PathLike[str], config: StoreConfig | None = None) -> list[OffsetLogError]:
    """Returns the losses that `accept_loss` would accept, as errors that were not raised.

    The call changes nothing and takes no lock.

    If the disk cannot read a log partition, the result contains a StorageError, which cannot be accepted.

    Args:
        path: the log directory.
        config: the settings.

    Raises:
        MissingFileError: the directory or its log does not exist.
        InvalidArgumentError, StorageError, CapacityError, CorruptionError: the log cannot be read.
    """
    directory = LogDirectory(path, FileSystem())
    found = _find(directory, config or StoreConfig(), _properties_of(directory))
    return [*found.losses, *found.unreadable.values()]


def _properties_of(directory: LogDirectory) -> Properties | None:
    directory.check_is_none_of_its_parts()
    if not directory.exists():
        raise MissingFileError("the directory does not exist", path=directory.path)
    properties = directory.known_properties()
    if properties is None and not directory.partition_numbers():
        raise MissingFileError("the directory holds no partition of the offsets topic", path=directory.path)
    return properties


@dataclass(frozen=True, slots=True)
class _Found:
    losses: list[OffsetLogError] = field(default_factory=list)
    known: list[list[LastKnown]] = field(default_factory=list)  # for each loss, the lost positions in a snapshot
    others_worked: set[int] = field(default_factory=set)  # the log partitions on which another program worked
    unreadable: dict[int, StorageError] = field(default_factory=dict)  # by log partition

    def add(self, loss: OffsetLogError, known: list[LastKnown]) -> None:
        self.losses.append(loss)
        self.known.append(known)


def _find(directory: LogDirectory, config: StoreConfig, properties: Properties | None) -> _Found:
    existing = None if properties is None else properties.existing
    # The log below a snapshot is read too, because damage there would appear once the snapshot is deleted.
    opener = PartitionOpener(directory, config, writable=False, existing=existing, use_snapshots=False)
    opened = OpenPartitions(opener)
    try:
        opened.open_all(directory.partition_numbers(), isolate=True)
        found = _Found(unreadable=opened.unreadable())
        for loss in (*opened.missing().values(), *opened.findings()):
            found.add(loss, [])
        for partition in opened.readable():
            _look_at(partition, directory.fs, found)
        return found
    finally:
        opened.abandon()


def _look_at(partition: Partition, fs: FileSystem, found: _Found) -> None:
    problems = partition.problems()
    failures = [problem for problem in problems if isinstance(problem, StorageError)]
    if failures:
        found.unreadable[partition.number] = failures[0]
        return
    for problem in problems:
        first = getattr(problem, "lost_from", None)
        below = getattr(problem, "lost_below", None)
        found.add(problem, [] if first is None else snapshots.last_known(partition, fs, first, below))
    if partition.recovery["others_worked"]:
        found.others_worked.add(partition.number)


def accept_loss(
    path: str | os.PathLike[str],
    config: StoreConfig | None = None,
    *,
    shown: Sequence[OffsetLogError] | None = None,
    lock_timeout: float = 0.0,
) -> AcceptedLoss:
    """Accepts that records are missing, so that the log partitions of a directory accept commits again.

    First, a report, `offsetlog-loss-<time>.json`, is written to the log directory.  It lists each loss with its log
    partition, its log offsets, and the positions that were committed there if a snapshot has them.  A copy of every
    file that changes is kept under another name.

    Args:
        path: the log directory.
        config: the settings with which the store is opened.
        shown: the losses that the user has agreed to accept, as `find_losses` returned them; None to accept every loss.
        lock_timeout: how many seconds to wait until a process that has the directory open for writing closes it.

    Returns:
        The accepted losses.  If nothing was wrong, `losses` is empty, and nothing was changed.

    Raises:
        LockedError: a process still has the directory open for writing after `lock_timeout`.
        MissingFileError: the directory does not exist or has no log.
        InvalidArgumentError: there are losses that `shown` does not list, or a setting is wrong; nothing was changed.
        StorageError, CapacityError, CorruptionError: a file cannot be read or written.  A second call continues the
            work.
    """
    seconds = arguments.checked_lock_timeout(lock_timeout)
    directory = LogDirectory(path, FileSystem())
    properties = _properties_of(directory)
    try:
        directory.lock(timeout_seconds=seconds)
    except LockedError as failure:
        raise failure.advise(f"stop it first; {WAITING_ADVICE}") from None
    try:
        found = _find(directory, config or StoreConfig(), properties)
        if not found.losses:
            return AcceptedLoss([], unreadable=[*found.unreadable.values()])
        _check_shown(found.losses, shown)
        return _accept(directory, config or StoreConfig(), properties, found)
    finally:
        directory.unlock()


def _check_shown(losses: list[OffsetLogError], shown: Sequence[OffsetLogError] | None) -> None:
    known = None if shown is None else [describe(each) for each in shown]
    for loss in losses:
        if known is not None and describe(loss) not in known:
            raise InvalidArgumentError(
                f"a loss is not in the list that was shown: {loss.message}; call find_losses() or `offsetlog repair` "
                "again",
                path=loss.path,
            )


def _accept(
    directory: LogDirectory, config: StoreConfig, properties: Properties | None, found: _Found
) -> AcceptedLoss:
    losses = found.losses
    now = datetime.now(UTC)
    report = directory.path / f"offsetlog-loss-{now:%Y%m%dT%H%M%S.%fZ}.json"
    content = json.dumps(_describe(directory, found, now), indent=1, ensure_ascii=False)
    directory.fs.replace_file(report, content.encode("utf-8", "surrogatepass"))
    present = directory.partition_numbers()
    concerned = {each.log_partition for each in losses if isinstance(each, CorruptionError)}
    numbers = [number for number in present if number in concerned]
    copies = [copy for number in numbers for copy in _keep_evidence(directory, number, f"{now:%Y%m%dT%H%M%S}")]
    directory.begin_writing()
    witnesses = Witnesses(directory, None if properties is None else properties.existing)
    ends: dict[int, int] = {}
    unreadable = dict(found.unreadable)
    for number in numbers:
        try:
            ends[number] = _repair(directory, config, witnesses, number)
        except StorageError as failure:
            # A partition that the disk cannot read does not stop the others.
            if not failure.is_unreadable:
                raise
            unreadable[number] = failure
    existing = witnesses.existing.intersection(present)
    if properties is not None:
        existing = existing.union(numbers)
        directory.write_properties(replace(properties, existing=existing))
    # The manifests of the other partitions do not record yet that another program worked on these partitions.
    others = found.others_worked.difference(ends).union(witnesses.worked_on(unreadable))
    if not witnesses.is_foreign:
        # In another program's directory, a record would claim that all partitions have our witnesses.
        directory.adopt_checkpoints({number: witnesses.of(number).cleaned_by_others for number in others}, existing)
    if properties is not None:
        directory.record_properties(properties)
    directory.forget_entries(CHECKPOINTS, witnesses.existing.difference(present))
    directory.finish(ends, sound=directory.was_clean and len(ends) == len(numbers))
    return AcceptedLoss(losses, report, copies, [*unreadable.values()])


def _repair(directory: LogDirectory, config: StoreConfig, witnesses: Witnesses, number: int) -> int:
    # Opens the log of one partition, which repairs it, and closes it; returns its log end.
    partition = Partition(
        directory.partition_path(number),
        number,
        directory.fs,
        Decompressor(config.decompressed_bytes_max),
        config,
        writable=True,
        recovery_point=witnesses.offset_in(RECOVERY_POINTS, number),
        log_start_offset=witnesses.offset_in(LOG_STARTS, number),
        witness=witnesses.of(number),
        accept_loss=True,
    )
    try:
        partition.load()
        partition.close()
    except BaseException:
        partition.abandon()
        raise
    return partition.closed_at


def _keep_evidence(directory: LogDirectory, number: int, stamp: str) -> list[Path]:
    # The snapshot is removed, because it has lost commits that no log has.
    kept = []
    for name in EVIDENCE:
        path = directory.partition_path(number) / name
        copy = untaken(directory.fs, path.with_name(f"{name}.accepted-{stamp}"))
        if not directory.fs.exists(path):
            continue
        if name == snapshots.FILE_NAME:
            directory.fs.rename(path, copy)
        else:
            directory.fs.replace_file(copy, directory.fs.read_file(path))
        kept.append(copy)
    return kept


# ------------------------------------------------------------------------------------------ the report


def kind_of(loss: OffsetLogError) -> str:
    """Returns the kind of a loss.

    "missing": acknowledged commits are missing.  "in doubt": commits may be missing.  "damaged": bytes of a log have
    changed.  "checkpoint": a file of the log directory is damaged.  "unreadable": the disk cannot read bytes; this loss
    cannot be accepted.
    """
    if isinstance(loss, StorageError):
        return "unreadable"
    if isinstance(loss, DataLossError):
        return "missing"
    if isinstance(loss, PossibleLossError):
        return "in doubt"
    return "damaged" if getattr(loss, "log_partition", None) is not None else "checkpoint"


def describe(loss: OffsetLogError) -> dict[str, Any]:
    """Returns a dictionary with a loss's kind, log_partition, lost_from, lost_below, file, position and reason."""
    return {
        "kind": kind_of(loss),
        "log_partition": getattr(loss, "log_partition", None),
        "lost_from": getattr(loss, "lost_from", None),
        "lost_below": getattr(loss, "lost_below", None),
        "file": loss.path,
        "position": loss.position,
        "reason": loss.message,
    }


def _describe(directory: LogDirectory, found: _Found, now: datetime) -> dict[str, Any]:
    described = []
    for loss, known in zip(found.losses, found.known, strict=True):
        row = describe(loss)
        if row["lost_from"] is not None:
            row["last_known"] = [each._asdict() for each in known]
        described.append(row)
    return {"accepted": now.isoformat(), "directory": str(directory.path), "losses": described}
