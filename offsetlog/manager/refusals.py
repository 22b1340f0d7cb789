"""The errors that all managers share, so that each has the same text and advice everywhere."""

from __future__ import annotations

from operator import index

from offsetlog.errors import ClosedError, FencedLeaderEpochError, PartitionError


def closed(*, stopped: bool) -> ClosedError:
    """Returns the error of a call to a manager that is not started, or that was stopped."""
    if stopped:
        return ClosedError("the manager was stopped; create a new one")
    return ClosedError("the manager is not started; start() it, or use it in a with statement")


def older_epoch(
    partition: int, epoch: int, known: int, *, must_be_above: bool
) -> FencedLeaderEpochError:
    """Returns the error for a change of leadership in a leader epoch that is too old.

    Args:
        partition: the log partition.
        epoch: the leader epoch that the caller passed.
        known: the newest known leader epoch.
        must_be_above: whether the epoch must be above `known`; if not, it may also be equal to
            `known`.
    """
    comparison = "is not above" if must_be_above else "is below"
    return FencedLeaderEpochError(
        f"log partition {partition}: leader epoch {epoch} {comparison} {known}, the newest known "
        "leader epoch; ask the controller for the current leader epoch"
    )


def checked_partition(partition: object, count: int) -> int:
    """Checks and returns the number of one of `count` log partitions.

    Raises:
        PartitionError: the partition does not exist, or is not an integer.
    """
    if isinstance(partition, bool) or not hasattr(partition, "__index__"):
        raise PartitionError(f"a log partition must be an int from 0 to {count - 1}, not {partition!r}")
    number = index(partition)
    if not 0 <= number < count:
        raise PartitionError(f"log partition {number} does not exist: the highest is {count - 1}")
    return number
