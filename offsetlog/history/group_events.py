"""The records of a whole group, divided by position."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from offsetlog.directory.listing import decode_text
from offsetlog.types import TopicPartition

Event = tuple[Any, ...]


def events_by_position(events: Iterable[Event]) -> dict[TopicPartition, list[Event]]:
    """Divides a group's events, as `timeline.events` returns them, by position.

    The positions are ordered by their first records.  A marker ends a transaction.  It is added to each position that
    has a record in that transaction.
    """
    found: dict[tuple[bytes, int], list[Event]] = {}
    waiting: dict[int, set[tuple[bytes, int]]] = {}  # by producer, the positions of its open transaction
    for row in events:
        if isinstance(row[0], int):
            for key in waiting.pop(row[1], ()):
                found[key].append(row)
            continue
        event, *key_of = row
        key = (key_of[0], key_of[1])
        found.setdefault(key, []).append(event)
        if event[2] >= 0:
            waiting.setdefault(event[2], set()).add(key)
    return {TopicPartition(decode_text(topic), number): each for (topic, number), each in found.items()}
