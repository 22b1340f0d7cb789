"""Raises the positions of groups to the same values in both storages, one group after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from offsetlog.errors import ClosedError, CoordinatorLoadingError, OffsetLogError, ZooKeeperUnavailableError
from offsetlog.manager.dual.differences import Difference

#: If ZooKeeper does not answer for this many groups in a row, the remaining groups are not tried.
UNANSWERED_MAX = 3


class CaughtUp(NamedTuple):
    """The result of catching up with many groups.

    Attributes:
        raised: the number of raised positions.
        differences: the positions that still differ, sorted.
        failures: the error of each group that failed, by the name of the group, sorted.
        partitions: the log partitions that this process did not lead during the whole call, each with an error that
            says why; sorted by number.  Groups that exist only in the logs of these partitions are unknown, so they
            are not in `failures`.
    """

    raised: int
    differences: list[Difference]
    failures: Mapping[str, OffsetLogError]
    partitions: Mapping[int, OffsetLogError]

    @property
    def is_equal(self) -> bool:
        """Whether both storages had the same positions of every group when that group was compared.

        A process that does not lead all log partitions always gets False, because it does not know all groups.
        """
        return not (self.differences or self.failures or self.partitions)


class Leadership(NamedTuple):
    """The leadership of a log partition at one moment.

    Attributes:
        epochs: the newest known leader epoch, read once before and once after `failure` was determined.
        failure: the error that calls for the groups of the partition raise; None if this process leads the partition
            and has loaded it.
    """

    epochs: tuple[int, int]
    failure: OffsetLogError | None


def unknown_partitions(before: Sequence[Leadership], after: Sequence[Leadership]) -> dict[int, OffsetLogError]:
    """Returns the log partitions that this process did not lead during the whole time between two reads.

    Each partition has the error that says why.

    A partition that this process led at both reads may be unknown, too: the process may have given
    it up and led it again in between.  The leader epochs then differ.  A list of groups that was
    made in between may lack the groups of such a partition; only another call finds them.
    """
    found: dict[int, OffsetLogError] = {}
    for number, (first, second) in enumerate(zip(before, after, strict=True)):
        if second.failure is not None:
            found[number] = second.failure
        elif first.failure is not None or {*first.epochs} != {*second.epochs}:
            text = f"this process did not lead log partition {number} during the whole call; make the same call again"
            found[number] = CoordinatorLoadingError(text)
    return found


def catch_up_groups(
    groups: Callable[[], Iterable[str]],
    catch_up: Callable[[str], tuple[int, list[Difference]]],
    look: Callable[[], Sequence[Leadership]],
) -> CaughtUp:
    """Catches up each group.  If a group fails, continues with the next group.

    Args:
        groups: returns the names of the groups.
        catch_up: catches up one group; returns the number of raised positions, and the positions that still differ.
        look: returns the present leadership of each log partition.

    Raises:
        ClosedError: the manager was stopped.
    """
    before = look()
    raised, unanswered = 0, 0
    differences: list[Difference] = []
    failures: dict[str, OffsetLogError] = {}
    last: OffsetLogError | None = None
    for group in sorted(groups()):
        if last is not None and unanswered >= UNANSWERED_MAX:
            failures[group] = last
            continue
        try:
            count, found = catch_up(group)
        except ClosedError:
            raise
        except OffsetLogError as failure:
            failures[group] = last = failure
            unanswered = unanswered + 1 if isinstance(failure, ZooKeeperUnavailableError) else 0
        else:
            raised += count
            differences += found
            unanswered = 0
    return CaughtUp(raised, differences, failures, unknown_partitions(before, look()))
