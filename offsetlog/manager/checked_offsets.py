"""Checks the arguments of managers that are written in Python, by the rules of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offsetlog._native.buffers import OFFSET_MISSING
from offsetlog._native.codec import utf16_units
from offsetlog.errors import (
    ArgumentTypeError,
    GroupError,
    InvalidArgumentError,
    MetadataTooLargeError,
    OffsetError,
    PartitionError,
    StringTooLongError,
    TopicError,
)
from offsetlog.shown_values import shown
from offsetlog.types import Committed, Key, OffsetAndMetadata, TopicPartition, key_of

_STRING_BYTES_MAX = 32_767
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


def _checked_name(what: str, name: object, error: type[InvalidArgumentError]) -> str:
    if not isinstance(name, str):
        raise ArgumentTypeError(f"the {what} must be a str, not {type(name).__name__}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise error(f"the {what} {name!r} cannot be written as UTF-8") from None
    if size > _STRING_BYTES_MAX:
        raise StringTooLongError(f"the {what} has {size} bytes; the limit is {_STRING_BYTES_MAX}")
    return name


def checked_group(group: object) -> str:
    """Returns the name of a group.

    Raises:
        GroupError: the name cannot be written as UTF-8.
        ArgumentTypeError, StringTooLongError.
    """
    return _checked_name("group", group, GroupError)


def _checked_number(
    what: str, value: object, low: int, high: int, error: type[InvalidArgumentError]
) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"the {what} must be an int, not {type(value).__name__}")
    if not low <= value <= high:
        raise error(f"the {what} must be from {low} to {high}, not {shown(value)}")
    return value


def checked_key(key: object) -> TopicPartition:
    """Returns the key as a TopicPartition.

    Raises:
        TopicError, PartitionError, ArgumentTypeError, StringTooLongError.
    """
    named = key_of(key)
    if named is None:
        raise ArgumentTypeError(
            f"a key must be a TopicPartition or a tuple of topic and partition, not {shown(key)}", item=key
        )
    topic = _checked_name("topic", named[0], TopicError)
    if not topic:
        raise TopicError("the topic must not be empty", item=key)
    number = _checked_number("partition", named[1], 0, _INT32_MAX, PartitionError)
    return TopicPartition(topic, number)


def _checked_value(value: Any, metadata_max_units: int) -> OffsetAndMetadata:
    if value is None:
        raise ArgumentTypeError(OFFSET_MISSING)
    if not isinstance(value, tuple):
        offset = _checked_number("offset", value, 0, _INT64_MAX, OffsetError)
        return OffsetAndMetadata(offset)
    if not 1 <= len(value) <= len(OffsetAndMetadata._fields):
        raise ArgumentTypeError(f"a position must be an int or an OffsetAndMetadata, not {shown(value)}")
    given = OffsetAndMetadata(*value)
    _checked_number("offset", given.offset, 0, _INT64_MAX, OffsetError)
    _checked_name("metadata", given.metadata, InvalidArgumentError)
    units = utf16_units(given.metadata)
    if units > metadata_max_units:
        text = f"the metadata has {units} UTF-16 units; the limit is {metadata_max_units}"
        raise MetadataTooLargeError(text)
    _checked_number("leader epoch", given.leader_epoch, -1, _INT32_MAX, InvalidArgumentError)
    for name in ("commit_timestamp", "expire_timestamp"):
        _checked_number(name, getattr(given, name), -1, _INT64_MAX, InvalidArgumentError)
    return given


def checked_offsets(
    offsets: Mapping[Key, Committed], metadata_max_units: int
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the checked offsets of a commit, each value as an OffsetAndMetadata.

    Args:
        offsets: the value of each key, which is a topic and a partition.
        metadata_max_units: the largest number of UTF-16 units in the metadata of one position.

    Raises:
        InvalidArgumentError: the mapping is empty.  If a key or a value is wrong, the error is of
            a subclass, and its attribute `item` is the key.
    """
    if not isinstance(offsets, Mapping):
        raise ArgumentTypeError(f"the offsets must be a mapping, not {type(offsets).__name__}")
    if not offsets:
        raise InvalidArgumentError("a commit needs at least one position")
    checked: dict[TopicPartition, OffsetAndMetadata] = {}
    for key, value in offsets.items():
        try:
            checked[checked_key(key)] = _checked_value(value, metadata_max_units)
        except InvalidArgumentError as failure:
            failure.item = key
            raise
    return checked


def checked_timeout(seconds: object) -> None:
    """Checks that a timeout is None or a number of seconds of at least 0.

    Raises:
        InvalidArgumentError, ArgumentTypeError.
    """
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        kind = type(seconds).__name__
        raise ArgumentTypeError(f"the timeout must be a number of seconds or None, not {kind}")
    if not seconds >= 0:
        raise InvalidArgumentError(f"the timeout must be at least 0 seconds, not {seconds!r}")


def checked_expected(
    expected: object, committed: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[TopicPartition, int | None]:
    """Returns the checked expectations of a commit; an empty mapping if none are given.

    Args:
        expected: the expected offset of each key; None as the offset means that the key must have
            no position.  None instead of a mapping means that nothing is expected.
        committed: the positions that the commit writes.  Only their keys may occur in `expected`.

    Raises:
        InvalidArgumentError or a subclass: the mapping, a key or an offset is invalid, or a key is
            not among the positions that the commit writes.
    """
    if expected is None:
        return {}
    if not isinstance(expected, Mapping):
        raise ArgumentTypeError(
            f"expected offsets must be a mapping, not {type(expected).__name__}"
        )
    checked: dict[TopicPartition, int | None] = {}
    for given, value in expected.items():
        key = checked_key(given)
        if key not in committed:
            text = f"an offset is expected for {key}, which the commit does not write"
            advice = "expect only positions that the commit writes"
            raise InvalidArgumentError(f"{text}; {advice}", item=given)
        offset = (
            value if value is None else _checked_number("offset", value, 0, _INT64_MAX, OffsetError)
        )
        checked[key] = offset
    return checked
