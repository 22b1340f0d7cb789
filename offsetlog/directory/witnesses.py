"""A log directory's own records about its partitions, which let an open find missing data (docs/durability.md)."""

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

#: This many changed checkpoints show that another program worked here (csrc/log/completeness.c).
OTHERS_WORKED = 2

#: Stands for an unknown log offset up to which another program cleaned a log (csrc/log/log.h).
CLEANED_UNKNOWN = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Witness:
    """A log directory's own records about one of its partitions, which let an open find missing data.

    Attributes:
        witnessed: whether the partition must have a manifest and a sidecar.
        changed_checkpoints: how many checkpoints another program wrote after this library did.  A lost record of the
            checkpoints counts as one.  If both that record and the properties are missing, another program made the
            directory or the partition was moved into it, which counts as two.
        recovery_point_changed: whether the recovery points are among the changed checkpoints.
        log_start_changed: whether the checkpoint of the log start offsets was changed, or may have been changed because
            the record of the checkpoints is missing.
        cleaned_by_others: the log offset up to which another program cleaned the partition, according to the cleaner's
            checkpoint.  -1 if the checkpoint has the log offset that this library wrote.  CLEANED_UNKNOWN if it has a
            lower one, or if the checkpoint or the record of the checkpoints is damaged or missing.
        topic_id: the topic's id, None if unknown.
    """

    witnessed: bool = False
    changed_checkpoints: int = 0
    recovery_point_changed: bool = False
    log_start_changed: bool = False
    cleaned_by_others: int = -1
    topic_id: bytes | None = None


class Witnesses:
    """The witnesses of one directory, read when the object is created.  Immutable except for `existing`.

    Args:
        directory: the log directory.
        existing: the partitions whose directories and witnesses must exist; None if unknown.

    Attributes:
        existing: the partitions whose directories and witnesses must exist; empty if unknown.
        findings: faults of the checkpoints, their record, and the properties.
        is_foreign: whether the directory has neither properties nor a record, because another program made it or files
            were removed.
    """

    def __init__(self, directory: LogDirectory, existing: frozenset[int] | None) -> None:
        self.existing = existing or frozenset()
        self.findings: list[OffsetLogError] = []
        self._directory = directory
        self._checkpoints: dict[str, Checkpoint] = {name: {} for name in CHECKPOINTS}
        self._damaged: set[str] = set()
        record, is_ours = self._read_record()
        # Without a record it is unknown which program wrote the log start offsets, which hide the records below them.
        self._has_record = record is not None
        self._others = {} if record is None else record.others
        self._changed = frozenset(name for name in CHECKPOINTS if self._is_changed(name, record))
        self.is_foreign = existing is None and not is_ours
        # A lost record hides which checkpoints changed, so it counts as one changed checkpoint.
        self._changes = OTHERS_WORKED if self.is_foreign else len(self._changed) + (record is None)
        self._topic_id = directory.known_topic_id()
        self._cleaned_by_us = None if record is None else record.cleaned
        if existing is None and is_ours:
            # If `offsetlog.properties` is gone or truncated, its second copy and the recovery points also show which
            # partitions must exist.
            reached = self._checkpoints[RECOVERY_POINTS].items()
            numbers = frozenset(number for (topic, number), offset in reached if topic == TOPIC and offset > 0)
            self.existing = numbers if record is None else numbers.union(record.existing)
            self._note_properties(is_known=record is not None and record.partitions is not None)

    def _note_properties(self, *, is_known: bool) -> None:
        # If the record has no copy of the properties, they may never have been written.
        try:
            is_missing = self._directory.read_properties() is None
        except CorruptionError as failure:
            self.findings.append(failure)
        else:
            if is_missing and is_known:
                text = f"the file is missing; a copy of its contents is in {checkpoint_record.NAME}"
                self.findings.append(CorruptionError(text, path=self._directory.path / PROPERTIES))

    def _read_record(self) -> tuple[CheckpointRecord | None, bool]:
        # Returns the record, and whether its file exists, damaged or not.  The file must exist if any partition is
        # known to.
        path = self._directory.path / checkpoint_record.NAME
        try:
            record = self._directory.read_record()
        except CorruptionError as failure:
            self.findings.append(failure)
            return None, True
        if record is None and self.existing:
            self.findings.append(CorruptionError("offsetlog's record of the checkpoints is missing", path=path))
        return record, record is not None

    def _is_changed(self, name: str, record: CheckpointRecord | None) -> bool:
        # Reads the checkpoint.  A malformed checkpoint is reported as damage if the record shows that we did not write
        # these bytes.
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
            # A power loss can leave a broker an empty file.  The broker accepts it, but its entries are gone.
            self._damaged.add(name)
        return not is_as_left

    @property
    def damaged(self) -> frozenset[str]:
        """The checkpoints whose entries are lost."""
        return frozenset(self._damaged)

    def offset_in(self, name: str, number: int) -> int:
        """Returns a partition's log offset in a checkpoint, -1 if it has none or the checkpoint is damaged."""
        return self._checkpoints[name].get((TOPIC, number), -1)

    def of(self, number: int) -> Witness:
        """Returns the directory's records about one partition."""
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
            return max(found, 0)  # 0: no entry, though the manifest may have one
        if self._cleaned_by_us is None or CLEANER_POINTS in self._damaged:
            return CLEANED_UNKNOWN
        ours = self._cleaned_by_us.get(number, -1)
        if CLEANER_POINTS not in self._changed or found == ours:
            return -1
        return CLEANED_UNKNOWN if found < ours else found

    def worked_on(self, numbers: Iterable[int]) -> dict[int, int]:
        """Returns the log partitions of `numbers` on which another program worked.

        The result has, for each log partition, the log offset up to which that program cleaned it.  The caller must
        write the result to the record of checkpoints.  The manifests of these log partitions still describe the logs as
        they were before that program's work.  Once the record has the present checkpoints, only the written result
        shows that a log differs from its manifest because of that work, and not because of a loss.
        """
        found = {number: self.of(number) for number in numbers}
        return {
            number: witness.cleaned_by_others
            for number, witness in found.items()
            if witness.changed_checkpoints >= OTHERS_WORKED
        }

    def missing(self, numbers: list[int]) -> dict[int, DataLossError]:
        """Returns an error for each partition that must exist but is not in `numbers`, by number."""
        return {
            number: DataLossError(
                "the directory of the log partition is missing, with all its contents",
                path=self._directory.partition_path(number),
                log_partition=number,
                lost_from=0,
                lost_below=self._checkpoints[RECOVERY_POINTS].get((TOPIC, number)),
            )
            for number in sorted(self.existing.difference(numbers))
        }

    def cleaned_to(self, number: int) -> int:
        """Returns the partition's log offset in the cleaner's checkpoint, -1 if it has none."""
        return self.offset_in(CLEANER_POINTS, number)
