"""The refusals that all managers share: one wording each, with the remedy."""

from __future__ import annotations

from operator import index

from offsetlog.errors import ClosedError, FencedLeaderEpochError, PartitionError


def closed(*, stopped: bool) -> ClosedError:
    """Returns what refuses the calls of a manager that is not started, or was stopped."""
    if stopped:
        return ClosedError("the manager was stopped; create a new one")
    return ClosedError("the manager is not started; start() it, or use it in a with statement")


def older_epoch(
    partition: int, epoch: int, known: int, *, must_be_above: bool
) -> FencedLeaderEpochError:
    """Returns what refuses a change of leadership in a leader epoch that is too old.

    Args:
        partition: the log partition.
        epoch: the caller's.
        known: the newest leader epoch that is known.
        must_be_above: whether the epoch must be above it, and not only not below.
    """
    comparison = "is not above" if must_be_above else "is below"
    return FencedLeaderEpochError(
        f"log partition {partition}: leader epoch {epoch} {comparison} {known}, the newest "
        f"that its log has recorded; ask the controller for the current one"
    )


def checked_partition(partition: object, count: int) -> int:
    """Returns the number of a log partition, of which there are `count`.

    Raises:
        PartitionError: there is no such partition, or it is no integer.
    """
    if isinstance(partition, bool) or not hasattr(partition, "__index__"):
        raise PartitionError(f"a log partition must be an int from 0 to {count - 1}, not {partition!r}")
    number = index(partition)
    if not 0 <= number < count:
        raise PartitionError(f"log partition {number} does not exist: the highest is {count - 1}")
    return number
