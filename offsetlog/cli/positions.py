"""Parses TOPIC:PARTITION=OFFSET, and its parts, as a user types them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from offsetlog.directory.partition_list import parse_numbers
from offsetlog.errors import InvalidArgumentError
from offsetlog.types import OffsetAndMetadata, TopicPartition

_NUMBER = re.compile(r"[0-9]+")


def _number(text: str, what: str, whole: str) -> int:
    if text.startswith("-") and _NUMBER.fullmatch(text[1:]):
        raise InvalidArgumentError(f"{whole!r}: the {what} {text} is negative; it must be 0 or more")
    if not _NUMBER.fullmatch(text):
        raise InvalidArgumentError(f"{whole!r}: the {what} {text!r} is not a number")
    return int(text)


def parse_partition(text: str) -> TopicPartition:
    """Parses TOPIC:PARTITION; raises InvalidArgumentError.  The last colon ends the topic."""
    topic, colon, number = text.rpartition(":")
    if not colon or not topic:
        raise InvalidArgumentError(f"{text!r} is not TOPIC:PARTITION, such as orders:0")
    return TopicPartition(topic, _number(number, "partition", text))


def parse_selection(text: str) -> str | TopicPartition:
    """Parses TOPIC or TOPIC:PARTITION; raises InvalidArgumentError."""
    if not text:
        raise InvalidArgumentError("the topic must not be empty")
    return parse_partition(text) if ":" in text else text


def is_selected(key: TopicPartition, selection: set[str | TopicPartition]) -> bool:
    """Returns whether a partition is selected; an empty selection selects all."""
    return not selection or key in selection or key.topic in selection


def _assignment(text: str, form: str) -> tuple[TopicPartition, str]:
    place, equals, value = text.rpartition("=")
    if not equals or ":" not in place:
        raise InvalidArgumentError(f"{text!r} is not {form}")
    return parse_partition(place), value


def parse_offsets(texts: Iterable[str], metadata: str, leader_epoch: int) -> dict[TopicPartition, OffsetAndMetadata]:
    """Parses the offsets to commit, each TOPIC:PARTITION=OFFSET.

    Raises:
        InvalidArgumentError: a text has another form, or a partition appears more than once.
    """
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for text in texts:
        key, value = _assignment(text, "TOPIC:PARTITION=OFFSET")
        if key in found:
            raise InvalidArgumentError(f"{text!r} names {key.topic}:{key.partition} a second time")
        found[key] = OffsetAndMetadata(_number(value, "offset", text), metadata, leader_epoch)
    return found


def parse_log_partitions(text: str | None) -> list[int] | None:
    """Parses log partitions such as 0,3-5; returns None if the option is not given.  Raises InvalidArgumentError."""
    if text is None:
        return None
    try:
        numbers = parse_numbers(text)
    except ValueError:
        raise InvalidArgumentError(
            f"--log-partition {text!r} is not an ascending list of partitions such as '3' or '0,3-5'"
        ) from None
    if not numbers:
        raise InvalidArgumentError("--log-partition names no partition; give a list such as '3' or '0,3-5'")
    return sorted(numbers)


def parse_expected(texts: Iterable[str]) -> dict[TopicPartition, int | None]:
    """Parses expected offsets, each TOPIC:PARTITION=OFFSET or TOPIC:PARTITION=none.  Raises InvalidArgumentError."""
    found: dict[TopicPartition, int | None] = {}
    for text in texts:
        key, value = _assignment(text, "TOPIC:PARTITION=OFFSET, or TOPIC:PARTITION=none")
        found[key] = None if value == "none" else _number(value, "offset", text)
    return found
