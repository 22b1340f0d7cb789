"""Where the two storages of a dual manager were seen to differ, and how often.  Pure, but for its lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

from offsetlog.types import OffsetAndMetadata, TopicPartition


class Difference(NamedTuple):
    """A position that is not the same in both storages.

    Attributes:
        group: the consumer group.
        topic: the topic.
        partition: its partition.
        log: the offset in the log, None for none.
        zookeeper: the offset in ZooKeeper, None for none; where it could not be asked, the one that it had last.
    """

    group: str
    topic: str
    partition: int
    log: int | None
    zookeeper: int | None


@dataclass(slots=True)
class Counters:
    """How often something happened since the start; they only grow.

    Attributes:
        commits: commits of positions that the log took.
        rewinds: those that took a position back.
        zookeeper_failures: commits that the log took and ZooKeeper did not, or not surely.
        log_larger: positions that a fetch found larger, or only, in the log.
        zookeeper_larger: positions that a fetch found larger, or only, in ZooKeeper.
    """

    commits: int = 0
    rewinds: int = 0
    zookeeper_failures: int = 0
    log_larger: int = 0
    zookeeper_larger: int = 0


def offset_or_none(value: OffsetAndMetadata | None) -> int | None:
    """Returns the offset of a position, None where there is none."""
    return None if value is None or value.offset < 0 else value.offset


def larger(log: OffsetAndMetadata | None, zookeeper: OffsetAndMetadata | None) -> OffsetAndMetadata | None:
    """Returns the larger position, that of the log where they are equal; None where there is none."""
    in_log, in_zookeeper = offset_or_none(log), offset_or_none(zookeeper)
    if in_zookeeper is not None and (in_log is None or in_log < in_zookeeper):
        return zookeeper
    return log if in_log is not None else None


class Differences:
    """Positions that were last seen to differ, and what ZooKeeper was last seen to have.  Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters = Counters()
        self._differing: dict[tuple[str, TopicPartition], Difference] = {}
        self._in_zookeeper: dict[str, dict[TopicPartition, int | None]] = {}

    def count(self, **more: int) -> None:
        """Adds to counters by their names."""
        with self._lock:
            for name, number in more.items():
                setattr(self._counters, name, getattr(self._counters, name) + number)

    def counters(self) -> Counters:
        """Returns the counters as they are now."""
        with self._lock:
            return Counters(**asdict(self._counters))

    def listed(self) -> list[Difference]:
        """Returns the positions that differ, sorted."""
        with self._lock:
            return sorted(self._differing.values(), key=lambda each: each[:3])

    def note(
        self,
        group: str,
        keys: Iterable[TopicPartition],
        log: Mapping[TopicPartition, OffsetAndMetadata],
        zookeeper: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        is_fetch: bool = False,
    ) -> None:
        """Notes what both storages have of a group's positions."""
        with self._lock:
            known = self._in_zookeeper.setdefault(group, {})
            for key in keys:
                in_log, in_zookeeper = offset_or_none(log.get(key)), offset_or_none(zookeeper.get(key))
                known[key] = in_zookeeper
                self._compare(group, key, in_log, in_zookeeper)
                if is_fetch and in_log != in_zookeeper:
                    if larger(log.get(key), zookeeper.get(key)) is log.get(key):
                        self._counters.log_larger += 1
                    else:
                        self._counters.zookeeper_larger += 1

    def note_failure(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Notes a commit that only the log took, as far as anybody knows."""
        with self._lock:
            self._counters.zookeeper_failures += 1
            known = self._in_zookeeper.get(group, {})
            for key, offset in offsets.items():
                in_zookeeper = known.get(key)
                self._differing[group, key] = Difference(group, key[0], key[1], offset, in_zookeeper)

    def note_equal(self, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Notes what both storages have now."""
        with self._lock:
            self._in_zookeeper.setdefault(group, {}).update(offsets)
            for key in offsets:
                self._differing.pop((group, key), None)

    def _compare(self, group: str, key: TopicPartition, log: int | None, zookeeper: int | None) -> None:
        if log == zookeeper:
            self._differing.pop((group, key), None)
        else:
            self._differing[group, key] = Difference(group, key[0], key[1], log, zookeeper)

    def last_in_zookeeper(self, group: str, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int | None] | None:
        """Returns what ZooKeeper had last, None for no position; None where one of the keys was never seen."""
        with self._lock:
            known = self._in_zookeeper.get(group, {})
            wanted = list(keys)
            return {key: known[key] for key in wanted} if all(key in known for key in wanted) else None

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        """Drops what is known of groups: they are gone, or another process may lead them from now on."""
        with self._lock:
            for group in [each for each in self._in_zookeeper if is_meant(each)]:
                del self._in_zookeeper[group]
            for each in [key for key in self._differing if is_meant(key[0])]:
                del self._differing[each]

    def forget_topics(self, topics: Iterable[str]) -> None:
        """Drops what is known of deleted topics."""
        gone = frozenset(topics)
        with self._lock:
            for known in self._in_zookeeper.values():
                for key in [key for key in known if key[0] in gone]:
                    del known[key]
            for each in [each for each in self._differing if each[1][0] in gone]:
                del self._differing[each]
