"""Facts about all partitions of an open store: its damage, recoveries, groups, digest and memory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offsetlog._native.partition import Partition
from offsetlog._native.store_core import StoreCore
from offsetlog.errors import CorruptionWarning, OffsetLogError, PossibleLossError
from offsetlog.lifecycle.open_partitions import OpenPartitions
from offsetlog.types import Digest, PartitionHealth, QuarantinedSegment, StoreHealth

_DIGEST_MASK = (1 << 128) - 1


def problems(core: StoreCore, partitions: OpenPartitions) -> list[OffsetLogError]:
    """Returns the problems that opening and loading found; see OffsetStore.problems.

    Args:
        core: the core, which has every partition that could be loaded.
        partitions: the owner of the partitions, which has the errors of the directory and of the partitions that could
            not be loaded.
    """
    found = [problem for each in core.attached(wait=False) for problem in each.problems()]
    return [*partitions.problems(), *found]


def damaged(core: StoreCore) -> list[Partition]:
    """Returns the loaded partitions that were found damaged or incomplete."""
    return [
        each
        for each in core.attached(wait=False)
        if any(not isinstance(problem, PossibleLossError) for problem in each.problems())
    ]


def _state_of(partition: Partition) -> str | None:
    if partition.role == "failed":
        return "failed"
    problems = partition.problems()
    if any(not isinstance(each, PossibleLossError) for each in problems):
        return "read-only"
    return "in doubt" if problems else None


def health(
    core: StoreCore,
    partitions: OpenPartitions,
    quarantined: Mapping[int, tuple[QuarantinedSegment, ...]],
) -> StoreHealth:
    """Returns the faults of a store; see OffsetStore.health.

    Args:
        core: the core, which has the partitions that are loaded so far.
        partitions: the owner of the partitions.
        quarantined: for each log partition, the segments that its last cleaning left unchanged.
    """
    found = {
        number: PartitionHealth(number, "missing", (failure,))
        for number, failure in partitions.missing().items()
    }
    for number, unreadable in partitions.unreadable().items():
        found[number] = PartitionHealth(number, "unreadable", (unreadable,))
    for each in core.attached(wait=False):
        left = quarantined.get(each.number, ())
        state = _state_of(each) or ("quarantined" if left else None)
        if state is not None:
            found[each.number] = PartitionHealth(each.number, state, tuple(each.problems()), left)
    directory = tuple(partitions.findings())
    return StoreHealth(
        not found and not directory, tuple(found[number] for number in sorted(found)), directory
    )


def summary(core: StoreCore, partitions: OpenPartitions) -> str:
    """Returns the number of damaged partitions as text for the `repr` of a store; "" if none is damaged."""
    count = len(damaged(core)) + len(partitions.unreadable())
    return f", {count} of {partition_count(core)} partitions damaged" if count else ""


def partition_count(core: StoreCore) -> int:
    """Returns the number of partitions of the offsets topic; if it is unknown, the number of loaded partitions."""
    return core.count if core.is_count_known else len(core.attached(wait=False))


def warn_of_damage(
    core: StoreCore, partitions: OpenPartitions, path: Path, *, stacklevel: int
) -> None:
    """Issues one CorruptionWarning if there are problems.

    `stacklevel` has the meaning that it has in `warnings.warn`.
    """
    found = problems(core, partitions)
    if not found:
        return
    worst = [each for each in found if not isinstance(each, PossibleLossError)]
    text = str((worst or found)[0])
    count = len(damaged(core)) + len(partitions.unreadable())
    if count > 0:
        are = "is" if count == 1 else "are"
        text = (
            f"{count} of {partition_count(core)} partitions in {path} {are} damaged: {text}; "
            "lookups do not show the missing records"
        )
    text += f". See store.problems(), or `offsetlog verify {path}`"
    warnings.warn(text, CorruptionWarning, stacklevel=stacklevel)


def recoveries(core: StoreCore) -> dict[int, dict[str, Any]]:
    """Returns, for each log partition, the results of its recovery; see OffsetStore.recoveries."""
    return {partition.number: dict(partition.recovery) for partition in core.attached()}


def log_end(core: StoreCore, group: str) -> int:
    """Returns the log end offset of a group's log partition; 0 if the log partition does not exist yet."""
    number = core.number_of(group)
    ends = [partition.log_facts()["end"] for partition in core.attached() if partition.number == number]
    return ends[0] if ends else 0


def groups(core: StoreCore) -> list[str]:
    """Returns the names of all groups, sorted; see OffsetStore.groups."""
    return sorted({group for partition in core.attached() for group in partition.groups()})


def digest(core: StoreCore, *, physical: bool) -> Digest:
    """Returns the digest over all partitions; see OffsetStore.digest."""
    sums = [partition.digest(physical) for partition in core.attached()]
    return Digest(*(sum(part[field] for part in sums) & _DIGEST_MASK for field in range(3)))


def memory(core: StoreCore, snapshot_bytes: int) -> dict[str, int]:
    """Returns the bytes of memory that each component uses; `snapshot_bytes` are included (see OffsetStore.memory)."""
    total: dict[str, int] = {}
    for partition in core.attached():
        for component, size in partition.memory().items():
            total[component] = total.get(component, 0) + size
    total["scratch"] = total.get("scratch", 0) + core.scratch_bytes()
    total["snapshot"] = snapshot_bytes
    parts_of_others = ("string_bytes", "free")
    total["total"] = sum(
        size for component, size in total.items() if component not in parts_of_others
    )
    return total
