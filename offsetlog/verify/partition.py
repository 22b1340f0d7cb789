"""Verifies one partition of a log directory: reads all of it, changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from offsetlog._native import snapshot
from offsetlog._native.codec import partition_for
from offsetlog._native.decompress import Decompressor
from offsetlog._native.files import FileSystem
from offsetlog._native.log_view import LogView
from offsetlog._native.partition import Partition
from offsetlog._native.replay import Replay
from offsetlog._native.state_diff import cut
from offsetlog.cancellation import Control
from offsetlog.config import StoreConfig
from offsetlog.directory import snapshots
from offsetlog.directory.listing import decode_text, transaction_rows
from offsetlog.directory.log_directory import CLEAN_MARKER, MANIFEST, TOPIC
from offsetlog.directory.reading import PartitionFiles, PartitionState, Tail, age_text, is_rolled_space
from offsetlog.directory.segments import base_offset_of, segments_of
from offsetlog.directory.witnesses import Witness
from offsetlog.errors import (
    CorruptionError,
    DataLossError,
    MissingFileError,
    PossibleLossError,
    StorageError,
)
from offsetlog.verify.findings import Finding, Place, Report
from offsetlog.verify.replays import WaysCheck, replay_cleaned_log, replay_files
from offsetlog.verify.side_files import (
    BATCHES,
    EPOCHS,
    Segment,
    check_epochs,
    check_floor,
    check_indexes,
    check_manifest,
    check_snapshot,
    cut_offsets,
    read_optional,
    read_topic_id,
    snapshot_offsets,
)

Progress = Callable[[int], None]

#: How often a partition is read if it is cleaned meanwhile.
CHECK_TRIES = 5


@dataclass(frozen=True, slots=True)
class Around:
    """The facts about one partition in the files of its log directory: clean marker, checkpoints, witness."""

    is_clean: bool = False
    recovery_point: int = -1
    cleaned_to: int = -1
    witness: Witness | None = None


def report_corruption(
    place: Place, partition: Partition, reported: Collection[tuple[str | None, int | None]]
) -> None:
    """Reports the corruption that an open found, unless its path and position are in `reported`.

    A replay does not know up to which log offset the log is flushed, so it may take corruption for an unfinished tail.
    """
    found = partition.recovery["corruption"]
    if found is None or (found.path, found.position) in reported:
        return
    # The partition's problem at the same position also has the log offsets.
    same = (each for each in partition.problems() if (each.path, each.position) == (found.path, found.position))
    place.failure("batch", next(same, found), partition.path)


class PartitionCheck:
    """Verifies the files of one partition."""

    def __init__(
        self,
        files: PartitionFiles,
        around: Around,
        fs: FileSystem,
        report: Report,
        progress: Progress,
        control: Control,
    ) -> None:
        self.files = files
        self.around = around
        self.fs = fs
        self.place = Place(self._record, files.number)
        self.report = report
        self.reported: set[tuple[str, int | None]] = set()
        self.tried: tuple[Path, int] | None = None
        self.followed: tuple[Path, int] | None = None
        self.topic_id: bytes | None = None
        self.progress = progress
        self.control = control
        self.replay = Replay(fs, stop=control.flag)
        self.segments: list[Segment] = []
        self.snapshots = {} if files.directory is None else snapshot_offsets(fs, files.directory)
        self.producers: dict[int, list[tuple[int, int, int, int, int]]] = {}
        self.tail: Tail | None = None
        self.manifest: bytes | None = None
        self.identity = FilesIdentity(files.segments)
        self.ways = WaysCheck(self.place, files.directory or files.segments[0])

    def _record(self, finding: Finding) -> None:
        self.reported.add((finding.path, finding.position))
        self.report(finding)

    @property
    def end(self) -> int:
        """The end of the log, as far as the log can be read."""
        empty = self.segments[-1].base_offset if self.segments else 0
        return max(self.replay.next_offset, empty)

    def run(self) -> None:
        """Reads and checks everything."""
        if self.files.directory is not None:
            self.manifest = read_optional(self.fs, self.files.directory / MANIFEST)
        paths = self.files.segments
        for path, following in itertools.zip_longest(paths, paths[1:]):
            self.control.check()
            if self._could_read(partial(self._read_segment, path, following)):
                self.progress(self.segments[-1].size)
        self._check_bounds()
        self._report_transactions()
        if self.files.directory is not None:
            self._check_directory(self.files.directory)
        # This is done after the engine's open.  The engine knows the flushed log offset, and may report these bytes as
        # damage instead of a tail.
        if self.tail is not None and (str(self.tail.path), self.tail.position) not in self.reported:
            self._report_tail(self.tail)

    def _check_directory(self, directory: Path) -> None:
        names = dict(self.fs.planned_names(directory))
        for segment in self.segments:
            self._could_read(partial(check_indexes, self.place, self.fs, segment, names))
        self._could_read(self._check_snapshots)
        self._could_read(partial(self._check_epochs, directory))
        self._could_read(partial(self._check_manifest, directory))
        self._could_read(partial(check_floor, self.place, self.fs, directory))
        self._could_read(partial(self._read_topic_id, directory))
        if self.files.segments:
            self._check_ways(directory)

    def _could_read(self, check: Callable[[], None]) -> bool:
        """Runs a check. If the disk cannot read the bytes that it needs, reports that and returns False."""
        try:
            check()
        except StorageError as failure:
            if not failure.is_unreadable:
                raise
            self._report_unreadable(failure)
            return False
        return True

    def _report_unreadable(self, failure: StorageError) -> None:
        path = failure.path or str(self.files.directory or self.files.segments[0])
        if (path, failure.position) not in self.reported:
            self.place.failure("unreadable", failure, path)

    def _check_manifest(self, directory: Path) -> None:
        check_manifest(
            self.place, self.fs, directory, self.segments, self.manifest, partial(self._bound_from, directory)
        )

    def _bound_from(self, directory: Path) -> int:
        """Returns the log offset from which on the log must match the manifest.

        Below that log offset, another program may have cleaned the log.
        """
        partition = self._open(directory)
        try:
            is_others = partition.recovery["others_worked"]
        finally:
            partition.abandon()
        witness = self.around.witness
        return witness.cleaned_by_others if is_others and witness is not None else -1

    def _read_topic_id(self, directory: Path) -> None:
        self.topic_id = read_topic_id(self.place, self.fs, directory)

    def run_unchanged(self) -> bool:
        """Does the work of `run`; returns whether the log stayed unchanged, so that the ways could be compared."""
        try:
            self.run()
        except LogChangedError:
            return False
        return True

    def _is_rebuilt(self, next_offset: int) -> bool:
        return not self.around.is_clean and next_offset > self.around.recovery_point

    def _read_segment(self, path: Path, after: Path | None) -> None:
        base = base_offset_of(path) or 0
        if base < self.replay.next_offset:
            self.place.problem(
                "segment",
                f"it starts at log offset {base}, but the previous segment has records up to log offset "
                f"{self.replay.next_offset - 1}",
                path,
                None,
                base,
            )
        chunks, aborted, position = [], [], 0
        is_whole, damaged = True, 0
        step: int | None = 0
        while step is not None:
            found = self.replay.apply(
                path, position=step, snapshots=self._wanted(), batches=True, unreadable=True
            )
            self.producers.update(found["producers"])
            chunks.append(np.frombuffer(found["batches"], BATCHES))
            aborted += found["aborted"]
            for refused in found["refused"]:
                self.place.failure("record", refused, path)
            position, damage, step = found["position"], found["damage"], None
            if isinstance(damage, StorageError):
                self.place.failure("batch", damage, path)
                step = self.replay.skip(path, position, unreadable=True)
                is_whole, damaged = False, damaged + 1
            elif damage is not None:
                step = self._damaged(path, found, damage, after)
                is_whole = is_whole and step == position
                damaged += step not in (None, position)
        batches = np.concatenate(chunks)
        if len(batches) and batches["base_offset"][0] < base:
            first = int(batches["base_offset"][0])
            self.place.problem(
                "segment",
                f"its first batch begins at log offset {first}, which is below the offset in the file name",
                path,
                0,
                first,
            )
        next_offset = max(self.replay.next_offset, base)
        # Bytes after the complete batches do not prevent a check of the batches before them.
        is_readable = is_whole or (
            self.tail is not None and self.tail.path == path and damaged == 0
        )
        self.segments.append(
            Segment(
                path,
                base,
                next_offset,
                position,
                batches,
                aborted,
                self._is_rebuilt(next_offset),
                is_readable,
            )
        )

    def _wanted(self) -> list[int]:
        return [offset for offset in self.snapshots if offset not in self.producers]

    def _damaged(
        self, path: Path, found: dict[str, Any], damage: CorruptionError, after: Path | None
    ) -> int | None:
        position: int = found["position"]
        size: int = found["size"]
        if position == 0 and base_offset_of(path) is None:
            raise CorruptionError(
                f"not a log segment: {damage.message}", path=path, position=0
            )
        if self.tried != (path, position):
            # A running writer may have written here since these bytes were read.
            self.tried = (path, position)
            return position
        following = self.replay.skip(path, position, unreadable=True)
        zeros = following is None and self.replay.used(path, position) == position
        if not zeros and self.followed != (path, position):
            # These bytes or later ones may have been written meanwhile; a writer writes positions
            # in ascending order.
            self.followed = (path, position)
            return position
        if zeros and not self.around.is_clean and is_rolled_space(self.replay.next_offset, after):
            self.place.note(
                "unfinished tail",
                f"{size - position} zeros after the last batch: preallocated space of a roll that has not finished",
                path,
                position,
                self.replay.next_offset,
            )
        elif after is None and (following is None or self._was_being_cut()):
            following = None
            self.tail = Tail(
                path, position, size - position, zeros, damage, self.replay.next_offset
            )
        else:
            self.place.failure("batch", damage, path)
        return following

    def _was_being_cut(self) -> bool:
        # The batches from here on are then those that the unfinished truncation was to remove
        # (csrc/log/truncate.c).
        directory = self.files.directory
        return directory is not None and any(
            offset <= self.replay.next_offset for offset in cut_offsets(self.fs, directory)
        )

    def _check_bounds(self) -> None:
        for segment, later in itertools.pairwise(self.segments):
            if (
                len(segment.batches)
                and int(segment.batches["last_offset"][-1]) >= later.base_offset
            ):
                self.place.problem(
                    "segment",
                    f"its last batch ends at log offset {segment.batches['last_offset'][-1]}, but the next segment "
                    f"begins at log offset {later.base_offset}",
                    segment.path,
                )

    def _report_tail(self, tail: Tail) -> None:
        what = (
            f"{tail.size} zeros"
            if tail.zeros
            else f"{tail.size} bytes that are not a whole batch ({tail.damage.message})"
        )
        if self.around.is_clean:
            self.place.problem(
                "unfinished tail",
                f"{what} after the last batch. Because {CLEAN_MARKER} exists, a broker would append after these bytes "
                "instead of removing them",
                tail.path,
                tail.position,
                tail.log_offset,
            )
        elif tail.log_offset < self.around.recovery_point:
            self.place.problem(
                "batch",
                f"{what} after the last batch, below the recovery point {self.around.recovery_point}. Below this "
                "point, the log was flushed, so this is damage and not an unfinished write",
                tail.path,
                tail.position,
                tail.log_offset,
            )
        elif not tail.zeros:
            self.place.note(
                "unfinished tail",
                f"{what} after the last batch, as a crash or an unfinished write leaves; the next open for writing "
                "copies these bytes to a file `broken-...` and removes them",
                tail.path,
                tail.position,
                tail.log_offset,
            )

    def _report_transactions(self) -> None:
        # Open transactions are not faults, but one that never ends keeps every later record from
        # being cleaned.
        path = self.files.directory or self.files.segments[0]
        for row in transaction_rows([PartitionState(self.files, self.replay)]):
            since = (
                "" if row["age_ms"] is None else f", open for {age_text(row['age_ms'] / 1000)}"
            )
            groups = len(row["group_names"])
            self.place.note(
                "open transaction",
                f"of producer {row['producer_id']}, log partition {self.files.number}{since}; pending offsets: "
                f"{row['pending_offsets']}"
                + (f" of {groups} group{'' if groups == 1 else 's'}" if groups else ""),
                path,
                None,
                row["first_log_offset"],
            )

    def _check_snapshots(self) -> None:
        for offset, path in sorted(self.snapshots.items()):
            is_rebuilt = self._is_rebuilt(offset)
            content = read_optional(self.fs, path)
            if content is None:
                continue
            if offset > self.end:
                failure = CorruptionError(f"its offset is {offset}, but the log ends at {self.end}")
                self.place.stale(is_rebuilt, "producer snapshot", failure, path)
                continue
            producers = self.producers.get(offset)
            check_snapshot(
                self.place,
                path,
                content,
                self.replay.producers_now() if producers is None else producers,
                is_rebuilt=is_rebuilt,
                may_be_torn=not self.around.is_clean or offset < max(self.snapshots),
            )

    def _check_epochs(self, directory: Path) -> None:
        path = directory / EPOCHS
        content = read_optional(self.fs, path)
        if content is not None:
            check_epochs(
                self.place, path, content, self.segments, is_rebuilt=self._is_rebuilt(self.end)
            )

    # ---------------------------------------------------------------------------- ways to the state

    def _check_ways(self, directory: Path) -> None:
        self.ways.went("replay", self.replay.digest(physical=True), self.end)
        # The engine opens the directory itself, as a read-only store does, and must reach the same
        # state.
        try:
            partition = self._open(directory)
        except (CorruptionError, StorageError) as failure:
            if isinstance(failure, StorageError) and not failure.is_unreadable:
                raise
            self.ways.left_out("loaded", failure.message)
            if failure.path not in {path for path, _ in self.reported}:
                self.place.failure("partition", failure, directory)
            return
        try:
            partition.load()
            report_corruption(self.place, partition, self.reported)
            self._report_missing(partition)
            self._compare("loaded", partition)
            self._check_cleaned(directory, partition)
        finally:
            partition.abandon()
        self._could_read(partial(self._check_snapshot, directory))

    def _report_missing(self, partition: Partition) -> None:
        snapshots.name_keys(partition, self.fs)
        for problem in partition.problems():
            if isinstance(problem, (DataLossError, PossibleLossError)):
                self.place.missing(problem)

    def _open(self, directory: Path) -> Partition:
        return Partition(
            directory,
            self.files.number or 0,
            self.fs,
            Decompressor(),
            StoreConfig(),
            writable=False,
            clean=self.around.is_clean,
            recovery_point=self.around.recovery_point,
            witness=self.around.witness,
        )

    def _replay_again(self, end: int, _: LogView | None = None) -> Replay:
        replay = Replay(self.fs, stop=self.control.flag)
        replay_files(replay, segments_of(self.files.directory or Path()), until=end)
        return replay

    def _compare(self, way: str, partition: Partition) -> None:
        sums, end, _ = cut(partition)
        self.ways.went(way, sums, end)
        if sums == self.replay.digest(physical=True):
            return
        # If the log grew meanwhile, the files are replayed up to the end of the load.
        replay = self._replay_again(end)
        if sums == replay.digest(physical=True):
            return
        self.refuse_changed()
        self.ways.differ_live(way, "replay", partition, replay, end, self._replay_again)

    def _check_cleaned(self, directory: Path, partition: Partition) -> None:
        _, end, _ = cut(partition)
        cleaned = Replay(self.fs, stop=self.control.flag)
        segments = segments_of(directory)
        try:
            reason = replay_cleaned_log(partition, cleaned, segments, end, self.control)
        except StorageError as failure:
            if not failure.is_unreadable:
                raise
            reason = failure.message
        if reason:
            self.ways.left_out("cleaned", reason)
            return
        self.ways.went("cleaned", cleaned.digest(physical=True), end)
        if cleaned.digest(physical=True) == self.replay.digest(physical=True):
            return
        # If the log grew meanwhile, the files are replayed up to the end of the clean.
        replay = self._replay_again(end)
        if cleaned.digest(physical=True) == replay.digest(physical=True):
            return
        self.refuse_changed()
        self.ways.differ_replayed("cleaned", "replay", cleaned, replay)

    def _check_snapshot(self, directory: Path) -> None:
        path = directory / snapshot.FILE_NAME
        partition = self._open(directory)
        try:
            reason = self._load_snapshot(path, partition)
            if reason is None:
                self._compare("snapshot", partition)
            else:
                self.ways.left_out("snapshot", reason)
        finally:
            partition.abandon()

    def _load_snapshot(self, path: Path, partition: Partition) -> str | None:
        """Loads the partition from its snapshot; returns None, or the reason why the snapshot could not be used.

        If a snapshot exists and could not be used, the reason is reported as a note.
        """
        try:
            found = snapshot.open_file(self.fs, path)
            reason = found.check(partition, self.around.cleaned_to) or found.load(partition)
        except MissingFileError:
            return "there is no snapshot"
        except CorruptionError as failure:
            reason = failure.message
        except StorageError as failure:
            if not failure.is_unreadable:
                raise
            self._report_unreadable(failure)
            reason = failure.message
        if reason is not None:
            self.place.note("snapshot", f"the next open will not use it: {reason}", path)
        return reason

    def as_of_two_times(self, finding: Finding) -> Finding:
        """Returns the finding for a log that was changed while it was read.

        If the finding is a problem in a file that was replaced, it becomes a note.
        """
        # A difference between two ways is reported only if the log was found unchanged after both.
        if (
            finding.severity != "problem"
            or finding.kind == "digest"
            or self.identity.has_still(Path(finding.path))
        ):
            return finding
        return replace(
            finding,
            severity="note",
            reason=f"{finding.reason} (the log was cleaned while it was read)",
        )

    def is_changed(self, *, rolled: bool = False) -> bool:
        """Returns whether the log was cleaned or truncated since it was first read.

        If `rolled` is True, new segments also count as a change, because they may have been cleaned.
        """
        if self.files.directory is None:
            return False
        now = segments_of(self.files.directory)
        return not self.identity.is_of(now) or (rolled and len(now) > len(self.files.segments))

    def refuse_changed(self) -> None:
        """Raises LogChangedError if the log was cleaned or truncated, or may have been."""
        if self.is_changed(rolled=True):
            raise LogChangedError


# ------------------------------------------------------------------------------- while others write


class LogChangedError(Exception):
    """The log was cleaned or truncated while it was read, so the records do not belong to one state of it."""


class FilesIdentity:
    """The files of a log at one moment; the last one may grow later, and others may follow it."""

    def __init__(self, segments: tuple[Path, ...]) -> None:
        self._known = [self._of(path) for path in segments]
        self._directory = segments[0].parent if segments else None

    @staticmethod
    def _of(path: Path) -> tuple[str, int, int, int]:
        try:
            found = path.stat()
        except OSError:
            return path.name, -1, -1, -1
        # An inode number may be used again for the file that replaces this one; a renamed file has a new
        # time of change.
        return path.name, found.st_ino, found.st_size, found.st_ctime_ns

    def is_of(self, segments: tuple[Path, ...]) -> bool:
        """Returns whether the log still consists of the same files."""
        now = [self._of(path) for path in segments[: len(self._known)]]
        if len(now) < len(self._known):
            return False
        if now[:-1] != self._known[:-1]:
            return False
        # In the last segment, bytes after the complete batches may change.
        return not now or now[-1][:2] == self._known[-1][:2]

    def has_still(self, path: Path) -> bool:
        """Returns whether the segment of a file is still the same; False if the file belongs to no segment."""
        known = {each[0][:20]: (number, *each) for number, each in enumerate(self._known)}
        base = path.name[:20]
        if self._directory is None or path.parent != self._directory or base not in known:
            return False
        number, name, *then = known[base]
        now = list(self._of(self._directory / name)[1:])
        is_last = number == len(self._known) - 1
        return now[0] == then[0] and (is_last or now == then)


def check_partition(
    files: PartitionFiles,
    around: Around,
    fs: FileSystem,
    report: Report,
    progress: Progress,
    control: Control,
) -> PartitionCheck:
    """Checks one partition, and repeats the check if a running broker's cleaner removed segments meanwhile.

    After CHECK_TRIES attempts the check is not repeated.  If the log was cleaned during the last
    attempt too, problems in files that were replaced meanwhile are reported as notes.

    Raises:
        ClosedError: the control was stopped.
        MissingFileError, StorageError: files disappear faster than they can be read.
        CorruptionError: the path is a single file, and it is not a log segment.
        CapacityError: memory ran out.
    """
    for left in reversed(range(CHECK_TRIES)):
        kept: list[Finding] = []
        check = PartitionCheck(files, around, fs, kept.append, progress, control)
        is_whole = is_two = False
        try:
            is_whole = check.run_unchanged()
            # A finding may mix the log before and after a swap of segments.
            is_two = any(each.severity == "problem" for each in kept) and check.is_changed(
                rolled=left > 0
            )
        except MissingFileError:
            if files.directory is None or left == 0:
                raise
        if files.directory is not None and left > 0 and (is_two or not is_whole):
            files = PartitionFiles(files.number, files.directory, segments_of(files.directory))
            continue
        if is_two:
            kept[:] = [check.as_of_two_times(each) for each in kept]
        if not is_whole:
            reason = "the states could not be compared, because the log was cleaned while it was read"
            check.place.note("digest", reason, files.directory or files.segments[0])
        for finding in kept:
            report(finding)
        check.report = report
        return check
    raise AssertionError("the loop returns or raises")


def check_places(place: Place, replay: Replay, number: int, count: int, path: Path, doubt: str = "") -> tuple[int, int]:
    """Reports groups that belong in another partition, because a broker does not serve them from this one.

    Each report ends with `doubt`, the reason why the count may be wrong.

    Returns:
        The number of groups, and how many of them were reported.
    """
    names = {*replay.groups(), *replay.pending_groups()}
    misplaced = 0
    for name in sorted(names):
        right = partition_for(name, count)
        if right != number:
            misplaced += 1
            place.problem(
                "wrong partition",
                f"group {decode_text(name)!r} belongs in {TOPIC}-{right} of a topic with {count} partitions{doubt}",
                path,
                None,
                min((position[-1] for position in replay.positions(name)), default=None),
            )
    return len(names), misplaced
