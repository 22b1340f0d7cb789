"""The rules of a migration: which rows are valid positions, and which action is taken for each position.

This module does no I/O.  The Spark job applies the same rules to columns (offsetlog/spark/jobs/migrate.py), and uses
the names and texts of this module.  The table of cases in tests/migration/cases.py tests both implementations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from offsetlog.config import GROUP_BYTES_MAX
from offsetlog.types import TopicPartition

OFFSET_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1
#: The longest name of a group or a topic, in bytes of UTF-8.
NAME_BYTES_MAX = GROUP_BYTES_MAX

#: The text of a number as old consumers wrote it; both forms mean the same to Java and to Python.
PARTITION_TEXT = "0|[1-9][0-9]{0,9}"
OFFSET_TEXT = "[0-9]{1,19}"
_PARTITION, _OFFSET = re.compile(PARTITION_TEXT).fullmatch, re.compile(OFFSET_TEXT).fullmatch

NO_ROW = "not a row of group, topic, partition and offset"
NO_GROUP = "the group is missing"
NO_TOPIC = "the topic is missing"
GROUP_TOO_LONG = f"the group has more than {NAME_BYTES_MAX} bytes"
TOPIC_TOO_LONG = f"the topic has more than {NAME_BYTES_MAX} bytes"
NO_PARTITION = f"the partition must be a number from 0 to {PARTITION_MAX}"
NO_OFFSET = f"the offset must be a number from 0 to {OFFSET_MAX}"
CONTRADICTED = "the position appears more than once, with different offsets"

#: Actions that write: a new position, a step forward, and a step back if that was requested.
NEW, FORWARD, BACK = "new", "forward", "back"
#: Actions that write nothing: the target has the same offset, the source has a lower one, or the target's log partition
#: lost data and accepts no commits.
SAME, LOWER, LOST = "same", "lower", "lost"

WRITTEN = (NEW, FORWARD, BACK)
KEPT = (SAME, LOWER, LOST)


class Row(NamedTuple):
    """A row as stored, before it is checked: four texts, each of which is None if it is missing."""

    group: str | None
    topic: str | None
    partition: str | None
    offset: str | None


class Position(NamedTuple):
    """A row that can be committed."""

    group: str
    key: TopicPartition
    offset: int


def read_row(row: Row) -> Position | str:
    """Returns the position in a row, or the reason why the row cannot be committed."""
    group, topic, partition, offset = row
    if not group:
        return NO_ROW if row == (None, None, None, None) else NO_GROUP
    if not topic:
        return NO_TOPIC
    if _is_too_long(group):
        return GROUP_TOO_LONG
    if _is_too_long(topic):
        return TOPIC_TOO_LONG
    if partition is None or not _PARTITION(partition) or (number := int(partition)) > PARTITION_MAX:
        return NO_PARTITION
    if offset is None or not _OFFSET(offset) or (committed := int(offset)) > OFFSET_MAX:
        return NO_OFFSET
    return Position(group, TopicPartition(topic, number), committed)


def _is_too_long(name: str) -> bool:
    return 4 * len(name) > NAME_BYTES_MAX and len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX


class Sorted(NamedTuple):
    """Rows, divided into positions and refusals.

    Attributes:
        offsets: the positions of each group.
        refused: the rows that are not positions, or that contradict another row; each with the reason.
    """

    offsets: dict[str, dict[TopicPartition, int]]
    refused: list[tuple[Row, str]]


def sort_rows(rows: Iterable[Row]) -> Sorted:
    """Divides rows into positions and refused rows.

    If a position appears more than once with different offsets, all its rows are refused, because it is unknown which
    offset is right.
    """
    seen: dict[tuple[str, TopicPartition], list[tuple[Row, int]]] = {}
    sorted_rows = Sorted({}, [])
    for row in rows:
        read = read_row(row)
        if isinstance(read, str):
            sorted_rows.refused.append((row, read))
        else:
            seen.setdefault((read.group, read.key), []).append((row, read.offset))
    for (group, key), found in seen.items():
        if any(offset != found[0][1] for _, offset in found):
            sorted_rows.refused.extend((row, CONTRADICTED) for row, _ in found)
        else:
            sorted_rows.offsets.setdefault(group, {})[key] = found[0][1]
    return sorted_rows


def action_of(offset: int, current: int | None, *, overwrite: bool = False, is_lost: bool = False) -> str:
    """Returns the action to take for a position.

    Args:
        offset: the offset of the source.
        current: the offset of the target; None if the target has none.
        overwrite: whether offsets may also be lowered.
        is_lost: whether the log partition of the target has lost data, and therefore accepts no commits.
    """
    if offset == current:
        return SAME
    if current is None:
        action = NEW
    elif current < offset:
        action = FORWARD
    else:
        action = BACK if overwrite else LOWER
    return LOST if is_lost and action in WRITTEN else action
