"""Is everything in a log directory sound?  Reads all of it, changes nothing.

Checked are batches and records (sizes, CRC, order, whether a broker would load them), the three
indexes of each segment, producer snapshots, leader epochs, topic ids, the checkpoints of the
directory, whether each group is in its partition, and that all ways to the state lead to the same
digest (docs/verify.md): a plain replay of the files, the engine's own loading, a replay of what the
cleaner would leave, and the snapshot with the log after it.

The traces of a crash are no damage: an unfinished tail, indexes that recovery makes again and
checkpoints that were not written are notes.  The directory of a running broker looks the same.
A checkpoint that says more than its log has is a problem, whatever the log ends with.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offsetlog._native.files import FileSystem, format_uuid, parse_offset_checkpoint
from offsetlog._native.replay import Replay
from offsetlog.cancellation import Control
from offsetlog.directory import checkpoint_record
from offsetlog.directory.completeness import BeyondEnd, LogEnd, beyond_ends
from offsetlog.directory.log_directory import (
    CLEAN_MARKER,
    CLEANER_POINTS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    PROPERTIES,
    RECOVERY_POINTS,
    TOPIC,
    Checkpoint,
    LogDirectory,
)
from offsetlog.directory.reading import find_partitions
from offsetlog.directory.witnesses import Witnesses
from offsetlog.errors import CorruptionError
from offsetlog.types import Digest, Way
from offsetlog.verify.findings import MISSING_KINDS, Finding, Place, Report
from offsetlog.verify.partition import (
    Around,
    PartitionCheck,
    Progress,
    check_partition,
    check_places,
)
from offsetlog.verify.side_files import read_optional

CHECKPOINTS = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_POINTS)
_SUM_MASK = (1 << 128) - 1


@dataclass(slots=True)
class Verification:
    """The result of a verification.

    Attributes:
        findings: problems and notes in the order in which they were found.
        partitions: partitions that were read.
        batches: batches that were read.
        records: records in them, those in wrapped messages too.
        positions: committed positions that they lead to.
        groups: groups that have one, by partition.
        digest: of all partitions (docs/digest.md).
        digest_physical: the same with log offsets.
        ways: the ways to the state of each partition that were compared, with their digests.
    """

    findings: list[Finding] = field(default_factory=list)
    partitions: int = 0
    batches: int = 0
    records: int = 0
    positions: int = 0
    groups: int = 0
    digest: Digest = Digest(0, 0, 0)  # noqa: RUF009  (a tuple)
    digest_physical: Digest = Digest(0, 0, 0)  # noqa: RUF009
    ways: list[Way] = field(default_factory=list)

    @property
    def problems(self) -> list[Finding]:
        """The findings that are problems."""
        return [each for each in self.findings if each.severity == "problem"]

    @property
    def sound(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def add(self, replay: Replay) -> None:
        """Counts a partition in."""
        self.partitions += 1
        self.batches += replay.batches
        self.records += replay.records
        self.positions += replay.position_count
        self.groups += len(replay.groups())
        self.digest = _sum(self.digest, replay.digest())
        self.digest_physical = _sum(self.digest_physical, replay.digest(physical=True))


def _sum(one: Digest, other: tuple[int, int, int]) -> Digest:
    return Digest(*((a + b) & _SUM_MASK for a, b in zip(one, other, strict=True)))


# ------------------------------------------------------------------------------------ the directory


class DirectoryCheck:
    """The verification of what lies beside the partitions, and of what concerns several of them.

    Beside a writer at work it is made before the ends of the logs are read: the checkpoints are
    those of that moment.
    """

    def __init__(self, path: Path, fs: FileSystem, report: Report) -> None:
        self.directory = LogDirectory(path, fs)
        self.fs = fs
        self.report = report
        self.place = Place(report, None)
        self.is_clean = fs.exists(path / CLEAN_MARKER)
        #: Why the number of partitions may be another than `partition_count` returned.
        self.doubt = ""
        self.witnesses = Witnesses(self.directory, self._existing())
        self.checkpoints = {name: self._read_checkpoint(path / name) for name in CHECKPOINTS}

    def _existing(self) -> frozenset[int] | None:
        try:
            properties = self.directory.read_properties()
        except CorruptionError:  # which is reported where the number of partitions is needed
            return None
        return None if properties is None else properties.existing

    def _read_checkpoint(self, path: Path) -> Checkpoint:
        content = read_optional(self.fs, path)
        if content is None:
            return {}
        try:
            return parse_offset_checkpoint(content)
        except CorruptionError as failure:
            self.place.stale(not self.is_clean, "checkpoint", failure, path)
            return {}

    def around(self, number: int | None) -> Around:
        """Returns what the directory says about a partition."""
        if number is None:
            return Around(self.is_clean)
        recovery_point, cleaned_to = (
            self.checkpoints[name].get((TOPIC, number), -1) for name in (RECOVERY_POINTS, CLEANER_POINTS)
        )
        return Around(self.is_clean, recovery_point, cleaned_to, self.witnesses.of(number))

    def check_witnesses(self, numbers: list[int]) -> None:
        """Reports directories of partitions, checkpoints and properties that are missing, and a damaged record."""
        for number, loss in self.witnesses.missing(numbers).items():
            Place(self.report, number).missing(loss)
        for failure in self.witnesses.findings:
            path = Path(failure.path or "")
            # Damaged checkpoints and properties are reported where they are read.
            if path.name == checkpoint_record.NAME or not self.fs.exists(path):
                kind = "properties" if path.name == PROPERTIES else "checkpoint"
                self.place.problem(kind, failure.message, path)

    def check_checkpoints(self, ends: Mapping[int, LogEnd], missing: Collection[int | None] = ()) -> None:
        """Compares the checkpoints with where the logs of partitions end: a log that lost its end is shorter.

        Args:
            ends: by log partition.
            missing: those whose end the recovery point shows to be missing.
        """
        for each in beyond_ends(self.checkpoints, ends, is_clean=self.is_clean):
            if each.name != RECOVERY_POINTS or each.number not in missing:
                self._report_beyond(each)

    def _report_beyond(self, each: BeyondEnd) -> None:
        path = self.directory.path / each.name
        Place(self.report, each.number).problem("checkpoint", each.reason, path, None, each.offset)

    def check_topic_ids(self, checks: list[PartitionCheck]) -> None:
        """Compares the topic ids of the partitions with each other."""
        ids: dict[bytes, list[PartitionCheck]] = {}
        for check in checks:
            if check.topic_id is not None:
                ids.setdefault(check.topic_id, []).append(check)
        if len(ids) < 2:
            return
        usual = max(ids, key=lambda topic_id: len(ids[topic_id]))
        for topic_id, others in ids.items():
            for check in others if topic_id != usual else []:
                check.place.problem(
                    "topic id",
                    f"{format_uuid(topic_id)} here, {format_uuid(usual)} in the other partitions",
                    check.files.directory or "",
                )

    def partition_count(self, given: int | None, numbers: list[int]) -> int | None:
        """Returns how many partitions the topic has, if that can be known; otherwise reports it."""
        try:
            self.directory.read_properties()
        except CorruptionError as failure:
            self.place.problem("properties", failure.message, self.directory.path / PROPERTIES)
        try:
            properties = self.directory.known_properties()
        except CorruptionError:  # no second copy either
            return given
        if properties is not None:
            if given is not None and given != properties.partitions:
                self.place.problem(
                    "partitions",
                    f"{given} was given, the directory says {properties.partitions}",
                    self.directory.path,
                )
            return properties.partitions
        if given is not None:
            return given
        if numbers == list(range(len(numbers))):
            self.doubt = ", as many as are in this directory; if the topic has more, give their number (--partitions)"
            return len(numbers)
        self.place.note(
            "partitions",
            "some partitions are elsewhere and nothing says how many there are, so the places of groups are not "
            "checked; give their number",
            self.directory.path,
        )
        return None


def verify(
    path: str | os.PathLike[str],
    partitions: int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
    control: Control | None = None,
) -> Verification:
    """Verifies a log directory, a partition directory or a segment file; changes nothing, takes no lock.

    Args:
        path: the directory to verify; of a segment file only its contents are.
        partitions: how many partitions the offsets topic has, where the directory does not say it.
        report: called with each finding as it is made.
        progress: called with the bytes read since the last call.
        control: stops it soon.

    Returns:
        Everything that was found.

    Raises:
        ClosedError: it was stopped.
        MissingFileError: there is nothing, or nothing of the offsets topic.
        InvalidArgumentError, StorageError, CapacityError: it cannot be read.
        CorruptionError: a single file was given that is no segment at all.
    """
    fs, path = FileSystem(), Path(path)
    found = Verification()

    def add(finding: Finding) -> None:
        found.findings.append(finding)
        if report is not None:
            report(finding)

    files = find_partitions(path)
    is_log_directory = not (len(files) == 1 and (files[0].directory is None or files[0].directory == path.absolute()))
    above = path.absolute() if is_log_directory else path.absolute().parent
    directory = DirectoryCheck(above, fs, add if is_log_directory else lambda _: None)
    numbers = [each.number for each in files if each.number is not None]
    count = directory.partition_count(partitions, numbers) if is_log_directory else partitions
    control = control if control is not None else Control()
    checks = []
    for each in files:
        around = Around() if each.directory is None else directory.around(each.number)
        check = check_partition(each, around, fs, add, progress or (lambda _: None), control)
        checks.append(check)
        found.add(check.replay)
        found.ways += check.ways.ways
        if count is not None and each.number is not None and count > 0:
            place = each.directory or each.segments[0]
            check_places(check.place, check.replay, each.number, count, place, directory.doubt)
    if is_log_directory:
        directory.check_witnesses(numbers)
        ends = {each.files.number: LogEnd(each.end, each.tail is not None) for each in checks}
        directory.check_checkpoints(
            {number: end for number, end in ends.items() if number is not None},
            {each.log_partition for each in found.findings if each.kind in MISSING_KINDS},
        )
        directory.check_topic_ids(checks)
    return found
