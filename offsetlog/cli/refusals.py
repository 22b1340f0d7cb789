"""Finds the reasons why a command that writes would be refused, for a dry run and before an open for writing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import offsetlog
from offsetlog.cli.stores import needs_count, unknown_count
from offsetlog.directory import lock_owner
from offsetlog.directory.log_directory import LOCK

#: States of `PartitionHealth` in which nothing can be written to a log partition.
_CLOSED_TO_WRITES = frozenset({"read-only", "unreadable", "failed", "missing"})


def damage_of(store: offsetlog.OffsetStore, numbers: Iterable[int]) -> str | None:
    """Returns why one of these log partitions accepts no writes, and the remedy; None if all accept writes."""
    wanted = set(numbers)
    for each in store.health().partitions:
        if each.log_partition in wanted and each.state in _CLOSED_TO_WRITES:
            # A log partition that failed need not have a problem on the disk.
            reason = each.problems[0] if each.problems else f"its state is {each.state}"
            return (
                f"log partition {each.log_partition} accepts no writes: {reason}. First look for an undamaged replica, "
                "or commit the offsets at a running broker (kafka-consumer-groups.sh --reset-offsets). "
                f"`offsetlog repair {store.path}` lists the damage; with --accept-loss, the command removes it"
            )
    return None


def refusals_of(
    store: offsetlog.OffsetStore,
    path: Path,
    partitions: int | None,
    numbers: Iterable[int],
    *,
    by_partition: bool = False,
) -> tuple[str, ...]:
    """Returns the reasons why opening a directory for writing, or writing to it, would be refused now.

    Args:
        store: the directory, opened read-only.
        path: the directory.
        partitions: the value of `--partitions`.
        numbers: the log partitions that the command would write to.
        by_partition: whether the command can work without the number of partitions.

    Raises:
        StorageError: the directory cannot be read.
    """
    damage = damage_of(store, numbers)
    reasons = [] if damage is None else [damage]
    if not by_partition and needs_count(path, partitions):
        reasons.append(unknown_count(path))
    holder = lock_owner.holder(path / LOCK)
    if holder is not None:
        reasons.append(f"the lock is held by {holder}; stop it first")
    return tuple(reasons)
