"""Parses sizes (500K, 64MiB), and times for all groups (7d) or for some groups (g=7d)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from offsetlog.errors import InvalidArgumentError

Time = TypeVar("Time")

_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt]?)(?:ib|b)?", re.IGNORECASE)


def parse_times(texts: list[str], what: str, parse: Callable[[str], Time]) -> tuple[Time | None, dict[str, Time]]:
    """Parses times such as 7d, g=7d or g-*=7d; returns the time for all groups (or None), and the times by group.

    Args:
        texts: the arguments, each `[GROUP=]TIME`.
        what: the plural name of the arguments, for error messages.
        parse: converts the text of a time to a value.

    Raises:
        InvalidArgumentError: an argument is not a time, or two arguments are for the same groups.
    """
    everybodys: list[Time] = []
    groups: dict[str, Time] = {}
    for text in texts:
        group, equals, time = text.rpartition("=")
        value = parse(time)
        if not equals:
            everybodys.append(value)
        elif group in groups:
            raise InvalidArgumentError(f"{group!r} has two {what}; give only one")
        else:
            groups[group] = value
    if len(everybodys) > 1:
        raise InvalidArgumentError(f"there are two {what} for all groups; give only one")
    return everybodys[0] if everybodys else None, groups


def parse_size(text: str) -> int:
    """Returns a size such as 500K, 64MiB, 1.5G or 4096 in bytes; the units are powers of 1024.

    Raises:
        InvalidArgumentError: the text is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidArgumentError(f"{text!r} is not a size; write it as 4096, 500K, 64MiB or 1.5G")
    return round(float(match[1]) * _BYTES[match[2].lower()])
