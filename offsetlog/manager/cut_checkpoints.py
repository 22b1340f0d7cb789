"""Lowers the checkpoints of a log before a truncation, so that none exceeds the log's new end."""

from __future__ import annotations

from offsetlog._native.cleaner import log_facts
from offsetlog._native.partition import Partition
from offsetlog.directory.log_directory import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    TOPIC,
    LogDirectory,
)


def lower_checkpoints(directory: LogDirectory, partition: Partition, offset: int) -> None:
    """Lowers the recovery point and the high watermark of a log before a truncation at an offset.

    If the recovery point were above the log end, an open of the log would take a torn tail for
    damage or for lost records.  The truncated log ends with a whole batch.  Its end may therefore
    be below the offset, but it is not below the start of the segment that contains the offset.

    Raises:
        StorageError: the checkpoints could not be lowered; the log must not be truncated.
        StateError: the partition has failed.
    """
    bases = [segment[0] for segment in log_facts(partition)["segments"]]
    whole = max((base for base in bases if base <= offset), default=0)
    for name, lowest in ((RECOVERY_POINTS, whole), (HIGH_WATERMARKS, offset)):
        known = directory.read_checkpoint(name).get((TOPIC, partition.number))
        if known is not None and known > lowest:
            directory.write_checkpoint(name, {partition.number: lowest})
