"""Verifies an open store against its logs, while commits and cleaning continue; see `OffsetStore.verify`.

The state of each partition at one log offset is compared with the segments that its log had at that moment.  Later
commits, rolls and cleans do not change the records that are read; the next verification covers them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from offsetlog._native.decompress import Decompressor
from offsetlog._native.files import FileSystem
from offsetlog._native.log_view import LogView, listed_segments
from offsetlog._native.partition import Partition
from offsetlog._native.replay import Replay
from offsetlog._native.snapshot import FILE_NAME, Snapshot, open_file
from offsetlog._native.state_diff import cut
from offsetlog.cancellation import Control
from offsetlog.config import StoreConfig
from offsetlog.directory.log_directory import CLEANER_POINTS, TOPIC, LogDirectory
from offsetlog.directory.segments import segment_base, segments_of
from offsetlog.errors import (
    CorruptionError,
    DataLossError,
    MissingFileError,
    OffsetLogError,
    PossibleLossError,
    StorageError,
)
from offsetlog.types import Way
from offsetlog.verify.findings import MISSING_KINDS, Finding, Place, Report
from offsetlog.verify.partition import CHECK_TRIES, LogChangedError, check_places, report_corruption
from offsetlog.verify.replays import Sums, WaysCheck, replay_cleaned_log, replay_files


class StoreVerification(list[OffsetLogError]):
    """The problems, as exceptions that were not raised; empty if all is sound.

    Attributes:
        findings: the problems with all details, including each key that differs.
        ways: the ways in which the state of each log partition was computed for the comparison, with their digests.
    """

    def __init__(self) -> None:
        super().__init__()
        self.findings: list[Finding] = []
        self.ways: list[Way] = []

    def add(self, finding: Finding) -> None:
        """Adds a problem."""
        self.findings.append(finding)
        keys = "".join(f"; {key}" for key in finding.keys)
        if finding.kind in MISSING_KINDS:
            kind = DataLossError if finding.kind == "missing" else PossibleLossError
            loss = kind(
                finding.reason,
                path=finding.path,
                log_partition=finding.log_partition,
                lost_from=finding.lost_from,
                lost_below=finding.lost_below,
            )
            loss.keys = finding.lost
            self.append(loss)
            return
        self.append(
            CorruptionError(
                f"{finding.kind}: {finding.reason}{keys}",
                path=finding.path,
                position=finding.position,
                log_offset=finding.log_offset,
            )
        )


def verify_store(
    partitions: list[Partition],
    fs: FileSystem,
    config: StoreConfig,
    count: int,
    missing: Iterable[DataLossError],
    control: Control,
) -> StoreVerification:
    """Verifies the open partitions of a store that has `count` of them; commits and cleaning continue.

    Each state is compared, at one log offset, with a replay of the log, with a replay of the records that the cleaner
    would keep, and with the snapshot and the log after it (docs/verify.md).  Nothing is written.  The verification
    needs up to three times the memory of the largest partition's state, and ends soon after `control` is stopped.
    `missing` has one error for each partition whose directory is missing; these errors are added to the findings.

    A partition that the disk cannot read gives a finding, and the others are still verified.

    Raises:
        StateError: a partition has failed, or is loading.
        StorageError, CapacityError: files could not be opened, or memory ran out.
        ClosedError: the store was closed meanwhile, or the control was stopped.
    """
    found = StoreVerification()
    for loss in missing:
        Place(found.add, loss.log_partition).missing(loss)
    for partition in partitions:
        for problem in partition.problems():
            if isinstance(problem, (DataLossError, PossibleLossError)):
                Place(found.add, partition.number).missing(problem)
        check = _OpenPartitionCheck(partition, fs, config, found.add, control)
        try:
            check.run()
        except StorageError as failure:
            if not failure.is_unreadable:
                raise
            check.place.failure("partition", failure, check.directory)
        report_corruption(check.place, partition, {(each.path, each.position) for each in found})
        if check.replay is not None:
            check_places(check.place, check.replay, partition.number, count, check.directory)
        found.ways += check.ways.ways
    return found


class _OpenPartitionCheck:
    """Verifies one open partition."""

    def __init__(
        self,
        partition: Partition,
        fs: FileSystem,
        config: StoreConfig,
        report: Report,
        control: Control,
    ) -> None:
        self.partition = partition
        self.fs = fs
        self.config = config
        self.control = control
        self.directory = Path(partition.path)
        self.place = Place(report, partition.number)
        self.ways = WaysCheck(self.place, self.directory)
        self.replay: Replay | None = None

    def run(self) -> None:
        """Compares the state in memory with the state after a replay of the log."""
        for left in reversed(range(CHECK_TRIES)):
            self.control.check()
            sums, end, view = cut(self.partition)
            self.ways.went("live", sums, end)
            if view is None:
                self._check_files(sums, end)
                return
            with view:
                try:
                    self._check_view(sums, end, view, is_last=left == 0)
                    return
                except LogChangedError:
                    self.ways.ways.clear()

    def _new_replay(self, view: LogView | None) -> Replay:
        return Replay(
            self.fs, Decompressor(self.config.decompressed_bytes_max), view, self.control.flag
        )

    def _replay_to(self, end: int, view: LogView | None) -> Replay:
        replay = self._new_replay(view)
        replay_files(
            replay, segments_of(self.directory) if view is None else view.segments(), until=end
        )
        return replay

    def _report_damage(self, failures: list[OffsetLogError]) -> None:
        for failure in failures:
            self.place.failure("batch", failure, self.directory)

    def _check_view(self, sums: Sums, end: int, view: LogView, *, is_last: bool) -> None:
        replay = self._new_replay(view)
        try:
            damages = replay_files(replay, view.segments(), until=end)
        except MissingFileError:  # more files were replaced than a view keeps
            if view.is_current:
                raise
            if not is_last:
                raise LogChangedError from None
            self.ways.left_out("replay", "the log was cleaned faster than it could be read")
            return
        self.replay = replay
        # These two ways read the present log.  If it was cleaned meanwhile, its replay may no
        # longer give the state of this cut.
        cleaned = self._replay_cleaned(end, view)
        snapshot = self._advance_snapshot(end)
        self.control.check()
        if not view.is_current:
            if not is_last:
                raise LogChangedError
            cleaned = snapshot = "the log was cleaned meanwhile"
        self._report_damage(damages)
        replayed = self._compare_replay(sums, end, replay)
        for way, state in (("cleaned", cleaned), ("snapshot", snapshot)):
            if isinstance(state, str):
                self.ways.left_out(way, state)
                continue
            digest = state.digest(physical=True)
            self.ways.went(way, digest, end)
            if digest != replayed:
                self.ways.differ_replayed(way, "replay", state, replay)

    def _replay_cleaned(self, end: int, view: LogView) -> Replay | str:
        """Returns the state that a cleaning now would leave, or the reason why that state is not known."""
        replay = self._new_replay(view)
        try:
            return (
                replay_cleaned_log(self.partition, replay, view.segments(), end, self.control)
                or replay
            )
        except MissingFileError:  # a file was replaced while it was read
            if view.is_current:
                raise
            return "the log was cleaned meanwhile"
        except StorageError as failure:
            if not failure.is_unreadable:
                raise
            return failure.message

    def _advance_snapshot(self, end: int) -> Snapshot | str:
        """Returns the state from the snapshot and the log after it, or the reason why the snapshot cannot be used."""
        directory = LogDirectory(self.directory.parent, self.fs)
        try:
            cleaned_to = directory.read_checkpoint(CLEANER_POINTS).get(
                (TOPIC, self.partition.number), -1
            )
            found = open_file(self.fs, self.directory / FILE_NAME)
            reason = found.check(self.partition, cleaned_to)
            if reason is None and not found.advance(self.partition, end, self.control.flag):
                reason = "the log was cleaned meanwhile"
        except MissingFileError:
            return "there is no snapshot"
        except CorruptionError as failure:
            reason = failure.message
        except StorageError as failure:
            if not failure.is_unreadable:
                raise
            reason = failure.message
        if reason is None and found.facts()["offset"] != end:
            reason = "the snapshot was written meanwhile, and has a later log offset"
        return found if reason is None else reason

    def _compare_replay(self, sums: Sums, end: int, replay: Replay) -> Sums:
        replayed = replay.digest(physical=True)
        self.ways.went("replay", replayed, end)
        if sums != replayed:
            self.ways.differ_live("live", "replay", self.partition, replay, end, self._replay_to)
        return replayed

    # ----------------------------------------------------------------------------- read-only stores

    def _check_files(self, sums: Sums, end: int) -> None:
        # Their owner may clean these files, which then no longer have the contents that they had
        # when they were opened.
        replay = self._new_replay(None)
        try:
            failures = replay_files(replay, segments_of(self.directory), until=end)
        except MissingFileError:
            failures, changed = [], True
        else:
            changed = sums != replay.digest(physical=True) and self._was_cleaned()
        if changed:
            self.ways.left_out(
                "replay", "the log was cleaned since the store was opened or last refreshed"
            )
            return
        self.replay = replay
        self._report_damage(failures)
        self._compare_replay(sums, end, replay)

    def _was_cleaned(self) -> bool:
        try:
            sizes = {segment_base(path): path.stat().st_size for path in segments_of(self.directory)}
        except OSError:
            return True
        known = listed_segments(self.partition)
        return any(sizes.get(base) != size for base, size in known[:-1]) or (
            bool(known) and sizes.get(known[-1][0], -1) < known[-1][1]
        )
