"""The checkpoints of logs that go on: up to where each is flushed, and up to where it counts (W)."""

from __future__ import annotations

from collections.abc import Iterable

from offsetlog._native.partition import Partition
from offsetlog.directory.log_directory import HIGH_WATERMARKS, RECOVERY_POINTS, LogDirectory


def checkpoint_bounds(directory: LogDirectory, partitions: Iterable[Partition]) -> None:
    """Writes the recovery points of partitions, and of those that are replicated W.

    Safe to call from any thread, without `directory.cutting`.

    Raises:
        StorageError: a checkpoint could not be written; it stays as it was.
    """
    # No log is cut between the look at it and the checkpoint, which would say more than it holds.
    with directory.cutting:
        known = [(each, each.log_facts()) for each in partitions if not each.read_only]
        flushed = {each.number: facts["flushed"] for each, facts in known}
        directory.write_checkpoint(RECOVERY_POINTS, flushed)
        # A record that only another replica has below W is no evidence that one is missing here.
        watermarks = {
            each.number: min(facts["watermark"], facts["flushed"])
            for each, facts in known
            if each.replicated
        }
        if watermarks:
            directory.write_checkpoint(HIGH_WATERMARKS, watermarks)
