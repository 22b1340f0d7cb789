"""Records which positions were seen to differ between the two storages of a dual manager, and counts them.  No I/O."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from offsetlog.types import OffsetAndMetadata, TopicPartition

#: The largest number of ZooKeeper's positions that are kept.
KNOWN_MAX = 100_000
#: The largest number of differences that are listed.
LISTED_MAX = 100_000


class Difference(NamedTuple):
    """A position that differs between the storages.

    Attributes:
        group: the consumer group.
        topic: the topic.
        partition: the partition of the topic.
        log: the offset in the log; None if the log has no position.
        zookeeper: the offset in ZooKeeper; None if ZooKeeper has no position.  If ZooKeeper did not answer, this is
            the last known offset.
    """

    group: str
    topic: str
    partition: int
    log: int | None
    zookeeper: int | None


@dataclass(slots=True)
class Counters:
    """The numbers of events since the start; they only grow.

    Attributes:
        commits: the number of commits that were written to the log.
        rewinds: the number of commits that lowered a position.
        zookeeper_failures: the number of commits that were written to the log, but are not known to be in ZooKeeper.
        log_larger: the number of positions that a fetch found to be larger in the log, or to be only in the log.
        zookeeper_larger: the number of positions that a fetch found to be larger in ZooKeeper, or
            to be only there.
        unlisted: the number of differences that were not listed because the list was full.
    """

    commits: int = 0
    rewinds: int = 0
    zookeeper_failures: int = 0
    log_larger: int = 0
    zookeeper_larger: int = 0
    unlisted: int = 0


def offset_or_none(value: OffsetAndMetadata | None) -> int | None:
    """Returns the offset of a position, or None."""
    return None if value is None or value.offset < 0 else value.offset


def larger(log: OffsetAndMetadata | None, zookeeper: OffsetAndMetadata | None) -> OffsetAndMetadata | None:
    """Returns the larger position, or the log's if the two are equal; None if neither exists."""
    in_log, in_zookeeper = offset_or_none(log), offset_or_none(zookeeper)
    if in_zookeeper is not None and (in_log is None or in_log < in_zookeeper):
        return zookeeper
    return log if in_log is not None else None


class Differences:
    """The positions that differed when they were last read, and the values that ZooKeeper had then.  Thread-safe.

    The number of values of ZooKeeper is limited.  Above the limit, the values of the least recently used group are
    dropped; they are read again when they are needed.  The number of listed differences is limited, too.  Above the
    limit, differences are only counted.

    Args:
        known_max: the largest number of ZooKeeper's values that are kept.  If a single call has more values, they are
            kept until the next call.
        listed_max: the largest number of differences that are listed.
    """

    def __init__(self, known_max: int = KNOWN_MAX, listed_max: int = LISTED_MAX) -> None:
        self._lock = threading.Lock()
        self._known_max, self._listed_max = known_max, listed_max
        self._counters = Counters()
        self._differing: dict[str, dict[TopicPartition, Difference]] = {}
        self._listed_count = 0
        # The most recently used group is last.
        self._in_zookeeper: OrderedDict[str, dict[TopicPartition, int | None]] = OrderedDict()
        self._known_count = 0

    def count(self, **more: int) -> None:
        """Adds numbers to the counters of these names."""
        with self._lock:
            for name, number in more.items():
                setattr(self._counters, name, getattr(self._counters, name) + number)

    def counters(self) -> Counters:
        """Returns a copy of the counters."""
        with self._lock:
            return Counters(**asdict(self._counters))

    def listed(self, group: str | None = None) -> list[Difference]:
        """Returns the positions that differ, sorted: those of one group, or of all groups."""
        with self._lock:
            groups = self._differing.values() if group is None else [self._differing.get(group, {})]
            return sorted((each for of_group in groups for each in of_group.values()), key=lambda each: each[:3])

    def groups(self) -> list[str]:
        """Returns the groups that have a difference."""
        with self._lock:
            return list(self._differing)

    def keys(self, group: str) -> list[TopicPartition]:
        """Returns the positions of a group that differ."""
        with self._lock:
            return list(self._differing.get(group, ()))

    # --------------------------------------------------------------------------------------------------- what was seen

    def note(
        self,
        group: str,
        keys: Iterable[TopicPartition],
        log: Mapping[TopicPartition, OffsetAndMetadata],
        zookeeper: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        is_fetch: bool = False,
    ) -> None:
        """Records the values of a group's positions in both storages."""
        with self._lock:
            seen: dict[TopicPartition, int | None] = {}
            for key in keys:
                in_log, in_zookeeper = offset_or_none(log.get(key)), offset_or_none(zookeeper.get(key))
                seen[key] = in_zookeeper
                self._set_difference(group, key, in_log, in_zookeeper)
                if is_fetch and in_log != in_zookeeper:
                    if larger(log.get(key), zookeeper.get(key)) is log.get(key):
                        self._counters.log_larger += 1
                    else:
                        self._counters.zookeeper_larger += 1
            self._know(group, seen)

    def note_lagging(self, group: str, offsets: Mapping[TopicPartition, int], *, is_failure: bool = True) -> None:
        """Records a commit that is not known to be in ZooKeeper, although the log has it or may have it.

        Args:
            group: the consumer group.
            offsets: the offsets of the commit.
            is_failure: whether to count the commit as a failure of ZooKeeper.  Pass False if the commit was counted
                already, or if it is unknown whether the log has it.
        """
        with self._lock:
            self._counters.zookeeper_failures += is_failure
            known = self._in_zookeeper.get(group, {})
            for key, offset in offsets.items():
                self._set_difference(group, key, offset, known.get(key))

    def note_equal(
        self, group: str, offsets: Mapping[TopicPartition, int | None], lagging: Collection[TopicPartition] = ()
    ) -> None:
        """Records offsets that both storages have now; for the keys in `lagging`, the log already has newer offsets."""
        with self._lock:
            for key, offset in offsets.items():
                if key not in lagging:
                    self._set_difference(group, key, offset, offset)
                elif (before := self._differing.get(group, {}).get(key)) is not None:
                    self._set_difference(group, key, before.log, offset)
            self._know(group, offsets)

    def note_seen(self, group: str, key: TopicPartition, log: int, zookeeper: int) -> None:
        """Records the values of one position in both storages."""
        with self._lock:
            self._set_difference(group, key, log, zookeeper)
            self._know(group, {key: zookeeper})

    def _set_difference(self, group: str, key: TopicPartition, log: int | None, zookeeper: int | None) -> None:
        of_group = self._differing.get(group, {})
        self._listed_count -= of_group.pop(key, None) is not None
        if log != zookeeper and self._listed_count >= self._listed_max:
            self._counters.unlisted += 1
        elif log != zookeeper:
            self._differing.setdefault(group, of_group)[key] = Difference(group, key[0], key[1], log, zookeeper)
            self._listed_count += 1
        if not of_group:
            self._differing.pop(group, None)

    def _know(self, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        if not offsets:
            return  # clients may ask for groups that do not exist
        known = self._in_zookeeper.setdefault(group, {})
        self._in_zookeeper.move_to_end(group)
        before = len(known)
        known.update(offsets)
        self._known_count += len(known) - before
        while self._known_count > self._known_max and len(self._in_zookeeper) > 1:
            self._known_count -= len(self._in_zookeeper.popitem(last=False)[1])
        if self._known_count > self._known_max:
            self._in_zookeeper[group] = dict(offsets)
            self._known_count = len(offsets)

    def last_in_zookeeper(self, group: str, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int | None] | None:
        """Returns the last known values of ZooKeeper, with None for a missing position; None if a value is unknown."""
        with self._lock:
            known = self._in_zookeeper.get(group, {})
            wanted = list(keys)
            if not all(key in known for key in wanted):
                return None
            if wanted:
                self._in_zookeeper.move_to_end(group)
            return {key: known[key] for key in wanted}

    # -------------------------------------------------------------------------------------------- what counts no more

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        """Drops all that is known of some groups.

        Call this method when the groups were deleted, or when another process may lead them from
        now on.
        """
        with self._lock:
            everything: list[dict[str, Any]] = [self._in_zookeeper, self._differing]
            for kept in everything:
                for group in [each for each in kept if is_meant(each)]:
                    del kept[group]
            self._known_count = sum(map(len, self._in_zookeeper.values()))
            self._listed_count = sum(map(len, self._differing.values()))

    def forget_positions(self, group: str, keys: Iterable[TopicPartition]) -> None:
        """Drops all that is known of positions of a group that were deleted."""
        with self._lock:
            known, differing = self._in_zookeeper.get(group, {}), self._differing.get(group, {})
            for key in keys:
                self._known_count -= known.pop(key, self) is not self
                self._listed_count -= differing.pop(key, None) is not None
            for kept in (self._in_zookeeper, self._differing):
                if not kept.get(group, True):
                    del kept[group]
