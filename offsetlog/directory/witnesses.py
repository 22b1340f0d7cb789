"""What a log directory says about its partitions, for the open that looks for what is missing (docs/durability.md)."""

from __future__ import annotations

from dataclasses import dataclass

from offsetlog._native.files import parse_offset_checkpoint
from offsetlog.directory.checkpoint_record import CheckpointRecord
from offsetlog.directory.log_directory import (
    CHECKPOINTS,
    CLEANER_POINTS,
    LOG_STARTS,
    RECOVERY_POINTS,
    TOPIC,
    Checkpoint,
    LogDirectory,
)
from offsetlog.errors import CorruptionError, DataLossError, OffsetLogError

#: As many checkpoints that changed show that another program worked here (csrc/log/completeness.c).
OTHERS_WORKED = 2


@dataclass(frozen=True, slots=True)
class Witness:
    """What a log directory says about one of its partitions, for the open that looks for what is missing.

    Attributes:
        witnessed: the partition has a manifest and a sidecar, which must be there.
        changed_checkpoints: how many checkpoints somebody else wrote since this library did. Where there is
            neither a record of them nor properties, somebody put the partition into another directory: that counts as two.
        recovery_point_changed: whether the recovery points are among them.
        log_start_changed: likewise, the log starts.
        cleaned_by_others: the offset in the cleaner's checkpoint, -1 for none: how far somebody else may have cleaned.
            A checkpoint that was removed and written again may hold what it held before.
    """

    witnessed: bool = False
    changed_checkpoints: int = 0
    recovery_point_changed: bool = False
    log_start_changed: bool = False
    cleaned_by_others: int = -1


class Witnesses:
    """The witnesses of one directory, read when this is made.  Immutable but for `existing`.

    Args:
        directory: the log directory.
        existing: the partitions whose directories and witnesses must be there; None for unknown.

    Attributes:
        existing: likewise, without None.
        findings: what is wrong with checkpoints and their record.
    """

    def __init__(self, directory: LogDirectory, existing: frozenset[int] | None) -> None:
        self.existing = existing or frozenset()
        self.findings: list[OffsetLogError] = []
        self._directory = directory
        self._checkpoints: dict[str, Checkpoint] = {name: {} for name in CHECKPOINTS}
        record: CheckpointRecord | None = None
        try:
            record = directory.read_record()
        except CorruptionError as failure:
            self.findings.append(failure)
        self._others = {} if record is None else record.others
        self._changed = frozenset(name for name in CHECKPOINTS if self._is_changed(name, record))
        is_foreign = record is None and existing is None and not self.findings
        self._changes = OTHERS_WORKED if is_foreign else len(self._changed)

    def _is_changed(self, name: str, record: CheckpointRecord | None) -> bool:
        # Reads it; one that is no checkpoint any more is damage, which a record shows to be none of ours.
        content, path = self._directory.read_content(name), self._directory.path / name
        is_as_left = record is None or record.is_as_left(name, content)
        if content is None:
            if not is_as_left:
                self.findings.append(CorruptionError("the checkpoint is missing", path=path))
            return False
        try:
            self._checkpoints[name] = parse_offset_checkpoint(content)
        except CorruptionError as failure:
            if not is_as_left:
                self.findings.append(CorruptionError(failure.message, path=path))
            return False
        return not is_as_left

    def offset_in(self, name: str, number: int) -> int:
        """Returns a partition's offset in a checkpoint, -1 for none, or where the checkpoint is damaged."""
        return self._checkpoints[name].get((TOPIC, number), -1)

    def of(self, number: int) -> Witness:
        """Returns what the directory says about one partition."""
        others = self._others.get(number)
        if others is not None:
            return Witness(number in self.existing, self._changes + OTHERS_WORKED, cleaned_by_others=others)
        return Witness(
            witnessed=number in self.existing,
            changed_checkpoints=self._changes,
            recovery_point_changed=RECOVERY_POINTS in self._changed,
            log_start_changed=LOG_STARTS in self._changed,
            cleaned_by_others=self.cleaned_to(number),
        )

    def missing(self, numbers: list[int]) -> dict[int, DataLossError]:
        """Returns, by number, the partitions that must be there and are not among `numbers`."""
        return {
            number: DataLossError(
                "the directory of the log partition is missing, with all that was in it",
                path=self._directory.partition_path(number),
                log_partition=number,
                lost_from=0,
                lost_below=self._checkpoints[RECOVERY_POINTS].get((TOPIC, number)),
            )
            for number in sorted(self.existing.difference(numbers))
        }

    def cleaned_to(self, number: int) -> int:
        """Returns the offset in the cleaner's checkpoint, -1 for none."""
        return self.offset_in(CLEANER_POINTS, number)
