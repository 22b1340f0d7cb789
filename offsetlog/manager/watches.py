"""The watches of one manager.  A move of the high watermark wakes them; the manager closes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from offsetlog import arguments
from offsetlog._native.partition import Partition
from offsetlog.directory.history_floor import HistoryFloor
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.errors import InvalidArgumentError
from offsetlog.history.timeline import recorded_floor
from offsetlog.manager.interface import WatchPosition
from offsetlog.manager.watch import LogWatch
from offsetlog.manager.watched_log import BEGINNING, Place, WatchedLog, present_place


class Watches:
    """Opens watches, and provides the logs that they read.  Thread-safe.

    Args:
        directory: the directory of the logs.
        count: the number of partitions.
        checked: returns the number of a partition, or raises PartitionError.
        partition_of: returns an open partition, or None if it has no log; raises ClosedError.
        number_of: returns the log partition of a group.
        listen: called with `on_moved` when the first watch is opened, and with None when the last
            watch is closed.
    """

    def __init__(
        self,
        directory: LogDirectory,
        count: int,
        checked: Callable[[int], int],
        partition_of: Callable[[int], Partition | None],
        number_of: Callable[[str], int],
        listen: Callable[[Callable[[int], object] | None], object],
    ) -> None:
        self._directory = directory
        self._count = count
        self._checked = checked
        self._partition_of = partition_of
        self._number_of = number_of
        self._listen = listen
        self._lock = threading.Lock()
        self._open: tuple[LogWatch, ...] = ()

    # ------------------------------------------------------------------------------- what watches read

    def watched_partition(self, number: int) -> Partition | None:
        """Returns an open partition; see LogSource."""
        return self._partition_of(number)

    def recorded_floor(self, partition: Partition) -> HistoryFloor:
        """Returns the log offset where the history of each group in a partition begins; see LogSource."""
        return recorded_floor(self._directory, partition)

    # --------------------------------------------------------------------------------------- watches

    def open(self, groups: Iterable[str] | None, from_position: WatchPosition | None) -> LogWatch:
        """Opens a watch; see OffsetManager.watch."""
        by_partition: dict[int, list[str]] = {}
        for group in () if groups is None else dict.fromkeys(arguments.listed_groups(groups)):
            by_partition.setdefault(self._number_of(group), []).append(group)
        if from_position is not None:
            places = self._given(from_position)
        else:
            numbers = range(self._count) if groups is None else sorted(by_partition)
            places = {number: self._present(number) for number in numbers}
        watch = LogWatch(
            [
                WatchedLog(self, number, None if groups is None else by_partition.get(number, []), place)
                for number, place in places.items()
            ],
            self._closed,
        )
        with self._lock:
            self._open = (*self._open, watch)
            self._listen(self.on_moved)
        return watch

    def _present(self, number: int) -> Place:
        partition = self._partition_of(number)
        return BEGINNING if partition is None else present_place(partition)

    def _given(self, position: WatchPosition) -> dict[int, Place]:
        places: dict[int, Place] = {}
        for given, place in position.items():
            number = self._checked(given)
            try:
                epoch, offset = place
            except (TypeError, ValueError):
                raise InvalidArgumentError(
                    f"from_position[{number}] must be a pair of leader epoch and log offset, not {place!r}"
                ) from None
            places[number] = (
                arguments.checked_number("the leader epoch", epoch, -1, 2**31 - 1),
                arguments.checked_number("the log offset", offset, 0, 2**63 - 1),
            )
        return places

    def on_moved(self, number: int) -> None:
        """Wakes the watches of a partition, because its high watermark has moved."""
        for watch in self._open:
            watch.on_moved(number)

    def _closed(self, watch: LogWatch) -> None:
        with self._lock:
            self._open = tuple(each for each in self._open if each is not watch)
            if not self._open:
                self._listen(None)

    def close(self) -> None:
        """Closes all watches."""
        for watch in self._open:
            watch.close()
