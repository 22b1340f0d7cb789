"""Groups brought to the same positions in both storages, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from offsetlog.errors import ClosedError, CoordinatorLoadingError, OffsetLogError, ZooKeeperUnavailableError
from offsetlog.manager.dual.differences import Difference

#: After so many groups in a row to which no ZooKeeper answered the rest are not tried.
UNANSWERED_MAX = 3


class CaughtUp(NamedTuple):
    """The result of catching up with many groups.

    Attributes:
        raised: how many positions were raised.
        differences: the positions that still differ, sorted.
        failures: by name the groups that were not done, and why; sorted.
        partitions: by number the log partitions that this process did not lead all the time, and why; sorted.  Groups
            that only their logs have are not among the failures.
    """

    raised: int
    differences: list[Difference]
    failures: Mapping[str, OffsetLogError]
    partitions: Mapping[int, OffsetLogError]

    @property
    def is_equal(self) -> bool:
        """Whether both storages had the same of every group when it was looked at.

        Never true in a process that does not lead all log partitions: it does not know the groups of the others.
        """
        return not (self.differences or self.failures or self.partitions)


class Leadership(NamedTuple):
    """The leadership of a log partition, at one look.

    Attributes:
        epochs: the newest leader epoch before the failure was asked for, and after it.
        failure: the error of calls for its groups; None where this process leads it, and it is loaded.
    """

    epochs: tuple[int, int]
    failure: OffsetLogError | None


def unknown_partitions(before: Sequence[Leadership], after: Sequence[Leadership]) -> dict[int, OffsetLogError]:
    """Returns the partitions that this process did not lead all the time between two looks, and why.

    One that it leads at both may have been given up and led again between them; its epoch shows that.  Its groups may
    be missing in a list that was made meanwhile, and only the same call again finds them.
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
    """Has each group caught up, and goes on after one that fails.

    Args:
        groups: lists their names.
        catch_up: does it; returns how many positions were raised, and those that still differ.
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
