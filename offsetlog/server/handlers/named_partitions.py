"""The partitions that a request names, possibly more than once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Topic = TypeVar("Topic", bound=Hashable)
Named = TypeVar("Named")


def by_topic(
    topics: Iterable[tuple[Topic, Iterable[Named]]], number_of: Callable[[Named], int]
) -> dict[Topic, dict[int, Named]]:
    """Returns the entry of each partition, by topic and number.

    If a partition is named several times, its last entry is returned, at the place of its first
    entry, as in Kafka.
    """
    found: dict[Topic, dict[int, Named]] = {}
    for topic, partitions in topics:
        found.setdefault(topic, {}).update({number_of(each): each for each in partitions})
    return found
