"""The checkpoints of a log that is about to be cut: none may say more than the log will hold."""

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
    """Lowers the recovery point and the high watermark of a log before it is cut at an offset.

    A recovery point above the log end makes a torn tail look like damage, and a log look as if
    something of it was lost.  The log will end with a whole batch, which may be below the offset
    and is not below the segment that holds it.

    Raises:
        StorageError: the log must not be cut.
        StateError: the partition has failed.
    """
    bases = [segment[0] for segment in log_facts(partition)["segments"]]
    whole = max((base for base in bases if base <= offset), default=0)
    for name, lowest in ((RECOVERY_POINTS, whole), (HIGH_WATERMARKS, offset)):
        known = directory.read_checkpoint(name).get((TOPIC, partition.number))
        if known is not None and known > lowest:
            directory.write_checkpoint(name, {partition.number: lowest})
