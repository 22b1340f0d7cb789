"""The claims of a log directory about its partitions, by which an open finds missing records (docs/durability.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offsetlog._native.files import parse_offset_checkpoint
from offsetlog.directory import checkpoint_record
from offsetlog.directory.checkpoint_record import CheckpointRecord
from offsetlog.directory.log_directory import (
    CHECKPOINTS,
    CLEANER_POINTS,
    LOG_STARTS,
    PROPERTIES,
    RECOVERY_POINTS,
    TOPIC,
    Checkpoint,
    LogDirectory,
)
from offsetlog.errors import CorruptionError, DataLossError, OffsetLogError

#: As many checkpoints that changed show that another program worked here (csrc/log/completeness.c).
OTHERS_WORKED = 2

#: How far another program cleaned a log is not known (csrc/log/log.h).
CLEANED_UNKNOWN = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Witness:
    """The claims of a log directory about one of its partitions, by which an open finds missing records.

    Attributes:
        witnessed: the partition has a manifest and a sidecar, which must be there.
        changed_checkpoints: how many checkpoints somebody else wrote since this library did; a lost record of
            them counts as one. Where there is
            neither a record of them nor properties, somebody put the partition into another directory, which counts
            as two.
        recovery_point_changed: whether the recovery points are among them.
        log_start_changed: likewise, the log starts.
        cleaned_by_others: up to where another program's cleaner came by its checkpoint, -1 if that has our entry;
            CLEANED_UNKNOWN where the checkpoint or the record of it is damaged or gone, or it went back.
        topic_id: the topic's, None for unknown.
    """

    witnessed: bool = False
    changed_checkpoints: int = 0
    recovery_point_changed: bool = False
    log_start_changed: bool = False
    cleaned_by_others: int = -1
    topic_id: bytes | None = None


class Witnesses:
    """The witnesses of one directory, read when this is made.  Immutable but for `existing`.

    Args:
        directory: the log directory.
        existing: the partitions whose directories and witnesses must be there; None for unknown.

    Attributes:
        existing: likewise, without None.
        findings: faults of checkpoints, their record, and the properties.
        is_foreign: the directory has neither properties nor a record: it is another program's, or was taken apart.
    """

    def __init__(self, directory: LogDirectory, existing: frozenset[int] | None) -> None:
        self.existing = existing or frozenset()
        self.findings: list[OffsetLogError] = []
        self._directory = directory
        self._checkpoints: dict[str, Checkpoint] = {name: {} for name in CHECKPOINTS}
        self._damaged: set[str] = set()
        record, is_ours = self._read_record()
        # Without a record nobody knows who wrote the log starts, which hide what lies below them.
        self._has_record = record is not None
        self._others = {} if record is None else record.others
        self._changed = frozenset(name for name in CHECKPOINTS if self._is_changed(name, record))
        self.is_foreign = existing is None and not is_ours
        # A record that is lost hides what changed: it counts as one that did.
        self._changes = OTHERS_WORKED if self.is_foreign else len(self._changed) + (record is None)
        self._topic_id = directory.known_topic_id()
        self._cleaned_by_us = None if record is None else record.cleaned
        if existing is None and is_ours:
            # `offsetlog.properties` is gone, or lost its end: its second copy, and the recovery points, know as well
            # what must be there.
            reached = self._checkpoints[RECOVERY_POINTS].items()
            numbers = frozenset(number for (topic, number), offset in reached if topic == TOPIC and offset > 0)
            self.existing = numbers if record is None else numbers.union(record.existing)
            self._note_properties(is_known=record is not None and record.partitions is not None)

    def _note_properties(self, *, is_known: bool) -> None:
        # One that the record does not know may never have been written.
        try:
            is_missing = self._directory.read_properties() is None
        except CorruptionError as failure:
            self.findings.append(failure)
        else:
            if is_missing and is_known:
                text = f"the file is missing; {checkpoint_record.NAME} has its contents"
                self.findings.append(CorruptionError(text, path=self._directory.path / PROPERTIES))

    def _read_record(self) -> tuple[CheckpointRecord | None, bool]:
        # The record, and whether there is one, damaged or not. It is there wherever partitions are known to be.
        path = self._directory.path / checkpoint_record.NAME
        try:
            record = self._directory.read_record()
        except CorruptionError as failure:
            self.findings.append(failure)
            return None, True
        if record is None and self.existing:
            self.findings.append(CorruptionError("the record of the checkpoints is missing", path=path))
        return record, record is not None

    def _is_changed(self, name: str, record: CheckpointRecord | None) -> bool:
        # Reads it; one that is no checkpoint any more is damage, which a record shows to be none of ours.
        content, path = self._directory.read_content(name), self._directory.path / name
        is_as_left = record is None or record.is_as_left(name, content)
        if content is None:
            if not is_as_left:
                self._damaged.add(name)
                self.findings.append(CorruptionError("the checkpoint is missing", path=path))
            return False
        try:
            self._checkpoints[name] = parse_offset_checkpoint(content)
        except CorruptionError as failure:
            self._damaged.add(name)
            if not is_as_left:
                self.findings.append(CorruptionError(failure.message, path=path))
            return False
        if content == b"" and (record is None or not is_as_left):
            # Legal, as a power loss leaves it to a broker; but what it said is gone.
            self._damaged.add(name)
        return not is_as_left

    @property
    def damaged(self) -> frozenset[str]:
        """The checkpoints of which it is not known any more what they said."""
        return frozenset(self._damaged)

    def offset_in(self, name: str, number: int) -> int:
        """Returns a partition's offset in a checkpoint, -1 for none, or where the checkpoint is damaged."""
        return self._checkpoints[name].get((TOPIC, number), -1)

    def of(self, number: int) -> Witness:
        """Returns what the directory says about one partition."""
        cleaned = self._cleaned_by_others(number)
        others = self._others.get(number)
        if others is not None:
            changes = self._changes + OTHERS_WORKED
            return Witness(
                number in self.existing, changes, cleaned_by_others=max(others, cleaned), topic_id=self._topic_id
            )
        return Witness(
            witnessed=number in self.existing,
            changed_checkpoints=self._changes,
            recovery_point_changed=RECOVERY_POINTS in self._changed,
            log_start_changed=LOG_STARTS in self._changed or (not self._has_record and number in self.existing),
            cleaned_by_others=cleaned,
            topic_id=self._topic_id,
        )

    def _cleaned_by_others(self, number: int) -> int:
        found = self.offset_in(CLEANER_POINTS, number)
        if self.is_foreign and CLEANER_POINTS not in self._damaged:
            return max(found, 0)  # 0: no entry, where the manifest may know of one
        if self._cleaned_by_us is None or CLEANER_POINTS in self._damaged:
            return CLEANED_UNKNOWN
        ours = self._cleaned_by_us.get(number, -1)
        if CLEANER_POINTS not in self._changed or found == ours:
            return -1
        return CLEANED_UNKNOWN if found < ours else found

    def worked_on(self, numbers: Iterable[int]) -> dict[int, int]:
        """Returns up to where another program cleaned those of `numbers` on which one surely worked, as for a record.

        Their manifests are not written again now, and would be held against them once the record has the checkpoints
        of today.
        """
        found = {number: self.of(number) for number in numbers}
        return {
            number: witness.cleaned_by_others
            for number, witness in found.items()
            if witness.changed_checkpoints >= OTHERS_WORKED
        }

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
