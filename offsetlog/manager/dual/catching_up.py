"""Groups brought to the same positions in both storages, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from offsetlog.errors import ClosedError, OffsetLogError, ZooKeeperUnavailableError
from offsetlog.manager.dual.differences import Difference

#: After so many groups in a row to which no ZooKeeper answered the rest are not tried.
UNANSWERED_MAX = 3


class CaughtUp(NamedTuple):
    """The result of catching up with many groups.

    Attributes:
        raised: how many positions were raised.
        differences: the positions that still differ, sorted.
        failures: by name the groups that were not done, and why; sorted.
        partitions: by number the log partitions whose groups are not known, and why: they are being loaded, they
            failed, or their leadership changed meanwhile.
    """

    raised: int
    differences: list[Difference]
    failures: Mapping[str, OffsetLogError]
    partitions: Mapping[int, OffsetLogError]

    @property
    def is_equal(self) -> bool:
        """Whether both storages had the same of every group that this process leads when it was looked at."""
        return not self.differences and not self.failures and not self.partitions


def catch_up_groups(groups: Iterable[str], catch_up: Callable[[str], tuple[int, list[Difference]]]) -> CaughtUp:
    """Has each group caught up, and goes on after one that fails.

    Args:
        groups: their names.
        catch_up: does it; returns how many positions were raised, and those that still differ.

    Raises:
        ClosedError: the manager was stopped.
    """
    raised, unanswered = 0, 0
    differences: list[Difference] = []
    failures: dict[str, OffsetLogError] = {}
    last: OffsetLogError | None = None
    for group in sorted(groups):
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
    return CaughtUp(raised, differences, failures, {})
