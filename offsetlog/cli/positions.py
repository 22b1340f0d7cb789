"""TOPIC:PARTITION=OFFSET and its parts, as they are written on a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from offsetlog.directory.partition_list import parse_numbers
from offsetlog.errors import InvalidArgumentError
from offsetlog.types import OffsetAndMetadata, TopicPartition

_NUMBER = re.compile(r"[0-9]+")


def _number(text: str, what: str, whole: str) -> int:
    if text.startswith("-") and _NUMBER.fullmatch(text[1:]):
        raise InvalidArgumentError(f"{whole!r}: the {what} {text} is negative; it must be from 0")
    if not _NUMBER.fullmatch(text):
        raise InvalidArgumentError(f"{whole!r}: the {what} {text!r} is not a number")
    return int(text)


def parse_partition(text: str) -> TopicPartition:
    """Returns TOPIC:PARTITION; raises InvalidArgumentError.  A topic ends at the last colon."""
    topic, colon, number = text.rpartition(":")
    if not colon or not topic:
        raise InvalidArgumentError(f"{text!r} is not TOPIC:PARTITION")
    return TopicPartition(topic, _number(number, "partition", text))


def parse_selection(text: str) -> str | TopicPartition:
    """Returns TOPIC, or TOPIC:PARTITION; raises InvalidArgumentError."""
    if not text:
        raise InvalidArgumentError("the topic must not be empty")
    return parse_partition(text) if ":" in text else text


def is_selected(key: TopicPartition, selection: set[str | TopicPartition]) -> bool:
    """Returns whether a partition is among those that were named; without names all are."""
    return not selection or key in selection or key.topic in selection


def _assignment(text: str, form: str) -> tuple[TopicPartition, str]:
    place, equals, value = text.rpartition("=")
    if not equals or ":" not in place:
        raise InvalidArgumentError(f"{text!r} is not {form}")
    return parse_partition(place), value


def parse_offsets(texts: Iterable[str], metadata: str, leader_epoch: int) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns what TOPIC:PARTITION=OFFSET... commits.

    Raises:
        InvalidArgumentError: one is not of that form, or names a partition again.
    """
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for text in texts:
        key, value = _assignment(text, "TOPIC:PARTITION=OFFSET")
        if key in found:
            raise InvalidArgumentError(f"{text!r} names {key.topic}:{key.partition} a second time")
        found[key] = OffsetAndMetadata(_number(value, "offset", text), metadata, leader_epoch)
    return found


def parse_log_partitions(text: str | None) -> list[int] | None:
    """Returns the log partitions of an option as 0,3-5, None where it is not given; raises InvalidArgumentError."""
    if text is None:
        return None
    try:
        numbers = parse_numbers(text)
    except ValueError:
        raise InvalidArgumentError(
            f"--log-partition {text!r} is no list of partitions; one is written 3, or 0,3-5 in ascending order"
        ) from None
    if not numbers:
        raise InvalidArgumentError("--log-partition names no partition; one is written 3, or 0,3-5")
    return sorted(numbers)


def parse_expected(texts: Iterable[str]) -> dict[TopicPartition, int | None]:
    """Returns what TOPIC:PARTITION=OFFSET... expects; "none" stands for no offset.  Raises InvalidArgumentError."""
    found: dict[TopicPartition, int | None] = {}
    for text in texts:
        key, value = _assignment(text, "TOPIC:PARTITION=OFFSET, or TOPIC:PARTITION=none")
        found[key] = None if value == "none" else _number(value, "offset", text)
    return found
