"""Writes checkpoints of open logs: the log offset up to which each log is flushed, and its high watermark W."""

from __future__ import annotations

from collections.abc import Iterable

from offsetlog._native.partition import Partition
from offsetlog.directory.log_directory import HIGH_WATERMARKS, RECOVERY_POINTS, LogDirectory


def checkpoint_bounds(directory: LogDirectory, partitions: Iterable[Partition]) -> None:
    """Writes the recovery points of partitions, and the high watermarks W of the replicated ones.

    A thread may call this function only if it does not hold `directory.cutting`.

    Raises:
        StorageError: a checkpoint could not be written; the old one remains.
    """
    # No log may be truncated between the read of its end and the write of the checkpoint, which would then be above its
    # end.
    with directory.cutting:
        known = [(each, each.log_facts()) for each in partitions if not each.read_only]
        flushed = {each.number: facts["flushed"] for each, facts in known}
        directory.write_checkpoint(RECOVERY_POINTS, flushed)
        # If only another replica has a record below W, this does not prove that a record is missing here.
        watermarks = {
            each.number: min(facts["watermark"], facts["flushed"])
            for each, facts in known
            if each.replicated
        }
        if watermarks:
            directory.write_checkpoint(HIGH_WATERMARKS, watermarks)
