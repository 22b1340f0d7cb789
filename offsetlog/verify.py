"""Is everything in a log directory sound?  Reads all of it, changes nothing.

Checked are batches and records (sizes, CRC, order, whether a broker would load them), the three indexes of each
segment, producer snapshots, leader epochs, topic ids, the checkpoints of the directory, whether each group is in its
partition, and that two ways to the state, a plain replay of the files and the engine's own loading, lead to the same
digest.

What a crash leaves is no damage: an unfinished tail, indexes that recovery makes anew and checkpoints that were not
written are notes.  The directory of a running broker looks the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from offsetlog._native.codec import partition_for
from offsetlog._native.decompress import Decompressor
from offsetlog._native.files import FileSystem, format_uuid, parse_offset_checkpoint
from offsetlog._native.partition import Partition
from offsetlog._native.replay import Replay
from offsetlog.config import StoreConfig
from offsetlog.errors import CorruptionError, MissingFileError, OffsetLogError
from offsetlog.findings import Finding, Place, Report
from offsetlog.logdir import (
    CLEAN_MARKER,
    HIGH_WATERMARKS,
    LOG_STARTS,
    PROPERTIES,
    RECOVERY_POINTS,
    TOPIC,
    Checkpoint,
    LogDirectory,
)
from offsetlog.reading import (
    SEGMENT,
    PartitionFiles,
    PartitionState,
    Tail,
    age_text,
    decode_text,
    find_partitions,
    read_state,
    segments_of,
    transaction_rows,
)
from offsetlog.types import Digest
from offsetlog.verify_sidefiles import (
    BATCHES,
    EPOCHS,
    Segment,
    check_epochs,
    check_indexes,
    check_snapshot,
    read_optional,
    read_topic_id,
    snapshot_offsets,
)

CLEANER_POINTS = "cleaner-offset-checkpoint"
CHECKPOINTS = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_POINTS)
_SUM_MASK = (1 << 128) - 1

Progress = Callable[[int], None]


@dataclass(slots=True)
class Verification:
    """What was found.

    Attributes:
        findings: problems and notes in the order in which they were found.
        partitions: partitions that were read.
        batches: batches that were read.
        records: records in them, those in wrapped messages too.
        positions: committed positions that they lead to.
        groups: groups that have one, by partition.
        digest: of all partitions (docs/digest.md).
        digest_physical: the same with log offsets.
    """

    findings: list[Finding] = field(default_factory=list)
    partitions: int = 0
    batches: int = 0
    records: int = 0
    positions: int = 0
    groups: int = 0
    digest: Digest = Digest(0, 0, 0)  # noqa: RUF009  (a tuple)
    digest_physical: Digest = Digest(0, 0, 0)  # noqa: RUF009

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


@dataclass(frozen=True, slots=True)
class _Around:
    """What the directory above a partition says about it."""

    is_clean: bool = False
    recovery_point: int = -1


# -------------------------------------------------------------------------------------------------------- one partition


class _PartitionCheck:
    """The verification of one partition's files."""

    def __init__(
        self, files: PartitionFiles, around: _Around, fs: FileSystem, report: Report, progress: Progress
    ) -> None:
        self.files = files
        self.around = around
        self.fs = fs
        self.place = Place(self._tell, files.number)
        self.report = report
        self.told: set[tuple[str, int | None]] = set()
        self.tried: tuple[Path, int] | None = None
        self.topic_id: bytes | None = None
        self.progress = progress
        self.replay = Replay(fs)
        self.segments: list[Segment] = []
        self.snapshots = {} if files.directory is None else snapshot_offsets(fs, files.directory)
        self.producers: dict[int, list[tuple[int, int, int, int, int]]] = {}
        self.tail: Tail | None = None

    def _tell(self, finding: Finding) -> None:
        self.told.add((finding.path, finding.position))
        self.report(finding)

    @property
    def end(self) -> int:
        """Where the log ends, as far as it can be read."""
        empty = self.segments[-1].base_offset if self.segments else 0
        return max(self.replay.next_offset, empty)

    def run(self) -> None:
        """Reads and checks everything."""
        for index, path in enumerate(self.files.segments):
            self._read_segment(path, is_last=index == len(self.files.segments) - 1)
            self.progress(path.stat().st_size if path.exists() else 0)
        self._check_bounds()
        if self.tail is not None:
            self._tell_tail(self.tail)
        self._tell_transactions()
        if self.files.directory is None:
            return
        for segment in self.segments:
            check_indexes(self.place, self.fs, segment)
        self._check_snapshots()
        self._check_epochs(self.files.directory)
        self.topic_id = read_topic_id(self.place, self.fs, self.files.directory)
        self._check_second_way(self.files.directory)

    def _is_rebuilt(self, next_offset: int) -> bool:
        return not self.around.is_clean and next_offset > self.around.recovery_point

    def _read_segment(self, path: Path, *, is_last: bool) -> None:
        name = SEGMENT.fullmatch(path.name)
        base = int(name[1]) if name else 0
        if base < self.replay.next_offset:
            self.place.problem(
                "segment",
                f"the one before it ends below {self.replay.next_offset}, behind this one's name",
                path,
                None,
                base,
            )
        chunks, aborted, position = [], [], 0
        is_whole, damaged = True, 0
        step: int | None = 0
        while step is not None:
            found = self.replay.apply(path, position=step, snapshots=self._wanted(), batches=True)
            self.producers.update(found["producers"])
            chunks.append(np.frombuffer(found["batches"], BATCHES))
            aborted += found["aborted"]
            for refused in found["refused"]:
                self._problem("record", refused, path)
            position, damage, step = found["position"], found["damage"], None
            if damage is not None:
                step = self._damaged(path, found, damage, is_last=is_last)
                is_whole = is_whole and step == position
                damaged += step not in (None, position)
        batches = np.concatenate(chunks)
        if len(batches) and batches["base_offset"][0] < base:
            first = int(batches["base_offset"][0])
            self.place.problem("segment", f"its first batch has the offset {first}, below its name", path, 0, first)
        next_offset = max(self.replay.next_offset, base)
        # Bytes behind the whole batches are no hindrance to judging what stands before them.
        is_readable = is_whole or (self.tail is not None and self.tail.path == path and damaged == 0)
        self.segments.append(
            Segment(path, base, next_offset, position, batches, aborted, self._is_rebuilt(next_offset), is_readable)
        )

    def _wanted(self) -> list[int]:
        return [offset for offset in self.snapshots if offset not in self.producers]

    def _damaged(self, path: Path, found: dict[str, Any], damage: CorruptionError, *, is_last: bool) -> int | None:
        position: int = found["position"]
        size: int = found["size"]
        if position == 0 and not SEGMENT.fullmatch(path.name):
            raise CorruptionError(f"this is no segment of a log: {damage.message}", path=path, position=0)
        if self.tried != (path, position):
            # A writer at work may have filled the place since it was read.
            self.tried = (path, position)
            return position
        behind = self.replay.skip(path, position)
        if behind is None and is_last:
            zeros = self.replay.used(path, position) == position
            self.tail = Tail(path, position, size - position, zeros, damage, self.replay.next_offset)
        else:
            self._problem("batch", damage, path)
        return behind

    def _problem(self, kind: str, failure: OffsetLogError, path: Path) -> None:
        self.place.problem(kind, failure.message, failure.path or path, failure.position, failure.log_offset)

    def _check_bounds(self) -> None:
        for segment, later in itertools.pairwise(self.segments):
            if len(segment.batches) and int(segment.batches["last_offset"][-1]) >= later.base_offset:
                self.place.problem(
                    "segment",
                    f"its last batch ends with {segment.batches['last_offset'][-1]}, the next segment begins at "
                    f"{later.base_offset}",
                    segment.path,
                )

    def _tell_tail(self, tail: Tail) -> None:
        what = (
            f"{tail.size} zeros" if tail.zeros else f"{tail.size} bytes that are no whole batch ({tail.damage.message})"
        )
        if self.around.is_clean:
            self.place.problem(
                "unfinished tail",
                f"{what} behind the last batch, beside {CLEAN_MARKER}: a broker would append behind them",
                tail.path,
                tail.position,
                tail.log_offset,
            )
        elif tail.log_offset < self.around.recovery_point:
            self.place.problem(
                "batch",
                f"{what}, below the recovery point {self.around.recovery_point}: what stood there was on disk",
                tail.path,
                tail.position,
                tail.log_offset,
            )
        elif not tail.zeros:
            self.place.note(
                "unfinished tail",
                f"{what}; a crash leaves this, and the next writable open cuts it off",
                tail.path,
                tail.position,
                tail.log_offset,
            )

    def _tell_transactions(self) -> None:
        # In order as they are, but one that nobody will end holds what is behind it from being cleaned.
        path = self.files.directory or self.files.segments[0]
        for row in transaction_rows([PartitionState(self.files, self.replay)]):
            since = "" if row["age_seconds"] is None else f", open for {age_text(row['age_seconds'])}"
            groups = len(row["groups"])
            self.place.note(
                "open transaction",
                f"of producer {row['producer_id']}, log partition {self.files.number}{since}; pending offsets: "
                f"{row['pending']}" + (f" of {groups} group{'' if groups == 1 else 's'}" if groups else ""),
                path,
                None,
                row["first_offset"],
            )

    def _check_snapshots(self) -> None:
        for offset, path in sorted(self.snapshots.items()):
            is_rebuilt = self._is_rebuilt(offset)
            content = read_optional(self.fs, path)
            if content is None:
                continue
            if offset > self.end:
                failure = CorruptionError(f"it holds up to {offset}, the log ends at {self.end}")
                self.place.stale(is_rebuilt, "producer snapshot", failure, path)
                continue
            told = self.producers.get(offset)
            check_snapshot(
                self.place, path, content, self.replay.producers_now() if told is None else told, is_rebuilt=is_rebuilt
            )

    def _check_epochs(self, directory: Path) -> None:
        path = directory / EPOCHS
        content = read_optional(self.fs, path)
        if content is not None:
            check_epochs(self.place, path, content, self.segments, is_rebuilt=self._is_rebuilt(self.end))

    def _check_second_way(self, directory: Path) -> None:
        # The engine opens the directory itself, as a read-only store does, and must come to the same state.
        if not self.files.segments:
            return
        try:
            *sums, end = self._load(directory)
        except CorruptionError as failure:
            if failure.path not in {path for path, _ in self.told}:
                self._problem("partition", failure, directory)
            return
        if tuple(sums) == self.replay.digest(physical=True):
            return
        again = read_state(PartitionFiles(self.files.number, directory, segments_of(directory))).replay
        if end != self.end or again.next_offset != self.replay.next_offset:
            self.place.note(
                "digest", "the log grew while it was read, so two ways to its state could not be compared", directory
            )
        else:
            self.place.problem(
                "digest", "loading the partition and replaying its files lead to different states", directory
            )

    def _load(self, directory: Path) -> tuple[int, int, int, int]:
        """Returns the sums of the physical digest that the engine comes to, and how far it read."""
        partition = Partition(
            directory,
            self.files.number or 0,
            self.fs,
            Decompressor(),
            StoreConfig(),
            writable=False,
            clean=self.around.is_clean,
            recovery_point=self.around.recovery_point,
        )
        try:
            partition.load()
            corruption = partition.recovery["corruption"]
            if corruption is not None and (corruption.path, corruption.position) not in self.told:
                self._problem("batch", corruption, directory)
            return partition.digest(True)
        finally:
            partition.abandon()


# -------------------------------------------------------------------------------------------------------- the directory


class _DirectoryCheck:
    """The verification of what lies beside the partitions, and of what concerns several of them."""

    def __init__(self, path: Path, fs: FileSystem, report: Report) -> None:
        self.directory = LogDirectory(path, fs)
        self.fs = fs
        self.place = Place(report, None)
        self.is_clean = fs.exists(path / CLEAN_MARKER)
        self.checkpoints = {name: self._read_checkpoint(path / name) for name in CHECKPOINTS}

    def _read_checkpoint(self, path: Path) -> Checkpoint:
        content = read_optional(self.fs, path)
        if content is None:
            return {}
        try:
            return parse_offset_checkpoint(content)
        except CorruptionError as failure:
            self.place.stale(not self.is_clean, "checkpoint", failure, path)
            return {}

    def around(self, number: int | None) -> _Around:
        """Returns what the directory says about a partition."""
        if number is None:
            return _Around(self.is_clean)
        return _Around(self.is_clean, self.checkpoints[RECOVERY_POINTS].get((TOPIC, number), -1))

    def check_checkpoints(self, checks: list[_PartitionCheck]) -> None:
        """Compares the checkpoints with where the logs end."""
        ends = {check.files.number: check for check in checks}
        for name, entries in self.checkpoints.items():
            for (topic, number), offset in sorted(entries.items()):
                if topic == TOPIC and number in ends:
                    self._check_offset(name, ends[number], offset)

    def _check_offset(self, name: str, check: _PartitionCheck, offset: int) -> None:
        if offset <= check.end:
            return
        place, path = check.place, self.directory.path / name
        reason = f"it says {offset}, the log ends at {check.end}"
        if name == HIGH_WATERMARKS and not self.is_clean and check.tail is not None:
            place.note("checkpoint", f"{reason} behind which a crash left an unfinished tail", path, None, offset)
        else:
            place.problem("checkpoint", reason, path, None, offset)

    def check_topic_ids(self, checks: list[_PartitionCheck]) -> None:
        """Compares the topic ids of the partitions with each other."""
        ids: dict[bytes, list[_PartitionCheck]] = {}
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
        """Returns how many partitions the topic has, as far as that can be known; tells where it cannot."""
        try:
            properties = self.directory.read_properties()
        except CorruptionError as failure:
            self.place.problem("properties", failure.message, self.directory.path / PROPERTIES)
            return given
        if properties is not None:
            if given is not None and given != properties.partitions:
                self.place.problem(
                    "partitions", f"{given} was given, the directory says {properties.partitions}", self.directory.path
                )
            return properties.partitions
        if given is not None:
            return given
        if numbers == list(range(len(numbers))):
            return len(numbers)
        self.place.note(
            "partitions",
            "some partitions are elsewhere and nothing says how many there are, so the places of groups are not "
            "checked; give their number",
            self.directory.path,
        )
        return None


def check_places(place: Place, replay: Replay, number: int, count: int, path: Path) -> None:
    """Reports the groups of a partition that belong into another one; a broker does not serve them here."""
    for name in sorted({*replay.groups(), *replay.pending_groups()}):
        right = partition_for(name, count)
        if right != number:
            place.problem(
                "wrong partition",
                f"the group {decode_text(name)!r} belongs into {TOPIC}-{right} of {count} partitions",
                path,
                None,
                min((position[-1] for position in replay.positions(name)), default=None),
            )


def verify(
    path: Path, partitions: int | None = None, report: Report | None = None, progress: Progress | None = None
) -> Verification:
    """Verifies a log directory, a partition directory or a segment file; changes nothing, takes no lock.

    Args:
        path: what is verified; of a segment file only what stands in it.
        partitions: how many partitions the offsets topic has, where the directory does not say it.
        report: called with each finding as it is made.
        progress: called with the bytes read since the last call.

    Returns:
        Everything that was found.

    Raises:
        MissingFileError: there is nothing, or nothing of the offsets topic.
        InvalidArgumentError, StorageError, CapacityError: it cannot be read.
        CorruptionError: a single file was given that is no segment at all.
    """
    fs = FileSystem()
    found = Verification()

    def add(finding: Finding) -> None:
        found.findings.append(finding)
        if report is not None:
            report(finding)

    files = find_partitions(path)
    is_log_directory = not (len(files) == 1 and (files[0].directory is None or files[0].directory == path.absolute()))
    above = path.absolute() if is_log_directory else path.absolute().parent
    directory = _DirectoryCheck(above, fs, add if is_log_directory else lambda _: None)
    numbers = [each.number for each in files if each.number is not None]
    count = directory.partition_count(partitions, numbers) if is_log_directory else partitions
    checks = []
    for each in files:
        check = _check_partition(each, directory, fs, add, progress or (lambda _: None))
        checks.append(check)
        found.add(check.replay)
        if count is not None and each.number is not None and count > 0:
            check_places(check.place, check.replay, each.number, count, each.directory or each.segments[0])
    if is_log_directory:
        directory.check_checkpoints(checks)
        directory.check_topic_ids(checks)
    return found


def _check_partition(
    files: PartitionFiles, directory: _DirectoryCheck, fs: FileSystem, report: Report, progress: Progress
) -> _PartitionCheck:
    # A running broker's cleaner may take a segment away under the reader: then the partition is read once more.
    around = _Around() if files.directory is None else directory.around(files.number)
    for left in (1, 0):
        kept: list[Finding] = []
        check = _PartitionCheck(files, around, fs, kept.append, progress)
        try:
            check.run()
        except MissingFileError:
            if left == 0 or files.directory is None:
                raise
            files = PartitionFiles(files.number, files.directory, segments_of(files.directory))
            continue
        for finding in kept:
            report(finding)
        check.report = report
        return check
    raise AssertionError("the loop returns or raises")


# -------------------------------------------------------------------------------------------------------- an open store


def verify_store(partitions: list[Partition], fs: FileSystem, config: StoreConfig, count: int) -> list[OffsetLogError]:
    """Reads the files of open partitions again and compares them with their states in memory; `OffsetStore.verify`.

    What is committed meanwhile is left to the next time: each partition is compared as of one log offset.
    """
    found: list[OffsetLogError] = []

    def add(finding: Finding) -> None:
        found.append(
            CorruptionError(
                f"{finding.kind}: {finding.reason}",
                path=finding.path,
                position=finding.position,
                log_offset=finding.log_offset,
            )
        )

    for partition in partitions:
        directory = Path(partition.path)
        place = Place(add, partition.number)
        *sums, end = partition.digest(True)
        replay = Replay(fs, Decompressor(config.decompressed_bytes_max))
        for failure in _replay_until(replay, fs, directory, end):
            place.problem("batch", failure.message, failure.path or directory, failure.position, failure.log_offset)
        if tuple(sums) != replay.digest(physical=True):
            place.problem("digest", "a replay of the log leads to another state than the one in memory", directory)
        check_places(place, replay, partition.number, count, directory)
    return found


def _replay_until(replay: Replay, fs: FileSystem, directory: Path, end: int) -> list[OffsetLogError]:
    failures: list[OffsetLogError] = []
    for name in fs.list(directory):
        if not SEGMENT.fullmatch(name):
            continue
        position: int | None = 0
        while position is not None:
            step = replay.apply(directory / name, position=position, until=end)
            failures += step["refused"]
            position = None
            if step["damage"] is not None and replay.next_offset < end:
                failures.append(step["damage"])
                position = replay.skip(directory / name, step["position"])
    return failures
