"""Checks whether a log directory holds all that it should, for code that reads it without opening a store.

The witnesses are the manifest and the sidecar of each log partition, the checkpoints, and the list of partitions
(docs/durability.md, "Complete or not").  The rules are the engine's (csrc/log/completeness.c).  If the files alone do
not prove that a log is complete, the engine opens the log for reading.  Nothing is changed, and no lock is taken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from offsetlog._native.decompress import Decompressor
from offsetlog._native.files import FileSystem, parse_manifest
from offsetlog._native.partition import Partition
from offsetlog.config import StoreConfig
from offsetlog.directory.log_directory import (
    CHECKPOINTS,
    CLEAN_MARKER,
    HIGH_WATERMARKS,
    LOG_STARTS,
    MANIFEST,
    PROPERTIES,
    RECOVERY_POINTS,
    TOPIC,
    Checkpoint,
    LogDirectory,
)
from offsetlog.directory.witnesses import Witness, Witnesses
from offsetlog.errors import CorruptionError, DataLossError, OffsetLogError, PossibleLossError

_SIDECAR = "offsetlog.flushed"
_OF_CRASH = " and is followed by bytes that are not a batch (from a crash or an unfinished copy)"
_TAIL = re.compile(rb"^tail (\d{1,19}) (\d{1,19}) (\d{1,19})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a log partition's log.

    Attributes:
        offset: the log offset after the last complete batch.
        has_tail: whether bytes that are not a batch follow, for example after a crash.
    """

    offset: int
    has_tail: bool = False


@dataclass(frozen=True, slots=True)
class BeyondEnd:
    """An entry of a checkpoint whose log offset is above the end of its log.

    Attributes:
        name: the name of the checkpoint.
        number: the number of the log partition.
        offset: the log offset in the entry.
        end: the end of the log.
        is_of_crash: whether a crash or an unfinished copy of the log can explain the entry.  This is so if the entry is
            a high watermark, the directory has no marker of a clean stop, and bytes that are not a batch follow the
            log.  The records up to the entry are missing in any case.
    """

    name: str
    number: int
    offset: int
    end: LogEnd
    is_of_crash: bool

    @property
    def reason(self) -> str:
        """The problem, in one sentence."""
        cause = _OF_CRASH if self.is_of_crash else ""
        end = f"the log ends at log offset {self.end.offset}{cause}"
        return f"the checkpoint says that the log reaches log offset {self.offset}, but {end}"


def beyond_ends(
    checkpoints: Mapping[str, Checkpoint], ends: Mapping[int, LogEnd], *, is_clean: bool, topic: str = TOPIC
) -> list[BeyondEnd]:
    """Returns the entries of checkpoints that are above the ends of their logs.

    Args:
        checkpoints: the entries by name of the checkpoint.
        ends: the ends by log partition; entries of other partitions are ignored.
        is_clean: whether the marker of a clean stop exists.
        topic: the topic of these log partitions.
    """
    found = []
    for name, entries in checkpoints.items():
        for (name_of_topic, number), offset in sorted(entries.items()):
            end = ends.get(number) if name_of_topic == topic else None
            if end is not None and offset > end.offset:
                is_of_crash = name == HIGH_WATERMARKS and not is_clean and end.has_tail
                found.append(BeyondEnd(name, number, offset, end, is_of_crash))
    return found


def is_witness_missing(loss: CorruptionError) -> bool:
    """Returns whether a problem is a missing or damaged manifest or sidecar, which does not prove that data is lost."""
    return isinstance(loss, PossibleLossError) and Path(loss.path or "").name in (MANIFEST, _SIDECAR)


def link_target(path: str | os.PathLike[str]) -> Path | None:
    """Returns the target of a partition's symbolic link; None if the files beside the link are to be used.

    A symbolic link can place a partition on another disk, in a directory that has its own checkpoints.  If the
    directory of the link has checkpoints or `offsetlog.properties`, those are used, and this function returns None.  It
    also returns None if `path` is not a symbolic link.
    """
    link = Path(path)
    names = (PROPERTIES, *CHECKPOINTS)
    if not link.is_symlink() or any((link.parent / name).exists() for name in names):
        return None
    return link.resolve()


class Completeness:
    """The witnesses of a log directory: files that say what it must hold.

    A caller must create this object before it lists the logs.

    Records that a writer appends later are above the recorded offsets, and are never reported as a loss.  Not
    thread-safe.
    """

    def __init__(self, path: str | os.PathLike[str], fs: FileSystem) -> None:
        """Reads the witnesses of the directory at `path`.

        Raises:
            StorageError: a file cannot be read.
        """
        self.directory = LogDirectory(Path(path), fs)
        self.is_clean = fs.exists(self.directory.path / CLEAN_MARKER)
        self.findings: list[OffsetLogError] = []
        self.witnesses = Witnesses(self.directory, self._existing())
        self._decompressor = Decompressor(StoreConfig().decompressed_bytes_max)

    def _existing(self) -> frozenset[int] | None:
        try:
            properties = self.directory.read_properties()
        except CorruptionError as failure:
            self.findings.append(failure)
            return None
        return None if properties is None else properties.existing

    def doubts(self) -> list[OffsetLogError]:
        """Returns the faults of the witnesses.  With a faulty witness, some losses are not detected.

        The faults are errors that were not raised.  A broker's directory has no witnesses except the checkpoints.
        """
        found = [*self.findings, *self.witnesses.findings]
        named = {Path(each.path or "").name for each in found}
        for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
            path = self.directory.path / name
            if name in named:
                continue
            if name in self.witnesses.damaged:
                found.append(CorruptionError("the checkpoint is empty or damaged: its entries are gone", path=path))
            elif self.witnesses.is_foreign and not self.directory.fs.exists(path):
                found.append(CorruptionError("the checkpoint is missing", path=path))
        return found

    def missing(self, numbers: Collection[int]) -> list[DataLossError]:
        """Returns an error for each log partition that must exist but is not among `numbers`."""
        found = self.witnesses.missing(list(numbers))
        return [found[number] for number in sorted(found)]

    def missing_of_others(self, numbers: Collection[int]) -> list[DataLossError]:
        """Returns an error for each log partition in another program's recovery points that is not among `numbers`.

        If this library wrote the directory, the result is empty, because `missing` already checks the library's own
        list of partitions.
        """
        if self.witnesses.existing:
            return []
        entries = self.directory.read_checkpoint(RECOVERY_POINTS)
        reached = {number: offset for (topic, number), offset in entries.items() if topic == TOPIC and offset > 0}
        return [
            DataLossError(
                "the directory of the log partition is missing, but "
                f"{RECOVERY_POINTS} says that its log reached log offset {reached[number]}",
                path=self.directory.partition_path(number),
                log_partition=number,
                lost_from=0,
                lost_below=reached[number],
            )
            for number in sorted(reached.keys() - set(numbers))
        ]

    def problems(self, number: int) -> list[OffsetLogError]:
        """Returns the losses, doubts and damage that the engine finds when it opens a log.

        The problems are errors that were not raised.  If another program wrote the log, the list is empty.  The log is
        not loaded.
        """
        is_known = number in self.witnesses.existing
        if not is_known and not self.directory.fs.exists(self.directory.partition_path(number) / MANIFEST):
            return []
        try:
            partition = self._open(number)
        except OffsetLogError as failure:
            return [failure]
        try:
            return list(partition.problems())
        finally:
            partition.abandon()

    def _open(self, number: int) -> Partition:
        return Partition(
            self.directory.partition_path(number),
            number,
            self.directory.fs,
            self._decompressor,
            StoreConfig(),
            writable=False,
            clean=self.is_clean,
            recovery_point=self.witnesses.offset_in(RECOVERY_POINTS, number),
            log_start_offset=self.witnesses.offset_in(LOG_STARTS, number),
            witness=self.witnesses.of(number),
        )

    def losses(self, number: int, segments: Mapping[int, int], end: LogEnd) -> list[CorruptionError]:
        """Returns the losses of a log partition that a reader of its files would not notice.

        Args:
            number: the number of the partition.
            segments: the bytes of each .log file by base offset, listed after the witnesses were read.
            end: the end of the log that a reader finds.
        """
        if self._is_as_closed(number, segments, end.offset):
            return []
        found = [
            each
            for each in self.problems(number)
            if isinstance(each, CorruptionError) and _is_out_of_sight(each, end.offset)
        ]
        # A doubt from one witness does not hide a loss that another one proves.
        if not any(isinstance(each, DataLossError) for each in found):
            found += self._beyond_end(number, end, found)
        return found

    def _beyond_end(self, number: int, end: LogEnd, found: list[CorruptionError]) -> list[CorruptionError]:
        said = {name: {(TOPIC, number): self.witnesses.offset_in(name, number)} for name in CHECKPOINTS}
        is_known = any(each.lost_from is not None and each.lost_from >= end.offset for each in found)
        beyond = [] if is_known else beyond_ends(said, {number: end}, is_clean=self.is_clean)
        # Only the most certain loss is reported.
        losses: list[CorruptionError] = [
            (PossibleLossError if each.is_of_crash else DataLossError)(
                f"the log ends at log offset {end.offset}{_OF_CRASH if each.is_of_crash else ''}, but {each.name} "
                f"says that it reaches log offset {each.offset}",
                path=self.directory.path / each.name,
                log_partition=number,
                lost_from=end.offset,
                lost_below=each.offset,
            )
            for each in sorted(beyond, key=lambda each: each.is_of_crash)
        ]
        return losses[:1]

    def _is_as_closed(self, number: int, segments: Mapping[int, int], end: int) -> bool:
        """Returns whether the files are those that a clean close listed in its manifest, so that nothing is missing.

        If nothing is missing, the engine need not open the log, and so need not read the active segment.
        """
        if not self.is_clean or self.findings or self.witnesses.findings:
            return False
        if not _is_undisturbed(self.witnesses.of(number)):
            return False
        if self.witnesses.offset_in(RECOVERY_POINTS, number) != end:
            return False
        content = self.directory.read_content(f"{TOPIC}-{number}/{MANIFEST}")
        return content is not None and _lists(content, segments, end)


def _is_undisturbed(witness: Witness) -> bool:
    return witness.witnessed and witness.changed_checkpoints == 0 and witness.cleaned_by_others < 0


def _lists(manifest: bytes, segments: Mapping[int, int], end: int) -> bool:
    """Returns whether a manifest proves that these segments, which end at `end`, are complete.

    The manifest must contain no doubt, must end at `end` and must list exactly these segments.  No segment may be
    shorter than the manifest says.
    """
    try:
        closed = parse_manifest(manifest)
    except CorruptionError:
        return False
    tail = _TAIL.search(manifest)
    if closed is None or tail is None or b"\ndoubt " in manifest:
        return False
    base, reached, size = (int(each) for each in tail.groups())
    listed = {**{first: length for first, _, length, _ in closed}, base: size}
    is_whole = all(segments.get(each, -1) >= length for each, length in listed.items())
    return reached == end and is_whole and len(segments) == len(listed)


def _is_out_of_sight(problem: CorruptionError, end: int) -> bool:
    """Returns whether a problem is invisible to a reader of the log: missing records, or damage past the log's end."""
    if isinstance(problem, (DataLossError, PossibleLossError)):
        return True
    return problem.lost_below is not None and problem.lost_below > end
