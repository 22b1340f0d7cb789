"""Changes of a log and of ZooKeeper, made so that a fetch of the larger position sees each of them at once.

The calls wait, but for `may_go_back`, `fetch_beside` where the log answers at once, and `follow`.  Calls that touch the
same positions are made one after the other; their caller sees to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from offsetlog.errors import DifferenceError, ExpectedOffsetError, OffsetLogError
from offsetlog.manager.dual.differences import Difference, Differences, larger, offset_or_none
from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.manager.work import Steps
from offsetlog.types import OffsetAndMetadata, Position, TopicPartition

Values = Mapping[TopicPartition, OffsetAndMetadata]


class Both:
    """Two storages of the same positions.

    Args:
        log: decides when a change takes effect.
        zookeeper: follows it.
        differences: notes where they were seen to differ.
    """

    def __init__(self, log: OffsetManager, zookeeper: OffsetManager, differences: Differences) -> None:
        self._log = log
        self._zookeeper = zookeeper
        self._differences = differences
        self._lock = threading.Lock()
        # By group: how many calls take something back now, and how many have ended since the start.
        self._going_back: dict[str, int] = {}
        self._gone_back = 0

    # ------------------------------------------------------------------------------------------------------- fetches

    def fetch_beside(
        self, group: str, keys: list[TopicPartition] | None, is_busy: Callable[[], bool]
    ) -> dict[TopicPartition, OffsetAndMetadata] | None:
        """Returns the larger positions; None where something went back meanwhile, and may be seen in part.

        Args:
            group: the consumer group.
            keys: which, None for all.
            is_busy: whether a commit is under way, which one storage may have and the other not yet.
        """
        with self._lock:
            before = self._gone_back
            is_quiet = group not in self._going_back
        found = self.fetch(group, keys, is_busy) if is_quiet else None
        with self._lock:
            is_quiet = before == self._gone_back and group not in self._going_back
        return found if is_quiet else None

    def fetch(
        self, group: str, keys: list[TopicPartition] | None, is_busy: Callable[[], bool] = lambda: False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the larger positions, of the keys that there are, or all."""
        was_busy = is_busy()
        log, zookeeper = self._log.fetch(group, keys), self._zookeeper.fetch(group, keys)
        found = {key: larger(log.get(key), zookeeper.get(key)) for key in {**log, **zookeeper}}
        if not (was_busy or is_busy()):
            self._differences.note(group, found, log, zookeeper, is_fetch=True)
        return {key: value for key, value in found.items() if value is not None}

    def compare(self, group: str) -> list[Difference]:
        """Reads both, and returns the positions of a group that differ."""
        log, zookeeper = self._log.fetch(group), self._zookeeper.fetch(group)
        self._differences.note(group, {**log, **zookeeper}, log, zookeeper)
        return [each for each in self._differences.listed() if each.group == group]

    # ------------------------------------------------------------------------------------------------------- commits

    def may_go_back(self, group: str, values: Values) -> bool:
        """Whether a commit takes a position back, or ZooKeeper has to be asked for that."""
        in_zookeeper = self._differences.last_in_zookeeper(group, values)
        if in_zookeeper is None:
            return True
        log = self._log.fetch(group, list(values))
        return any(
            value.offset < max(log[key].offset, -1 if (last := in_zookeeper[key]) is None else last)
            for key, value in values.items()
        )

    def follow(self, group: str, values: Values, timeout: float | None) -> Steps[None]:
        """Has ZooKeeper take what the log took; what it does not take is noted, and no failure."""
        offsets = {key: value.offset for key, value in values.items()}
        try:
            pending = self._zookeeper.commit_async(group, offsets, timeout=timeout)
            yield [pending]
            pending.result(0)
        except OffsetLogError:
            self._differences.note_failure(group, offsets)
        else:
            self._differences.note_equal(group, offsets)

    def commit(self, group: str, values: Values, given: Mapping[str, Any]) -> Position:
        """Commits to both, also what goes back.

        Raises:
            DifferenceError: ZooKeeper went back, and the log did not, or not surely.
        """
        timeout = given["timeout"]
        with self._back(group):
            back = self._lower_zookeeper(group, values, timeout)
            try:
                position = self._log.commit(group, values, **given)
            except OffsetLogError as failure:
                if not back:
                    raise
                raise _different(group, "has what was committed", back, failure) from failure
            self._differences.count(commits=1, rewinds=1 if back else 0)
            self._differences.note_equal(group, back)
        forward = {key: value.offset for key, value in values.items() if key not in back}
        if forward:
            try:
                self._zookeeper.commit(group, forward, timeout=timeout)
            except OffsetLogError:
                self._differences.note_failure(group, forward)
            else:
                self._differences.note_equal(group, forward)
        return position

    def _lower_zookeeper(self, group: str, values: Values, timeout: float | None) -> dict[TopicPartition, int | None]:
        """Commits to ZooKeeper what goes back, and returns it; the log has what fetches answer before."""
        while True:
            keys = list(values)
            log, zookeeper = self._log.fetch(group, keys), self._zookeeper.fetch(group, keys)
            self._differences.note(group, values, log, zookeeper)
            back: dict[TopicPartition, int | None] = {
                key: value.offset
                for key, value in values.items()
                if value.offset < max(log[key].offset, zookeeper[key].offset)
            }
            if not back:
                return back
            self._raise_log(group, back, log, zookeeper)
            lowered = {key: values[key].offset for key in back}
            seen = {key: offset_or_none(zookeeper[key]) for key in back}
            if Capability.CONDITIONS not in self._zookeeper.capabilities:
                self._zookeeper.commit(group, lowered, timeout=timeout)
                return back
            try:
                self._zookeeper.commit(group, lowered, expected=seen, timeout=timeout)
            except ExpectedOffsetError:
                continue  # another client of ZooKeeper committed meanwhile
            return back

    def _raise_log(self, group: str, keys: Iterable[TopicPartition], log: Values, zookeeper: Values) -> int:
        """Has the log take the positions that are larger in ZooKeeper; returns how many."""
        larger_there = {
            key: zookeeper[key].offset
            for key in keys
            if key in zookeeper and zookeeper[key].offset > (log[key].offset if key in log else -1)
        }
        if larger_there:
            self._log.commit(group, larger_there)
        return len(larger_there)

    def catch_up(self, group: str) -> int:
        """Raises all positions of a group to the larger of both; returns how many were raised."""
        log, zookeeper = self._log.fetch(group), self._zookeeper.fetch(group)
        self._differences.note(group, {**log, **zookeeper}, log, zookeeper)
        raised = self._raise_log(group, zookeeper, log, zookeeper)
        lagging = {
            key: value.offset
            for key, value in log.items()
            if value.offset > (zookeeper[key].offset if key in zookeeper else -1)
        }
        if lagging:
            monotonic = Capability.CONDITIONS in self._zookeeper.capabilities
            self._zookeeper.commit(group, lagging, monotonic=monotonic)
        self.compare(group)
        return raised + len(lagging)

    # ------------------------------------------------------------------------------------------------------- deletes

    def delete(self, group: str, keys: list[TopicPartition], timeout: float | None) -> int:
        """Deletes positions in both; returns how many there were in one of them at least."""
        with self._back(group):
            log, zookeeper = self._log.fetch(group, keys), self._zookeeper.fetch(group, keys)
            found = [key for key in keys if larger(log[key], zookeeper[key]) is not None]
            self._raise_log(group, found, log, zookeeper)
            if found:
                self._zookeeper.delete(group, found, timeout=timeout)
            gone: dict[TopicPartition, int | None] = dict.fromkeys(found)
            try:
                self._log.delete(group, keys, timeout=timeout)
            except OffsetLogError as failure:
                raise _different(group, "has no longer what was deleted", gone, failure) from failure
            self._differences.note_equal(group, gone)
            return len(found)

    def delete_group(self, group: str, timeout: float | None) -> int:
        """Deletes all of a group in both; returns how many records the log wrote, or positions there were."""
        with self._back(group):
            log, zookeeper = self._log.fetch(group), self._zookeeper.fetch(group)
            self._raise_log(group, zookeeper, log, zookeeper)
            removed = self._zookeeper.delete_group(group, timeout=timeout)
            try:
                written = self._log.delete_group(group, timeout=timeout)
            except OffsetLogError as failure:
                raise _different(group, "has nothing of the group any more", {}, failure) from failure
            self._differences.forget(lambda name: name == group)
            return max(removed, written)

    @contextmanager
    def _back(self, group: str) -> Iterator[None]:
        with self._lock:
            self._going_back[group] = self._going_back.get(group, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._gone_back += 1
                self._going_back[group] -= 1
                if self._going_back[group] == 0:
                    del self._going_back[group]


def _different(
    group: str, state: str, changed: Mapping[TopicPartition, int | None], failure: OffsetLogError
) -> DifferenceError:
    shown = ", ".join(f"{key[0]}:{key[1]}={offset}" for key, offset in list(changed.items())[:5])
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    which = f" ({shown}{more})" if shown else ""
    return DifferenceError(
        f"group {group!r}: ZooKeeper {state}{which}, and the log may not: {failure}; fetches answer what the log has; "
        "make the same call again"
    )
