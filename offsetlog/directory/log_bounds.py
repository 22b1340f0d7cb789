"""Writes checkpoints of open logs: the log offset up to which each log is flushed, and its high watermark W."""

from __future__ import annotations

from collections.abc import Iterable

from offsetlog._native.partition import Partition
from offsetlog.directory.log_directory import HIGH_WATERMARKS, RECOVERY_POINTS, LogDirectory


def checkpoint_bounds(directory: LogDirectory, partitions: Iterable[Partition]) -> None:
    """Writes the recovery points of partitions, and W of the replicated ones.

    A thread may call this function only if it does not hold `directory.cutting`.

    Raises:
        StorageError: a checkpoint could not be written; the old one remains.
    """
    # No log may be cut between reading its end and writing the checkpoint, which would exceed it.
    with directory.cutting:
        known = [(each, each.log_facts()) for each in partitions if not each.read_only]
        flushed = {each.number: facts["flushed"] for each, facts in known}
        directory.write_checkpoint(RECOVERY_POINTS, flushed)
        # A record below W that only another replica has does not prove that one is missing here.
        watermarks = {
            each.number: min(facts["watermark"], facts["flushed"])
            for each, facts in known
            if each.replicated
        }
        if watermarks:
            directory.write_checkpoint(HIGH_WATERMARKS, watermarks)
