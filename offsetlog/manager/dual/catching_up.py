"""Brings groups to the same positions in both storages, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from offsetlog.errors import ClosedError, CoordinatorLoadingError, OffsetLogError, ZooKeeperUnavailableError
from offsetlog.manager.dual.differences import Difference

#: After this many groups in a row without an answer of ZooKeeper, the rest are not tried.
UNANSWERED_MAX = 3


class CaughtUp(NamedTuple):
    """The result of catching up with many groups.

    Attributes:
        raised: number of raised positions.
        differences: the positions that still differ, sorted.
        failures: the errors of groups that failed, by name, sorted.
        partitions: the reasons for log partitions that this process did not lead during the whole call, by number,
            sorted.  Groups that exist only in their logs are not among the failures.
    """

    raised: int
    differences: list[Difference]
    failures: Mapping[str, OffsetLogError]
    partitions: Mapping[int, OffsetLogError]

    @property
    def is_equal(self) -> bool:
        """Whether both storages had the same positions of every group when it was compared.

        Always false in a process that does not lead all log partitions: it does not know all groups.
        """
        return not (self.differences or self.failures or self.partitions)


class Leadership(NamedTuple):
    """The leadership of a log partition at one moment.

    Attributes:
        epochs: the newest leader epoch before and after `failure` was determined.
        failure: the error of calls for its groups; None if this process leads it and it is loaded.
    """

    epochs: tuple[int, int]
    failure: OffsetLogError | None


def unknown_partitions(before: Sequence[Leadership], after: Sequence[Leadership]) -> dict[int, OffsetLogError]:
    """Returns the partitions that this process did not lead throughout, from two snapshots, and why.

    A partition led in both may have been given up and led again in between, which its epoch shows.  Its groups may be
    missing from a list made meanwhile; only repeating the call finds them.
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
    """Catches up each group, and continues after one that fails.

    Args:
        groups: returns the names of the groups.
        catch_up: catches up one group; returns the number of raised positions, and those that still differ.
        look: returns the leadership of each log partition.

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
