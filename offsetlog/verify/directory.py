"""Verifies a log directory: reads all of it, changes nothing.

The verification checks the sizes, the CRCs and the order of batches and records, and whether a broker would load them.
It checks the three indexes of each segment, the producer snapshots, the leader epochs, the topic ids and the
checkpoints of the directory.  It also checks that each group is in its log partition.

It computes the state of each partition in four ways, which must give the same digest (docs/verify.md):

* a replay of the files;
* the engine's own load;
* a replay of the records that the cleaner would keep;
* the snapshot and the log after it.

Traces of a crash are notes, not problems: an unfinished tail, indexes that recovery will rebuild, and checkpoints that
were not written.  The directory of a running broker has the same traces.  A checkpoint above the end of its log is
always a problem.
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
        findings: problems and notes, in the order in which they were found.
        partitions: the number of partitions that were read.
        batches: the number of batches that were read.
        records: the number of records in these batches, including those in wrapped messages.
        positions: the number of committed positions in the state after these records.
        groups: the number of groups with a position, summed over the partitions.
        digest: the digest of all partitions (docs/digest.md).
        digest_physical: the digest of all partitions with log offsets.
        ways: the ways in which the state of each partition was computed for the comparison, with their digests.
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
        """Whether no finding is a problem."""
        return not self.problems

    def add(self, replay: Replay) -> None:
        """Adds the counts of a partition."""
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
    """Verifies the files beside the partitions, and the relations between partitions.

    This object reads the checkpoints when it is created.  If a process may be writing, create the object before the
    ends of the logs are read.
    """

    def __init__(self, path: Path, fs: FileSystem, report: Report) -> None:
        self.directory = LogDirectory(path, fs)
        self.fs = fs
        self.report = report
        self.place = Place(report, None)
        self.is_clean = fs.exists(path / CLEAN_MARKER)
        #: The reason why the number of partitions may differ from the result of `partition_count`.
        self.doubt = ""
        self.witnesses = Witnesses(self.directory, self._existing())
        self.checkpoints = {name: self._read_checkpoint(path / name) for name in CHECKPOINTS}

    def _existing(self) -> frozenset[int] | None:
        try:
            properties = self.directory.read_properties()
        except CorruptionError:  # reported where the number of partitions is needed
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
        """Returns the directory's records about a partition."""
        if number is None:
            return Around(self.is_clean)
        recovery_point, cleaned_to = (
            self.checkpoints[name].get((TOPIC, number), -1) for name in (RECOVERY_POINTS, CLEANER_POINTS)
        )
        return Around(self.is_clean, recovery_point, cleaned_to, self.witnesses.of(number))

    def check_witnesses(self, numbers: list[int]) -> None:
        """Reports missing partition directories, checkpoints and properties, and a damaged record."""
        for number, loss in self.witnesses.missing(numbers).items():
            Place(self.report, number).missing(loss)
        for failure in self.witnesses.findings:
            path = Path(failure.path or "")
            # Damaged checkpoints and properties are reported where they are read.
            if path.name == checkpoint_record.NAME or not self.fs.exists(path):
                kind = "properties" if path.name == PROPERTIES else "checkpoint"
                self.place.problem(kind, failure.message, path)

    def check_checkpoints(self, ends: Mapping[int, LogEnd], missing: Collection[int | None] = ()) -> None:
        """Compares the checkpoints with the ends of the logs, to find logs that have lost their last records.

        Args:
            ends: the ends by log partition.
            missing: log partitions that were already reported because records are or may be missing.  Their recovery
                points are not reported.
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
                    f"the topic id is {format_uuid(topic_id)} in this partition, but {format_uuid(usual)} in others",
                    check.files.directory or "",
                )

    def partition_count(self, given: int | None, numbers: list[int]) -> int | None:
        """Returns the number of partitions of the topic; reports a finding if it cannot be determined."""
        try:
            self.directory.read_properties()
        except CorruptionError as failure:
            self.place.problem("properties", failure.message, self.directory.path / PROPERTIES)
        try:
            properties = self.directory.known_properties()
        except CorruptionError:  # there is no second copy either
            return given
        if properties is not None:
            if given is not None and given != properties.partitions:
                self.place.problem(
                    "partitions",
                    f"partitions={given} was given, but the directory has {properties.partitions} partitions",
                    self.directory.path,
                )
            return properties.partitions
        if given is not None:
            return given
        if numbers == list(range(len(numbers))):
            self.doubt = " (as many as this directory has; if the topic has more, give their number with --partitions)"
            return len(numbers)
        self.place.note(
            "partitions",
            "cannot check whether each group is in the right partition: some partitions are missing, and the number "
            "of partitions is not recorded; give the number with --partitions",
            self.directory.path,
        )
        return None

    def check_partition_count(self, count: int, misplaced: int, groups: int) -> None:
        """Reports that the number of partitions itself is probably wrong, if it is wrong for a quarter of the groups.

        If the number is twice the right one, half of the groups are misplaced; a wrong group here and there is an
        exception that has its own finding.

        Args:
            count: the number of partitions.
            misplaced: the number of groups that are not in the log partition where this number puts them.
            groups: the number of groups.
        """
        if misplaced < 2 or 4 * misplaced < groups:
            return
        is_recorded = self.fs.exists(self.directory.path / PROPERTIES)
        remedy = f"correct it in {PROPERTIES}" if is_recorded else "give the right number with --partitions"
        self.place.problem(
            "partitions",
            f"{misplaced} of {groups} groups are not in the log partition where {count} partitions put them, so "
            f"{count} is probably not the number of partitions of the topic; {remedy}",
            self.directory.path,
        )


def verify(
    path: str | os.PathLike[str],
    partitions: int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
    control: Control | None = None,
) -> Verification:
    """Verifies a log directory, a partition directory or a segment file; changes nothing, takes no lock.

    Args:
        path: the directory or segment file to verify; for a segment file, only its contents are checked.
        partitions: the number of partitions of the offsets topic, if the directory does not record it.
        report: called with each finding as it is made.
        progress: called with the bytes read since the last call.
        control: the control that stops the verification.

    Returns:
        Everything that was found.

    Raises:
        ClosedError: the verification was stopped.
        MissingFileError: the path does not exist, or holds no partition of the offsets topic.
        InvalidArgumentError: the path is a partition of another topic.
        StorageError, CapacityError: a file cannot be read, or memory ran out.
        CorruptionError: the path is a single file, and it is not a log segment.
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
    checks, groups, misplaced = [], 0, 0
    for each in files:
        around = Around() if each.directory is None else directory.around(each.number)
        check = check_partition(each, around, fs, add, progress or (lambda _: None), control)
        checks.append(check)
        found.add(check.replay)
        found.ways += check.ways.ways
        if count is not None and each.number is not None and count > 0:
            place = each.directory or each.segments[0]
            here = check_places(check.place, check.replay, each.number, count, place, directory.doubt)
            groups, misplaced = groups + here[0], misplaced + here[1]
    if is_log_directory:
        directory.check_witnesses(numbers)
        ends = {each.files.number: LogEnd(each.end, each.tail is not None) for each in checks}
        directory.check_checkpoints(
            {number: end for number, end in ends.items() if number is not None},
            {each.log_partition for each in found.findings if each.kind in MISSING_KINDS},
        )
        if count is not None:
            directory.check_partition_count(count, misplaced, groups)
        directory.check_topic_ids(checks)
    return found
